//! What the kernels before on-demand readahead share: limit, range read and fault path.
//!
//! Source:     Linux 2.6.7 and 2.6.21.5, mm/readahead.c, mm/fadvise.c, mm/filemap.c (the functions
//!             `do_page_cache_readahead` and `filemap_nopage`).
//! Behaviour:  Hints and errors change only the descriptor's limit. A range read skips pages that
//!             are present and does nothing while the device is congested. A fault counts hits and
//!             misses and reads a whole limit of pages, until misses lead by a hundred.
//! Differs:    two reads of one descriptor at a time share one state here; the kernels give each a
//!             private copy and the last to finish wins.
//! Not for:    kernels from 2.6.23 on, which fault and hint differently.

use super::{AddressSpace, Fault, MapAdvice, Parameter, Pattern, range_read};
use crate::units::PageIndex;

/// The limit as a parameter.
pub(super) const MAX: Parameter = Parameter {
    name: "max",
    default: 32,
    low: 0,
    high: 65_536,
    summary: "pages of the largest window; 0 disables",
};

/// How many more misses than hits a mapped file may have before its faults stop reading around.
const LOTS_OF_MISSES: u64 = 100;

/// The descriptor's limit in pages (`ra_pages`). Zero turns readahead off.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) pages: u64,
    device: u64,
}

impl Limit {
    /// A fresh descriptor's limit is the device's.
    pub(super) fn new(device: u64) -> Self {
        Self { pages: device, device }
    }

    /// Follows `posix_fadvise`.
    pub(super) fn advise(&mut self, pattern: Pattern) {
        self.pages = match pattern {
            Pattern::Normal => self.device,
            Pattern::Sequential => 2 * self.device,
            Pattern::Random => 0,
        };
    }

    /// Follows a read error, in 2.6.21.
    pub(super) fn shrink(&mut self) {
        self.pages /= 4;
    }
}

/// A run of pages. Ends wrap around as the kernels' unsigned sums do: a window that "resumed" near
/// page 0 may start before it, at a number so large that no page lies behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: PageIndex,
    pub(super) size: u64,
}

impl Window {
    /// No pages, from page 0.
    pub(super) const NONE: Self = Self { start: 0, size: 0 };

    /// The page behind the last one.
    pub(super) fn end(self) -> PageIndex {
        self.start.wrapping_add(self.size)
    }

    /// Whether `page` is one of the pages.
    pub(super) fn contains(self, page: PageIndex) -> bool {
        self.start <= page && page < self.end()
    }

    /// Whether `page` is one of the pages or the one right behind them.
    pub(super) fn touches(self, page: PageIndex) -> bool {
        self.start <= page && page <= self.end()
    }
}

/// Reads the absent pages of `window` unless the device is congested. Returns the number added.
pub(super) fn issue(window: Window, pages: &mut dyn AddressSpace) -> u64 {
    if pages.congested() { 0 } else { range_read(window.start, window.size, 0, pages) }
}

/// Where the range that a missing fault reads lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    /// From the fault on. 2.6.7 computes a centred start and then does not use it.
    Ahead,
    /// Half before the fault, not before page 0.
    Centred,
}

/// The counters of a mapped file's faults. The range is clipped to the file, not to the mapping,
/// and leaves no trace in the windows of the read path.
///
/// ```text
///   Ahead         o [o ........... o+limit)        limit: ra_pages, at most half of the pages
///   Centred   [o-limit/2 ... o ... o+limit/2)             that memory could give
/// ```
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Faults {
    /// Counts a fault and reads around it if its mapping is unadvised. What `MADV_SEQUENTIAL` adds
    /// to the windows is the policy's business, before this.
    pub(super) fn on_fault(
        &mut self,
        fault: &Fault,
        around: Around,
        limit: &Limit,
        pages: &mut dyn AddressSpace,
    ) {
        match fault.mapping.advice {
            // The page is read singly and found at the second lookup, which counts as a hit.
            MapAdvice::Sequential | MapAdvice::Random => self.hits += 1,
            MapAdvice::Normal | MapAdvice::Huge => {
                self.read_around(fault.page, around, limit.pages, pages);
            }
        }
    }

    fn read_around(
        &mut self,
        page: PageIndex,
        around: Around,
        limit: u64,
        pages: &mut dyn AddressSpace,
    ) {
        if pages.contains(page) {
            self.hits += 1;
            return;
        }
        self.misses += 1;
        if self.misses > self.hits + LOTS_OF_MISSES {
            // Found at the second lookup here too, so the gap never closes without other hits.
            self.hits += 1;
            return;
        }
        let size = limit.min(pages.available_pages() / 2);
        let start = match around {
            Around::Ahead => page,
            Around::Centred => page.saturating_sub(size / 2),
        };
        if size > 0 {
            issue(Window { start, size }, pages);
        }
    }
}
