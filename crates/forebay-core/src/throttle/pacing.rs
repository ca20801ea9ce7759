//! What pacing throttles share: which writers are held, what a page costs, and the room below the
//! limit.
//!
//! ```text
//!   pages 0 ..... background .... free ....... setpoint ........ ceiling .. limit
//!            no writer is held     | a page costs its writer the  | held    | none
//!                                  | time that its share of the   | writers | goes on
//!                                  | device needs for it          | sleep   |
//!                                              <---- room ------->< reserve >
//! ```
//!
//! A writer has a clock: the moment up to which it has paid. A page moves it on; a clock behind the
//! present keeps a little credit. A writer whose clock is ahead of the present is *held*: it writes
//! more than its share. Shares are equal parts of the rate among the writers that were held lately,
//! so one that writes less than a share does not count and never waits; the reserve is there
//! for it. A writer to several devices counts at the one where it is first held in half a second.
//!
//! All writers together are never faster than the room in 200 ms, or than twice what the device has
//! written in the last 10 ms or more, which shrinks with the room. Without a measured drain this is
//! the only rule: writers find the speed of the device by doubling, and the level settles where
//! they are as fast as the device. With a measured drain this rule catches the level if the drain
//! has fallen and the measurement has not.
//!
//! The free level lies a quarter of the way from background to setpoint. A flusher that stops at
//! the background would leave a fast device idle while writers sleep, if they were held from there.

use alloc::vec::Vec;

use super::DirtyView;
use crate::time::{Duration, Instant};
use crate::units::CallId;

/// A PiB in pages, and 64 GiB/s in pages a second: levels and rates are cut off here, so that their
/// products stay in 64 bits.
const LEVEL_MAX: u64 = 1 << 38;
pub(super) const RATE_MAX: u64 = 1 << 24;

/// In this part of a second the writers may at most fill the room.
const ROOM_PER_SECOND: u64 = 5;

/// The least length of a count of what a device writes.
const COUNT: Duration = Duration::from_millis(10);

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
    /// When it has paid for the pages that it wrote.
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
    /// Since when pages written are counted, and how many had been written then.
    since: Instant,
    written: u64,
    /// Pages a second that the device wrote in the count before.
    recent: u64,
}

impl Band {
    /// The levels, if writers are held at them.
    pub(super) fn of(view: &DirtyView, seen: u64) -> Option<Self> {
        let dirty = view.all.unsafe_pages();
        let setpoint = view.limit.midpoint(view.background.min(view.limit));
        if dirty <= view.background + setpoint.saturating_sub(view.background) / 4 {
            return None;
        }
        let limit = view.limit.min(LEVEL_MAX);
        // Each writer may dirty one more page before it is checked again.
        let ahead = seen.min(limit / 8);
        let reserve = (limit / 32).max(2 * ahead);
        Some(Self {
            dirty: dirty.min(LEVEL_MAX),
            setpoint: setpoint.min(LEVEL_MAX),
            ceiling: limit - reserve,
            limit: limit - ahead,
        })
    }

    /// How far the level is below the setpoint, in millionths of it: negative above.
    pub(super) fn error_ppm(&self) -> i64 {
        let setpoint = self.setpoint.max(1) as i64;
        let distance = (setpoint - self.dirty as i64).clamp(-2 * setpoint, setpoint);
        distance * 1_000_000 / setpoint
    }

    /// Whether the room is nearly used up.
    pub(super) fn is_short(&self) -> bool {
        self.dirty >= self.ceiling - self.ceiling / 32
    }

    /// The fastest that all writers together may be, in pages a second, to a device that drains as
    /// many as `drain`.
    /// A task that was not held lately finds room in the reserve too.
    fn rate_max(&self, drain: u64, held: bool) -> u64 {
        let least = if held { 1 } else { (self.limit - self.ceiling).max(1) };
        let room = self.ceiling.saturating_sub(self.dirty).max(least);
        let above = self.ceiling.saturating_sub(self.setpoint).max(1);
        let known = 2 * drain.min(RATE_MAX) * room / above;
        known.max(room * ROOM_PER_SECOND)
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
        let cost = self.cost(task, view, band, rate);
        let credit = self.credit;
        let writer = &mut self.writers[task.index()];
        writer.clock = writer.clock.max(Instant(view.now.0.saturating_sub(credit.0))) + cost;
        if writer.clock > view.now {
            self.devices[view.device.index()].hold(epoch(view.now), &mut writer.epoch);
        }
    }

    /// What one page costs the task.
    pub(super) fn cost(
        &mut self,
        task: CallId,
        view: &DirtyView,
        band: &Band,
        rate: Option<u64>,
    ) -> Duration {
        let lately = self.was_held(task, view.now);
        let device = view.device.index();
        if self.devices.len() <= device {
            self.devices.resize(device + 1, Held::default());
        }
        let held = &mut self.devices[device];
        held.advance(epoch(view.now));
        held.observe(view.now, view.own.written);
        let known = view.drain.unwrap_or(held.recent);
        let rate = rate.map_or(u64::MAX, |rate| rate.max(1)).min(band.rate_max(known, lately));
        Duration(held.both.max(1).saturating_mul(1_000_000_000) / rate)
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

    fn was_held(&self, task: CallId, now: Instant) -> bool {
        self.writers[task.index()].epoch + 1 >= epoch(now)
    }

    /// The pause of a task without room: of any task at the limit, of a recently held writer
    /// already at the ceiling.
    pub(super) fn without_room(
        &self,
        task: CallId,
        view: &DirtyView,
        band: &Band,
    ) -> Option<Duration> {
        let end = if self.was_held(task, view.now) { band.ceiling } else { band.limit };
        (band.dirty >= end).then_some(PAUSE_FULL)
    }

    /// The pause of a task that sleeps all that it owes.
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
            let cost = self.cost(task, view, band, rate);
            self.forgive(task, view.now, cost);
        } else if view.newly {
            self.charge(task, view, band, rate);
        } else {
            return None;
        }
        self.without_room(task, view, band).or_else(|| self.pause(task, view.now))
    }
}

