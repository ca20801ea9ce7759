//! Policies that are written in Python. Objects of a readahead class answer `on_read` with the
//! window that is to be there; an object of a throttle class answers `on_dirtied` with the pause of
//! a writer.
//!
//! ```text
//!   engine --Access--> on_read --(start, size, tail)--> absent pages of the window are read
//!                                        a marker stands `tail` pages before its end
//!   engine --Dirtied--> on_dirtied --seconds--> the writer sleeps, and is asked about again
//! ```

use std::fmt;
use std::sync::Arc;

use forebay_core::readahead::{self, AddressSpace, Fault, Found, Readahead, Spec, Window};
use forebay_core::throttle::{DirtyView, Throttle};
use forebay_core::time::Duration;
use forebay_core::units::{CallId, PageIndex};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::stop::Stop;

/// One page that a read or a fault has met.
#[pyclass(frozen, get_all, module = "forebay")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The page.
    page: PageIndex,
    /// Pages from this one to the end of the request.
    remaining: u64,
    /// Whether it is the first page of the request.
    first: bool,
    /// `absent`, `marked` or `present`.
    found: &'static str,
    /// Whether the page was touched through a mapping.
    fault: bool,
    /// The size of the file in pages.
    file_pages: u64,
    /// Pages of memory that are free or could be reclaimed without harm.
    available_pages: u64,
    /// Whether the device refuses further readahead for now.
    congested: bool,
}

#[pymethods]
impl Access {
    fn __repr__(&self) -> String {
        format!("Access(page={}, remaining={}, found='{}')", self.page, self.remaining, self.found)
    }
}

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

/// The classes of policies that are written in Python.
pub(crate) struct PythonPolicies {
    /// Makes a readahead policy for each open file.
    pub(crate) readahead: Option<Py<PyAny>>,
    /// Makes the throttle of a run.
    pub(crate) throttle: Option<Py<PyAny>>,
    pub(crate) stop: Arc<Stop>,
}

impl PythonPolicies {
    /// The throttle of a run, if there is one. If it cannot be made, the run is stopped.
    pub(crate) fn throttle(&self) -> Option<Box<dyn Throttle>> {
        let factory = self.throttle.as_ref()?;
        let made = Python::attach(|py| {
            let on_dirtied = factory.bind(py).call0()?.getattr("on_dirtied")?;
            if !on_dirtied.is_callable() {
                return Err(PyTypeError::new_err("on_dirtied of a throttle is a method"));
            }
            Ok(on_dirtied.unbind())
        });
        match made {
            Ok(on_dirtied) => {
                Some(Box::new(PythonThrottle { on_dirtied, stop: Arc::clone(&self.stop) }))
            }
            Err(error) => {
                self.stop.set(error);
                None
            }
        }
    }

    /// A readahead policy for a file, if there is a class of them. If it cannot be made, the run is
    /// stopped.
    pub(crate) fn readahead(&self) -> Option<Box<dyn Readahead>> {
        self.readahead.as_ref().map(|factory| self.build(factory))
    }

    fn build(&self, factory: &Py<PyAny>) -> Box<dyn Readahead> {
        match Python::attach(|py| self.try_build(factory.bind(py))) {
            Ok(policy) => Box::new(policy),
            Err(error) => {
                self.stop.set(error);
                Spec::parse("off").expect("the table has it").build()
            }
        }
    }

    fn try_build(&self, factory: &Bound<'_, PyAny>) -> PyResult<PythonReadahead> {
        let policy = factory.call0()?;
        let on_read = policy.getattr("on_read")?;
        if !on_read.is_callable() {
            return Err(PyTypeError::new_err("on_read of a readahead policy is a method"));
        }
        let sees_hits = match policy.getattr_opt("sees_hits")? {
            Some(value) => value.is_truthy()?,
            None => false,
        };
        let on_fault = policy.getattr_opt("on_fault")?.unwrap_or_else(|| on_read.clone());
        Ok(PythonReadahead {
            on_read: on_read.unbind(),
            on_fault: on_fault.unbind(),
            sees_hits,
            window: None,
            stop: Arc::clone(&self.stop),
        })
    }
}

/// The policy of one open file.
struct PythonReadahead {
    on_read: Py<PyAny>,
    on_fault: Py<PyAny>,
    sees_hits: bool,
    window: Option<Window>,
    stop: Arc<Stop>,
}

