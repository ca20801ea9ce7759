//! Block pointers: where each block of a file lies.
//!
//! ```text
//!   offset                offset + 4n
//!     | p0 | p1 | ... | pn-1 |  block 0  |  block 1  | ... |  block n-1  |
//!                                       p0          p1                  pn-1
//! ```
//!
//! A pointer is the end of its block and the start of the next one. With extended pointers its two
//! upper bits are flags, and it may be the start of its block instead. A block without bytes is a
//! hole, whether or not the image says that it has some.
//!
//! Pointers are read in pieces and cached, unchecked: they are checked each time they are used.

use std::ops::Range;
use std::sync::Arc;

use super::layout::{BLOCK_LEN, Inode, Order, RAW_MAX};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::image::{Block, Coding};
use crate::node::NodeId;
use crate::source::Source;

/// Pointers that are read at once: those of 4 MiB of a file, which are 4 KiB.
const PIECE_BLOCKS: u64 = 1024;
/// Memory for pointers, in bytes.
const CACHE_BYTES: usize = 1 << 20;
/// Memory of a piece in addition to its pointers, in bytes.
const PIECE_COST: usize = 96;

/// The pointers of all files of an image.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) order: Order,
    /// Whether pointers have flags.
    pub(super) extended: bool,
    /// The number of bytes that belong to the image.
    pub(super) end: u64,
    /// Stored blocks that are too short end with zeros.
    pub(super) lenient: bool,
    pieces: Cache<Arc<[u32]>>,
}

/// Pointers of one file that are read at once. Files that share their data share these.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where the pointers of the file begin.
    array: u64,
    /// How many there are.
    blocks: u64,
    number: u64,
}

impl Piece {
    /// The blocks whose pointers are in it: its own and the one before, which is the start of its
    /// first.
    fn range(self) -> Range<u64> {
        let first = self.number * PIECE_BLOCKS;
        first.saturating_sub(1)..self.blocks.min(first + PIECE_BLOCKS)
    }

    /// Its key in a cache: 28 bits of place, 13 of count, 3 of number.
    const fn key(self) -> u64 {
        self.array << 24 | self.blocks << 8 | self.number
    }
}

/// A pointer by its parts.
#[derive(Clone, Copy, Debug)]
struct Pointer {
    stored: bool,
    direct: bool,
    value: u64,
    /// Where it is in the image.
    at: u64,
}

impl Pointer {
    const STORED: u32 = 1 << 31;
    const DIRECT: u32 = 1 << 30;
}

impl Map {
    pub(super) fn new(order: Order, extended: bool, end: u64, lenient: bool) -> Self {
        Self { order, extended, end, lenient, pieces: Cache::new(CACHE_BYTES) }
    }

    /// The block that holds a byte of a file or link.
    pub(super) fn locate(
        &self,
        source: &dyn Source,
        id: NodeId,
        inode: &Inode,
        offset: u64,
    ) -> Result<Block> {
        let size = inode.content_len();
        if offset >= size {
            let found = format!("byte {offset} is beyond its size of {size}");
            return Err(Error::field("file", id.0, found));
        }
        let (array, blocks) = (inode.offset(), size.div_ceil(BLOCK_LEN));
        let first_block = array + 4 * blocks;
        if first_block > self.end {
            let end = self.end;
            let found = format!("{blocks} of them at byte {array} end beyond the image's {end}");
            return Err(Error::field("block pointers of the file", id.0, found));
        }
        let block = offset / BLOCK_LEN;
        let (before, this) = self.pointers(source, array, blocks, block)?;
        let start = match before {
            Some(before) => self.end_of(source, before)?,
            None => first_block,
        };
        let plain = block * BLOCK_LEN..size.min((block + 1) * BLOCK_LEN);
        let raw = self.raw(source, start, this, plain.end - plain.start)?;
        self.block(plain, raw, this, offset)
    }

    /// The pointer of a block and the one before.
    fn pointers(
        &self,
        source: &dyn Source,
        array: u64,
        blocks: u64,
        block: u64,
    ) -> Result<(Option<Pointer>, Pointer)> {
        let piece = Piece { array, blocks, number: block / PIECE_BLOCKS };
        let words = self.words(source, piece)?;
        let word = |block: u64| {
            let index = usize::try_from(block - piece.range().start).unwrap_or(usize::MAX);
            let at = array + 4 * block;
            let word = *words.get(index).ok_or_else(|| {
                Error::field("block pointer", at, "not among those that were read")
            })?;
            Ok(self.pointer(word, at))
        };
        let before = block.checked_sub(1).map(word).transpose()?;
        Ok((before, word(block)?))
    }

