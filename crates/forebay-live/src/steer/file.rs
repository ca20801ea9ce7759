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

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::fs::{AtFlags, CWD, FileType, OFlags, Statx, StatxFlags, statx};

use super::User;
use super::temporary::{FileNow, WrittenFile};
use super::writers::Written;
use crate::kcmp::{self, Descriptor};
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
    #[error("it is mapped and its descriptor closed, so that its window cannot be reached")]
    Closed(User),
    /// No descriptor is of the file.
    #[error("no descriptor is of that file any more")]
    None(User),
    /// It is read past the page cache.
    #[error("it is read past the page cache (O_DIRECT), which has no window")]
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
        if !is_of(&found, file) {
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

/// Whether a descriptor is still of its file.
pub fn is_open(file: &OpenFile, tree: &Tree) -> bool {
    let found = cached(tree, &format!("/proc/{}/fd/{}", file.pid, file.fd));
    found.is_some_and(|found| is_of(&found, file.file))
}

/// Whether two processes hold one open file description of a file; none if it cannot be told: no
/// kcmp(2), no right to ask, or no descriptor that is left.
pub fn shares(one: &User, other: &User, tree: &Tree) -> Option<bool> {
    let [one, other] = [held(one, tree).ok()?, held(other, tree).ok()?];
    for ours in &one.descriptors {
        for theirs in &other.descriptors {
            let [ours, theirs] =
                [ours, theirs].map(|file| Descriptor { pid: file.pid, fd: file.fd });
            if kcmp::is_same(ours, theirs).ok()? {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// The descriptors of a process on a file system, but those of some files; with the bytes of all
/// their files.
pub fn held_on(
    dev: DevNumber,
    process: u32,
    but: &BTreeSet<FileKey>,
    tree: &Tree,
) -> Result<Held, Unreachable> {
    let folder = format!("/proc/{process}/fd");
    let names = tree.names(&folder).map_err(|unread| why(process, &unread))?;
    let Some(started) = started(process) else { return Err(Unreachable::Exited(process)) };
    let mut held = Held::default();
    let mut sizes: BTreeMap<FileKey, u64> = BTreeMap::new();
    for fd in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let Some(found) = cached(tree, &format!("{folder}/{fd}")) else { continue };
        let of = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
        let file = FileKey { dev: of, ino: found.stx_ino };
        let is_regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        if of != dev || !is_regular || but.contains(&file) || held.descriptors.len() >= POOL_MAX {
            continue;
        }
        let shown = tree.text(&format!("/proc/{process}/fdinfo/{fd}")).unwrap_or_default();
        let flags = flags(&shown).unwrap_or(OFlags::empty());
        if !flags.intersects(OFlags::DIRECT | OFlags::PATH | OFlags::WRONLY) {
            sizes.insert(file, found.stx_size);
            held.descriptors.push(OpenFile { pid: process, started, fd, file });
        }
    }
    held.size = Some(sizes.values().fold(0, |sum, size| sum.saturating_add(*size)));
    let pool = User::pool(dev, process);
    match held.descriptors.is_empty() {
        false => Ok(held),
        true if is_mapped(&pool, tree) => Err(Unreachable::Closed(pool)),
        true => Err(Unreachable::None(pool)),
    }
}

/// What a process has written by calls, and the size of the files that it has open for writing on a
/// device; none if it has ended or may not be seen.
pub fn written(process: u32, is_on: &dyn Fn(DevNumber) -> bool, tree: &Tree) -> Option<Written> {
    let io = tree.text(&format!("/proc/{process}/io")).ok()?;
    let bytes = field(&io, "wchar:")?.parse().ok()?;
    let folder = format!("/proc/{process}/fd");
    let names = tree.names(&folder).ok()?;
    let mut sizes: BTreeMap<FileKey, u64> = BTreeMap::new();
    for fd in names.iter().filter_map(|name| name.parse::<u32>().ok()).take(POOL_MAX) {
        let Some(found) = cached(tree, &format!("{folder}/{fd}")) else { continue };
        let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
        let is_regular = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        if !is_regular || !is_on(dev) {
            continue;
        }
        let shown = tree.text(&format!("/proc/{process}/fdinfo/{fd}")).unwrap_or_default();
        let flags = flags(&shown).unwrap_or(OFlags::empty());
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) && !flags.contains(OFlags::DIRECT) {
            sizes.insert(FileKey { dev, ino: found.stx_ino }, found.stx_size);
        }
    }
    Some(Written { bytes, size: sizes.values().fold(0, |sum, size| sum.saturating_add(*size)) })
}

/// A file that a process has open, by its latest descriptor; none if it has it no more.
pub fn written_file(user: &User, tree: &Tree) -> Option<WrittenFile> {
    let User { file, process } = *user;
    let folder = format!("/proc/{process}/fd");
    let mut fds: Vec<u32> =
        tree.names(&folder).ok()?.iter().filter_map(|name| name.parse().ok()).collect();
    fds.sort_unstable();
    for fd in fds.into_iter().rev().take(LOOKED_MAX) {
        let shown = tree.text(&format!("/proc/{process}/fdinfo/{fd}")).unwrap_or_default();
        if field(&shown, "ino:").is_some_and(|ino| ino.parse() != Ok(file.ino)) {
            continue;
        }
        let place = format!("{folder}/{fd}");
        let Some(found) = cached(tree, &place).filter(|found| is_of(found, file)) else { continue };
        let path = tree.link(&place).ok()?;
        let command = tree.text(&format!("/proc/{process}/comm")).unwrap_or_default();
        let (is_unlinked, size) = (found.stx_nlink == 0, found.stx_size);
        return Some(WrittenFile { path, fd, command: command.trim().into(), is_unlinked, size });
    }
    None
}

/// What a file that was found before is by now; none if it is neither open nor has its path.
pub fn file_now(user: &User, found: &WrittenFile, tree: &Tree) -> Option<FileNow> {
    let descriptor = format!("/proc/{}/fd/{}", user.process, found.fd);
    let path = found.path.to_string_lossy();
    let places = [descriptor.as_str(), &path].into_iter();
    let mut all = places.filter_map(|place| cached(tree, place));
    let found = all.find(|found| is_of(found, user.file))?;
    Some(FileNow { size: found.stx_size, is_unlinked: found.stx_nlink == 0 })
}

fn is_of(found: &Statx, file: FileKey) -> bool {
    let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
    (FileKey { dev, ino: found.stx_ino }) == file
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
    let what = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::TYPE | StatxFlags::NLINK;
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
        words.next() == Some(&device) && (user.is_pool() || words.next() == Some(&ino))
    })
}

/// The most descriptors of one process and file that are steered.
const DESCRIPTORS_MAX: usize = 64;

/// Descriptors that are looked through for a file that has just become dirty, the latest first.
const LOOKED_MAX: usize = 64;

/// The most descriptors of one process that are steered together.
const POOL_MAX: usize = 1_024;

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
        assert!(found.descriptors.iter().all(|of| is_open(of, &tree)));
        drop(kept);
        assert!(!found.descriptors.iter().any(|of| is_open(of, &tree)));
        assert!(matches!(held(&user, &tree), Err(Unreachable::None(_))));
    }

    #[test]
    fn a_process_shares_what_it_inherited_and_not_what_it_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let (user, tree) = (of(&path), Tree::machine());
        let kept = File::open(&path).unwrap();
        let started =
            |file: File| std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let mut children = [kept.try_clone().unwrap(), File::open(&path).unwrap()].map(started);
        let found = children
            .each_ref()
            .map(|child| shares(&user, &User { process: child.id(), ..user }, &tree));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [Some(true), Some(false)]);
        let ended = User { process: children[0].id(), ..user };
        assert_eq!(shares(&user, &ended, &tree), None);
        drop(kept);
    }

    #[test]
    fn a_pool_has_the_regular_files_of_a_file_system_but_those_that_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::write(path, "12345").unwrap();
        }
        let kept = [&paths[0], &paths[1], &paths[1], &paths[2]].map(|it| File::open(it).unwrap());
        let _folder = File::open(folder.path()).unwrap();
        let writer = File::options().append(true).open(&paths[0]).unwrap();
        let (tree, ours) = (Tree::machine(), std::process::id());
        let but = BTreeSet::from([of(&paths[2]).file]);
        let dev = of(&paths[0]).file.dev;
        let found = held_on(dev, ours, &but, &tree).unwrap();
        // Other tests of this process may have files open beside it.
        let is_ours = |file: &&OpenFile| paths.iter().any(|path| of(path).file == file.file);
        assert_eq!(found.descriptors.iter().filter(is_ours).count(), 3);
        assert!(found.size >= Some(10));
        drop((kept, writer));
    }

    #[test]
    fn what_a_process_may_write_to_is_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let dev = of(&path).file.dev;
        let all = |dev: DevNumber| {
            written(std::process::id(), &move |found| found == dev, &Tree::machine()).unwrap()
        };
        let reader = File::open(&path).unwrap();
        let before = all(dev);
        let writers = [(); 2].map(|()| File::options().append(true).open(&path).unwrap());
        // Other tests of this process write beside it, but no file as large.
        let found = all(dev);
        assert!((1 << 20..2 << 20).contains(&(found.size - before.size)), "{found:?} {before:?}");
        assert!(found.bytes >= 1 << 20);
        assert_eq!(all(DevNumber { major: 4_000, minor: 7 }).size, 0);
        drop((reader, writers));
        assert_eq!(written(0x3fff_fff0, &|_| true, &Tree::machine()), None);
    }

    #[test]
    fn a_file_that_is_written_has_a_path_and_a_size_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let (user, tree) = (of(&path), Tree::machine());
        assert_eq!(written_file(&user, &tree), None, "not open");
        let kept = File::open(&path).unwrap();
        let found = written_file(&user, &tree).unwrap();
        assert_eq!((&found.path, found.size, found.is_unlinked), (&path, 5, false));
        let now = |is_unlinked| Some(FileNow { size: 5, is_unlinked });
        assert_eq!(file_now(&user, &found, &tree), now(false));
        // Not by the descriptor any more, but by its name.
        let elsewhere = User { process: 0x3fff_fff0, ..user };
        assert_eq!(file_now(&elsewhere, &found, &tree), now(false));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file_now(&elsewhere, &found, &tree), None);
        assert_eq!(file_now(&user, &found, &tree), now(true), "it is still open");
        assert!(written_file(&user, &tree).unwrap().is_unlinked);
        drop(kept);
        assert_eq!(file_now(&user, &found, &tree), None);
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
