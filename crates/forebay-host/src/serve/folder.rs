//! Exports as files of a folder, through FUSE: what a loop device can be made of.
//!
//! ```text
//!   losetup --> DIR/NAME --> kernel --> /dev/fuse --> one thread --requests--> Disk
//!                                                         ^                     |
//!                                                         '------ replies ------'
//! ```
//!
//! The kernel keeps no page of these files, so a page is in memory only once, in ours. Each open
//! file is a separate client with its own readahead, and its fsync is a FLUSH.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, SystemTime};

use forebay_core::io::IoError;
use forebay_core::serving::DiskOp;
use forebay_core::units::PAGE_SIZE;
use forebay_nbd::Export;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno as SystemErrno;
use rustix::mount::{UnmountFlags, unmount};

use super::disk::{Disk, OnEnd, Outcome, Owner};
use crate::attach::{self, AttachError, AttachOptions, MountIdentity};

/// A folder that shows exports.
#[derive(Debug)]
pub(super) struct ExportFolder {
    path: PathBuf,
    identity: Option<MountIdentity>,
    is_closed: Arc<AtomicBool>,
}

/// The folder as the FUSE protocol sees it.
struct Files {
    exports: Arc<[Export]>,
    disk: Arc<Disk>,
    /// No more requests are executed.
    is_closed: Arc<AtomicBool>,
    begun: SystemTime,
    owner: (u32, u32),
}

/// An error in the names of exports, which become names of files.
pub(super) fn wrong_name(exports: &[Export]) -> Option<String> {
    let names: Vec<&str> = exports.iter().map(|export| file_name(&export.name)).collect();
    for (place, name) in names.iter().enumerate() {
        if name.len() > NAME_MAX || name.contains(['/', '\0']) || matches!(*name, "." | "..") {
            return Some(format!("'{}' is no name of a file", name.escape_debug()));
        }
        if names[..place].contains(name) {
            return Some(format!("two files would have the name '{name}'"));
        }
    }
    None
}

/// The file of an export; the one without a name is `disk`.
fn file_name(export: &str) -> &str {
    if export.is_empty() { "disk" } else { export }
}

impl ExportFolder {
    /// Mounts on a folder. `ended` is called when it is unmounted.
    pub(super) fn attach(
        path: &Path,
        exports: &Arc<[Export]>,
        disk: &Arc<Disk>,
        ended: Box<dyn FnOnce() + Send>,
    ) -> Result<Self, AttachError> {
        let options = AttachOptions {
            source: "forebay".to_owned(),
            kind: "forebay-disks",
            writable: true,
            allow_other: false,
            trusted: false,
        };
        let device = attach::attach(path, &options)?;
        let folder = Self {
            path: path.to_owned(),
            identity: MountIdentity::of(path),
            is_closed: Arc::default(),
        };
        let files = Files {
            exports: Arc::clone(exports),
            disk: Arc::clone(disk),
            is_closed: Arc::clone(&folder.is_closed),
            begun: SystemTime::now(),
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        };
        let failed = |why| AttachError::Mount { folder: path.to_owned(), why };
        serve(files, device, ended).map_err(failed)?;
        Ok(folder)
    }

    /// Unmounts the folder. Open files give errors from now on. Returns whether there are any.
    pub(super) fn detach(&self) -> bool {
        self.is_closed.store(true, Relaxed);
        if self.identity.is_some() && MountIdentity::of(&self.path) != self.identity {
            return false;
        }
        let is_busy = unmount(&self.path, UnmountFlags::empty()) == Err(SystemErrno::BUSY);
        attach::detach(&self.path);
        is_busy
    }
}

fn serve(files: Files, device: OwnedFd, ended: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    let mut config = Config::default();
    config.n_threads = Some(1);
    let session = Session::from_fd(files, device, SessionACL::Owner, config)?;
    let run = move || {
        // How it ended makes no difference: nothing comes in any more.
        let _ = session.run();
        ended();
    };
    thread::Builder::new().name("folder".to_owned()).spawn(run).map(drop)
}

impl Files {
    /// The export of a file.
    fn export(&self, number: INodeNo) -> Option<(usize, &Export)> {
        let place = usize::try_from(number.0.checked_sub(FIRST_FILE)?).ok()?;
        Some((place, self.exports.get(place)?))
    }

    fn attributes(&self, number: INodeNo) -> Option<FileAttr> {
        let (size, kind, perm, nlink) = if number == INodeNo::ROOT {
            (0, FileType::Directory, 0o700, 2)
        } else {
            let (_, export) = self.export(number)?;
            let perm = if export.read_only { 0o400 } else { 0o600 };
            (export.size, FileType::RegularFile, perm, 1)
        };
        let (uid, gid) = self.owner;
        Some(FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            atime: self.begun,
            mtime: self.begun,
            ctime: self.begun,
            crtime: self.begun,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev: 0,
            blksize: PAGE_SIZE as u32,
            flags: 0,
        })
    }

    /// Makes the path execute a request of an open file. `end` gets the bytes and the result.
    fn request(
        &self,
        client: FileHandle,
        op: DiskOp,
        bytes: Vec<u8>,
        end: impl FnOnce(Vec<u8>, Result<(), Errno>) + Send + 'static,
    ) {
        if self.is_closed.load(Relaxed) {
            return end(bytes, Err(Errno::EIO));
        }
        let end = |bytes, result: Result<(), IoError>| end(bytes, result.map_err(errno));
        let owner = Owner::Call(OnEnd(Box::new(end)));
        let mut outcome = Outcome::default();
        self.disk.request(client.0 as u32, op, (owner, bytes), &mut outcome, |_| false);
        self.disk.dispatch(&mut outcome, true, None);
        self.disk.answer(outcome.ended);
    }
}

