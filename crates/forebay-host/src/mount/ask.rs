//! Requests about names, what is known of them, and what is in folders.
//!
//! An image's tree is packed too, and lies on a device. So these requests may take as long as
//! others, and whoever must be quick gives them back.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEntry, ReplyXattr,
};

use forebay_image::{Entry, Kind, Node, NodeId};

use super::fault::Missed;
use super::inodes;
use super::jobs::{Job, Left};
use super::session::Served;
use super::stats;

/// A request and where its answer goes.
#[derive(Debug)]
pub(super) enum Ask {
    /// A name in a folder.
    Name(INodeNo, OsString, ReplyEntry),
    /// What is known of a node.
    Node(INodeNo, ReplyAttr),
    /// The target of a link.
    Link(INodeNo, ReplyData),
    /// Names in a folder, from some place on.
    List(INodeNo, u64, ReplyDirectory),
    /// The same, with what is known of them.
    ListPlus(INodeNo, u64, ReplyDirectoryPlus),
    /// An extended attribute or the names of all, and the room for it.
    Xattr(INodeNo, Option<OsString>, u32, ReplyXattr),
}

/// What a list came to.
enum Listed {
    Done,
    /// Nothing was added: it has to be asked for again.
    Missed(Missed),
}

impl Served {
    /// Answers, or gives the request back if that would take a device.
    pub(super) fn tell(&self, ask: Ask) -> Result<(), Box<Left>> {
        match ask {
            Ask::Name(parent, name, reply) => {
                let found = self.find(parent, &name);
                let done = |reply: ReplyEntry, found| reply.entry(&FOREVER, &found, Generation(0));
                let left = self.settle(parent, found, reply, done, ReplyEntry::error);
                left.map_err(|(reply, missed)| left_of(Ask::Name(parent, name, reply), missed))
            }
            Ask::Node(number, reply) => {
                let found = self.image.node(self.inodes.node(number)).map_err(Missed::from);
                let found = found.map(|node| self.inodes.attributes(&node));
                let done = |reply: ReplyAttr, found| reply.attr(&FOREVER, &found);
                let left = self.settle(number, found, reply, done, ReplyAttr::error);
                left.map_err(|(reply, missed)| left_of(Ask::Node(number, reply), missed))
            }
            Ask::Link(number, reply) => {
                let found = self.image.link(self.inodes.node(number)).map_err(Missed::from);
                let done = |reply: ReplyData, found: Vec<u8>| reply.data(&found);
                let left = self.settle(number, found, reply, done, ReplyData::error);
                left.map_err(|(reply, missed)| left_of(Ask::Link(number, reply), missed))
            }
            Ask::List(number, from, mut reply) => match self.list(number, from, &mut reply) {
                Listed::Done => {
                    reply.ok();
                    Ok(())
                }
                Listed::Missed(missed) => self
                    .settle(number, Err(missed), reply, |_, ()| (), ReplyDirectory::error)
                    .map_err(|(reply, missed)| left_of(Ask::List(number, from, reply), missed)),
            },
            Ask::ListPlus(number, from, mut reply) => {
                match self.list_plus(number, from, &mut reply) {
                    Listed::Done => {
                        reply.ok();
                        Ok(())
                    }
                    Listed::Missed(missed) => self
                        .settle(number, Err(missed), reply, |_, ()| (), ReplyDirectoryPlus::error)
                        .map_err(|(reply, missed)| {
                            left_of(Ask::ListPlus(number, from, reply), missed)
                        }),
                }
            }
            Ask::Xattr(number, name, room, reply) => {
                let found = self.xattr(number, name.as_deref());
                let done = |reply, found| reply_xattr(reply, room, found);
                let left = self.settle(number, found, reply, done, ReplyXattr::error);
                left.map_err(|(reply, missed)| {
                    left_of(Ask::Xattr(number, name, room, reply), missed)
                })
            }
        }
    }

    /// Replies with what was found, or with an error; if it was absent, the reply comes back.
    fn settle<R, T>(
        &self,
        number: INodeNo,
        found: Result<T, Missed>,
        reply: R,
        done: impl FnOnce(R, T),
        failed: impl FnOnce(R, Errno),
    ) -> Result<(), (R, Missed)> {
        match found {
            Ok(found) => done(reply, found),
            Err(Missed::Fault(fault)) => {
                failed(reply, Errno::EIO);
                self.complain(self.inodes.node(number), fault);
            }
            Err(missed @ (Missed::Absent(_) | Missed::Slow)) => return Err((reply, missed)),
        }
        Ok(())
    }

