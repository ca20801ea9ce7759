//! Requests in the order of their coming, as `none` and `noop` keep them.

use alloc::collections::VecDeque;

use super::{DispatchList, Elevator, Kick, Queued};
use crate::time::{Duration, Instant};

/// A queue; one leaves it at a time.
#[derive(Debug)]
pub(super) struct FirstCome {
    waiting: VecDeque<Queued>,
    /// How the one that leaves goes to the dispatch list.
    leave: fn(&mut DispatchList, &Queued),
    merges_with_all: bool,
}

impl FirstCome {
    /// No request waits.
    pub(super) fn new(leave: fn(&mut DispatchList, &Queued), merges_with_all: bool) -> Self {
        Self { waiting: VecDeque::new(), leave, merges_with_all }
    }

    /// Replaces a request by its changed version.
    fn replace(&mut self, before: &Queued, after: &Queued) {
        // Most of what grows is the latest.
        let place = self.waiting.iter().rposition(|one| one.id == before.id);
        self.waiting[place.expect("a request that grows waits")] = *after;
    }
}

impl Elevator for FirstCome {
    fn insert(&mut self, _now: Instant, request: &Queued) -> Kick {
        self.waiting.push_back(*request);
        Kick::Later
    }

    fn dispatch(&mut self, _now: Instant, list: &mut DispatchList) {
        if let Some(request) = self.waiting.pop_front() {
            (self.leave)(list, &request);
        }
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        self.replace(before, after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        self.replace(before, kept);
        self.waiting.retain(|one| one.id != gone.id);
    }

    fn merges_with_all(&self) -> bool {
        self.merges_with_all
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
        for elevator in ["none", "noop"] {
            let mut bench = Bench::new(elevator);
            for sector in [300, 100, 200] {
                let _ = bench.add(By::Reader(0), sector);
            }
            assert_eq!(bench.rest(), [300, 100, 200], "{elevator}");
        }
    }
}
