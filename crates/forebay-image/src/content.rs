//! A file's bytes front to back in bounded memory, holes as holes, each block decoded once.

use crate::error::{Error, Result};
use crate::image::{Block, Coding, Image, NodeId};

/// Stored bytes come in pieces of this length at most.
const STORED_MAX: u64 = 1 << 20;
/// What a block decodes to at most, as [`Block::decoded`] promises.
const DECODED_MAX: u32 = 16 << 20;
/// The raw bytes of a block at most: twice that, since what does not shrink may grow a little.
const RAW_MAX: u64 = 32 << 20;

/// Some bytes of a file that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// So many zeros that the image does not hold.
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

/// A reader of files that keeps the block that it decoded last.
#[derive(Debug)]
pub struct Content<'a> {
    image: &'a dyn Image,
    raw: Vec<u8>,
    plain: Vec<u8>,
    /// What `plain` was decoded from, and how much of it is there.
    holds: Option<(Block, usize)>,
}

impl<'a> Content<'a> {
    /// A reader of files of this image.
    pub const fn new(image: &'a dyn Image) -> Self {
        Self { image, raw: Vec::new(), plain: Vec::new(), holds: None }
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

    /// The bytes of a file from `offset` on that come out of one block; `size` is the file's, and
    /// lies beyond `offset`.
    ///
    /// # Errors
    ///
    /// What [`Image::locate`], reading or [`Image::decode`] say.
    pub fn piece(&mut self, id: NodeId, size: u64, offset: u64) -> Result<Piece<'_>> {
        let block = self.block(id, offset)?;
        self.piece_of(&block, size, offset)
    }

    /// The same, of a block that [`block`](Self::block) gave.
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
                self.raw.resize(in_memory(len), 0);
                self.image.source().fill(&mut self.raw, start)?;
                Ok(Piece::Bytes(&self.raw))
            }
            Coding::Packed => {
                let there = self.decode(block)?;
                let (from, to) = (block.upto(offset), block.upto(end));
                match self.plain.get(from..to).filter(|_| to <= there) {
                    Some(bytes) => Ok(Piece::Bytes(bytes)),
                    None => {
                        Err(wrong(block, &format!("decodes to {there} bytes, {to} are needed")))
                    }
                }
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

    /// Has all of a block decoded; says how many bytes there are.
    fn decode(&mut self, block: &Block) -> Result<usize> {
        if let Some((held, there)) = &self.holds
            && (&held.raw, held.decoded, held.variant) == (&block.raw, block.decoded, block.variant)
        {
            return Ok(*there);
        }
        self.holds = None;
        self.raw.resize(in_memory(block.raw.end.saturating_sub(block.raw.start)), 0);
        self.image.source().fill(&mut self.raw, block.raw.start)?;
        self.plain.resize(block.decoded as usize, 0);
        let all = self.plain.len();
        let there = self.image.decode(block, &self.raw, all, &mut self.plain)?;
        self.holds = Some((block.clone(), there));
        Ok(there)
    }
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
