//! A place in the tree of files, and the descriptor through which the kernel asks for what is in
//! it.
//!
//! ```text
//!   who may mount     /dev/fuse -- mount(2)                               --> descriptor
//!   who may not       fusermount3, which may, sends it through a socket   --> descriptor
//! ```
//!
//! The crate that speaks the protocol can mount too. But fuser 0.18 takes a device that is gone for
//! one that is mounted, and then unmounts whatever is on the folder by that time. So it gets the
//! descriptor alone.

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

use super::MountError;

/// How it appears.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// What is shown as its source.
    pub(super) source: String,
    /// Others than who mounts may use it.
    pub(super) allow_other: bool,
    /// Set-user-id bits and device nodes count.
    pub(super) trusted: bool,
}

/// What is mounted on a folder, told from what may be mounted there later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// A number that no other mount gets until the machine is started anew.
    Mount(u64),
    /// A number that is given away again when it is free.
    Device(u32, u32),
}

/// Mounts on a folder.
pub(super) fn attach(folder: &Path, terms: &Terms) -> Result<OwnedFd, MountError> {
    let failed = |why| MountError::Mount { folder: folder.to_owned(), why };
    if !fs::metadata(folder).map_err(failed)?.is_dir() {
        return Err(failed(io::Error::other("it is not a folder")));
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(DEVICE, flags, Mode::empty()) {
        Ok(device) => match mount(folder, &device, terms) {
            Ok(()) => Ok(device),
            Err(Errno::PERM) => by_helper(folder, terms).map_err(failed),
            Err(error) => Err(failed(error.into())),
        },
        // The helper opens it as the user who calls it, so there is no other way.
        Err(error) => Err(MountError::Device { why: error.into() }),
    }
}

/// What this machine has for mounts by us; nothing is mounted for it.
#[derive(Debug)]
pub struct Attachable {
    /// Whether the kernel's end can be opened by whoever asks.
    pub device: io::Result<()>,
    /// Where the program is that mounts for users who may not, if it may.
    pub helper: Option<PathBuf>,
    /// Whether such users may let others in.
    pub for_others: bool,
}

/// Looks.
#[must_use]
pub fn attachable() -> Attachable {
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(HELPER));
    let may_mount = |place: &PathBuf| {
        fs::metadata(place).is_ok_and(|found| found.uid() == 0 && found.mode() & SET_USER_ID != 0)
    };
    let settings = fs::read_to_string(SETTINGS).unwrap_or_default();
    Attachable {
        device: device.map(drop).map_err(io::Error::from),
        helper: places.find(may_mount),
        for_others: settings.lines().any(|line| line.trim() == "user_allow_other"),
    }
}

/// Takes away what is mounted on a folder; who has files of it open keeps them as long as they are
/// answered.
pub(super) fn detach(folder: &Path) {
    if unmount(folder, UnmountFlags::DETACH) == Err(Errno::PERM) {
        let mut command = Command::new(HELPER);
        // There is nothing else to try, and nobody to tell.
        let _ = command.args(["-u", "-z", "-q", "--"]).arg(folder).stderr(Stdio::null()).status();
    }
}

impl Identity {
    /// Of what is mounted on a folder, without asking who serves it.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
        let found = statx(CWD, folder, flags, wanted).ok()?;
        if found.stx_mask & STATX_MNT_ID_UNIQUE != 0 {
            return Some(Self::Mount(found.stx_mnt_id));
        }
        Some(Self::Device(found.stx_dev_major, found.stx_dev_minor))
    }
}

fn mount(folder: &Path, device: &OwnedFd, terms: &Terms) -> rustix::io::Result<()> {
    let mut flags = MountFlags::RDONLY | MountFlags::NOATIME;
    if !terms.trusted {
        flags |= MountFlags::NOSUID | MountFlags::NODEV;
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{}",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw(),
        if terms.allow_other { ",allow_other" } else { "" },
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(&*terms.source, folder, "fuse.forebay", flags, &*data)
}

/// Has the program mount that may.
fn by_helper(folder: &Path, terms: &Terms) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut options = "ro,noatime,default_permissions,subtype=forebay".to_owned();
    options += &format!(",fsname={}", terms.source.replace(',', "_"));
    for (is_wanted, option) in [(terms.allow_other, ",allow_other"), (terms.trusted, ",suid,dev")] {
        options += if is_wanted { option } else { "" };
    }
    let mut command = Command::new(HELPER);
    command.args(["-o", &options, "--"]).arg(folder).env("_FUSE_COMMFD", "0");
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    // Its end of the socket is held here too, and would keep ours open.
    drop(command);
    let missing = |why: io::Error| io::Error::new(why.kind(), format!("{HELPER}: {why}"));
    let mut child = child.map_err(missing)?;
    let received = receive(&ours);
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        // What it says is for people; half of it is better than nothing.
        let _ = errors.read_to_string(&mut said);
    }
    child.wait()?;
    received?.ok_or_else(|| io::Error::other(format!("{HELPER} said: {}", said.trim())))
}

/// The descriptor that comes through a socket; none if the other end is closed before.
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

/// Mounts for users who may not (package fuse3).
const HELPER: &str = "fusermount3";

/// What the helper lets users do (package fuse3).
const SETTINGS: &str = "/etc/fuse.conf";

/// A program that runs as its owner.
const SET_USER_ID: u32 = 0o4_000;

/// Linux 6.8 and later (`include/uapi/linux/stat.h`).
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
