//! The images that are mounted on this machine, and unmounting them.
//!
//! The kernel keeps the list (`/proc/self/mountinfo`), so mounts of other processes and mounts
//! whose server has died are in it. A mount is known by its type, `fuse.forebay`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as unmount_call};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

/// An image that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedImage {
    /// The folder that it is mounted on.
    pub folder: PathBuf,
    /// The image, as far as the mount says.
    pub image: PathBuf,
    /// The user who mounted it.
    pub user: Option<u32>,
    /// Whether it is served.
    pub server: ServerState,
}

/// Whether a mount is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It answers.
    Alive,
    /// It has died: every access fails.
    Dead,
    /// It gave no answer within a second.
    Silent,
    /// The mount belongs to another user, and its server does not answer this one.
    Foreign,
    /// Another mount lies over it, so its server cannot be asked.
    Hidden,
}

impl ServerState {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Dead => "dead",
            Self::Silent => "silent",
            Self::Foreign => "foreign",
            Self::Hidden => "hidden",
        }
    }
}

/// Why an image was not unmounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// The list of mounts cannot be read.
    #[error("cannot read {LIST}: {0}")]
    List(io::Error),
    /// The folder is not there.
    #[error("cannot find '{}': {why}", folder.display())]
    Folder {
        /// As it was given.
        folder: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// No image is mounted there; something else may be.
    #[error("no image is mounted on '{}'{}", folder.display(), other(kind.as_deref()))]
    NotMounted {
        /// The folder.
        folder: PathBuf,
        /// The type of what is mounted there.
        kind: Option<String>,
    },
    /// Files of it are open, or a program runs from it.
    #[error("'{}' is in use", .0.display())]
    Busy(PathBuf),
    /// The system refused.
    #[error("cannot unmount '{}': {why}", folder.display())]
    System {
        /// The folder.
        folder: PathBuf,
        /// What the system, or the helper, said.
        why: io::Error,
    },
}

fn other(kind: Option<&str>) -> String {
    kind.map(|kind| format!(", but {kind}")).unwrap_or_default()
}

/// The images that are mounted, in the order of their mounting.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn mounted_images() -> io::Result<Vec<MountedImage>> {
    let lines = mount_lines()?;
    let images = lines.iter().enumerate().filter(|(_, line)| line.is_ours());
    let seen = images.map(|(at, line)| {
        let mut later = lines[at + 1..].iter();
        let is_hidden = later.any(|other| line.folder.starts_with(&other.folder));
        let server = if is_hidden { ServerState::Hidden } else { server_state(line) };
        let MountLine { folder, source, user, .. } = line.clone();
        MountedImage { folder, image: source, user, server }
    });
    Ok(seen.collect())
}

/// Unmounts the image or the disks on a folder: what was mounted there last. A mount whose server
/// has died is detached, open files or not, since no access to it can succeed. With `lazy` any
/// mount is: it is gone from the tree of files at once, and its server ends with the last open
/// file.
///
/// A caller who may not unmount has `fusermount3` do it, which lets users unmount what they have
/// mounted.
///
/// # Errors
///
/// If there is no such mount, it is in use, or the system refuses.
pub fn unmount_image(folder: &Path, lazy: bool) -> Result<(), UnmountError> {
    let folder =
        absolute(folder).map_err(|why| UnmountError::Folder { folder: folder.to_owned(), why })?;
    let lines = mount_lines().map_err(UnmountError::List)?;
    let top = lines.into_iter().rfind(|line| line.folder == folder);
    let Some(ours) = top.as_ref().filter(|line| line.is_ours() || line.kind == DISKS) else {
        return Err(UnmountError::NotMounted { folder, kind: top.map(|line| line.kind) });
    };
    match detached(&folder, lazy) {
        // A server that is asked and does not answer keeps its mount in use, so it is asked late.
        Err(UnmountError::Busy(_)) if server_state(ours) == ServerState::Dead => {
            detached(&folder, true)
        }
        done => done,
    }
}

fn detached(folder: &Path, lazy: bool) -> Result<(), UnmountError> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    // A mount may replace the folder's last name by a link at any time.
    match unmount_call(folder, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => by_helper(folder.to_owned(), lazy),
        Err(Errno::BUSY) => Err(UnmountError::Busy(folder.to_owned())),
        Err(error) => Err(UnmountError::System { folder: folder.to_owned(), why: error.into() }),
    }
}

/// The path from the root. The last name is not looked at, which fails where a server has died.
fn absolute(folder: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(folder) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {}
        // Of another user's mount nothing can be seen.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        found => return found,
    }
    let whole = std::path::absolute(folder)?;
    match (whole.parent(), whole.file_name()) {
        (Some(above), Some(name)) => Ok(fs::canonicalize(above)?.join(name)),
        _ => Ok(whole),
    }
}

fn by_helper(folder: PathBuf, detach: bool) -> Result<(), UnmountError> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if detach {
        command.arg("-z");
    }
    // Its words are for people; those of one language can be told apart.
    command.arg("--").arg(&folder).env("LC_ALL", "C").stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(why) => {
            let why = io::Error::new(why.kind(), format!("{HELPER}: {why}"));
            return Err(UnmountError::System { folder, why });
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    if said.ends_with("Device or resource busy") {
        return Err(UnmountError::Busy(folder));
    }
    Err(UnmountError::System { folder, why: io::Error::other(said.to_owned()) })
}

