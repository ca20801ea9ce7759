//! Compressed content: from a byte of a file to the extent that holds it.
//!
//! Source:     the format as Linux 6.18 reads it: fs/erofs/erofs_fs.h, Documentation/filesystems/
//!             erofs.rst, and for what they leave open fs/erofs/zmap.c and decompressor.c
//! Behaviour:  a file is cut into extents of any length, each of which comes from one physical
//!             cluster of raw bytes. An index with an entry for each logical cluster of the file
//!             says where extents begin; or an array of extents does. The end of a file may be
//!             kept behind the index, or in the packed inode together with those of other files.
//! Differs:    an extent is always found from its beginning to its end, so that each of its bytes
//!             leads to the same block; every chain is bounded by the largest extent
//! Not for:    content on further devices
//!
//! ```text
//!   map header, 8 bytes, at the next multiple of 8 behind the attributes
//!     0 place in the packed inode, or     4 advice
//!       2 bytes of the end behind the     6 codecs: bits 0..4 of head 1, 4..8 of head 2
//!         index (16 bits), or             7 bits of a logical cluster beyond a block's,
//!       number of extents, low              bit 7: all of the file is in the packed inode
//! ```

use crate::error::{Error, Result};
use crate::image::{Block, Coding};

use super::cluster::{self, Cluster, Index};
use super::codecs::Variant;
use super::core::{Core, Place, Run};
use super::extent::Extents;
use super::inode::Inode;
use super::superblock;

/// What the extents of a file are found by.
#[derive(Debug)]
pub(super) enum Map {
    /// All of it is in the packed inode, from a byte on.
    Packed(u64),
    /// An index of clusters.
    Clusters(Clusters),
    /// An array of extents.
    Extents(Extents),
}

/// An index of clusters, and where the file's end is.
#[derive(Debug)]
pub(super) struct Clusters {
    index: Index,
    /// The codecs of both kinds of heads.
    codecs: [u8; 2],
    tail: Option<Tail>,
}

/// The last extent of a file, if it shares its cluster.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Its first byte, in the file.
    start: u64,
    at: TailPlace,
}

#[derive(Clone, Copy, Debug)]
enum TailPlace {
    /// In the packed inode.
    Packed(u64),
    /// Behind the index.
    Inline { place: Place, len: u64, head: cluster::Kind },
}

/// Where an extent comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Its first byte, in the file.
    pub(super) start: u64,
    /// Behind its last byte, in the file.
    pub(super) end: u64,
    pub(super) from: From,
}

/// Where an extent comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// Nowhere: zeros.
    Hole,
    /// The packed inode's content.
    Packed(u64),
    /// A physical cluster.
    Raw(Raw),
}

/// A physical cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    /// Its first byte, in the image.
    pub(super) at: u64,
    /// In the metabox instead.
    pub(super) metabox: bool,
    /// Its number of bytes.
    pub(super) len: u64,
    pub(super) coding: RawCoding,
    /// It holds more than the extent.
    pub(super) partial: bool,
}

/// How a physical cluster becomes content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawCoding {
    /// It is the content.
    Shifted,
    /// It is the content, but each byte has the offset in its block that it has in the file.
    Interlaced,
    /// By a codec.
    Codec(u8),
}

/// The block that holds a byte of a compressed file.
pub(super) fn locate(core: &Core, inode: &Inode, full: bool, offset: u64) -> Result<Block> {
    let size = inode.node.size;
    let extent = match of(core, inode, full)? {
        Map::Packed(at) => Extent { start: 0, end: size, from: From::Packed(*at) },
        Map::Clusters(clusters) => clusters.extent(core, inode, offset)?,
        Map::Extents(extents) => extents.find(core, inode, offset)?,
    };
    let place = inode.body();
    if !(extent.start..extent.end).contains(&offset) || extent.end > size {
        let found = format!("byte {offset} leads to {}..{}", extent.start, extent.end);
        return Err(place.error("extent", found));
    }
    match extent.from {
        From::Hole => Ok(Block::hole(extent.start..extent.end)),
        From::Packed(at) => packed(core, inode, extent, at, offset),
        From::Raw(raw) => extent_block(core, place, extent, raw, offset),
    }
}

