//! A simulated store: its contents, the data that survives a power failure, and its work in flight.

use forebay_core::io;
use forebay_core::serving::ZeroRange;
use forebay_core::time::Instant;

use super::history::{Moment, Number};
use crate::rng::Rng;

/// Bytes of a cell.
pub(super) const CELL: u64 = 512;
/// Cells of a page.
pub(super) const PAGE_CELLS: usize = 8;

/// A page's cells.
pub(super) type Page = [Number; PAGE_CELLS];

/// The bytes behind an export.
#[derive(Debug)]
pub(super) struct Store {
    /// Cells of the export; pages are whole.
    pub(super) len: usize,
    pub(super) pages: Vec<StoredPage>,
    /// Writes and flushes answer that there is no space.
    pub(super) is_full: bool,
    /// How many of a million requests fail: reads, writes, flushes and zeroing.
    pub(super) fail_ppm: u64,
    /// How many of a million ranges it cannot zero.
    pub(super) no_zero_ppm: u64,
    /// It has answered that there is no space.
    pub(super) no_space: u64,
}

/// A page of a store.
#[derive(Clone, Debug)]
pub(super) struct StoredPage {
    /// What reads give.
    pub(super) current: Page,
    /// What a flush has made durable.
    durable: Page,
    /// What came later, and when.
    cached: Vec<(Moment, Page)>,
}

/// Work of a store that has not ended.
#[derive(Debug)]
pub(super) struct StoreWork {
    pub(super) due: Instant,
    pub(super) began: Moment,
    pub(super) export: usize,
    pub(super) kind: WorkKind,
}

#[derive(Debug)]
pub(super) enum WorkKind {
    /// A request, and the pages that are written.
    Request(io::Request, Vec<Page>),
    /// A range that is zeroed; its cells hold the number of its request.
    Zero(ZeroRange, Number),
}

impl Store {
    pub(super) fn new(cells: usize, number: Number) -> Self {
        let page = [number; PAGE_CELLS];
        let page = StoredPage { current: page, durable: page, cached: Vec::new() };
        let pages = vec![page; cells.div_ceil(PAGE_CELLS)];
        Self { len: cells, pages, is_full: false, fail_ppm: 0, no_zero_ppm: 0, no_space: 0 }
    }

    /// The cells of a page that lie in the export.
    pub(super) fn cells_of(&self, page: usize) -> usize {
        PAGE_CELLS.min(self.len - page * PAGE_CELLS)
    }

    /// A page is replaced.
    pub(super) fn put(&mut self, now: Moment, page: usize, image: Page, is_durable: bool) {
        let stored = &mut self.pages[page];
        stored.current = image;
        if is_durable {
            stored.durable = image;
            stored.cached.clear();
        } else {
            stored.cached.push((now, image));
        }
    }

    /// All that had arrived before a moment is durable.
    pub(super) fn flush(&mut self, began: Moment) {
        for page in &mut self.pages {
            let count = page.cached.iter().take_while(|(moment, _)| *moment < began).count();
            if let Some((_, image)) = page.cached.drain(..count).next_back() {
                page.durable = image;
            }
        }
    }

    /// A flush has failed: some of what had arrived is gone. Returns the pages.
    pub(super) fn drop_cached(&mut self, rng: &mut Rng) -> Vec<usize> {
        let mut lost = Vec::new();
        for (number, page) in self.pages.iter_mut().enumerate() {
            if !page.cached.is_empty() && rng.chance(500_000) {
                page.cached.clear();
                page.current = page.durable;
                lost.push(number);
            }
        }
        lost
    }

    /// The content of each page after a power failure: the durable one or any later one, including
    /// those of work in flight.
    pub(super) fn cut(&self, works: &[&StoreWork], rng: &mut Rng) -> Vec<Page> {
        let mut left: Vec<Page> = self.pages.iter().map(|page| self.choose(page, rng)).collect();
        for work in works {
            for (page, image) in work.images() {
                if rng.chance(300_000) {
                    left[page] = image;
                }
            }
        }
        left
    }

    fn choose(&self, page: &StoredPage, rng: &mut Rng) -> Page {
        let place = rng.below(page.cached.len() as u64 + 1) as usize;
        place.checked_sub(1).map_or(page.durable, |place| page.cached[place].1)
    }

    /// The contents after only the server is killed: all completed work, and some of the work in
    /// flight.
    pub(super) fn kill(&self, works: &[&StoreWork], rng: &mut Rng) -> Vec<Page> {
        let mut left: Vec<Page> = self.pages.iter().map(|page| page.current).collect();
        for work in works {
            for (page, image) in work.images() {
                if rng.chance(500_000) {
                    left[page] = image;
                }
            }
        }
        left
    }

    /// The store is as it was left.
    pub(super) fn restart(&mut self, left: &[Page]) {
        for (page, image) in self.pages.iter_mut().zip(left) {
            *page = StoredPage { current: *image, durable: *image, cached: Vec::new() };
        }
    }
}

impl StoreWork {
    /// The pages that it writes, and what.
    pub(super) fn images(&self) -> Vec<(usize, Page)> {
        match &self.kind {
            WorkKind::Request(request, pages) => {
                (request.first as usize..).zip(pages.iter().copied()).collect()
            }
            WorkKind::Zero(range, number) => {
                let (first, end) = pages_of(range);
                (first..end).map(|page| (page, [*number; PAGE_CELLS])).collect()
            }
        }
    }

    /// Its pages, from the first to before the second, and whether it changes them.
    pub(super) fn reach(&self) -> (usize, usize, bool) {
        match &self.kind {
            WorkKind::Request(request, _) => {
                let first = request.first as usize;
                let changes = request.kind.is_data_write();
                (first, first + request.pages as usize, changes)
            }
            WorkKind::Zero(range, _) => {
                let (first, end) = pages_of(range);
                (first, end, true)
            }
        }
    }
}

/// The pages of a range that a device zeroes.
fn pages_of(range: &ZeroRange) -> (usize, usize) {
    let page = CELL * PAGE_CELLS as u64;
    ((range.offset / page) as usize, (range.offset + range.len).div_ceil(page) as usize)
}
