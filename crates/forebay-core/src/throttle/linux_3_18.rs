//! Linux 3.18: each task gets a rate, and sleeps once for the pages that it wrote too fast.
//!
//! Source:     Linux 3.18, mm/page-writeback.c; lib/flex_proportions.c for a device's share.
//! Behaviour:  no task is held below the middle of background and limit. Above it, a task that has
//!             dirtied some tens of pages sleeps for as long as they take at its rate: the device's
//!             rate limit, which follows bandwidth by number of writers, times a ratio that falls
//!             to zero at the limit. Think time between counts as slept.
//! Differs:    the flusher's own updates of the bandwidth are not modelled: bandwidth is measured
//!             only at the writers' checks, also below the middle while pages are under writeback.
//!             The limit changes when a knob is written, and then counts at once, as after a write
//!             to dirty_ratio. Tasks are assigned to the processors in turn and stay there; the
//!             debt of an ended task is forgotten. Every task is an ordinary one. A device with its
//!             own limit holds no task below the common background level, where no flusher might
//!             run.
//! Not for:    many writers to one device, whose pauses come close to 200 ms; the first seconds of
//!             a device that is far from 100 MB/s.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::share::Shares;
use super::{DirtyView, Policy, Throttle};
use crate::policy::{Parameter, Values};
use crate::time::{Duration, Instant};
use crate::units::CallId;
use crate::writeback::{Levels as Counts, background_below};

use pause::{Bounds, Task, poll_interval};
use rate::{Bandwidth, Elapsed, INITIAL, RateLimit, follow, scaled};
use ratio::{Levels, Thresholds};

mod pause;
mod rate;
mod ratio;
#[cfg(test)]
mod tests;
mod wheel;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-3.18",
    summary: "Linux 3.18: sleeps by rate, position and bandwidth",
    source: "Linux 3.18",
    parameters: &PARAMETERS,
    build: |values| Box::new(BalanceDirtyPages::new(values, Release::V3_18)),
};

/// The parameters of all releases.
pub(super) const PARAMETERS: [Parameter; 5] = [
    Parameter::new("hz", 250, (100, 1_000), "jiffies a second, in which the kernel counts pauses"),
    Parameter::new(
        "cpus",
        1,
        (1, 1_024),
        "processors; each forces a check after its part of the limit",
    ),
    Parameter::new("strict", 0, (0, 1), "every device is bounded by its own share of the limit"),
    Parameter::new(
        "knob",
        1,
        (0, 1),
        "a changed limit is a written knob and counts at once; off: it is followed",
    ),
    Parameter::new(
        "initial",
        INITIAL,
        (1, 1 << 24),
        "pages a second that a device is believed to write at first",
    ),
];

/// A kernel whose rules are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    V3_18,
    V6_12,
}

/// The count of jiffies when a machine starts: five minutes before it exceeds 32 bits.
const fn initial_jiffies(hz: u64) -> u64 {
    (1 << 32) - 300 * hz
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// More pages than any machine has; levels are cut off here, so that products stay in range.
const LEVEL_MAX: u64 = 1 << 40;

/// Pages between two checks of a task on a device that is above its limit.
const EXCEEDED_CHECK: u64 = 8;

#[derive(Debug)]
pub(super) struct BalanceDirtyPages {
    release: Release,
    hz: u64,
    strict: bool,
    knob: bool,
    writers: Vec<Option<Writer>>,
    /// How many tasks have been seen.
    seen: usize,
    cpus: Vec<Cpu>,
    /// The limit that the next field was computed from.
    ratelimit_of: u64,
    ratelimit_pages: u64,
    devices: Vec<Bdi>,
    shares: Shares,
    limit: SmoothedLimit,
    /// Pages a second that a new device is believed to write.
    initial: u64,
}

/// A task and the check that it is in.
#[derive(Clone, Copy, Debug)]
struct Writer {
    task: Task,
    cpu: usize,
    /// It sleeps at a rate of zero and will be decided upon again.
    held: Option<Held>,
}

/// A check that began at a jiffy, for a number of pages.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: u64,
    pages: u64,
}

/// Pages that became dirty on one processor since the last check there.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    ratelimit: u64,
}

/// `global_dirty_limit`.
#[derive(Debug)]
struct SmoothedLimit {
    pages: u64,
    updated: u64,
    /// The threshold that was last seen.
    thresh: Option<u64>,
}

/// State of one device.
#[derive(Clone, Copy, Debug)]
struct Bdi {
    bandwidth: Bandwidth,
    limit: RateLimit,
    dirty_exceeded: bool,
    stamp: u64,
    dirtied: u64,
    written: u64,
}

/// The levels at one moment.
#[derive(Clone, Copy, Debug)]
struct Now {
    jiffies: u64,
    thresh: u64,
    background: u64,
    dirty: u64,
    device: usize,
    device_thresh: u64,
    device_dirty: u64,
}

