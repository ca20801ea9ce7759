//! A readahead policy in Python.
//!
//! ```text
//!   engine --Access--> on_read --(start, size, tail)--> absent pages of the window are read
//!                                        a marker stands `tail` pages before its end
//! ```

use std::sync::Arc;

use forebay_core::readahead::{self, AddressSpace, Fault, Found, Readahead, Window};
use forebay_core::units::PageIndex;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::{Method, text_of};
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

/// The policy of one open file.
#[derive(Debug)]
pub(crate) struct PythonReadahead {
    on_read: Method,
    /// Answers for faults, if it is not `on_read`.
    on_fault: Option<Method>,
    sees_hits: bool,
    window: Option<Window>,
    stop: Arc<Stop>,
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
    pub(super) fn make(policy: &Bound<'_, PyAny>, stop: Arc<Stop>) -> PyResult<Box<dyn Readahead>> {
        let sees_hits = match policy.getattr_opt("sees_hits")? {
            Some(value) => value.is_truthy()?,
            None => false,
        };
        Ok(Box::new(Self {
            on_read: Method::of(policy, "on_read")?,
            on_fault: Method::optional(policy, "on_fault")?,
            sees_hits,
            window: None,
            stop,
        }))
    }

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
        let on_fault = self.on_fault.as_ref().filter(|_| fault);
        let method = on_fault.unwrap_or(&self.on_read);
        let asked = Python::attach(|py| window(&method.call(py, (access,))?, &method.name));
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
fn window(answer: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Window>> {
    if answer.is_none() {
        return Ok(None);
    }
    let parsed = match answer.len() {
        Ok(2) => answer.extract().map(|(start, size)| (start, size, 0)),
        Ok(3) => answer.extract(),
        Ok(_) | Err(_) => Err(PyTypeError::new_err("")),
    };
    let (start, size, tail): (u64, u64, u64) = parsed.map_err(|_| {
        let wanted = "None, (start, size) or (start, size, tail) in pages";
        PyTypeError::new_err(format!("{method} answers with {wanted}, not {}", text_of(answer)))
    })?;
    if tail > size || size > WINDOW_MAX {
        return Err(PyValueError::new_err(format!(
            "{method} answers with a window of {size} pages and a tail of {tail}: a window has at \
             most {WINDOW_MAX} pages, and its tail is part of it"
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
