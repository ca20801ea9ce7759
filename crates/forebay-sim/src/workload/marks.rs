//! What a workload notes down while it runs, for its caller to read afterwards.

use std::cell::RefCell;
use std::rc::Rc;

/// Notes that the tasks of a workload share with their caller, in the order of their making.
#[derive(Debug)]
pub struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T: Copy> Log<T> {
    /// An empty log with room for `count` notes.
    pub fn with_capacity(count: usize) -> Self {
        Self(Rc::new(RefCell::new(Vec::with_capacity(count))))
    }

    /// Adds a note.
    pub fn note(&self, note: T) {
        self.0.borrow_mut().push(note);
    }

    /// The latest note.
    pub fn last(&self) -> Option<T> {
        self.0.borrow().last().copied()
    }

    /// The notes so far.
    pub fn notes(&self) -> Vec<T> {
        self.0.borrow().clone()
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}