impl Throttle for BalanceDirtyPages {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        let index = self.writer(task.index(), view.device.index());
        if view.again {
            let held = self.writers[index].as_mut().and_then(|writer| writer.held.take())?;
            return self.balance(index, held, view);
        }
        let pages = self.count(index, view)?;
        let held = Held { since: self.jiffies(view.now), pages };
        self.balance(index, held, view)
    }
}

impl BalanceDirtyPages {
    pub(super) fn new(values: &Values<'_>, release: Release) -> Self {
        let cpus = values.of("cpus") as usize;
        Self {
            release,
            hz: values.of("hz"),
            strict: values.on("strict"),
            knob: values.on("knob"),
            writers: Vec::new(),
            seen: 0,
            cpus: alloc::vec![Cpu::default(); cpus],
            ratelimit_of: u64::MAX,
            ratelimit_pages: 0,
            devices: Vec::new(),
            shares: Shares::new(),
            limit: SmoothedLimit { pages: 0, updated: 0, thresh: None },
            initial: values.of("initial"),
        }
    }

    fn jiffies(&self, now: Instant) -> u64 {
        let part = now.0 % SECOND * self.hz / SECOND;
        initial_jiffies(self.hz) + now.0 / SECOND * self.hz + part
    }

    /// How long a pause of `pause` jiffies that begins at `now` lasts.
    fn length(&self, now: Instant, pause: u64) -> Duration {
        if self.release == Release::V3_18 {
            return Duration(pause.saturating_mul(SECOND) / self.hz);
        }
        let ticks = wheel::expiry(self.jiffies(now), pause) - initial_jiffies(self.hz);
        let end = (u128::from(ticks) * u128::from(SECOND)).div_ceil(u128::from(self.hz));
        Duration((end - u128::from(now.0)) as u64)
    }

    /// The task's place; makes it and the device's, if they are new.
    fn writer(&mut self, task: usize, device: usize) -> usize {
        if self.writers.len() <= task {
            self.writers.resize(task + 1, None);
        }
        if self.writers[task].is_none() {
            let cpu = self.seen % self.cpus.len();
            self.seen += 1;
            self.writers[task] = Some(Writer { task: Task::default(), cpu, held: None });
        }
        if self.devices.len() <= device {
            let bdi = Bdi::new(initial_jiffies(self.hz), self.initial);
            self.devices.resize(device + 1, bdi);
        }
        task
    }

    /// Counts a page; the number of the task's pages if it is time for a check.
    fn count(&mut self, index: usize, view: &DirtyView) -> Option<u64> {
        if self.ratelimit_of != view.limit {
            self.ratelimit_of = view.limit;
            self.ratelimit_pages = (view.limit / (32 * self.cpus.len() as u64)).max(16);
        }
        let writer = self.writers[index].as_mut()?;
        writer.held = None;
        let task = &mut writer.task;
        let cpu = &mut self.cpus[writer.cpu];
        task.nr_dirtied += u64::from(view.newly);
        cpu.ratelimit += u64::from(view.newly);

        let mut check = task.nr_dirtied_pause;
        if self.devices[view.device.index()].dirty_exceeded {
            check = check.min(EXCEEDED_CHECK);
        }
        if task.nr_dirtied >= check {
            cpu.ratelimit = 0;
        } else if cpu.ratelimit >= self.ratelimit_pages {
            cpu.ratelimit = 0;
            check = 0;
        }
        (task.nr_dirtied >= check).then_some(task.nr_dirtied)
    }

    /// One round of a check.
    fn balance(&mut self, index: usize, held: Held, view: &DirtyView) -> Option<Duration> {
        let now = self.look(view);
        let (dirty, thresh, background) = self.bounding(&now);
        let freerun = thresh.midpoint(background);
        let writer = self.writers[index].as_mut()?;
        let task = &mut writer.task;
        if dirty <= freerun || (self.strict && now.dirty <= now.background) {
            task.nr_dirtied = 0;
            task.paused_when = now.jiffies;
            task.nr_dirtied_pause = poll_interval(dirty, thresh);
            if self.release == Release::V3_18 {
                self.devices[now.device].dirty_exceeded = false;
                if view.own.writeback > 0 {
                    self.learn(&now, view, None);
                }
            }
            return None;
        }
        let exceeded =
            now.device_dirty > now.device_thresh && (now.dirty > now.thresh || self.strict);
        let bdi = &mut self.devices[now.device];
        bdi.dirty_exceeded = exceeded || (bdi.dirty_exceeded && self.release == Release::V3_18);
        self.learn(&now, view, Some(held.since));

        let error = self.counter_error();
        let bdi = &mut self.devices[now.device];
        let thresholds = self.limit.thresholds(&now);
        let ratio = thresholds.position_ratio(now.dirty, &bdi.levels(&now, self.strict));
        let (rate, bandwidth) = (bdi.limit.rate, bdi.bandwidth.average);
        let task_rate = scaled(rate, ratio);
        let bounds = Bounds::new(self.hz, now.device_dirty, bandwidth, rate, task_rate);
        let writer = self.writers[index].as_mut()?;
        let pause = writer.task.decide(now.jiffies, self.hz, held.pages, task_rate, &bounds);
        if task_rate == 0 && now.device_dirty > error {
            writer.held = Some(held);
        } else if !exceeded {
            bdi.dirty_exceeded = false;
        }
        pause.map(|jiffies| self.length(view.now, jiffies))
    }

