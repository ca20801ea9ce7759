//! A reclaim policy in Python.
//!
//! ```text
//!   engine --(file, page)--> on_added, on_accessed, on_dirtied, on_cleaned, on_removed
//!
//!   no frame is free --wanted--> make_room --pages, one after another--> busy? skipped : evicted
//!                                    '-- an iterable: a generator goes on after each page
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::reclaim::{Frame, FrameTable, Origin, Reclaim, evict};
use forebay_core::units::PageIndex;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::{Method, class_of, text_of};
use crate::stop::Stop;

/// The reclaim policy of a run.
#[derive(Debug)]
pub(crate) struct PythonReclaim {
    on_added: Method,
    on_accessed: Option<Method>,
    on_dirtied: Option<Method>,
    on_cleaned: Option<Method>,
    on_removed: Method,
    make_room: Method,
    evictable: Option<Method>,
    /// The policy itself.
    object: Py<PyAny>,
    /// Pages that one question frees beyond those that are needed.
    cluster: u64,
    /// Pages in memory.
    resident: u64,
    /// Of those, dirty ones and such that are under writeback.
    dirty: u64,
    /// Pages that have left since the question that is being answered, if there is one.
    left: Option<BTreeSet<Page>>,
    stop: Arc<Stop>,
}

/// A file's number, and a page of it.
type Page = (u32, PageIndex);

impl PythonReclaim {
    pub(super) fn make(policy: &Bound<'_, PyAny>, stop: Arc<Stop>) -> PyResult<Box<dyn Reclaim>> {
        Ok(Box::new(Self {
            on_added: Method::of(policy, "on_added")?,
            on_accessed: Method::optional(policy, "on_accessed")?,
            on_dirtied: Method::optional(policy, "on_dirtied")?,
            on_cleaned: Method::optional(policy, "on_cleaned")?,
            on_removed: Method::of(policy, "on_removed")?,
            make_room: Method::of(policy, "make_room")?,
            evictable: Method::optional(policy, "evictable")?,
            object: policy.clone().unbind(),
            cluster: 0,
            resident: 0,
            dirty: 0,
            left: None,
            stop,
        }))
    }

    /// Tells Python what has happened to a page.
    fn tell(&self, method: Option<&Method>, arguments: impl for<'py> PyCallArgs<'py>) {
        let Some(method) = method.filter(|_| !self.stop.is_set()) else { return };
        if let Err(error) = Python::attach(|py| method.call(py, arguments).map(drop)) {
            self.stop.set(error);
        }
    }

    /// Asks Python for pages until there is room, or it has no further one.
    fn ask(&mut self, py: Python<'_>, pages: u64, table: &mut FrameTable<'_>) -> PyResult<()> {
        let target = pages.saturating_add(self.cluster);
        let answer = self.make_room.call(py, (target.saturating_sub(table.free()),))?;
        let named = answer.try_iter().map_err(|_| {
            let wanted = "pages, each of them (file, page)";
            self.wrong::<PyTypeError>(&format!("answers with {wanted}, not {}", text_of(&answer)))
        })?;
        let (mut count, mut in_vain) = (0_u64, 0_u64);
        self.left = Some(BTreeSet::new());
        for page in named {
            let page = self.make_room.noted(py, page)?;
            let key: Page = page.extract().map_err(|_| {
                let given = text_of(&page);
                self.wrong::<PyTypeError>(&format!("names a page as (file, page), not {given}"))
            })?;
            count += 1;
            match table.frame_of(key.0, key.1) {
                Some(frame) if !table.is_busy(frame) => {
                    evict(self, frame, table);
                    in_vain = 0;
                }
                // A busy page stays. One that has left since the question left with its folio.
                found if found.is_some() || self.has_left(&key) => in_vain += 1,
                _ => {
                    let what = format!("names page {key:?}, which is not in memory");
                    return Err(self.wrong::<PyValueError>(&what));
                }
            }
            if self.stop.is_set() || table.free() >= target {
                return Ok(());
            }
            if in_vain > IN_VAIN_PER_PAGE * self.resident + IN_VAIN_PER_PAGE {
                let what = format!("names {in_vain} pages in a row that cannot leave");
                return Err(self.wrong::<PyValueError>(&format!("{what}, and does not end")));
            }
        }
        if table.free() < pages && self.dirty < self.resident && idle(table).next().is_some() {
            let what = format!("names {count} pages, after which there is no room");
            return Err(self.wrong::<PyValueError>(&format!("{what}, although others can leave")));
        }
        Ok(())
    }

