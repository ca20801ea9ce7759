//! Attributes of a file besides its content: owner, attributes, mode, times; and nodes without
//! content.
//!
//! The order matters: a change of owner removes set-user-id and capabilities, and a mode may forbid
//! its owner the remaining operations.

use rustix::fd::BorrowedFd;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::Settings;
use crate::fault::Cause;
use crate::node::{Kind, Node, Xattr};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;

/// The marks of one node.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    node: &'a Node,
    xattrs: &'a [Xattr],
    settings: Settings,
    /// What this caller or this file system cannot have.
    pub(super) skipped: Vec<Cause>,
    /// Extended attributes that were refused.
    pub(super) lost: Vec<Cause>,
}

impl<'a> Marks<'a> {
    pub(super) const fn new(node: &'a Node, xattrs: &'a [Xattr], settings: Settings) -> Self {
        Self { node, xattrs, settings, skipped: Vec::new(), lost: Vec::new() }
    }

    /// Marks an open file or directory.
    pub(super) fn give_open(&mut self, file: BorrowedFd<'_>) -> Result<(), Cause> {
        if let Some((user, group)) = self.owner()? {
            let found = rustix::fs::fstat(file).map_err(owner_error)?;
            // Most files are root's, as what root makes is. A change writes the inode once more.
            if (found.st_uid, found.st_gid) != (user.as_raw(), group.as_raw()) {
                rustix::fs::fchown(file, Some(user), Some(group)).map_err(owner_error)?;
            }
        }
        for xattr in self.given_xattrs() {
            let (name, value) = (&xattr.name[..], &xattr.value[..]);
            let given = rustix::fs::fsetxattr(file, name, value, XattrFlags::empty());
            self.note_xattr(name, given);
        }
        let mode = self.mode(|| rustix::fs::fstat(file))?;
        rustix::fs::fchmod(file, mode).map_err(mode_error)?;
        match self.times() {
            Some(times) => rustix::fs::futimens(file, &times).map_err(time_error),
            None => Ok(()),
        }
    }

    /// Marks what cannot be opened for reading, and was made just now: a link or a special file.
    ///
    /// Another user that can write to the directory may have replaced the name, for example by a
    /// hard link to a file of theirs. It is therefore opened once, and all attributes are set on
    /// the opened file.
    pub(super) fn give(&mut self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Cause> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(seen_error)?;
        let found = rustix::fs::fstat(&file).map_err(seen_error)?;
        let type_of = FileType::from_raw_mode(found.st_mode);
        if self.file_type() != Some(type_of) || found.st_nlink > 1 {
            return Err(Cause::system("find what was made under its name", Errno::STALE));
        }
        if let Some((user, group)) = self.owner()? {
            rustix::fs::chownat(&file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)
                .map_err(owner_error)?;
        }
        // Other calls refuse such a descriptor, but not this path, which ends at the file itself
        // even if that is a link.
        let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
        for xattr in self.given_xattrs() {
            let (attribute, value) = (&xattr.name[..], &xattr.value[..]);
            let given = rustix::fs::setxattr(&path[..], attribute, value, XattrFlags::empty());
            self.note_xattr(attribute, given);
        }
        if self.node.kind != Kind::Symlink {
            let mode = self.mode(|| rustix::fs::fstat(&file))?;
            rustix::fs::chmod(&path[..], mode).map_err(mode_error)?;
        }
        match self.times() {
            Some(times) => {
                rustix::fs::utimensat(rustix::fs::CWD, &path[..], &times, AtFlags::empty())
                    .map_err(time_error)
            }
            None => Ok(()),
        }
    }

    /// The type of a node whose attributes are set by name; none for one that is open.
    const fn file_type(&self) -> Option<FileType> {
        match self.node.kind {
            Kind::Symlink => Some(FileType::Symlink),
            Kind::BlockDevice => Some(FileType::BlockDevice),
            Kind::CharDevice => Some(FileType::CharacterDevice),
            Kind::Fifo => Some(FileType::Fifo),
            Kind::Socket => Some(FileType::Socket),
            Kind::File | Kind::Directory => None,
        }
    }

