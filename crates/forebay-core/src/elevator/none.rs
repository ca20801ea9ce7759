//! No elevator: first come, first served.
//!
//! Source:     Linux 6.18, block/blk-mq.c with the scheduler `none`.
//! Behaviour:  requests go to the device in order of arrival; a bio joins only the latest one, as
//!             long as that waits.
//! Differs:    one queue for all processors.
//! Not for:    a disk with many tasks.

use alloc::boxed::Box;

use super::first_come::FirstCome;
use super::{DispatchList, Policy};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "none",
    summary: "First come, first served.",
    source: "Linux 6.18, block/blk-mq.c",
    parameters: &[],
    build: |_| Box::new(FirstCome::new(DispatchList::add_tail, false)),
};
