//! The tree that becomes an image: node by node, or scanned from a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::WriteError;

/// Owner, group and permissions of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The low 12 bits of a mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// What a node is and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Further nodes.
    Directory,
    /// A file, with these bytes.
    Bytes(Vec<u8>),
    /// A file, with the first `len` bytes of another one.
    File {
        /// The other one, which is read when the image is written.
        path: PathBuf,
        /// In bytes.
        len: u64,
    },
    /// A symbolic link to here.
    Link(Vec<u8>),
    /// A block device of this major and minor number.
    BlockDevice(u32, u32),
    /// A character device of this major and minor number.
    CharDevice(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// Attributes of a node on disk that cramfs cannot store, besides its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extra {
    /// Rights that a program has, whichever user runs it.
    Capabilities,
    /// An access control list, or the default one of a directory.
    Acl,
    /// Other extended attributes.
    Xattrs,
    /// It is another name of a file that has one already.
    Links,
}

impl Extra {
    /// In words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "its capabilities",
            Self::Acl => "its access control list",
            Self::Xattrs => "its extended attributes",
            Self::Links => "further names of a file: it would be a file of its own",
        }
    }
}

/// A node of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub(super) usize);

/// Nodes with names, below one root.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    name: Vec<u8>,
    parent: Place,
    pub(super) attributes: Attributes,
    pub(super) content: Content,
    pub(super) extras: Vec<Extra>,
    /// By name.
    pub(super) children: BTreeMap<Vec<u8>, Place>,
}

impl Tree {
    /// An empty root.
    pub fn new(attributes: Attributes) -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.push(Vec::new(), Place(0), attributes, Content::Directory);
        tree
    }

    /// The tree below a directory. Files are not read yet, links are not followed, times are not
    /// kept, and what else no image can hold is noted.
    ///
    /// # Errors
    ///
    /// If a directory, a link or a list of attributes cannot be read.
    pub fn scan(directory: &Path) -> Result<Self, WriteError> {
        let read = |path: &Path, source| WriteError::Read { path: path.to_owned(), source };
        let metadata = fs::metadata(directory).map_err(|source| read(directory, source))?;
        let mut tree = Self::new(Attributes::of(&metadata));
        tree.nodes[0].extras = Extra::of(directory).map_err(|source| read(directory, source))?;
        let mut seen = BTreeSet::new();
        let mut todo = vec![(directory.to_owned(), tree.root())];
        while let Some((path, place)) = todo.pop() {
            let entries = fs::read_dir(&path).and_then(|entries| {
                entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
            });
            let mut paths = entries.map_err(|source| read(&path, source))?;
            // Which of two names is the further one does not depend on the file system.
            paths.sort();
            for path in paths {
                let metadata = path.symlink_metadata().map_err(|source| read(&path, source))?;
                let content =
                    Content::of(&path, &metadata).map_err(|source| read(&path, source))?;
                let is_directory = content == Content::Directory;
                let mut extras = Extra::of(&path).map_err(|source| read(&path, source))?;
                let is_shared = !is_directory && metadata.nlink() > 1;
                if is_shared && !seen.insert((metadata.dev(), metadata.ino())) {
                    extras.push(Extra::Links);
                }
                let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
                let child = tree.add(place, &name, Attributes::of(&metadata), content)?;
                tree.nodes[child.0].extras = extras;
                if is_directory {
                    todo.push((path, child));
                }
            }
        }
        Ok(tree)
    }

    /// The root.
    pub const fn root(&self) -> Place {
        Place(0)
    }

    /// Adds a node to a directory.
    ///
    /// # Errors
    ///
    /// If no node can have the name, another one in the directory has it, or `directory` is none.
    pub fn add(
        &mut self,
        directory: Place,
        name: &[u8],
        attributes: Attributes,
        content: Content,
    ) -> Result<Place, WriteError> {
        let what = if self.node(directory).content != Content::Directory {
            "what it is in is not a directory"
        } else if name.is_empty() || name == b"." || name == b".." {
            "no node can have this name"
        } else if name.contains(&b'/') || name.contains(&0) {
            "a slash or a zero byte in a name"
        } else if self.node(directory).children.contains_key(name) {
            "there is one already"
        } else {
            let place = self.push(name.to_vec(), directory, attributes, content);
            self.nodes[directory.0].children.insert(name.to_vec(), place);
            return Ok(place);
        };
        let directory = self.path(directory);
        let slash = if directory.is_empty() { "" } else { "/" };
        Err(WriteError::Name { path: format!("{directory}{slash}{}", name.escape_ascii()), what })
    }

    /// The number of nodes, the root among them.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The number of bytes of all files and links.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.content.len()).fold(0, u64::saturating_add)
    }

    pub(super) fn node(&self, place: Place) -> &Node {
        &self.nodes[place.0]
    }

    /// Where a node is, for people, without a slash at the beginning.
    pub(super) fn path(&self, place: Place) -> String {
        self.bytes_path(place).escape_ascii().to_string()
    }

    /// The same as raw bytes.
    pub(super) fn bytes_path(&self, mut place: Place) -> Vec<u8> {
        let mut names: Vec<&[u8]> = Vec::new();
        while place != self.root() {
            let node = self.node(place);
            names.push(&node.name);
            place = node.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn push(
        &mut self,
        name: Vec<u8>,
        parent: Place,
        attributes: Attributes,
        content: Content,
    ) -> Place {
        let place = Place(self.nodes.len());
        let (extras, children) = (Vec::new(), BTreeMap::new());
        self.nodes.push(Node { name, parent, attributes, content, extras, children });
        place
    }
}

impl Extra {
    /// What the extended attributes of a file are; its data is not looked at.
    fn of(path: &Path) -> std::io::Result<Vec<Self>> {
        let mut names = vec![0; XATTR_NAMES_MAX];
        let len = match rustix::fs::llistxattr(path, &mut names[..]) {
            Ok(len) => len,
            // The file system has none.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
            Err(error) => return Err(error.into()),
        };
        let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let kinds = names.filter_map(|name| match name {
            b"security.capability" => Some(Self::Capabilities),
            b"system.posix_acl_access" | b"system.posix_acl_default" => Some(Self::Acl),
            // Labels belong to the machine and its policy rather than to the file.
            b"security.selinux" => None,
            _ => Some(Self::Xattrs),
        });
        let kinds: BTreeSet<Self> = kinds.collect();
        Ok(kinds.into_iter().collect())
    }
}

impl Attributes {
    fn of(metadata: &Metadata) -> Self {
        // Twelve bits.
        let permissions = u16::try_from(metadata.mode() & 0o7777).unwrap_or_default();
        Self { permissions, uid: metadata.uid(), gid: metadata.gid() }
    }
}

impl Content {
    fn of(path: &Path, metadata: &Metadata) -> std::io::Result<Self> {
        let kind = metadata.file_type();
        let (major, minor) = device(metadata.rdev());
        Ok(if kind.is_dir() {
            Self::Directory
        } else if kind.is_symlink() {
            Self::Link(fs::read_link(path)?.into_os_string().into_vec())
        } else if kind.is_block_device() {
            Self::BlockDevice(major, minor)
        } else if kind.is_char_device() {
            Self::CharDevice(major, minor)
        } else if kind.is_fifo() {
            Self::Fifo
        } else if kind.is_socket() {
            Self::Socket
        } else {
            Self::File { path: path.to_owned(), len: metadata.len() }
        })
    }

    /// In bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Link(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
            Self::Directory
            | Self::BlockDevice(..)
            | Self::CharDevice(..)
            | Self::Fifo
            | Self::Socket => 0,
        }
    }
}

