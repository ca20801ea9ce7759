//! Requests of the kernel, answered from an image.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use forebay_core::packed::Ahead;
use forebay_core::units::PAGE_SIZE;
use fuser::{
    Errno, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::request::{Job, MetadataOp, ReadRequest, Seek};
use super::state::Mount;
use super::stats;

/// The mount as the FUSE protocol sees it.
#[derive(Debug)]
pub(super) struct FuseSession(pub(super) Arc<Mount>);

impl Filesystem for FuseSession {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if self.0.ahead == Ahead::Ours {
            // Less than a page disables readahead; fuser does not take zero.
            let _ = config.set_max_readahead(1);
        }
        let _ = config.set_max_write(READ_MAX);
        let _ = config.set_max_background(BACKGROUND);
        for flag in FLAGS {
            // An older kernel does without.
            let _ = config.add_capabilities(*flag);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.ask(MetadataOp::Name(parent, name.to_owned(), reply));
    }

    fn forget(&self, _request: &Request, number: INodeNo, _lookups: u64) {
        self.0.guarded(|| self.0.forget(number));
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.0.ask(MetadataOp::Node(number, reply));
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        self.0.ask(MetadataOp::Link(number, reply));
    }

    /// Not needed: no file is changed, and its state belongs to its node.
    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.request(|| reply.error(Errno::ENOSYS));
    }

    fn opendir(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.request(|| reply.error(Errno::ENOSYS));
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.0.request(|| reply.error(Errno::ENOSYS));
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (task, len) = (request.pid(), u64::from(size));
        self.0.take(Job::ReadRequest(ReadRequest { task, number, offset, len, flags, reply }));
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.0.ask(MetadataOp::List(number, offset, reply));
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.0.ask(MetadataOp::ListPlus(number, offset, reply));
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        self.0.request(|| {
            let summary = self.0.image.summary();
            let blocks = summary.bytes.div_ceil(PAGE_SIZE);
            let page = PAGE_SIZE as u32;
            reply.statfs(blocks, 0, 0, summary.nodes.unwrap_or(0), 0, page, NAME_MAX, page);
        });
    }

    /// The kernel handles the other ways to seek.
    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return self.0.request(|| reply.error(Errno::EINVAL)),
        };
        match u64::try_from(offset) {
            Ok(from) => self.0.ask(MetadataOp::Seek(number, from, what, reply)),
            Err(_) => self.0.request(|| reply.error(Errno::ENXIO)),
        }
    }

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.0.ask(MetadataOp::Xattr(number, Some(name.to_owned()), size, reply));
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.0.ask(MetadataOp::Xattr(number, None, size, reply));
    }

    /// The counters, of any node.
    fn ioctl(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        _input: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        self.0.request(|| {
            let text = self.0.statistics();
            if stats::is_command(command) && text.len() <= room as usize {
                reply.ioctl(0, text.as_bytes());
            } else {
                reply.error(Errno::ENOTTY);
            }
        });
    }
}

/// The largest READ, in bytes; the kernel takes 256 pages at most.
const READ_MAX: u32 = 1 << 20;

/// Readahead requests in flight at most.
const BACKGROUND: u16 = 64;

/// Bytes in a name: what Linux allows.
const NAME_MAX: u32 = 255;

/// From `linux/fs.h`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Without FUSE_READDIRPLUS_AUTO: with it, only the beginning of a large folder is listed with its
/// nodes, and the kernel looks up each other name alone.
const FLAGS: &[InitFlags] = &[
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
];
