//! Writers share what the device takes, page by page, and sleep just so long.
//!
//! Source:     Forebay; the future work of J. Oh, Y. Won, "The effect of Linux I/O throttling on
//!             user write latency": pages should be made dirty more slowly than they are written.
//! Behaviour:  above the background level, each writer that needs more than its share gets an equal
//!             part of the measured drain. All together get somewhat more below the middle of
//!             background and limit and somewhat less above it. Pauses of less than 2 ms are saved
//!             up. No writer fills more than the room below the limit in 200 ms.
//! Differs:    Linux averages bandwidth over seconds, finds the number of writers by a separate
//!             feedback, and holds every task at the limit, including light writers.
//! Not for:    short bursts that would fit below the limit; devices that share the limit with a
//!             much slower one, whose pages fill the room of all.

use alloc::boxed::Box;

use super::pacing::{Band, Pacing, RATE_MAX};
use super::{DirtyView, Policy, Throttle};
use crate::policy::Parameter;
use crate::time::Duration;
use crate::units::CallId;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "paced",
    summary: "writers share the measured drain and sleep after every few pages",
    source: "Forebay, after Oh and Won's future work",
    parameters: &[GAIN, CREDIT],
    build: |values| {
        let credit = Duration::from_millis(values.of("credit"));
        Box::new(Paced { gain: values.of("gain"), pacing: Pacing::new(credit) })
    },
};

/// How strongly the level bends the rate.
pub(super) const GAIN: Parameter = Parameter {
    name: "gain",
    default: 500,
    low: 0,
    high: 4_000,
    summary: "change of the rate per distance from the setpoint, in thousandths",
};

/// How far a writer may be ahead.
pub(super) const CREDIT: Parameter = Parameter {
    name: "credit",
    default: 50,
    low: 0,
    high: 1_000,
    summary: "time that a writer may save up for a burst, in ms",
};

#[derive(Debug)]
struct Paced {
    gain: u64,
    pacing: Pacing,
}

impl Throttle for Paced {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        let band = self.pacing.enter(task, view)?;
        self.pacing.settle(task, view, &band, proportional(view, &band, self.gain))
    }
}

/// The drain, a quarter more at most and three quarters less, by the distance from the setpoint.
pub(super) fn proportional(view: &DirtyView, band: &Band, gain: u64) -> Option<u64> {
    let drain = view.drain?.min(RATE_MAX);
    let bend = band.error_ppm() * gain as i64 / 1_000;
    let ppm = (1_000_000 + bend).clamp(250_000, 1_250_000) as u64;
    Some(drain * ppm / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LIMIT, view};
    use super::*;

    fn rate(dirty: u64) -> Option<u64> {
        let mut view = view(0, dirty);
        view.drain = Some(10_000);
        proportional(&view, &Band::of(&view, 0).unwrap(), 500)
    }

    #[test]
    fn the_rate_is_the_drain_at_the_setpoint_and_bends_around_it() {
        assert_eq!(rate(24_576), Some(10_000));
        assert_eq!(rate(18_433), Some(11_249));
        assert_eq!(rate(LIMIT), Some(8_333));
        assert_eq!(rate(10 * LIMIT), Some(2_500));
    }
}