impl Filesystem for Files {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(TRANSFER_MAX);
        let _ = config.set_max_background(BACKGROUND);
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            // An older kernel does without.
            let _ = config.add_capabilities(flag);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let is_it = |export: &Export| name == file_name(&export.name);
        let place = self.exports.iter().position(is_it).filter(|_| parent == INodeNo::ROOT);
        let number = place.map(|place| INodeNo(place as u64 + FIRST_FILE));
        match number.and_then(|number| self.attributes(number)) {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(number) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// A disk keeps its size, and its file what else it has.
    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_there: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let found = self.attributes(number);
        let is_same_size = size.is_none() || size == found.map(|found| found.size);
        match found.filter(|_| is_same_size && (mode, user, group) == (None, None, None)) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::EPERM),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if number != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let files = (FIRST_FILE..).zip(self.exports.iter()).map(|(number, export)| {
            (INodeNo(number), FileType::RegularFile, file_name(&export.name))
        });
        let entries = (1..).zip(dots.into_iter().chain(files));
        for (next, (number, kind, name)) in entries.skip(offset as usize) {
            if reply.add(number, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.export(number) {
            Some((_, export)) if export.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY => {
                reply.error(Errno::EROFS);
            }
            Some((place, _)) => {
                let how = FopenFlags::FOPEN_DIRECT_IO
                    | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
                    | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(FileHandle(u64::from(self.disk.open(place))), how);
            }
            None => reply.error(Errno::EISDIR),
        }
    }

    // The exports are the only files, and they stay. Without these functions the kernel says that
    // they are not implemented.

    fn mknod(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.disk.close(handle.0 as u32);
        reply.ok();
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.export(number).map_or(0, |(_, export)| export.size);
        let len = u64::from(size).min(bytes.saturating_sub(offset));
        if len == 0 {
            return reply.data(&[]);
        }
        let memory = Vec::with_capacity(len as usize);
        self.request(handle, DiskOp::Read { offset, len }, memory, |bytes, result| match result {
            Ok(()) => reply.data(&bytes),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = self.export(number).map_or(0, |(_, export)| export.size);
        let len = (data.len() as u64).min(bytes.saturating_sub(offset));
        if len == 0 {
            return reply.error(Errno::ENOSPC);
        }
        let op = DiskOp::Write { offset, len, durable: false };
        self.request(handle, op, data[..len as usize].to_vec(), move |_, result| match result {
            Ok(()) => reply.written(len as u32),
            Err(error) => reply.error(error),
        });
    }

    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.request(handle, DiskOp::Flush, Vec::new(), |_, result| settle(reply, result));
    }

    /// What a loop device sends for a discard, and for zeroes.
    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let bytes = self.export(number).map_or(0, |(_, export)| export.size);
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let hole = mode.contains(FallocateFlags::PUNCH_HOLE);
        let known =
            FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(mode) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if !hole && !mode.contains(FallocateFlags::ZERO_RANGE) {
            let is_inside = offset.checked_add(length).is_some_and(|end| end <= bytes);
            return settle(reply, if is_inside { Ok(()) } else { Err(Errno::ENOSPC) });
        }
        let len = length.min(bytes.saturating_sub(offset));
        if len == 0 {
            return reply.ok();
        }
        let op = DiskOp::Zero { offset, len, hole, durable: false };
        self.request(handle, op, Vec::new(), |_, result| settle(reply, result));
    }
}

fn settle(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn errno(error: IoError) -> Errno {
    match error {
        IoError::NoSpace => Errno::ENOSPC,
        IoError::ReadOnly => Errno::EROFS,
        IoError::NoMemory => Errno::ENOMEM,
        IoError::Device | IoError::Truncated | IoError::BeyondEnd | IoError::Corrupt => Errno::EIO,
    }
}

/// The number of the first file; the folder's is 1.
const FIRST_FILE: u64 = 2;

/// Nothing of a file but its bytes changes.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Bytes of a request at most.
const TRANSFER_MAX: u32 = 1 << 20;

/// Requests without a waiting task that the kernel sends at once.
const BACKGROUND: u16 = 128;

/// Bytes of a file's name at most.
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_exports_are_names_of_files() {
        let rows: [(&[&str], bool); 7] = [
            (&["", "vm", "a b"], true),
            (&["disk"], true),
            (&["", "disk"], false),
            (&[".."], false),
            (&["a/b"], false),
            (&["a\0"], false),
            (&["a", "b", "a"], false),
        ];
        for (names, good) in rows {
            let export = |name: &&str| Export {
                name: (*name).to_owned(),
                description: String::new(),
                size: 1,
                read_only: false,
                fast_zero: false,
                rotational: false,
            };
            let exports: Vec<Export> = names.iter().map(export).collect();
            assert_eq!(wrong_name(&exports).is_none(), good, "{names:?}");
        }
        assert!(wrong_name(&[]).is_none());
    }
}
