//! Kernel threads: the one that flushes, and those of drivers whose data the processor moves.
//!
//! ```text
//!   asleep --debt, or a request--> wants a core --> on it: debt, then requests one by one
//!      ^                                                        |
//!      +--------------------- nothing left ---------------------+
//! ```

use std::collections::VecDeque;

use forebay_core::io::{Input, Request};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::DeviceId;

use super::SimWorld;
use super::ended::Ended;
use crate::cpu::{Arrival, CoreId, Runner};

/// A kernel thread: its work on a core.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) debt: Duration,
    /// Requests that it will serve, in the order in which they reach it.
    queue: VecDeque<Assigned>,
    /// The request that it serves.
    pub(super) ended: Option<Ended>,
    /// It waits for a core or has one.
    awake: bool,
}

/// A request that is being passed to a kernel thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigned {
    /// When it reaches the thread.
    pub(super) at: Instant,
    pub(super) request: Request,
    /// How long the thread may keep its core for it.
    pub(super) limit: Duration,
    /// The runner that asked for it.
    pub(super) payer: Runner,
}

impl Thread {
    pub(super) fn add(&mut self, assigned: Assigned) {
        let place = self.queue.partition_point(|other| other.at <= assigned.at);
        self.queue.insert(place, assigned);
    }

    /// Whether it has requests that it has not ended.
    fn has_requests(&self) -> bool {
        !self.queue.is_empty() || self.is_serving()
    }

    /// Whether it has begun a request that it has not ended.
    pub(super) fn is_serving(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes the requests away that it has not begun, in their order.
    pub(super) fn take_requests(&mut self) -> VecDeque<Assigned> {
        std::mem::take(&mut self.queue)
    }

    /// The request that has reached it first.
    fn first(&self, now: Instant) -> Option<Assigned> {
        self.queue.front().copied().filter(|assigned| assigned.at <= now)
    }
}

impl SimWorld<'_> {
    /// Makes the flusher runnable if it has work.
    #[inline]
    pub(super) fn wake_flusher(&mut self) {
        let thread = &self.flusher;
        if !thread.awake && (thread.debt > Duration::ZERO || !thread.queue.is_empty()) {
            self.wake_thread(Runner::Flusher);
        }
    }

    /// A request has reached the thread of a driver.
    pub(super) fn wake_driver(&mut self, device: DeviceId) {
        let thread = &self.drivers[device.index()];
        // It may have been so fast as to have ended the request already.
        let Some(first) = thread.first(self.now).filter(|_| !thread.awake) else { return };
        let driver = Runner::Driver(device);
        self.cpu.serve(driver, first.payer, self.now);
        self.wake_thread(driver);
    }

    /// A kernel thread has got a core.
    pub(super) fn begin_thread(&mut self, core: CoreId, runner: Runner, cost: Duration) {
        let debt = std::mem::take(&mut self.thread(runner).debt);
        self.cpu.occupy(core, cost + debt, self.now);
    }

    /// What a kernel thread did on its core is over.
    pub(super) fn thread_done(&mut self, core: CoreId, runner: Runner) -> Option<Input> {
        if let Some(input) = self.hear_of(runner) {
            return Some(input);
        }
        let now = self.now;
        let Some(first) = self.thread(runner).first(now) else {
            self.thread(runner).awake = false;
            self.cpu.usage(runner).switches.voluntary += 1;
            self.cpu.sleep(core, now);
            return None;
        };
        if self.cpu.slice_is_over(core, now) {
            self.cpu.yield_core(core, now);
            return None;
        }
        self.thread(runner).queue.pop_front();
        if runner == Runner::Flusher && self.hand_over(&first) {
            self.cpu.occupy(core, Duration::ZERO, now);
            return None;
        }
        self.cpu.serve(runner, first.payer, now);
        let ended = self.serve(core, &first.request, first.limit);
        self.thread(runner).ended = ended;
        None
    }

    /// What the thread of the driver has not begun comes before a request of the flusher.
    fn hand_over(&mut self, assigned: &Assigned) -> bool {
        let waits = self.drivers[assigned.request.device.index()].has_requests();
        if waits {
            self.send(&assigned.request, self.now, assigned.payer);
        }
        waits
    }

    fn wake_thread(&mut self, runner: Runner) {
        self.thread(runner).awake = true;
        self.cpu.usage(runner).switches.wake(false);
        self.cpu.enqueue(runner, Arrival::Woken { uninterruptible: false }, self.now);
    }

    fn thread(&mut self, runner: Runner) -> &mut Thread {
        match runner {
            Runner::Flusher => &mut self.flusher,
            Runner::Driver(device) => &mut self.drivers[device.index()],
            Runner::Task(_) => panic!("a task is no kernel thread"),
        }
    }
}
