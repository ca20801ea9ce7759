//! Directories: runs of entries whose inodes lie in one metadata block, sorted by name.
//!
//! ```text
//!   run     4 entries - 1   4 block of their inodes   4 inode number that theirs are counted from
//!   entry   2 inside the block   2 inode number - that one, signed   2 type   2 length - 1   name
//! ```
//!
//! A run has at most 256 entries. A directory of size 3 is empty: the size counts `.` and `..`,
//! which are not stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::inode::kind_of;
use super::metadata::{Place, Stream};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::image::{Entry, Kind, NodeId};

/// Bytes of a directory that are listed at most.
pub(super) const BYTES_MAX: u32 = 128 << 20;
/// Entries of a directory that are listed at most.
pub(super) const ENTRIES_MAX: usize = 4 << 20;
/// Bytes of a name at most.
pub(super) const NAME_MAX: usize = 256;
/// What the size of a directory counts beside its bytes.
const SIZE_EMPTY: u32 = 3;
/// Entries of a run at most.
const RUN_MAX: u32 = 256;

/// Where a directory is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    /// Where its first run begins; anything if it is empty.
    pub(super) place: Place,
    /// Bytes of its runs.
    pub(super) bytes: u32,
    /// Where its index begins, and the number of entries there.
    pub(super) index: Option<(Place, u16)>,
}

impl Directory {
    pub(super) fn new(place: Place, size: u32, index: Option<(Place, u16)>) -> Self {
        Self { place, bytes: size.saturating_sub(SIZE_EMPTY), index }
    }

    /// Where to begin to look for a name, and how many bytes of runs lie before that: the last run
    /// of the index whose first name is not behind it. `index` is at the index, `table` is where
    /// the directory table begins.
    pub(super) fn seek(
        &self,
        name: &[u8],
        table: u64,
        index: &mut Stream<'_>,
    ) -> Result<(Place, u32)> {
        let mut nearest = (self.place, 0);
        let (_, count) = self.index.unwrap_or((self.place, 0));
        for _ in 0..count {
            let at = index.block();
            let bytes: [u8; 12] = index.array()?;
            let mut fields = Reader::new(&bytes, at);
            let before = fields.u32("directory index byte")?;
            let block = fields.u32("directory index block")?;
            let len = fields.u32("directory index name")?;
            let Some(len) = name_len(len) else {
                return Err(Error::field("directory index name", at, format!("{len} + 1 bytes")));
            };
            let mut first = [0; NAME_MAX];
            index.fill(&mut first[..len])?;
            if &first[..len] > name || before > self.bytes {
                break;
            }
            // A decoded block has 8192 bytes: where the run is inside follows from where it is.
            let inside = (u32::from(self.place.inside) + before % BLOCK) % BLOCK;
            let inside = u16::try_from(inside).expect("less than a block");
            nearest = (Place { block: table.saturating_add(block.into()), inside }, before);
        }
        Ok(nearest)
    }
}

/// Decoded bytes of a metadata block.
const BLOCK: u32 = 8192;

/// What an entry says of its inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) node: NodeId,
    pub(super) kind: Kind,
    /// The inode number.
    pub(super) ino: u32,
}

/// A walk over the entries of a directory.
pub(super) struct Walk<'a> {
    stream: Stream<'a>,
    /// Bytes of runs that are left.
    left: u32,
    /// Of the present run.
    entries: u32,
    block: u32,
    ino: u32,
}

impl<'a> Walk<'a> {
    /// Over the `left` bytes that begin where `stream` is, which is at a run.
    pub(super) const fn new(stream: Stream<'a>, left: u32) -> Self {
        Self { stream, left, entries: 0, block: 0, ino: 0 }
    }

