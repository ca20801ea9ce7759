//! Ends a run before its time: an interrupt, or an error of a policy that is written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_core::time::Instant;
use forebay_core::workload::{Step, Workload};
use pyo3::prelude::*;

/// What has ended a run, seen by all that take part in it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_set: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Stop {
    /// Ends the run. The first error is the one that Python gets.
    pub(crate) fn set(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Ends the run if the user has interrupted it. Takes the interpreter's lock.
    pub(crate) fn ask_python(&self) {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has a lifetime")]
        let asked = Python::attach(|py| py.check_signals());
        if let Err(interrupted) = asked {
            self.set(interrupted);
        }
    }

    /// What has ended the run, if anything has.
    pub(crate) fn result(&self) -> PyResult<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}

/// Calls, or as much work, or requests after which Python is asked whether the user has
/// interrupted.
pub(crate) const ASK_EVERY: u64 = 1 << 16;

/// How long an interrupt may wait while nothing comes.
pub(crate) const INTERRUPTED: Duration = Duration::from_millis(100);

/// A task that ends when the run is stopped.
pub(crate) struct Stoppable<'a> {
    pub(crate) task: Box<dyn Workload + 'a>,
    pub(crate) stop: &'a Stop,
}

impl Workload for Stoppable<'_> {
    fn next(&mut self, now: Instant) -> Step {
        if self.stop.is_set() { Step::Exit } else { self.task.next(now) }
    }
}