impl fmt::Debug for PythonReadahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonReadahead").field("window", &self.window).finish_non_exhaustive()
    }
}

impl Readahead for PythonReadahead {
    fn on_read(&mut self, access: &readahead::Access, pages: &mut dyn AddressSpace) {
        let readahead::Access { page, remaining, first, found } = *access;
        self.answer(page, remaining, first, found, false, pages);
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        self.answer(fault.page, 1, true, fault.found, true, pages);
    }

    fn window(&self) -> Option<Window> {
        self.window
    }

    fn sees_hits(&self) -> bool {
        self.sees_hits
    }
}

impl PythonReadahead {
    /// Asks Python for a window and brings it in.
    fn answer(
        &mut self,
        page: PageIndex,
        remaining: u64,
        first: bool,
        found: Found,
        fault: bool,
        pages: &mut dyn AddressSpace,
    ) {
        if self.stop.is_set() {
            return;
        }
        let access = Access {
            page,
            remaining,
            first,
            found: match found {
                Found::Absent => "absent",
                Found::Marked => "marked",
                Found::Present => "present",
            },
            fault,
            file_pages: pages.file_pages(),
            available_pages: pages.available_pages(),
            congested: pages.congested(),
        };
        let method = if fault { &self.on_fault } else { &self.on_read };
        let asked = Python::attach(|py| window(&method.bind(py).call1((access,))?));
        if found == Found::Marked {
            pages.clear_marker(page);
        }
        match asked {
            Ok(None) => {}
            Ok(Some(window)) => {
                self.window = Some(window);
                bring(window, pages);
            }
            Err(error) => self.stop.set(error),
        }
    }
}

/// `None`, `(start, size)` or `(start, size, tail)`.
fn window(answer: &Bound<'_, PyAny>) -> PyResult<Option<Window>> {
    if answer.is_none() {
        return Ok(None);
    }
    let parsed = match answer.len() {
        Ok(2) => answer.extract().map(|(start, size)| (start, size, 0)),
        Ok(3) => answer.extract(),
        Ok(_) | Err(_) => Err(PyTypeError::new_err("")),
    };
    let (start, size, tail): (u64, u64, u64) = parsed.map_err(|_| {
        let given = answer.repr().map_or_else(|_| String::new(), |text| text.to_string());
        let wanted = "None, (start, size) or (start, size, tail) in pages";
        PyTypeError::new_err(format!("on_read answers with {wanted}, not {given}"))
    })?;
    if tail > size || size > WINDOW_MAX {
        return Err(PyValueError::new_err(format!(
            "a window of {size} pages with a tail of {tail}: a window has at most {WINDOW_MAX} \
             pages, and its tail is part of it"
        )));
    }
    Ok(Some(Window { start, size, tail }))
}

/// The largest window in pages: that of the compiled policies.
const WINDOW_MAX: u64 = 65_536;

/// Adds the absent pages of a window that lie in the file, as far as there is memory.
fn bring(window: Window, pages: &mut dyn AddressSpace) {
    let Window { start, size, tail } = window;
    let end = start.saturating_add(size);
    let marked = (tail > 0).then(|| end - tail);
    for page in start..end.min(pages.file_pages()) {
        if !pages.contains(page) && !pages.add(page, 0, marked == Some(page)) {
            break;
        }
    }
    pages.submit();
}

/// The throttle of a run.
struct PythonThrottle {
    on_dirtied: Py<PyAny>,
    stop: Arc<Stop>,
}

impl fmt::Debug for PythonThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonThrottle").finish_non_exhaustive()
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
        let asked = Python::attach(|py| pause(&self.on_dirtied.bind(py).call1((dirtied,))?));
        asked.unwrap_or_else(|error| {
            self.stop.set(error);
            None
        })
    }
}

/// `None`, or a number of seconds.
fn pause(answer: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if answer.is_none() {
        return Ok(None);
    }
    let wrong = |error: fn(String) -> PyErr| {
        let given = answer.repr().map_or_else(|_| String::new(), |text| text.to_string());
        let wanted = format!("None or seconds, above 0 and at most {PAUSE_MAX}");
        error(format!("on_dirtied answers with {wanted}, not {given}"))
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
