//! Requests of the kernel, answered from an image.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::packed::Spec;
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Image, Node, NodeId};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::content::Content;
use super::decode::Fault;
use super::handle::{Ahead, Files};
use super::inodes::{self, Inodes};
use super::log::Log;
use super::profile::Recorder;
use super::push::{Outstanding, Queue};
use super::read::Workers;
use super::stats::{self, Stats};

/// What answers.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) image: Arc<dyn Image>,
    pub(super) inodes: Inodes,
    pub(super) content: Arc<Content>,
    pub(super) files: Arc<Files>,
    pub(super) policy: Spec,
    /// Who reads ahead.
    pub(super) ahead: Ahead,
    pub(super) outstanding: Arc<Outstanding>,
    pub(super) queue: Queue,
    pub(super) workers: Workers,
    pub(super) stats: Arc<Stats>,
    pub(super) log: Arc<Log>,
    /// Notes what is touched, if somebody wants to know.
    pub(super) recorder: Option<Arc<Recorder>>,
    /// Called once if answering broke down.
    pub(super) broke: Box<dyn Broke>,
}

/// What the kernel talks to.
#[derive(Debug)]
pub(super) struct Answers(pub(super) Arc<Served>);

/// Hears that answering broke down.
pub(super) trait Broke: Send + Sync + std::fmt::Debug {
    fn broke(&self, what: String);

    /// Hears that nobody asks any more.
    fn over(&self);
}

impl Served {
    fn request(&self, answer: impl FnOnce()) {
        self.stats.requests.add(1);
        self.guarded(answer);
    }

