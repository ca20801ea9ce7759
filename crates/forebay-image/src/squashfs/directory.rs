//! Directories: runs of entries whose inodes lie in one metadata block, sorted by name.
//!
//! ```text
//!   run     4 entries - 1   4 block of their inodes   4 inode number that theirs are counted from
//!   entry   2 inside the block   2 inode number - that one, signed   2 type   2 length - 1   name
//! ```
//!
//! A run has at most 256 entries. A directory of size 3 is empty: the size counts `.` and `..`,
//! which are not stored.

use super::kind::kind_of;
use super::metadata::{Place, Stream};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::listing::{EntryTarget, Stored};
use crate::node::NodeId;

/// Bytes of a directory that are listed at most.
pub(super) const BYTES_MAX: u32 = 128 << 20;
/// Entries of a directory that are listed at most.
pub(super) const ENTRIES_MAX: usize = 4 << 20;
/// Bytes of a name at most.
pub(super) const NAME_MAX: usize = 256;
/// The part of a directory's size that is not bytes.
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
    /// of the index before the first one whose name is greater. `index` is at the index, `table` is
    /// where the directory table begins.
    pub(super) fn seek(&self, name: &[u8], table: u64, index: Index<'_>) -> (Place, u32) {
        let runs = index.take_while(|indexed| indexed.name.as_slice() <= name);
        let last = runs.last().map(|indexed| (indexed.block, indexed.before));
        last.map_or((self.place, 0), |(block, before)| {
            (self.place_of(block, before, table), before)
        })
    }

    /// Where the run of an index entry begins.
    pub(super) fn place_of(&self, block: u32, before: u32, table: u64) -> Place {
        // A decoded block has 8192 bytes: where the run is inside follows from where it is.
        let inside = (u32::from(self.place.inside) + before % BLOCK) % BLOCK;
        let inside = u16::try_from(inside).expect("less than a block");
        Place { block: table.saturating_add(block.into()), inside }
    }
}

/// A run that a directory's index names.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    /// Its first name, as the index has it.
    pub(super) name: Vec<u8>,
    /// Its metadata block, counted from the directory table.
    pub(super) block: u32,
    /// Bytes of runs before it.
    pub(super) before: u32,
}

/// The index of a directory. It ends where it cannot be read: Linux does without the rest, since
/// the index only makes a lookup faster.
pub(super) struct Index<'a> {
    stream: Stream<'a>,
    left: u16,
}

impl<'a> Index<'a> {
    /// For `count` entries that begin at the position of the stream.
    pub(super) const fn new(stream: Stream<'a>, count: u16) -> Self {
        Self { stream, left: count }
    }

    fn read(&mut self) -> Option<Indexed> {
        let at = self.stream.block();
        let bytes: [u8; 12] = self.stream.array().ok()?;
        let mut fields = Reader::new(&bytes, at);
        let before = fields.u32("directory index byte").ok()?;
        let block = fields.u32("directory index block").ok()?;
        let len = name_len(fields.u32("directory index name").ok()?)?;
        let mut name = vec![0; len];
        self.stream.fill(&mut name).ok()?;
        // Linux compares it as a string of C.
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(len));
        Some(Indexed { name, block, before })
    }
}

impl Iterator for Index<'_> {
    type Item = Indexed;

    fn next(&mut self) -> Option<Indexed> {
        self.left = self.left.checked_sub(1)?;
        let indexed = self.read();
        if indexed.is_none() {
            self.left = 0;
        }
        indexed
    }
}

/// Decoded bytes of a metadata block.
const BLOCK: u32 = 8192;

/// An entry's description of its inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) node: NodeId,
    pub(super) target: EntryTarget,
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
        self.entries -= 1;
        let node = NodeId(u64::from(self.block) << 16 | u64::from(inside));
        // Linux lets the sum wrap around as well.
        let ino = self.ino.wrapping_add_signed(delta.into()).into();
        let target = EntryTarget { ino, kind: kind_of(number) };
        Ok(Some((&buffer[..name_len], Named { node, target })))
    }

    /// The next entry with its name.
    pub(super) fn next_stored(&mut self) -> Result<Option<Stored<()>>> {
        let mut buffer = [0; NAME_MAX];
        let next = self.next(&mut buffer)?;
        Ok(next.map(|(name, Named { node, target })| Stored {
            name: name.to_vec(),
            node,
            target,
            extra: (),
        }))
    }

    /// Where the next run begins and how many bytes are left from there on; none if the next entry
    /// is in the present run, or there is none.
    pub(super) fn run(&mut self) -> Result<Option<(Place, u32)>> {
        if self.entries > 0 || self.left == 0 {
            return Ok(None);
        }
        Ok(Some((self.stream.place()?, self.left)))
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

/// The length of a name from the stored number, which is one less.
fn name_len(stored: u32) -> Option<usize> {
    usize::try_from(stored).ok().filter(|len| *len < NAME_MAX).map(|len| len + 1)
}
