//! The index of logical clusters, large or packed.
//!
//! ```text
//!   large, 8 bytes a cluster, 8 bytes behind the header
//!     0 bits 0..2 kind, 15 partial
//!     2 head: offset of its first byte in the cluster
//!     4 head: block (32 bits); tail: distances to its head and to the next one (16 bits each)
//!
//!   packed: in packs of 8 bytes for 2 clusters, or of 32 bytes for 16
//!     cluster 0 | cluster 1 | ... | block (32 bits)
//!     each: kind (2 bits, high) and 12 bits or more of a head's offset or a tail's distance
//!
//!     | 8-byte packs up to  | 32-byte packs, as many as | 8-byte packs |
//!     | a multiple of 32    | fit                       |              |
//! ```
//!
//! In a pack a tail has the distance to its head, but the last one has that to the next head. The
//! first tail of a big cluster has the cluster's number of blocks instead, marked by a bit. The
//! block of a pack is that of its first head, or without big clusters the one before it, and those
//! of its other heads follow from the sizes in between.

use std::sync::OnceLock;

use crate::error::{Error, Result};

use super::map_header::{BIG_1, BIG_2, Header, INTERLACED, SMALL_INDEX};
use super::metadata::MetadataReader;
use super::place::Place;

/// What a logical cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An extent begins in it that is stored.
    Plain,
    /// An extent begins in it that is packed with the first codec.
    Head1,
    /// No extent begins in it.
    Tail,
    /// An extent begins in it that is packed with the second codec.
    Head2,
}

impl Kind {
    const fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Plain,
            1 => Self::Head1,
            2 => Self::Tail,
            _ => Self::Head2,
        }
    }
}

/// A logical cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) kind: Kind,
    /// Where the extent begins in it.
    pub(super) inside: u64,
    /// The first block of a head's physical cluster.
    pub(super) block: u64,
    /// Clusters back to the head of a tail, or to a tail that knows more.
    pub(super) back: u64,
    /// Clusters on to the next head, or to a tail that knows more, if the tail itself says.
    ahead: Option<u64>,
    /// Blocks of the physical cluster, if the tail says it.
    blocks: Option<u64>,
    /// The physical cluster holds more than the extent.
    pub(super) partial: bool,
}

impl Cluster {
    const fn head(kind: Kind, inside: u64, block: u64) -> Self {
        Self { kind, inside, block, back: 0, ahead: None, blocks: None, partial: false }
    }

    const fn tail(back: u64, blocks: Option<u64>) -> Self {
        let kind = Kind::Tail;
        Self { kind, inside: 0, block: 0, back, ahead: None, blocks, partial: false }
    }
}

/// An index.
#[derive(Debug)]
pub(super) struct Index {
    /// Where it begins.
    pub(super) place: Place,
    /// A logical cluster has `1 << bits` bytes.
    pub(super) bits: u32,
    /// Stored clusters are rotated.
    pub(super) interlaced: bool,
    big: [bool; 2],
    /// For a packed one, the clusters in the first 8-byte packs and in the 32-byte packs.
    packs: Option<(u64, u64)>,
    clusters: u64,
    /// All of it, once it was needed; none if it is too long or cannot be read as a whole.
    bytes: OnceLock<Option<Box<[u8]>>>,
}

impl Index {
    /// Checks the header's description of it.
    pub(super) fn new(
        reader: &impl MetadataReader,
        header: &Header,
        place: Place,
        size: u64,
        full: bool,
    ) -> Result<Self> {
        let Header { advice, bits, .. } = *header;
        let big = [advice & BIG_1 != 0, advice & BIG_2 != 0];
        let place = place.plus(if full { 16 } else { 8 });
        let interlaced = advice & INTERLACED != 0;
        let clusters = size.div_ceil(1 << bits);
        let bytes = OnceLock::new();
        let mut index = Self { place, bits, interlaced, big, packs: None, clusters, bytes };
        if full {
            return Ok(index);
        }
        let small = advice & SMALL_INDEX != 0;
        if bits > if small { 12 } else { 14 } {
            let what = format!("a packed index of clusters of 2^{bits} bytes");
            return Err(Error::Unsupported { what, offset: place.at });
        }
        if big[0] != big[1] {
            return Err(place.error("map header", "big clusters of one kind of head only"));
        }
        let clusters = size.div_ceil(reader.superblock().block_size());
        let first = (32 - place.at % 32) / 4 % 8;
        let packed = if small { clusters.saturating_sub(first) & !15 } else { 0 };
        index.packs = Some((first, packed));
        Ok(index)
    }