/// The block of a part that is in the packed inode.
fn packed(core: &Core, inode: &Inode, extent: Extent, at: u64, offset: u64) -> Result<Block> {
    let place = inode.body();
    let nid = core.superblock.packed.filter(|&nid| nid != inode.node.ino);
    let nid = nid.ok_or_else(|| place.error("packed content", "there is no inode for it"))?;
    let other = core.inode(nid)?;
    let run = Run { start: extent.start, end: extent.end, theirs: at, offset };
    core.in_other(&other, place, run)
}

/// The block of an extent that has a physical cluster.
fn extent_block(core: &Core, place: Place, extent: Extent, raw: Raw, offset: u64) -> Result<Block> {
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
            return core.in_metabox(place, run);
        }
        RawCoding::Shifted => return core.stored(plain, raw.at, offset),
        RawCoding::Interlaced => return interlaced(core, place, extent, raw, offset),
        RawCoding::Codec(codec) => codec,
    };
    if core.superblock.codecs.checked_shr(codec.into()).unwrap_or(0) & 1 == 0 {
        let what = format!("codec {codec}, which the superblock does not have,");
        return Err(Error::Unsupported { what, offset: place.at });
    }
    if len > EXTENT_MAX {
        return Err(place.error("extent", format!("{len} bytes")));
    }
    // Images without the feature have only LZ4, with zeros after it.
    let padded = core.superblock.has(superblock::ZERO_PADDING) || codec != 0;
    let mut variant = Variant { codec, partial: raw.partial, padded, metabox: None };
    let mut bytes = 0..0;
    if raw.metabox {
        let len = u32::try_from(raw.len).expect("checked to be less");
        variant.metabox = Some((raw.at, len));
    } else {
        let end = raw.at.checked_add(raw.len).filter(|&end| end <= core.source.len());
        bytes = raw.at..end.ok_or_else(|| {
            let found = format!("its {} bytes end behind the image", raw.len);
            Error::field("extent", raw.at, found)
        })?;
    }
    let variant = variant.number();
    let decoded = u32::try_from(len).expect("checked to be less");
    Ok(Block {
        plain,
        raw: bytes,
        coding: Coding::Packed,
        decoded,
        inside: 0,
        variant: variant.ok_or_else(|| place.error("inline cluster", "lies too far behind"))?,
    })
}

/// The block of a stored extent of at most a block whose bytes are rotated: up to the end of the
/// file's block they are at the end of the raw one, and then at its beginning.
fn interlaced(core: &Core, place: Place, extent: Extent, raw: Raw, offset: u64) -> Result<Block> {
    let size = core.superblock.block_size();
    if raw.len != size {
        return Err(place.error("interlaced extent", format!("{} bytes", raw.len)));
    }
    let inside = core.superblock.in_block(extent.start);
    let turn = extent.end.min(extent.start - inside + size);
    if offset < turn {
        core.stored(extent.start..turn, raw.at.saturating_add(inside), offset)
    } else {
        core.stored(turn..extent.end, raw.at, offset)
    }
}

