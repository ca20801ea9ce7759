//! Writeback of Linux 6: background above a level, old files now and then, file by file.
//!
//! Source:     Linux 6.12, fs/fs-writeback.c and mm/page-writeback.c; fs/jbd2/journal.c for the
//!             metadata.
//! Behaviour:  above the background level, and while memory is short, the dirty files of each
//!             device are written in turn, a chunk of each at a time, in rising order of pages from
//!             where the last chunk ended. Every interval, files that have been dirty for longer
//!             than the age are written too, as many pages as they had dirty then. Metadata goes
//!             every commit interval.
//! Differs:    one background level for all devices, without a share for each. A changed interval
//!             counts from the next look on and starts no flush of everything. The time slice of a
//!             chunk is left out. The journal's blocks are those of the files' metadata.
//! Not for:    comparisons of control groups, which are not modelled.
//!
//! ```text
//!   device 0   file 3 | file 1 | file 7        chunk --> to the end of its line
//!   device 1   file 2 | file 4                 one chunk of each device that is not full, in turn
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::inodes::Inodes;
use super::{Demand, DirtyPages, Flush, Policy, Sent};
use crate::policy::{Parameter, Values};
use crate::time::{Duration, Instant};
use crate::units::{DeviceId, FileId, MIB, PAGE_SIZE, PageIndex};
use crate::writeback::{Amount, Knobs, background_below};

#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6",
    summary: "Linux 6: background above a level, old files now and then",
    source: "Linux 6.12",
    parameters: &[
        Parameter::new("limit", 20, (0, 100), "dirty_ratio, in percent of page memory"),
        Parameter::new(
            "background",
            10,
            (0, 100),
            "dirty_background_ratio, in percent of page memory",
        ),
        Parameter::new("limit_mib", 0, (0, MIB_MAX), "dirty_bytes in MiB; 0 takes the percentage"),
        Parameter::new(
            "background_mib",
            0,
            (0, MIB_MAX),
            "dirty_background_bytes in MiB; 0 takes the percentage",
        ),
        Parameter::new(
            "interval",
            500,
            (0, DAY),
            "dirty_writeback_centisecs; 0 never looks for old pages",
        ),
        Parameter::new("expire", 3_000, (0, DAY), "dirty_expire_centisecs"),
        Parameter::new(
            "commit",
            5,
            (0, 86_400),
            "seconds between writes of metadata; 0 never writes it",
        ),
    ],
    build: |values| Box::new(Linux6::new(values)),
};

/// 16 TiB, beyond any page memory.
const MIB_MAX: u64 = 1 << 24;

/// A day in hundredths of a second.
const DAY: u64 = 8_640_000;

/// The granule of a chunk, 4 MiB.
const CHUNK_PAGES: u64 = 1_024;

/// What a device is taken to drain until it has been measured: 100 MB/s, as the kernel does.
const DRAIN_UNKNOWN: u64 = 25_600;

