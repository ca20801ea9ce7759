//! A tree on disk, for comparison with an image: the same names and nodes, read without following
//! links.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::fault::{Cause, Fault};
use crate::node::{Kind, Node, NodeId, Time, Xattr};
use crate::opener::{Opener, path_of};
use crate::walk::{Item, Limits, Tree};

/// What Linux lets a list of attributes and a value have at most.
const XATTR_MAX: usize = 64 << 10;

/// A directory and all that was in it when it was opened.
#[derive(Debug)]
pub struct Folder {
    root: File,
    tree: Tree,
    /// By [`NodeId`].
    nodes: Vec<Node>,
}

impl Folder {
    /// Opens a directory and lists all that is in it. What cannot be listed is among the faults of
    /// its tree.
    ///
    /// # Errors
    ///
    /// If it is no directory that can be read.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Self> {
        let root = File::open(path)?;
        let stat = rustix::fs::fstat(&root)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let mut list =
            List { tree: Tree::rooted(NodeId(0)), nodes: Vec::new(), seen: HashMap::new() };
        list.node(&stat, Kind::Directory);
        let Fill { tree, nodes } = list.fill(root.as_fd(), limits);
        Ok(Self { root, tree, nodes })
    }

    /// Its names.
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The same, to take its faults out.
    pub const fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        let opener = Opener::new(self.root.as_fd());
        Cursor { folder: self, opener, open: None, buffer: Vec::new() }
    }
}

/// A list that is complete.
struct Fill {
    tree: Tree,
    nodes: Vec<Node>,
}

struct List {
    tree: Tree,
    nodes: Vec<Node>,
    /// Nodes by device and number, with the place of their first name.
    seen: HashMap<(u64, u64), (NodeId, usize)>,
}

impl List {
    fn fill(mut self, root: BorrowedFd<'_>, limits: Limits) -> Fill {
        let mut opener = Opener::new(root);
        let mut stack = vec![0];
        while let Some(place) = stack.pop() {
            let listed = names(&mut opener, &self.tree, place);
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    self.fault(place, Cause::system("read the directory", error));
                    continue;
                }
            };
            for (name, stat) in listed {
                if self.tree.items.len() >= limits.names {
                    self.fault(place, Cause::Many(limits.names));
                    return Fill { tree: self.tree, nodes: self.nodes };
                }
                stack.extend(self.add(place, name, &stat));
            }
        }
        Fill { tree: self.tree, nodes: self.nodes }
    }

    /// Adds a name; says its place if it is a directory.
    fn add(&mut self, parent: usize, name: Vec<u8>, stat: &Stat) -> Option<usize> {
        let kind = kind_of(stat)?;
        let place = self.tree.items.len();
        let known = self.seen.get(&(stat.st_dev, stat.st_ino)).copied();
        let (node, first) = match known {
            Some((node, first)) if kind != Kind::Directory => (node, Some(first)),
            _ => (self.node(stat, kind), None),
        };
        self.seen.entry((stat.st_dev, stat.st_ino)).or_insert((node, place));
        self.tree.items.push(Item { parent, name: name.into(), node, kind, first });
        (kind == Kind::Directory).then_some(place)
    }

    fn node(&mut self, stat: &Stat, kind: Kind) -> NodeId {
        let id = NodeId(self.nodes.len() as u64);
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        self.nodes.push(Node {
            id,
            ino: stat.st_ino,
            kind,
            permissions: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            modified: Some(Time { seconds: stat.st_mtime, nanos }),
            device,
        });
        id
    }

    fn fault(&mut self, place: usize, cause: Cause) {
        self.tree.faults.push(Fault::new(self.tree.path(place), cause));
    }
}

/// The names in a directory with their attributes.
fn names(opener: &mut Opener<'_>, tree: &Tree, place: usize) -> io::Result<Vec<(Vec<u8>, Stat)>> {
    let directory = opener.open(tree.items(), place)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            names.push((name.to_vec(), stat));
        }
    }
    Ok(names)
}

/// None for what no image holds.
fn kind_of(stat: &Stat) -> Option<Kind> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Symlink),
        FileType::BlockDevice => Some(Kind::BlockDevice),
        FileType::CharacterDevice => Some(Kind::CharDevice),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::Socket => Some(Kind::Socket),
        FileType::Unknown => None,
    }
}

/// One thread's access.
pub(super) struct Cursor<'a> {
    folder: &'a Folder,
    opener: Opener<'a>,
    /// The file that was read last.
    open: Option<(usize, File)>,
    buffer: Vec<u8>,
}

impl Cursor<'_> {
    pub(super) fn node(&self, place: usize) -> Node {
        let id = self.folder.tree.items()[place].node;
        self.folder.nodes[usize::try_from(id.0).expect("a place in a list")]
    }

    pub(super) fn link(&mut self, place: usize) -> Result<Vec<u8>, Cause> {
        let item = &self.folder.tree.items()[place];
        let directory = self.opener.open(self.folder.tree.items(), item.parent);
        let directory = directory.map_err(|error| Cause::system("open its directory", error))?;
        let target = rustix::fs::readlinkat(directory, &item.name[..], Vec::new());
        Ok(target.map_err(|error| Cause::system("read the link", error))?.into_bytes())
    }

    pub(super) fn xattrs(&mut self, place: usize) -> Result<Vec<Xattr>, Cause> {
        let refused = |error| Cause::system("read the extended attributes", error);
        let item = &self.folder.tree.items()[place];
        let directory = self.opener.open(self.folder.tree.items(), item.parent).map_err(refused)?;
        let name = if place == 0 { &b"."[..] } else { &item.name };
        let path = path_of(directory, name);
        self.buffer.resize(XATTR_MAX, 0);
        let listed = match rustix::fs::llistxattr(&path[..], &mut self.buffer[..]) {
            Ok(len) => self.buffer[..len].to_vec(),
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(refused(error.into())),
        };
        let mut xattrs = Vec::new();
        for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let len = rustix::fs::lgetxattr(&path[..], name, &mut self.buffer[..]);
            let value = self.buffer[..len.map_err(|error| refused(error.into()))?].to_vec();
            xattrs.push(Xattr { name: name.to_vec(), value });
        }
        Ok(xattrs)
    }

    pub(super) fn fill(
        &mut self,
        place: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Cause> {
        let refused = |error| Cause::system("read the file", error);
        if self.open.as_ref().is_none_or(|(open, _)| *open != place) {
            let item = &self.folder.tree.items()[place];
            let directory =
                self.opener.open(self.folder.tree.items(), item.parent).map_err(refused)?;
            // A file may have been replaced by a pipe, which must not block.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, &item.name[..], flags, Mode::empty());
            self.open = Some((place, file.map_err(|error| refused(error.into()))?.into()));
        }
        let (_, file) = self.open.as_ref().expect("it was opened");
        file.read_exact_at(buffer, offset).map_err(refused)
    }
}
