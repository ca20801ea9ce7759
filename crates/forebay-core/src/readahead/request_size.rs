//! The request-size proposal: 2.6.7 with knowledge of the request size, and with a previous window.
//!
//! Source:     J. Seol and K. Lee, "Linux 2.6.7 readahead performance improvement using read
//!             request size", sections 3.1 to 3.3 and figure 1; open questions are read so that
//!             their figure 5 results.
//! Behaviour:  A new window of a request of several pages is the request; the average is declared
//!             behind it and read when the reader gets there. A jump saves the windows it leaves, a
//!             jump back exchanges them. First window of 4 pages, limit of 64.
//! Differs:    no part is fixed: each of the three changes has a switch, and without all of them
//!             the rule is `linux-2.6.7` but for its page 0. "Large" is the rest of a request, in
//!             pages touched. A first window is not larger than the limit.
//! Not for:    random reads of one page, which lose slightly more than under 2.6.7: the average
//!             starts at 32, so that the second window has 16 pages.
//!
//! ```text
//!   request of n > 1                        jump to o and back to p
//!   [o ... o+n)[declared: avg )             current [p......)     previous  -
//!   submitted   nothing yet                 current [o...)        previous [p......)
//!              ^ reached: read              current [p......)     previous [o...)
//! ```
//!
//! `request-size-literal` is figure 1 as printed: a declared window counts as read, so that a
//! reader that reaches it gets its pages one at a time. The authors measured random reads only,
//! which do not show it.

use alloc::boxed::Box;
use core::mem;

use super::before_ondemand::{Around, Faults, Window, issue};
use super::serial::Serial;
use super::{Access, AddressSpace, Fault, MapAdvice, Parameter, Pattern, Policy, Readahead};
use crate::policy::Values;
use crate::units::PageIndex;

/// The table's line of the recommended reading.
pub(super) const POLICY: Policy = Policy {
    name: "request-size",
    summary: "2.6.7 with windows sized by the request and a previous window",
    source: "Seol and Lee, section 3",
    parameters: PARAMETERS,
    build: |values| Box::new(RequestSize::new(Rule::of(values, Declared::Read))),
};

/// The table's line of the literal reading.
pub(super) const LITERAL: Policy = Policy {
    name: "request-size-literal",
    summary: "the request-size proposal as printed: declared windows are never read",
    source: "Seol and Lee, figure 1",
    parameters: PARAMETERS,
    build: |values| Box::new(RequestSize::new(Rule::of(values, Declared::Forgotten))),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "max",
        default: 64,
        low: 0,
        high: 65_536,
        summary: "pages of the largest window beyond the request; 0 disables",
    },
    Parameter {
        name: "first",
        default: 4,
        low: 1,
        high: 65_536,
        summary: "pages of a descriptor's first window",
    },
    Parameter {
        name: "request",
        default: 1,
        low: 0,
        high: 1,
        summary: "whether the size of the request is known",
    },
    Parameter {
        name: "previous",
        default: 1,
        low: 0,
        high: 1,
        summary: "whether the window before a jump is kept",
    },
];

/// What distinguishes the variants.
#[derive(Debug)]
struct Rule {
    max: u64,
    first: u64,
    request: bool,
    previous: bool,
    declared: Declared,
}

impl Rule {
    fn of(values: &Values<'_>, declared: Declared) -> Self {
        Self {
            max: values.of("max"),
            first: values.of("first"),
            request: values.on("request"),
            previous: values.on("previous"),
            declared,
        }
    }
}

/// What happens to the window after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    /// It is read when the reader reaches it.
    Read,
    /// It counts as an ahead window that was read.
    Forgotten,
}

#[derive(Debug)]
struct RequestSize {
    rule: Rule,
    state: Serial,
    /// Whether the ahead window is declared but not yet read.
    pending: bool,
    previous: Saved,
    faults: Faults,
}

/// The windows that a jump left.
#[derive(Debug)]
struct Saved {
    current: Window,
    ahead: Window,
    pending: bool,
}

impl RequestSize {
    fn new(rule: Rule) -> Self {
        Self {
            state: Serial::new(rule.max),
            rule,
            pending: false,
            previous: Saved { current: Window::NONE, ahead: Window::NONE, pending: false },
            faults: Faults::default(),
        }
    }

    fn meet(&mut self, page: PageIndex, request: u64, pages: &mut dyn AddressSpace) {
        self.step(page, request, pages);
        if !pages.contains(page) {
            self.state.miss(page);
            // A miss that resumes readahead drops the ahead window, read or only declared.
            self.pending &= self.state.ahead.start != 0;
        }
    }

    /// `request` is the rest of the request from `page` on, 1 if unknown.
    fn step(&mut self, page: PageIndex, request: u64, pages: &mut dyn AddressSpace) {
        if self.state.ignores(page) {
            return;
        }
        if self.state.next == 0 {
            self.state.begin(page, self.rule.first.min(self.state.limit.pages));
            self.open(page, self.state.next, request);
            issue(self.state.current, pages);
            return;
        }
        let wanted = self.state.next;
        if !self.return_to(page) {
            self.state.count(page);
        }
        if !self.state.clamp() {
            return;
        }
        if self.state.current.contains(page) {
            self.state.read_further(wanted, pages);
        } else if page == self.state.ahead.start && page != 0 {
            self.reach(page, request, wanted, pages);
        } else {
            self.leave(page);
            let size = self.state.recall();
            self.open(page, size, request);
            self.state.read_current(wanted, pages);
        }
    }

    /// Goes back to the previous windows if `page` touches them and not the current one. The run
    /// and its average do not notice.
    fn return_to(&mut self, page: PageIndex) -> bool {
        let previous = &mut self.previous;
        let back = !self.state.current.touches(page)
            && previous.current.size > 0
            && previous.current.touches(page);
        if back {
            mem::swap(&mut self.state.current, &mut previous.current);
            mem::swap(&mut self.state.ahead, &mut previous.ahead);
            mem::swap(&mut self.pending, &mut previous.pending);
            self.state.prev = page;
        }
        back
    }

    /// Saves the windows if `page` jumps out of them; a sequential successor does not.
    fn leave(&mut self, page: PageIndex) {
        if self.rule.previous && !self.state.current.touches(page) {
            self.previous = Saved {
                current: self.state.current,
                ahead: self.state.ahead,
                pending: self.pending,
            };
        }
    }

    /// Makes the request the current window, or `size` pages if it is not large.
    fn open(&mut self, page: PageIndex, size: u64, request: u64) {
        let large = request > 1;
        if large {
            self.state.current = Window { start: page, size: request };
            self.state.ahead = Window { start: page + request, size: self.state.average };
        } else {
            self.state.current = Window { start: page, size };
            self.state.ahead = Window::NONE;
        }
        self.pending = large && self.rule.declared == Declared::Read;
    }

    /// The reader reaches the ahead window, which is read at this point if it was only declared.
    fn reach(&mut self, page: PageIndex, request: u64, wanted: u64, pages: &mut dyn AddressSpace) {
        let declared = self.state.ahead.size.min(self.state.limit.pages);
        self.state.shift();
        if mem::take(&mut self.pending) {
            self.state.current = Window { start: page, size: request.max(declared) };
            self.state.read_current(wanted, pages);
        }
    }

    /// The request size that the policy sees.
    fn told(&self, remaining: u64) -> u64 {
        if self.rule.request { remaining } else { 1 }
    }
}

impl Readahead for RequestSize {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        self.meet(access.page, self.told(access.remaining), pages);
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        if fault.mapping.advice == MapAdvice::Sequential {
            self.meet(fault.page, 1, pages);
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
