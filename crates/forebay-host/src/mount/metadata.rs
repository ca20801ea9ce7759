//! Requests about names, nodes, folders and extended attributes.
//!
//! An image's tree is packed too, and lies on a device. So these requests can take as long as a
//! READ, and the thread that takes requests defers them to a worker.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEntry, ReplyLseek, ReplyXattr,
};

use forebay_image::{Coding, Entry, Kind, Node, NodeId};

use super::inodes::{self, FOREVER};
use super::request::{Deferred, Job, MetadataOp, Seek};
use super::state::Mount;
use crate::image_path::{NotReady, is_quick};
use crate::lock::lock;

impl Mount {
    /// Answers a request, or defers it if a device is needed.
    pub(super) fn handle(&self, operation: MetadataOp) -> Result<(), Box<Deferred>> {
        match operation {
            MetadataOp::Name(parent, name, reply) => {
                let found = self.find(parent, &name);
                let done = |reply: ReplyEntry, (found, valid)| {
                    reply.entry_with_ttls(&valid, &FOREVER, &found, Generation(0));
                };
                let left = self.settle(parent, found, reply, done, ReplyEntry::error);
                left.map_err(|(reply, why)| deferred(MetadataOp::Name(parent, name, reply), why))
            }
            MetadataOp::Node(number, reply) => {
                let found = self.image.node(self.inodes.node(number)).map_err(NotReady::from);
                let found = found.map(|node| self.inodes.attributes(&node));
                let done = |reply: ReplyAttr, found| reply.attr(&FOREVER, &found);
                let left = self.settle(number, found, reply, done, ReplyAttr::error);
                left.map_err(|(reply, why)| deferred(MetadataOp::Node(number, reply), why))
            }
            MetadataOp::Link(number, reply) => {
                let found = self.image.link(self.inodes.node(number)).map_err(NotReady::from);
                let done = |reply: ReplyData, found: Vec<u8>| reply.data(&found);
                let left = self.settle(number, found, reply, done, ReplyData::error);
                left.map_err(|(reply, why)| deferred(MetadataOp::Link(number, reply), why))
            }
            MetadataOp::List(number, from, mut reply) => {
                let listed = self.list(number, from, &mut reply);
                let done = |reply: ReplyDirectory, ()| reply.ok();
                let left = self.settle(number, listed, reply, done, ReplyDirectory::error);
                left.map_err(|(reply, why)| deferred(MetadataOp::List(number, from, reply), why))
            }
            MetadataOp::ListPlus(number, from, mut reply) => {
                let listed = self.list_plus(number, from, &mut reply);
                let done = |reply: ReplyDirectoryPlus, ()| reply.ok();
                let left = self.settle(number, listed, reply, done, ReplyDirectoryPlus::error);
                left.map_err(|(reply, why)| {
                    deferred(MetadataOp::ListPlus(number, from, reply), why)
                })
            }
            MetadataOp::Seek(number, from, what, reply) => {
                let found = self.seek(number, from, what);
                let done = |reply: ReplyLseek, found: Option<u64>| match found
                    .and_then(|at| i64::try_from(at).ok())
                {
                    Some(at) => reply.offset(at),
                    None => reply.error(Errno::ENXIO),
                };
                let left = self.settle(number, found, reply, done, ReplyLseek::error);
                left.map_err(|(reply, why)| {
                    deferred(MetadataOp::Seek(number, from, what, reply), why)
                })
            }
            MetadataOp::Xattr(number, name, room, reply) => {
                let found = self.xattr(number, name.as_deref());
                let done = |reply, found| reply_xattr(reply, room, found);
                let left = self.settle(number, found, reply, done, ReplyXattr::error);
                left.map_err(|(reply, why)| {
                    deferred(MetadataOp::Xattr(number, name, room, reply), why)
                })
            }
        }
    }

    /// Replies with what was found or with an error. If it is not ready, returns the reply.
    fn settle<R, T>(
        &self,
        number: INodeNo,
        found: Result<T, NotReady>,
        reply: R,
        done: impl FnOnce(R, T),
        failed: impl FnOnce(R, Errno),
    ) -> Result<(), (R, NotReady)> {
        match found {
            Ok(found) => done(reply, found),
            Err(NotReady::Fault(fault)) => {
                failed(reply, Errno::EIO);
                self.report_fault(self.inodes.node(number), fault);
            }
            Err(why @ (NotReady::Absent(_) | NotReady::Slow)) => return Err((reply, why)),
        }
        Ok(())
    }

    /// The reply to a lookup. Inode 0 says that the name does not exist, and the kernel keeps it.
    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<(FileAttr, Duration), NotReady> {
        let parent = self.inodes.node(parent);
        if let Some(recorder) = &self.recorder {
            lock(recorder).lookup(parent, name.as_bytes());
        }
        match self.image.lookup(parent, name.as_bytes())? {
            Some(id) => Ok(self.inodes.introduce(&self.image.node(id)?)),
            None => {
                let root = self.image.node(self.image.root())?;
                Ok((FileAttr { ino: INodeNo(0), ..self.inodes.attributes(&root) }, FOREVER))
            }
        }
    }

