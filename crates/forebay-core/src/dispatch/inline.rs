//! Every request is carried out in the context of whoever asked.
//!
//! Source:     K. Lee, "The selective context switch for the storage which has no latency", Hanyang
//!             University (in Korean): a device that is marked as fast when it is set up.
//! Behaviour:  requests of reads and writes go to the device at once, without plug, merging or
//!             elevator, and the asker keeps the processor until they are done.
//! Differs:    nothing known.
//! Not for:    devices whose time another task could use.

use alloc::boxed::Box;

use super::{Class, Dispatch, Handling, Medium, Policy, Processor};
use crate::time::Instant;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "inline",
    summary: "Whoever asks keeps the processor until the device is done.",
    source: "K. Lee, selective context switch",
    parameters: &[],
    build: |_| Box::new(Inline),
};

#[derive(Debug)]
struct Inline;

impl Dispatch for Inline {
    fn choose(&mut self, _: Instant, _: &Class, _: Medium, _: Processor) -> Handling {
        Handling::INLINE
    }
}
