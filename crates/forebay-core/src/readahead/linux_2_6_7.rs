//! Linux 2.6.7: windows sized by the average length of past runs, one page at a time.
//!
//! Source:     Linux 2.6.7, mm/readahead.c and mm/filemap.c.
//! Behaviour:  A page outside the current window opens a new one of the average run's length; the
//!             second page of a window submits the next, once the run looks longer than the limit.
//!             The size of a request is never known. Faults read a limit of pages from there on.
//! Differs:    see `before_ondemand`.
//! Not for:    random requests of more than 32 pages, which read one to two windows too much; a
//!             sequential reader after random reads, which is left with single pages.
//!
//! ```text
//!   outside, elsewhere        the 1st page of ahead       inside
//!   [current)    o            [current)[o ahead )         [ o current )[ ahead: next )
//!                [new: avg)            [ current )             ^ submits it if there is none
//! ```
//!
//! Page 0 is also the mark of "no ahead window": a return to it shifts into a window of nothing.

use alloc::boxed::Box;

use super::before_ondemand::{Around, Faults, MAX, Window, issue};
use super::serial::Serial;
use super::{Access, AddressSpace, Fault, MapAdvice, Pattern, Policy, Readahead};
use crate::units::PageIndex;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-2.6.7",
    summary: "windows sized by the average run of consecutive pages",
    source: "Linux 2.6.7",
    parameters: &[MAX],
    build: |values| Box::new(Linux267::new(values.of("max"))),
};

#[derive(Debug)]
struct Linux267 {
    state: Serial,
    faults: Faults,
}

impl Linux267 {
    fn new(max: u64) -> Self {
        Self { state: Serial::new(max), faults: Faults::default() }
    }

    fn meet(&mut self, page: PageIndex, pages: &mut dyn AddressSpace) {
        self.step(page, pages);
        if !pages.contains(page) {
            self.state.miss(page);
        }
    }

    fn step(&mut self, page: PageIndex, pages: &mut dyn AddressSpace) {
        let state = &mut self.state;
        if state.ignores(page) {
            return;
        }
        if state.next == 0 {
            state.begin(page, state.limit.pages / 2);
            state.current = Window { start: page, size: state.next };
            state.ahead = Window::NONE;
            issue(state.current, pages);
            return;
        }
        let wanted = state.next;
        state.count(page);
        if !state.clamp() {
            return;
        }
        if state.current.contains(page) {
            state.read_further(wanted, pages);
        } else if page == state.ahead.start {
            state.shift();
        } else {
            state.current = Window { start: page, size: state.recall() };
            state.ahead = Window::NONE;
            state.read_current(wanted, pages);
        }
    }
}

impl Readahead for Linux267 {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        self.meet(access.page, pages);
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        if fault.mapping.advice == MapAdvice::Sequential {
            self.meet(fault.page, pages);
        }
        self.faults.on_fault(fault, Around::Ahead, &self.state.limit, pages);
    }

    fn on_no_reuse(&mut self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        // This kernel takes it for POSIX_FADV_WILLNEED.
        self.on_will_need(first, count, pages);
    }

    fn on_pattern(&mut self, pattern: Pattern) {
        self.state.limit.advise(pattern);
    }

    fn sees_hits(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
