//! A file's bytes front to back in bounded memory, holes as holes, each block decoded once.
//!
//! ```text
//!   file      |--4--|--4--|--4--| hole |----- 128 KiB -----| tail |
//!   pieces    |------ run ------| zeros|-------- run ------| from a shared block
//! ```
//!
//! Small adjacent blocks are decoded into one buffer, and their raw bytes are read together. A
//! block with parts of several files is cached separately, for all readers that share it, so that
//! it is decoded once for a whole folder of small files.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::image::{Block, Coding, Image};
use crate::node::NodeId;

mod raw;
mod shared;

use raw::RawWindow;
pub(crate) use shared::SharedBlocks;

/// Stored bytes come in pieces of this length at most.
const STORED_MAX: u64 = 1 << 20;
/// What a block decodes to at most, as [`Block::decoded`] promises.
const DECODED_MAX: u32 = 16 << 20;
/// The raw bytes of a block at most: twice that, since what does not shrink may grow a little.
const RAW_MAX: u64 = 32 << 20;
/// Blocks are decoded together up to this number of bytes of content.
const RUN_MAX: u64 = 128 << 10;

/// Some bytes of a file that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Zeros that the image does not store.
    Zeros(u64),
    /// These.
    Bytes(&'a [u8]),
}

impl Piece<'_> {
    /// How many there are; never none.
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Zeros(len) => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// A reader of files that keeps the blocks that it decoded last.
#[derive(Debug)]
pub struct Content<'a> {
    image: &'a dyn Image,
    shared: Arc<SharedBlocks>,
    raw: RawWindow,
    /// Decoded bytes, or stored ones; longer than the used part, so that it is cleared once.
    plain: Vec<u8>,
    /// The bytes of a file that `plain` begins with.
    run: Option<(NodeId, Range<u64>)>,
    /// The block that other files have a part of.
    common: Option<Arc<Vec<u8>>>,
}

impl<'a> Content<'a> {
    /// A reader of files of this image.
    pub fn new(image: &'a dyn Image) -> Self {
        Self::sharing(image, Arc::default())
    }

    /// A reader that decodes no block that another reader of the same image has just decoded for
    /// several files.
    pub(crate) fn sharing(image: &'a dyn Image, shared: Arc<SharedBlocks>) -> Self {
        let raw = RawWindow::default();
        Self { image, shared, raw, plain: Vec::new(), run: None, common: None }
    }

    /// The block of a file that holds a byte, checked to be one.
    ///
    /// # Errors
    ///
    /// What [`Image::locate`] says, or that the block is impossible.
    pub fn block(&self, id: NodeId, offset: u64) -> Result<Block> {
        let block = self.image.locate(id, offset)?;
        let (raw, plain) = (&block.raw, &block.plain);
        let raw_len = raw.end.saturating_sub(raw.start);
        let why = if !plain.contains(&offset) {
            Some(format!("byte {offset} is not among {plain:?} of the file"))
        } else if block.coding != Coding::Hole && raw.end > self.image.source().len() {
            Some("ends beyond the image".to_owned())
        } else if block.coding == Coding::Packed && raw_len > RAW_MAX {
            Some(format!("longer than {RAW_MAX} bytes"))
        } else if block.coding == Coding::Packed && block.decoded > DECODED_MAX {
            Some(format!("decodes to {} bytes, more than {DECODED_MAX}", block.decoded))
        } else {
            None
        };
        match why {
            Some(why) => Err(Error::Block { offset: raw.start, len: raw_len, why }),
            None => Ok(block),
        }
    }

