//! Handles each class of requests in the cheapest way that the class and its competitors have
//! shown.
//!
//! Source:     Forebay; the limit of a spin after A. Karlin, K. Li, M. Manasse, S. Owicki,
//!             "Empirical studies of competitive spinning for a shared-memory multiprocessor"
//!             (SOSP 1991); where it begins: K. Lee, "The selective context switch for the storage
//!             which has no latency", Hanyang University (in Korean).
//! Behaviour:  while the processor is idle, spins as long as it costs less than blocking at the
//!             `idle` value of a processor. While other tasks need the processor, tries the modes
//!             in turn and keeps the one that completes more requests. Rotating and remote media
//!             are never spun for. A class of which one in ten requests takes 50 switches is never
//!             spun for without a limit.
//! Differs:    nothing is tried while the processor is idle: both ways show the device's time, and
//!             a try of the worse one costs up to a whole switch.
//! Not for:    tasks that share a class and fare differently under the two ways.
//!
//! # What it may cost
//!
//! *Idle.* Spinning to the end costs `U E[t]`. The cheapest limit `x` costs no more, so
//! `switch P(t > x) <= U E[t]`: the caller loses at most `idle`, 3 % of its latency, whatever the
//! times are. Hysteresis must not weaken this bound: a longer spin is adopted at once, and only a
//! shorter one has to gain `gain`, so the band lies on the side where the caller loses less. If an
//! endless spin is cut at 50 switches, `switch P(t > 50 switch) <= E[t] / 50` replaces the bound.
//!
//! *Contended.* A mode is tried for an epoch of `trial_ms`. With a rate `r < 1` of the other mode,
//! an epoch that can be compared with another loses `min(1 - r, 1/4)` of its length. The
//! scheduler's memory loses up to half of `1 - r` of its own length, once, on the return. The first
//! epoch cannot be compared. In a run of 20 s with epochs and a memory of 1 s:
//!
//! ```text
//!   the model's mode is better           1/4 s                        1.3 %
//!   it is worse, r = 0.74                0.26 s, and as much again    2.6 %
//! ```
//!
//! A trial is paid off when its measured loss is 1/200 of the time since. A memory as long as an
//! epoch hides most of the first loss, so the first return comes after 10 to 15 s instead of 50:
//! this is the second 0.26 s, and a run that ends directly after it, at 15 s, loses 3.5 %. A model
//! that is wrong by more than `r = 0.74`, or a memory longer than an epoch, costs more. A third
//! mode, a spin with a limit, is tried only if the times have two humps. Between rates there is no
//! hysteresis: a change costs a part of one epoch, but staying with a mode that is 10 % worse costs
//! 10 %. `gain` applies only to the model, whose change triggers a trial.

use alloc::boxed::Box;

use super::overlap::{Classes, ENDLESS, Histogram, Prices, SAMPLES_MIN};
use super::trials::Trials;
use super::{Class, Dispatch, Handling, Medium, MediumKind, Mode, Policy, Processor};
use crate::policy::{Parameter, Values};
use crate::time::{Duration, Instant};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "adaptive",
    summary: "Each class of requests is handled in the cheapest way measured.",
    source: "Forebay; Karlin, Li, Manasse, Owicki, SOSP 1991",
    parameters: &[
        Parameter::new("idle", 3, (0, 100), "value of an idle processor in percent"),
        Parameter::new("busy", 100, (0, 1_000), "value of a contended processor in percent"),
        Parameter::new("latency", 0, (0, 1_000), "value of the caller's latency in percent"),
        Parameter::new(
            "explore",
            64,
            (0, 1 << 20),
            "most trials that a mode stays before another is tried; 0 tries nothing",
        ),
        Parameter::new("gain", 10, (0, 100), "predicted gain in percent that changes the mode"),
        Parameter::new("trial_ms", 1_000, (10, 60_000), "length of a trial in ms"),
    ],
    build: |values| Box::new(Adaptive::new(values)),
};

