//! What pacing throttles share: who is held, what a page costs, and the room below the limit.
//!
//! ```text
//!   pages 0 ....... background ............ setpoint ........ ceiling .. limit
//!            nobody     |  a page costs its writer the     |  held     | nobody
//!            is held    |  time that its share of the      |  writers  | goes on
//!                       |  device needs for it             |  sleep    |
//!                                      <-- room ---------> <-reserve->
//! ```
//!
//! A writer has a clock: the moment up to which it has paid. A page moves it on; a clock behind the
//! present keeps a little credit. A writer whose clock is ahead of the present is *held*: it writes
//! more than its share. Shares are equal parts of the rate among the writers that were held lately,
//! so one that writes less than a share counts for nobody and never waits; the reserve is there
//! for it.
//!
//! All writers together are never faster than the room in 200 ms. Without a measured drain this is
//! the only rule: the level rises ever more slowly, and comes to rest where the writers are as fast
//! as the device, whatever its speed. With a measured drain it catches the level if the drain has
//! fallen and the measurement has not.

use alloc::vec::Vec;

use super::DirtyView;
use crate::time::{Duration, Instant};
use crate::units::CallId;

/// More pages than any machine has; levels and rates are cut off here, so that products stay in
/// range.
const LEVEL_MAX: u64 = 1 << 40;

/// In this part of a second the writers may at most fill the room.
const ROOM_PER_SECOND: u64 = 5;

/// Shorter pauses stay on the clock.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// The longest pause before the next question.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A pause where there is no room.
const PAUSE_FULL: Duration = Duration::from_millis(10);

/// A writer counts for as long as this after it was last held, and up to twice as long.
const EPOCH: Duration = Duration::from_millis(500);

/// The levels of a view, when they are above the background.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) dirty: u64,
    pub(super) setpoint: u64,
    ceiling: u64,
    limit: u64,
}

/// The clocks of all writers.
#[derive(Debug)]
pub(super) struct Pacing {
    credit: Duration,
    writers: Vec<Writer>,
    /// How many writers there have been.
    seen: u64,
    devices: Vec<Held>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    /// When it has paid for what it wrote.
    clock: Instant,
    /// The epoch in which it was last held, counted from two; zero if it never was.
    epoch: u64,
    known: bool,
}

/// How many writers to a device were held in this epoch and in the last.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    epoch: u64,
    /// In this epoch.
    present: u64,
    /// In this epoch or the last.
    both: u64,
}

impl Band {
    /// The levels, unless nobody is held at them.
    pub(super) fn of(view: &DirtyView, seen: u64) -> Option<Self> {
        let dirty = view.all.unsafe_pages();
        if dirty <= view.background {
            return None;
        }
        let limit = view.limit.min(LEVEL_MAX);
        // Each writer may go on with one page before it is asked again.
        let ahead = seen.min(limit / 64);
        Some(Self {
            dirty: dirty.min(LEVEL_MAX),
            setpoint: limit.midpoint(view.background.min(limit)),
            ceiling: limit - limit / 32,
            limit: limit - ahead,
        })
    }

    /// How far the level is below the setpoint, in millionths of it: negative above.
    pub(super) fn error_ppm(&self) -> i64 {
        let setpoint = self.setpoint.max(1) as i64;
        // Levels are below 2^40, and so is this product below 2^63 where it counts.
        let distance = (setpoint - self.dirty as i64).clamp(-2 * setpoint, setpoint);
        (i128::from(distance) * 1_000_000 / i128::from(setpoint)) as i64
    }

    /// The fastest that all writers together may be, in pages a second.
    fn rate_max(&self) -> u64 {
        self.ceiling.saturating_sub(self.dirty).max(1) * ROOM_PER_SECOND
    }
}

impl Pacing {
    /// No writers yet; each may be ahead of its share by `credit`.
    pub(super) fn new(credit: Duration) -> Self {
        Self { credit, writers: Vec::new(), seen: 0, devices: Vec::new() }
    }

