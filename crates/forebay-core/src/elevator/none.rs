//! No elevator: first come, first served.
//!
//! Source:     Linux 6.18, block/blk-mq.c with the scheduler `none`.
//! Behaviour:  requests go to the device in the order in which they came; a bio joins the latest
//!             one alone, as long as that waits.
//! Differs:    one queue for all processors.
//! Not for:    a disk with many tasks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::time::{Duration, Instant};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "none",
    summary: "First come, first served.",
    source: "Linux 6.18, block/blk-mq.c",
    parameters: &[],
    build: |_| Box::new(None::default()),
};

#[derive(Debug, Default)]
struct None {
    waiting: VecDeque<Queued>,
}

impl Elevator for None {
    fn insert(&mut self, _now: Instant, request: &Queued) -> Kick {
        self.waiting.push_back(*request);
        Kick::Later
    }

    fn dispatch(&mut self, _now: Instant, list: &mut DispatchList) {
        if let Some(request) = self.waiting.pop_front() {
            list.add_tail(&request);
        }
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        replace(&mut self.waiting, before, after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        replace(&mut self.waiting, before, kept);
        self.waiting.retain(|one| one.id != gone.id);
    }

    fn merges_with_all(&self) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        // Those that came before it, and none that came after.
        service.times(others)
    }
}

/// Puts a request that has changed in the place of what it was.
pub(super) fn replace(waiting: &mut VecDeque<Queued>, before: &Queued, after: &Queued) {
    // Most of what grows is the latest.
    let place = waiting.iter().rposition(|one| one.id == before.id);
    waiting[place.expect("a request that grows waits")] = *after;
}
