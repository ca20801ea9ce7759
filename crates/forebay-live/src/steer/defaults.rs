//! The default window of a device, for streams that end before a trial of their own could.
//!
//! Source:     Forebay.
//! Behaviour:  where files one after the other are read as streams, and all begin with the device's
//!             default, 32 times that default (4 MiB at most) is tried on those that are opened
//!             next: bytes a second that streams bring in, before and after, for half a second at
//!             least. It is kept if it brings a quarter more. What a long stream's own trial has
//!             shown to help is a default too. Where files are faulted in no order the default
//!             stays, and goes back if it was larger: each of them would begin with the large
//!             window.
//! Differs:    nothing.
//! Not for:    devices that were not named: everything on them would begin with it.

use forebay_core::time::{Duration, Instant};

use super::window::Bounds;
use crate::prove::Side;

/// The default of one device.
#[derive(Debug, Default)]
pub struct StreamDefault {
    stage: Stage,
    /// When something was last faulted in no order.
    faulted: Option<Instant>,
    /// Bytes a second of streams at the default of before, and at the one that is tried.
    before: Side,
    after: Side,
    /// The last look with streams.
    last: Option<Instant>,
    /// The first file whose stream was seen, until there is another.
    file: Option<u64>,
    refuted: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Watched,
    Tried {
        from: u64,
        to: u64,
        since: Instant,
    },
    Kept {
        from: u64,
    },
}

/// What streams did on a device since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    /// A file that is read as one; none if none is.
    pub file: Option<u64>,
    /// Bytes that were brought in for streams.
    pub bytes: u64,
    /// Whether files are faulted in no order.
    pub faults: bool,
    /// A window that a stream's own trial has kept, in KiB.
    pub kept: Option<u64>,
    /// The default as it stands, in KiB.
    pub default: u64,
}

/// What is to become of the default.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Another one, in KiB, and why.
    Set(u64, String),
    /// The one of before, and why.
    Restore(String),
    /// It stays as it was tried.
    Keep(String),
}

impl StreamDefault {
    /// A look.
    pub fn look(&mut self, now: Instant, streams: &Streams, bounds: Bounds) -> Option<Step> {
        if streams.faults {
            self.faulted = Some(now);
            return match std::mem::take(&mut self.stage) {
                Stage::Watched => None,
                Stage::Tried { .. } | Stage::Kept { .. } => {
                    Some(Step::Restore("files are faulted in no order".to_owned()))
                }
            };
        }
        let has_faults = self.faulted.is_some_and(|at| now.since(at) < FAULTS);
        let is_refuted = self.refuted.is_some_and(|at| now.since(at) < REFUTED);
        let elapsed = self.last.map(|last| now.since(last)).filter(|it| *it <= GAP);
        if streams.file.is_some() {
            self.last = Some(now);
        }
        match self.stage {
            Stage::Kept { .. } => None,
            Stage::Watched => {
                let best = streams.kept.filter(|kept| *kept >= streams.default.saturating_mul(2));
                if let Some(to) = best.filter(|_| !has_faults) {
                    self.stage = Stage::Kept { from: streams.default };
                    return Some(Step::Set(to, "a stream was faster with it".to_owned()));
                }
                let file = streams.file?;
                if let Some(elapsed) = elapsed {
                    self.before.count(streams.bytes, elapsed);
                }
                let others = *self.file.get_or_insert(file) != file;
                let to = streams.default.saturating_mul(STEP).min(FIRST.min(bounds.cap));
                let is_worth = to >= streams.default.saturating_mul(2) && streams.default > 0;
                if !others || !is_worth || has_faults || is_refuted {
                    return None;
                }
                if self.before.seconds() < BEFORE_MIN {
                    return None;
                }
                self.stage = Stage::Tried { from: streams.default, to, since: now };
                self.after = Side::default();
                let rate = self.before.rate() / f64::from(1 << 20);
                Some(Step::Set(to, format!("streams of several files read {rate:.0} MiB/s")))
            }
            Stage::Tried { from, to, since } => {
                if now.since(since) >= TRIED_MAX {
                    (self.stage, self.refuted) = (Stage::Watched, Some(now));
                    return Some(Step::Restore("too few streams to judge it by".to_owned()));
                }
                streams.file?;
                // The first look still has streams that began before.
                let elapsed = elapsed?;
                if self.after.seconds() == 0.0 && self.file.take().is_some() {
                    return None;
                }
                self.after.count(streams.bytes, elapsed);
                if self.after.seconds() < SIDE_MIN {
                    return None;
                }
                let ratio = self.after.rate() / self.before.rate().max(f64::MIN_POSITIVE);
                self.before = Side::default();
                let told = format!("{from} -> {to} KiB; short streams; {ratio:.2} x the bytes/s");
                if ratio >= GAIN {
                    self.stage = Stage::Kept { from };
                    return Some(Step::Keep(told));
                }
                (self.stage, self.refuted) = (Stage::Watched, Some(now));
                Some(Step::Restore(told))
            }
        }
    }

