//! The common part of all formats: the trait of an open image, and files made of blocks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::listing::EntryDefect;
use crate::node::{Entry, Node, NodeId, Xattr};
use crate::source::Source;

/// How a block's raw bytes become content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// There are no raw bytes: all is zero.
    Hole,
    /// The raw bytes are the content.
    Stored,
    /// They have to be decoded.
    Packed,
}

/// A run of a file's bytes, and where it comes from.
///
/// The decoded bytes depend only on `raw`, `coding`, `decoded` and `variant`, so they are the key
/// of any cache: files with equal content, and files whose tails share a block, are decoded once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The bytes of the file that it holds.
    pub plain: Range<u64>,
    /// The bytes of the image that it is made of; empty for a hole.
    pub raw: Range<u64>,
    /// How these become content.
    pub coding: Coding,
    /// The number of bytes that a packed block decodes to, 16 MiB at most; zero for others, which
    /// may be of any length.
    pub decoded: u32,
    /// The start of `plain` in the decoded bytes. Larger than zero if one block holds parts of
    /// several files, or more of the file than requested.
    pub inside: u32,
    /// What else the format needs to decode it: a codec, a place inside the raw bytes.
    pub variant: u64,
}

impl Block {
    /// Zeros without raw bytes.
    pub const fn hole(plain: Range<u64>) -> Self {
        Self { plain, raw: 0..0, coding: Coding::Hole, decoded: 0, inside: 0, variant: 0 }
    }

    /// How many bytes have to be decoded so that the file's bytes before `end` are there.
    pub fn upto(&self, end: u64) -> usize {
        let inside = end.clamp(self.plain.start, self.plain.end) - self.plain.start;
        usize::try_from(u64::from(self.inside) + inside).unwrap_or(usize::MAX)
    }
}

/// What an image says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// `cramfs`, `squashfs`, `erofs`.
    pub format: &'static str,
    /// The number of bytes that belong to the image.
    pub bytes: u64,
    /// Maximum bytes of content in a block. For erofs it is the file system's block: the unit of
    /// decoding can be larger or smaller.
    pub block_size: u32,
    /// Maximum bytes of the image that a block is decoded from.
    pub raw_max: u64,
    /// The number of nodes, if the image has it.
    pub nodes: Option<u64>,
    /// The codecs in use, by name.
    pub codecs: Vec<&'static str>,
    /// Everything else that the superblock says, as names and values for people.
    pub details: Vec<(&'static str, String)>,
    /// Harmless oddities.
    pub warnings: Vec<String>,
}

/// Bytes of an image that something is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedBytes {
    /// Where they are.
    pub bytes: Range<u64>,
    /// The kind of data, with its article: `the superblock`, `an inode`.
    pub what: &'static str,
}

impl UsedBytes {
    /// Those of a block of content; none if it is a hole.
    pub(crate) fn of_block(block: &Block) -> Option<Self> {
        let what = match block.coding {
            Coding::Hole => return None,
            Coding::Stored => Self::STORED,
            Coding::Packed => Self::PACKED,
        };
        Some(Self { bytes: block.raw.clone(), what })
    }

    /// A block whose bytes are the content.
    pub(crate) const STORED: &'static str = "a stored block";
    /// A block that has to be decoded.
    pub(crate) const PACKED: &'static str = "a packed block";
}

/// How an image is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Blocks that are shorter than they should be are filled with zeros, as Linux does with
    /// cramfs, instead of being an error.
    pub lenient: bool,
}

/// An open image. Many threads may use it at once.
pub trait Image: Send + Sync + fmt::Debug {
    /// The statements of its header.
    fn summary(&self) -> &Summary;

    /// Where its bytes come from.
    fn source(&self) -> &Arc<dyn Source>;

    /// The directory from which all others are reached.
    fn root(&self) -> NodeId;

    /// The attributes of a node.
    ///
    /// # Errors
    ///
    /// If there is no valid node of this name.
    fn node(&self, id: NodeId) -> Result<Node>;

    /// The names in a directory that Linux finds there, in the image's order, each once.
    ///
    /// # Errors
    ///
    /// If the node is no directory, or its entries cannot be separated.
    fn entries(&self, directory: NodeId) -> Result<Arc<[Entry]>>;

    /// Errors of a directory's entries: entries that [`entries`](Self::entries) leaves out, and
    /// entries that are out of order.
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries).
    fn defects(&self, _directory: NodeId) -> Result<Arc<[EntryDefect]>> {
        Ok(Arc::new([]))
    }

    /// What a name in a directory names.
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries).
    fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        let entries = self.entries(directory)?;
        Ok(entries.iter().find(|entry| entry.name == name).map(|entry| entry.node))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// If the node is no link, or an invalid one.
    fn link(&self, id: NodeId) -> Result<Vec<u8>>;

    /// The extended attributes of a node.
    ///
    /// # Errors
    ///
    /// If they are invalid.
    fn xattrs(&self, _id: NodeId) -> Result<Vec<Xattr>> {
        Ok(Vec::new())
    }

    /// Whether the format or a table of the image rules out extended attributes. If not, nodes may
    /// still have none.
    fn rules_out_xattrs(&self) -> bool {
        false
    }

    /// The block that holds a byte of a regular file. The blocks of a file follow each other
    /// without gaps: `plain.end` of one is `plain.start` of the next, up to the file's size, or up
    /// to where an image that is shorter than it says ends: a byte behind that is an error.
    ///
    /// # Errors
    ///
    /// If the node is no regular file, the byte lies beyond its end, or the block's place is
    /// invalid. That of other blocks may be valid.
    fn locate(&self, id: NodeId, offset: u64) -> Result<Block>;

    /// Decodes the raw bytes of a block, at least its first `upto` bytes of content, into the
    /// beginning of `content`, which has the length of `block.decoded`. Returns how many bytes are
    /// there. They may be fewer than `upto` where the format does not keep a block's length.
    ///
    /// # Errors
    ///
    /// [`Error::Block`](crate::Error::Block) if the raw bytes are no such block.
    fn decode(&self, block: &Block, raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize>;

    /// Checks the image beyond its structure: a checksum of the whole. Returns the checks that were
    /// made.
    ///
    /// # Errors
    ///
    /// If a promise is broken.
    fn verify(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The bytes of the image that belong to no single node: superblock, tables.
    ///
    /// # Errors
    ///
    /// If they are unknown.
    fn used(&self) -> Result<Vec<UsedBytes>>;

    /// The bytes that a node takes, without the blocks of a regular file: its inode and attributes
    /// if these are in no table, the map of its blocks, a directory's entries, a link's target.
    ///
    /// # Errors
    ///
    /// If the node is invalid.
    fn used_by(&self, id: NodeId) -> Result<Vec<UsedBytes>>;

    /// Errors in the entries of the directories that have been read so far. Each once, and a
    /// bounded number of them.
    fn oddities(&self) -> Vec<String> {
        Vec::new()
    }
}
