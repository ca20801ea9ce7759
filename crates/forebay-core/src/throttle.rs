//! Throttling: how long a writer waits after it has made a page dirty.
//!
//! A policy is one file below this one and one line in [`POLICIES`]. It is called for every written
//! page, and again when the task resumes from the pause that it was given. It stores state for each
//! task by the number of the task's calls.
//!
//! ```text
//!   page copied, dirty --> on_dirtied --none--> next page
//!                            ^    |
//!                            |    | pause
//!                   again: resumed and asked again
//! ```

use core::fmt::Debug;

use crate::policy::{self, Slot};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId};
use crate::writeback::Levels;

#[cfg(test)]
mod comparison;
#[cfg(test)]
mod conformance;
mod deadline;
mod linux_3_18;
mod linux_6_12;
mod off;
mod paced;
mod pacing;
mod paper_3_18;
mod pi;
mod share;
#[cfg(test)]
mod testing;

/// Every throttle: the one table that names them.
pub static POLICIES: &[Policy] = &[
    off::POLICY,
    paper_3_18::POLICY,
    linux_3_18::POLICY,
    linux_6_12::POLICY,
    paced::POLICY,
    pi::POLICY,
    deadline::POLICY,
];

/// One line of the table of throttles.
pub type Policy = policy::Policy<dyn Throttle>;

/// A throttle and the values of its parameters.
pub type Spec = policy::Spec<dyn Throttle>;

impl Slot for dyn Throttle {
    const NAME: &'static str = "throttle";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

/// A throttle's view when a page has been written.
#[derive(Clone, Copy, Debug)]
pub struct DirtyView {
    /// The present moment.
    pub now: Instant,
    /// Whether the page was clean before; a page that was dirty already costs the device nothing.
    pub newly: bool,
    /// Whether the task comes back from a pause and no further page was written.
    pub again: bool,
    /// Pages of the whole page memory.
    pub all: Levels,
    /// The level above which the flush rule writes, in pages.
    pub background: u64,
    /// The level above which writers wait, in pages.
    pub limit: u64,
    /// The device that the page belongs to.
    pub device: DeviceId,
    /// Its pages.
    pub own: Levels,
    /// Pages a second that it takes, once this has been measured.
    pub drain: Option<u64>,
}

/// How long writers wait. The length of a pause counts from the moment of the question.
pub trait Throttle: Debug + Send {
    /// Task `task` has written a page: nothing, or the length of its pause.
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration>;
}
