//! Writeback of Linux 6: background above a level, old files now and then, file by file.
//!
//! Source:     Linux 6.12, fs/fs-writeback.c and mm/page-writeback.c.
//! Behaviour:  above the background level, and whenever memory is short, dirty files are written in
//!             turn, a chunk of each at a time, in rising order of pages from where the last chunk
//!             ended. Every interval, files that have been dirty for longer than the age are
//!             written too.
//! Differs:    one flusher for all devices.
//! Not for:    comparisons of control groups, which are not modelled.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Demand, DirtyPages, Flush, Policy, Sent};
use crate::policy::Parameter;
use crate::time::{Duration, Instant};
use crate::units::{FileId, PageIndex};
use crate::writeback::{Amount, Knobs};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6",
    summary: "Linux 6: background above a level, old files now and then",
    source: "Linux 6.12",
    parameters: &[
        percent("limit", 20, "dirty_ratio, in percent of page memory"),
        percent("background", 10, "dirty_background_ratio, in percent of page memory"),
        centiseconds("interval", 500, "dirty_writeback_centisecs; 0 never looks for old pages"),
        centiseconds("expire", 3_000, "dirty_expire_centisecs"),
    ],
    build: |values| {
        let amount = |name| Amount::percent(values.of(name) as u32);
        let time = |name| Duration::from_millis(10 * values.of(name));
        let knobs = Knobs {
            background: amount("background"),
            limit: amount("limit"),
            batch: None,
            in_flight: None,
            interval: time("interval"),
            expire: time("expire"),
        };
        Box::new(Linux6 { knobs, files: VecDeque::new(), at: Vec::new(), look: None })
    },
};

const fn percent(name: &'static str, default: u64, summary: &'static str) -> Parameter {
    Parameter { name, default, low: 0, high: 100, summary }
}

const fn centiseconds(name: &'static str, default: u64, summary: &'static str) -> Parameter {
    Parameter { name, default, low: 0, high: 8_640_000, summary }
}

#[derive(Debug)]
struct Linux6 {
    knobs: Knobs,
    /// Files that have become dirty, the next to be written first.
    files: VecDeque<FileId>,
    /// Where the next chunk of each file begins.
    at: Vec<PageIndex>,
    /// The next look for old files.
    look: Option<Instant>,
}

impl Flush for Linux6 {
    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn on_dirtied(&mut self, file: FileId, pages: &dyn DirtyPages) -> Demand {
        if pages.file(file).dirty == 1 && !self.files.contains(&file) {
            self.files.push_back(file);
            if self.at.len() <= file.index() {
                self.at.resize(file.index() + 1, 0);
            }
        }
        let interval = pages.knobs().interval;
        if interval > Duration::ZERO {
            self.look.get_or_insert(pages.now() + interval);
        }
        match pages.is_exceeded(pages.knobs().background) {
            true => Demand::Run,
            false => Demand::Nothing,
        }
    }

    fn run(&mut self, pages: &mut dyn DirtyPages) {
        let now = pages.now();
        let mut old_too = false;
        if self.look.is_some_and(|at| at <= now) {
            old_too = true;
            let interval = pages.knobs().interval;
            self.look =
                (interval > Duration::ZERO && !self.files.is_empty()).then_some(now + interval);
        }
        let mut left = self.files.len();
        while left > 0 {
            let Some(&file) = self.files.front() else { return };
            let dirty = pages.file(file);
            if dirty.dirty == 0 {
                self.files.pop_front();
                left -= 1;
                continue;
            }
            let old = dirty.since.is_some_and(|since| since + pages.knobs().expire <= now);
            let wanted = pages.is_exceeded(pages.knobs().background)
                || pages.memory_is_short()
                || (old_too && old);
            if !wanted {
                self.files.rotate_left(1);
                left -= 1;
                continue;
            }
            let written = pages.write_file(file, self.at[file.index()], 1_024);
            self.at[file.index()] = written.next;
            match written.end {
                Sent::Full => return,
                Sent::Page => self.files.rotate_left(1),
                Sent::Nothing => self.at[file.index()] = 0,
            }
        }
        pages.end_pass();
    }

    fn timeout(&self) -> Option<Instant> {
        self.look
    }
}