    /// Answers; what breaks down is answered with an error, and the mount ends.
    pub(super) fn guarded(&self, answer: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            self.broke.broke(text.unwrap_or("no message").to_owned());
        }
    }

    /// What is wrong with a node, for the log and for the kernel.
    pub(super) fn fault(&self, id: NodeId, fault: &Fault) -> Errno {
        self.stats.errors.add(1);
        self.log.complain((id.0, fault.offset), || {
            let path = inodes::path_of(&*self.image, id);
            let path = path.unwrap_or_else(|| format!("node {}", id.0).into_bytes());
            let path = String::from_utf8_lossy(if path.is_empty() { b"/" } else { &path });
            format!("{}: {fault}", path.escape_debug())
        });
        Errno::EIO
    }

    fn image_fault(&self, id: NodeId, error: forebay_image::Error) -> Errno {
        self.fault(id, &Fault::from(error))
    }

    pub(super) fn node(&self, id: NodeId) -> Result<Node, Errno> {
        self.image.node(id).map_err(|error| self.image_fault(id, error))
    }

    /// What the kernel is told of a name; number 0 says that there is none, for good.
    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let parent = self.inodes.node(parent);
        if let Some(recorder) = &self.recorder {
            recorder.lookup(parent, name.as_bytes());
        }
        let found = self
            .image
            .lookup(parent, name.as_bytes())
            .map_err(|error| self.image_fault(parent, error))?;
        match found {
            Some(id) => Ok(self.inodes.attributes(&self.node(id)?)),
            None => {
                let root = self.node(self.image.root())?;
                Ok(FileAttr { ino: INodeNo(0), ..self.inodes.attributes(&root) })
            }
        }
    }

    fn statistics(&self) -> String {
        let (raw, decoded) = self.content.bytes();
        let (resident, own) = stats::resident();
        self.stats.text(&[
            ("raw_cache_bytes", raw),
            ("decoded_cache_bytes", decoded),
            ("resident_bytes", resident),
            ("resident_own_bytes", own),
        ])
    }

    /// The value of an extended attribute, or all names.
    fn xattr(&self, number: INodeNo, name: Option<&OsStr>) -> Result<Vec<u8>, Errno> {
        if number == INodeNo::ROOT && name.is_some_and(|name| name == stats::ATTRIBUTE) {
            return Ok(self.statistics().into_bytes());
        }
        let id = self.inodes.node(number);
        let all = self.image.xattrs(id).map_err(|error| self.image_fault(id, error))?;
        let Some(name) = name else {
            let names = all.iter().flat_map(|xattr| xattr.name.iter().chain(b"\0"));
            return Ok(names.copied().collect());
        };
        let found = all.into_iter().find(|xattr| xattr.name == name.as_bytes());
        found.map(|xattr| xattr.value).ok_or(Errno::NO_XATTR)
    }
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

    fn destroy(&mut self) {
        self.0.broke.over();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.request(|| match self.0.find(parent, name) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.0.request(|| match self.0.node(self.0.inodes.node(number)) {
            Ok(node) => reply.attr(&FOREVER, &self.0.inodes.attributes(&node)),
            Err(error) => reply.error(error),
        });
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let id = self.0.inodes.node(number);
        self.0.request(|| match self.0.image.link(id) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(self.0.image_fault(id, error)),
        });
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
        let (task, bytes) = (request.pid(), (offset, u64::from(size)));
        self.0.request(|| self.0.read(task, number, bytes, flags, reply));
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.0.request(|| {
            let id = self.0.inodes.node(number);
            let entries = match self.0.image.entries(id) {
                Ok(entries) => entries,
                Err(error) => return reply.error(self.0.image_fault(id, error)),
            };
            for place in offset..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
                let next = place + 1;
                let full = match place {
                    0 | 1 => reply.add(number, next, FileType::Directory, dots(place)),
                    _ => {
                        let entry = &entries[place as usize - 2];
                        let (inode, kind) = (self.0.inodes.number(entry.node), entry.kind);
                        reply.add(inode, next, inodes::kind(kind), inodes::name(&entry.name))
                    }
                };
                if full {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.0.request(|| {
            let id = self.0.inodes.node(number);
            let found = self.0.image.entries(id).map_err(|error| self.0.image_fault(id, error));
            let (entries, own) = match found.and_then(|entries| Ok((entries, self.0.node(id)?))) {
                Ok(found) => found,
                Err(error) => return reply.error(error),
            };
            let own = self.0.inodes.attributes(&own);
            for place in offset..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
                let entry = place.checked_sub(2).map(|place| &entries[place as usize]);
                let name = entry.map_or_else(|| dots(place), |entry| inodes::name(&entry.name));
                // A node that cannot be read is listed; whoever looks at it asks again and hears
                // why.
                let node = entry.map(|entry| self.0.image.node(entry.node));
                let (attributes, valid) = match (node, entry) {
                    (Some(Ok(node)), _) => (self.0.inodes.attributes(&node), FOREVER),
                    (Some(Err(_)), Some(entry)) => {
                        let (ino, kind) = (self.0.inodes.number(entry.node), entry.kind);
                        (FileAttr { ino, kind: inodes::kind(kind), ..own }, Duration::ZERO)
                    }
                    (None, _) | (Some(Err(_)), None) => (own, FOREVER),
                };
                let number = attributes.ino;
                if reply.add(number, place + 1, name, &valid, &attributes, Generation(0)) {
                    break;
                }
            }
            reply.ok();
        });
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
        self.0.request(|| reply_xattr(reply, size, self.0.xattr(number, Some(name))));
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.0.request(|| reply_xattr(reply, size, self.0.xattr(number, None)));
    }
}

fn reply_xattr(reply: ReplyXattr, size: u32, value: Result<Vec<u8>, Errno>) {
    match (value, size) {
        (Err(error), _) => reply.error(error),
        (Ok(value), 0) => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        (Ok(value), size) if value.len() > size as usize => reply.error(Errno::ERANGE),
        (Ok(value), _) => reply.data(&value),
    }
}

fn dots(place: u64) -> &'static OsStr {
    OsStr::new(if place == 0 { "." } else { ".." })
}

/// An image does not change.
const FOREVER: Duration = Duration::from_secs(1 << 31);

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
