//! Content that is not compressed: runs of blocks, ends behind the inode, and chunks.
//!
//! ```text
//!   chunk entry, 4 bytes: block address; all ones: a hole
//!   chunk entry, 8 bytes: 0 address, high (16 bits)  2 device (16 bits)  4 address, low
//! ```

use crate::error::Result;
use crate::image::Block;

use super::inode::{Chunks, Inode};
use super::located::{Elsewhere, Located, Run};
use super::metadata::{BareImage, MetadataReader};

/// Blocks that follow each other; zeros without an address.
pub(super) fn plain(
    image: &BareImage,
    inode: &Inode,
    start: Option<u64>,
    offset: u64,
) -> Result<Block> {
    let plain = 0..inode.node.size;
    match start {
        None => Ok(Block::hole(plain)),
        Some(start) => image.stored(plain, start, offset),
    }
}

/// Blocks that follow each other, and the last one behind the inode.
pub(super) fn inline(image: &BareImage, inode: &Inode, start: u64, offset: u64) -> Result<Located> {
    let size = inode.node.size;
    let superblock = &image.superblock;
    let tail = (size - 1) & !(superblock.block_size() - 1);
    if offset < tail {
        return image.stored(0..tail, start, offset).map(Located::Block);
    }
    let place = inode.body();
    if superblock.in_block(place.at) + (size - tail) > superblock.block_size() {
        let found = format!("{} bytes cross the end of a block", size - tail);
        return Err(place.error("inline content", found));
    }
    if place.metabox {
        let run = Run { start: tail, end: size, theirs: place.at, offset };
        return Ok(Located::Metabox(Elsewhere { run, place }));
    }
    image.stored(tail..size, place.at, offset).map(Located::Block)
}

/// Chunks that lie anywhere, or nowhere. Those of a group that follow each other are one block, and
/// so are holes.
pub(super) fn chunk(
    reader: &impl MetadataReader,
    inode: &Inode,
    chunks: Chunks,
    offset: u64,
) -> Result<Block> {
    let image = reader.image();
    let size = inode.node.size;
    let unit = if chunks.indexes { 8 } else { 4 };
    let (wanted, last) = (offset >> chunks.bits, (size - 1) >> chunks.bits);
    let group = wanted & !(GROUP - 1);
    let end = (group + GROUP).min(last + 1);
    let mut bytes = [0; GROUP as usize * 8];
    let bytes = &mut bytes[..usize::try_from((end - group) * unit).expect("a group at most")];
    // 2^54 chunks at most.
    let place = inode.body().align(unit).plus(group * unit);
    reader.metadata(place, bytes, "chunk address")?;
    let address = |chunk: u64| {
        let at = usize::try_from((chunk - group) * unit).expect("a group at most");
        let entry = &bytes[at..];
        if !chunks.indexes {
            let block = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            return (block != u32::MAX).then(|| u64::from(block) << image.superblock.block_bits);
        }
        let low = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let high = if chunks.wide { u16::from_le_bytes([entry[0], entry[1]]) } else { 0 };
        let none = low == u32::MAX && (high == u16::MAX || !chunks.wide);
        let block = u64::from(high) << 32 | u64::from(low);
        (!none).then(|| block << image.superblock.block_bits)
    };
    let follows = |chunk: u64| match (address(chunk - 1), address(chunk)) {
        (None, None) => true,
        (Some(one), Some(two)) => one.checked_add(1 << chunks.bits) == Some(two),
        _ => false,
    };
    let (mut from, mut to) = (wanted, wanted + 1);
    while from > group && follows(from) {
        from -= 1;
    }
    while to < end && follows(to) {
        to += 1;
    }
    let plain = from << chunks.bits..if to > last { size } else { to << chunks.bits };
    match address(from) {
        None => Ok(Block::hole(plain)),
        Some(at) => image.stored(plain, at, offset),
    }
}

/// Chunks whose addresses are read together.
const GROUP: u64 = 64;