/// Nine of ten requests must end within this number of switches, or every spin has a limit.
const SPIN_MAX: u64 = 50;

/// The largest request ahead of its use that may be executed inline: bytes.
const AHEAD_MAX: u64 = 16 << 10;

/// The longest time, as expected, that the processor moves data for one request.
const PROGRAMMED_MAX: Duration = Duration::from_millis(10);

/// A request counts for at most this many usual requests when modes are compared. Otherwise a
/// request whose time includes more than the device's would decide: a task that is preempted while
/// it spins sees the completion late.
const WORK_MAX: u64 = 8;

#[derive(Debug)]
struct Adaptive {
    settings: Settings,
    classes: Classes<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    idle: u64,
    busy: u64,
    latency: u64,
    explore: u64,
    gain: u64,
    trial: Duration,
}

/// What a class has shown.
#[derive(Debug)]
struct Seen {
    /// Of the device's time. All of it could be used otherwise, or nothing of it where the
    /// processor moves the data.
    times: Histogram,
    took: Means,
    /// What half of the requests do not exceed.
    usual: Duration,
    /// The samples since the limits were found, all if they never were.
    fresh: u32,
    weighed: bool,
    /// The longest spin that is allowed, and what would cost least without this bound while the
    /// processor is idle and while it is wanted.
    longest: Duration,
    idle: Duration,
    busy: Duration,
    /// Whether the trials decided about the last request.
    trying: bool,
    trials: Trials,
}

/// Sums of times and sizes, the older the fainter.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    samples: u32,
    time: u128,
    bytes: u128,
}

impl Adaptive {
    fn new(values: &Values<'_>) -> Self {
        let settings = Settings {
            idle: values.of("idle"),
            busy: values.of("busy"),
            latency: values.of("latency"),
            explore: values.of("explore"),
            gain: values.of("gain"),
            trial: Duration::from_millis(values.of("trial_ms")),
        };
        Self { settings, classes: Classes::new() }
    }

    /// The device's time for such a request: as seen, or by the bytes of a smaller one.
    fn expected(&mut self, class: &Class) -> Duration {
        let settings = self.settings;
        let own = self.classes.of(class, || Seen::new(&settings)).took;
        if own.samples > 0 {
            return own.time();
        }
        let known = self.classes.smaller(class).map(|seen| seen.took).find(|took| took.samples > 0);
        known.map_or(Duration::ZERO, |took| took.time_of(class.bytes))
    }
}

impl Dispatch for Adaptive {
    fn choose(
        &mut self,
        _: Instant,
        class: &Class,
        medium: Medium,
        processor: Processor,
    ) -> Handling {
        let settings = self.settings;
        let heavy = medium.programmed && self.expected(class) > PROGRAMMED_MAX;
        let seen = self.classes.of(class, || Seen::new(&settings));
        seen.trying = false;
        let late = match medium.kind {
            MediumKind::Solid => false,
            MediumKind::Rotating | MediumKind::Remote => true,
        };
        if late || heavy || (class.ahead && class.bytes > AHEAD_MAX) {
            return Handling::Deferred;
        }
        let young = seen.times.samples() < SAMPLES_MIN;
        if young && class.ahead {
            return Handling::Deferred;
        }
        if medium.programmed {
            seen.hold();
        } else if young {
            return spin(processor.switch);
        } else {
            seen.weigh(&settings, class.ahead, processor.switch);
        }
        if !processor.contended {
            return spin(seen.idle.min(seen.longest));
        }
        if settings.explore == 0 {
            return spin(seen.busy.min(seen.longest));
        }
        seen.trying = true;
        spin(seen.tried())
    }

