//! Selective, then idle: the wanted pages first, the likely next ones by an idle processor.
//!
//! Source:     ours, on the rule of `selective`.
//! Behaviour:  raw bytes as `selective`. A stream, that is a demand by `read` that continues where
//!             the last one and its offer ended, is decoded completely before its reader continues.
//!             Of any other demand only the wanted pages are decoded. Pages after them are offered
//!             to an idle processor: after a `read` at the file's beginning the whole window,
//!             because such files are mostly read completely; after a fault as many as the last
//!             offers were used. A fault directly after an offer doubles it, one inside it came too
//!             early and does not count, one elsewhere halves it, down to none; two in a row start
//!             over.
//! Differs:    `selective` decodes nothing that was not asked for.
//! Not for:    one processor that is always busy: then it is `selective`.

use alloc::boxed::Box;

use super::selective::{WINDOW, fetch};
use super::{Ahead, Demand, Fill, Pages, Plan, Policy};
use crate::policy::Parameter;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "selective-then-idle",
    summary: "decodes demanded pages first, likely ones on an idle processor",
    source: "ours",
    parameters: &[
        WINDOW,
        Parameter::new("first", 2, (0, 1 << 16), "pages offered after the first fault of a file"),
    ],
    build: |values| {
        let offer = values.of("first");
        let window = values.of("window");
        Box::new(ThenIdle { window, offer, last: Pages::default() })
    },
};

#[derive(Debug)]
struct ThenIdle {
    window: u64,
    /// Pages that are offered to an idle processor.
    offer: u64,
    /// The pages of the last demand and its offer.
    last: Pages,
}

impl Fill for ThenIdle {
    fn on_demand(&mut self, demand: &Demand) -> Plan {
        let fetch = fetch(demand, self.window);
        let wanted = demand.wanted;
        if wanted.is_empty() {
            // No call has asked for a page of it: all of it may wait for an idle processor.
            return Plan { fetch, bulk: true, now: wanted, later: fetch };
        }
        let goes_on = !self.last.is_empty()
            && (self.last.end..=self.last.end.saturating_add(1)).contains(&wanted.start);
        if demand.copied && goes_on {
            let now = Pages::new(wanted.start, fetch.end);
            self.last = now;
            return Plan { fetch, bulk: true, now, later: Pages::none(fetch.end) };
        }
        if demand.copied {
            let end = if wanted.start == 0 { fetch.end } else { wanted.end };
            let later = Pages::new(wanted.end, end.max(wanted.end));
            self.last = Pages::new(wanted.start, later.end);
            return Plan { fetch, bulk: true, now: wanted, later };
        }
        if goes_on {
            self.offer = self.offer.saturating_mul(2).clamp(AGAIN, self.window.max(AGAIN));
        } else if !self.last.is_empty() && !self.last.contains(wanted.start) {
            self.offer /= 2;
        }
        let end = fetch.end.min(wanted.end.saturating_add(self.offer));
        let later = Pages::new(wanted.end, end.max(wanted.end));
        self.last = Pages::new(wanted.start, later.end);
        Plan { fetch, bulk: true, now: wanted, later }
    }

    fn ahead(&self) -> Ahead {
        Ahead::Both
    }
}

/// Pages that are offered when faults follow each other after offers had come to nothing.
const AGAIN: u64 = 2;