    /// The levels of the view as the kernel has them.
    fn look(&mut self, view: &DirtyView) -> Now {
        let thresh = view.limit.min(LEVEL_MAX);
        let background = background_below(view.background.min(LEVEL_MAX), thresh);
        if self.limit.thresh != Some(thresh) {
            if self.knob || self.limit.thresh.is_none() {
                self.limit.pages = thresh;
            }
            self.limit.thresh = Some(thresh);
        }
        let share = self.shares.observe(view);
        let twice = self.release == Release::V6_12;
        let dirty = |levels: &Counts| {
            (levels.unsafe_pages() + if twice { levels.redirtied } else { 0 }).min(LEVEL_MAX)
        };
        Now {
            jiffies: self.jiffies(view.now),
            thresh,
            background,
            dirty: dirty(&view.all),
            device: view.device.index(),
            device_thresh: share.of(thresh),
            device_dirty: dirty(&view.own),
        }
    }

    /// What bounds a writer: dirty pages, threshold and background, of all or of the device.
    fn bounding(&self, now: &Now) -> (u64, u64, u64) {
        if !self.strict {
            return (now.dirty, now.thresh, now.background);
        }
        let thresholds = self.limit.thresholds(now);
        let levels = self.devices[now.device].levels(now, true);
        (now.device_dirty, now.device_thresh, thresholds.background_of(&levels))
    }

    /// Updates the estimates of the device, at most every 200 ms. `since` is when the check began
    /// that the thresholds are used for, nothing if no task is held.
    fn learn(&mut self, now: &Now, view: &DirtyView, since: Option<u64>) {
        let interval = (self.hz / 5).max(1);
        let bdi = &mut self.devices[now.device];
        let elapsed = now.jiffies.saturating_sub(bdi.stamp);
        let (due, may_idle) = match self.release {
            Release::V3_18 => (elapsed >= interval, true),
            Release::V6_12 => (elapsed > interval, false),
        };
        if !due {
            return;
        }
        let idle = may_idle && elapsed > self.hz && bdi.stamp < since.unwrap_or(now.jiffies);
        if !idle {
            if since.is_some() {
                self.limit.update(now, interval);
                let thresholds = self.limit.thresholds(now);
                let levels = bdi.levels(now, self.strict);
                let dirtied = view.own.dirtied.saturating_sub(bdi.dirtied);
                let elapsed = Elapsed { dirtied, jiffies: elapsed };
                bdi.limit.update((&thresholds, now.dirty), &levels, elapsed, self.hz);
            }
            let written = view.own.written.saturating_sub(bdi.written);
            bdi.bandwidth.update(written, elapsed, self.hz);
        }
        bdi.stamp = now.jiffies;
        bdi.dirtied = view.own.dirtied;
        bdi.written = view.own.written;
    }

    /// By how many pages the kernel's counters of a device may be wrong.
    fn counter_error(&self) -> u64 {
        let cpus = self.cpus.len() as u64;
        cpus * 8 * (1 + u64::from(cpus.ilog2()))
    }
}

impl SmoothedLimit {
    fn update(&mut self, now: &Now, interval: u64) {
        if now.jiffies.saturating_sub(self.updated) >= interval {
            self.pages = follow(self.pages, now.thresh, now.dirty);
            self.updated = now.jiffies;
        }
    }

    fn thresholds(&self, now: &Now) -> Thresholds {
        let limit = self.pages.max(now.thresh);
        Thresholds { thresh: now.thresh, background: now.background, limit }
    }
}

impl Bdi {
    fn new(jiffies: u64, rate: u64) -> Self {
        Self {
            bandwidth: Bandwidth { last: rate, average: rate },
            limit: RateLimit { rate, balanced: rate },
            dirty_exceeded: false,
            stamp: jiffies,
            dirtied: 0,
            written: 0,
        }
    }

    fn levels(&self, now: &Now, strict: bool) -> Levels {
        let (thresh, dirty) = (now.device_thresh, now.device_dirty);
        Levels { thresh, dirty, bandwidth: self.bandwidth.average, strict }
    }
}
