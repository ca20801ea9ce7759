//! A trace of page faults: a program that touches mapped pages, one after another.

use forebay_core::io::Op;
use forebay_core::readahead::Mapping;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, PAGE_SIZE, PageIndex};
use forebay_core::workload::{Step, Workload};

/// One touch of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A page of a mapped file.
    Page(HandleId, PageIndex),
    /// A page that is read by `read`, as metadata are.
    Read(HandleId, PageIndex),
}

/// A task that touches the pages of an iterator and computes after each.
#[derive(Clone, Debug)]
pub struct Faults<I> {
    touches: I,
    computes: Duration,
    has_touched: bool,
}

impl<I: Iterator<Item = Touch>> Faults<I> {
    /// The touches, and what the program computes after each of them.
    pub fn new(touches: I, computes: Duration) -> Self {
        Self { touches, computes, has_touched: false }
    }
}

impl<I: Iterator<Item = Touch>> Workload for Faults<I> {
    fn next(&mut self, _now: Instant) -> Step {
        if std::mem::take(&mut self.has_touched) && self.computes > Duration::ZERO {
            return Step::Compute(self.computes);
        }
        self.has_touched = true;
        match self.touches.next() {
            None => Step::Exit,
            Some(Touch::Page(handle, page)) => {
                Step::Call(Op::Fault { handle, page, write: false, mapping: Mapping::WHOLE })
            }
            Some(Touch::Read(handle, page)) => {
                Step::Call(Op::Read { handle, offset: page * PAGE_SIZE, len: PAGE_SIZE })
            }
        }
    }
}
