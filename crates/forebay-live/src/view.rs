//! What two samples and the events between them say, as one plain value.
//!
//! ```text
//!   two Samples ----> per device: bandwidth, IOPS, latency, queue, utilisation
//!               \---> dirty level against its limits, pressure stall
//!   FileSeen -------> per file: pages brought in and used, pattern
//!   ThreadSeen -----> the same per process, with its pauses
//! ```
//!
//! Nothing here reads a file or a clock: two samples, recorded or fresh, give the view.

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};

use crate::machine::Machine;
use crate::number::{DevNumber, FileKey};
use crate::pattern::{Counts, Ends, FileSeen, Pattern};
use crate::signal::{Pressure, Sample};
use crate::trace::{Event, What};

mod device;
mod level;
mod process;

pub use device::{DeviceView, Flow};
pub use level::{DirtyView, StallView};
pub use process::ProcessView;

/// What a view is made of.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// The machine, for names and limits.
    pub machine: &'a Machine,
    /// Counters at its begin.
    pub before: &'a Sample,
    /// Counters at its end.
    pub after: &'a Sample,
    /// Files that had readahead events.
    pub files: &'a [FileSeen],
    /// What else the events said.
    pub writers: &'a Writers,
    /// Processes that are known: those that caused events, or all.
    pub processes: &'a [ProcessSeen],
    /// The process of each thread that caused events.
    pub owners: &'a BTreeMap<u32, u32>,
    /// Names of files, as far as they were found.
    pub paths: &'a BTreeMap<FileKey, String>,
    /// Lengths of files in bytes, as far as they are known.
    pub sizes: &'a BTreeMap<FileKey, u64>,
    /// Events that were overwritten before they were read.
    pub lost: u64,
    /// Whether events of files are recorded.
    pub sees_files: bool,
    /// What cannot be seen, in sentences.
    pub gaps: &'a [String],
}

/// A process in a period, from its own counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSeen {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What its counters say; none if they may not be read.
    pub counters: Option<ProcessCounts>,
}

/// Differences of `/proc/PID/io` and of the major faults in `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Bytes brought in from devices.
    pub brought: u64,
    /// Bytes that it can have used: what it asked for, or a page for each major fault.
    pub used: u64,
    /// Bytes that it made dirty.
    pub written: u64,
    /// Major faults.
    pub faults: u64,
}

/// Pauses of writers and bandwidths of devices, as events tell them.
#[derive(Clone, Debug, Default)]
pub struct Writers {
    pauses: BTreeMap<(u32, DevNumber), Pauses>,
    bandwidths: BTreeMap<DevNumber, u64>,
}

/// Pauses of a thread in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// All together, in ms.
    pub total_ms: u64,
    /// The longest, in ms.
    pub longest_ms: u64,
}

/// The path of the running kernel in one period.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Its end, by the monotonic clock.
    pub at: Instant,
    /// Its length.
    pub period: Duration,
    /// Stall of tasks that wait for a device; none without pressure stall information.
    pub stall: Option<StallView>,
    /// Dirty memory of the machine.
    pub dirty: DirtyView,
    /// Devices in the order of `/proc/diskstats`.
    pub devices: Vec<DeviceView>,
    /// Files, those that most was brought in for first.
    pub files: Vec<FileView>,
    /// Processes, those that most was brought in for first.
    pub processes: Vec<ProcessView>,
    /// Events that were overwritten before they were read, at least.
    pub lost: u64,
    /// Whether events of files are seen, so that no file means that none was read.
    pub sees_files: bool,
    /// What cannot be seen, in sentences.
    pub gaps: Vec<String>,
}

/// Readahead for a file.
#[derive(Clone, Debug)]
pub struct FileView {
    /// The file.
    pub file: FileKey,
    /// Its name, if it was found.
    pub path: Option<String>,
    /// What it is being asked.
    pub pattern: Pattern,
    /// Events in the period.
    pub events: u64,
    /// Bytes brought in, in the period.
    pub brought: u64,
    /// Of those, bytes that events show to be wanted.
    pub used: u64,
    /// The largest window in bytes; 0 if no event says.
    pub window: u64,
    /// Processes that asked, by number.
    pub processes: Vec<u32>,
}