    /// The bytes of a file from `offset` on that come out of one block, or of several small ones;
    /// `size` is the file's, and lies beyond `offset`.
    ///
    /// # Errors
    ///
    /// What [`Image::locate`], reading or [`Image::decode`] say of the block of `offset`.
    pub fn piece(&mut self, id: NodeId, size: u64, offset: u64) -> Result<Piece<'_>> {
        if !self.run.as_ref().is_some_and(|(of, run)| *of == id && run.contains(&offset)) {
            let block = self.block(id, offset)?;
            if !is_whole(&block, size) {
                return self.piece_of(&block, size, offset);
            }
            self.decode_run(id, size, block)?;
        }
        let Some((_, run)) = &self.run else { unreachable!("a run was decoded or is there") };
        let (from, to) = (in_memory(offset - run.start), in_memory(run.end - run.start));
        Ok(Piece::Bytes(&self.plain[from..to]))
    }

    /// The same, of one block that [`block`](Self::block) gave.
    ///
    /// # Errors
    ///
    /// What reading or [`Image::decode`] say.
    pub fn piece_of(&mut self, block: &Block, size: u64, offset: u64) -> Result<Piece<'_>> {
        let end = block.plain.end.min(size);
        match block.coding {
            Coding::Hole => Ok(Piece::Zeros(end.saturating_sub(offset))),
            Coding::Stored => {
                let len = end.saturating_sub(offset).min(STORED_MAX);
                let before = u64::from(block.inside) + (offset - block.plain.start);
                let start = block.raw.start.saturating_add(before);
                if start.saturating_add(len) > block.raw.end {
                    return Err(wrong(block, "holds fewer bytes than the file has here"));
                }
                let room = make_room(&mut self.run, &mut self.plain, 0, in_memory(len));
                self.image.source().fill(room, start)?;
                Ok(Piece::Bytes(room))
            }
            Coding::Packed => {
                let (from, to) = (block.upto(offset), block.upto(end));
                let bytes = if is_whole(block, size) {
                    self.run = None;
                    let there = self.decode_at(block, 0, size - block.plain.end)?;
                    &self.plain[..there]
                } else {
                    self.decode_common(block)?
                };
                bytes.get(from..to).map(Piece::Bytes).ok_or_else(|| too_short(block, bytes, to))
            }
        }
    }

    /// Fills a buffer with the bytes of a file from `offset` on; all lie before `size`.
    ///
    /// # Errors
    ///
    /// As [`piece`](Self::piece).
    pub fn fill(
        &mut self,
        id: NodeId,
        size: u64,
        offset: u64,
        mut buffer: &mut [u8],
    ) -> Result<()> {
        let mut at = offset;
        while !buffer.is_empty() {
            let piece = self.piece(id, size, at)?;
            let len = in_memory(piece.len().min(buffer.len() as u64));
            let (target, rest) = buffer.split_at_mut(len);
            match piece {
                Piece::Zeros(_) => target.fill(0),
                Piece::Bytes(bytes) => target.copy_from_slice(&bytes[..len]),
            }
            buffer = rest;
            at += len as u64;
        }
        Ok(())
    }

    /// Decodes a block that belongs to one file, and those after it while they are small. An error
    /// of a later one is found when that block is requested.
    fn decode_run(&mut self, id: NodeId, size: u64, mut block: Block) -> Result<()> {
        let start = block.plain.start;
        let mut at = start;
        self.run = None;
        loop {
            let len = block.plain.end - block.plain.start;
            let decoded = self.decode_at(&block, in_memory(at - start), size - block.plain.end);
            match decoded {
                Ok(there) if there as u64 == len => at = block.plain.end,
                Ok(there) if at == start => {
                    return Err(too_short(&block, &self.plain[..there], in_memory(len)));
                }
                Err(error) if at == start => return Err(error),
                Ok(_) | Err(_) => break,
            }
            if at >= size || at - start >= RUN_MAX {
                break;
            }
            let Ok(next) = self.block(id, at) else { break };
            let follows = next.plain.start == at && is_whole(&next, size);
            if !follows || next.plain.end - start > RUN_MAX {
                break;
            }
            block = next;
        }
        self.run = Some((id, start..at));
        Ok(())
    }

    /// Decodes a block to a position of `plain`; returns the number of bytes. `behind` bytes of the
    /// file follow it.
    fn decode_at(&mut self, block: &Block, at: usize, behind: u64) -> Result<usize> {
        let raw = self.raw.read(self.image, &block.raw, behind)?;
        let len = block.decoded as usize;
        let room = make_room(&mut self.run, &mut self.plain, at, len);
        self.image.decode(block, raw, len, room)
    }

    /// All of a block that other files have a part of.
    fn decode_common(&mut self, block: &Block) -> Result<&[u8]> {
        let kept = self.shared.slot(block);
        let mut error = None;
        let plain = kept.get_or_init(|| {
            let decoded = decode_all(self.image, &mut self.raw, block);
            decoded.map_err(|why| error = Some(why)).ok()
        });
        self.common = match (plain, error) {
            (_, Some(error)) => return Err(error),
            (Some(plain), None) => Some(Arc::clone(plain)),
            // Another reader has met the error; this one has to find it again.
            (None, None) => Some(decode_all(self.image, &mut self.raw, block)?),
        };
        Ok(self.common.as_ref().map_or(&[], |plain| plain.as_slice()))
    }
}

