//! A readahead policy that is written in Python: a class whose objects answer `on_read` with the
//! window that is to be there.
//!
//! ```text
//!   engine --Access--> on_read --(start, size, tail)--> absent pages of the window are read
//!                                        a marker stands `tail` pages before its end
//! ```

use std::fmt;
use std::sync::Arc;

use forebay_core::readahead::{self, AddressSpace, Fault, Found, Readahead, Spec, Window};
use forebay_core::units::PageIndex;
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

/// What makes a policy for each open file.
pub(crate) struct PythonPolicies {
    pub(crate) factory: Py<PyAny>,
    pub(crate) stop: Arc<Stop>,
}

impl PythonPolicies {
    /// A policy for a file. If it cannot be made, the run is stopped.
    pub(crate) fn build(&self) -> Box<dyn Readahead> {
        match Python::attach(|py| self.try_build(py)) {
            Ok(policy) => Box::new(policy),
            Err(error) => {
                self.stop.set(error);
                Spec::parse("off").expect("the table has it").build()
            }
        }
    }

    fn try_build(&self, py: Python<'_>) -> PyResult<PythonReadahead> {
        let policy = self.factory.bind(py).call0()?;
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