    fn learn(&mut self, now: Instant, class: &Class, _: Handling, took: Duration) {
        let settings = self.settings;
        let seen = self.classes.of(class, || Seen::new(&settings));
        seen.times.add(took);
        seen.took.add(took, class.bytes);
        seen.fresh = seen.fresh.saturating_add(1);
        let bound = Some(seen.usual.times(WORK_MAX)).filter(|bound| *bound > Duration::ZERO);
        seen.trials.done(now, bound.map_or(took, |bound| took.min(bound)), seen.trying);
    }

    fn slow_classes(&self) -> u32 {
        let slow = self.classes.iter().filter(|seen| seen.weighed && seen.longest < ENDLESS);
        u32::try_from(slow.count()).unwrap_or(u32::MAX)
    }
}

impl Seen {
    fn new(settings: &Settings) -> Self {
        Self {
            times: Histogram::new(),
            took: Means::default(),
            usual: Duration::ZERO,
            fresh: 0,
            weighed: false,
            longest: ENDLESS,
            idle: Duration::ZERO,
            busy: Duration::ZERO,
            trying: false,
            trials: Trials::new(settings.trial, settings.explore),
        }
    }

    /// Nothing of the time could be used otherwise: spinning is free.
    fn hold(&mut self) {
        if self.fresh >= SAMPLES_MIN {
            self.usual = self.times.quantile(50);
            self.fresh = 0;
        }
        (self.longest, self.idle, self.busy) = (ENDLESS, ENDLESS, ENDLESS);
    }

    /// Finds the limits anew, if enough was learned since the last time.
    fn weigh(&mut self, settings: &Settings, ahead: bool, switch: Duration) {
        if self.weighed && self.fresh < SAMPLES_MIN {
            return;
        }
        self.usual = self.times.quantile(50);
        let bound = switch.times(SPIN_MAX);
        self.longest = if self.times.quantile(90) > bound { bound } else { ENDLESS };
        let prices = |processor| Prices { switch, processor, latency: settings.latency };
        // No task waits for read-ahead data: the caller itself could use the processor.
        let idle = prices(if ahead { settings.busy } else { settings.idle });
        let best = self.times.spin(idle);
        let shorter = self.weighed && best < self.idle;
        if !shorter || self.pays(idle, self.idle, best, settings.gain) {
            self.idle = best;
        }
        let busy = prices(settings.busy);
        let best = self.times.spin(busy);
        if !self.weighed || self.pays(busy, self.busy, best, settings.gain) {
            self.busy = best;
        }
        self.weighed = true;
        self.fresh = 0;
    }

    /// Whether a change of limits saves the given percentage of the cost.
    fn pays(&self, prices: Prices, from: Duration, to: Duration, gain: u64) -> bool {
        let (old, new) = (self.times.cost(prices, from), self.times.cost(prices, to));
        new * 100 < old * u128::from(100 - gain.min(100))
    }

    /// The limit of the mode that the trials have at work.
    fn tried(&mut self) -> Duration {
        let limit = self.busy.min(self.longest);
        let model = match limit {
            Duration::ZERO => Mode::Deferred,
            ENDLESS => Mode::Inline,
            Duration(_) => Mode::Limited,
        };
        let open = [true, model == Mode::Limited, self.longest == ENDLESS];
        match self.trials.mode(model, open) {
            Mode::Deferred => Duration::ZERO,
            Mode::Limited => limit,
            Mode::Inline => ENDLESS,
        }
    }
}

impl Means {
    fn add(&mut self, time: Duration, bytes: u64) {
        if self.samples >= 1024 {
            *self = Self { samples: self.samples / 2, time: self.time / 2, bytes: self.bytes / 2 };
        }
        self.samples += 1;
        self.time += u128::from(time.0);
        self.bytes += u128::from(bytes);
    }