/// Reads and checks what the header says.
fn read(core: &Core, inode: &Inode, full: bool) -> Result<Map> {
    let place = inode.body().align(8);
    let mut bytes = [0; 8];
    core.metadata(place, &mut bytes, "map header")?;
    let word = u64::from_le_bytes(bytes);
    if word >> 63 != 0 {
        return Ok(Map::Packed(word & !(1 << 63)));
    }
    let header = Header {
        low: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        advice: u16::from_le_bytes([bytes[4], bytes[5]]),
        bits: core.superblock.block_bits + u32::from(bytes[7] & 0xf),
        high: u16::from_le_bytes([bytes[6], bytes[7]]),
    };
    if full && header.advice & EXTENTS != 0 {
        return Ok(Map::Extents(Extents::new(&header, place.plus(8), inode)));
    }
    let index = Index::new(core, inode, full, &header, place)?;
    let codecs = [bytes[6] & 0xf, bytes[6] >> 4];
    let mut clusters = Clusters { index, codecs, tail: None };
    let inline = u64::from(header.low >> 16);
    if header.advice & PACKED != 0 {
        let (start, head, _) = clusters.last(core, inode)?;
        // The large index has room for the place's upper half: in the address of the head.
        let upper = if full { head.block << 32 } else { 0 };
        let at = TailPlace::Packed(u64::from(header.low) | upper);
        clusters.tail = Some(Tail { start, at });
    } else if header.advice & INLINE != 0 && inline != 0 {
        let (start, head, place) = clusters.last(core, inode)?;
        let at = TailPlace::Inline { place, len: inline, head: head.kind };
        clusters.tail = Some(Tail { start, at });
    }
    Ok(Map::Clusters(clusters))
}

impl Clusters {
    /// The last extent's first byte and head, and the place behind the index.
    fn last(&self, core: &Core, inode: &Inode) -> Result<(u64, Cluster, Place)> {
        let last = inode.node.size - 1;
        let behind = self.index.behind(last >> self.index.bits);
        let (head, cluster) = self.head(core, last)?;
        Ok(((head << self.index.bits) + cluster.inside, cluster, behind))
    }

    /// The head of the extent that holds a byte, and its number.
    fn head(&self, core: &Core, offset: u64) -> Result<(u64, Cluster)> {
        let index = &self.index;
        let mut at = offset >> index.bits;
        let mut cluster = index.cluster(core, at)?;
        let inside = offset & ((1 << index.bits) - 1);
        let mut back = if cluster.kind == cluster::Kind::Tail {
            cluster.back
        } else if inside >= cluster.inside {
            return Ok((at, cluster));
        } else {
            1
        };
        for _ in 0..STEPS_MAX {
            let next = at.checked_sub(back).filter(|_| back > 0);
            at = next.ok_or_else(|| {
                let found = format!("the head is {back} before cluster {at}");
                index.place.error("cluster index", found)
            })?;
            cluster = index.cluster(core, at)?;
            if cluster.kind != cluster::Kind::Tail {
                return Ok((at, cluster));
            }
            back = cluster.back;
        }
        Err(index.place.error("cluster index", format!("no head near cluster {at}")))
    }

    /// The extent that holds a byte.
    fn extent(&self, core: &Core, inode: &Inode, offset: u64) -> Result<Extent> {
        let size = inode.node.size;
        if let Some(tail) = self.tail.filter(|tail| offset >= tail.start) {
            return self.tail(core, tail, size);
        }
        let (head, cluster) = self.head(core, offset)?;
        let start = (head << self.index.bits) + cluster.inside;
        let end = self.end(core, head, start, size)?;
        // The tail begins where its head says, whatever else the index says.
        let end = self.tail.map_or(end, |tail| end.min(tail.start));
        let len = self.index.raw_blocks(core, head, cluster.kind, size)?;
        let raw = Raw {
            at: cluster.block << core.superblock.block_bits,
            metabox: false,
            len: len << core.superblock.block_bits,
            coding: self.coding(cluster.kind),
            partial: cluster.partial,
        };
        Ok(Extent { start, end, from: From::Raw(raw) })
    }

    fn coding(&self, kind: cluster::Kind) -> RawCoding {
        match kind {
            cluster::Kind::Plain | cluster::Kind::Tail if self.index.interlaced => {
                RawCoding::Interlaced
            }
            cluster::Kind::Plain | cluster::Kind::Tail => RawCoding::Shifted,
            cluster::Kind::Head1 => RawCoding::Codec(self.codecs[0]),
            cluster::Kind::Head2 => RawCoding::Codec(self.codecs[1]),
        }
    }

