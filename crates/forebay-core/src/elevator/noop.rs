//! The elevator `noop`: first come, first served, with merging.
//!
//! Source:     Linux 2.6.21, block/noop-iosched.c.
//! Behaviour:  a first-in first-out list; each request that leaves it is sorted against those that
//!             the driver has not taken yet. A bio may join any request that waits at its end, and
//!             only the latest one at its front.
//! Differs:    nothing known.
//! Not for:    a disk with many tasks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::none::replace;
use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::time::{Duration, Instant};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "noop",
    summary: "First come, first served, with merging.",
    source: "Linux 2.6.21, block/noop-iosched.c",
    parameters: &[],
    build: |_| Box::new(Noop::default()),
};

#[derive(Debug, Default)]
struct Noop {
    waiting: VecDeque<Queued>,
}

impl Elevator for Noop {
    fn insert(&mut self, _now: Instant, request: &Queued) -> Kick {
        self.waiting.push_back(*request);
        Kick::Later
    }

    fn dispatch(&mut self, _now: Instant, list: &mut DispatchList) {
        if let Some(request) = self.waiting.pop_front() {
            list.sort(&request);
        }
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        replace(&mut self.waiting, before, after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        replace(&mut self.waiting, before, kept);
        self.waiting.retain(|one| one.id != gone.id);
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        // Those that came before it, and none that came after.
        service.times(others)
    }
}

#[cfg(test)]
mod tests {
    use crate::elevator::testing::{Bench, By};

    #[test]
    fn requests_leave_in_the_order_of_their_coming() {
        let mut bench = Bench::new("noop");
        for sector in [300, 100, 200] {
            let _ = bench.add(By::Reader(0), sector);
        }
        assert_eq!(bench.rest(), [300, 100, 200]);
    }
}