/// Why the values cannot stand side by side; forms in percent and in MiB are compared at run time.
pub(super) fn contradiction(values: &Values<'_>) -> Option<&'static str> {
    let (limit, background) = (values.of("limit"), values.of("background"));
    let (limit_mib, background_mib) = (values.of("limit_mib"), values.of("background_mib"));
    let reversed = match (limit_mib, background_mib) {
        (0, 0) => background > limit,
        (0, _) | (_, 0) => false,
        (_, _) => background_mib > limit_mib,
    };
    reversed.then_some(
        "the background level lies above the limit; the kernel would use half the limit and say \
         nothing",
    )
}

#[derive(Debug)]
struct Linux6 {
    knobs: Knobs,
    commit: Duration,
    inodes: Inodes,
    /// By device number.
    lines: Vec<Line>,
    /// By file number.
    files: Vec<File>,
    /// The device whose turn it is.
    turn: usize,
    /// The number of the last look for old files.
    looks: u64,
    /// The next look for old files.
    look: Option<Instant>,
    /// The next write of metadata.
    commit_at: Option<Instant>,
    /// A write of metadata waits for the device.
    committing: bool,
    /// The timers have been set since a page became dirty; otherwise the next page requests a run.
    awake: bool,
    threshold: Threshold,
}

/// The files of one device that have become dirty, the next to be written first.
#[derive(Debug, Default)]
struct Line {
    files: VecDeque<FileId>,
    /// The device took no more; a write that is done will run the rule.
    full: bool,
    /// The last look is not over for some file.
    looking: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct File {
    device: usize,
    /// Whether it is in the queue of its device.
    queued: bool,
    /// Where the next chunk begins.
    at: PageIndex,
    /// Pages left of a chunk that a full device interrupted.
    chunk: u64,
    /// The last look that saw it, and the pages that it has left to write for it.
    look: u64,
    quota: u64,
}

/// The result of one file's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Wrote,
    Unwanted,
    Full,
}

impl Flush for Linux6 {
    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn on_dirtied(&mut self, file: FileId, pages: &dyn DirtyPages) -> Demand {
        if self.files.get(file.index()).is_none_or(|known| !known.queued) {
            self.enqueue(file, pages);
        }
        if !self.awake {
            self.awake = true;
            return Demand::Run;
        }
        // A full device runs the rule when a write is done.
        let full = self.lines[self.files[file.index()].device].full;
        match !full && self.threshold.is_exceeded(pages) {
            true => Demand::Run,
            false => Demand::Nothing,
        }
    }

    fn run(&mut self, pages: &mut dyn DirtyPages) {
        self.look_for_old(pages);
        let committed = self.commit(pages);
        for line in &mut self.lines {
            line.full = false;
        }
        let wrote = self.write_in_turn(pages);
        if wrote || committed {
            pages.end_pass();
        }
        self.wind(pages);
    }

    fn timeout(&self) -> Option<Instant> {
        Instant::earlier(self.look, self.commit_at)
    }
}

impl Linux6 {
    fn new(values: &Values<'_>) -> Self {
        let amount = |mib, percent| match values.of(mib) {
            0 => Amount::percent(values.of(percent) as u32),
            given => Amount::Pages(given * (MIB / PAGE_SIZE)),
        };
        let centiseconds = |name| Duration::from_millis(10 * values.of(name));
        let commit = Duration::from_secs(values.of("commit"));
        Self {
            knobs: Knobs {
                background: amount("background_mib", "background"),
                limit: amount("limit_mib", "limit"),
                batch: None,
                in_flight: None,
                interval: centiseconds("interval"),
                expire: centiseconds("expire"),
                expire_new: None,
            },
            commit,
            inodes: Inodes::new(commit),
            lines: Vec::new(),
            files: Vec::new(),
            turn: 0,
            looks: 0,
            look: None,
            commit_at: None,
            committing: false,
            awake: false,
            threshold: Threshold::default(),
        }
    }

    fn enqueue(&mut self, file: FileId, pages: &dyn DirtyPages) {
        let device = pages.file(file).device.index();
        if self.files.len() <= file.index() {
            self.files.resize(file.index() + 1, File::default());
        }
        if self.lines.len() <= device {
            self.lines.resize_with(device + 1, Line::default);
        }
        let known = &mut self.files[file.index()];
        known.device = device;
        known.queued = true;
        self.lines[device].files.push_back(file);
    }

    /// Starts a scan if it is due. An unfinished scan continues with the new one.
    fn look_for_old(&mut self, pages: &dyn DirtyPages) {
        if self.look.is_some_and(|at| at <= pages.now()) {
            self.look = None;
            self.looks += 1;
            for line in &mut self.lines {
                line.looking = true;
            }
        }
    }

    /// Writes metadata if its time has come. Returns whether the device took it all.
    fn commit(&mut self, pages: &mut dyn DirtyPages) -> bool {
        if self.commit_at.is_some_and(|at| at <= pages.now()) {
            self.commit_at = None;
            self.committing = true;
        }
        let done = self.committing && self.inodes.write(pages);
        self.committing &= !done;
        done
    }

    /// One chunk of each device in turn until none is left that has work and can write. Returns
    /// whether anything was written.
    fn write_in_turn(&mut self, pages: &mut dyn DirtyPages) -> bool {
        let devices = self.lines.len();
        let (mut wrote, mut idle) = (false, 0);
        while idle < devices {
            self.turn %= devices;
            let line = self.turn;
            self.turn += 1;
            let before = pages.all().dirty;
            if !self.lines[line].full && self.write_line(line, pages) {
                idle = 0;
            } else {
                idle += 1;
            }
            wrote |= pages.all().dirty < before;
        }
        wrote
    }

    /// One chunk of the first file of a device that has work. Returns whether the device may
    /// continue.
    fn write_line(&mut self, line: usize, pages: &mut dyn DirtyPages) -> bool {
        let mut unwanted = 0;
        while let Some(&file) = self.lines[line].files.front() {
            let all = self.threshold.is_exceeded(pages) || pages.memory_is_short();
            let resumes = self.files[file.index()].chunk > 0;
            if !all && !resumes && !self.lines[line].looking {
                return false;
            }
            if unwanted == self.lines[line].files.len() {
                // A whole round without a wish: the look is over.
                self.lines[line].looking = false;
                return false;
            }
            let dirty = pages.file(file);
            // A page redirtied under writeback becomes dirty later, without another call.
            if dirty.dirty == 0 && dirty.since.is_none() {
                let known = &mut self.files[file.index()];
                known.queued = false;
                known.chunk = 0;
                known.quota = 0;
                self.lines[line].files.pop_front();
                continue;
            }
            match self.write_chunk(file, all, pages) {
                Turn::Full => {
                    self.lines[line].full = true;
                    return false;
                }
                Turn::Wrote => {
                    self.lines[line].files.rotate_left(1);
                    return true;
                }
                Turn::Unwanted => {
                    self.lines[line].files.rotate_left(1);
                    unwanted += 1;
                }
            }
        }
        self.lines[line].looking = false;
        false
    }

    /// The turn of a file that has dirty pages: a chunk if `all` files are written or the scan has
    /// found this one. At the end of the file the chunk continues at its beginning.
    fn write_chunk(&mut self, file: FileId, all: bool, pages: &mut dyn DirtyPages) -> Turn {
        let dirty = pages.file(file);
        let known = &mut self.files[file.index()];
        if self.lines[known.device].looking && known.look != self.looks {
            known.look = self.looks;
            let old = dirty.since.is_some_and(|at| at + pages.knobs().expire <= pages.now());
            known.quota = if old { dirty.dirty } else { 0 };
        }
        if known.chunk == 0 {
            known.chunk = match all {
                true => chunk_pages(dirty.device, pages),
                false => known.quota.min(chunk_pages(dirty.device, pages)),
            };
        }
        let mut wrote = false;
        while known.chunk > 0 {
            let from = known.at;
            let written = pages.write_file(file, from, known.chunk);
            wrote |= written.pages > 0;
            known.chunk = known.chunk.saturating_sub(written.pages);
            known.quota = known.quota.saturating_sub(written.pages);
            known.at = written.next;
            match written.end {
                Sent::Full => return Turn::Full,
                Sent::Page => {}
                Sent::Nothing => {
                    known.at = 0;
                    // The end of the file ends the chunk, unless it began there.
                    if from == 0 || (all && written.pages > 0) {
                        known.chunk = 0;
                    }
                }
            }
        }
        match wrote {
            true => Turn::Wrote,
            false => Turn::Unwanted,
        }
    }

    /// Sets the timers that are not running, as long as there is something to look for.
    fn wind(&mut self, pages: &dyn DirtyPages) {
        let (now, interval) = (pages.now(), pages.knobs().interval);
        let changed = self.inodes.look(pages);
        let next = |wanted: bool, period: Duration, present: Option<Instant>| {
            let wanted = wanted && period > Duration::ZERO;
            wanted.then(|| present.unwrap_or(now + period))
        };
        let dirty = pages.all().unsafe_pages() > 0;
        self.awake = dirty;
        self.look = next(dirty, interval, self.look);
        self.commit_at = next(changed && !self.committing, self.commit, self.commit_at);
    }
}

/// How much of a file is written before the next file's turn: half a second of the device, but no
/// more than an eighth of the limit, in whole granules of at least one.
fn chunk_pages(device: DeviceId, pages: &dyn DirtyPages) -> u64 {
    if let Some(batch) = pages.knobs().batch {
        return batch.max(1);
    }
    let drain = pages.drain(device).unwrap_or(DRAIN_UNKNOWN);
    let limit = pages.knobs().limit.pages(pages.total());
    let most = (drain / 2).min(limit / 8).saturating_add(CHUNK_PAGES);
    most / CHUNK_PAGES * CHUNK_PAGES
}

/// The background level in pages, kept until the knobs change: it is compared at every page.
#[derive(Debug)]
struct Threshold {
    background: Amount,
    limit: Amount,
    total: u64,
    pages: u64,
}

impl Default for Threshold {
    fn default() -> Self {
        let none = Amount::Pages(0);
        Self { background: none, limit: none, total: 0, pages: 0 }
    }
}

impl Threshold {
    /// Whether more pages are dirty. A level that is not below the limit counts as half of it.
    fn is_exceeded(&mut self, pages: &dyn DirtyPages) -> bool {
        let (knobs, total) = (pages.knobs(), pages.total());
        if (self.background, self.limit, self.total) != (knobs.background, knobs.limit, total) {
            let (background, limit) = (knobs.background.pages(total), knobs.limit.pages(total));
            self.pages = background_below(background, limit);
            (self.background, self.limit, self.total) = (knobs.background, knobs.limit, total);
        }
        pages.all().dirty > self.pages
    }
}
