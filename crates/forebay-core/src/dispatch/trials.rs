//! Finds by trials which mode of handling a class is better while other tasks need the processor.
//!
//! Time is divided into epochs. In each epoch one mode is active, and the measure is the number of
//! completed requests of the class per time. A request counts by its device time, which no mode
//! changes, so the number of long requests in an epoch does not distort the result. The first third
//! of an epoch after a change is not counted, because the scheduler still remembers the caller's
//! earlier behaviour.
//!
//! ```text
//!   |..mmmmmm|..mmmmmm|..mmmmmm|mmmmmmmm|mmmmmmmm| ... |..mm|..mmmmmm|mmmmmmmm|
//!    model's  another  the better stays                 tried again, cut short
//! ```
//!
//! An epoch that has lost a quarter of its length to the best other mode, or more than half of its
//! time after a tenth of its length, is cut short. As long as its longest gap is more than a
//! quarter of it, which may be the turn of another task, it is cut only when it has lost half a
//! length. Another mode is tried again when its last trial's loss is half a percent of the time
//! since.

use super::Mode;
use crate::time::{Duration, Instant};

/// The modes that may be at work.
const MODES: usize = 3;

/// Epochs that the better mode stays at least, unless the model changes its mind.
const STAY_MIN: u64 = 8;

/// Epochs between trials that a change of the model triggers.
const RETHINK: u64 = 4;

/// An epoch that depends on few long gaps may become this many times as long.
const STRETCH: u64 = 2;

/// An epoch must be this many times as long as its longest gap before it is evaluated.
const GAPS_MIN: u64 = 4;

/// The device's time of the requests that were done, and the time that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    work: u64,
    time: u64,
}

/// The current epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    all: Rate,
    /// Without what came while the scheduler remembered the mode before.
    settled: Rate,
    /// How long that is.
    settling: u64,
    gap_max: u64,
}

/// Measurements of a class's modes, and the active mode.
#[derive(Debug)]
pub(super) struct Trials {
    /// The length of an epoch.
    length: u64,
    /// Epochs that the better mode stays at most.
    stay_max: u64,
    /// The last request that was done while others wanted the processor.
    last: Option<Instant>,
    /// The time that they have wanted it.
    clock: u64,
    mode: Option<Mode>,
    model: Option<Mode>,
    best: Option<Mode>,
    epoch: Epoch,
    known: [Option<Rate>; MODES],
    /// When the mode was tried last, and when it is tried again, by the clock.
    tried: [u64; MODES],
    due: [u64; MODES],
}

impl Trials {
    pub(super) fn new(length: Duration, stay_max: u64) -> Self {
        Self {
            length: length.0.max(1),
            stay_max,
            last: None,
            clock: 0,
            mode: None,
            model: None,
            best: None,
            epoch: Epoch::default(),
            known: [None; MODES],
            tried: [0; MODES],
            due: [0; MODES],
        }
    }

    /// The mode at work, of those `open`; the model prefers `model`, which is open.
    pub(super) fn mode(&mut self, model: Mode, open: [bool; MODES]) -> Mode {
        if self.model != Some(model) {
            self.model = Some(model);
            let index = model as usize;
            if self.clock >= self.tried[index].saturating_add(RETHINK * self.length) {
                self.due[index] = self.due[index].min(self.clock);
            }
        }
        let is_open = |mode: &Mode| open[*mode as usize];
        let mode = match self.mode {
            Some(mode) if is_open(&mode) && !self.is_over(open) => mode,
            // One that is open no longer has had its trial, or it would begin again and again.
            Some(mode) => {
                self.close(mode, open);
                self.next(model, open)
            }
            None => self.best_of(open).unwrap_or(model),
        };
        if self.mode != Some(mode) {
            let settling = self.length / 3;
            self.epoch = Epoch { settling, ..Epoch::default() };
            self.mode = Some(mode);
        }
        mode
    }

    /// A request that counts for `work` is done while other tasks need the processor, or none does.
    pub(super) fn done(&mut self, now: Instant, work: Duration, contended: bool) {
        if !contended {
            self.last = None;
            return;
        }
        let Some(last) = self.last.replace(now) else { return };
        let gap = now.since(last).0.min(STRETCH * self.length);
        self.clock = self.clock.saturating_add(gap);
        let epoch = &mut self.epoch;
        if epoch.all.time >= epoch.settling {
            epoch.settled.add(work, gap);
        }
        epoch.all.add(work, gap);
        epoch.gap_max = epoch.gap_max.max(gap);
    }

