//! Selective: the window's raw bytes are read at once, and only the wanted pages are decoded.
//!
//! Source:     FCramFS of S. Ahn, S. Hyun, K. Koh, "Improving the read performance of compressed
//!             file systems considering kernel read-ahead mechanism", KIISE 2010, section 3.2.
//! Behaviour:  the window is that of readahead; its raw bytes are read in one bulk read; the
//!             demanded pages are decoded, all others are deferred. A demand for a deferred page
//!             decodes only that page and starts no window. Nothing is ever decoded in the
//!             background.
//! Differs:    `window` may narrow readahead's window, which the paper leaves unchanged; the
//!             default does not.
//! Not for:    sequential readers with a fast codec: each page costs a separate demand.

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
    summary: "reads the window's raw bytes in bulk, decodes only demanded pages",
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

/// The pages read for a demand: at most `max` pages of the window, with the window's proportion of
/// pages before the wanted ones, and always all wanted pages.
pub(super) fn fetch(demand: &Demand, max: u64) -> Pages {
    let Demand { wanted, window, deferred, .. } = *demand;
    if deferred {
        return wanted;
    }
    // A window without the wanted pages is ignored.
    let window = window.hull(wanted);
    let around = window.len().saturating_sub(wanted.len());
    let room = max.saturating_sub(wanted.len()).min(around);
    let before = wanted.start.saturating_sub(window.start).min(around);
    let share = u128::from(before) * u128::from(room) / u128::from(around.max(1));
    let before = u64::try_from(share).unwrap_or(room).min(room);
    Pages::new(wanted.start - before, wanted.end.saturating_add(room - before))
}
