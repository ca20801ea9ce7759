//! Controllers: how the knobs of writeback follow the load.
//!
//! A policy is one file below this one and one line in [`POLICIES`]. It sees one [`Sample`] per
//! device a second, of either origin: the engine counts its own requests, a daemon reads the
//! running kernel's counters.
//!
//! # A controller without an engine
//!
//! ```
//! use forebay_core::control::{SAMPLE_INTERVAL, Sample, Spec};
//! use forebay_core::units::{MIB, PAGE_SIZE};
//! use forebay_core::writeback::Knobs;
//!
//! // 4 GiB could be dirty, and the kernel's own knobs are in force.
//! let total = 4096 * MIB / PAGE_SIZE;
//! let mut controller = Spec::parse("drain:limit_ms=1000,floor_mib=16").unwrap().build();
//! let mut knobs = controller.begin(Knobs::LINUX, total);
//!
//! // A disk that was seen to take 40 MiB a second, and has nothing dirty.
//! let drain = Some(40 * MIB / PAGE_SIZE);
//! let second = Sample { elapsed: SAMPLE_INTERVAL, drain, total, ..Sample::default() };
//! knobs = controller.observe(&[second], knobs);
//! assert_eq!(knobs.limit.pages(total) * PAGE_SIZE, 40 * MIB, "a second of it");
//! ```

use core::fmt::Debug;

use crate::policy::{self, Slot, Values};
use crate::time::Duration;
use crate::writeback::Knobs;

#[cfg(test)]
mod conformance;
mod drain;
mod fixed;
mod load_adaptive;
mod pages;

/// Every controller: the one table that names them.
pub static POLICIES: &[Policy] = &[
    fixed::POLICY,
    fixed::REDHAT,
    fixed::SOL,
    load_adaptive::DYN,
    load_adaptive::BOUNDED,
    drain::POLICY,
];

/// One line of the table of controllers.
pub type Policy = policy::Policy<dyn Controller>;

/// A controller and the values of its parameters.
pub type Spec = policy::Spec<dyn Controller>;

impl Slot for dyn Controller {
    const NAME: &'static str = "controller";

    fn policies() -> &'static [Policy] {
        POLICIES
    }

    fn contradiction(policy: &'static str, values: &Values<'_>) -> Option<&'static str> {
        match policy {
            "dyn" | "dyn-bounded" => load_adaptive::contradiction(values),
            "drain" => drain::contradiction(values),
            _ => None,
        }
    }
}

/// From one sample to the next.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// What one device did since the sample before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The length of the sample.
    pub elapsed: Duration,
    /// How long at least one request was at the device.
    pub busy: Duration,
    /// Completed reads.
    pub reads: Traffic,
    /// Completed writes, flushes not counted.
    pub writes: Traffic,
    /// Pages a second that the device takes when it only writes, once this has been measured.
    pub drain: Option<u64>,
    /// Pages of all devices that are dirty or under writeback, at the end of the sample.
    pub dirty: u64,
    /// Pages that could be dirty.
    pub total: u64,
}

/// Requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Their sectors.
    pub sectors: u64,
    /// The sum of their times at the device.
    pub time: Duration,
}

/// What turns the knobs.
pub trait Controller: Debug + Send {
    /// The knobs to begin with, from those of the flush rule, in a page memory of `total` pages.
    fn begin(&mut self, own: Knobs, _total: u64) -> Knobs {
        own
    }

    /// Whether [`observe`](Self::observe) has to be called at all.
    fn observes(&self) -> bool {
        true
    }

    /// A second has passed: one sample per device, and the knobs as they are; returns the knobs as
    /// they shall be.
    fn observe(&mut self, samples: &[Sample], knobs: Knobs) -> Knobs;
}
