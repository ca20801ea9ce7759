//! Linux 2.2.19: bdflush when too much is dirty, kupdate when it is old.
//!
//! Source:     Linux 2.2.19, fs/buffer.c and Documentation/sysctl/vm.txt.
//! Behaviour:  above half of nfract bdflush is woken, above nfract the writer also sleeps until a
//!             pass has ended. A pass writes up to ndirty pages, oldest first, whatever their age;
//!             the next one follows at once until a pass finds nothing or enough has been written.
//!             kupdate writes old metadata, then all old pages, and sleeps for the interval when
//!             that is done. A page that its write has allocated is old after age_super, not
//!             age_buffer: ext2 marks the block dirty with a flag (ext2_alloc_block in
//!             fs/ext2/inode.c, ext2_new_block in balloc.c), and set_writetime never moves a time
//!             back.
//! Differs:    a buffer is a page. The list of locked buffers holds nothing to write: a page that
//!             is redirtied under writeback becomes dirty when its write completes. A pass of
//!             kupdate ends when nothing is old; in the kernel its walk may come to the end of the
//!             list before. The timer starts again when the interval is no longer 0. kupdate's walk
//!             over all buffers is charged after the pass, and bdflush's walk over the locked ones
//!             not at all. Loop devices get no second chance to block. nrefill, nref_dirt and the
//!             dummies have no effect in the kernel either.
//! Not for:    kernels before 2.2.19, which made every writer wait above nfract, and those from 2.4
//!             on, which have other fields.
//!
//! ```text
//!   dirty   0 ......... nfract/2 .......... nfract ......... all
//!   state        -1        |        0         |       +1
//!   writer     goes on     |  wakes bdflush   |  and sleeps until the end of a pass
//! ```

use alloc::boxed::Box;

use super::bdflush_vector::{FIELDS, JIFFY, Vector};
use super::inodes::Inodes;
use super::{Demand, DirtyPages, Flush, Policy, Sent};
use crate::time::{Duration, Instant};
use crate::units::FileId;
use crate::writeback::Knobs;

#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "bdflush-2.2.19",
    summary: "Linux 2.2.19: passes above a share of memory, old pages now and then",
    source: "Linux 2.2.19",
    parameters: FIELDS,
    build: |values| {
        let mut vector = Vector::DEFAULT;
        for (value, field) in vector.0.iter_mut().zip(FIELDS) {
            *value = values.of(field.name);
        }
        Box::new(Bdflush {
            knobs: vector.knobs(),
            bdflush: None,
            kupdate: None,
            timer: Timer::default(),
            inodes: Inodes::new(JIFFY.times(values.of("age_super"))),
            kupdate_first: false,
        })
    },
};

#[derive(Debug)]
struct Bdflush {
    knobs: Knobs,
    /// The open pass of bdflush; none while it sleeps.
    bdflush: Option<Pass>,
    /// The open pass of kupdate; none while it sleeps.
    kupdate: Option<Step>,
    timer: Timer,
    inodes: Inodes,
    /// Whose turn it is when both wait for the device.
    kupdate_first: bool,
}

/// A pass of bdflush.
#[derive(Debug, Default)]
struct Pass {
    /// Pages that the list held when the pass began and that it has not come to; none before.
    left: Option<u64>,
    /// Pages written.
    written: u64,
}

/// Where a pass of kupdate stands.
#[derive(Clone, Copy, Debug)]
enum Step {
    Inodes,
    Pages,
}

/// The three states of the balance between dirty pages and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Balance {
    Below,
    Asynchronous,
    Blocking,
}

impl Balance {
    fn of(pages: &dyn DirtyPages) -> Self {
        let (dirty, total, knobs) = (pages.all().dirty, pages.total(), pages.knobs());
        if knobs.limit.is_exceeded(dirty, total) {
            Self::Blocking
        } else if knobs.background.is_exceeded(dirty, total) {
            Self::Asynchronous
        } else {
            Self::Below
        }
    }
}

impl Flush for Bdflush {
    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn on_dirtied(&mut self, _file: FileId, pages: &dyn DirtyPages) -> Demand {
        let balance = Balance::of(pages);
        if balance > Balance::Below {
            self.bdflush.get_or_insert_default();
        }
        // The first page after a rest requests a run only to set the timer.
        let starts = !self.timer.armed && self.kupdate.is_none();
        if starts {
            self.timer.arm(pages.now(), pages.knobs().interval);
        }
        match balance {
            Balance::Blocking => Demand::RunAndWait,
            Balance::Asynchronous => Demand::Run,
            Balance::Below if starts => Demand::Run,
            Balance::Below => Demand::Nothing,
        }
    }

