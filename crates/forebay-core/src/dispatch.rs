//! Dispatch: which task runs while the device works.
//!
//! A request is either *deferred*, that is queued, and the processor goes to another task until the
//! device is done; or it is carried out *inline*, in the context of the asker, which keeps the
//! processor meanwhile. What counts is the part of the device's time that another task could use.
//!
//! ```text
//!   deferred   asker |==|  switch  | another task, or idle      |  switch  |==|
//!              device   |---------- t ----------|
//!   inline     asker |==|..........waits........|==|
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `deferred` | always queue and switch |
//! | `inline` | never, on a device that is marked as fast |
//! | `adaptive` | as each class of requests was seen to cost least |
//! | `overlap`, `trials` | what it knows: times of the device; what was done per time |

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

/// What a request is like when the decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Whether data go to the device.
    pub write: bool,
    /// The number of bytes.
    pub bytes: u64,
    /// No task waits for any byte of it: it was read ahead, or it is flushed.
    pub ahead: bool,
}

/// What is known of a device beforehand.
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
    /// Electronics alone: flash, memory.
    #[default]
    Solid,
    /// Moving parts.
    Rotating,
    /// A network.
    Remote,
}

/// What is known of the processor at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// What it costs to give the asker's processor away and back, refilling its caches included.
    pub switch: Duration,
    /// Whether another task could use the asker's processor while it waits.
    pub contended: bool,
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It is queued, and the processor goes to another task.
    Deferred,
    /// It goes to the device at once, and the asker keeps the processor until the device is done,
    /// but no longer than this, which is never zero; then as if it had been deferred.
    Inline(Duration),
}

impl Handling {
    /// Inline, however long it takes.
    pub const INLINE: Self = Self::Inline(Duration(u64::MAX));
}

/// Decides for each request of one device which task runs while the device works.
pub trait Dispatch: fmt::Debug + Send {
    /// How a request is carried out. A request may be deferred whatever the rule says: when others
    /// wait before it, or when it has to be safe.
    fn choose(
        &mut self,
        now: Instant,
        class: &Class,
        medium: Medium,
        processor: Processor,
    ) -> Handling;

    /// A request that was handled so is done, `took` after it went to the device. That is the
    /// device's time unless a task had to wait for a processor meanwhile: a spinner that was
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