/// Sends a request that only the server can answer. Root sends it with the credentials of the user
/// who mounted: a request of anyone else does not reach the server, and returns no error if the
/// server has died.
fn server_state(line: &MountLine) -> ServerState {
    let MountLine { folder, user, group, .. } = line.clone();
    let ask = move || {
        if rustix::process::geteuid().is_root()
            && let (Some(user), Some(group)) = (user, group)
        {
            // These are the credentials of this thread alone, which ends. If the kernel refuses
            // them, the request is sent with root's own.
            let _ = become_user(user, group);
        }
        rustix::fs::statfs(&folder).map(|found| found.f_bsize)
    };
    match answer_of(ask) {
        // What the kernel says of a mount that belongs to another user, without asking its server.
        Some(Ok(0)) => ServerState::Foreign,
        Some(Ok(_)) => ServerState::Alive,
        Some(Err(Errno::NOTCONN)) => ServerState::Dead,
        Some(Err(Errno::ACCESS | Errno::PERM)) => ServerState::Foreign,
        Some(Err(_)) | None => ServerState::Silent,
    }
}

/// Runs a call that the server of a mount may have to answer, in a thread of its own; none after a
/// second. The thread then waits on, and keeps the mount in use until this process ends.
pub fn answer_of<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, answer) = mpsc::channel();
    // Without a receiver the answer came too late.
    let ask = move || drop(sender.send(question()));
    thread::Builder::new().name("forebay-ask".to_owned()).spawn(ask).ok()?;
    answer.recv_timeout(PATIENCE).ok()
}

fn become_user(user: u32, group: u32) -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// A line of the kernel's list of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountLine {
    folder: PathBuf,
    kind: String,
    source: PathBuf,
    user: Option<u32>,
    group: Option<u32>,
}

impl MountLine {
    /// `36 35 98:0 /root /folder options [field ...] - type source options`, blanks and the like
    /// as `\040`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let folder = fields.nth(4)?;
        let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = String::from_utf8_lossy(behind.next()?).into_owned();
        let (source, options) = (behind.next()?, behind.next().unwrap_or_default());
        let number = |name: &[u8]| {
            options.split(|byte| *byte == b',').find_map(|option| {
                std::str::from_utf8(option.strip_prefix(name)?).ok()?.parse().ok()
            })
        };
        let [user, group] = [&b"user_id="[..], b"group_id="].map(number);
        Some(Self { folder: unescaped(folder), kind, source: unescaped(source), user, group })
    }

    fn is_ours(&self) -> bool {
        self.kind == KIND
    }
}

fn mount_lines() -> io::Result<Vec<MountLine>> {
    let list = fs::read(LIST)?;
    Ok(list.split(|byte| *byte == b'\n').filter_map(MountLine::parse).collect())
}

/// A path without the list's escapes: a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match byte.filter(|_| *first == b'\\') {
            Some(byte) => {
                path.push(byte);
                rest = &behind[3..];
            }
            None => {
                path.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(path).into()
}

/// The kernel's list of what is mounted for this process.
const LIST: &str = "/proc/self/mountinfo";
/// The type of our mounts.
const KIND: &str = "fuse.forebay";
/// The type of a folder of disks (`forebay serve --fuse`).
const DISKS: &str = "fuse.forebay-disks";
/// Unmounts for users who may not (package fuse3).
const HELPER: &str = "fusermount3";
/// How long a server has for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let place = r"36 35 0:42 / /mnt/a\040b ro,noatime shared:7";
        let line = format!(r"{place} - fuse.forebay /img\134x ro,user_id=1000,group_id=0");
        let found = MountLine::parse(line.as_bytes()).unwrap();
        let (folder, source) = (PathBuf::from("/mnt/a b"), PathBuf::from("/img\\x"));
        let kind = KIND.to_owned();
        let (user, group) = (Some(1000), Some(0));
        assert_eq!(found, MountLine { folder, kind, source, user, group });
        let plain = MountLine::parse(b"22 1 254:0 / / rw - ext4 /dev/vda rw").unwrap();
        assert_eq!((plain.is_ours(), plain.user), (false, None));
        assert_eq!(MountLine::parse(b""), None);
        assert_eq!(MountLine::parse(b"36 35 0:42 / /mnt ro fuse.forebay"), None);
    }

    #[test]
    fn a_folder_without_an_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = unmount_image(folder.path(), false).unwrap_err();
        assert!(matches!(refused, UnmountError::NotMounted { kind: None, .. }), "{refused:?}");
        let refused = unmount_image(Path::new("/proc"), false).unwrap_err();
        assert!(
            matches!(&refused, UnmountError::NotMounted { kind: Some(kind), .. } if kind == "proc"),
            "{refused:?}"
        );
        let refused = unmount_image(&folder.path().join("none"), false).unwrap_err();
        assert!(matches!(refused, UnmountError::Folder { .. }), "{refused:?}");
    }
}