    /// The levels, if writers are held at them; if not, the task owes nothing.
    pub(super) fn enter(&mut self, task: CallId, view: &DirtyView) -> Option<Band> {
        if self.writers.len() <= task.index() {
            self.writers.resize(task.index() + 1, Writer::default());
        }
        let writer = &mut self.writers[task.index()];
        if !writer.known {
            writer.known = true;
            self.seen += 1;
        }
        let band = Band::of(view, self.seen);
        if band.is_none() {
            writer.clock = view.now;
        }
        band
    }

    /// The task pays for a page; all writers to the device may write `rate` pages a second, if
    /// there is an opinion.
    pub(super) fn charge(
        &mut self,
        task: CallId,
        view: &DirtyView,
        band: &Band,
        rate: Option<u64>,
    ) {
        let cost = self.cost(view, band, rate);
        let credit = self.credit;
        let writer = &mut self.writers[task.index()];
        writer.clock = writer.clock.max(Instant(view.now.0.saturating_sub(credit.0))) + cost;
        if writer.clock > view.now {
            let epoch = view.now.0 / EPOCH.as_nanos() + 2;
            self.devices[view.device.index()].hold(epoch, &mut writer.epoch);
        }
    }

    /// What one page costs.
    pub(super) fn cost(&mut self, view: &DirtyView, band: &Band, rate: Option<u64>) -> Duration {
        let device = view.device.index();
        if self.devices.len() <= device {
            self.devices.resize(device + 1, Held::default());
        }
        let held = &mut self.devices[device];
        held.advance(view.now.0 / EPOCH.as_nanos() + 2);
        let rate = rate.map_or(u64::MAX, |rate| rate.max(1)).min(band.rate_max());
        Duration(held.both.max(1) * 1_000_000_000 / rate)
    }

    /// What the task owes.
    pub(super) fn debt(&self, task: CallId, now: Instant) -> Duration {
        let writer = &self.writers[task.index()];
        Duration(writer.clock.0.saturating_sub(now.0))
    }

    /// Forgives what the task owes beyond `debt`.
    pub(super) fn forgive(&mut self, task: CallId, now: Instant, debt: Duration) {
        let writer = &mut self.writers[task.index()];
        writer.clock = writer.clock.min(now + debt);
    }

    /// The pause of a task for which there is no room: anybody's at the limit, that of a writer
    /// that was held lately already at the ceiling.
    pub(super) fn without_room(
        &self,
        task: CallId,
        view: &DirtyView,
        band: &Band,
    ) -> Option<Duration> {
        let epoch = view.now.0 / EPOCH.as_nanos() + 2;
        let held = self.writers[task.index()].epoch + 1 >= epoch;
        let end = if held { band.ceiling } else { band.limit };
        (band.dirty >= end).then_some(PAUSE_FULL)
    }

    /// The pause of a task that sleeps what it owes.
    pub(super) fn pause(&self, task: CallId, now: Instant) -> Option<Duration> {
        let debt = self.debt(task, now);
        (debt >= PAUSE_MIN).then_some(debt.min(PAUSE_MAX))
    }

    /// The pause of a task that sleeps at once whatever it owes, at levels of `band`, and that owes
    /// no more than one page's price when it has slept.
    pub(super) fn settle(
        &mut self,
        task: CallId,
        view: &DirtyView,
        band: &Band,
        rate: Option<u64>,
    ) -> Option<Duration> {
        if view.again {
            let cost = self.cost(view, band, rate);
            self.forgive(task, view.now, cost);
        } else if view.newly {
            self.charge(task, view, band, rate);
        } else {
            return None;
        }
        self.without_room(task, view, band).or_else(|| self.pause(task, view.now))
    }
}

impl Held {
    fn advance(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.both = if epoch == self.epoch + 1 { self.present } else { 0 };
            self.present = 0;
            self.epoch = epoch;
        }
    }

    /// Counts a writer that is held, `last` being the epoch in which it was before.
    fn hold(&mut self, epoch: u64, last: &mut u64) {
        if *last == epoch {
            return;
        }
        self.present += 1;
        if *last + 1 < epoch {
            self.both += 1;
        }
        *last = epoch;
    }
}