    fn list(&self, number: INodeNo, from: u64, reply: &mut ReplyDirectory) -> Result<(), NotReady> {
        let id = self.inodes.node(number);
        let (entries, own) = (self.image.entries(id)?, INodeNo(self.image.node(id)?.ino));
        if from == 0 {
            self.list_folder(&entries);
        }
        for place in from..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
            let next = place + 1;
            let full = match place {
                0 | 1 => reply.add(own, next, FileType::Directory, dots(place)),
                _ => {
                    let entry = &entries[place as usize - 2];
                    let (ino, kind) = (INodeNo(entry.ino), inodes::kind(entry.kind));
                    reply.add(ino, next, kind, inodes::os_name(&entry.name))
                }
            };
            if full {
                break;
            }
        }
        Ok(())
    }

    fn list_plus(
        &self,
        number: INodeNo,
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), NotReady> {
        let id = self.inodes.node(number);
        let (entries, own) = (self.image.entries(id)?, self.image.node(id)?);
        if from == 0 {
            self.list_folder(&entries);
        }
        let own = self.inodes.attributes(&own);
        for place in from..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
            let entry = place.checked_sub(2).map(|place| &entries[place as usize]);
            let name = entry.map_or_else(|| dots(place), |entry| inodes::os_name(&entry.name));
            // A node that cannot be read is listed; a request for it reports the error.
            let (attributes, valid) = match entry.map(|entry| (entry, self.known(entry.node))) {
                None => (own, FOREVER),
                Some((_, Ok(node))) => self.inodes.introduce(&node),
                Some((entry, Err(NotReady::Fault(_)))) => {
                    let (ino, kind) = (self.inodes.name(entry.node, entry.ino), entry.kind);
                    (FileAttr { ino, kind: inodes::kind(kind), ..own }, Duration::ZERO)
                }
                // The kernel asks for the rest.
                Some((_, Err(NotReady::Absent(_) | NotReady::Slow))) if place > from => break,
                Some((_, Err(why))) => return Err(why),
            };
            let number = attributes.ino;
            if reply.add(number, place + 1, name, &valid, &attributes, Generation(0)) {
                break;
            }
        }
        Ok(())
    }

    /// Where the next hole of a file is, or the next byte that is in none, from an offset on.
    fn seek(&self, number: INodeNo, from: u64, what: Seek) -> Result<Option<u64>, NotReady> {
        let id = self.inodes.node(number);
        let size = self.image.node(id)?.size;
        let mut at = from;
        for blocks in 1.. {
            if at >= size {
                break;
            }
            let block = self.image.locate(id, at)?;
            if (block.coding == Coding::Hole) == (what == Seek::Hole) {
                return Ok(Some(at));
            }
            if blocks == SEEK_QUICK && is_quick() {
                return Err(NotReady::Slow);
            }
            at = block.plain.end;
        }
        // The end of a file counts as a hole.
        Ok((what == Seek::Hole && from < size).then_some(size))
    }

    /// A task that lists a folder mostly reads its files in this order.
    fn list_folder(&self, entries: &[Entry]) {
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        let files: Vec<u64> = files.map(|entry| entry.node.0).collect();
        self.content.path.with(|rules, _| rules.list_folder(&files));
    }

    fn known(&self, id: NodeId) -> Result<Node, NotReady> {
        Ok(self.image.node(id)?)
    }

    /// The value of an extended attribute, or all names; an error if there is none.
    fn xattr(
        &self,
        number: INodeNo,
        name: Option<&OsStr>,
    ) -> Result<Result<Vec<u8>, Errno>, NotReady> {
        if self.xattrs.are_ruled_out() {
            return Ok(Err(Errno::ENOSYS));
        }
        let all = self.image.xattrs(self.inodes.node(number))?;
        let alive = Arc::downgrade(&self.path_stats);
        self.xattrs.count_request(!all.is_empty(), &self.image, alive);
        let Some(name) = name else {
            let names = all.iter().flat_map(|xattr| xattr.name.iter().chain(b"\0"));
            return Ok(Ok(names.copied().collect()));
        };
        let found = all.into_iter().find(|xattr| xattr.name == name.as_bytes());
        Ok(found.map(|xattr| xattr.value).ok_or(Errno::NO_XATTR))
    }
}

/// Blocks that are looked at while other requests wait.
const SEEK_QUICK: u32 = 256;

fn deferred(operation: MetadataOp, why: NotReady) -> Box<Deferred> {
    Deferred::new(Job::Metadata(operation), why)
}

fn reply_xattr(reply: ReplyXattr, room: u32, value: Result<Vec<u8>, Errno>) {
    match (value, room) {
        (Err(error), _) => reply.error(error),
        (Ok(value), 0) => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        (Ok(value), room) if value.len() > room as usize => reply.error(Errno::ERANGE),
        (Ok(value), _) => reply.data(&value),
    }
}

fn dots(place: u64) -> &'static OsStr {
    OsStr::new(if place == 0 { "." } else { ".." })
}
