//! Eager: the whole window of readahead is decoded before the caller continues.
//!
//! Source:     Linux 2.6.21, `fs/cramfs/inode.c`, `mm/filemap.c`; the baseline "CramFS" of S. Ahn,
//!             S. Hyun, K. Koh, "Improving the read performance of compressed file systems
//!             considering kernel read-ahead mechanism", KIISE 2010.
//! Behaviour:  each page of the window is read and decoded separately, in ascending order; the
//!             caller waits for the last one.
//! Differs:    nothing by default. With `bulk` the raw bytes of the window are read at once, as
//!             squashfs and erofs of today do, and all of it is decoded as before.
//! Not for:    random faults with a slow codec: up to 31 pages are paid for before one is seen.

use alloc::boxed::Box;

use super::{Demand, Fill, Pages, Plan, Policy};
use crate::policy::Parameter;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "eager",
    summary: "decodes the whole window of readahead before the caller continues",
    source: "cramfs of Linux 2.6.21",
    parameters: &[Parameter::new(
        "bulk",
        0,
        (0, 1),
        "whether the raw bytes of the window are read at once",
    )],
    build: |values| Box::new(Eager { bulk: values.on("bulk") }),
};

#[derive(Debug)]
struct Eager {
    bulk: bool,
}

impl Fill for Eager {
    fn on_demand(&mut self, demand: &Demand) -> Plan {
        let later = Pages::none(demand.window.end);
        Plan { fetch: demand.window, bulk: self.bulk, now: demand.window, later }
    }
}
