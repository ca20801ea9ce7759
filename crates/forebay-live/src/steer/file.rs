//! Which descriptors of a process are of a file, and whether they can be steered.
//!
//! Source:     proc(5): what `/proc/PID/fd`, `fdinfo` and `maps` show.
//! Behaviour:  the descriptors whose file has the device and inode number of the events. Those past
//!             the page cache have no window, and those for writing alone need none. A file that is
//!             mapped, and whose descriptor was closed, still has a window, but no number by which
//!             it could be reached.
//! Differs:    nothing.
//! Not for:    file systems whose files have another number for stat(2) than inside the kernel
//!             (btrfs, overlay): no descriptor matches, and the file counts as out of reach.

use std::io;

use rustix::fs::{AtFlags, CWD, OFlags, Statx, StatxFlags, statx};

use super::User;
use crate::knob::{OpenFile, started};
use crate::number::{DevNumber, FileKey};
use crate::tree::{Tree, Unread};

/// How a process has a file open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Descriptors that have a window.
    pub descriptors: Vec<OpenFile>,
    /// Its size in bytes, if a descriptor was found.
    pub size: Option<u64>,
    /// Whether a descriptor reads past the page cache.
    pub direct: bool,
}

/// Why nothing is known of a process's files.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The process has ended.
    #[error("process {0} has ended")]
    Exited(u32),
    /// We may not look.
    #[error("the files of process {0} may not be seen: it takes its user or CAP_SYS_PTRACE")]
    Denied(u32),
    /// It is mapped, and its descriptor was closed.
    #[error(
        "{0} is mapped and its descriptor closed, so that its window cannot be reached; keeping \
         the descriptor open, or `device_default = true` in the policy file for what is opened \
         next, would help"
    )]
    Closed(User),
    /// No descriptor is of the file.
    #[error("{0}: no descriptor is of that file any more")]
    None(User),
    /// It is read past the page cache.
    #[error("{0} is read past the page cache (O_DIRECT), which has no window")]
    Direct(User),
}

/// The descriptors of a user.
pub fn held(user: &User, tree: &Tree) -> Result<Held, Unreachable> {
    let User { file, process } = *user;
    let folder = format!("/proc/{process}/fd");
    let names = tree.names(&folder).map_err(|unread| why(process, &unread))?;
    let Some(started) = started(process) else { return Err(Unreachable::Exited(process)) };
    let mut held = Held::default();
    for fd in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let shown = tree.text(&format!("/proc/{process}/fdinfo/{fd}")).unwrap_or_default();
        // Since Linux 5.14 the number is shown, so that no other file is looked at.
        if field(&shown, "ino:").is_some_and(|ino| ino.parse() != Ok(file.ino)) {
            continue;
        }
        let Some(found) = cached(tree, &format!("{folder}/{fd}")) else { continue };
        let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
        if (FileKey { dev, ino: found.stx_ino }) != file {
            continue;
        }
        held.size = Some(found.stx_size);
        let flags = flags(&shown).unwrap_or(OFlags::empty());
        if flags.contains(OFlags::DIRECT) {
            held.direct = true;
        } else if !flags.intersects(OFlags::PATH | OFlags::WRONLY)
            && held.descriptors.len() < DESCRIPTORS_MAX
        {
            held.descriptors.push(OpenFile { pid: process, started, fd, file });
        }
    }
    match held.descriptors.is_empty() {
        false => Ok(held),
        true if held.direct => Err(Unreachable::Direct(*user)),
        true if is_mapped(user, tree) => Err(Unreachable::Closed(*user)),
        true => Err(Unreachable::None(*user)),
    }
}

fn why(process: u32, unread: &Unread) -> Unreachable {
    if unread.source.kind() == io::ErrorKind::PermissionDenied {
        Unreachable::Denied(process)
    } else {
        Unreachable::Exited(process)
    }
}

/// What is known of a file here: a server that does not answer would hold us up.
fn cached(tree: &Tree, path: &str) -> Option<Statx> {
    let what = StatxFlags::INO | StatxFlags::SIZE;
    statx(CWD, tree.place(path), AtFlags::STATX_DONT_SYNC, what).ok()
}

/// A field of a descriptor's `fdinfo`.
fn field<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// How a descriptor was opened, in octal digits.
fn flags(shown: &str) -> Option<OFlags> {
    u32::from_str_radix(field(shown, "flags:")?, 8).ok().map(OFlags::from_bits_retain)
}

/// Whether a mapping is of the file: `begin-end rwxp offset MAJ:MIN inode path`, the numbers of
/// the device in hexadecimal digits.
fn is_mapped(user: &User, tree: &Tree) -> bool {
    let Ok(text) = tree.text(&format!("/proc/{}/maps", user.process)) else { return false };
    let FileKey { dev, ino } = user.file;
    let device = format!("{:02x}:{:02x}", dev.major, dev.minor);
    let ino = ino.to_string();
    text.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some(&device) && words.next() == Some(&ino)
    })
}

/// The most descriptors of one process and file that are steered.
const DESCRIPTORS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn of(path: &std::path::Path) -> User {
        let found = std::fs::metadata(path).unwrap();
        let file = FileKey { dev: DevNumber::from_stat(found.dev()), ino: found.ino() };
        User { file, process: std::process::id() }
    }

    #[test]
    fn all_descriptors_of_a_file_are_found_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let user = of(&path);
        let tree = Tree::machine();
        assert!(matches!(held(&user, &tree), Err(Unreachable::None(_))));
        let kept = [File::open(&path).unwrap(), File::open(&path).unwrap()];
        let found = held(&user, &tree).unwrap();
        assert_eq!((found.descriptors.len(), found.size, found.direct), (2, Some(5), false));
        assert!(found.descriptors.iter().all(|of| of.file == user.file && of.started > 0));
        drop(kept);
        assert!(matches!(held(&user, &tree), Err(Unreachable::None(_))));
    }

    #[test]
    fn a_process_that_has_ended_is_no_error_of_ours() {
        let user = User { process: 0x3fff_fff0, ..of(std::path::Path::new("/")) };
        let error = held(&user, &Tree::machine()).unwrap_err();
        assert!(matches!(error, Unreachable::Exited(_)), "{error}");
    }

    #[test]
    fn flags_are_octal_and_a_number_that_is_not_shown_is_none() {
        let shown = "pos:\t0\nflags:\t0100002\nmnt_id:\t29\nino:\t103\n";
        assert_eq!((field(shown, "ino:"), field(shown, "size:")), (Some("103"), None));
        assert_eq!(flags(shown), Some(OFlags::RDWR | OFlags::from_bits_retain(0o100_000)));
        assert_eq!(flags("flags:\t9\n"), None);
    }
}