/// What Linux lets a list of attributes have at most, in bytes.
const XATTR_NAMES_MAX: usize = 64 << 10;

/// Major and minor number of a device, from the interleaved form of the C library.
fn device(number: u64) -> (u32, u32) {
    let major = (number >> 8 & 0xfff) | (number >> 32 & 0xffff_f000);
    let minor = (number & 0xff) | (number >> 12 & 0xffff_ff00);
    // Both are 32 bits.
    (u32::try_from(major).unwrap_or(u32::MAX), u32::try_from(minor).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_a_file_can_have_and_there_once() {
        let mut tree = Tree::new(Attributes::default());
        let bin = tree.add(tree.root(), b"bin", Attributes::default(), Content::Directory).unwrap();
        let mut add = |place, name: &[u8]| {
            tree.add(place, name, Attributes::default(), Content::Fifo).map_err(|e| e.to_string())
        };
        let file = add(bin, b"sh").unwrap();
        for (place, name, error) in [
            (bin, &b""[..], "/bin/: no node can have this name"),
            (bin, b".", "/bin/.: no node can have this name"),
            (bin, b"..", "/bin/..: no node can have this name"),
            (bin, b"a/b", "/bin/a/b: a slash or a zero byte in a name"),
            (bin, b"a\0", "/bin/a\\x00: a slash or a zero byte in a name"),
            (bin, b"sh", "/bin/sh: there is one already"),
            (file, b"a", "/bin/sh/a: what it is in is not a directory"),
        ] {
            assert_eq!(add(place, name), Err(error.to_owned()));
        }
    }

    #[test]
    fn device_numbers_come_apart() {
        assert_eq!(device(0x0103), (1, 3));
        assert_eq!(device(0x0011_032c), (259, 300));
        assert_eq!(device(0xffff_ffff_ffff_ffff), (u32::MAX, u32::MAX));
    }
}
