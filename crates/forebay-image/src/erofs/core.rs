//! What all parts of the reader ask: metadata by its place, inodes by their number, content.
//!
//! Metadata lies in the image, or in the metabox: the content of an inode that is itself in the
//! image, and may be compressed. Both are read by units of 4 KiB, which are kept, and so are
//! inodes with their maps.

use std::sync::Arc;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::image::{Block, Coding};
use crate::read;
use crate::source::Source;

use super::inode::{Inode, Layout};
use super::superblock::Superblock;
use super::{codecs, flat, map};

/// A byte of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its offset.
    pub(super) at: u64,
    /// In the metabox rather than in the image.
    pub(super) metabox: bool,
}

impl Place {
    /// A byte behind this one.
    pub(super) const fn plus(self, bytes: u64) -> Self {
        Self { at: self.at.saturating_add(bytes), metabox: self.metabox }
    }

    /// The first byte from here on whose offset is a multiple of a power of two.
    pub(super) const fn align(self, unit: u64) -> Self {
        Self { at: (self.at.saturating_add(unit - 1)) & !(unit - 1), metabox: self.metabox }
    }

    /// An error of a field that is here.
    pub(super) fn error(self, field: &'static str, found: impl Into<String>) -> Error {
        let mut found = found.into();
        if self.metabox {
            found.push_str(" (the offset is that in the metabox)");
        }
        Error::field(field, self.at, found)
    }
}

/// The image, read piece by piece.
pub(super) struct Core {
    pub(super) source: Arc<dyn Source>,
    pub(super) superblock: Superblock,
    units: Cache<Arc<[u8]>>,
    inodes: Cache<Arc<Inode>>,
}

impl Core {
    pub(super) fn new(source: Arc<dyn Source>, superblock: Superblock) -> Self {
        let (units, inodes) = (Cache::new(UNITS_MAX), Cache::new(INODES_MAX));
        Self { source, superblock, units, inodes }
    }

