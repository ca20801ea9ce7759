//! The elevator `noop`: first come, first served, with merging.
//!
//! Source:     Linux 2.6.21, block/noop-iosched.c.
//! Behaviour:  a first-in first-out list; each request that leaves it is sorted against those that
//!             the driver has not taken yet. A bio may join any request that waits at its end, and
//!             only the latest one at its front.
//! Differs:    nothing known.
//! Not for:    a disk with many tasks.

use alloc::boxed::Box;

use super::first_come::FirstCome;
use super::{DispatchList, Policy};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "noop",
    summary: "First come, first served, with merging.",
    source: "Linux 2.6.21, block/noop-iosched.c",
    parameters: &[],
    build: |_| Box::new(FirstCome::new(DispatchList::sort, true)),
};