    /// The entry of a cluster.
    pub(super) fn cluster(&self, reader: &impl MetadataReader, number: u64) -> Result<Cluster> {
        let cluster = if self.packs.is_some() {
            let (pack, at) = self.pack(reader, number)?;
            self.packed(&pack, at)?
        } else {
            self.large(reader, number)?
        };
        if cluster.kind != Kind::Tail && cluster.inside >> self.bits != 0 {
            let found = format!("byte {} of cluster {number} is outside of it", cluster.inside);
            return Err(self.place.error("cluster index", found));
        }
        Ok(cluster)
    }

    /// The place behind the entry, or behind the pack, of a cluster.
    pub(super) fn behind(&self, number: u64) -> Place {
        if self.packs.is_none() {
            return self.place.plus((number + 1) * 8);
        }
        let (at, wide) = self.pack_place(number);
        let len = if wide { 32 } else { 8 };
        Place { at: at.at & !(len - 1), ..at }.plus(len)
    }

    /// The place behind all of it.
    pub(super) fn end(&self) -> Place {
        self.clusters.checked_sub(1).map_or(self.place, |last| self.behind(last))
    }

    /// Clusters from a tail to the next head, or to a tail that knows more.
    pub(super) fn ahead(
        &self,
        reader: &impl MetadataReader,
        number: u64,
        cluster: &Cluster,
    ) -> Result<u64> {
        if let Some(ahead) = cluster.ahead {
            return Ok(ahead);
        }
        let (pack, at) = self.pack(reader, number)?;
        let count = pack.count();
        let mut low = 0;
        for next in at..count {
            let (kind, bits) = self.entry(&pack, next);
            if kind != Kind::Tail {
                return Ok((next - at) as u64);
            }
            low = bits;
        }
        let tails = (count - at) as u64;
        Ok(if low & BLOCKS == 0 { (tails + u64::from(low)).saturating_sub(1) } else { tails })
    }

    /// The number of blocks of the physical cluster of a head.
    pub(super) fn raw_blocks(
        &self,
        reader: &impl MetadataReader,
        head: u64,
        kind: Kind,
        size: u64,
    ) -> Result<u64> {
        let big = self.big[usize::from(kind != Kind::Head1)];
        let next = head + 1;
        if !big || next << self.bits >= size {
            return Ok(1);
        }
        let cluster = self.cluster(reader, next)?;
        if cluster.kind != Kind::Tail {
            return Ok(1);
        }
        cluster.blocks.filter(|&blocks| blocks > 0).ok_or_else(|| {
            let found = format!("cluster {next} does not say its head's number of blocks");
            self.place.error("cluster index", found)
        })
    }

    fn large(&self, reader: &impl MetadataReader, number: u64) -> Result<Cluster> {
        let mut bytes = [0; 8];
        // 2^54 clusters at most.
        self.fill(reader, self.place.plus(number * 8), &mut bytes)?;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let kind = Kind::of(half(0).into());
        if kind != Kind::Tail {
            let block = u64::from(half(6)) << 16 | u64::from(half(4));
            let partial = half(0) & PARTIAL != 0;
            return Ok(Cluster { partial, ..Cluster::head(kind, half(2).into(), block) });
        }
        let (back, ahead) = (u32::from(half(4)), u64::from(half(6)));
        let tail = if back & BLOCKS == 0 {
            Cluster::tail(back.into(), None)
        } else {
            self.check_blocks(number)?;
            Cluster::tail(1, Some(u64::from(back & !BLOCKS)))
        };
        Ok(Cluster { ahead: Some(ahead), ..tail })
    }

    /// Fills a buffer with a part of the index.
    fn fill(&self, reader: &impl MetadataReader, place: Place, buffer: &mut [u8]) -> Result<()> {
        let all = self.bytes.get_or_init(|| self.read_all(reader));
        let from = place.at.checked_sub(self.place.at).and_then(|from| usize::try_from(from).ok());
        let part = from.zip(all.as_deref()).and_then(|(from, all)| all.get(from..));
        match part.and_then(|part| part.get(..buffer.len())) {
            Some(part) => buffer.copy_from_slice(part),
            None => reader.metadata(place, buffer, "cluster index")?,
        }
        Ok(())
    }

