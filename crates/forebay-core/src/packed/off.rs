//! Off: no readahead; each demand reads its own pages.
//!
//! Source:     "CramFS(RAOFF)" of S. Ahn, S. Hyun, K. Koh, "Improving the read performance of
//!             compressed file systems considering kernel read-ahead mechanism", KIISE 2010.
//! Behaviour:  no window; the wanted pages are read and decoded one by one.
//! Differs:    nothing.
//! Not for:    sequential readers, and devices on which a request costs much.

use alloc::boxed::Box;

use super::{Ahead, Demand, Fill, Pages, Plan, Policy};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "off",
    summary: "reads and decodes only the demanded pages, no readahead",
    source: "CramFS(RAOFF) of Ahn, Hyun and Koh",
    parameters: &[],
    build: |_| Box::new(Off),
};

#[derive(Debug)]
struct Off;

impl Fill for Off {
    fn on_demand(&mut self, demand: &Demand) -> Plan {
        let later = Pages::none(demand.wanted.end);
        Plan { fetch: demand.wanted, bulk: false, now: demand.wanted, later }
    }

    fn ahead(&self) -> Ahead {
        Ahead::Ours
    }
}
