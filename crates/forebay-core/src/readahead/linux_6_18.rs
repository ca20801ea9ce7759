//! Linux 6.18: on-demand readahead whose large folios grow with the windows.
//!
//! Source:     Linux 6.18, mm/readahead.c and mm/filemap.c; `cargo xtask fidelity` finds the same
//!             pages, folios and windows on a running 6.18.44.
//! Behaviour:  As `ondemand`. The state keeps the folio order: a miss starts at single pages, each
//!             window read in advance is two orders larger and ends on a multiple of its folios.
//!             An executable mapping's fault reads forward.
//! Differs:    As `ondemand`.
//! Not for:    As `ondemand`.

use alloc::boxed::Box;

use super::Policy;
use super::ondemand::{Grows, Ondemand, PARAMETERS, Remainder, Version};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6.18",
    summary: "on-demand readahead, folios grow with the windows",
    source: "Linux 6.18.44, mm/readahead.c",
    parameters: PARAMETERS,
    build: |values| Box::new(Ondemand::new(&VERSION, values)),
};

static VERSION: Version = Version {
    miss_order: 0,
    grows: Grows::Window,
    aligns_end: true,
    folio_window_min: 1,
    remainder: Remainder::Rest,
    executable_forward: true,
};