    fn is_over(&self, open: [bool; MODES]) -> bool {
        let Epoch { all, settled, gap_max, .. } = &self.epoch;
        let judged = all.time >= GAPS_MIN * gap_max;
        if all.time >= self.length && settled.work > 0 {
            return judged || all.time >= STRETCH * self.length;
        }
        let other = self.best_but(self.mode, open).and_then(|mode| self.known[mode as usize]);
        let lost = other.map_or(0, |other| all.time.saturating_sub(other.time_of(all.work)));
        let hopeless = all.time >= self.length / 10 && lost > all.time / 2;
        (judged && (hopeless || lost >= (self.length / 4).max(1))) || lost > self.length / 2
    }

    /// Notes what the epoch of `mode` has shown, and when the others are tried again.
    fn close(&mut self, mode: Mode, open: [bool; MODES]) {
        let Epoch { all, settled, .. } = self.epoch;
        let seen = if settled.time >= self.length / 3 { settled } else { all };
        let index = mode as usize;
        self.known[index] = Some(self.known[index].map_or(seen, |known| known.with(seen)));
        self.tried[index] = self.clock;
        let before = self.best.replace(mode).unwrap_or(mode);
        self.best = self.best_of(open);
        for other in [mode, before] {
            if self.best != Some(other) {
                self.due[other as usize] = self.clock.saturating_add(self.stay(other));
            }
        }
        self.epoch = Epoch::default();
    }

    /// The mode of the next epoch.
    fn next(&self, model: Mode, open: [bool; MODES]) -> Mode {
        let best = self.best_of(open).unwrap_or(model);
        let wanting = |mode: &Mode| {
            let index = *mode as usize;
            open[index] && *mode != best && self.due[index] <= self.clock
        };
        [model].into_iter().chain(Mode::ALL).find(wanting).unwrap_or(best)
    }

    /// How long a mode's last trial pays its loss off: 200 times the loss, so half a percent.
    fn stay(&self, mode: Mode) -> u64 {
        let rates =
            (self.known[mode as usize], self.best.and_then(|best| self.known[best as usize]));
        let (Some(own), Some(best)) = rates else { return 0 };
        let lost = own.time.saturating_sub(best.time_of(own.work));
        let epochs = u128::from(lost) * 200 / u128::from(own.time.max(1));
        let epochs = u64::try_from(epochs).unwrap_or(u64::MAX);
        epochs.clamp(STAY_MIN.min(self.stay_max), self.stay_max).saturating_mul(self.length)
    }

    fn best_of(&self, open: [bool; MODES]) -> Option<Mode> {
        self.best_but(None, open)
    }

    /// The mode that was seen to do most, of those that are open; of equals the first.
    fn best_but(&self, not: Option<Mode>, open: [bool; MODES]) -> Option<Mode> {
        let mut best: Option<(Mode, Rate)> = None;
        for mode in Mode::ALL.into_iter().filter(|mode| open[*mode as usize] && Some(*mode) != not)
        {
            if let Some(rate) = self.known[mode as usize]
                && best.is_none_or(|(_, best)| rate.above(best))
            {
                best = Some((mode, rate));
            }
        }
        best.map(|(mode, _)| mode)
    }
}

impl Rate {
    fn add(&mut self, work: Duration, gap: u64) {
        self.work = self.work.saturating_add(work.0.max(1));
        self.time = self.time.saturating_add(gap);
    }

    fn above(self, other: Self) -> bool {
        u128::from(self.work) * u128::from(other.time)
            > u128::from(other.work) * u128::from(self.time)
    }