    /// An inode.
    pub(super) fn inode(&self, nid: u64) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(nid) {
            return Ok(inode);
        }
        let inode = Arc::new(Inode::read(self, nid)?);
        Ok(self.inodes.keep(nid, inode.weight(&self.superblock), inode))
    }

    /// Fills a buffer with metadata.
    pub(super) fn metadata(
        &self,
        place: Place,
        buffer: &mut [u8],
        field: &'static str,
    ) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = place.plus(done as u64);
            let first = Place { at: at.at & !(UNIT - 1), ..at };
            let unit = self.unit(first, at, field)?;
            let from = usize::try_from(at.at - first.at).expect("less than a unit");
            let rest = unit.get(from..).filter(|rest| !rest.is_empty());
            let rest = rest.ok_or_else(|| at.error(field, BEYOND))?;
            let len = rest.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&rest[..len]);
            done += len;
        }
        Ok(())
    }

    /// A unit of metadata: shorter than others at the end of what there is.
    fn unit(&self, first: Place, at: Place, field: &'static str) -> Result<Arc<[u8]>> {
        // The place of a unit is even.
        let key = first.at | u64::from(first.metabox);
        if let Some(unit) = self.units.find(key) {
            return Ok(unit);
        }
        let metabox = if first.metabox { Some(self.metabox(at, field)?) } else { None };
        let end = metabox.as_ref().map_or(self.source.len(), |inode| inode.node.size);
        let len = end.saturating_sub(first.at).min(UNIT);
        if len == 0 {
            return Err(at.error(field, BEYOND));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("a unit at most")];
        if let Some(inode) = metabox {
            // Holes may make a metabox of any size, and a read of all of it endless.
            self.fill(first.at, &mut bytes, |at| match self.locate(&inode, at)? {
                Block { coding: Coding::Hole, .. } => {
                    Err(Place { at, metabox: true }.error(field, "is in a hole of the metabox"))
                }
                block => Ok(block),
            })?;
        } else {
            self.source.fill(&mut bytes, first.at)?;
        }
        Ok(self.units.keep(key, 1, bytes.into()))
    }

    /// The inode that holds metadata.
    fn metabox(&self, at: Place, field: &'static str) -> Result<Arc<Inode>> {
        let nid = self.superblock.metabox.filter(|nid| nid >> 63 == 0);
        self.inode(nid.ok_or_else(|| at.error(field, "there is no metabox"))?)
    }

    /// The block that holds a byte of an inode's content, which is no further than its end.
    pub(super) fn locate(&self, inode: &Inode, offset: u64) -> Result<Block> {
        match inode.layout {
            Layout::Plain(start) => flat::plain(self, inode, start, offset),
            Layout::Inline(start) => flat::inline(self, inode, start, offset),
            Layout::Chunks(chunks) => flat::chunk(self, inode, chunks, offset),
            Layout::Compressed { full } => map::locate(self, inode, full, offset),
        }
    }

    /// The block of a run of a file that is a run of the metabox's content.
    pub(super) fn in_metabox(&self, place: Place, run: Run) -> Result<Block> {
        let inode = self.metabox(place, "content")?;
        self.in_other(&inode, place, run)
    }

    /// The block of a run of a file that is a run of another inode's content. It ends where the
    /// other's block ends, at the latest.
    pub(super) fn in_other(&self, other: &Inode, place: Place, run: Run) -> Result<Block> {
        let begin = run.theirs.checked_add(run.offset - run.start);
        let theirs = begin.filter(|&at| at < other.node.size).ok_or_else(|| {
            place.error("content", format!("{} lies behind another's end", run.theirs))
        })?;
        let block = self.locate(other, theirs)?;
        // How far the other inode's block extends on either side of the byte, within this file.
        let before = (theirs - block.plain.start).min(run.offset - run.start);
        let after = (block.plain.end - theirs).min(run.end - run.offset);
        let plain = run.offset - before..run.offset + after;
        let skipped = theirs - before - block.plain.start;
        Ok(match block.coding {
            Coding::Hole => Block::hole(plain),
            Coding::Stored => {
                let start = block.raw.start + skipped;
                let raw = start..start + (plain.end - plain.start);
                Block { plain, raw, ..block }
            }
            Coding::Packed => {
                let skipped = u32::try_from(skipped).expect("within a packed block");
                Block { plain, inside: block.inside + skipped, ..block }
            }
        })
    }

    /// A block of bytes that are stored as they are. Its end is that of the image, if the image
    /// has less of it.
    pub(super) fn stored(
        &self,
        plain: std::ops::Range<u64>,
        at: u64,
        offset: u64,
    ) -> Result<Block> {
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

    /// Fills a buffer with an inode's content, which goes on at least for that long.
    pub(super) fn content(&self, inode: &Inode, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.fill(offset, buffer, |at| self.locate(inode, at))
    }

    fn fill(
        &self,
        offset: u64,
        buffer: &mut [u8],
        locate: impl Fn(u64) -> Result<Block>,
    ) -> Result<()> {
        read::fill(&*self.source, offset, buffer, locate, |block, raw, upto, content| {
            codecs::decode(self, block, raw, upto, content)
        })
    }
}

/// A run of a file that lies in another inode's content, and the requested byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Its first byte, in the file.
    pub(super) start: u64,
    /// Behind its last byte, in the file.
    pub(super) end: u64,
    /// Where its first byte lies in the other's content.
    pub(super) theirs: u64,
    /// The requested byte, in the file.
    pub(super) offset: u64,
}

const BEYOND: &str = "lies behind the end";
/// Bytes of a unit of metadata.
const UNIT: u64 = 4096;
/// Units that are kept: 1 MiB.
const UNITS_MAX: usize = 256;
/// Inodes that are kept, with their maps: 4 MiB.
const INODES_MAX: usize = 4 << 20;
