//! Knobs that stay as they are.
//!
//! Source:     every kernel as it is delivered.
//! Behaviour:  the flush rule's own knobs, from the beginning to the end.
//! Differs:    nothing.
//! Not for:    loads that change.

use alloc::boxed::Box;

use super::{Controller, Policy, Sample};
use crate::writeback::Knobs;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "fixed",
    summary: "the flush rule's own knobs, unchanged",
    source: "Forebay",
    parameters: &[],
    build: |_| Box::new(Fixed),
};

#[derive(Debug)]
struct Fixed;

impl Controller for Fixed {
    fn observes(&self) -> bool {
        false
    }

    fn observe(&mut self, _samples: &[Sample], knobs: Knobs) -> Knobs {
        knobs
    }
}
