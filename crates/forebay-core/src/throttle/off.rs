//! No pauses: writers stop only when no memory is left.
//!
//! Source:     J. Oh, Y. Won, "The effect of Linux I/O throttling on user write latency", the
//!             modified kernel; Linux 2.2, whose flush rule makes writers wait itself.
//! Behaviour:  no pause, whatever the level.
//! Differs:    nothing.
//! Not for:    machines that others share: a writer can fill the memory and stop all tasks.

use alloc::boxed::Box;

use super::{DirtyView, Policy, Throttle};
use crate::time::Duration;
use crate::units::CallId;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "off",
    summary: "no pauses: writers stop only when memory is full",
    source: "the modified kernel of Oh and Won",
    parameters: &[],
    build: |_| Box::new(Off),
};

#[derive(Debug)]
struct Off;

impl Throttle for Off {
    fn on_dirtied(&mut self, _task: CallId, _view: &DirtyView) -> Option<Duration> {
        None
    }
}
