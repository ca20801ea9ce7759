//! Metadata by its place, read by units of 4 KiB, which are kept.
//!
//! Metadata lies in the image, or in the metabox: the content of an inode that is itself in the
//! image, and may be compressed.
//!
//! ```text
//!   Core          everything           directories, attributes, inodes, maps
//!    |  locates the metabox's and the packed inode's content by
//!    v
//!   BareImage     what lies in the image itself: their inodes and maps
//! ```

use std::ops::Range;
use std::sync::Arc;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::image::{Block, Coding};
use crate::source::Source;

use super::place::Place;
use super::superblock::Superblock;

/// Reads metadata.
pub(super) trait MetadataReader {
    /// The image.
    fn image(&self) -> &BareImage;

    /// Reads the unit that begins at a place, because of a byte of a field in it. The last one is
    /// shorter than others.
    fn read_unit(&self, first: Place, at: Place, field: &'static str) -> Result<Arc<[u8]>>;

    /// The properties of the image.
    fn superblock(&self) -> &Superblock {
        &self.image().superblock
    }

    /// Fills a buffer with metadata.
    fn metadata(&self, place: Place, buffer: &mut [u8], field: &'static str) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = place.plus(done as u64);
            let first = Place { at: at.at & !(UNIT - 1), ..at };
            // The place of a unit is even.
            let key = first.at | u64::from(first.metabox);
            let units = &self.image().units;
            let unit = match units.find(key) {
                Some(unit) => unit,
                None => units.keep(key, 1, self.read_unit(first, at, field)?),
            };
            let from = usize::try_from(at.at - first.at).expect("less than a unit");
            let rest = unit.get(from..).filter(|rest| !rest.is_empty());
            let rest = rest.ok_or_else(|| at.error(field, BEYOND))?;
            let len = rest.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&rest[..len]);
            done += len;
        }
        Ok(())
    }
}

/// The image without what lies in the metabox.
pub(super) struct BareImage {
    pub(super) source: Arc<dyn Source>,
    pub(super) superblock: Superblock,
    /// Units of metadata, those of the metabox among them.
    units: Cache<Arc<[u8]>>,
}

impl BareImage {
    pub(super) fn new(source: Arc<dyn Source>, superblock: Superblock) -> Self {
        Self { source, superblock, units: Cache::new(UNITS_MAX) }
    }

    /// A block of bytes that are stored as they are. Its end is that of the image, if the image
    /// has less of it.
    pub(super) fn stored(&self, plain: Range<u64>, at: u64, offset: u64) -> Result<Block> {
        let there = self.source.len().saturating_sub(at).min(plain.end - plain.start);
        if offset - plain.start >= there {
            let found = format!("byte {} is behind the image's end", offset - plain.start);
            return Err(Error::field("content", at, found));
        }
        let plain = plain.start..plain.start + there;
        Ok(Block {
            plain,
            raw: at..at + there,
            coding: Coding::Stored,
            decoded: 0,
            inside: 0,
            variant: 0,
        })
    }
}

impl MetadataReader for BareImage {
    fn image(&self) -> &BareImage {
        self
    }

    fn read_unit(&self, first: Place, at: Place, field: &'static str) -> Result<Arc<[u8]>> {
        if first.metabox {
            return Err(at.error(field, NO_METABOX));
        }
        let mut bytes = unit_buffer(first, at, self.source.len(), field)?;
        self.source.fill(&mut bytes, first.at)?;
        Ok(bytes.into())
    }
}

/// A buffer of the length that a unit has, where the metadata has an end.
pub(super) fn unit_buffer(
    first: Place,
    at: Place,
    end: u64,
    field: &'static str,
) -> Result<Vec<u8>> {
    let len = end.saturating_sub(first.at).min(UNIT);
    if len == 0 {
        return Err(at.error(field, BEYOND));
    }
    Ok(vec![0; usize::try_from(len).expect("a unit at most")])
}

pub(super) const NO_METABOX: &str = "there is no metabox";
const BEYOND: &str = "lies behind the end";
/// Bytes of a unit of metadata.
const UNIT: u64 = 4096;
/// Units that are kept: 1 MiB.
const UNITS_MAX: usize = 256;
