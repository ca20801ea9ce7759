//! The bookkeeping of 2.6.7: two windows, a run length, its average and a speed memory.
//!
//! Source:     Linux 2.6.7, mm/readahead.c.
//! Behaviour:  Every page is either the next of a run or breaks it; broken runs are averaged. Pages
//!             that touch the current window add 2 to the size of the next one, others take 2 off,
//!             and at zero readahead turns off. Misses in that state count pages until a limit's
//!             worth came in sequence.
//! Differs:    nothing.
//! Not for:    separate use; `linux_2_6_7` and `request_size` decide when a window moves.
//!
//! ```text
//!      current window           ahead window (already submitted)
//!   [start ......... +size)[start ............ +size)
//!      ^ 1st page: the ahead window becomes current, nothing is submitted
//!        ^ 2nd page: the next ahead window is submitted, if the run looks longer than the limit
//! ```
//!
//! Sizes are unsigned and wrap, as in the kernel: the size of the next window may fall below zero
//! in [`miss`](Serial::miss), where minus one is [`OFF`] itself and anything less turns into it at
//! the next page.

use super::AddressSpace;
use super::before_ondemand::{Limit, Window, issue};
use crate::units::PageIndex;

/// The size of the next window while readahead is off: minus one.
pub(super) const OFF: u64 = u64::MAX;

/// The size that a miss does not undercut, 16 KiB.
const MISS_MIN: u64 = 4;

/// The state of one open file.
#[derive(Debug)]
pub(super) struct Serial {
    pub(super) limit: Limit,
    /// The last range that was read for the reader's position.
    pub(super) current: Window,
    /// Submitted and not yet reached; a start of 0 means that there is none.
    pub(super) ahead: Window,
    /// The size wanted for the next window: 0 before the first use, or [`OFF`].
    pub(super) next: u64,
    /// The last page seen, by [`miss`](Self::miss) while off.
    pub(super) prev: PageIndex,
    /// The length of the present run of consecutive pages.
    pub(super) run: u64,
    /// The smoothed length of past runs.
    pub(super) average: u64,
}

impl Serial {
    /// A fresh descriptor under a limit of `max` pages.
    pub(super) fn new(max: u64) -> Self {
        Self {
            limit: Limit::new(max),
            current: Window::NONE,
            ahead: Window::NONE,
            next: 0,
            prev: 0,
            run: 0,
            average: max / 2,
        }
    }

    /// The first window of the descriptor: `size` pages are wanted from `page` on.
    pub(super) fn begin(&mut self, page: PageIndex, size: u64) {
        self.next = size;
        self.prev = page;
        self.run += 1;
    }

    /// Counts `page` into the run or ends the run, and moves the speed memory.
    pub(super) fn count(&mut self, page: PageIndex) {
        if page == self.prev.wrapping_add(1) {
            if self.run <= 2 * self.limit.pages {
                self.run += 1;
            }
        } else {
            let up = u64::from(self.average < self.run);
            self.average = (self.average + up + self.run) / 2;
            self.run = 1;
        }
        self.prev = page;
        self.next = if self.current.touches(page) {
            self.next.wrapping_add(2)
        } else {
            self.next.wrapping_sub(2)
        };
    }

    /// Limits the speed memory; returns whether anything is left of it.
    pub(super) fn clamp(&mut self) -> bool {
        if self.next.cast_signed() > self.limit.pages.cast_signed() {
            self.next = self.limit.pages;
        }
        let left = self.next.cast_signed() > 0;
        if !left {
            self.turn_off();
        }
        left
    }

    /// The size of a new window: the average of the runs. What the speed memory held is lost.
    pub(super) fn recall(&mut self) -> u64 {
        self.next = self.average.min(self.limit.pages);
        self.next
    }

    /// Submits the next ahead window if there is none and the run looks longer than the limit.
    pub(super) fn read_further(&mut self, wanted: u64, pages: &mut dyn AddressSpace) {
        if self.ahead.start == 0 && self.expected_run() > self.limit.pages {
            self.ahead = Window { start: self.current.end(), size: self.next };
            let added = issue(self.ahead, pages);
            self.check(added, wanted);
        }
    }

    /// The reader enters the ahead window.
    pub(super) fn shift(&mut self) {
        self.current = self.ahead;
        self.ahead = Window::NONE;
    }

    /// Submits the current window, checking the outcome as [`check`](Self::check) does.
    pub(super) fn read_current(&mut self, wanted: u64, pages: &mut dyn AddressSpace) {
        let added = issue(self.current, pages);
        self.check(added, wanted);
    }

    /// `page` was absent in spite of everything.
    pub(super) fn miss(&mut self, page: PageIndex) {
        if self.next == OFF {
            self.miss_while_off(page);
            return;
        }
        self.next = self.next.wrapping_sub(3);
        if self.next < MISS_MIN {
            self.next = MISS_MIN;
        }
    }

    /// Whether `page` tells nothing new, the last page once more, or readahead is off.
    pub(super) fn ignores(&self, page: PageIndex) -> bool {
        (page == self.prev && self.next != 0) || self.next == OFF || self.limit.pages == 0
    }

    /// A range of which nothing had to be read makes the next one smaller than the `wanted` size
    /// before this page. Everything was there, or the device is congested.
    fn check(&mut self, added: u64, wanted: u64) {
        if added > 0 {
            return;
        }
        if wanted > 1 {
            self.next = wanted - 1;
            if self.ahead.size != 0 {
                self.ahead.size = self.next;
            }
        } else {
            self.turn_off();
        }
    }

    /// While off, the size of the current window counts misses in sequence. A limit's worth of them
    /// resumes readahead; the average of the runs does not change.
    fn miss_while_off(&mut self, page: PageIndex) {
        let max = self.limit.pages;
        if page == self.prev.wrapping_add(1) {
            self.current.size += 1;
            if self.current.size >= max {
                self.current = Window { start: page.wrapping_sub(max), size: max };
                self.next = max;
                self.ahead = Window::NONE;
            }
        } else {
            self.current.size = self.current.size.saturating_sub(1);
        }
        self.prev = page;
    }

    fn turn_off(&mut self) {
        self.next = OFF;
        self.current.size = 0;
    }

    /// How long the present run may become. The value lives for one test; the average only moves
    /// when a run ends.
    fn expected_run(&self) -> u64 {
        if self.run > self.average { (self.run + self.average).div_ceil(2) } else { self.average }
    }
}
