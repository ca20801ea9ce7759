//! Ends a run before its time: an interrupt, or an error of a policy that is written in Python.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_core::time::Instant;
use forebay_core::workload::{Step, Workload};
use pyo3::exceptions::PyRecursionError;
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
const ASK_EVERY: u64 = 1 << 16;

/// How long an interrupt may wait while nothing comes.
pub(crate) const INTERRUPTED: Duration = Duration::from_millis(100);

/// Work that is done now and then asked about: each piece counts as one and its bytes.
#[derive(Default)]
pub(crate) struct Work(u64);

impl Work {
    /// Some was done. Asks Python when enough has come together.
    pub(crate) fn add(&mut self, bytes: u64, stop: &Stop) {
        self.0 += 1 + bytes / BYTES_AS_ONE_CALL;
        if self.0 >= ASK_EVERY {
            self.0 = 0;
            stop.ask_python();
        }
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A run that a policy in Python may have started: how many runs it lies in.
pub(crate) struct Nested(u32);

impl Nested {
    /// A run on this thread.
    pub(crate) fn enter() -> PyResult<Self> {
        let outer = DEPTH.get();
        if outer >= NESTED_MAX {
            let what = format!("more than {NESTED_MAX} runs are started by policies of each other");
            return Err(PyRecursionError::new_err(what));
        }
        DEPTH.set(outer + 1);
        Ok(Self(outer))
    }

    /// Makes another thread work on this run.
    pub(crate) fn hand_on(&self) -> impl FnOnce() + Send + use<> {
        let depth = self.0 + 1;
        move || DEPTH.set(depth)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// Runs that may lie in each other: far fewer than fill the stack of a thread.
const NESTED_MAX: u32 = 16;

/// Bytes whose transfer is as much work as a call, when interrupts are asked for.
const BYTES_AS_ONE_CALL: u64 = 1 << 16;

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
