//! On-demand readahead: called only on a miss or a marked folio.
//!
//! Source:     Linux 6.12 and 6.18, mm/readahead.c and mm/filemap.c.
//! Behaviour:  A miss opens a window if it is at page 0, larger than the limit, next to the end of
//!             the last read, or after more cached pages than it requests; else exactly the request
//!             is read. The tail of a window is marked; a read of the mark submits the next, larger
//!             window in advance.
//! Differs:    No cgroup congestion and no folios under writeback. `skew=off` scans the cache as
//!             the kernel's authors meant it, without the cursor error of the large folios.
//! Not for:    Many streams through one descriptor, backward reads, strides above one page.
//!
//! ```text
//!    start                      start+size-tail              start+size
//!      [  part that was asked for  )[M  tail, read in advance  )
//!                                    ^ a read of the marked folio submits the next window
//! ```
//!
//! The marker lives on the folio and not in the state: it survives jumps and every descriptor of
//! the file sees it. One kernel's file describes how it differs in a [`Version`].

use scan::{Cursor, next_miss, prev_miss};

use super::{
    Access, AddressSpace, Fault, Folio, Found, Parameter, Pattern, Readahead, Window, first_window,
    range_read,
};
use crate::policy::Values;
use crate::units::{PAGE_SIZE, PageIndex};

mod fault;
mod scan;
#[cfg(test)]
mod tests;

/// What can be set, in every version.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "max",
        default: 32,
        low: 0,
        high: 1 << 20,
        summary: "pages of the largest window (read_ahead_kb / 4)",
    },
    Parameter {
        name: "io",
        default: 320,
        low: 1,
        high: 1 << 20,
        summary: "pages of the device's largest request (max_sectors_kb / 4)",
    },
    Parameter {
        name: "folios",
        default: 0,
        low: 0,
        high: 1,
        summary: "whether the file system caches in large folios",
    },
    Parameter {
        name: "skew",
        default: 1,
        low: 0,
        high: 1,
        summary: "whether scans of the cache lose their place inside a large folio",
    },
];

/// How one kernel's rule differs from another's.
#[derive(Debug)]
pub(super) struct Version {
    /// The folio order of a window that a miss opens.
    pub(super) miss_order: u32,
    /// Whose order grows when a marked folio is reached.
    pub(super) grows: Grows,
    /// Whether a window that is read in advance ends on a multiple of its folios.
    pub(super) aligns_end: bool,
    /// The pages below which a window is read as single pages.
    pub(super) folio_window_min: u64,
    /// The rest that is read when large folios meet a cached page.
    pub(super) remainder: Remainder,
    /// Whether a fault in an executable mapping reads forward instead of around.
    pub(super) executable_forward: bool,
}

/// The order from which the next window's folios grow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Grows {
    /// The order of the folio that carried the marker.
    Folio,
    /// The order that the last window was read with.
    Window,
}

/// The rest that is read after a cached page that blocked a large folio.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remainder {
    /// The rest of the window.
    Rest,
    /// A whole window's length, past the end of the window.
    Whole,
}

/// The readahead state of one open file description.
#[derive(Debug)]
pub(super) struct Ondemand {
    version: &'static Version,
    /// The limit that the device gives a new descriptor.
    bdi_pages: u64,
    io_pages: u64,
    /// The mapping's largest folio order, zero without large folios.
    order_max: u32,
    cursor: Cursor,

    /// The descriptor's own limit.
    ra_pages: u64,
    random: bool,
    /// The most recent window.
    window: Window,
    /// The folio order that the last window was read with.
    order: u32,
    /// The byte behind the last one of the previous read.
    prev_pos: u64,
    mmap_miss: u64,
}

impl Ondemand {
    /// The state of a freshly opened file.
    pub(super) fn new(version: &'static Version, values: &Values<'_>) -> Self {
        Self {
            version,
            bdi_pages: values.of("max"),
            io_pages: values.of("io"),
            order_max: if values.on("folios") { FOLIO_ORDER_MAX } else { 0 },
            cursor: if values.on("skew") { Cursor::Skewed } else { Cursor::Exact },
            ra_pages: values.of("max"),
            random: false,
            window: Window::default(),
            order: 0,
            prev_pos: u64::MAX,
            mmap_miss: 0,
        }
    }

    /// A miss at `index`, `requested` pages before the end of the request.
    fn sync_ra(&mut self, index: PageIndex, requested: u64, pages: &mut dyn AddressSpace) {
        if self.ra_pages == 0 {
            return self.force_ra(index, 1, pages);
        }
        if self.random {
            return self.force_ra(index, requested, pages);
        }
        let max = self.window_max(requested);
        let distance = index.wrapping_sub(self.prev_pos / PAGE_SIZE);
        self.window = if index == 0 || requested > max || distance <= 1 {
            let size = first_window(requested, max);
            let tail = if size > requested { size - requested } else { size / 2 };
            Window { start: index, size, tail }
        } else {
            let miss = prev_miss(index - 1, max, self.cursor, pages);
            let history = miss.map_or(index, |miss| index - miss - 1);
            if history <= requested {
                return range(index, requested, 0, pages);
            }
            // A run from the start of the file counts twice: the whole file is being read.
            let history = if miss.is_none() { 2 * history } else { history };
            Window { start: index, size: max.min(history + requested), tail: 1 }
        };
        self.order = self.version.miss_order;
        self.submit(index, pages);
    }

