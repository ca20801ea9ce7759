//! An elevator by hand: requests come, the driver asks, the device ends.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{DispatchList, Elevator, Kick, Queued, Spec};
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

/// An elevator, its dispatch list and a clock.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) elevator: Box<dyn Elevator>,
    pub(super) now: Instant,
    pub(super) list: DispatchList,
    requests: Vec<Queued>,
}

/// Whose request it is, and which way it goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// A task reads.
    Reader(u32),
    /// The flusher writes.
    Flusher,
    /// A task writes asynchronously.
    Writer(u32),
}

impl Bench {
    /// The elevator that a user would type so, empty, at time zero.
    pub(super) fn new(typed: &str) -> Self {
        let elevator = Spec::parse(typed).unwrap().build();
        let list = DispatchList::default();
        Self { elevator, now: Instant::ZERO, list, requests: Vec::new() }
    }

    /// Time passes.
    pub(super) fn after(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    /// A request of 8 sectors arrives; returns its name, and whether the driver is to be run at
    /// once.
    pub(super) fn add(&mut self, by: By, sector: u64) -> (RequestId, Kick) {
        let id = RequestId(self.requests.len() as u32);
        let (write, task) = match by {
            By::Reader(task) => (false, Some(CallId(task))),
            By::Flusher => (true, None),
            By::Writer(task) => (true, Some(CallId(task))),
        };
        let request = Queued { id, sector, sectors: 8, write, sync: !write, task };
        self.requests.push(request);
        (id, self.elevator.insert(self.now, &request))
    }

    /// The driver takes one request; returns its first sector.
    pub(super) fn next(&mut self) -> Option<u64> {
        self.take().map(|request| request.sector)
    }

    /// The driver takes one request.
    pub(super) fn take(&mut self) -> Option<Queued> {
        if self.list.is_empty() {
            self.elevator.dispatch(self.now, &mut self.list);
        }
        let request = self.list.pop()?;
        self.elevator.started(self.now, &request);
        Some(request)
    }

    /// The driver asks until it gets no more, and ends nothing; says where each begins.
    pub(super) fn rest(&mut self) -> Vec<u64> {
        core::iter::from_fn(|| self.next()).collect()
    }

    /// The device is done with a request.
    pub(super) fn done(&mut self, id: RequestId) -> Kick {
        let request = self.requests[id.index()];
        self.elevator.completed(self.now, &request)
    }

    /// A request that waits grows by 8 sectors at its end.
    pub(super) fn grow_back(&mut self, id: RequestId) {
        let before = self.requests[id.index()];
        self.grow(before, Queued { sectors: before.sectors + 8, ..before });
    }

    /// A request that waits grows by 8 sectors at its front.
    pub(super) fn grow_front(&mut self, id: RequestId) {
        let before = self.requests[id.index()];
        let (sector, sectors) = (before.sector - 8, before.sectors + 8);
        self.grow(before, Queued { sector, sectors, ..before });
    }

    /// A request takes in the one behind it.
    pub(super) fn join(&mut self, kept: RequestId, gone: RequestId) {
        let (before, gone) = (self.requests[kept.index()], self.requests[gone.index()]);
        assert_eq!(before.end(), gone.sector, "the two touch");
        let after = Queued { sectors: before.sectors + gone.sectors, ..before };
        self.requests[kept.index()] = after;
        self.elevator.joined(&before, &after, &gone);
    }

    fn grow(&mut self, before: Queued, after: Queued) {
        self.requests[before.id.index()] = after;
        self.elevator.grown(&before, &after);
    }
}

/// Two tasks read their files, far from each other, page after page: each requests the next page a
/// millisecond after it got the last. Returns whose request each of the first `count` was that the
/// device did, in 5 ms each.
pub(super) fn two_readers(typed: &str, count: usize) -> Vec<u32> {
    let (service, think) = (Duration::from_millis(5), Duration::from_millis(1));
    let mut bench = Bench::new(typed);
    let mut next = [0, 50_000_000];
    let mut asks = [Some(Instant::ZERO); 2];
    let mut at_device: Option<(Queued, Instant)> = None;
    let mut order = Vec::new();
    while order.len() < count {
        for task in 0..2 {
            if asks[task].take_if(|at| *at <= bench.now).is_some() {
                let _ = bench.add(By::Reader(task as u32), next[task]);
                next[task] += 8;
            }
        }
        if let Some((request, _)) = at_device.take_if(|(_, ends)| *ends <= bench.now) {
            let _ = bench.done(request.id);
            let task = request.task.unwrap().0;
            order.push(task);
            asks[task as usize] = Some(bench.now + think);
        }
        if at_device.is_none() {
            at_device = bench.take().map(|request| (request, bench.now + service));
        }
        let wake = bench.elevator.timeout().filter(|_| at_device.is_none());
        let times = asks.into_iter().flatten().chain(wake).chain(at_device.map(|(_, ends)| ends));
        bench.now = bench.now.max(times.min().unwrap());
    }
    order
}

/// The lengths of the runs of one task.
pub(super) fn runs(order: &[u32]) -> Vec<usize> {
    order.chunk_by(|one, next| one == next).map(<[u32]>::len).collect()
}