    fn words(&self, source: &dyn Source, piece: Piece) -> Result<Arc<[u32]>> {
        if let Some(words) = self.pieces.find(piece.key()) {
            return Ok(words);
        }
        let Range { start, end } = piece.range();
        // At most one more than `PIECE_BLOCKS`.
        let mut bytes = vec![0; usize::try_from(4 * (end - start)).unwrap_or(0)];
        source.fill(&mut bytes, piece.array + 4 * start)?;
        let word = |bytes: &[u8]| self.order.u32([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let words: Arc<[u32]> = bytes.chunks_exact(4).map(word).collect();
        Ok(self.pieces.keep(piece.key(), bytes.len() + PIECE_COST, words))
    }

    fn pointer(&self, word: u32, at: u64) -> Pointer {
        if self.extended {
            let value = u64::from(word & !(Pointer::STORED | Pointer::DIRECT));
            let (stored, direct) = (word & Pointer::STORED != 0, word & Pointer::DIRECT != 0);
            Pointer { stored, direct, value, at }
        } else {
            Pointer { stored: false, direct: false, value: word.into(), at }
        }
    }

    /// Where a block that is not the last of its file ends.
    fn end_of(&self, source: &dyn Source, pointer: Pointer) -> Result<u64> {
        match (pointer.stored, pointer.direct) {
            (_, false) => Ok(pointer.value),
            (true, true) => Ok(pointer.value * 4 + BLOCK_LEN),
            (false, true) => Ok(self.counted(source, pointer)?.end),
        }
    }

    /// The bytes behind a length of 16 bits, to which a pointer leads.
    fn counted(&self, source: &dyn Source, pointer: Pointer) -> Result<Range<u64>> {
        let at = pointer.value * 4;
        if at + 2 > self.end {
            return Err(self.beyond(pointer, at + 2));
        }
        let mut len = [0; 2];
        source.fill(&mut len, at)?;
        Ok(at + 2..at + 2 + u64::from(self.order.u16(len)))
    }

    /// The raw bytes of a block, inside the image and not too many.
    fn raw(
        &self,
        source: &dyn Source,
        start: u64,
        pointer: Pointer,
        content: u64,
    ) -> Result<Range<u64>> {
        let raw = match (pointer.stored, pointer.direct) {
            (_, false) => start..pointer.value,
            (true, true) => pointer.value * 4..pointer.value * 4 + content,
            (false, true) => self.counted(source, pointer)?,
        };
        if raw.start > raw.end {
            let found = format!("the block begins at byte {} and ends at {}", raw.start, raw.end);
            return Err(Error::field("block pointer", pointer.at, found));
        }
        if raw.end > self.end {
            return Err(self.beyond(pointer, raw.end));
        }
        let (len, max) = (raw.end - raw.start, if pointer.stored { content } else { RAW_MAX });
        if len > max {
            let found =
                format!("{len} raw bytes, but {max} at most can be in blocks of {BLOCK_LEN}");
            return Err(Error::field("block pointer", pointer.at, found));
        }
        Ok(raw)
    }

    /// The block, or the part of it, that holds the byte at `offset` of the file.
    fn block(
        &self,
        plain: Range<u64>,
        raw: Range<u64>,
        pointer: Pointer,
        offset: u64,
    ) -> Result<Block> {
        let (len, content) = (raw.end - raw.start, plain.end - plain.start);
        if len == 0 {
            return Ok(Block::hole(plain));
        }
        let packed = Block {
            plain,
            raw,
            coding: Coding::Packed,
            // 4096 at most.
            decoded: u32::try_from(content).unwrap_or(0),
            inside: 0,
            variant: 0,
        };
        if !pointer.stored {
            return Ok(packed);
        }
        let stored = Block { coding: Coding::Stored, decoded: 0, ..packed };
        if len == content {
            return Ok(stored);
        }
        if !self.lenient {
            let found = format!("{len} bytes are stored, but the block has {content}");
            return Err(Error::field("block pointer", pointer.at, found));
        }
        let cut = stored.plain.start + len;
        if offset < cut {
            let plain = stored.plain.start..cut;
            return Ok(Block { plain, ..stored });
        }
        Ok(Block::hole(cut..stored.plain.end))
    }

    fn beyond(&self, pointer: Pointer, end: u64) -> Error {
        let found = format!("the block ends at byte {end}, beyond the image's {}", self.end);
        Error::field("block pointer", pointer.at, found)
    }
}