/// Whether a packed block holds only bytes of this file, and all of them.
fn is_whole(block: &Block, size: u64) -> bool {
    let Block { plain, coding, decoded, inside, .. } = block;
    let is_all = *inside == 0 && u64::from(*decoded) == plain.end - plain.start;
    *coding == Coding::Packed && is_all && plain.end <= size
}

/// Makes space for `len` bytes at a position of the buffer, which is no longer a run.
fn make_room<'a>(
    run: &mut Option<(NodeId, Range<u64>)>,
    plain: &'a mut Vec<u8>,
    at: usize,
    len: usize,
) -> &'a mut [u8] {
    *run = None;
    if plain.len() < at + len {
        plain.resize(at + len, 0);
    }
    &mut plain[at..at + len]
}

fn decode_all(image: &dyn Image, raw: &mut RawWindow, block: &Block) -> Result<Arc<Vec<u8>>> {
    let mut plain = vec![0; block.decoded as usize];
    let there = image.decode(block, raw.read(image, &block.raw, 0)?, plain.len(), &mut plain)?;
    plain.truncate(there);
    Ok(Arc::new(plain))
}

fn too_short(block: &Block, there: &[u8], needed: usize) -> Error {
    let there = there.len();
    wrong(block, &format!("decodes to {there} bytes, {needed} are needed"))
}

fn wrong(block: &Block, why: &str) -> Error {
    let Block { raw, .. } = block;
    let len = raw.end.saturating_sub(raw.start);
    Error::Block { offset: raw.start, len, why: why.to_owned() }
}

/// A number that was bounded by a length in memory.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("bounded by the largest block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn pieces_are_the_file() {
        let mut image = Memory::new();
        let mut bytes = vec![7; 5_000];
        bytes.resize(13_000, 0);
        bytes.extend_from_slice(b"end");
        let id = image.file("x", &bytes);
        let mut content = Content::new(&image);
        let (mut read, mut holes) = (Vec::new(), 0);
        while read.len() < bytes.len() {
            match content.piece(id, bytes.len() as u64, read.len() as u64).unwrap() {
                Piece::Zeros(len) => {
                    holes += len;
                    read.resize(read.len() + usize::try_from(len).unwrap(), 0);
                }
                Piece::Bytes(bytes) => read.extend_from_slice(bytes),
            }
        }
        assert_eq!(read, bytes);
        assert_eq!(holes, 4_096);
        let mut middle = [1; 9_000];
        content.fill(id, bytes.len() as u64, 4_003, &mut middle).unwrap();
        assert_eq!(middle, bytes[4_003..13_003]);
    }

    #[test]
    fn a_block_is_decoded_once_for_all_pieces() {
        let mut image = Memory::new();
        let id = image.file("x", &[9; 4_096]);
        let mut content = Content::new(&image);
        for at in 0..4_096 {
            content.fill(id, 4_096, at, &mut [0]).unwrap();
        }
        assert_eq!(image.decoded(), 1);
    }

    #[test]
    fn a_block_that_lies_about_itself_is_an_error() {
        let mut image = Memory::new();
        let id = image.file("x", &[9; 4_096]);
        let said = |change: &dyn Fn(&mut Block)| {
            let mut image = image.clone();
            image.change_blocks(id, change);
            let error = Content::new(&image).piece(id, 4_096, 10).unwrap_err();
            error.to_string()
        };
        assert!(said(&|block| block.plain = 11..12).contains("byte 10 is not among 11..12"));
        assert!(said(&|block| block.raw.end = 1 << 40).contains("ends beyond the image"));
        assert!(said(&|block| block.decoded = u32::MAX).contains("more than 16777216"));
        assert!(said(&|block| block.decoded = 4_095).contains("4096 are needed"));
        assert!(said(&|block| block.inside = 1).contains("4097 are needed"));
        assert!(said(&|block| block.inside = u32::MAX).contains("are needed"));
    }
}
