//! Flushing: which dirty pages go to their device, and when.
//!
//! A rule is one file below this one and one line in [`POLICIES`]. It is notified of every page
//! that becomes dirty. It runs whenever its state may have changed (its timeout has passed, a write
//! has completed, memory is short, a page requested it). It acts on the [`DirtyPages`] it is given:
//! it reads their levels and ages and submits some to their device until it is
//! [`Full`](Sent::Full). Pages that a task must have on the device (fsync) and pages that block
//! reclaim are written by the path itself, whatever the rule.
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

    /// The dirty state of a file.
    fn file(&self, file: FileId) -> DirtyFile;

    /// When the page that has been dirty longest becomes old, among those not under writeback.
    fn oldest_due(&self) -> Option<Instant>;

    /// Writes the page that has been dirty longest, whatever its age.
    fn write_oldest(&mut self) -> Sent;

    /// Writes the first page, from the one that has been dirty longest on, that is old.
    fn write_due(&mut self) -> Sent;

    /// Writes up to `most` dirty pages of a file from `from` on, in rising order.
    fn write_file(&mut self, file: FileId, from: PageIndex, most: u64) -> Written;

    /// Writes the metadata of files that were changed before `changed`, if files have metadata.
    fn write_inodes(&mut self, changed: Instant) -> Sent;

    /// Counts a walk over the whole list of dirty pages, which takes time.
    fn count_walk(&mut self) {}

    /// Ends a pass: sends requests that are held back for others to join them, and wakes the calls
    /// that wait for the end of a pass.
    fn end_pass(&mut self);

    /// Whether the dirty pages of the whole system exceed an amount; those under writeback are not
    /// counted.
    fn is_exceeded(&self, amount: Amount) -> bool {
        amount.is_exceeded(self.all().dirty, self.total())
    }
}

/// The dirty state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyFile {
    /// Its device.
    pub device: DeviceId,
    /// Dirty pages that are not under writeback.
    pub dirty: u64,
    /// Since when it has had dirty pages, without a break. Pages redirtied under writeback count,
    /// and become dirty without further notice when their write completes.
    pub since: Option<Instant>,
}

/// The result of an attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A page was submitted.
    Page,
    /// There is no such page.
    Nothing,
    /// The device takes no further write for now; the rule runs again when a write is done.
    Full,
}

/// How far a write of a file went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Pages under writeback.
    pub pages: u64,
    /// The page to continue with: the one after the last.
    pub next: PageIndex,
    /// Why it ended: [`Sent::Page`] when `most` pages were sent, [`Sent::Nothing`] when no dirty
    /// page is left from there on, [`Sent::Full`] when the device takes no more.
    pub end: Sent,
}

/// What a page that became dirty requests.
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

    /// A page of `file` was clean and is dirty. A rule whose timeout begins with this page requests
    /// a run, however few pages are dirty.
    fn on_dirtied(&mut self, file: FileId, pages: &dyn DirtyPages) -> Demand;

    /// The state has changed: writes the pages that are due now.
    fn run(&mut self, pages: &mut dyn DirtyPages);

    /// When the rule has to run again in any case; queried after every run.
    fn timeout(&self) -> Option<Instant>;
}
