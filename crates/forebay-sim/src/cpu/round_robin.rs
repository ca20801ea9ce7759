//! Runners take turns.
//!
//! Source:     the oldest rule there is; the slice is that of Linux 2.6, kernel/sched.c, at the
//!             default priority.
//! Behaviour:  first come, first served. A runner keeps its core from stretch to stretch until it
//!             sleeps, or until its slice is over and another one waits.
//! Differs:    no runner is preempted in the middle of a stretch: a long computation keeps others
//!             waiting. Sleep and weights count for nothing.
//! Not for:    questions that depend on the order of runners.

use std::collections::VecDeque;

use forebay_core::time::{Duration, Instant};

use super::{Arrival, RunQueue, Runner};

/// How long a runner may keep a core while others wait.
pub(super) const SLICE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct RoundRobin(VecDeque<Runner>);

impl RunQueue for RoundRobin {
    fn enqueue(&mut self, runner: Runner, _arrival: Arrival, _now: Instant) {
        self.0.push_back(runner);
    }

    fn pick(&mut self, _now: Instant) -> Option<Runner> {
        self.0.pop_front()
    }

    fn pushes(&self, _woken: Runner, _running: Runner) -> Option<u64> {
        None
    }

    fn charge(&mut self, _runner: Runner, _from: Instant, _to: Instant) {}

    fn sleep(&mut self, _runner: Runner, _now: Instant) {}

    fn slice_end(&self, _runner: Runner, _charged: Instant) -> Option<Instant> {
        None
    }
}
