//! Linux 2.6.21: the request, then doubling; called once per request.
//!
//! Source:     Linux 2.6.21.5, mm/readahead.c and mm/filemap.c.
//! Behaviour:  A request that does not follow the previous one is read exactly, up to the limit.
//!             The first that follows reads 2 or 4 times as much, later windows double, and the
//!             next one is submitted on the first page of the current one. A file that keeps being
//!             found in the cache is skipped until a page of it is missing.
//! Differs:    see `before_ondemand`.
//! Not for:    random requests larger than the limit, which read up to two windows too much.
//!
//! ```text
//!   sequential                                            random
//!   [current )[ahead: 2 * current )                       [ the request )   no windows
//!             ^ reached: [current          )[ahead ...    ^ at most the limit, then called again
//! ```
//!
//! The rule names the page at which it is called again; this is valid for one request.

use alloc::boxed::Box;

use super::before_ondemand::{Around, Faults, Limit, MAX, Window};
use super::{
    Access, AddressSpace, Fault, MapAdvice, Pattern, Policy, Readahead, first_window, range_read,
};
use crate::units::PageIndex;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-2.6.21",
    summary: "exactly the request; windows double for sequential ones",
    source: "Linux 2.6.21",
    parameters: &[MAX],
    build: |values| Box::new(Linux2621::new(values.of("max"))),
};

/// The size that a lost page does not shrink a window under, 16 KiB.
const SHRUNK_MIN: u64 = 4;

/// Pages found cached in a row that turn readahead off, 1 MiB.
const CACHE_HITS_MAX: u64 = 256;

#[derive(Debug)]
struct Linux2621 {
    limit: Limit,
    /// A size of 0 means that the last request was not sequential.
    current: Window,
    /// A start of 0 means that there is none, and the size is then the page where it ended.
    ahead: Window,
    /// The last page accounted for, minus one before the first request.
    prev: PageIndex,
    /// A page was missing in spite of the windows: the next one shrinks.
    missed: bool,
    /// The file is taken to be in the cache.
    cached: bool,
    /// Pages found cached in a row, in whole windows.
    hits: u64,
    /// The page of the current request at which the rule is called again.
    call_at: PageIndex,
    faults: Faults,
}

/// Whether a window may wait for a congested device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// The reader needs it.
    Yes,
    /// It is read in advance and can be dropped.
    No,
}

impl Linux2621 {
    fn new(max: u64) -> Self {
        Self {
            limit: Limit::new(max),
            current: Window::NONE,
            ahead: Window::NONE,
            prev: PageIndex::MAX,
            missed: false,
            cached: false,
            hits: 0,
            call_at: 0,
            faults: Faults::default(),
        }
    }

    /// `request` pages from `page` on are wanted.
    fn step(&mut self, page: PageIndex, request: u64, pages: &mut dyn AddressSpace) {
        let (page, request) = self.without_rest(page, request);
        let sequential = page == self.prev.wrapping_add(1);
        self.prev = page;
        let size = request.min(self.limit.pages);
        if size == 0 || self.cached {
            return;
        }
        self.prev += size - 1;
        if !sequential {
            self.turn_off();
            self.get(Window { start: page, size }, Block::Yes, pages);
        } else if self.current.size == 0 {
            self.begin(page, size, request, pages);
        } else {
            self.proceed(pages);
        }
    }

    /// A request that begins in the page where the last one ended is treated as beginning at the
    /// next page.
    fn without_rest(&self, page: PageIndex, request: u64) -> (PageIndex, u64) {
        if page != self.prev {
            return (page, request);
        }
        let request = request - 1;
        if request > 0 { (page + 1, request) } else { (page, request) }
    }

    /// The first sequential request. One as large as the limit gets the window behind it at once.
    fn begin(&mut self, page: PageIndex, size: u64, request: u64, pages: &mut dyn AddressSpace) {
        self.current = Window { start: page, size: first_window(size, self.limit.pages) };
        if self.get(self.current, Block::Yes, pages) && request >= self.limit.pages {
            self.read_further(Block::Yes, pages);
        }
    }

    /// A sequential request with windows: keeps one ahead and moves on when the reader enters it.
    fn proceed(&mut self, pages: &mut dyn AddressSpace) {
        let ready = self.ahead.start != 0 || self.read_further(Block::No, pages);
        if ready && self.prev < self.ahead.start {
            return;
        }
        if ready {
            self.current = self.ahead;
            self.read_further(Block::No, pages);
        }
        self.prev = self.prev.min(self.ahead.end().wrapping_sub(1));
    }

    /// Submits the window after the current one; returns whether it is in place.
    fn read_further(&mut self, block: Block, pages: &mut dyn AddressSpace) -> bool {
        let size = self.next_size();
        self.ahead = Window { start: self.current.end(), size };
        let reached = self.prev >= self.ahead.start;
        let ready = self.get(self.ahead, if reached { Block::Yes } else { block }, pages);
        if !ready && block == Block::No {
            self.drop_ahead();
        }
        ready
    }

    /// Reads a window; returns whether it is being read or was cached. Too many cached pages turn
    /// readahead off.
    fn get(&mut self, window: Window, block: Block, pages: &mut dyn AddressSpace) -> bool {
        if block == Block::No && pages.congested() {
            return false;
        }
        if range_read(window.start, window.size, 0, pages) > 0 {
            self.hits = 0;
            return true;
        }
        self.hits += window.size;
        if self.hits < CACHE_HITS_MAX {
            return true;
        }
        self.turn_off();
        self.cached = true;
        false
    }

    fn turn_off(&mut self) {
        self.current = Window::NONE;
        self.missed = false;
        self.cached = false;
        self.drop_ahead();
    }

    /// Forgets the ahead window but for its end.
    fn drop_ahead(&mut self) {
        self.ahead = Window { start: 0, size: self.ahead.end() };
    }

    /// A page that was to be there is not: it fell victim to reclaim.
    fn miss(&mut self) {
        self.missed = true;
        self.cached = false;
        self.hits = 0;
    }

    /// The window after the current one. The difference wraps as in the kernel: after a page is
    /// lost under a limit that has grown since, a window of one page becomes the limit.
    fn next_size(&mut self) -> u64 {
        let max = self.limit.pages;
        let size = self.current.size;
        let next = if core::mem::take(&mut self.missed) {
            size.wrapping_sub(2).max(SHRUNK_MIN)
        } else if size < max / 16 {
            4 * size
        } else {
            2 * size
        };
        next.min(max)
    }
}

impl Readahead for Linux2621 {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        if access.first || access.page == self.call_at {
            self.step(access.page, access.remaining, pages);
            self.call_at = self.prev.wrapping_add(1);
        }
        if !pages.contains(access.page) {
            self.miss();
        }
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        if fault.mapping.advice == MapAdvice::Sequential {
            self.step(fault.page, 1, pages);
            if !pages.contains(fault.page) {
                self.miss();
            }
        }
        self.faults.on_fault(fault, Around::Centred, &self.limit, pages);
    }

    fn on_pattern(&mut self, pattern: Pattern) {
        self.limit.advise(pattern);
    }

    fn on_error(&mut self) {
        self.limit.shrink();
    }

    fn sees_hits(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