    /// The marked `folio` is reached at `index`, `requested` pages before the end of the request.
    fn async_ra(
        &mut self,
        index: PageIndex,
        folio: Folio,
        requested: u64,
        pages: &mut dyn AddressSpace,
    ) {
        if self.ra_pages == 0 {
            return;
        }
        pages.clear_marker(index);
        let max = self.window_max(requested);
        let Window { start, size, tail } = self.window;
        let marked = start + size - tail;
        let (start, size) = if index == marked - marked % folio.pages() {
            (start + size, size.max(grown(size, max)))
        } else {
            let Some(miss) = next_miss(index + 1, max, self.cursor, pages) else { return };
            (miss, grown(miss - index + requested, max))
        };
        self.order = 2 + match self.version.grows {
            Grows::Folio => u32::from(folio.order),
            Grows::Window => self.order,
        };
        let size = if self.version.aligns_end {
            aligned_size(start, size, self.order.min(max.trailing_zeros()))
        } else {
            size
        };
        self.window = Window { start, size, tail: size };
        self.submit(start, pages);
    }

    /// `count` pages from `first` on without a window, as far as one call may read.
    fn force_ra(&self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        let end = first.saturating_add(count.min(self.io_pages.max(self.ra_pages)));
        let mut at = first;
        while at < end {
            let length = FORCED_CHUNK.min(end - at);
            range(at, length, 0, pages);
            at += length;
        }
    }

    /// Reads the window's size and tail from `start` on, in folios of at most the state's order.
    ///
    /// ```text
    ///   order 3     p: alignment and the end of the window make smaller folios of both ends
    ///   [1][ 2 ][   4   ][       8       ][       8       ][   4   ][ 2 ]
    ///                                     ^ the folio around start+size-tail carries the marker
    /// ```
    fn submit(&mut self, start: PageIndex, pages: &mut dyn AddressSpace) {
        let Window { size, tail, .. } = self.window;
        if self.order_max == 0 {
            self.order = 0;
        }
        if self.order_max == 0 || size < self.version.folio_window_min {
            return range(start, size, tail, pages);
        }
        self.order = self.order.min(self.order_max).min(size.ilog2());
        let end = pages.file_pages().min(start + size);
        let mark = start + size - tail;
        if let Some(stop) = add_folios(start, end, mark, self.order, pages) {
            let rest = match self.version.remainder {
                Remainder::Rest => start + size - stop,
                Remainder::Whole => size,
            };
            range(stop, rest, tail, pages);
        }
    }

    /// The largest window for this request: a request beyond the limit may be as large as the
    /// device's largest.
    fn window_max(&self, requested: u64) -> u64 {
        if requested > self.ra_pages && self.io_pages > self.ra_pages {
            requested.min(self.io_pages)
        } else {
            self.ra_pages
        }
    }
}

impl Readahead for Ondemand {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        match access.found {
            Found::Absent => self.sync_ra(access.page, access.remaining, pages),
            Found::Marked => {
                let folio = pages.folio(access.page).expect("a marked page is present");
                let requested = access.page - folio.first + access.remaining;
                self.async_ra(folio.first, folio, requested, pages);
            }
            Found::Present => {}
        }
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        self.fault(fault, pages);
    }

    fn on_will_need(&mut self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        self.force_ra(first, count, pages);
    }

    fn on_pattern(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Normal => (self.ra_pages, self.random) = (self.bdi_pages, false),
            Pattern::Sequential => (self.ra_pages, self.random) = (2 * self.bdi_pages, false),
            Pattern::Random => self.random = true,
        }
    }

    fn on_read_end(&mut self, position: u64) {
        self.prev_pos = position;
    }

    fn window(&self) -> Option<Window> {
        Some(self.window)
    }
}

/// The size of the window after one of `size`.
fn grown(size: u64, max: u64) -> u64 {
    if size < max / 16 {
        4 * size
    } else if size <= max / 2 {
        2 * size
    } else {
        max
    }
}

/// The size of a window that ends on a multiple of 2^`order` pages, if that leaves any of it.
fn aligned_size(start: PageIndex, size: u64, order: u32) -> u64 {
    let end = (start + size) >> order << order;
    if end > start { end - start } else { size }
}

/// A range read: the part before the end of the file as single pages. A tail that is longer than
/// this part leaves no marker.
fn range(first: PageIndex, count: u64, tail: u64, pages: &mut dyn AddressSpace) {
    let count = count.min(pages.file_pages().saturating_sub(first));
    range_read(first, count, tail, pages);
}

/// Fills `[start, end)` with aligned folios of at most `order`; returns where a cached page or
/// the lack of memory ended it.
fn add_folios(
    start: PageIndex,
    end: PageIndex,
    mark: PageIndex,
    order: u32,
    pages: &mut dyn AddressSpace,
) -> Option<PageIndex> {
    let mut at = start;
    while at < end {
        let order = order.min(at.trailing_zeros()).min((end - at).ilog2());
        let after = at + (1 << order);
        let marked = (at..after).contains(&mark);
        let order = u8::try_from(order).expect("an order is less than 64");
        if (at..after).any(|page| pages.contains(page)) || !pages.add(at, order, marked) {
            break;
        }
        at = after;
    }
    pages.submit();
    (at < end).then_some(at)
}

/// The largest folio of a mapping with large folios: 2 MiB, as far as x86-64 maps at once.
const FOLIO_ORDER_MAX: u32 = 9;

/// Pages that a forced read submits at once: 2 MiB.
const FORCED_CHUNK: u64 = 512;
