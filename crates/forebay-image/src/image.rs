//! The common parts of all formats: a tree of nodes, and files made of blocks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::listing::EntryDefect;
use crate::source::Source;

/// A node of an image; stable as long as the image does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl Kind {
    /// What a mode's upper four bits say, as they are on all of Unix.
    pub(crate) const fn of_mode(mode: u16) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::File),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }

    /// These bits of a mode.
    pub(crate) const fn mode(self) -> u16 {
        let bits = match self {
            Self::Fifo => 0o01,
            Self::CharDevice => 0o02,
            Self::Directory => 0o04,
            Self::BlockDevice => 0o06,
            Self::File => 0o10,
            Self::Symlink => 0o12,
            Self::Socket => 0o14,
        };
        bits << 12
    }
}

/// A moment since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds beyond them.
    pub nanos: u32,
}

impl fmt::Display for Time {
    /// `2024-02-29 12:34:56`, in UTC, without the nanoseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The calendar repeats every 400 years. They begin in March, so that the odd day is last.
        const DAYS_400: i64 = 146_097;
        /// From the first of March of the year 0 to 1970.
        const DAYS_TO_1970: i64 = 719_468;
        let days = self.seconds.div_euclid(86_400) + DAYS_TO_1970;
        let second = self.seconds.rem_euclid(86_400);
        let (cycle, day) = (days.div_euclid(DAYS_400), days.rem_euclid(DAYS_400));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = cycle * 400 + year + next;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in this image.
    pub id: NodeId,
    /// The number that `stat` shows.
    pub ino: u64,
    /// Its type.
    pub kind: Kind,
    /// Permissions with set-user-id, set-group-id and sticky: the low 12 bits of a mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Bytes of content, or of a link's target, or of a directory as the format counts it.
    pub size: u64,
    /// Space that Linux shows for it, in units of 512 bytes: less than its size has if it has holes
    /// or, in erofs, if it is compressed.
    pub blocks: u64,
    /// The number of names it has.
    pub links: u32,
    /// When it was changed last; none if the format keeps no time.
    pub modified: Option<Time>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// A name in a directory. `.` and `..` are in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without a slash and without a zero byte; never empty.
    pub name: Vec<u8>,
    /// Its node.
    pub node: NodeId,
    /// The inode number of that.
    pub ino: u64,
    /// What that is.
    pub kind: Kind,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xattr {
    /// The name with its namespace: `user.origin`.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_types_are_known_and_nine_are_not() {
        let known = (0..16).filter_map(|bits: u16| Some((bits << 12, Kind::of_mode(bits << 12)?)));
        let known: Vec<_> = known.collect();
        assert_eq!(known.len(), 7);
        for (mode, kind) in known {
            assert_eq!(kind.mode(), mode);
        }
    }

    #[test]
    fn times_are_those_of_date() {
        let at = |seconds| Time { seconds, nanos: 5 }.to_string();
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(1 << 31), "2038-01-19 03:14:08");
        assert!(at(i64::MAX).ends_with(" 15:30:07"));
        assert!(at(i64::MIN).starts_with('-'));
    }
}
