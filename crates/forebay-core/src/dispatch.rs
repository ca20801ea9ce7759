//! Dispatch: which task runs while the device works.
//!
//! A request is either *deferred*: it is queued, and the processor goes to another task until the
//! device is done. Or it is executed *inline*: in the context of the caller, which keeps the
//! processor in the meantime. What counts is the part of the device's time that another task could
//! use.
//!
//! ```text
//!   deferred   caller|==|  switch  | another task, or idle      |  switch  |==|
//!              device   |---------- t ----------|
//!   inline     caller|==|..........waits........|==|
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `deferred` | always queue and switch |
//! | `inline` | never, on a device that is marked as fast |
//! | `adaptive` | each class of requests in the cheapest way measured |
//! | `overlap`, `trials` | its measurements: times of the device; work done per time |

use core::fmt;

use crate::policy::{self, Slot};
use crate::time::{Duration, Instant};

mod adaptive;
#[cfg(test)]
mod conformance;
mod deferred;
mod inline;
mod overlap;
#[cfg(test)]
mod situations;
#[cfg(test)]
mod testing;
mod trials;

/// A rule of dispatch and its parameters.
pub type Spec = policy::Spec<dyn Dispatch>;

/// A line of the table of rules of dispatch.
pub type Policy = policy::Policy<dyn Dispatch>;

/// Properties of a request at the time of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Whether data go to the device.
    pub write: bool,
    /// The number of bytes.
    pub bytes: u64,
    /// No task waits for any byte of it: it was read ahead, or it is flushed.
    pub ahead: bool,
}

/// Properties of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Medium {
    /// What its waiting times are made of.
    pub kind: MediumKind,
    /// The processor moves the data itself, word by word, and polls the device: no part of the
    /// device's time can be used otherwise.
    pub programmed: bool,
}

/// What a device's waiting times are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediumKind {
    /// Only electronics: flash, memory.
    #[default]
    Solid,
    /// Moving parts.
    Rotating,
    /// A network.
    Remote,
}

/// State of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// The cost of switching the caller's processor to another task and back, including cache
    /// refills.
    pub switch: Duration,
    /// Whether another task could use the caller's processor while it waits.
    pub contended: bool,
}

/// How a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It is queued, and the processor goes to another task.
    Deferred,
    /// It goes to the device at once, and the caller keeps the processor until the device is done,
    /// but no longer than this time, which is never zero; after that the request counts as
    /// deferred.
    Inline(Duration),
}

impl Handling {
    /// Inline, however long it takes.
    pub const INLINE: Self = Self::Inline(Duration(u64::MAX));
}

/// Decides for each request of one device which task runs while the device works.
pub trait Dispatch: fmt::Debug + Send {
    /// How a request is executed. A request may be deferred whatever the rule returns: if other
    /// requests wait before it, or if it has to be durable.
    fn choose(
        &mut self,
        now: Instant,
        class: &Class,
        medium: Medium,
        processor: Processor,
    ) -> Handling;

    /// A request that was handled this way has completed, `took` after it went to the device. This
    /// is the device's time unless a task had to wait for a processor: a spinning caller that was
    /// preempted, or the thread of a driver that moves the data.
    fn learn(&mut self, _now: Instant, _class: &Class, _handling: Handling, _took: Duration) {}

    /// How many classes of requests are kept from spinning to the end because they are slow.
    fn slow_classes(&self) -> u32 {
        0
    }
}

/// The ways between which a rule can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Deferred,
    Limited,
    Inline,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Deferred, Self::Limited, Self::Inline];
}

impl Slot for dyn Dispatch {
    const NAME: &'static str = "dispatch";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

/// Every rule of dispatch.
pub static POLICIES: &[Policy] = &[deferred::POLICY, inline::POLICY, adaptive::POLICY];
