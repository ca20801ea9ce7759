//! The clock of old kernels: interrupts of a timer, counted.
//!
//! ```text
//!   jiffies   0       1       2       3       4        HZ = 250: 4 ms each
//!             |-------|-------|-------|-------|
//!                  ^ now is jiffy 0; a timer for jiffy 2 goes off here: ^ and no sooner
//! ```

use crate::policy::Parameter;
use crate::time::{Duration, Instant};

/// How often the timer interrupts.
pub(super) const HZ: Parameter =
    Parameter::new("hz", 250, (100, 1_000), "HZ, the timer's interrupts a second");

const SECOND: u64 = 1_000_000_000;

/// A clock that counts the interrupts of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jiffies {
    /// How often it counts in a second, the parameter [`HZ`].
    pub(super) hz: u64,
}

impl Jiffies {
    /// What the clock shows.
    pub(super) fn at(self, now: Instant) -> u64 {
        (u128::from(now.0) * u128::from(self.hz) / u128::from(SECOND)) as u64
    }

    /// When the clock begins to show a jiffy: a timer for it goes off.
    pub(super) fn begin(self, jiffy: u64) -> Instant {
        Instant::ZERO + self.length(jiffy)
    }

    /// `jiffies` as a length of time, rounded up to a nanosecond.
    pub(super) fn length(self, jiffies: u64) -> Duration {
        let nanos = (u128::from(jiffies) * u128::from(SECOND)).div_ceil(u128::from(self.hz));
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whole jiffies in `millis` milliseconds.
    pub(super) fn of_millis(self, millis: u64) -> u64 {
        millis * self.hz / 1_000
    }

    /// Whole jiffies in `millis` milliseconds, but at least one if there are any: otherwise a slow
    /// timer would switch a time off.
    pub(super) fn of_millis_or_one(self, millis: u64) -> u64 {
        self.of_millis(millis).max(millis.min(1))
    }

    /// Whole milliseconds in `jiffies`.
    pub(super) fn millis(self, jiffies: u64) -> u64 {
        jiffies.saturating_mul(1_000) / self.hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_goes_off_when_the_clock_begins_to_show_its_jiffy() {
        for hz in [100, 250, 300, 1_000] {
            let jiffies = Jiffies { hz };
            for jiffy in [1, 7, 1_000_003] {
                let at = jiffies.begin(jiffy);
                assert_eq!(jiffies.at(at), jiffy);
                assert_eq!(jiffies.at(Instant(at.0 - 1)), jiffy - 1);
            }
        }
        assert_eq!(Jiffies { hz: 1_000 }.begin(u64::MAX), Instant(u64::MAX));
    }

    #[test]
    fn a_short_time_is_a_jiffy_and_none_is_none() {
        let of = |hz, millis| Jiffies { hz }.of_millis_or_one(millis);
        assert_eq!((of(100, 8), of(250, 8), of(1_000, 8), of(100, 0)), (1, 2, 8, 0));
    }
}
