//! Arrays of extents, which 48-bit images may have instead of an index.
//!
//! ```text
//!   an extent has 4, 8, 16 or 32 bytes; the array begins at a multiple of that
//!     0 bits 0..21 bytes of the cluster, 27 partial, 28..32 codec + 1, or 0: stored
//!     4 first byte of the cluster, low     (8 bytes or more)
//!     8 first byte of the cluster, high    (16 bytes or more)
//!    12 first byte in the file, low        (16 bytes or more)
//!    16 first byte in the file, high       (32 bytes)
//! ```
//!
//! Extents of 16 or 32 bytes are of any length. Those of 4 and 8 bytes have one length, that of a
//! logical cluster; those of 4 bytes follow each other from a byte that stands before the array.
//! A cluster of no bytes is a hole. Instead of the place of a last extent there can be one in the
//! packed inode.

use std::sync::OnceLock;

use crate::error::Result;

use super::extent::{Extent, From, Raw, RawCoding};
use super::map_header::{Header, INTERLACED, PACKED};
use super::metadata::MetadataReader;
use super::place::Place;
use super::superblock::Superblock;

/// An array of extents.
#[derive(Debug)]
pub(super) struct Extents {
    /// Where it begins; with extents of 4 bytes, where the first cluster's place stands.
    place: Place,
    /// Bytes of an extent.
    record: u64,
    /// The number of extents.
    count: u64,
    /// Extents of 4 and 8 bytes have `1 << bits` bytes.
    bits: u32,
    interlaced: bool,
    packed: bool,
    /// Where the cluster of every so manieth extent of 4 bytes begins.
    starts: OnceLock<Vec<u64>>,
}

/// An extent as stored.
#[derive(Clone, Copy, Debug)]
struct Record {
    len: u32,
    at: u64,
    /// Its first byte in the file.
    start: u64,
}

impl Extents {
    /// The array behind a header.
    pub(super) fn new(header: &Header, behind: Place, size: u64) -> Self {
        let record = 4 << (header.advice >> 1 & 3);
        let count = if record >= 16 {
            u64::from(header.low) | u64::from(header.high) << 32
        } else {
            size.div_ceil(1 << header.bits)
        };
        Self {
            place: behind.align(record),
            record,
            count,
            bits: header.bits,
            interlaced: header.advice & INTERLACED != 0,
            packed: header.advice & PACKED != 0,
            starts: OnceLock::new(),
        }
    }

    /// The extent that holds a byte.
    pub(super) fn find(
        &self,
        reader: &impl MetadataReader,
        size: u64,
        offset: u64,
    ) -> Result<Extent> {
        let (record, end, last) = if self.record >= 16 {
            self.search(reader, offset, size)?
        } else {
            let number = offset >> self.bits;
            let end = size.min((number + 1) << self.bits);
            (self.fixed(reader, number)?, end, number + 1 == self.count)
        };
        let Some(record) = record else {
            return Ok(Extent { start: 0, end, from: From::Hole });
        };
        let from = if last && self.packed {
            let high = if self.record == 4 { 0 } else { record.at << 32 };
            From::Packed(u64::from(record.len) | high)
        } else {
            self.raw(reader.superblock(), record)
        };
        Ok(Extent { start: record.start, end, from })
    }

    /// The place behind the array.
    pub(super) const fn end(&self) -> Place {
        let before = if self.record == 4 { 8 } else { 0 };
        self.place.plus(self.count.saturating_mul(self.record).saturating_add(before))
    }

    fn raw(&self, superblock: &Superblock, record: Record) -> From {
        let len = u64::from(record.len & LEN);
        if len == 0 {
            return From::Hole;
        }
        let aligned = superblock.in_block(record.at | len) == 0;
        let coding = match u8::try_from(record.len >> 28).expect("four bits") {
            0 if self.interlaced && aligned => RawCoding::Interlaced,
            0 => RawCoding::Shifted,
            codec => RawCoding::Codec(codec - 1),
        };
        let partial = record.len & PARTIAL != 0;
        From::Raw(Raw { at: record.at, metabox: false, len, coding, partial })
    }

