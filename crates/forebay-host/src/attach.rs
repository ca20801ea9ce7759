//! Mounts a FUSE file system on a folder, and unmounts it.
//!
//! ```text
//!   with privileges      /dev/fuse -- mount(2)                      --> descriptor of the session
//!   without privileges   fusermount3 sends it through a socket      --> descriptor of the session
//! ```
//!
//! The crate fuser can mount too. But fuser 0.18 treats a session that has ended as mounted, and
//! then unmounts whatever is mounted on the folder by that time. It therefore only gets the
//! descriptor.

use std::ffi::CString;
use std::fs;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub(crate) struct AttachOptions {
    /// The source that the list of mounts shows.
    pub(crate) source: String,
    /// What its type is in that list, behind `fuse.`.
    pub(crate) kind: &'static str,
    /// It can be written.
    pub(crate) writable: bool,
    /// Users other than the mounting user may use it.
    pub(crate) allow_other: bool,
    /// Set-user-id bits and device nodes take effect.
    pub(crate) trusted: bool,
}

/// Identifies the file system mounted on a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountIdentity {
    /// A number that no other mount gets until the machine restarts.
    Mount(u64),
    /// A device number, which a later mount can get.
    Device(u32, u32),
}

/// Why a file system is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// `/dev/fuse` cannot be opened.
    #[error("cannot open {DEVICE}: {why}")]
    Device {
        /// The system's error.
        why: io::Error,
    },
    /// The system does not mount it.
    #[error("cannot mount on '{}': {why}", folder.display())]
    Mount {
        /// The mount point.
        folder: PathBuf,
        /// The system's error.
        why: io::Error,
    },
}

/// Mounts on a folder.
pub(crate) fn attach(folder: &Path, options: &AttachOptions) -> Result<OwnedFd, AttachError> {
    let failed = |why| AttachError::Mount { folder: folder.to_owned(), why };
    if !fs::metadata(folder).map_err(failed)?.is_dir() {
        return Err(failed(io::Error::other("it is not a folder")));
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(DEVICE, flags, Mode::empty()) {
        Ok(device) => match mount(folder, &device, options) {
            Ok(()) => Ok(device),
            Err(Errno::PERM) => by_helper(folder, options).map_err(failed),
            Err(error) => Err(failed(error.into())),
        },
        // The helper opens it as the calling user, so it would fail too.
        Err(error) => Err(AttachError::Device { why: error.into() }),
    }
}

/// What this machine offers for FUSE mounts.
#[derive(Debug)]
pub struct FuseSupport {
    /// Whether this user can open `/dev/fuse`.
    pub device: io::Result<()>,
    /// The path of a set-user-id fusermount3, if there is one.
    pub helper: Option<PathBuf>,
    /// Whether unprivileged users may mount with `allow_other`.
    pub for_others: bool,
}

/// Checks what this machine offers, without a mount.
#[must_use]
pub fn fuse_support() -> FuseSupport {
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(HELPER));
    let may_mount = |place: &PathBuf| {
        fs::metadata(place).is_ok_and(|found| found.uid() == 0 && found.mode() & SET_USER_ID != 0)
    };
    let settings = fs::read_to_string(SETTINGS).unwrap_or_default();
    FuseSupport {
        device: device.map(drop).map_err(io::Error::from),
        helper: places.find(may_mount),
        for_others: settings.lines().any(|line| line.trim() == "user_allow_other"),
    }
}

/// Unmounts a folder. Open files stay usable while they are served.
pub(crate) fn detach(folder: &Path) {
    if unmount(folder, UnmountFlags::DETACH) == Err(Errno::PERM) {
        let mut command = Command::new(HELPER);
        // A failure leaves the mount, which has no server any more; nothing else can be tried.
        let _ = command.args(["-u", "-z", "-q", "--"]).arg(folder).stderr(Stdio::null()).status();
    }
}

impl MountIdentity {
    /// The identity of the mount on a folder; the server of the mount is not asked.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
        let found = statx(CWD, folder, flags, wanted).ok()?;
        if found.stx_mask & STATX_MNT_ID_UNIQUE != 0 {
            return Some(Self::Mount(found.stx_mnt_id));
        }
        Some(Self::Device(found.stx_dev_major, found.stx_dev_minor))
    }
}

fn mount(folder: &Path, device: &OwnedFd, options: &AttachOptions) -> rustix::io::Result<()> {
    let mut flags = MountFlags::NOATIME;
    if !options.writable {
        flags |= MountFlags::RDONLY;
    }
    if !options.trusted {
        flags |= MountFlags::NOSUID | MountFlags::NODEV;
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{}",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw(),
        if options.allow_other { ",allow_other" } else { "" },
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let kind = format!("fuse.{}", options.kind);
    rustix::mount::mount(&*options.source, folder, &*kind, flags, &*data)
}

/// Has fusermount3 mount.
fn by_helper(folder: &Path, options: &AttachOptions) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let way = if options.writable { "rw" } else { "ro" };
    let mut list = format!("{way},noatime,default_permissions,subtype={}", options.kind);
    list += &format!(",fsname={}", options.source.replace(',', "_"));
    for (is_set, option) in [(options.allow_other, ",allow_other"), (options.trusted, ",suid,dev")]
    {
        list += if is_set { option } else { "" };
    }
    let mut command = Command::new(HELPER);
    command.args(["-o", &list, "--"]).arg(folder).env("_FUSE_COMMFD", "0");
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    // The command holds the other end of the socket, which would keep this one open.
    drop(command);
    let missing = |why: io::Error| io::Error::new(why.kind(), format!("{HELPER}: {why}"));
    let mut child = child.map_err(missing)?;
    let received = receive(&ours);
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        // Part of its message is better than none.
        let _ = errors.read_to_string(&mut said);
    }
    child.wait()?;
    received?.ok_or_else(|| io::Error::other(format!("{HELPER} said: {}", said.trim())))
}

/// Receives a descriptor from a socket; none if the other end is closed first.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    while let Err(error) = recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return Ok(descriptors.next());
        }
    }
    Ok(None)
}

const DEVICE: &str = "/dev/fuse";

/// Mounts for unprivileged users (package fuse3).
const HELPER: &str = "fusermount3";

/// The helper's settings (package fuse3).
const SETTINGS: &str = "/etc/fuse.conf";

/// The mode bit of a program that runs as its owner.
const SET_USER_ID: u32 = 0o4_000;

/// Linux 6.8 and later (`include/uapi/linux/stat.h`).
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
