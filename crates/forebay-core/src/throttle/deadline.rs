//! No write waits longer than a bound; the rest of its wait stays as a debt.
//!
//! Source:     Forebay.
//! Behaviour:  a writer's pages cost as much as under `paced`, but it sleeps at most 10 ms for
//!             every 16 pages. Once it owes more than a second, it sleeps 100 ms more for each 16
//!             pages. If the room below the limit is nearly used up, it sleeps all that it owes,
//!             but no more than the cost of 16 pages there.
//! Differs:    a throttle sees pages, not calls: a bound holds for every 16 pages that a task makes
//!             dirty, which is a write of 64 KiB. No more than two seconds are kept on account.
//! Not for:    more writers than the device serves within the bound, whose level rises to the
//!             ceiling, where all of them stop.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::pacing::Pacing;
use super::{DirtyView, Policy, Throttle, paced};
use crate::policy::Parameter;
use crate::time::{Duration, Instant};
use crate::units::CallId;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "deadline",
    summary: "as paced, but a write of 64 KiB sleeps at most 10 ms and owes the rest",
    source: "Forebay",
    parameters: &[
        Parameter {
            name: "cap",
            default: 10,
            low: 2,
            high: 100,
            summary: "the longest sleep for a write, in ms",
        },
        Parameter {
            name: "write",
            default: 16,
            low: 1,
            high: 1 << 16,
            summary: "pages that count as one write",
        },
        paced::GAIN,
        paced::CREDIT,
    ],
    build: |values| {
        let credit = Duration::from_millis(values.of("credit"));
        Box::new(Deadline {
            cap: Duration::from_millis(values.of("cap")),
            write: values.of("write"),
            gain: values.of("gain"),
            pacing: Pacing::new(credit),
            pages: Vec::new(),
        })
    },
};

/// A debt from which on a writer sleeps longer, and by how much.
const DEBT_LONG: Duration = Duration::from_secs(1);
const PAUSE_LONG: Duration = Duration::from_millis(100);

/// Debt beyond this is forgotten.
const DEBT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Deadline {
    cap: Duration,
    write: u64,
    gain: u64,
    pacing: Pacing,
    /// Pages of each task's present write.
    pages: Vec<u64>,
}

impl Throttle for Deadline {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        let band = self.pacing.enter(task, view)?;
        if !view.again && !view.newly {
            return None;
        }
        let rate = paced::proportional(view, &band, self.gain);
        if !view.again {
            self.pacing.charge(task, view, &band, rate);
        }
        let debt_max = match band.is_short() {
            true => self.pacing.cost(task, view, &band, rate).times(self.write),
            false => DEBT_MAX,
        };
        self.pacing.forgive(task, view.now, debt_max);
        let due = (!view.again && self.is_due(task)) || (view.again && band.is_short());
        self.pacing.without_room(task, view, &band).or_else(|| {
            let debt = self.pacing.pause(task, view.now).filter(|_| due)?;
            Some(if band.is_short() { debt } else { self.bounded(debt, task, view.now) })
        })
    }
}

impl Deadline {
    /// Whether the task's page is the last one of a write.
    fn is_due(&mut self, task: CallId) -> bool {
        if self.pages.len() <= task.index() {
            self.pages.resize(task.index() + 1, 0);
        }
        let pages = &mut self.pages[task.index()];
        *pages = (*pages + 1) % self.write;
        *pages == 0
    }

    fn bounded(&self, debt: Duration, task: CallId, now: Instant) -> Duration {
        let pause = debt.min(self.cap);
        match self.pacing.debt(task, now) > DEBT_LONG {
            true => pause + PAUSE_LONG,
            false => pause,
        }
    }
}