    /// The last extent that begins at a byte or before it, where it ends, and whether it is the
    /// last one of all. None before the first one.
    fn search(
        &self,
        reader: &impl MetadataReader,
        offset: u64,
        size: u64,
    ) -> Result<(Option<Record>, u64, bool)> {
        // The extents before `low` begin at the byte or before it, those from `high` on behind it.
        let (mut low, mut high) = (0, self.count);
        let (mut found, mut end) = (None, size);
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.read(reader, middle)?;
            if record.start <= offset {
                low = middle + 1;
                found = Some(record);
            } else {
                high = middle;
                end = record.start;
            }
        }
        if end > size {
            let found = format!("extent {high} begins at byte {end} of {size}");
            return Err(self.place.error("extent", found));
        }
        Ok((found, end, low == self.count))
    }

    /// An extent of a number, of 4 or 8 bytes.
    fn fixed(&self, reader: &impl MetadataReader, number: u64) -> Result<Option<Record>> {
        let mut record = self.read(reader, number)?;
        record.start = number << self.bits;
        if self.record == 4 {
            record.at = self.start(reader, number)?;
        }
        Ok(Some(record))
    }

    fn read(&self, reader: &impl MetadataReader, number: u64) -> Result<Record> {
        let mut bytes = [0; 32];
        let len = usize::try_from(self.record).expect("32 at most");
        let behind = if self.record == 4 { 8 } else { 0 };
        let place = self.place.plus(behind).plus(number.saturating_mul(self.record));
        reader.metadata(place, &mut bytes[..len], "extent")?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        // What a shorter extent does not have is zero.
        Ok(Record {
            len: word(0),
            at: u64::from(word(4)) | u64::from(word(8)) << 32,
            start: u64::from(word(12)) | u64::from(word(16)) << 32,
        })
    }

    /// Where the cluster of an extent of 4 bytes begins.
    fn start(&self, reader: &impl MetadataReader, number: u64) -> Result<u64> {
        let step = self.count.div_ceil(STARTS_MAX).max(STEP_MIN);
        let starts = if let Some(starts) = self.starts.get() {
            starts
        } else {
            let starts = self.sums(reader, step)?;
            self.starts.get_or_init(|| starts)
        };
        let mark = number / step;
        let known = starts[usize::try_from(mark).expect("as many as marks")];
        self.sum(reader, known, mark * step, number)
    }

    /// Where the cluster of every `step`th extent begins.
    fn sums(&self, reader: &impl MetadataReader, step: u64) -> Result<Vec<u64>> {
        // The last one, before so much is read for nothing.
        self.read(reader, self.count - 1)?;
        if self.count / PACKED_MAX > reader.image().source.len() / 4 {
            let found =
                format!("{} extents in {} bytes of image", self.count, reader.image().source.len());
            return Err(self.place.error("extent", found));
        }
        let mut bytes = [0; 8];
        reader.metadata(self.place, &mut bytes, "extent")?;
        let mut starts = vec![u64::from_le_bytes(bytes)];
        let mut mark = step;
        while mark < self.count {
            let known = starts[starts.len() - 1];
            starts.push(self.sum(reader, known, mark - step, mark)?);
            mark += step;
        }
        Ok(starts)
    }

    /// Adds up the clusters of extents from one to another.
    fn sum(&self, reader: &impl MetadataReader, known: u64, from: u64, to: u64) -> Result<u64> {
        let mut bytes = [0; 256];
        let (mut sum, mut at) = (known, from);
        while at < to {
            let count = (to - at).min(64);
            let bytes = &mut bytes[..usize::try_from(count * 4).expect("256 at most")];
            reader.metadata(self.place.plus(8 + at * 4), bytes, "extent")?;
            for word in bytes.chunks_exact(4) {
                let len = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) & LEN;
                sum = sum.saturating_add(len.into());
            }
            at += count;
        }
        Ok(sum)
    }
}

/// The bits that are a cluster's number of bytes.
const LEN: u32 = (1 << 21) - 1;
/// The cluster holds more than the extent.
const PARTIAL: u32 = 1 << 27;
/// How many times the image's bytes an array of extents can have, which a metabox may pack: more
/// than any honest one, and reading it still takes no longer than the image is large.
const PACKED_MAX: u64 = 256;
/// Places of clusters that are kept for one file at most.
const STARTS_MAX: u64 = 4096;
/// Extents between them at least.
const STEP_MIN: u64 = 64;
