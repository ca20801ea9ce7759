//! Metadata blocks: up to 8 KiB each, packed or stored, one behind the other, read as one stream.
//!
//! ```text
//!   table  | len | raw bytes | len | raw bytes | len | ...
//!                 \_ decoded: 8192 bytes, the last block of a table may have fewer
//!
//!   len        = 15 bits of length, and the highest bit for "stored"
//!
//!   reference  = (offset of the block in its table) << 16 | offset in the decoded block
//! ```
//!
//! A stream only moves towards the end of its table, so that no loop can be made of it.

use std::ops::Range;
use std::sync::Arc;

use super::layout::{METADATA_HEADER, METADATA_LEN, METADATA_STORED};
use crate::cache::Cache;
use crate::codec::{Codec, decode};
use crate::error::{Error, Result};
use crate::source::Source;

/// Decoded metadata in memory, in bytes.
pub(super) const METADATA_CACHE: usize = 4 << 20;
/// Memory of a cached block without its bytes.
const OVERHEAD: usize = 160;

/// All metadata blocks of an image.
pub(super) struct Metadata {
    source: Arc<dyn Source>,
    codec: Codec,
    cache: Cache<Arc<Chunk>>,
}

/// A decoded metadata block.
struct Chunk {
    bytes: Box<[u8]>,
    /// Where the next one begins in the image.
    next: u64,
}

/// A place in decoded metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where the block begins in the image.
    pub(super) block: u64,
    /// The byte in the decoded block.
    pub(super) inside: u16,
}

impl Place {
    /// A reference in the table that begins at `table`.
    pub(super) const fn of_reference(reference: u64, table: u64) -> Self {
        // 48 bits plus a position in the image: saturation gives a position beyond the image.
        let block = table.saturating_add(reference >> 16);
        Self { block, inside: (reference & 0xffff) as u16 }
    }
}

impl Metadata {
    pub(super) fn new(source: Arc<dyn Source>, codec: Codec) -> Self {
        Self { source, codec, cache: Cache::new(METADATA_CACHE) }
    }

    /// A stream from a place on, in the table that takes the bytes `table` of the image.
    pub(super) fn stream(&self, table: Range<u64>, place: Place) -> Result<Stream<'_>> {
        if place.block < table.start || place.block >= table.end {
            let found = format!("a reference to {}, not in {table:?}", place.block);
            return Err(Error::field("metadata", place.block, found));
        }
        let chunk = self.chunk(place.block, table.end)?;
        let at = usize::from(place.inside);
        if at >= chunk.bytes.len() {
            let found = format!("a reference to byte {at} of {}", chunk.bytes.len());
            return Err(Error::field("metadata", place.block, found));
        }
        Ok(Stream { metadata: self, end: table.end, block: place.block, chunk, at })
    }

    /// The block at a place, which must end before the end of its table.
    fn chunk(&self, block: u64, end: u64) -> Result<Arc<Chunk>> {
        let chunk = match self.cache.find(block) {
            Some(chunk) => chunk,
            None => {
                let chunk = Arc::new(self.read(block, end)?);
                self.cache.keep(block, chunk.bytes.len() + OVERHEAD, chunk)
            }
        };
        if chunk.next > end {
            let found = format!("ends at {}, but its table at {end}", chunk.next);
            return Err(Error::field("metadata block", block, found));
        }
        Ok(chunk)
    }

    /// Reads header and raw bytes with one request, because a block is hardly ever longer than
    /// this.
    fn read(&self, block: u64, end: u64) -> Result<Chunk> {
        let mut raw = [0; METADATA_LEN + METADATA_HEADER as usize];
        let there = usize::try_from(end.saturating_sub(block)).unwrap_or(raw.len()).min(raw.len());
        let raw = &mut raw[..there];
        let Some(start) = block.checked_add(METADATA_HEADER).filter(|start| *start < end) else {
            return Err(Error::field("metadata block", block, "no room before its table's end"));
        };
        self.source.fill(raw, block)?;
        let (header, raw) = raw.split_at(METADATA_HEADER as usize);
        let header = u16::from_le_bytes([header[0], header[1]]);
        let len = usize::from(header & !METADATA_STORED);
        let Some(raw) = raw.get(..len).filter(|_| len > 0) else {
            let found = format!("{len} raw bytes, not in 1..={}", raw.len());
            return Err(Error::field("metadata block", block, found));
        };
        let next = start + len as u64;
        if header & METADATA_STORED != 0 {
            return Ok(Chunk { bytes: raw.into(), next });
        }
        let mut content = [0; METADATA_LEN];
        let failed = |why: String| Error::Block { offset: start, len: len as u64, why };
        let len = decode(self.codec, raw, METADATA_LEN, &mut content)
            .map_err(|failure| failed(failure.into()))?;
        if len == 0 {
            return Err(failed("it decodes to nothing".into()));
        }
        Ok(Chunk { bytes: content[..len].into(), next })
    }
}

/// A stream of decoded metadata.
#[derive(Clone)]
pub(super) struct Stream<'a> {
    metadata: &'a Metadata,
    /// Where the table ends in the image.
    end: u64,
    /// Where the present block begins in the image.
    block: u64,
    chunk: Arc<Chunk>,
    at: usize,
}

impl Stream<'_> {
    /// The present block, for errors.
    pub(super) const fn block(&self) -> u64 {
        self.block
    }

    /// Where the next byte is; moves to the next block if this one is at its end.
    pub(super) fn place(&mut self) -> Result<Place> {
        self.rest()?;
        let inside = u16::try_from(self.at).expect("a block has 8192 bytes at most");
        Ok(Place { block: self.block, inside })
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The next bytes, as many as fit.
    pub(super) fn fill(&mut self, mut bytes: &mut [u8]) -> Result<()> {
        while !bytes.is_empty() {
            let rest = self.rest()?;
            let len = rest.len().min(bytes.len());
            let (now, later) = bytes.split_at_mut(len);
            now.copy_from_slice(&rest[..len]);
            self.at += len;
            bytes = later;
        }
        Ok(())
    }

    /// Goes on without looking at `len` bytes.
    pub(super) fn skip(&mut self, mut len: u64) -> Result<()> {
        while len > 0 {
            let there = self.rest()?.len();
            let now = usize::try_from(len).unwrap_or(there).min(there);
            self.at += now;
            len -= now as u64;
        }
        Ok(())
    }

    /// The rest of the current block, or the next one if it is empty; never empty.
    fn rest(&mut self) -> Result<&[u8]> {
        if self.at == self.chunk.bytes.len() {
            let next = self.chunk.next;
            if next >= self.end {
                let found = format!("goes on beyond the table's end at {}", self.end);
                return Err(Error::field("metadata", self.block, found));
            }
            self.chunk = self.metadata.chunk(next, self.end)?;
            (self.block, self.at) = (next, 0);
        }
        Ok(&self.chunk.bytes[self.at..])
    }
}
