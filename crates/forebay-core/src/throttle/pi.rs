//! Writers share a rate that a controller moves until the level is at its setpoint.
//!
//! Source:     Forebay; a proportional-integral controller as in any textbook.
//! Behaviour:  every 200 ms the rate of all writers becomes the drain, bent by the distance of the
//!             level from the middle of background and limit and by the sum of these distances. The
//!             sum stands still while the rate is at its bound. Shares and pauses are those of
//!             `paced`.
//! Differs:    `paced` has no memory of the distance: a wrongly measured drain shifts its level
//!             permanently, not temporarily.
//! Not for:    drains that change faster than the level can follow, over which it swings.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::pacing::{Band, Pacing, RATE_MAX};
use super::{DirtyView, Policy, Throttle, paced};
use crate::policy::Parameter;
use crate::time::{Duration, Instant};
use crate::units::CallId;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "pi",
    summary: "as paced; a controller with memory brings the level to its setpoint",
    source: "Forebay",
    parameters: &[Parameter { default: 1_000, ..paced::GAIN }, paced::CREDIT],
    build: |values| {
        let credit = Duration::from_millis(values.of("credit"));
        let (gain, pacing) = (values.of("gain") as i64, Pacing::new(credit));
        Box::new(Pi { gain, pacing, devices: Vec::new() })
    },
};

/// From one move of the rate to the next.
const PERIOD: Duration = Duration::from_millis(200);

/// After a longer time without a sample, the level in between is unknown.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// The bounds of the rate and of the sum, in millionths of the drain.
const RATE_PPM: (i64, i64) = (250_000, 1_500_000);
const SUM_PPM: i64 = 500_000;

#[derive(Debug)]
struct Pi {
    gain: i64,
    pacing: Pacing,
    devices: Vec<Control>,
}

/// One device's controller; parts in millionths of the drain.
#[derive(Clone, Copy, Debug)]
struct Control {
    moved: Option<Instant>,
    sum: i64,
    rate: i64,
}

impl Throttle for Pi {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        let band = self.pacing.enter(task, view)?;
        let device = view.device.index();
        if self.devices.len() <= device {
            let control = Control { moved: None, sum: 0, rate: 1_000_000 };
            self.devices.resize(device + 1, control);
        }
        let rate = view.drain.map(|drain| {
            let drain = drain.min(RATE_MAX);
            let control = &mut self.devices[device];
            control.look(view.now, drain, &band, self.gain);
            drain * control.rate as u64 / 1_000_000
        });
        self.pacing.settle(task, view, &band, rate)
    }
}

impl Control {
    fn look(&mut self, now: Instant, drain: u64, band: &Band, gain: i64) {
        let elapsed = self.moved.map_or(Duration::ZERO, |moved| now.since(moved));
        if self.moved.is_some() && elapsed < PERIOD {
            return;
        }
        self.moved = Some(now);
        let error = band.error_ppm();
        let bent = 1_000_000 + error * gain / 1_000;
        let wanted = bent + self.sum;
        let saturated = (wanted >= RATE_PPM.1 && error > 0) || (wanted <= RATE_PPM.0 && error < 0);
        if !saturated {
            // A quarter of the drain by the setpoint is critical damping at a gain of one.
            let time = elapsed.min(PERIOD_MAX).as_nanos();
            let product = i128::from(error) * i128::from(time) * i128::from(drain);
            let step = product / (4 * 1_000_000_000 * i128::from(band.setpoint.max(1)));
            let bound = i128::from(SUM_PPM);
            self.sum = (i128::from(self.sum) + step).clamp(-bound, bound) as i64;
        }
        self.rate = (bent + self.sum).clamp(RATE_PPM.0, RATE_PPM.1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::view;
    use super::*;

    fn run(control: &mut Control, looks: core::ops::Range<u64>, dirty: u64) {
        for look in looks {
            let view = view(200 * look, dirty);
            control.look(view.now, 10_000, &Band::of(&view, 0).unwrap(), 1_000);
        }
    }

    fn fresh() -> Control {
        Control { moved: None, sum: 0, rate: 1_000_000 }
    }

    #[test]
    fn a_level_above_the_setpoint_slows_writers_ever_more() {
        let mut control = fresh();
        run(&mut control, 0..1, 27_033);
        assert_eq!(control.rate, 1_000_000 - 99_975);
        run(&mut control, 1..2, 27_033);
        // 0.1 * 0.2 s * (10000 / 24576) / 4.
        assert_eq!(control.sum, -2_033);
        run(&mut control, 2..1_000, 27_033);
        assert_eq!(control.rate, 1_000_000 - 99_975 - 500_000);
    }

    #[test]
    fn the_sum_stands_still_while_the_rate_is_at_its_bound() {
        let mut control = fresh();
        run(&mut control, 0..50, 100_000);
        assert_eq!((control.sum, control.rate), (0, 250_000));
    }

    #[test]
    fn the_rate_moves_five_times_a_second() {
        let mut control = fresh();
        run(&mut control, 0..1, 24_576);
        let early = view(100, 30_000);
        control.look(early.now, 10_000, &Band::of(&early, 0).unwrap(), 1_000);
        assert_eq!(control.rate, 1_000_000);
    }
}
