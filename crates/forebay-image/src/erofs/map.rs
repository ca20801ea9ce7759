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

use crate::error::Result;

use super::cluster::{self, Cluster, Index};
use super::extent::{EXTENT_MAX, Extent, From, Raw, RawCoding};
use super::extents::Extents;
use super::map_header::{self, EXTENTS, INLINE, MapStart, PACKED};
use super::metadata::MetadataReader;
use super::place::Place;

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

impl Map {
    /// Reads and checks the map of a file of a size, of which the layout's part begins at `body`.
    pub(super) fn read(
        reader: &impl MetadataReader,
        body: Place,
        size: u64,
        full: bool,
    ) -> Result<Self> {
        let place = map_header::place(body);
        let mut bytes = [0; 8];
        reader.metadata(place, &mut bytes, "map header")?;
        let header = match MapStart::parse(bytes, reader.superblock().block_bits) {
            MapStart::Packed(at) => return Ok(Self::Packed(at)),
            MapStart::Header(header) => header,
        };
        if full && header.advice & EXTENTS != 0 {
            return Ok(Self::Extents(Extents::new(&header, place.plus(8), size)));
        }
        let index = Index::new(reader, &header, place, size, full)?;
        let mut clusters = Clusters { index, codecs: header.codecs, tail: None };
        let inline = u64::from(header.low >> 16);
        if header.advice & PACKED != 0 {
            let (start, head, _) = clusters.last(reader, size)?;
            // The large index has room for the place's upper half: in the address of the head.
            let upper = if full { head.block << 32 } else { 0 };
            let at = TailPlace::Packed(u64::from(header.low) | upper);
            clusters.tail = Some(Tail { start, at });
        } else if header.advice & INLINE != 0 && inline != 0 {
            let (start, head, place) = clusters.last(reader, size)?;
            let at = TailPlace::Inline { place, len: inline, head: head.kind };
            clusters.tail = Some(Tail { start, at });
        }
        Ok(Self::Clusters(clusters))
    }

    /// The extent that holds a byte of a file of a size.
    pub(super) fn extent(
        &self,
        reader: &impl MetadataReader,
        size: u64,
        offset: u64,
    ) -> Result<Extent> {
        match self {
            Self::Packed(at) => Ok(Extent { start: 0, end: size, from: From::Packed(*at) }),
            Self::Clusters(clusters) => clusters.extent(reader, size, offset),
            Self::Extents(extents) => extents.find(reader, size, offset),
        }
    }

    /// The place behind it, if its header is at a place.
    pub(super) fn end(&self, header: Place) -> Place {
        match self {
            Self::Packed(_) => header.plus(8),
            Self::Clusters(clusters) => clusters.index.end(),
            Self::Extents(extents) => extents.end(),
        }
    }
}

impl Clusters {
    /// The last extent's first byte and head, and the place behind the index.
    fn last(&self, reader: &impl MetadataReader, size: u64) -> Result<(u64, Cluster, Place)> {
        let last = size - 1;
        let behind = self.index.behind(last >> self.index.bits);
        let (head, cluster) = self.head(reader, last)?;
        Ok(((head << self.index.bits) + cluster.inside, cluster, behind))
    }

    /// The head of the extent that holds a byte, and its number.
    fn head(&self, reader: &impl MetadataReader, offset: u64) -> Result<(u64, Cluster)> {
        let index = &self.index;
        let mut at = offset >> index.bits;
        let mut cluster = index.cluster(reader, at)?;
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
            cluster = index.cluster(reader, at)?;
            if cluster.kind != cluster::Kind::Tail {
                return Ok((at, cluster));
            }
            back = cluster.back;
        }
        Err(index.place.error("cluster index", format!("no head near cluster {at}")))
    }

    /// The extent that holds a byte.
    fn extent(&self, reader: &impl MetadataReader, size: u64, offset: u64) -> Result<Extent> {
        if let Some(tail) = self.tail.filter(|tail| offset >= tail.start) {
            return self.tail(reader, tail, size);
        }
        let (head, cluster) = self.head(reader, offset)?;
        let start = (head << self.index.bits) + cluster.inside;
        let end = self.end(reader, head, start, size)?;
        // The tail begins where its head says, whatever else the index says.
        let end = self.tail.map_or(end, |tail| end.min(tail.start));
        let len = self.index.raw_blocks(reader, head, cluster.kind, size)?;
        let raw = Raw {
            at: cluster.block << reader.superblock().block_bits,
            metabox: false,
            len: len << reader.superblock().block_bits,
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
    fn tail(&self, reader: &impl MetadataReader, tail: Tail, size: u64) -> Result<Extent> {
        let from = match tail.at {
            TailPlace::Packed(at) => From::Packed(at),
            TailPlace::Inline { place, len, head } => {
                if reader.superblock().in_block(place.at) + len > reader.superblock().block_size() {
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
    fn end(&self, reader: &impl MetadataReader, head: u64, start: u64, size: u64) -> Result<u64> {
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
            let cluster = index.cluster(reader, at)?;
            if cluster.kind != cluster::Kind::Tail {
                return Ok(size.min(begin + cluster.inside));
            }
            // Writers before 1.0 left some distances at zero.
            at += index.ahead(reader, at, &cluster)?.max(1);
        }
    }
}

/// Steps back to a head at most. A step is up to 2047 clusters long, and only the end of a file
/// that is in the packed inode can be longer than the largest extent.
const STEPS_MAX: u32 = 4096;