    /// The next entry, with its name in `buffer`.
    pub(super) fn next<'b>(
        &mut self,
        buffer: &'b mut [u8; NAME_MAX],
    ) -> Result<Option<(&'b [u8], Named)>> {
        if self.entries == 0 {
            if self.left == 0 {
                return Ok(None);
            }
            self.begin_run()?;
        }
        let at = self.stream.block();
        let bytes: [u8; 8] = self.take()?;
        let mut fields = Reader::new(&bytes, at);
        let inside = fields.u16("directory entry offset")?;
        let delta = fields.u16("directory entry inode")?.cast_signed();
        let number = fields.u16("directory entry type")?;
        let len = fields.u16("directory entry name")?;
        let Some(name_len) = name_len(len.into()) else {
            return Err(Error::field("directory entry name", at, format!("{len} + 1 bytes")));
        };
        self.spend(name_len)?;
        self.stream.fill(&mut buffer[..name_len])?;
        let name = &buffer[..name_len];
        let Some(kind) = kind_of(number) else {
            let found = format!("{number}, not in 1..=7, of {}", name.escape_ascii());
            return Err(Error::field("directory entry type", at, found));
        };
        if matches!(name, b"." | b"..") || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Error::field("directory entry name", at, name.escape_ascii().to_string()));
        }
        let ino = i64::from(self.ino) + i64::from(delta);
        let Some(ino) = u32::try_from(ino).ok().filter(|ino| *ino > 0) else {
            let found = format!("{ino}, of {}", name.escape_ascii());
            return Err(Error::field("directory entry inode", at, found));
        };
        self.entries -= 1;
        let node = NodeId(u64::from(self.block) << 16 | u64::from(inside));
        Ok(Some((name, Named { node, kind, ino })))
    }

    fn begin_run(&mut self) -> Result<()> {
        let at = self.stream.block();
        let bytes: [u8; 12] = self.take()?;
        let mut fields = Reader::new(&bytes, at);
        let count = fields.u32("directory run length")?;
        self.block = fields.u32("directory run block")?;
        self.ino = fields.u32("directory run inode")?;
        if count >= RUN_MAX {
            return Err(Error::field("directory run length", at, format!("{count} + 1 entries")));
        }
        self.entries = count + 1;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.spend(N)?;
        self.stream.array()
    }

    fn spend(&mut self, len: usize) -> Result<()> {
        let left = u32::try_from(len).ok().and_then(|len| self.left.checked_sub(len));
        self.left = left.ok_or_else(|| {
            let found = format!("{len} more bytes, but {} are left", self.left);
            Error::field("directory size", self.stream.block(), found)
        })?;
        Ok(())
    }
}

/// All entries of a directory.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) entries: Arc<[Entry]>,
    /// The inode number that the directory says of each.
    inos: Box<[u32]>,
    /// Whether the names are in ascending order, as they should be.
    sorted: bool,
    /// Memory that it takes, in bytes.
    pub(super) weight: usize,
}

impl Listing {
    /// Reads them all.
    pub(super) fn read(mut walk: Walk<'_>) -> Result<Self> {
        let mut buffer = [0; NAME_MAX];
        let mut entries: Vec<Entry> = Vec::new();
        let mut inos = Vec::new();
        let (mut sorted, mut names_len) = (true, 0);
        while let Some((name, Named { node, kind, ino })) = walk.next(&mut buffer)? {
            if entries.len() >= ENTRIES_MAX {
                let what = format!("a directory of more than {ENTRIES_MAX} entries");
                return Err(Error::Unsupported { what, offset: walk.stream.block() });
            }
            sorted &= entries.last().is_none_or(|last| last.name.as_slice() < name);
            names_len += name.len();
            entries.push(Entry { name: name.to_vec(), node, kind });
            inos.push(ino);
        }
        if !sorted {
            let mut seen = BTreeSet::new();
            let first: Vec<bool> =
                entries.iter().map(|entry| seen.insert(entry.name.as_slice())).collect();
            drop(seen);
            let mut keep = first.iter();
            entries.retain(|_| *keep.next().unwrap_or(&false));
            let mut keep = first.iter();
            inos.retain(|_| *keep.next().unwrap_or(&false));
        }
        let weight = OVERHEAD + names_len + entries.len() * (size_of::<Entry>() + ENTRY_OVERHEAD);
        Ok(Self { entries: entries.into(), inos: inos.into(), sorted, weight })
    }

    /// The listing of an empty directory.
    pub(super) fn empty() -> Self {
        Self { entries: Arc::new([]), inos: Box::new([]), sorted: true, weight: OVERHEAD }
    }

    /// What a name names, as the directory says it.
    pub(super) fn find(&self, name: &[u8]) -> Option<Named> {
        let at = if self.sorted {
            self.entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok()?
        } else {
            self.entries.iter().position(|entry| entry.name == name)?
        };
        let (entry, ino) = (self.entries.get(at)?, *self.inos.get(at)?);
        Some(Named { node: entry.node, kind: entry.kind, ino })
    }
}

/// The length of a name from what is stored, one less.
fn name_len(stored: u32) -> Option<usize> {
    usize::try_from(stored).ok().filter(|len| *len < NAME_MAX).map(|len| len + 1)
}

/// Memory of a listing beside its entries.
const OVERHEAD: usize = 160;
/// Memory of an entry beside itself and its name: an inode number, an allocation.
const ENTRY_OVERHEAD: usize = 4 + 16;
