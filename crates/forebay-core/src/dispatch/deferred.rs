//! Every request is queued, and the processor goes to another task.
//!
//! Source:     Linux 2.6.21, mm/filemap.c, sync_page and io_schedule.
//! Behaviour:  the fixed rule of kernels, whatever the device.
//! Differs:    nothing known.
//! Not for:    devices that are done before the processor has been given away.

use alloc::boxed::Box;

use super::{Class, Dispatch, Handling, Medium, Policy, Processor};
use crate::time::Instant;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "deferred",
    summary: "Requests are queued, and the processor goes to another task.",
    source: "Linux 2.6.21, mm/filemap.c",
    parameters: &[],
    build: |_| Box::new(Deferred),
};

#[derive(Debug)]
struct Deferred;

impl Dispatch for Deferred {
    fn choose(&mut self, _: Instant, _: &Class, _: Medium, _: Processor) -> Handling {
        Handling::Deferred
    }
}
