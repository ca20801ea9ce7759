//! Inodes: fourteen types, each kind of node in a basic and in an extended form.
//!
//! ```text
//!   all         2 type  2 mode  2 owner's index  2 group's index  4 mtime  4 inode number
//!    1 dir      4 block  4 links  2 size + 3  2 inside  4 parent
//!    8          4 links  4 size + 3  4 block  4 parent  2 index entries - 1  2 inside  4 xattr
//!               then the index: 4 byte  4 block  4 length of name - 1, name
//!    2 file     4 start  4 fragment  4 inside  4 size, then 4 for each block
//!    9          8 start  8 size  8 sparse  4 links  4 fragment  4 inside  4 xattr, then the same
//!    3 symlink  4 links  4 length, target            10: the same, then 4 xattr
//!    4, 5       block, character device: 4 links  4 device       11, 12: the same, then 4 xattr
//!    6, 7       fifo, socket: 4 links                            13, 14: the same, then 4 xattr
//! ```

use super::directory::Directory;
use super::kind::kind_of;
use super::map::{FILE_BLOCKS_MAX, Map};
use super::metadata::{Place, Stream};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::node::{Kind, Node, NodeId, Time};

/// Bytes of a symbolic link's target at most, as in Linux.
const TARGET_MAX: u32 = 4096;
/// A fragment, or a row of the xattr table, that is not there.
const NONE: u32 = u32::MAX;
/// Memory of a cached inode without the map of its blocks.
const OVERHEAD: usize = 384;

/// A decoded inode.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) node: Node,
    /// Its row in the xattr table.
    pub(super) xattr: Option<u32>,
    pub(super) content: Content,
    /// The metadata block where it begins, for errors.
    pub(super) at: u64,
}

/// The parts of an inode besides its node.
#[derive(Debug)]
pub(super) enum Content {
    File {
        map: Map,
        tail: Option<Tail>,
    },
    Directory(Directory),
    /// Where the target begins.
    Symlink(Place),
    /// A device, a fifo or a socket.
    Special,
}

/// The end of a file, in a block that it shares with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) fragment: u32,
    pub(super) inside: u32,
}

/// What inodes refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) ids: &'a [u32],
    pub(super) block_size: u32,
    /// Where the directory table begins.
    pub(super) directories: u64,
    /// What the inode table can decode to at most, in bytes.
    pub(super) table_len_max: u64,
}

impl Inode {
    /// Reads the inode at which `stream` is.
    pub(super) fn read(id: NodeId, stream: &mut Stream<'_>, around: Around<'_>) -> Result<Self> {
        let at = stream.block();
        let header: [u8; 16] = stream.array()?;
        let mut fields = Reader::new(&header, at);
        let (number, extended) = match fields.u16("inode type")? {
            number @ 1..=7 => (number, false),
            number @ 8..=14 => (number - 7, true),
            number => {
                return Err(Error::field("inode type", at, format!("{number}, not in 1..=14")));
            }
        };
        let kind = kind_of(number).expect("a type from 1 to 7");
        let permissions = fields.u16("inode mode")? & 0o7777;
        let uid = around.id(fields.u16("owner")?, at)?;
        let gid = around.id(fields.u16("group")?, at)?;
        let modified = Time { seconds: fields.u32("inode mtime")?.into(), nanos: 0 };
        let ino = fields.u32("inode number")?;
        if ino == 0 {
            return Err(Error::field("inode number", at, "zero"));
        }
        let modified = Some(modified);
        let ino = ino.into();
        let (size, links, device) = (0, 1, (0, 0));
        let blocks = 0;
        let node =
            Node { id, ino, kind, permissions, uid, gid, size, blocks, links, modified, device };
        let mut inode = Self { node, xattr: None, content: Content::Special, at };
        match kind {
            Kind::File => inode.read_file(stream, extended, around)?,
            Kind::Directory => inode.read_directory(stream, extended, around)?,
            Kind::Symlink => inode.read_symlink(stream, extended)?,
            Kind::BlockDevice | Kind::CharDevice => inode.read_special(stream, extended, true)?,
            Kind::Fifo | Kind::Socket => inode.read_special(stream, extended, false)?,
        }
        Ok(inode)
    }

