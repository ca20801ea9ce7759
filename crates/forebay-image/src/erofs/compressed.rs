//! Content that is compressed: from the extent that holds a byte to its block.

use crate::error::{Error, Result};
use crate::image::{Block, Coding};

use super::codecs::Variant;
use super::extent::{EXTENT_MAX, Extent, From, Raw, RawCoding};
use super::inode::Inode;
use super::located::{Elsewhere, Located, Run};
use super::map::Map;
use super::map_header;
use super::metadata::{BareImage, MetadataReader};
use super::place::Place;
use super::superblock;

/// The block that holds a byte of a compressed file.
pub(super) fn locate(
    reader: &impl MetadataReader,
    inode: &Inode,
    full: bool,
    offset: u64,
) -> Result<Located> {
    let size = inode.node.size;
    let extent = map_of(reader, inode, full)?.extent(reader, size, offset)?;
    let place = inode.body();
    if !(extent.start..extent.end).contains(&offset) || extent.end > size {
        let found = format!("byte {offset} leads to {}..{}", extent.start, extent.end);
        return Err(place.error("extent", found));
    }
    match extent.from {
        From::Hole => Ok(Located::Block(Block::hole(extent.start..extent.end))),
        From::Packed(theirs) => {
            let run = Run { start: extent.start, end: extent.end, theirs, offset };
            Ok(Located::Packed(Elsewhere { run, place }))
        }
        From::Raw(raw) => extent_block(reader.image(), place, extent, raw, offset),
    }
}

/// The block of an extent that has a physical cluster.
fn extent_block(
    image: &BareImage,
    place: Place,
    extent: Extent,
    raw: Raw,
    offset: u64,
) -> Result<Located> {
    let plain = extent.start..extent.end;
    let len = plain.end - plain.start;
    if raw.len > RAW_MAX {
        return Err(place.error("cluster size", format!("{} bytes", raw.len)));
    }
    let codec = match raw.coding {
        RawCoding::Shifted | RawCoding::Interlaced if len > raw.len => {
            let found = format!("{len} bytes of content in {} bytes that are stored", raw.len);
            return Err(place.error("extent", found));
        }
        RawCoding::Shifted if raw.metabox => {
            let run = Run { start: plain.start, end: plain.end, theirs: raw.at, offset };
            return Ok(Located::Metabox(Elsewhere { run, place }));
        }
        RawCoding::Shifted => {
            return image.stored(plain, raw.at, offset).map(Located::Block);
        }
        RawCoding::Interlaced => {
            return interlaced(image, place, extent, raw, offset).map(Located::Block);
        }
        RawCoding::Codec(codec) => codec,
    };
    if image.superblock.codecs.checked_shr(codec.into()).unwrap_or(0) & 1 == 0 {
        let what = format!("codec {codec}, which the superblock does not have,");
        return Err(Error::Unsupported { what, offset: place.at });
    }
    if len > EXTENT_MAX {
        return Err(place.error("extent", format!("{len} bytes")));
    }
    // Images without the feature have only LZ4, with zeros after it.
    let padded = image.superblock.has(superblock::ZERO_PADDING) || codec != 0;
    let mut variant = Variant { codec, partial: raw.partial, padded, metabox: None };
    let mut bytes = 0..0;
    if raw.metabox {
        let len = u32::try_from(raw.len).expect("checked to be less");
        variant.metabox = Some((raw.at, len));
    } else {
        let end = raw.at.checked_add(raw.len).filter(|&end| end <= image.source.len());
        bytes = raw.at..end.ok_or_else(|| {
            let found = format!("its {} bytes end behind the image", raw.len);
            Error::field("extent", raw.at, found)
        })?;
    }
    let variant = variant.number();
    let decoded = u32::try_from(len).expect("checked to be less");
    Ok(Located::Block(Block {
        plain,
        raw: bytes,
        coding: Coding::Packed,
        decoded,
        inside: 0,
        variant: variant.ok_or_else(|| place.error("inline cluster", "lies too far behind"))?,
    }))
}

/// The block of a stored extent of at most a block whose bytes are rotated: up to the end of the
/// file's block they are at the end of the raw one, and then at its beginning.
fn interlaced(
    image: &BareImage,
    place: Place,
    extent: Extent,
    raw: Raw,
    offset: u64,
) -> Result<Block> {
    let size = image.superblock.block_size();
    if raw.len != size {
        return Err(place.error("interlaced extent", format!("{} bytes", raw.len)));
    }
    let inside = image.superblock.in_block(extent.start);
    let turn = extent.end.min(extent.start - inside + size);
    if offset < turn {
        image.stored(extent.start..turn, raw.at.saturating_add(inside), offset)
    } else {
        image.stored(turn..extent.end, raw.at, offset)
    }
}

/// The map of an inode.
fn map_of<'a>(reader: &impl MetadataReader, inode: &'a Inode, full: bool) -> Result<&'a Map> {
    if let Some(map) = inode.map.get() {
        return Ok(map);
    }
    let map = Map::read(reader, inode.body(), inode.node.size, full)?;
    Ok(inode.map.get_or_init(|| map))
}

/// Where the header of a compressed inode's map is, and the bytes of it with the map.
pub(super) fn used(
    reader: &impl MetadataReader,
    inode: &Inode,
    full: bool,
) -> Result<(Place, u64)> {
    let place = map_header::place(inode.body());
    let end = map_of(reader, inode, full)?.end(place);
    Ok((place, end.at.saturating_sub(place.at)))
}

/// The largest physical cluster of the format, in bytes.
const RAW_MAX: u64 = 1 << 20;