    /// Makes a device, pipe or socket and marks it; returns whether it may be made.
    pub(super) fn make_special(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<bool, Cause> {
        let (kind, what) = match self.node.kind {
            Kind::BlockDevice => (FileType::BlockDevice, "make the block device"),
            Kind::CharDevice => (FileType::CharacterDevice, "make the character device"),
            Kind::Fifo => (FileType::Fifo, "make the pipe"),
            Kind::Socket => (FileType::Socket, "make the socket"),
            Kind::File | Kind::Directory | Kind::Symlink => return Ok(false),
        };
        let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
        if is_device && self.settings.safe {
            self.skipped.push(Cause::Unsafe("the device"));
            return Ok(false);
        }
        let (major, minor) = self.node.device;
        let device = rustix::fs::makedev(major, minor);
        match rustix::fs::mknodat(directory, name, kind, Mode::RUSR | Mode::WUSR, device) {
            Ok(()) => {}
            Err(error @ (Errno::PERM | Errno::OPNOTSUPP)) => {
                self.skipped.push(Cause::system(what, error));
                return Ok(false);
            }
            Err(error) => return Err(Cause::system(what, error)),
        }
        self.give(directory, name)?;
        Ok(true)
    }

    fn owner(&self) -> Result<Option<(Uid, Gid)>, Cause> {
        if !self.settings.owners {
            return Ok(None);
        }
        for number in [self.node.uid, self.node.gid] {
            // To the call it means that the owner stays.
            if number == u32::MAX {
                return Err(Cause::Owner(number));
            }
        }
        Ok(Some((Uid::from_raw(self.node.uid), Gid::from_raw(self.node.gid))))
    }

    /// The mode; what runs as its owner does so only if it has the owner that was meant.
    fn mode(&mut self, found: impl Fn() -> Result<Stat, Errno>) -> Result<Mode, Cause> {
        let node = self.node;
        let mut permissions = node.permissions & 0o7777;
        let is_special = permissions & (SET_USER_ID | SET_GROUP_ID) != 0;
        if is_special {
            if self.settings.safe {
                permissions &= !(SET_USER_ID | SET_GROUP_ID);
                self.skipped.push(Cause::Unsafe("set-user-id or set-group-id"));
            } else if node.kind != Kind::Directory {
                let found = found().map_err(mode_error)?;
                let others = [
                    (SET_USER_ID, found.st_uid != node.uid),
                    (SET_GROUP_ID, found.st_gid != node.gid),
                ];
                for (bit, is_other) in others {
                    if is_other && permissions & bit != 0 {
                        permissions &= !bit;
                        let what = "keep set-user-id or set-group-id for another owner";
                        self.skipped.push(Cause::system(what, Errno::PERM));
                    }
                }
            }
        }
        Ok(Mode::from_raw_mode(permissions.into()))
    }

    /// The time of the last change, which is also the only known one of the last access.
    fn times(&self) -> Option<Timestamps> {
        let time = self.node.modified?;
        // Higher numbers have special meanings.
        let nanos = time.nanos.min(999_999_999);
        let time = Timespec { tv_sec: time.seconds, tv_nsec: nanos.into() };
        Some(Timestamps { last_access: time, last_modification: time })
    }

    /// The attributes that are to be given.
    fn given_xattrs(&mut self) -> Vec<&'a Xattr> {
        let (safe, xattrs) = (self.settings.safe, self.xattrs);
        let is_privileged = |xattr: &&Xattr| {
            safe && (xattr.name.starts_with(b"security.") || xattr.name.starts_with(b"trusted."))
        };
        let (left_out, given): (Vec<_>, Vec<_>) = xattrs.iter().partition(is_privileged);
        if !left_out.is_empty() {
            self.skipped.push(Cause::Unsafe("capabilities or other privileged attributes"));
        }
        given
    }

    /// A file is worth having without an attribute, whatever the reason: the value is invalid, the
    /// target has no room for it, the caller no right or the file system no attributes.
    fn note_xattr(&mut self, name: &[u8], given: Result<(), Errno>) {
        if let Err(error) = given {
            self.lost.push(Cause::Xattr { name: name.to_vec(), source: error.into() });
        }
    }
}

fn seen_error(error: Errno) -> Cause {
    Cause::system("look at what was made", error)
}

fn owner_error(error: Errno) -> Cause {
    Cause::system("give it its owner", error)
}

fn mode_error(error: Errno) -> Cause {
    Cause::system("give it its mode", error)
}

fn time_error(error: Errno) -> Cause {
    Cause::system("give it its time", error)
}
