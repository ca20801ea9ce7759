//! What all parts of the reader ask: metadata by its place, inodes by their number, content.
//!
//! Metadata and ends of files may lie in the content of two other inodes, the metabox and the
//! packed inode. Both of these lie in the image itself.
//!
//! ```text
//!   inode --flat, compressed--> Located --> a block
//!                                  |-- Metabox --> the metabox's content --> a block
//!                                  '-- Packed ---> the packed inode's content --> a block
//! ```
//!
//! Inodes are kept with their maps.

use std::sync::Arc;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::image::{Block, Coding};
use crate::read;
use crate::source::Source;

use super::codecs::Variant;
use super::inode::{Inode, Layout};
use super::located::{Elsewhere, Located};
use super::metadata::{BareImage, MetadataReader, NO_METABOX, unit_buffer};
use super::place::Place;
use super::superblock::Superblock;
use super::{codecs, compressed, flat};

/// The image, read piece by piece.
pub(super) struct Core {
    image: BareImage,
    inodes: Cache<Arc<Inode>>,
}

impl Core {
    pub(super) fn new(source: Arc<dyn Source>, superblock: Superblock) -> Self {
        let image = BareImage::new(source, superblock);
        Self { image, inodes: Cache::new(INODES_MAX) }
    }

    /// An inode.
    pub(super) fn inode(&self, nid: u64) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(nid) {
            return Ok(inode);
        }
        let inode = Arc::new(Inode::read(self, nid)?);
        Ok(self.inodes.keep(nid, inode.weight(&self.image.superblock), inode))
    }

    /// The inode that holds metadata.
    fn metabox(&self, at: Place, field: &'static str) -> Result<Arc<Inode>> {
        let nid = self.image.superblock.metabox.filter(|nid| nid >> 63 == 0);
        self.inode(nid.ok_or_else(|| at.error(field, NO_METABOX))?)
    }

    /// The block that holds a byte of an inode's content, which is no further than its end.
    pub(super) fn locate(&self, inode: &Inode, offset: u64) -> Result<Block> {
        self.follow(inode, located(self, inode, offset)?)
    }

    /// The same for the metabox and the packed inode, whose maps lie in the image itself.
    fn locate_in_holder(&self, holder: &Inode, offset: u64) -> Result<Block> {
        self.follow(holder, located(&self.image, holder, offset)?)
    }

    /// The block to which the map of an inode leads.
    fn follow(&self, inode: &Inode, located: Located) -> Result<Block> {
        match located {
            Located::Block(block) => Ok(block),
            Located::Metabox(elsewhere) => {
                let holder = self.metabox(elsewhere.place, "content")?;
                self.in_other(&holder, elsewhere)
            }
            Located::Packed(elsewhere) => {
                let packed = self.image.superblock.packed.filter(|&nid| nid != inode.node.ino);
                let nid = packed.ok_or_else(|| {
                    elsewhere.place.error("packed content", "there is no inode for it")
                })?;
                let holder = self.inode(nid)?;
                self.in_other(&holder, elsewhere)
            }
        }
    }

    /// The block of a run of a file that is a run of another inode's content. It ends where the
    /// other's block ends, at the latest.
    fn in_other(&self, other: &Inode, Elsewhere { run, place }: Elsewhere) -> Result<Block> {
        let begin = run.theirs.checked_add(run.offset - run.start);
        let theirs = begin.filter(|&at| at < other.node.size).ok_or_else(|| {
            place.error("content", format!("{} lies behind another's end", run.theirs))
        })?;
        let block = self.locate_in_holder(other, theirs)?;
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

    /// Decodes the beginning of a block, whose raw bytes may lie in the metabox.
    pub(super) fn decode(
        &self,
        block: &Block,
        raw: &[u8],
        upto: usize,
        content: &mut [u8],
    ) -> Result<usize> {
        let variant = Variant::of(block.variant);
        let mut inner = Vec::new();
        let bytes = if let Some((at, len)) = variant.metabox {
            inner.resize(len as usize, 0);
            self.metadata(Place { at, metabox: true }, &mut inner, "inline cluster")?;
            &inner
        } else {
            raw
        };
        let (offset, len) = (block.raw.start, raw.len() as u64);
        codecs::decode(variant, bytes, upto, content).map_err(|why| Error::Block {
            offset,
            len,
            why,
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
        read::fill(&*self.image.source, offset, buffer, locate, |block, raw, upto, content| {
            self.decode(block, raw, upto, content)
        })
    }
}

impl MetadataReader for Core {
    fn image(&self) -> &BareImage {
        &self.image
    }

    fn read_unit(&self, first: Place, at: Place, field: &'static str) -> Result<Arc<[u8]>> {
        if !first.metabox {
            return self.image.read_unit(first, at, field);
        }
        let metabox = self.metabox(at, field)?;
        let mut bytes = unit_buffer(first, at, metabox.node.size, field)?;
        // Holes may make a metabox of any size, and a read of all of it endless.
        self.fill(first.at, &mut bytes, |at| match self.locate_in_holder(&metabox, at)? {
            Block { coding: Coding::Hole, .. } => {
                Err(Place { at, metabox: true }.error(field, "is in a hole of the metabox"))
            }
            block => Ok(block),
        })?;
        Ok(bytes.into())
    }
}

/// Where the map of an inode, read from its metadata, leads for a byte.
fn located(reader: &impl MetadataReader, inode: &Inode, offset: u64) -> Result<Located> {
    let image = reader.image();
    match inode.layout {
        Layout::Plain(start) => flat::plain(image, inode, start, offset).map(Located::Block),
        Layout::Inline(start) => flat::inline(image, inode, start, offset),
        Layout::Chunks(chunks) => flat::chunk(reader, inode, chunks, offset).map(Located::Block),
        Layout::Compressed { full } => compressed::locate(reader, inode, full, offset),
    }
}

/// Inodes that are kept, with their maps: 4 MiB.
const INODES_MAX: usize = 4 << 20;