impl View {
    /// The view of a period.
    pub fn of(period: &Period<'_>) -> Self {
        let length = period.after.at.since(period.before.at);
        let mut files: Vec<FileView> =
            period.files.iter().map(|seen| file_view(period, seen)).collect();
        files.sort_by(|a, b| b.brought.cmp(&a.brought).then(a.file.cmp(&b.file)));
        let pressures = (period.before.io_pressure, period.after.io_pressure);
        Self {
            at: period.after.at,
            period: length,
            stall: match pressures {
                (Some(before), Some(after)) => Some(StallView::of(&before, &after, length)),
                (Some(_) | None, _) => None,
            },
            dirty: DirtyView::of(period, length),
            devices: device::devices(period, length),
            files,
            processes: process::processes(period),
            lost: period.lost,
            sees_files: period.sees_files,
            gaps: period.gaps.to_vec(),
        }
    }
}

impl FileView {
    /// Bytes brought in for each byte used; none if nothing was brought in.
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.brought, self.used)
    }
}

impl Writers {
    /// Takes in an event; those about readahead are passed over.
    pub fn record(&mut self, event: &Event) {
        match event.what {
            What::Readahead(_) => {}
            What::Pause(pause) => {
                let is_new = !self.pauses.contains_key(&(event.pid, pause.bdi));
                if is_new && self.pauses.len() >= WRITERS_MAX {
                    return;
                }
                let pauses = self.pauses.entry((event.pid, pause.bdi)).or_default();
                let length = u64::from(pause.pause_ms);
                pauses.count += 1;
                pauses.total_ms += length;
                pauses.longest_ms = pauses.longest_ms.max(length);
            }
            What::Bandwidth { bdi, bandwidth } => {
                self.bandwidths.insert(bdi, bandwidth);
            }
            What::Sync { .. } => {}
        }
    }

    /// Begins the next period: pauses are gone, bandwidths stay until there are better ones.
    pub fn next_period(&mut self) {
        self.pauses.clear();
    }

    /// Threads that paused in the period, with the devices that they wrote to.
    pub fn pauses(&self) -> impl Iterator<Item = (u32, DevNumber, Pauses)> + '_ {
        self.pauses.iter().map(|((thread, bdi), pauses)| (*thread, *bdi, *pauses))
    }

    /// The kernel's last word on a device's write bandwidth, in bytes a second.
    pub fn bandwidth(&self, bdi: DevNumber) -> Option<u64> {
        self.bandwidths.get(&bdi).copied().filter(|bandwidth| *bandwidth > 0)
    }
}

fn file_view(period: &Period<'_>, seen: &FileSeen) -> FileView {
    let page = period.machine.page_size;
    let owner = |thread: u32| period.owners.get(&thread).copied().unwrap_or(thread);
    let mut processes: Vec<u32> = seen.threads.iter().map(|it| owner(it.thread)).collect();
    processes.sort_unstable();
    processes.dedup();
    FileView {
        file: seen.file,
        path: period.paths.get(&seen.file).cloned(),
        pattern: seen.pattern,
        events: seen.counts.events(),
        brought: brought(period, seen.file, &seen.counts, &seen.ends),
        used: seen.counts.used.saturating_mul(page),
        window: seen.window.saturating_mul(page),
        processes,
    }
}

/// Bytes that were brought in of a file; what windows hold beyond its end is not.
fn brought(period: &Period<'_>, file: FileKey, counts: &Counts, ends: &Ends) -> u64 {
    let page = period.machine.page_size;
    let size = period.sizes.get(&file);
    let beyond = size.map_or(0, |bytes| ends.beyond(bytes.div_ceil(page.max(1))));
    // A file that has grown since has at least what was used of it.
    let pages = counts.brought.saturating_sub(beyond).max(counts.used.min(counts.brought));
    pages.saturating_mul(page)
}

/// So many for each; none of nothing.
fn ratio(brought: u64, used: u64) -> Option<f64> {
    (brought > 0).then(|| brought as f64 / used.max(1) as f64)
}

/// So much a second.
fn per_second(amount: u64, length: Duration) -> f64 {
    if length.0 == 0 { 0.0 } else { amount as f64 * 1e9 / length.0 as f64 }
}

/// Threads whose pauses are told apart in a period; those of further ones are not shown.
pub const WRITERS_MAX: usize = 1024;

#[cfg(test)]
mod tests;
