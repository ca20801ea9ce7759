//! Selective: the window's raw bytes are read at once, and only what is wanted is decoded.
//!
//! Source:     FCramFS of S. Ahn, S. Hyun, K. Koh, "Improving the read performance of compressed
//!             file systems considering kernel read-ahead mechanism", KIISE 2010, section 3.2.
//! Behaviour:  the window is readahead's own; its raw bytes come in one bulk read; the demanded
//!             pages are decoded, all others are deferred. A demand for a deferred page decodes
//!             that page alone and starts no window. Nothing is ever decoded in the background.
//! Differs:    `window` may narrow readahead's window, which the paper leaves as it is; the default
//!             does not.
//! Not for:    sequential readers with a fast codec: each page costs a demand of its own.

use alloc::boxed::Box;

use super::{Demand, Fill, Pages, Plan, Policy};
use crate::policy::Parameter;

/// The parameter that narrows the window.
pub(super) const WINDOW: Parameter = Parameter::new(
    "window",
    32,
    (1, 1 << 16),
    "pages whose raw bytes are read at most for one demand, around it as readahead has them",
);

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "selective",
    summary: "reads the window's raw bytes in bulk, decodes only what is demanded",
    source: "FCramFS of Ahn, Hyun and Koh",
    parameters: &[WINDOW],
    build: |values| Box::new(Selective { window: values.of("window") }),
};

#[derive(Debug)]
struct Selective {
    window: u64,
}

impl Fill for Selective {
    fn on_demand(&mut self, demand: &Demand) -> Plan {
        let fetch = fetch(demand, self.window);
        Plan { fetch, bulk: true, now: demand.wanted, later: Pages::none(fetch.end) }
    }
}

/// What is read for a demand: of the window at most so many pages, with as many of them before the
/// wanted ones as the window has by proportion; all that is wanted in any case.
pub(super) fn fetch(demand: &Demand, max: u64) -> Pages {
    let Demand { wanted, window, deferred, .. } = *demand;
    if deferred {
        return wanted;
    }
    // A window that does not have what is wanted is none.
    let window = window.hull(wanted);
    let around = window.len().saturating_sub(wanted.len());
    let room = max.saturating_sub(wanted.len()).min(around);
    let before = wanted.start.saturating_sub(window.start).min(around);
    let share = u128::from(before) * u128::from(room) / u128::from(around.max(1));
    let before = u64::try_from(share).unwrap_or(room).min(room);
    Pages::new(wanted.start - before, wanted.end.saturating_add(room - before))
}
