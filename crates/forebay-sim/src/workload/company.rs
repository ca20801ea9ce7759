//! Tasks that keep a measured one company, and end when it has ended.

use std::cell::Cell;
use std::rc::Rc;

use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

/// When the measured tasks have ended.
#[derive(Clone, Debug, Default)]
pub struct Ended(Rc<State>);

#[derive(Debug, Default)]
struct State {
    running: Cell<u32>,
    at: Cell<Option<Instant>>,
}

impl Ended {
    /// The moment when the last measured task ended, if all have.
    pub fn at(&self) -> Option<Instant> {
        self.0.at.get()
    }

    /// Measures a task: the company stays until it has ended.
    pub fn measure<W: Workload>(&self, workload: W) -> Measured<W> {
        self.0.running.set(self.0.running.get() + 1);
        Measured { workload, ended: self.clone() }
    }
}

/// A task whose end is noted.
#[derive(Debug)]
pub struct Measured<W> {
    workload: W,
    ended: Ended,
}

impl<W: Workload> Workload for Measured<W> {
    fn next(&mut self, now: Instant) -> Step {
        let step = self.workload.next(now);
        if step == Step::Exit {
            let State { running, at } = &*self.ended.0;
            running.set(running.get() - 1);
            if running.get() == 0 {
                at.set(Some(now));
            }
        }
        step
    }
}

/// A task that only computes.
#[derive(Clone, Debug)]
pub struct Computes {
    /// When it ends.
    pub until: Ended,
    /// How long it computes before it looks again.
    pub stretch: Duration,
}

impl Workload for Computes {
    fn next(&mut self, _now: Instant) -> Step {
        match self.until.at() {
            None => Step::Compute(self.stretch),
            Some(_) => Step::Exit,
        }
    }
}

/// A task that reads a few pages over and over, one by one; only the first time it waits.
#[derive(Clone, Debug)]
pub struct Rereads {
    /// When it ends.
    pub until: Ended,
    /// The file.
    pub handle: HandleId,
    /// The first of its pages.
    pub first: u64,
    /// How many they are, at least one.
    pub pages: u64,
    /// How many it has read.
    pub at: u64,
}

impl Workload for Rereads {
    fn next(&mut self, _now: Instant) -> Step {
        if self.until.at().is_some() {
            return Step::Exit;
        }
        let offset = (self.first + self.at % self.pages) * PAGE_SIZE;
        self.at += 1;
        Step::Call(Op::Read { handle: self.handle, offset, len: PAGE_SIZE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_company_ends_with_the_last_of_the_measured() {
        struct Once(bool);
        impl Workload for Once {
            fn next(&mut self, _: Instant) -> Step {
                if std::mem::replace(&mut self.0, true) {
                    Step::Exit
                } else {
                    Step::Sleep(Instant(1))
                }
            }
        }
        let ended = Ended::default();
        let (mut one, mut other) = (ended.measure(Once(false)), ended.measure(Once(true)));
        let mut company = Computes { until: ended.clone(), stretch: Duration(5) };
        one.next(Instant(0));
        other.next(Instant(7));
        assert_eq!(company.next(Instant(7)), Step::Compute(Duration(5)));
        one.next(Instant(9));
        assert_eq!(ended.at(), Some(Instant(9)));
        assert_eq!(company.next(Instant(9)), Step::Exit);
    }
}
