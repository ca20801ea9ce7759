//! The bytes of files: where they are in the image, and how they are read.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::work::HEADER_BYTES;
use forebay_core::serving::{MountConfig, PackedBlock, Part, PartSource};
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Block, Coding, Image, Kind, NodeId};

use super::driver::{EndedRequest, PathDriver, Round};
use super::fault::{ImageFault, NotReady};
use super::file::ImageFile;
use super::stats::PathStats;

/// The files of an image. `T` is the front's part of a request.
#[derive(Debug)]
pub(crate) struct Content<T> {
    image: Arc<dyn Image>,
    file: Arc<ImageFile>,
    pub(crate) path: PathDriver<T>,
}

impl<T> Content<T> {
    /// Over an image that lies in a file.
    pub(crate) fn new(
        image: Arc<dyn Image>,
        file: Arc<ImageFile>,
        config: &MountConfig,
        stats: &Arc<PathStats>,
    ) -> Self {
        let path = PathDriver::new(&image, &file, config, stats);
        Self { image, file, path }
    }

    /// Locates the bytes of a file from `offset` on that fill `buffer`; all must be in the file.
    /// Holes are filled with zeros at once.
    pub(crate) fn parts(
        &self,
        id: NodeId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Vec<Part>, NotReady> {
        let end = offset + buffer.len() as u64;
        let mut parts: Vec<Part> = Vec::new();
        let mut position = offset;
        while position < end {
            let block = self.image.locate(id, position)?;
            let stop = block.plain.end.min(end);
            if stop <= position || block.plain.start > position {
                return Err(misplaced(&block).into());
            }
            let (at, len) = (position - offset, stop - position);
            let inside = u64::from(block.inside) + (position - block.plain.start);
            position = stop;
            let source = match block.coding {
                Coding::Hole => {
                    buffer[index(at)..index(at + len)].fill(0);
                    continue;
                }
                Coding::Stored => {
                    let start = block.raw.start.saturating_add(inside);
                    if start.saturating_add(len) > block.raw.end {
                        return Err(misplaced(&block).into());
                    }
                    PartSource::Stored(start)
                }
                Coding::Packed => {
                    let Ok(inside) = u32::try_from(inside) else {
                        return Err(misplaced(&block).into());
                    };
                    let raw = RawBytes { start: block.raw.start, end: block.raw.end };
                    let (decoded, variant) = (block.decoded, block.variant);
                    PartSource::Packed(PackedBlock { raw, decoded, variant }, inside)
                }
            };
            match parts.last_mut() {
                // Stored blocks mostly lie one behind the other.
                Some(Part { at: before, len: more, source: PartSource::Stored(start) })
                    if source == PartSource::Stored(*start + *more) && *before + *more == at =>
                {
                    *more += len;
                }
                _ => parts.push(Part { at, len, source }),
            }
        }
        Ok(parts)
    }

    /// Fills a buffer with the bytes of a file from `offset` on, and waits for them. Returns
    /// whether a device was waited for. `finish` is called with other requests that end meanwhile.
    pub(crate) fn read(
        &self,
        id: NodeId,
        offset: u64,
        mut buffer: Vec<u8>,
        finish: impl FnMut(Vec<EndedRequest<T>>),
    ) -> (Vec<u8>, Result<bool, NotReady>) {
        match self.parts(id, offset, &mut buffer) {
            Ok(parts) => {
                let (buffer, read) = self.path.read(&parts, buffer, finish);
                (buffer, read.map_err(NotReady::from))
            }
            Err(missed) => (buffer, Err(missed)),
        }
    }

    /// The first bytes of a file that is not empty, if they need no device and no large block; and
    /// the jobs of other requests.
    pub(crate) fn peek(&self, id: NodeId, size: u64) -> (Round<T>, Option<Vec<u8>>) {
        let nothing = || (Round::default(), None);
        let Ok(block) = self.image.locate(id, 0) else { return nothing() };
        let mut buffer = vec![0; index(size.min(HEADER_BYTES).min(block.plain.end))];
        let Ok(parts) = self.parts(id, 0, &mut buffer) else { return nothing() };
        self.path.read_near(&parts, buffer)
    }

    /// Begins to read a range of the image into the page cache.
    pub(crate) fn prefetch_range(&self, range: &Range<u64>) {
        self.file.will_need(range);
    }

    /// Begins to read the raw bytes of a page that is about to be asked for.
    pub(crate) fn prefetch_page(&self, id: NodeId, page: u64, size: u64) {
        for range in self.raw_ranges(id, Pages::new(page, page + 1), size) {
            self.file.will_need(&range);
        }
    }

    /// Reads the raw bytes of pages of a file ahead. Pages that cannot be located are left to the
    /// request for them.
    pub(crate) fn fetch(
        &self,
        id: NodeId,
        pages: Pages,
        size: u64,
        finish: impl Fn(Vec<EndedRequest<T>>),
    ) {
        for range in self.raw_ranges(id, pages, size) {
            self.fetch_range(&range, &finish);
        }
    }

    /// Reads a range of the image ahead: into the kernel's page cache, or into the engine's.
    pub(crate) fn fetch_range(&self, range: &Range<u64>, finish: impl Fn(Vec<EndedRequest<T>>)) {
        let end = range.end.min(self.file.present_bytes());
        if !self.file.is_direct() {
            self.file.will_need(&(range.start..end));
        } else if let Some(len) = end.checked_sub(range.start).filter(|len| *len > 0) {
            let parts = [Part { at: 0, len, source: PartSource::Ahead(range.start) }];
            let _ = self.path.read(&parts, Vec::new(), finish);
        }
    }

    /// A regular file by its path from the root, and its size.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(NodeId, u64)> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let id = names.into_iter().try_fold(self.image.root(), |directory, name| {
            self.image.lookup(directory, name).ok().flatten()
        })?;
        let node = self.image.node(id).ok()?;
        (node.kind == Kind::File).then_some((id, node.size))
    }

    /// Whether the raw bytes of pages are in memory.
    pub(crate) fn is_fetched(&self, id: NodeId, pages: Pages, size: u64) -> bool {
        self.raw_ranges(id, pages, size).iter().all(|range| self.file.has(range))
    }

    /// The raw bytes of pages of a file. The blocks of a file are mostly adjacent, so the first and
    /// the last one are enough; otherwise each block is located.
    pub(crate) fn raw_ranges(&self, id: NodeId, pages: Pages, size: u64) -> Vec<Range<u64>> {
        let start = pages.start.saturating_mul(PAGE_SIZE);
        let end = pages.end.saturating_mul(PAGE_SIZE).min(size);
        if start >= end {
            return Vec::new();
        }
        let ends = [start, end - 1].map(|at| self.image.locate(id, at).ok());
        if let [Some(first), Some(last)] = &ends {
            let all = needed(first, start, end).start..needed(last, start, end).end;
            let plain = last.plain.end.min(end) - first.plain.start.max(start);
            let adjacent = first.raw.start <= last.raw.start && all.start < all.end;
            if adjacent && !first.raw.is_empty() && all.end - all.start <= 2 * plain {
                return Vec::from([all]);
            }
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut at = start;
        while at < end {
            let Ok(block) = self.image.locate(id, at) else { break };
            let raw = needed(&block, start, end);
            match ranges.last_mut() {
                _ if raw.is_empty() => {}
                Some(last) if last.end == raw.start => last.end = raw.end,
                _ => ranges.push(raw),
            }
            at = block.plain.end.max(at + 1);
        }
        ranges
    }
}

/// The raw bytes of a block that the bytes of the file from `start` to `end` need: the whole block,
/// or part of a stored block, which can be as long as the file.
fn needed(block: &Block, start: u64, end: u64) -> Range<u64> {
    if block.coding != Coding::Stored {
        return block.raw.clone();
    }
    let place = |at: u64| {
        let inside = at.clamp(block.plain.start, block.plain.end) - block.plain.start;
        block.raw.start.saturating_add(u64::from(block.inside) + inside).min(block.raw.end)
    };
    place(start)..place(end)
}

fn misplaced(block: &Block) -> ImageFault {
    ImageFault::from(forebay_image::Error::Block {
        offset: block.raw.start,
        len: block.raw.end.saturating_sub(block.raw.start),
        why: "it does not hold what was asked of it".to_owned(),
    })
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
