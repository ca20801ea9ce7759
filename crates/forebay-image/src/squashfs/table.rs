//! Tables of entries of one size, in metadata blocks whose places are listed behind them.
//!
//! ```text
//!   | block of entries | block of entries | ... | place of block 0 | place of block 1 | ...
//!                                               \_ what the superblock points to
//! ```

use std::ops::Range;

use super::layout::{METADATA_HEADER, METADATA_LEN};
use super::metadata::{Metadata, Place};
use crate::error::{Error, Result};
use crate::source::Source;

/// Metadata blocks of a table at most: 134 million fragments, 268 million inodes, and 2 MiB of
/// places in memory.
pub(super) const BLOCKS_MAX: usize = 1 << 18;

/// The stated position of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Its name, for errors.
    pub(super) name: &'static str,
    /// Where the list of places begins.
    pub(super) list: u64,
    /// The number of entries.
    pub(super) count: u32,
    /// Bytes of an entry, a power of two.
    pub(super) entry: usize,
}

/// A table with a valid list of places.
#[derive(Debug)]
pub(super) struct Table {
    shape: Shape,
    places: Box<[u64]>,
}

impl Table {
    /// Reads the list. The blocks begin at `least` or behind it, and the list ends at `end` or
    /// before it.
    pub(super) fn read(source: &dyn Source, shape: Shape, least: u64, end: u64) -> Result<Self> {
        let Shape { name, list, count, entry } = shape;
        let blocks = (count as usize).div_ceil(METADATA_LEN / entry);
        let len = blocks as u64 * 8;
        if list.checked_add(len).is_none_or(|list_end| list_end > end) {
            let found = format!("{count} entries, whose list does not end before {end}");
            return Err(Error::field(name, list, found));
        }
        if blocks > BLOCKS_MAX {
            let what = format!("the {name} with {count} entries");
            return Err(Error::Unsupported { what, offset: list });
        }
        let mut bytes = vec![0; blocks * 8];
        source.fill(&mut bytes, list)?;
        let (words, _) = bytes.as_chunks::<8>();
        let places: Box<[u64]> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        for (index, place) in places.iter().copied().enumerate() {
            let next = places.get(index + 1).copied().unwrap_or(list);
            let len = next.checked_sub(place).filter(|_| place >= least);
            if len.is_none_or(|len| !BLOCK_LENS.contains(&len)) {
                let found = format!("block {index} at {place}, and the next at {next}");
                return Err(Error::field(name, list + index as u64 * 8, found));
            }
        }
        Ok(Self { shape, places })
    }

    /// Where its first byte is in the image.
    pub(super) fn start(&self) -> u64 {
        self.places.first().copied().unwrap_or(self.shape.list)
    }

    /// Its name.
    pub(super) const fn name(&self) -> &'static str {
        self.shape.name
    }

    /// Where its metadata blocks are: each ends where the next one begins, or before.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let ends = self.places.iter().skip(1).copied().chain([self.shape.list]);
        self.places.iter().copied().zip(ends).map(|(start, end)| start..end)
    }

    /// Where the list of their places is.
    pub(super) const fn list(&self) -> Range<u64> {
        self.shape.list..self.shape.list + self.places.len() as u64 * 8
    }

    /// The number of entries.
    pub(super) const fn count(&self) -> u32 {
        self.shape.count
    }

    /// An entry.
    pub(super) fn entry<const N: usize>(&self, metadata: &Metadata, index: u32) -> Result<[u8; N]> {
        assert_eq!(N, self.shape.entry, "an entry has the size that the table was made for");
        let in_block = METADATA_LEN / N;
        let index = index as usize;
        let place = self.places.get(index / in_block).filter(|_| index < self.count() as usize);
        let Some(block) = place.copied() else {
            let found = format!("entry {index} of {}", self.count());
            return Err(Error::field(self.shape.name, self.shape.list, found));
        };
        let end = self.places.get(index / in_block + 1).copied().unwrap_or(self.shape.list);
        let inside = u16::try_from(index % in_block * N).expect("less than a block's length");
        metadata.stream(block..end, Place { block, inside })?.array()
    }
}

/// What a metadata block of a table may take with its header.
const BLOCK_LENS: std::ops::RangeInclusive<u64> =
    METADATA_HEADER + 1..=METADATA_HEADER + METADATA_LEN as u64;
