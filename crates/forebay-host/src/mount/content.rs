//! The bytes of files, by the order of serving: decoded, raw in memory, raw on its way, absent.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::packed::Pages;
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Block, Coding, Image, Kind, NodeId};

use super::decode::{Blocks, Fault, Missed, Pace, Run, Way};
use super::pool::{Lent, Pool};
use super::program::HEADERS;
use super::raw::{Absent, Raw};

/// Files of one image.
#[derive(Debug)]
pub(super) struct Content {
    image: Arc<dyn Image>,
    raw: Arc<Raw>,
    blocks: Blocks,
    pool: Arc<Pool>,
}

impl Content {
    /// Over an image whose source is `raw`; `budget` is that of decoded bytes.
    pub(super) fn new(image: Arc<dyn Image>, raw: Arc<Raw>, budget: u64) -> Self {
        let block = u64::from(image.summary().block_size).max(LARGE_MIN);
        let pool = Pool::new(usize::try_from(budget / (8 * block)).unwrap_or(usize::MAX));
        let blocks = Blocks::new(&raw, &image, Arc::clone(&pool), budget);
        Self { image, raw, blocks, pool }
    }

    /// Bytes in memory: raw and decoded.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.raw.bytes(), self.blocks.bytes())
    }

    /// A buffer for an answer.
    pub(super) fn buffer(&self, len: usize) -> Lent {
        self.pool.take(len)
    }

    /// Fills `buffer` with the bytes of a file from `offset` on; all of them lie in the file. Says
    /// whether a device was waited for.
    pub(super) fn read(
        &self,
        id: NodeId,
        offset: u64,
        buffer: &mut [u8],
        pace: Pace,
    ) -> Result<bool, Missed> {
        let end = offset + buffer.len() as u64;
        let pages = Pages::new(offset / PAGE_SIZE, end.div_ceil(PAGE_SIZE));
        let run = if pages.len() > 1 { self.raw_run(id, pages, end) } else { None };
        let Some(run) = run else {
            return self.read_blocks(id, offset, buffer, pace, Run::default());
        };
        let mut raw = self.pool.take(index(run.end - run.start));
        let near = self.raw.copy_if_near(&run, &mut raw);
        if !near && pace == Pace::Quick {
            return Err(Missed::Absent(Absent(run)));
        }
        // If it cannot be read at once, each block is: some may be whole.
        let read = near || self.raw.copy_run(&run, &mut raw).is_ok();
        let run = if read { Run { start: run.start, bytes: &raw } } else { Run::default() };
        self.read_blocks(id, offset, buffer, pace, run).map(|waited| waited || !near)
    }

    fn read_blocks(
        &self,
        id: NodeId,
        offset: u64,
        buffer: &mut [u8],
        pace: Pace,
        run: Run<'_>,
    ) -> Result<bool, Missed> {
        let mut way = Way::new(pace, run);
        let end = offset + buffer.len() as u64;
        let mut at = offset;
        while at < end {
            let block = self.image.locate(id, at)?;
            let stop = block.plain.end.min(end);
            if stop <= at || block.plain.start > at {
                return Err(Fault::from(misplaced(&block)).into());
            }
            let target = &mut buffer[index(at - offset)..index(stop - offset)];
            self.read_block(&block, at..stop, target, &mut way)?;
            at = stop;
        }
        Ok(way.waited)
    }

    /// The raw bytes of several blocks that lie one behind the other, if they are worth a read of
    /// their own.
    fn raw_run(&self, id: NodeId, pages: Pages, size: u64) -> Option<Range<u64>> {
        let [run] = <[_; 1]>::try_from(self.raw_ranges(id, pages, size)).ok()?;
        let block = self.image.locate(id, pages.start * PAGE_SIZE).ok()?;
        (block.raw.end < run.end && run.end - run.start <= RUN_MAX).then_some(run)
    }

    /// The first bytes of a file that has some; its first block is kept for whoever asks next.
    pub(super) fn peek(&self, id: NodeId, size: u64, pace: Pace) -> Result<Vec<u8>, Missed> {
        let block = self.image.locate(id, 0)?;
        let len = index(size.min(HEADERS).min(block.plain.end));
        if block.coding == Coding::Packed && u64::from(block.decoded) <= PAGE_SIZE {
            self.blocks.keep(&block, pace)?;
        }
        let mut bytes = vec![0; len];
        self.read(id, 0, &mut bytes, pace)?;
        Ok(bytes)
    }

    /// Begins to read what a READ was missing.
    pub(super) fn hasten(&self, absent: &Absent) {
        self.raw.hasten(&absent.0);
    }

    /// Begins to read the raw bytes of a page that somebody is about to ask for.
    pub(super) fn hasten_page(&self, id: NodeId, page: u64, size: u64) {
        for range in self.raw_ranges(id, Pages::new(page, page + 1), size) {
            self.raw.hasten(&range);
        }
    }

    /// Brings in the raw bytes of pages of a file: of all at once, or of none if that is not
    /// what the rule wants. What cannot be located is left to whoever asks for it.
    pub(super) fn fetch(&self, id: NodeId, pages: Pages, size: u64) {
        for range in self.raw_ranges(id, pages, size) {
            self.raw.fetch(&range);
        }
    }

    /// Has the kernel read what lies around pages into its memory of the image, as long as it is
    /// wanted; where it cannot, brings in their raw bytes.
    pub(super) fn advise(&self, id: NodeId, pages: Pages, size: u64, is_wanted: impl Fn() -> bool) {
        for range in self.raw_ranges(id, pages, size) {
            self.raw.advise(&range, &is_wanted);
        }
    }

    /// Begins to read a range of the image.
    pub(super) fn begin_reading(&self, range: &Range<u64>) {
        self.raw.hasten(range);
    }

    /// A regular file by its path from the root, and its size.
    pub(super) fn find(&self, path: &[u8]) -> Option<(NodeId, u64)> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let id = names.into_iter().try_fold(self.image.root(), |directory, name| {
            self.image.lookup(directory, name).ok().flatten()
        })?;
        let node = self.image.node(id).ok()?;
        (node.kind == Kind::File).then_some((id, node.size))
    }

    /// Whether the raw bytes of pages are in memory.
    pub(super) fn is_fetched(&self, id: NodeId, pages: Pages, size: u64) -> bool {
        let is_near = |range: &Range<u64>| {
            let mut bytes = self.pool.take(index(range.end - range.start));
            self.raw.copy_if_near(range, &mut bytes)
        };
        self.raw_ranges(id, pages, size).iter().all(is_near)
    }

    fn read_block(
        &self,
        block: &Block,
        bytes: Range<u64>,
        target: &mut [u8],
        way: &mut Way<'_>,
    ) -> Result<(), Missed> {
        match block.coding {
            Coding::Hole => target.fill(0),
            Coding::Stored => {
                let inside = u64::from(block.inside) + (bytes.start - block.plain.start);
                let start = block.raw.start.saturating_add(inside);
                let range = start..start.saturating_add(target.len() as u64);
                if range.end > block.raw.end {
                    return Err(Fault::from(misplaced(block)).into());
                }
                if let Some(bytes) = way.run.slice(&range) {
                    target.copy_from_slice(bytes);
                    return Ok(());
                }
                if self.raw.copy_if_near(&range, target) {
                    return Ok(());
                }
                if way.pace == Pace::Quick {
                    return Err(Missed::Absent(Absent(range)));
                }
                way.waited = true;
                self.raw.copy(&range, target).map_err(|source| {
                    let (offset, len) = (range.start, target.len() as u64);
                    Fault::from(forebay_image::Error::Read { offset, len, source })
                })?;
            }
            Coding::Packed => {
                let inside = block.upto(bytes.start);
                self.blocks.copy(block, inside, target, way)?;
            }
        }
        Ok(())
    }

    /// The raw bytes of pages of a file. Blocks of a file mostly lie one behind the other, so the
    /// first and the last one tell; otherwise each is asked for.
    pub(super) fn raw_ranges(&self, id: NodeId, pages: Pages, size: u64) -> Vec<Range<u64>> {
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

/// The raw bytes of a block without which the bytes of the file from `start` to `end` cannot be
/// had: all of them, but of a stored block, which can be as long as the file.
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

fn misplaced(block: &Block) -> forebay_image::Error {
    forebay_image::Error::Block {
        offset: block.raw.start,
        len: block.raw.end.saturating_sub(block.raw.start),
        why: "it does not hold what was asked of it".to_owned(),
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Raw bytes that are read at once for one request: several of the kernel's windows, if they do not
/// pack. Larger blocks are worth a read each.
const RUN_MAX: u64 = 512 << 10;

/// What a block takes at least when it is counted how many large ones can be decoded at a time.
const LARGE_MIN: u64 = 256 << 10;