    /// What the kernel is told of a name; number 0 says that there is none, for good.
    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Missed> {
        let parent = self.inodes.node(parent);
        if let Some(recorder) = &self.recorder {
            recorder.lookup(parent, name.as_bytes());
        }
        match self.image.lookup(parent, name.as_bytes())? {
            Some(id) => Ok(self.inodes.attributes(&self.image.node(id)?)),
            None => {
                let root = self.image.node(self.image.root())?;
                Ok(FileAttr { ino: INodeNo(0), ..self.inodes.attributes(&root) })
            }
        }
    }

    fn list(&self, number: INodeNo, from: u64, reply: &mut ReplyDirectory) -> Listed {
        let entries = match self.image.entries(self.inodes.node(number)) {
            Ok(entries) => entries,
            Err(error) => return Listed::Missed(error.into()),
        };
        if from == 0 {
            self.list_folder(&entries);
        }
        for place in from..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
            let next = place + 1;
            let full = match place {
                0 | 1 => reply.add(number, next, FileType::Directory, dots(place)),
                _ => {
                    let entry = &entries[place as usize - 2];
                    let (inode, kind) = (self.inodes.number(entry.node), entry.kind);
                    reply.add(inode, next, inodes::kind(kind), inodes::name(&entry.name))
                }
            };
            if full {
                break;
            }
        }
        Listed::Done
    }

    fn list_plus(&self, number: INodeNo, from: u64, reply: &mut ReplyDirectoryPlus) -> Listed {
        let id = self.inodes.node(number);
        let found = self.image.entries(id).and_then(|entries| Ok((entries, self.image.node(id)?)));
        let (entries, own) = match found {
            Ok(found) => found,
            Err(error) => return Listed::Missed(error.into()),
        };
        if from == 0 {
            self.list_folder(&entries);
        }
        let own = self.inodes.attributes(&own);
        for place in from..=u64::try_from(entries.len()).unwrap_or(0) + 1 {
            let entry = place.checked_sub(2).map(|place| &entries[place as usize]);
            let name = entry.map_or_else(|| dots(place), |entry| inodes::name(&entry.name));
            // A node that cannot be read is listed; whoever looks at it asks again and hears why.
            let (attributes, valid) = match entry.map(|entry| (entry, self.known(entry.node))) {
                None => (own, FOREVER),
                Some((_, Ok(node))) => (self.inodes.attributes(&node), FOREVER),
                Some((entry, Err(Missed::Fault(_)))) => {
                    let (ino, kind) = (self.inodes.number(entry.node), entry.kind);
                    (FileAttr { ino, kind: inodes::kind(kind), ..own }, Duration::ZERO)
                }
                // The kernel asks for the rest.
                Some((_, Err(Missed::Absent(_) | Missed::Slow))) if place > from => break,
                Some((_, Err(missed))) => return Listed::Missed(missed),
            };
            let number = attributes.ino;
            if reply.add(number, place + 1, name, &valid, &attributes, Generation(0)) {
                break;
            }
        }
        Listed::Done
    }

    /// A task that lists a folder mostly reads its files in this order.
    fn list_folder(&self, entries: &[Entry]) {
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        let files: Vec<u64> = files.map(|entry| entry.node.0).collect();
        self.content.path.with(|rules, _| rules.list_folder(&files));
    }

    fn known(&self, id: NodeId) -> Result<Node, Missed> {
        Ok(self.image.node(id)?)
    }

    /// The value of an extended attribute, or all names; an error if there is none.
    fn xattr(
        &self,
        number: INodeNo,
        name: Option<&OsStr>,
    ) -> Result<Result<Vec<u8>, Errno>, Missed> {
        if number == INodeNo::ROOT && name.is_some_and(|name| name == stats::ATTRIBUTE) {
            return Ok(Ok(self.statistics().into_bytes()));
        }
        let all = self.image.xattrs(self.inodes.node(number))?;
        let Some(name) = name else {
            let names = all.iter().flat_map(|xattr| xattr.name.iter().chain(b"\0"));
            return Ok(Ok(names.copied().collect()));
        };
        let found = all.into_iter().find(|xattr| xattr.name == name.as_bytes());
        Ok(found.map(|xattr| xattr.value).ok_or(Errno::NO_XATTR))
    }
}

fn left_of(ask: Ask, missed: Missed) -> Box<Left> {
    Left::new(Job::Ask(ask), missed)
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

/// An image does not change.
const FOREVER: Duration = Duration::from_secs(1 << 31);