    fn read_all(&self, reader: &impl MetadataReader) -> Option<Box<[u8]>> {
        let len = self.end().at.checked_sub(self.place.at)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= KEPT_MAX)?;
        let mut bytes = vec![0; len].into_boxed_slice();
        reader.metadata(self.place, &mut bytes, "cluster index").ok()?;
        Some(bytes)
    }

    /// A number of blocks where there are no big clusters is a mistake.
    fn check_blocks(&self, number: u64) -> Result<()> {
        if self.big == [false, false] {
            let found = format!("cluster {number} has a number of blocks");
            return Err(self.place.error("cluster index", found));
        }
        Ok(())
    }

    /// The place of a cluster's share of a pack, and whether the pack has 32 bytes.
    fn pack_place(&self, number: u64) -> (Place, bool) {
        let (first, packed) = self.packs.unwrap_or_default();
        if number < first {
            (self.place.plus(number * 4), false)
        } else if number < first + packed {
            (self.place.plus(first * 4 + (number - first) * 2), true)
        } else {
            (self.place.plus(first * 4 + packed * 2 + (number - first - packed) * 4), false)
        }
    }

    /// The pack of a cluster, and which of it the cluster is.
    fn pack(&self, reader: &impl MetadataReader, number: u64) -> Result<(Pack, usize)> {
        let (place, wide) = self.pack_place(number);
        let len = if wide { 32 } else { 8 };
        let begin = Place { at: place.at & !(len - 1), ..place };
        let mut pack = Pack { bytes: [0; 32], wide, place: begin };
        let bytes = &mut pack.bytes[..if wide { 32 } else { 8 }];
        self.fill(reader, begin, bytes)?;
        let at = (place.at - begin.at) / if wide { 2 } else { 4 };
        Ok((pack, usize::try_from(at).expect("16 at most")))
    }

    /// The kind of a pack's entry, and its other bits.
    fn entry(&self, pack: &Pack, at: usize) -> (Kind, u32) {
        let low = self.bits.max(12);
        let from = at * if pack.wide { 14 } else { 16 };
        let word = &pack.bytes[from / 8..from / 8 + 4];
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) >> (from % 8);
        (Kind::of(word >> low), word & ((1 << low) - 1))
    }

    fn packed(&self, pack: &Pack, at: usize) -> Result<Cluster> {
        let (kind, bits) = self.entry(pack, at);
        if kind != Kind::Tail {
            let block = self.block(pack, at)?;
            return Ok(Cluster::head(kind, bits.into(), block));
        }
        if bits & BLOCKS != 0 {
            self.check_blocks(at as u64)?;
            return Ok(Cluster::tail(1, Some(u64::from(bits & !BLOCKS))));
        }
        if at + 1 < pack.count() {
            return Ok(Cluster::tail(bits.into(), None));
        }
        // The last one says how far the next head is; the one before it leads to its own.
        let back = match self.entry(pack, at - 1) {
            (Kind::Tail, bits) if bits & BLOCKS != 0 => 2,
            (Kind::Tail, bits) => u64::from(bits) + 1,
            (Kind::Plain | Kind::Head1 | Kind::Head2, _) => 1,
        };
        Ok(Cluster::tail(back, None))
    }

    /// The block of a head: behind those of all heads before it in the pack.
    fn block(&self, pack: &Pack, head: usize) -> Result<u64> {
        let end = pack.count() * if pack.wide { 2 } else { 4 };
        let base = &pack.bytes[end - 4..end];
        let base = u32::from_le_bytes([base[0], base[1], base[2], base[3]]);
        // Entries from here on are counted.
        let mut from = head;
        let mut blocks = u64::from(!self.big[0]);
        while from > 0 {
            from -= 1;
            let (kind, bits) = self.entry(pack, from);
            if kind != Kind::Tail {
                blocks += 1;
                continue;
            }
            let bits = bits as usize;
            if !self.big[0] {
                // To the head of this tail, which is counted if it is in this pack.
                if bits > from {
                    break;
                }
                from -= bits;
                blocks += 1;
            } else if bits & BLOCKS as usize != 0 {
                // The head before it is that of its cluster.
                blocks += (bits & !(BLOCKS as usize)) as u64;
                from = from.saturating_sub(1);
            } else if bits <= 1 {
                let found = "a tail of a big cluster is the first but has no number of blocks";
                return Err(pack.place.error("cluster index", found));
            } else {
                // To the first tail of this cluster, which is counted if it is in this pack.
                from = from.saturating_sub(bits - 2);
            }
        }
        // The number before the first may be that before block 0.
        Ok(u64::from(base.wrapping_add(u32::try_from(blocks).unwrap_or(u32::MAX))))
    }
}

/// A pack of a packed index.
struct Pack {
    bytes: [u8; 32],
    wide: bool,
    place: Place,
}

impl Pack {
    /// Clusters in it.
    const fn count(&self) -> usize {
        if self.wide { 16 } else { 2 }
    }
}

/// An index of more bytes is read entry by entry.
pub(super) const KEPT_MAX: usize = 256 << 10;
/// Marks a number of blocks where a distance would be.
const BLOCKS: u32 = 1 << 11;
/// In a large head's first field: the physical cluster holds more than the extent.
const PARTIAL: u16 = 1 << 15;
