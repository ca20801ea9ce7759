//! The processor: cores, the queue of tasks that could run, and what switching costs.
//!
//! ```text
//!   asleep --awaken--> runnable --dispatch--> on a core --block / exit--> asleep / gone
//!                          ^                      |
//!                          +-- slice over, others wait
//! ```
//!
//! A task keeps its core from call to call until it blocks, or until its slice is over and another
//! task waits; a task that computes keeps it to the end of that step. Every dispatch costs one
//! context switch, also back to the task that was there last: the idle task ran in between.

use std::collections::VecDeque;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::CallId;

/// How long a task may keep a core while others wait: the slice of the O(1) scheduler at default
/// priority.
const SLICE: Duration = Duration::from_millis(100);

/// Cores and the tasks that want them.
#[derive(Debug)]
pub(crate) struct Cpu {
    cores: Vec<Option<Run>>,
    runnable: VecDeque<CallId>,
}

/// A task on a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) task: CallId,
    /// When what the task does now is over.
    pub(crate) until: Instant,
    since: Instant,
}

/// Which core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreId(usize);

impl Cpu {
    /// `cores` idle cores.
    pub(crate) fn new(cores: u32) -> Self {
        assert!(cores > 0, "a machine has at least one core");
        Self { cores: vec![None; cores as usize], runnable: VecDeque::new() }
    }

    /// A task wants a core.
    pub(crate) fn enqueue(&mut self, task: CallId) {
        self.runnable.push_back(task);
    }

    /// Gives an idle core to the task that has waited longest.
    pub(crate) fn dispatch(&mut self, now: Instant) -> Option<(CoreId, CallId)> {
        let idle = self.cores.iter().position(Option::is_none)?;
        let task = self.runnable.pop_front()?;
        self.cores[idle] = Some(Run { task, until: now, since: now });
        Some((CoreId(idle), task))
    }

    /// The task on a core is busy until a moment.
    pub(crate) fn occupy(&mut self, core: CoreId, until: Instant) {
        self.cores[core.0].as_mut().expect("a task is on the core").until = until;
    }

    /// The task leaves its core.
    pub(crate) fn release(&mut self, core: CoreId) {
        self.cores[core.0] = None;
    }

    /// Whether the task on a core has to make room for another one.
    pub(crate) fn slice_is_over(&self, core: CoreId, now: Instant) -> bool {
        let run = self.cores[core.0].as_ref().expect("a task is on the core");
        !self.runnable.is_empty() && now.since(run.since) >= SLICE
    }

    /// The core whose task ends first what it does.
    pub(crate) fn earliest(&self) -> Option<(CoreId, Run)> {
        let runs = self.cores.iter().enumerate();
        let runs = runs.filter_map(|(core, run)| run.map(|run| (CoreId(core), run)));
        runs.min_by_key(|(core, run)| (run.until, core.0))
    }
}