    /// Whether a page has left since the question.
    fn has_left(&self, page: &Page) -> bool {
        self.left.as_ref().is_some_and(|left| left.contains(page))
    }

    /// What `make_room` does wrong.
    fn wrong<E: pyo3::PyTypeInfo>(&self, what: &str) -> PyErr {
        PyErr::new::<E, _>(format!("{} {what}", self.make_room.name))
    }

    /// Asks the policy what it has noted; nothing if it does not answer, or after an error.
    fn asked<T>(&self, ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.stop.is_set() {
            return None;
        }
        Python::attach(ask).map_err(|error| self.stop.set(error)).ok()
    }
}

impl Reclaim for PythonReclaim {
    fn begin(&mut self, frames: u32) {
        let cluster = self.asked(|py| {
            let object = self.object.bind(py);
            if let Some(begin) = Method::optional(object, "begin")? {
                begin.call(py, (frames,))?;
            }
            let Some(given) = object.getattr_opt("cluster")? else { return Ok(0) };
            given.extract::<u32>().map_err(|_| {
                let (class, given) = (class_of(object), text_of(&given));
                PyTypeError::new_err(format!("{class}.cluster is a number of pages, not {given}"))
            })
        });
        self.cluster = cluster.unwrap_or(0).min(frames).into();
    }

    fn on_added(&mut self, frame: u32, origin: Origin, table: &mut FrameTable<'_>) {
        self.resident += 1;
        let origin = match origin {
            Origin::Read => "read",
            Origin::Write => "write",
        };
        self.tell(Some(&self.on_added), (table.key(frame), origin));
    }

    fn on_accessed(&mut self, frame: u32, first: bool, table: &mut FrameTable<'_>) {
        self.tell(self.on_accessed.as_ref(), (table.key(frame), first));
    }

    fn on_dirtied(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.dirty += 1;
        self.tell(self.on_dirtied.as_ref(), (table.key(frame),));
    }

    fn on_cleaned(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.dirty -= 1;
        self.tell(self.on_cleaned.as_ref(), (table.key(frame),));
    }

    fn on_removed(&mut self, frame: u32, evicted: bool, table: &mut FrameTable<'_>) {
        self.resident -= 1;
        let key = table.key(frame);
        if let Some(left) = &mut self.left {
            left.insert(key);
        }
        self.tell(Some(&self.on_removed), (key, evicted));
    }

    fn make_room(&mut self, pages: u64, _origin: Origin, table: &mut FrameTable<'_>) -> bool {
        if !self.stop.is_set() {
            let asked = Python::attach(|py| self.ask(py, pages, table));
            self.left = None;
            if let Err(error) = asked {
                self.stop.set(error);
            }
        }
        if self.stop.is_set() && table.free() < pages {
            let frames: Vec<u32> = idle(table).collect();
            for frame in frames {
                // The folio of a frame may have left with another of its pages.
                if table.is_present(frame) {
                    evict(self, frame, table);
                }
            }
        }
        table.free() >= pages
    }

    fn evictable(&self) -> u64 {
        let Some(method) = &self.evictable else { return self.resident - self.dirty };
        let asked = self.asked(|py| {
            let answer = method.call(py, ())?;
            answer.extract().map_err(|_| {
                let given = text_of(&answer);
                let what = format!("{} answers with a number of pages, not {given}", method.name);
                PyTypeError::new_err(what)
            })
        });
        asked.unwrap_or(0).min(self.resident)
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let resident = frames.iter().filter(|frame| frame.is_present()).count();
        assert_eq!(resident as u64, self.resident, "pages are counted");
        resident
    }

    fn lists_dirty(&self) -> bool {
        true
    }
}

/// Frames whose page can leave.
fn idle(table: &FrameTable<'_>) -> impl Iterator<Item = u32> {
    (0..table.used()).filter(|frame| table.is_present(*frame) && !table.is_busy(*frame))
}

/// How often a page of memory may be named in vain in one answer.
const IN_VAIN_PER_PAGE: u64 = 4;