    /// Memory that it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        match &self.content {
            Content::File { map, .. } => OVERHEAD.saturating_add(map.weight()),
            Content::Directory(_) | Content::Symlink(_) | Content::Special => OVERHEAD,
        }
    }

    fn read_file(
        &mut self,
        stream: &mut Stream<'_>,
        extended: bool,
        around: Around<'_>,
    ) -> Result<()> {
        let at = self.at;
        let mut bytes = [0; 40];
        let bytes = if extended { &mut bytes[..] } else { &mut bytes[..16] };
        stream.fill(bytes)?;
        let mut fields = Reader::new(bytes, at);
        let (start, fragment, inside, sparse);
        if extended {
            start = fields.u64("file start")?;
            self.node.size = fields.u64("file size")?;
            sparse = fields.u64("file sparse")?;
            self.node.links = fields.u32("file links")?;
            fragment = fields.u32("file fragment")?;
            inside = fields.u32("file fragment offset")?;
            self.xattr = some(fields.u32("file xattr")?);
        } else {
            start = fields.u32("file start")?.into();
            fragment = fields.u32("file fragment")?;
            inside = fields.u32("file fragment offset")?;
            self.node.size = fields.u32("file size")?.into();
            sparse = 0;
        }
        self.node.blocks = self.node.size.saturating_sub(sparse).div_ceil(512);
        let (size, block_size) = (self.node.size, u64::from(around.block_size));
        let tail = some(fragment).map(|fragment| Tail { fragment, inside });
        let blocks = if tail.is_some() { size / block_size } else { size.div_ceil(block_size) };
        if blocks > FILE_BLOCKS_MAX {
            let what = format!("a file of {size} bytes in {blocks} blocks");
            return Err(Error::Unsupported { what, offset: at });
        }
        // Not even a table of the best compression could hold the list.
        if blocks * 4 > around.table_len_max {
            let found = format!("{size} bytes, whose block list is longer than the inode table");
            return Err(Error::field("file size", at, found));
        }
        let list = if blocks == 0 { None } else { Some(stream.place()?) };
        let map = Map::new(start, blocks, around.block_size, list);
        self.content = Content::File { map, tail: tail.filter(|_| size % block_size > 0) };
        Ok(())
    }

    fn read_directory(
        &mut self,
        stream: &mut Stream<'_>,
        extended: bool,
        around: Around<'_>,
    ) -> Result<()> {
        let mut bytes = [0; 24];
        let bytes = if extended { &mut bytes[..] } else { &mut bytes[..16] };
        stream.fill(bytes)?;
        let mut fields = Reader::new(bytes, self.at);
        let (block, size, inside);
        let mut index = None;
        if extended {
            self.node.links = fields.u32("directory links")?;
            size = fields.u32("directory size")?;
            block = fields.u32("directory block")?;
            fields.u32("directory parent")?;
            let indexes = fields.u16("directory indexes")?;
            inside = fields.u16("directory offset")?;
            self.xattr = some(fields.u32("directory xattr")?);
            if indexes > 0 {
                index = Some((stream.place()?, indexes));
            }
        } else {
            block = fields.u32("directory block")?;
            self.node.links = fields.u32("directory links")?;
            size = fields.u16("directory size")?.into();
            inside = fields.u16("directory offset")?;
        }
        self.node.size = size.into();
        let place = Place { block: around.directories.saturating_add(block.into()), inside };
        self.content = Content::Directory(Directory::new(place, size, index));
        Ok(())
    }

    fn read_symlink(&mut self, stream: &mut Stream<'_>, extended: bool) -> Result<()> {
        let bytes: [u8; 8] = stream.array()?;
        let mut fields = Reader::new(&bytes, self.at);
        self.node.links = fields.u32("symlink links")?;
        let len = fields.u32("symlink length")?;
        if !(1..=TARGET_MAX).contains(&len) {
            let found = format!("{len}, not in 1..={TARGET_MAX}");
            return Err(Error::field("symlink length", self.at, found));
        }
        self.node.size = len.into();
        self.content = Content::Symlink(stream.place()?);
        if extended {
            stream.skip(len.into())?;
            self.xattr = some(u32::from_le_bytes(stream.array()?));
        }
        Ok(())
    }

    fn read_special(
        &mut self,
        stream: &mut Stream<'_>,
        extended: bool,
        is_device: bool,
    ) -> Result<()> {
        self.node.links = u32::from_le_bytes(stream.array()?);
        if is_device {
            // Twelve bits of major number between eight low and twelve high bits of the minor.
            let device = u32::from_le_bytes(stream.array()?);
            let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
            self.node.device = (major, minor);
        }
        if extended {
            self.xattr = some(u32::from_le_bytes(stream.array()?));
        }
        Ok(())
    }
}

impl Around<'_> {
    fn id(&self, index: u16, at: u64) -> Result<u32> {
        self.ids.get(usize::from(index)).copied().ok_or_else(|| {
            Error::field("inode owner", at, format!("id {index} of {}", self.ids.len()))
        })
    }
}

fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}