    fn run(&mut self, pages: &mut dyn DirtyPages) {
        // Pages that were dirtied under writeback become dirty at completion, without another call.
        let above = pages.all().dirty > 0 && Balance::of(pages) > Balance::Below;
        if above || pages.memory_is_short() {
            self.bdflush.get_or_insert_default();
        }
        if self.timer.expired(pages.now()) {
            self.kupdate.get_or_insert(Step::Inodes);
        }
        if self.kupdate_first {
            self.run_kupdate(pages);
            self.run_bdflush(pages);
        } else {
            self.run_bdflush(pages);
            self.run_kupdate(pages);
        }
        if self.bdflush.is_some() && self.kupdate.is_some() {
            self.kupdate_first = !self.kupdate_first;
        }
        if self.inodes.look(pages) && self.kupdate.is_none() {
            self.timer.arm(pages.now(), pages.knobs().interval);
        } else {
            self.timer.armed = false;
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.timer.next.filter(|_| self.timer.armed)
    }
}

impl Bdflush {
    /// Passes until one finds nothing, enough has been written, or the device is full.
    fn run_bdflush(&mut self, pages: &mut dyn DirtyPages) {
        while let Some(pass) = &mut self.bdflush {
            // Without any page a pass would never end above the limit.
            let most = pages.knobs().batch.unwrap_or(Vector::DEFAULT.0[1]).max(1);
            let left = pass.left.get_or_insert_with(|| pages.all().dirty);
            while *left > 0 && pass.written < most {
                match pages.write_oldest() {
                    Sent::Page => {
                        *left -= 1;
                        pass.written += 1;
                    }
                    Sent::Nothing => *left = 0,
                    Sent::Full => return,
                }
            }
            let idle = pass.written == 0;
            pages.end_pass();
            let sleeps = idle || Balance::of(pages) == Balance::Below;
            self.bdflush = (!sleeps).then(Pass::default);
        }
    }

    /// Goes on with the open pass until nothing is old or the device is full.
    fn run_kupdate(&mut self, pages: &mut dyn DirtyPages) {
        let Some(step) = &mut self.kupdate else { return };
        if matches!(step, Step::Inodes) {
            if !self.inodes.write(pages) {
                return;
            }
            *step = Step::Pages;
            pages.count_walk();
        }
        loop {
            match pages.write_due() {
                Sent::Page => {}
                Sent::Full => return,
                Sent::Nothing => break,
            }
        }
        self.kupdate = None;
        self.timer.start(pages.now(), pages.knobs().interval);
        // Writers sleep until a pass of bdflush has ended, not one of kupdate.
        if self.bdflush.is_none() {
            pages.end_pass();
        }
    }
}

/// The sleep of kupdate, which first begins at time 0. It needs no wake-up while nothing is dirty,
/// because a pass takes no time then.
#[derive(Debug, Default)]
struct Timer {
    /// The end of the present sleep; it may lie back while nothing is dirty.
    next: Option<Instant>,
    /// Whether the end matters.
    armed: bool,
}

impl Timer {
    /// Whether a sleep has ended.
    fn expired(&self, now: Instant) -> bool {
        self.armed && self.next.is_some_and(|next| next <= now)
    }

    /// A pass has ended, and a sleep begins.
    fn start(&mut self, now: Instant, interval: Duration) {
        self.next = (interval > Duration::ZERO).then_some(now + interval);
    }

    /// Has the end of the present sleep, which lies ahead, seen.
    fn arm(&mut self, now: Instant, interval: Duration) {
        let behind = self.next.is_none_or(|next| next <= now);
        if behind || interval == Duration::ZERO {
            self.wind(now, interval);
        }
        self.armed = true;
    }

    /// Moves the end beyond `now` by whole intervals. A sleep that has begun keeps its length, as
    /// in the kernel.
    fn wind(&mut self, now: Instant, interval: Duration) {
        let period = interval.as_nanos();
        if period == 0 {
            self.next = None;
            return;
        }
        let from = self.next.unwrap_or(Instant::ZERO);
        let periods = now.since(from).as_nanos() / period + 1;
        self.next = Some(from + interval.times(periods));
    }
}
