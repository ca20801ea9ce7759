//! Requests of the kernel, answered from an image.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use forebay_core::packed::Ahead;
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Image, NodeId};
use fuser::{
    Errno, FileHandle, Filesystem, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyXattr, Request,
};

use super::ask::Ask;
use super::buffers::Buffers;
use super::content::Content;
use super::fault::Fault;
use super::inodes::{self, Inodes};
use super::jobs::{Job, Workers};
use super::log::Log;
use super::profile::Recorder;
use super::push::Queue;
use super::read::{Begun, Read};
use super::recording::RecordingFile;
use super::replay::Again;
use super::stats::{self, Stats};

/// What answers.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) image: Arc<dyn Image>,
    pub(super) inodes: Inodes,
    pub(super) content: Arc<Content<Box<Read>>>,
    /// READs that there was no room for, the first to come first.
    pub(super) crowd: Mutex<VecDeque<Box<Read>>>,
    pub(super) buffers: Buffers,
    /// What reads ahead.
    pub(super) ahead: Ahead,
    pub(super) queue: Queue,
    pub(super) workers: Workers,
    pub(super) stats: Arc<Stats>,
    pub(super) log: Arc<Log>,
    /// Notes what is touched, if somebody wants to know.
    pub(super) recorder: Option<Arc<Recorder>>,
    /// Has a profile brought in again.
    pub(super) again: Again,
    /// Writes down what the kernel asks, if that is wanted.
    pub(super) recording: Option<Arc<RecordingFile>>,
    /// Called once if answering broke down.
    pub(super) broke: Box<dyn Broke>,
}

/// What the kernel talks to.
#[derive(Debug)]
pub(super) struct Answers(pub(super) Arc<Served>);

/// Hears that answering broke down.
pub(super) trait Broke: Send + Sync + std::fmt::Debug {
    fn broke(&self, what: String);
}

impl Served {
    /// Answers; what breaks down is answered with an error, and the mount ends.
    pub(super) fn guarded(&self, answer: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
            self.broke.broke(words(&*panic).to_owned());
        }
    }

    /// Counts that something is wrong with a node, and has it said. Finding its path takes a walk:
    /// whoever asked has its answer already, and the thread that takes requests leaves it to
    /// others.
    pub(super) fn complain(&self, id: NodeId, fault: Fault) {
        self.stats.errors.add(1);
        if let Err(fault) = self.workers.complain(id, fault) {
            self.say(id, &fault);
        }
    }

    /// Says what is wrong with a node.
    pub(super) fn say(&self, id: NodeId, fault: &Fault) {
        self.log.complain((id.0, fault.offset), || {
            let path = inodes::path_of(&*self.image, id);
            let path = path.unwrap_or_else(|| format!("node {}", id.0).into_bytes());
            let path = String::from_utf8_lossy(if path.is_empty() { b"/" } else { &path });
            format!("{}: {fault}", path.escape_debug())
        });
    }

    /// All counters as text.
    pub(super) fn statistics(&self) -> String {
        let (resident, own) = stats::resident();
        self.stats.text(&[
            ("cache_bytes", self.content.path.resident_pages() * PAGE_SIZE),
            ("resident_bytes", resident),
            ("resident_own_bytes", own),
        ])
    }

    fn ask(&self, ask: Ask) {
        self.take(Job::Ask(ask));
    }

    /// The kernel has dropped a node.
    fn forget(&self, number: INodeNo) {
        let file = self.inodes.node(number).0;
        if self.content.path.with(|rules, _| rules.forget(file)) {
            self.again.lost();
        }
    }

    /// Answers what needs nothing of the image.
    fn request(&self, answer: impl FnOnce()) {
        self.stats.requests.add(1);
        self.guarded(answer);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.content.path.close();
    }
}

/// What a panic said.
pub(super) fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

impl Filesystem for Answers {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if self.0.ahead == Ahead::Ours {
            // Less than a page is no page; fuser does not take zero.
            let _ = config.set_max_readahead(1);
        }
        let _ = config.set_max_write(READ_MAX);
        let _ = config.set_max_background(BACKGROUND);
        for flag in FLAGS {
            // A kernel that does not know one does without.
            let _ = config.add_capabilities(*flag);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.ask(Ask::Name(parent, name.to_owned(), reply));
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
        self.0.ask(Ask::Node(number, reply));
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        self.0.ask(Ask::Link(number, reply));
    }

    /// Not needed: no file is changed, and what is known of it hangs on its node.
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
        self.0.take(Job::Begun(Begun { task, number, offset, len, flags, reply }));
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.0.ask(Ask::List(number, offset, reply));
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.0.ask(Ask::ListPlus(number, offset, reply));
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        self.0.request(|| {
            let summary = self.0.image.summary();
            let blocks = summary.bytes.div_ceil(PAGE_SIZE);
            let page = PAGE_SIZE as u32;
            reply.statfs(blocks, 0, 0, summary.nodes.unwrap_or(0), 0, page, NAME_MAX, page);
        });
    }

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.0.ask(Ask::Xattr(number, Some(name.to_owned()), size, reply));
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.0.ask(Ask::Xattr(number, None, size, reply));
    }
}

/// The largest READ, in bytes; the kernel takes 256 pages at most.
const READ_MAX: u32 = 1 << 20;

/// Readahead requests that may be on their way.
const BACKGROUND: u16 = 64;

/// Bytes in a name: what Linux allows.
const NAME_MAX: u32 = 255;

const FLAGS: &[InitFlags] = &[
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
];
