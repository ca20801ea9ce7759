//! Flushing: which dirty pages go to their device, and when.
//!
//! A rule is one file below this one and one line in [`POLICIES`]. It is told of every page that
//! becomes dirty, runs whenever something has changed for it (its time has come, a write is done,
//! memory is short, a page asked for it), and acts on the [`DirtyPages`] it is given: it asks for
//! their levels and ages and sends some to their device until it is [`Full`](Sent::Full). What a
//! task must have on the device (fsync) and what blocks reclaim for good is written by the path
//! itself, whatever the rule.
//!
//! ```text
//!   page dirty --> on_dirtied: go on | run | run and wait for the end of a pass
//!                                       |
//!   write done, timeout, no memory --> run --> DirtyPages: write_oldest, write_due, write_file
//! ```

use core::fmt::Debug;

use crate::policy::{self, Slot, Values};
use crate::time::Instant;
use crate::units::{DeviceId, FileId, PageIndex};
use crate::writeback::{Amount, Knobs, Levels};

mod bdflush_2_2_19;
pub mod bdflush_vector;
#[cfg(test)]
mod conformance;
mod inodes;
mod linux_6;
#[cfg(test)]
mod testing;

/// Every flush rule: the one table that names them.
pub static POLICIES: &[Policy] = &[bdflush_2_2_19::POLICY, linux_6::POLICY];

/// One line of the table of flush rules.
pub type Policy = policy::Policy<dyn Flush>;

/// A flush rule and the values of its parameters.
pub type Spec = policy::Spec<dyn Flush>;

impl Slot for dyn Flush {
    const NAME: &'static str = "flush";

    fn policies() -> &'static [Policy] {
        POLICIES
    }

    fn contradiction(policy: &'static str, values: &Values<'_>) -> Option<&'static str> {
        match policy {
            "linux-6" => linux_6::contradiction(values),
            _ => None,
        }
    }
}

/// What a flush rule may see and do of all dirty pages.
pub trait DirtyPages {
    /// The present moment.
    fn now(&self) -> Instant;

    /// The knobs as they are now.
    fn knobs(&self) -> &Knobs;

    /// Pages that could be dirty: all of page memory.
    fn total(&self) -> u64;

    /// The levels of the whole page memory.
    fn all(&self) -> Levels;

    /// The levels of one device.
    fn device(&self, device: DeviceId) -> Levels;

    /// Pages a second that a device takes, once this has been measured.
    fn drain(&self, device: DeviceId) -> Option<u64>;

    /// Whether a call waits for memory that dirty pages occupy.
    fn memory_is_short(&self) -> bool;

    /// A file as far as it is dirty.
    fn file(&self, file: FileId) -> DirtyFile;

    /// When the page that has been dirty longest becomes old, among those not on their way.
    fn oldest_due(&self) -> Option<Instant>;

    /// Writes the page that has been dirty longest, whatever its age.
    fn write_oldest(&mut self) -> Sent;

    /// Writes the first page, from the one that has been dirty longest on, that is old.
    fn write_due(&mut self) -> Sent;

    /// Writes up to `most` dirty pages of a file from `from` on, in rising order.
    fn write_file(&mut self, file: FileId, from: PageIndex, most: u64) -> Written;

    /// Writes the metadata of the files that have been changed since before `changed`, as far as
    /// files have metadata of their own.
    fn write_inodes(&mut self, changed: Instant) -> Sent;

    /// Counts a walk over the whole list of dirty pages, which takes time.
    fn count_walk(&mut self) {}

    /// Ends a pass: sends requests that are held back for others to join them, and wakes the calls
    /// that wait for the end of a pass.
    fn end_pass(&mut self);

    /// Whether an amount is exceeded by the dirty pages of the whole, those on their way not
    /// counted.
    fn is_exceeded(&self, amount: Amount) -> bool {
        amount.is_exceeded(self.all().dirty, self.total())
    }
}

/// A file as far as it is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyFile {
    /// Its device.
    pub device: DeviceId,
    /// Dirty pages that are not on their way.
    pub dirty: u64,
    /// Since when it has had dirty pages, without a break; those that were redirtied on their way
    /// count, and become dirty without further notice when their write ends.
    pub since: Option<Instant>,
}

/// What became of an attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A page is on its way.
    Page,
    /// There is no such page.
    Nothing,
    /// The device takes no further write for now; the rule runs again when a write is done.
    Full,
}

/// How far a write of a file went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Pages on their way.
    pub pages: u64,
    /// Where to go on: the page behind the last one.
    pub next: PageIndex,
    /// Why it ended: [`Sent::Page`] when `most` pages were sent, [`Sent::Nothing`] when no dirty
    /// page is left from there on, [`Sent::Full`] when the device takes no more.
    pub end: Sent,
}

/// What a page that became dirty asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing for now.
    Nothing,
    /// The rule shall run.
    Run,
    /// The rule shall run, and the writer sleeps until a pass has ended.
    RunAndWait,
}

/// A flush rule and its state.
pub trait Flush: Debug + Send {
    /// The knobs that the rule was set up with.
    fn knobs(&self) -> Knobs;

    /// A page of `file` was clean and is dirty. A rule whose timeout begins with this page asks for
    /// a run, however little is dirty.
    fn on_dirtied(&mut self, file: FileId, pages: &dyn DirtyPages) -> Demand;

    /// Something has changed: writes what is to be written now.
    fn run(&mut self, pages: &mut dyn DirtyPages);

    /// When the rule wants to run again whatever happens; asked after every run.
    fn timeout(&self) -> Option<Instant>;
}
