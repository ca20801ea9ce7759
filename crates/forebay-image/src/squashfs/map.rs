//! Where the blocks of a file are: a list of lengths, which have to be added up.
//!
//! ```text
//!   list    | len 0 | len 1 | 0 | len 3 | ...       0 is a hole and takes no raw bytes
//!   image   ...|==len 0==|=len 1=|==len 3==|...     one behind the other, from the file's start on
//!   marks   ^ block 0                ^ block 512           place in the list, and sum so far
//! ```
//!
//! Source:     squashfs 4.0 as Linux reads it (fs/squashfs/file.c)
//! Behaviour:  short lists stay in memory as sums; long lists have a mark at regular intervals,
//!             from which a lookup adds up the few remaining lengths
//! Differs:    Linux keeps marks of a few files for the whole mount; here each file has its own
//! Not for:    files of more than 2^28 blocks, which are refused

use std::sync::{Mutex, OnceLock, PoisonError};

use super::metadata::{Place, Stream};
use crate::error::{Error, Result};

/// Blocks of a file at most: 1 TiB in blocks of 4 KiB, 32 TiB in blocks of 128 KiB.
pub(super) const FILE_BLOCKS_MAX: u64 = 1 << 28;
/// A list up to this long is kept as sums, 16 bytes each.
const SHORT: u64 = 512;
/// Marks of a file at most, 32 bytes each.
const MARKS_MAX: u64 = 4096;

/// Where a block lies in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// First raw byte.
    pub(super) start: u64,
    /// Length and flag, as the list has them.
    pub(super) word: Word,
}

/// A block's length and its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u32);

impl Word {
    /// Whether the block has no raw bytes and is all zero.
    pub(super) const fn is_hole(self) -> bool {
        self.0 == 0
    }

    /// Whether the raw bytes are the content.
    pub(super) const fn is_stored(self) -> bool {
        self.0 & STORED != 0
    }

    /// The number of raw bytes.
    pub(super) const fn len(self) -> u32 {
        self.0 & (STORED - 1)
    }

    /// Whether it can be the length of a block of `block_size` at most.
    pub(super) const fn is_valid(self, block_size: u32) -> bool {
        self.0 < STORED << 1 && self.len() <= block_size && (self.len() > 0 || self.is_hole())
    }
}

/// The list of a file, with the known part.
#[derive(Debug)]
pub(super) struct Map {
    /// The first raw byte of block 0.
    start: u64,
    /// The number of blocks, without the tail in a fragment.
    blocks: u64,
    block_size: u32,
    /// Where the list begins; nowhere if it is empty.
    list: Option<Place>,
    /// All of a short list, once it was needed.
    short: OnceLock<Box<[Found]>>,
    /// Of a long list: how many blocks lie between two marks, and the marks so far.
    interval: u64,
    marks: Mutex<Vec<Mark>>,
}

/// The state at some block: the position of its length, and of its raw bytes.
#[derive(Clone, Copy, Debug)]
struct Mark {
    list: Place,
    start: u64,
}

impl Map {
    /// The map of a file whose list begins at `list`.
    pub(super) fn new(start: u64, blocks: u64, block_size: u32, list: Option<Place>) -> Self {
        let interval = SHORT.max(blocks.div_ceil(MARKS_MAX));
        let (short, marks) = (OnceLock::new(), Mutex::new(Vec::new()));
        Self { start, blocks, block_size, list, short, interval, marks }
    }

    /// The number of blocks, without the tail in a fragment.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Memory that it takes once all of it is known, in bytes.
    pub(super) fn weight(&self) -> usize {
        let (items, each) = if self.blocks <= SHORT {
            (self.blocks, size_of::<Found>())
        } else {
            // A vector that grows may be half empty.
            (2 * self.blocks.div_ceil(self.interval), size_of::<Mark>())
        };
        usize::try_from(items).map_or(usize::MAX, |items| items * each)
    }

    /// Where a block is. `stream` opens the list at a place.
    pub(super) fn find<'a>(
        &self,
        index: u64,
        stream: impl Fn(Place) -> Result<Stream<'a>>,
    ) -> Result<Found> {
        let Some(list) = self.list.filter(|_| index < self.blocks) else {
            return Err(self.missing(index));
        };
        if self.blocks <= SHORT {
            self.find_short(index, stream(list)?)
        } else {
            self.find_long(index, list, stream)
        }
    }

    /// One that is known already, without the list.
    pub(super) fn known(&self, index: u64) -> Option<Found> {
        self.short.get()?.get(usize::try_from(index).ok()?).copied()
    }

    fn find_short(&self, index: u64, list: Stream<'_>) -> Result<Found> {
        let mut sums = Vec::new();
        let whole =
            self.add_up(&mut list.clone(), self.start, self.blocks, |found| sums.push(found));
        if whole.is_err() {
            // Blocks before an invalid one can still be read.
            return self.find_last(list, self.start, index + 1);
        }
        let found = usize::try_from(index).ok().and_then(|index| sums.get(index)).copied();
        // If it fails, another thread has stored the same sums.
        let _ = self.short.set(sums.into());
        found.ok_or_else(|| self.missing(index))
    }

    fn find_long<'a>(
        &self,
        index: u64,
        list: Place,
        stream: impl Fn(Place) -> Result<Stream<'a>>,
    ) -> Result<Found> {
        let nearest = usize::try_from(index / self.interval).expect("no more than the marks");
        let mark = {
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            let mut last = *marks.last().unwrap_or(&Mark { list, start: self.start });
            if marks.is_empty() {
                marks.push(last);
            }
            while marks.len() <= nearest {
                let mut list = stream(last.list)?;
                let start = self.add_up(&mut list, last.start, self.interval, |_| {})?;
                last = Mark { list: list.place()?, start };
                marks.push(last);
            }
            marks[nearest]
        };
        self.find_last(stream(mark.list)?, mark.start, index % self.interval + 1)
    }

    /// The last of the `count` blocks whose lengths come next.
    fn find_last(&self, mut list: Stream<'_>, start: u64, count: u64) -> Result<Found> {
        let mut found = None;
        self.add_up(&mut list, start, count, |last| found = Some(last))?;
        found.ok_or_else(|| self.missing(count))
    }

    /// Reads `count` lengths and adds them to `start`. Says where the next block would begin.
    fn add_up(
        &self,
        list: &mut Stream<'_>,
        mut start: u64,
        mut count: u64,
        mut each: impl FnMut(Found),
    ) -> Result<u64> {
        let mut bytes = [0; 4 * AT_ONCE];
        while count > 0 {
            let now = usize::try_from(count).unwrap_or(AT_ONCE).min(AT_ONCE);
            let block = list.block();
            list.fill(&mut bytes[..4 * now])?;
            let (words, _) = bytes[..4 * now].as_chunks::<4>();
            for word in words {
                let word = Word(u32::from_le_bytes(*word));
                if !word.is_valid(self.block_size) {
                    let found = format!("{:#x} in blocks of {} bytes", word.0, self.block_size);
                    return Err(Error::field("length of a block", block, found));
                }
                each(Found { start, word });
                // A position beyond the image is an error of the block there.
                start = start.saturating_add(u64::from(word.len()));
            }
            count -= now as u64;
        }
        Ok(start)
    }

    fn missing(&self, index: u64) -> Error {
        Error::field("block list", self.start, format!("block {index} of {}", self.blocks))
    }
}

/// Bit of a length for a stored block.
const STORED: u32 = 1 << 24;
/// Lengths that are read from the list at once.
const AT_ONCE: usize = 128;
