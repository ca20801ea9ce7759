//! The elevator: in which order a device gets the requests that wait for it.
//!
//! ```text
//!   bio --merge--> elevator --dispatch--> dispatch list --next--> driver --completed-->
//!                  (its order)            (the driver's order)
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `none` | today's kernels without a scheduler: first come, first served |
//! | `noop` | Linux 2.6.21: first come, first served, sorted against what is dispatched |
//! | `deadline` | Linux 2.6.21: sorted batches; a request that expires goes first |
//! | `anticipatory` | Linux 2.6.21: batches, and a wait for the task that was served last |
//! | `cfq` | Linux 2.6.21: a slice of time for each task in turn |
//! | `mq_deadline` | Linux 6.18: as `deadline`, with longer batches |
//!
//! The dispatch list is in `list`; requests by sector and by age are in `sorted`, and reads and
//! writes apart in `directions`; requests in the order of their coming are in `first_come`.

use core::fmt;

use crate::policy::{self, Slot};
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

pub use list::DispatchList;

mod anticipatory;
mod cfq;
#[cfg(test)]
mod conformance;
mod deadline;
mod directions;
mod first_come;
mod habits;
mod jiffies;
mod list;
mod mq_deadline;
mod nearer;
mod none;
mod noop;
mod roll;
mod sorted;
#[cfg(test)]
mod testing;

/// An elevator and its parameters.
pub type Spec = policy::Spec<dyn Elevator>;

/// A line of the table of elevators.
pub type Policy = policy::Policy<dyn Elevator>;

/// A request that waits, as an elevator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its name.
    pub id: RequestId,
    /// The first sector.
    pub sector: u64,
    /// The number of sectors, at least one.
    pub sectors: u64,
    /// Whether data go to the device.
    pub write: bool,
    /// Whether a task waits for it: reads, and writes that are durable when they are done.
    pub sync: bool,
    /// The task that asked; none for what the flusher sends.
    pub task: Option<CallId>,
}

impl Queued {
    /// The first sector behind it.
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors
    }
}

/// Whether the driver should take requests at once, although none has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Kick {
    /// The elevator was idling and has a reason to continue.
    Now,
    /// Whenever the queue runs next.
    Later,
}

/// Orders the requests of one device.
///
/// A queue calls [`insert`](Self::insert) once for each request, then lets the elevator move it to
/// the dispatch list once, says when the driver takes it ([`started`](Self::started)) and when it
/// is done ([`completed`](Self::completed)). Between insertion and dispatch it may have grown
/// ([`grown`](Self::grown)) or have taken another one in ([`joined`](Self::joined)), which is then
/// gone.
pub trait Elevator: fmt::Debug + Send {
    /// A request begins to wait.
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick;

    /// Moves requests to the dispatch list: at least one, unless there is none or the elevator
    /// idles, that is, holds the device free for a request that it expects.
    fn dispatch(&mut self, now: Instant, list: &mut DispatchList);

    /// The driver has taken a request from the dispatch list.
    fn started(&mut self, _now: Instant, _request: &Queued) {}

    /// The device is done with a request.
    fn completed(&mut self, _now: Instant, _request: &Queued) -> Kick {
        Kick::Later
    }

    /// A request that waits has become longer, at its end or its front.
    fn grown(&mut self, before: &Queued, after: &Queued);

    /// Two requests that wait have become one: `kept` was `before`, and `gone` is no more.
    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued);

    /// A request in this direction that waits and begins at `sector`: a bio that ends there may
    /// join it at its front.
    fn starts_at(&self, _sector: u64, _write: bool) -> Option<RequestId> {
        None
    }

    /// Whether a bio, as the request that it would become, may join a request that waits.
    fn may_merge(&self, _waiting: &Queued, _bio: &Queued) -> bool {
        true
    }

    /// Whether a bio is compared with every waiting request, or only with the latest one.
    fn merges_with_all(&self) -> bool {
        true
    }

    /// When an idling elevator should be polled again.
    fn timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether no request waits here.
    fn is_empty(&self) -> bool;

    /// How long a request waits at most from its insertion until the driver takes it, however many
    /// come after it, if at no time more than `others` others wait or are at the device, each takes
    /// the device at most `service`, and the driver takes one at a time. The elevator's own
    /// promise, which the conformance test holds it to; the greatest length where there is none.
    fn waits_at_most(&self, others: u64, service: Duration) -> Duration;
}

impl Slot for dyn Elevator {
    const NAME: &'static str = "elevator";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

/// Every elevator.
pub static POLICIES: &[Policy] = &[
    // Linux 6.18.
    none::POLICY,
    mq_deadline::POLICY,
    // Linux 2.6.21.
    noop::POLICY,
    deadline::POLICY,
    anticipatory::POLICY,
    cfq::POLICY,
];