/// The epoch of a moment, counted from two.
fn epoch(now: Instant) -> u64 {
    now.0 / EPOCH.as_nanos() + 2
}

impl Held {
    fn advance(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.both = if epoch == self.epoch + 1 { self.present } else { 0 };
            self.present = 0;
            self.epoch = epoch;
        }
    }

    /// Counts what the device has written.
    fn observe(&mut self, now: Instant, written: u64) {
        let elapsed = now.since(self.since);
        if elapsed >= COUNT {
            let pages = u128::from(written.saturating_sub(self.written));
            let rate = pages * 1_000_000_000 / u128::from(elapsed.as_nanos());
            self.recent = u64::try_from(rate).unwrap_or(u64::MAX).min(RATE_MAX);
            (self.since, self.written) = (now, written);
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

#[cfg(test)]
mod tests {
    use super::super::testing::{LIMIT, view};
    use super::*;

    fn pacing(credit: u64) -> Pacing {
        Pacing::new(Duration::from_millis(credit))
    }

    fn charge(pacing: &mut Pacing, task: u32, view: &DirtyView) -> Band {
        let band = pacing.enter(CallId(task), view).expect("the level is above the free one");
        pacing.charge(CallId(task), view, &band, Some(1_000));
        band
    }

    #[test]
    fn the_free_level_is_a_quarter_of_the_way_to_the_setpoint() {
        assert!(Band::of(&view(0, 18_432), 0).is_none());
        assert!(Band::of(&view(0, 18_433), 0).is_some());
    }

    #[test]
    fn a_page_costs_the_time_of_a_share() {
        let mut pacing = pacing(0);
        let view = view(0, 20_000);
        charge(&mut pacing, 0, &view);
        assert_eq!(pacing.debt(CallId(0), view.now), Duration::from_millis(1));
        assert_eq!(pacing.pause(CallId(0), view.now), None, "too short, and kept");
        charge(&mut pacing, 0, &view);
        assert_eq!(pacing.pause(CallId(0), view.now), Some(Duration::from_millis(2)));
        charge(&mut pacing, 1, &view);
        charge(&mut pacing, 1, &view);
        let two = Duration::from_millis(1 + 2);
        assert_eq!(pacing.debt(CallId(1), view.now), two, "it counts from its second page on");
    }

    #[test]
    fn a_writer_below_its_share_does_not_count() {
        let mut pacing = pacing(50);
        for step in 0..100 {
            // A page every 20 ms at 1000 pages a second.
            charge(&mut pacing, 1, &view(1_000 + 20 * step, 20_000));
        }
        assert_eq!(pacing.devices[0].both, 0);
        for _ in 0..60 {
            charge(&mut pacing, 0, &view(3_000, 20_000));
        }
        assert_eq!(pacing.devices[0].both, 1, "its credit is used up");
    }

    #[test]
    fn a_writer_that_stops_is_forgotten_within_a_second() {
        let mut pacing = pacing(0);
        for task in 0..3 {
            charge(&mut pacing, task, &view(100, 20_000));
        }
        charge(&mut pacing, 0, &view(600, 20_000));
        assert_eq!(pacing.devices[0].both, 3);
        charge(&mut pacing, 0, &view(1_100, 20_000));
        assert_eq!(pacing.devices[0].both, 1);
        charge(&mut pacing, 1, &view(9_000, 20_000));
        assert_eq!(pacing.devices[0].both, 1);
    }

    #[test]
    fn below_the_free_level_debts_are_forgotten() {
        let mut pacing = pacing(0);
        for _ in 0..9 {
            charge(&mut pacing, 0, &view(0, 20_000));
        }
        assert!(pacing.enter(CallId(0), &view(1, 18_000)).is_none());
        assert_eq!(pacing.debt(CallId(0), view(1, 0).now), Duration::ZERO);
    }

    #[test]
    fn the_reserve_is_for_writers_that_were_not_held() {
        let mut pacing = pacing(50);
        let ceiling = LIMIT - LIMIT / 32;
        let near = view(0, ceiling);
        let mut band = charge(&mut pacing, 0, &near);
        for _ in 0..60 {
            band = charge(&mut pacing, 0, &near);
        }
        let light = view(100, LIMIT - 3);
        charge(&mut pacing, 1, &light);
        assert_eq!(pacing.without_room(CallId(0), &near, &band), Some(PAUSE_FULL));
        assert_eq!(pacing.without_room(CallId(1), &near, &band), None);
        let band = pacing.enter(CallId(1), &light).unwrap();
        assert_eq!(pacing.without_room(CallId(1), &light, &band), None);
        let full = view(100, LIMIT - 2);
        let band = pacing.enter(CallId(1), &full).unwrap();
        let pause = pacing.without_room(CallId(1), &full, &band);
        assert_eq!(pause, Some(PAUSE_FULL), "each of two writers may be one page ahead");
    }

    #[test]
    fn without_a_measured_drain_the_rate_is_the_room_in_200_ms() {
        let band = Band::of(&view(0, 21_744), 0).unwrap();
        assert_eq!(band.rate_max(0, true), 50_000);
        assert_eq!(Band::of(&view(0, LIMIT), 0).unwrap().rate_max(0, true), 5);
        let middle = Band::of(&view(0, 24_576), 0).unwrap();
        assert_eq!(
            middle.rate_max(100_000, true),
            200_000,
            "a fast device is not held at its setpoint"
        );
    }
}