    /// Whether it is being tried.
    pub fn is_tried(&self) -> bool {
        matches!(self.stage, Stage::Tried { .. })
    }

    /// The step could not be made, or the knob is another program's.
    pub fn refused(&mut self, now: Instant) {
        (self.stage, self.refuted) = (Stage::Watched, Some(now));
    }

    /// The default of before, while another one is in force.
    pub fn own(&self) -> Option<u64> {
        match self.stage {
            Stage::Watched => None,
            Stage::Tried { from, .. } | Stage::Kept { from } => Some(from),
        }
    }
}

/// The first try: from 128 KiB to 2 MiB, and what a link of 300 MB/s behind 2 ms needs several
/// times.
const STEP: u64 = 32;
const FIRST: u64 = 4_096;

/// What it must bring: short streams vary.
const GAIN: f64 = 1.25;

/// Seconds of streams before a trial, and in it.
const BEFORE_MIN: f64 = 0.2;
const SIDE_MIN: f64 = 0.45;

/// A trial that has not ended by then does not.
const TRIED_MAX: Duration = Duration::from_secs(30);

/// Looks further apart are not of one run of streams.
const GAP: Duration = Duration::from_millis(1_500);

/// How long after faults in no order the default stays as it is.
const FAULTS: Duration = Duration::from_secs(60);

/// What did not help is not tried again for so long.
const REFUTED: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of 20 MB one after the other, on a link whose rate follows the window.
    fn play(rate: impl Fn(u64) -> u64, looks: u64, faults_at: Option<u64>) -> (u64, Vec<Step>) {
        let (mut of, mut default, mut own) = (StreamDefault::default(), 128, 128);
        let mut steps = Vec::new();
        for look in 1..=looks {
            let streams = Streams {
                file: Some(look / 2),
                bytes: rate(default) / 4,
                faults: faults_at == Some(look),
                kept: None,
                default,
            };
            let now = Instant::ZERO + Duration::from_millis(250 * look);
            if let Some(step) = of.look(now, &streams, Bounds::default()) {
                match &step {
                    Step::Set(to, _) => (own, default) = (default, *to),
                    Step::Restore(_) => default = own,
                    Step::Keep(_) => {}
                }
                assert_eq!(of.own().is_some(), default != own);
                steps.push(step);
            }
        }
        (default, steps)
    }

    #[test]
    fn short_streams_get_a_larger_default_within_two_seconds() {
        let link = |window: u64| if window >= 1_024 { 500_000_000 } else { 54_000_000 };
        let (default, steps) = play(link, 8, None);
        assert_eq!(default, 4_096, "{steps:?}");
        assert!(matches!(&steps[1], Step::Keep(told) if told.contains("9.26 x")), "{steps:?}");
    }

    #[test]
    fn a_default_that_does_not_help_goes_back_and_is_not_tried_again() {
        let (default, steps) = play(|_| 100_000_000, 200, None);
        assert_eq!((default, steps.len()), (128, 2), "{steps:?}");
    }

    #[test]
    fn faults_in_no_order_have_the_default_of_before() {
        let link = |window: u64| if window >= 1_024 { 500_000_000 } else { 54_000_000 };
        for at in [6, 7, 30] {
            let (default, steps) = play(link, 40, Some(at));
            assert_eq!(default, 128, "at look {at}: {steps:?}");
        }
    }

    #[test]
    fn a_trial_whose_streams_end_goes_back() {
        let mut of = StreamDefault::default();
        let at = |look: u64| Instant::ZERO + Duration::from_millis(250 * look);
        let none = Streams { default: 128, ..Streams::default() };
        let mut steps = Vec::new();
        for look in 1..200 {
            let file = (look < 6).then_some(look);
            let streams = Streams { file, bytes: 9 << 20, ..none };
            steps.extend(of.look(at(look), &streams, Bounds::default()));
        }
        assert!(matches!(&steps[..], [Step::Set(4_096, _), Step::Restore(_)]), "{steps:?}");
        assert_eq!(of.own(), None);
    }

    #[test]
    fn one_long_stream_is_left_to_its_own_trial_and_what_it_kept_is_a_default() {
        let mut of = StreamDefault::default();
        let at = |look: u64| Instant::ZERO + Duration::from_millis(250 * look);
        let stream = Streams { file: Some(7), bytes: 9, default: 128, ..Streams::default() };
        for look in 1..50 {
            assert_eq!(of.look(at(look), &stream, Bounds::default()), None);
        }
        let kept = Streams { kept: Some(2_048), ..stream };
        let step = of.look(at(50), &kept, Bounds::default());
        assert!(matches!(step, Some(Step::Set(2_048, _))), "{step:?}");
        of.refused(at(51));
        assert_eq!(of.own(), None);
    }
}
