//! Requests of the kernel, answered from an image.

use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forebay_core::packed::Ahead;
use forebay_core::units::PAGE_SIZE;
use forebay_image::profile::ProfileRecorder;
use forebay_image::{Image, NodeId};
use fuser::{
    Errno, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::Stopper;
use super::inodes::{self, Inodes};
use super::jobs::{Job, Workers};
use super::log::Log;
use super::metadata::{MetadataOp, Seek};
use super::push::Queue;
use super::read::{PendingRead, ReadRequest};
use super::recording::RecordingFile;
use super::replay::ReplayTrigger;
use super::stats::{self, MountStats};
use super::xattrs::XattrPresence;
use crate::image_path::{Buffers, Content, ImageFault, PathStats};
use crate::lock::Mutex;

/// A mounted image: all that its threads share.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) image: Arc<dyn Image>,
    pub(super) inodes: Arc<Inodes>,
    pub(super) xattrs: Arc<XattrPresence>,
    pub(super) content: Arc<Content<Box<PendingRead>>>,
    pub(super) buffers: Buffers,
    /// What reads ahead.
    pub(super) ahead: Ahead,
    pub(super) queue: Queue,
    pub(super) workers: Workers,
    pub(super) stats: Arc<MountStats>,
    pub(super) path_stats: Arc<PathStats>,
    pub(super) log: Arc<Log>,
    /// Records a profile.
    pub(super) recorder: Option<Arc<Mutex<ProfileRecorder>>>,
    /// Restarts the replay of a profile.
    pub(super) replay_trigger: ReplayTrigger,
    /// Records READ requests.
    pub(super) recording: Option<Arc<RecordingFile>>,
    /// Ends the mount if the server fails.
    pub(super) stopper: Stopper,
}

/// The mount as the FUSE protocol sees it.
#[derive(Debug)]
pub(super) struct FuseSession(pub(super) Arc<Mount>);

impl Mount {
    /// Answers a request. After a panic the reply is an error, and the mount ends.
    pub(super) fn guarded(&self, answer: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
            self.stopper.fail(panic_message(&*panic).to_owned());
        }
    }

    /// Counts and logs an error of a node. To find its path takes a walk, so the request is
    /// answered first, and the thread that takes requests leaves the walk to a worker.
    pub(super) fn report_fault(&self, id: NodeId, fault: ImageFault) {
        self.stats.errors.add(1);
        if let Err(fault) = self.workers.report_fault(id, fault) {
            self.log_fault(id, &fault);
        }
    }

    /// Logs an error of a node.
    pub(super) fn log_fault(&self, id: NodeId, fault: &ImageFault) {
        self.log.say_rarely((id.0, fault.offset), || {
            let path = inodes::path_of(&*self.image, id);
            let path = path.unwrap_or_else(|| format!("node {}", id.0).into_bytes());
            let path = String::from_utf8_lossy(&path);
            format!("{}: {fault}", path.escape_debug())
        });
    }

    /// All counters as text.
    pub(super) fn statistics(&self) -> String {
        let (resident, own) = stats::resident();
        let cache = self.content.path.resident_pages() * PAGE_SIZE;
        let levels =
            [("cache_bytes", cache), ("resident_bytes", resident), ("resident_own_bytes", own)];
        stats::text(&self.stats, &self.path_stats, &levels)
    }

    fn ask(&self, operation: MetadataOp) {
        self.take(Job::Metadata(operation));
    }

    /// The kernel has dropped a node.
    fn forget(&self, number: INodeNo) {
        let file = self.inodes.node(number).0;
        if self.content.path.with(|rules, _| rules.forget(file)) {
            self.replay_trigger.on_loss();
        }
    }

    /// Answers a request that needs nothing of the image.
    fn request(&self, answer: impl FnOnce()) {
        self.stats.requests.add(1);
        self.guarded(answer);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.content.path.close();
    }
}

/// The message of a panic.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

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