    /// The time in which so much is done.
    fn time_of(self, work: u64) -> u64 {
        let time = u128::from(work) * u128::from(self.time) / u128::from(self.work.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Merges newer measurements: about the last four epochs count, but a value that has changed by
    /// a quarter starts afresh.
    fn with(self, seen: Self) -> Self {
        let expected = self.time_of(seen.work);
        if expected.abs_diff(seen.time) > expected / 4 {
            return seen;
        }
        let kept = Self {
            work: self.work - self.work.div_ceil(4),
            time: self.time - self.time.div_ceil(4),
        };
        Self {
            work: kept.work.saturating_add(seen.work),
            time: kept.time.saturating_add(seen.time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const BOTH: [bool; MODES] = [true, false, true];

    /// Runs for `ms` milliseconds; a request of 1 ms takes `gaps` of them by mode. Returns the time
    /// in each mode in milliseconds.
    fn run(trials: &mut Trials, now: &mut u64, ms: u64, gaps: [u64; MODES]) -> [u64; MODES] {
        let (end, mut spent) = (*now + ms, [0; MODES]);
        while *now < end {
            let mode = trials.mode(Mode::Inline, BOTH) as usize;
            *now += gaps[mode];
            spent[mode] += gaps[mode];
            let done = Instant::ZERO + Duration::from_millis(*now);
            trials.done(done, Duration::from_millis(1), true);
        }
        spent
    }

    fn fresh() -> Trials {
        Trials::new(Duration(SECOND), 64)
    }

    #[test]
    fn the_models_mode_is_tried_first_and_the_better_one_stays() {
        let (mut trials, mut now) = (fresh(), 0);
        assert_eq!(run(&mut trials, &mut now, 1_000, [4, 0, 5])[0], 0);
        let spent = run(&mut trials, &mut now, 20_000, [4, 0, 5]);
        assert!(spent[2] <= 10, "the request that began: {spent:?}");
    }

    #[test]
    fn a_trial_that_loses_is_cut_short() {
        for (gap, most) in [(5, 1_000), (6, 752), (7, 587), (9, 220), (40, 200)] {
            let (mut trials, mut now) = (fresh(), 0);
            let spent = run(&mut trials, &mut now, 10_000, [gap, 0, 4]);
            assert!(spent[0] <= most + 2 * gap, "{gap}: {spent:?}");
            assert!(spent[0] >= 100, "{gap}: {spent:?}");
        }
    }

    #[test]
    fn trying_again_costs_about_half_a_percent() {
        for gap in [21, 22, 25, 30, 80] {
            let (mut trials, mut now) = (fresh(), 0);
            run(&mut trials, &mut now, 100_000, [gap, 0, 20]);
            let spent = run(&mut trials, &mut now, 3_000_000, [gap, 0, 20]);
            let lost = spent[0] - spent[0] * 20 / gap;
            assert!(spent[0] > 0 && lost <= 3_000_000 * 6 / 1_000, "{gap}: {spent:?}, {lost}");
        }
    }

    #[test]
    fn a_mode_that_became_better_is_found() {
        let (mut trials, mut now) = (fresh(), 0);
        run(&mut trials, &mut now, 30_000, [5, 0, 4]);
        run(&mut trials, &mut now, 64_000, [4, 0, 5]);
        assert!(run(&mut trials, &mut now, 10_000, [4, 0, 5])[2] <= 10);
    }

    #[test]
    fn a_mode_that_is_closed_is_left_at_once() {
        let (mut trials, mut now) = (fresh(), 0);
        run(&mut trials, &mut now, 30_000, [5, 0, 4]);
        assert_eq!(trials.mode(Mode::Inline, BOTH), Mode::Inline);
        assert_eq!(trials.mode(Mode::Deferred, [true, false, false]), Mode::Deferred);
    }

    #[test]
    fn a_mode_that_is_closed_in_its_trial_is_not_begun_again_at_once() {
        let (mut trials, mut now) = (fresh(), 0);
        run(&mut trials, &mut now, 1_100, [4, 0, 5]);
        let mut inline = 0;
        for turn in 0..1_000 {
            let open = [true, false, turn % 10 < 5];
            let mode = trials.mode(Mode::Deferred, open);
            inline += u32::from(mode == Mode::Inline);
            now += 4;
            trials.done(Instant(now * 1_000_000), Duration::from_millis(1), true);
        }
        assert!(inline <= 10, "{inline}");
    }

    #[test]
    fn time_without_contention_does_not_count() {
        let mut trials = fresh();
        trials.mode(Mode::Inline, BOTH);
        for second in 0..100 {
            let now = Instant(second * SECOND);
            trials.done(now, Duration(1), second % 2 == 0);
        }
        assert_eq!(trials.clock, 0);
        assert_eq!(trials.mode(Mode::Inline, BOTH), Mode::Inline);
    }
}
