//! A throttle in Python.
//!
//! ```text
//!   engine --Dirtied--> on_dirtied --seconds--> the writer sleeps, and is asked about again
//! ```

use std::sync::Arc;

use forebay_core::throttle::{DirtyView, Throttle};
use forebay_core::time::Duration;
use forebay_core::units::CallId;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::{Method, text_of};
use crate::stop::Stop;

/// A page that a task has written.
#[pyclass(frozen, get_all, module = "forebay")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirtied {
    /// The task, by number.
    task: u32,
    /// The present moment in seconds.
    now: f64,
    /// Whether the page was clean before.
    newly: bool,
    /// Whether the task comes back from a pause, and has written no further page.
    again: bool,
    /// Dirty pages of the whole memory, those under writeback included.
    dirty: u64,
    /// Those of the device that the page belongs to.
    device_dirty: u64,
    /// The level above which the flush rule writes, in pages.
    background: u64,
    /// The level above which writers wait, in pages.
    limit: u64,
    /// Pages a second that the device takes, once this has been measured.
    drain: Option<u64>,
}

#[pymethods]
impl Dirtied {
    fn __repr__(&self) -> String {
        let Self { task, dirty, background, limit, .. } = self;
        format!("Dirtied(task={task}, dirty={dirty}, background={background}, limit={limit})")
    }
}

/// The throttle of a run.
#[derive(Debug)]
pub(crate) struct PythonThrottle {
    on_dirtied: Method,
    stop: Arc<Stop>,
}

impl PythonThrottle {
    pub(super) fn make(policy: &Bound<'_, PyAny>, stop: Arc<Stop>) -> PyResult<Box<dyn Throttle>> {
        Ok(Box::new(Self { on_dirtied: Method::of(policy, "on_dirtied")?, stop }))
    }
}

impl Throttle for PythonThrottle {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        if self.stop.is_set() {
            return None;
        }
        let dirtied = Dirtied {
            task: task.0,
            now: view.now.0 as f64 / 1e9,
            newly: view.newly,
            again: view.again,
            dirty: view.all.unsafe_pages(),
            device_dirty: view.own.unsafe_pages(),
            background: view.background,
            limit: view.limit,
            drain: view.drain,
        };
        let asked = Python::attach(|py| {
            let Method { name, .. } = &self.on_dirtied;
            pause(&self.on_dirtied.call(py, (dirtied,))?, name)
        });
        asked.unwrap_or_else(|error| {
            self.stop.set(error);
            None
        })
    }
}

/// `None`, or a number of seconds.
fn pause(answer: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Duration>> {
    if answer.is_none() {
        return Ok(None);
    }
    let wrong = |error: fn(String) -> PyErr| {
        let wanted = format!("None or seconds, above 0 and at most {PAUSE_MAX}");
        error(format!("{method} answers with {wanted}, not {}", text_of(answer)))
    };
    let seconds: f64 = answer.extract().map_err(|_| wrong(PyTypeError::new_err::<String>))?;
    if seconds > 0.0 && seconds <= PAUSE_MAX {
        Ok(Some(Duration((seconds * 1e9).ceil() as u64)))
    } else {
        Err(wrong(PyValueError::new_err::<String>))
    }
}

/// The longest pause in seconds.
const PAUSE_MAX: f64 = 60.0;
