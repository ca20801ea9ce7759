//! Selective, then idle: what is wanted first, the likely rest by a processor with nothing to do.
//!
//! Source:     ours, on the rule of `selective`.
//! Behaviour:  raw bytes as `selective`. A stream, that is two demands by `read` of which the
//!             second begins where the first ended, is decoded whole before its reader goes on. Of
//!             any other demand only the wanted pages; the pages behind them are offered to an idle
//!             processor, and how many follows what became of the last offer: the demand that goes
//!             on where the offer ended doubles it, one that goes elsewhere halves it.
//! Differs:    `selective` decodes nothing that was not asked for.
//! Not for:    one processor that is always busy: then it is `selective`.

use alloc::boxed::Box;

use super::selective::{WINDOW, fetch};
use super::{Demand, Fill, Pages, Plan, Policy};
use crate::policy::Parameter;
use crate::units::PageIndex;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "selective-then-idle",
    summary: "decodes what is demanded first, the likely rest by an idle processor",
    source: "ours",
    parameters: &[
        WINDOW,
        Parameter::new("first", 8, (0, 1 << 16), "pages offered to an idle processor at first"),
    ],
    build: |values| {
        let offer = values.of("first");
        let window = values.of("window");
        Box::new(ThenIdle { window, offer, offered: 0, read: 0 })
    },
};

#[derive(Debug)]
struct ThenIdle {
    window: u64,
    /// Pages that are offered to an idle processor.
    offer: u64,
    /// Where the last offer ended; zero if there was none.
    offered: PageIndex,
    /// Where the last `read` ended.
    read: PageIndex,
}

impl Fill for ThenIdle {
    fn on_demand(&mut self, demand: &Demand) -> Plan {
        let fetch = fetch(demand, self.window);
        let wanted = demand.wanted;
        if wanted.is_empty() {
            // Nobody has asked for a page of it: all of it may wait for an idle processor.
            return Plan { fetch, bulk: true, now: wanted, later: fetch };
        }
        let stream = demand.copied && wanted.start == self.read && wanted.start > 0;
        self.read = if demand.copied { wanted.end } else { 0 };
        if stream {
            let now = Pages::new(wanted.start, fetch.end);
            return Plan { fetch, bulk: true, now, later: Pages::none(fetch.end) };
        }
        if self.offered > 0 {
            let continues = wanted.start.checked_sub(self.offered).is_some_and(|gap| gap <= 1);
            let offer = if continues { self.offer.saturating_mul(2) } else { self.offer / 2 };
            self.offer = offer.clamp(1, self.window.max(1));
        }
        let end = fetch.end.min(wanted.end.saturating_add(self.offer));
        let later = Pages::new(wanted.end, end);
        self.offered = if later.is_empty() { 0 } else { later.end };
        Plan { fetch, bulk: true, now: wanted, later }
    }
}