    fn time(self) -> Duration {
        let mean = self.time / u128::from(self.samples.max(1));
        Duration(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The time of `bytes` at the measured rate.
    fn time_of(self, bytes: u64) -> Duration {
        let each = (self.bytes / u128::from(self.samples.max(1))).max(1);
        let time = u128::from(self.time().0) * u128::from(bytes) / each;
        Duration(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// A spin up to a limit; without a limit above zero there is none.
fn spin(limit: Duration) -> Handling {
    match limit {
        Duration::ZERO => Handling::Deferred,
        limit => Handling::Inline(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{READ, rule, solid};
    use super::*;

    const SWITCH: Duration = Duration::from_micros(10);
    const IDLE: Processor = Processor { switch: SWITCH, contended: false };
    const WANTED: Processor = Processor { switch: SWITCH, contended: true };

    /// Feeds `samples` requests of `us` microseconds to the rule.
    fn after(rule: &mut dyn Dispatch, class: &Class, medium: Medium, samples: u32, us: u64) {
        for _ in 0..samples {
            let handling = rule.choose(Instant::ZERO, class, medium, IDLE);
            rule.learn(Instant::ZERO, class, handling, Duration::from_micros(us));
        }
    }

    /// The decisions for a class whose requests take `us` microseconds: idle processor, contended
    /// processor.
    fn answers(typed: &str, class: Class, medium: Medium, us: u64) -> [Handling; 2] {
        let mut rule = rule(typed);
        after(&mut *rule, &class, medium, 64, us);
        [IDLE, WANTED].map(|processor| rule.choose(Instant::ZERO, &class, medium, processor))
    }

    #[test]
    fn an_unknown_class_is_spun_for_as_long_as_a_switch() {
        let mut rule = rule("adaptive");
        after(&mut *rule, &READ, solid(false), 31, 1_000);
        let mut ask = |processor| rule.choose(Instant::ZERO, &READ, solid(false), processor);
        assert_eq!([ask(IDLE), ask(WANTED)], [Handling::Inline(SWITCH); 2]);
        let free = Processor::default();
        assert_eq!(ask(free), Handling::Deferred, "there is nothing to spin for");
        rule.learn(Instant::ZERO, &READ, Handling::Deferred, Duration::from_millis(1));
        let known = rule.choose(Instant::ZERO, &READ, solid(false), IDLE);
        assert_eq!(known, Handling::Deferred, "the deferred one was the last that it took");
    }

    #[test]
    fn the_value_of_the_processor_decides_how_long_is_spun() {
        let at = |typed, us| answers(typed, READ, solid(false), us);
        let (spin, block) = (Handling::INLINE, Handling::Deferred);
        assert_eq!(at("adaptive", 9), [spin, spin]);
        assert_eq!(at("adaptive", 11), [spin, block]);
        assert_eq!(at("adaptive", 333), [spin, block]);
        assert_eq!(at("adaptive", 334), [block, block]);
        assert_eq!(at("adaptive:latency=100", 19), [spin, spin]);
        assert_eq!(at("adaptive:busy=50,idle=6", 19), [spin, spin]);
        assert_eq!(at("adaptive:busy=50,idle=6", 167), [block, block]);
    }

    #[test]
    fn rotating_and_remote_media_are_never_spun_for() {
        for kind in [MediumKind::Rotating, MediumKind::Remote] {
            for programmed in [false, true] {
                let medium = Medium { kind, programmed };
                let found = answers("adaptive:idle=0", READ, medium, 1);
                assert_eq!(found, [Handling::Deferred; 2]);
            }
        }
    }

    #[test]
    fn what_takes_fifty_switches_is_never_spun_for_to_the_end() {
        let at = |us| answers("adaptive:idle=0,busy=0", READ, solid(false), us);
        assert_eq!(at(500), [Handling::INLINE; 2]);
        for us in [501, 1_000, 1_000_000] {
            for handling in at(us) {
                let bounded = |limit| limit <= SWITCH.times(50);
                assert!(matches!(handling, Handling::Inline(limit) if bounded(limit)), "{us}");
            }
        }
    }

    #[test]
    fn slow_classes_are_counted() {
        let mut rule = rule("adaptive");
        assert_eq!(rule.slow_classes(), 0);
        after(&mut *rule, &READ, solid(false), 33, 501);
        after(&mut *rule, &Class { write: true, ..READ }, solid(false), 33, 499);
        assert_eq!(rule.slow_classes(), 1);
    }

    #[test]
    fn what_is_read_ahead_is_spun_for_only_if_its_class_says_so() {
        let ahead = Class { ahead: true, ..READ };
        let mut young = rule("adaptive");
        after(&mut *young, &READ, solid(false), 64, 1);
        let first = young.choose(Instant::ZERO, &ahead, solid(false), IDLE);
        assert_eq!(first, Handling::Deferred, "another class speaks for itself");
        let at = |bytes, us| answers("adaptive", Class { bytes, ..ahead }, solid(false), us);
        assert_eq!(at(16 << 10, 9), [Handling::INLINE; 2]);
        assert_eq!(at(16 << 10, 11), [Handling::Deferred; 2], "no task waits for it");
        assert_eq!(at((16 << 10) + 1, 1), [Handling::Deferred; 2]);
    }

    #[test]
    fn a_transfer_of_more_than_ten_milliseconds_is_deferred() {
        let at = |us| answers("adaptive", READ, solid(true), us)[0];
        assert_eq!([at(10_000), at(10_001)], [Handling::INLINE, Handling::Deferred]);
    }

    #[test]
    fn an_unseen_transfer_is_judged_by_the_bytes_of_a_smaller_one() {
        let mut rule = rule("adaptive");
        let class = |bytes| Class { bytes, ..READ };
        let mut ask = |bytes| rule.choose(Instant::ZERO, &class(bytes), solid(true), IDLE);
        assert_eq!(ask(1 << 40), Handling::INLINE, "nothing is known");
        after(&mut *rule, &READ, solid(true), 4, 100);
        // 100 us for 4 KiB are 10 ms for 400 KiB.
        let mut ask = |bytes| rule.choose(Instant::ZERO, &class(bytes), solid(true), IDLE);
        assert_eq!(ask(400 << 10), Handling::INLINE);
        assert_eq!(ask(401 << 10), Handling::Deferred);
        assert_eq!(ask(u64::MAX), Handling::Deferred);
        let deferred = class(401 << 10);
        rule.learn(Instant::ZERO, &deferred, Handling::Deferred, Duration::from_millis(3));
        let known = rule.choose(Instant::ZERO, &deferred, solid(true), IDLE);
        assert_eq!(known, Handling::INLINE, "it was deferred, and showed that it is fast");
    }

    #[test]
    fn a_shorter_spin_has_to_gain_and_a_longer_one_need_not() {
        let told = |us| {
            let mut rule = rule("adaptive:gain=10");
            after(&mut *rule, &READ, solid(false), 64, 330);
            after(&mut *rule, &READ, solid(false), 16_384, us);
            rule.choose(Instant::ZERO, &READ, solid(false), IDLE)
        };
        assert_eq!(told(360), Handling::INLINE, "blocking gains less than a tenth");
        assert_eq!(told(380), Handling::Deferred);
        let mut back = rule("adaptive:gain=10");
        after(&mut *back, &READ, solid(false), 64, 340);
        after(&mut *back, &READ, solid(false), 16_384, 333);
        let found = back.choose(Instant::ZERO, &READ, solid(false), IDLE);
        assert_eq!(found, Handling::INLINE);
    }

    #[test]
    fn without_exploration_the_model_decides_alone() {
        let mut rule = rule("adaptive:explore=0");
        let mut now = Instant::ZERO;
        for _ in 0..20_000 {
            now += Duration::from_millis(1);
            let handling = rule.choose(now, &READ, solid(true), WANTED);
            assert_eq!(handling, Handling::INLINE);
            rule.learn(now, &READ, handling, SWITCH);
        }
    }
}
