//! The header of a map: what finds the extents of a compressed file.
//!
//! ```text
//!   map header, 8 bytes, at the next multiple of 8 behind the attributes
//!     0 place in the packed inode, or     4 advice
//!       2 bytes of the end behind the     6 codecs: bits 0..4 of head 1, 4..8 of head 2
//!         index (16 bits), or             7 bits of a logical cluster beyond a block's,
//!       number of extents, low              bit 7: all of the file is in the packed inode
//! ```

use super::place::Place;

/// Where the header is, behind the attributes of an inode.
pub(super) const fn place(body: Place) -> Place {
    body.align(8)
}

/// The header's fields.
pub(super) struct Header {
    pub(super) low: u32,
    pub(super) advice: u16,
    /// A logical cluster has `1 << bits` bytes.
    pub(super) bits: u32,
    pub(super) high: u16,
    /// The codecs of both kinds of heads.
    pub(super) codecs: [u8; 2],
}

/// What begins a map.
pub(super) enum MapStart {
    /// All of the file is in the packed inode, from a byte on; nothing follows.
    Packed(u64),
    /// An index or an array follows.
    Header(Header),
}

impl MapStart {
    /// Its fields, with blocks of `1 << block_bits` bytes.
    pub(super) fn parse(bytes: [u8; 8], block_bits: u32) -> Self {
        let word = u64::from_le_bytes(bytes);
        if word >> 63 != 0 {
            return Self::Packed(word & !(1 << 63));
        }
        Self::Header(Header {
            low: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            advice: u16::from_le_bytes([bytes[4], bytes[5]]),
            bits: block_bits + u32::from(bytes[7] & 0xf),
            high: u16::from_le_bytes([bytes[6], bytes[7]]),
            codecs: [bytes[6] & 0xf, bytes[6] >> 4],
        })
    }
}

/// Packed indexes may have 2 bytes for a cluster.
pub(super) const SMALL_INDEX: u16 = 1 << 0;
/// With the large index's layout: an array of extents instead of the index.
pub(super) const EXTENTS: u16 = 1 << 0;
/// Heads of kind 1 may have clusters of more than a block.
pub(super) const BIG_1: u16 = 1 << 1;
/// Heads of kind 2, and stored ones.
pub(super) const BIG_2: u16 = 1 << 2;
/// The file's end is behind the index.
pub(super) const INLINE: u16 = 1 << 3;
/// Stored clusters are rotated.
pub(super) const INTERLACED: u16 = 1 << 4;
/// The file's end is in the packed inode.
pub(super) const PACKED: u16 = 1 << 5;