    /// The file's end.
    fn tail(&self, core: &Core, tail: Tail, size: u64) -> Result<Extent> {
        let from = match tail.at {
            TailPlace::Packed(at) => From::Packed(at),
            TailPlace::Inline { place, len, head } => {
                if core.superblock.in_block(place.at) + len > core.superblock.block_size() {
                    let found = format!("{len} bytes cross the end of a block");
                    return Err(place.error("inline cluster", found));
                }
                // Bytes behind the index are not moved about.
                let coding = match self.coding(head) {
                    RawCoding::Shifted | RawCoding::Interlaced => RawCoding::Shifted,
                    RawCoding::Codec(codec) => RawCoding::Codec(codec),
                };
                let metabox = place.metabox;
                From::Raw(Raw { at: place.at, metabox, len, coding, partial: false })
            }
        };
        Ok(Extent { start: tail.start, end: size, from })
    }

    /// Where the extent of a head ends: at the next head, or at the file's end.
    fn end(&self, core: &Core, head: u64, start: u64, size: u64) -> Result<u64> {
        let index = &self.index;
        let mut at = head + 1;
        loop {
            let begin = at << index.bits;
            if begin >= size {
                return Ok(size);
            }
            if begin - start > EXTENT_MAX {
                let found = format!("the extent at cluster {head} has no end");
                return Err(index.place.error("cluster index", found));
            }
            let cluster = index.cluster(core, at)?;
            if cluster.kind != cluster::Kind::Tail {
                return Ok(size.min(begin + cluster.inside));
            }
            // Writers before 1.0 left some distances at zero.
            at += index.ahead(core, at, &cluster)?.max(1);
        }
    }
}

/// The map of an inode.
fn of<'a>(core: &Core, inode: &'a Inode, full: bool) -> Result<&'a Map> {
    if let Some(map) = inode.map.get() {
        return Ok(map);
    }
    let map = read(core, inode, full)?;
    Ok(inode.map.get_or_init(|| map))
}

/// Where the header of a compressed inode's map is, and the bytes of it with the map.
pub(super) fn used(core: &Core, inode: &Inode, full: bool) -> Result<(Place, u64)> {
    let place = inode.body().align(8);
    let end = match of(core, inode, full)? {
        Map::Packed(_) => place.plus(8),
        Map::Clusters(clusters) => clusters.index.end(),
        Map::Extents(extents) => extents.end(),
    };
    Ok((place, end.at.saturating_sub(place.at)))
}

/// The header's fields.
pub(super) struct Header {
    pub(super) low: u32,
    pub(super) advice: u16,
    /// A logical cluster has `1 << bits` bytes.
    pub(super) bits: u32,
    pub(super) high: u16,
}

/// Packed indexes may have 2 bytes for a cluster.
pub(super) const SMALL_INDEX: u16 = 1 << 0;
/// With the large index's layout: an array of extents instead of the index.
const EXTENTS: u16 = 1 << 0;
/// Heads of kind 1 may have clusters of more than a block.
pub(super) const BIG_1: u16 = 1 << 1;
/// Heads of kind 2, and stored ones.
pub(super) const BIG_2: u16 = 1 << 2;
/// The file's end is behind the index.
const INLINE: u16 = 1 << 3;
/// Stored clusters are rotated.
pub(super) const INTERLACED: u16 = 1 << 4;
/// The file's end is in the packed inode.
pub(super) const PACKED: u16 = 1 << 5;

/// The largest physical cluster of the format, in bytes.
const RAW_MAX: u64 = 1 << 20;
/// The largest extent of the format that has to be decoded, in bytes.
const EXTENT_MAX: u64 = 12 << 20;
/// Steps back to a head at most. A step is up to 2047 clusters long, and only the end of a file
/// that is in the packed inode can be longer than the largest extent.
const STEPS_MAX: u32 = 4096;
