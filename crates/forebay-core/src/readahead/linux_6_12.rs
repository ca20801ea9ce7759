//! Linux 6.12: on-demand readahead whose large folios grow with the marked folio.
//!
//! Source:     Linux 6.12.117, mm/readahead.c and mm/filemap.c.
//! Behaviour:  As `ondemand`. Every window of four pages and more is read in folios, two orders
//!             larger than the marked folio (a miss counts as order 0).
//! Differs:    As `ondemand`.
//! Not for:    As `ondemand`; and a cached page in the way of a folio reads past the window.

use alloc::boxed::Box;

use super::Policy;
use super::ondemand::{Grows, Ondemand, PARAMETERS, Remainder, Version};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6.12",
    summary: "on-demand readahead, folios grow with the marked one",
    source: "Linux 6.12.117, mm/readahead.c",
    parameters: PARAMETERS,
    build: |values| Box::new(Ondemand::new(&VERSION, values)),
};

static VERSION: Version = Version {
    miss_order: 2,
    grows: Grows::Folio,
    aligns_end: false,
    folio_window_min: 4,
    remainder: Remainder::Whole,
    executable_forward: false,
};
