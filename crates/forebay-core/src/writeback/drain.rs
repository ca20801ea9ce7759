//! How fast a device takes dirty pages, measured while it is never without one.
//!
//! Source:     Forebay; the asymmetric gain follows faster when the device becomes slower.
//! Behaviour:  a sample is the pages written over at least 200 ms in which writes were always at
//!             the device; the first sample is the estimate, later ones move it by half of the
//!             difference downwards and an eighth of it upwards.
//! Differs:    Linux averages over about three seconds, idle times included, and begins with
//!             100 MB/s.
//! Not for:    devices that are never busy for 200 ms: they have no estimate, and need none.

use crate::time::{Duration, Instant};

/// The least length of a sample.
const WINDOW: Duration = Duration::from_millis(200);

/// The estimate of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// When the present sample began, while the device is busy.
    since: Option<Instant>,
    pages: u64,
    estimate: Option<u64>,
}

impl Drain {
    /// A write is at the device; harmless if others already were.
    pub fn begin(&mut self, now: Instant) {
        if self.since.is_none() {
            self.since = Some(now);
            self.pages = 0;
        }
    }

    /// `pages` have been written; `idle` says that no write is left at the device.
    pub fn end(&mut self, now: Instant, pages: u64, idle: bool) {
        let Some(since) = self.since else { return };
        self.pages += pages;
        let elapsed = now.since(since);
        if elapsed >= WINDOW {
            let rate = u128::from(self.pages) * 1_000_000_000 / u128::from(elapsed.as_nanos());
            self.learn(u64::try_from(rate).unwrap_or(u64::MAX).max(1));
            self.since = Some(now);
            self.pages = 0;
        }
        if idle {
            self.since = None;
        }
    }

    /// Pages a second, once it has been measured.
    pub fn pages_per_second(&self) -> Option<u64> {
        self.estimate
    }

    fn learn(&mut self, sample: u64) {
        self.estimate = Some(match self.estimate {
            None => sample,
            Some(old) if sample < old => old - (old - sample) / 2,
            Some(old) => old + (sample - old) / 8,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_first_sample_counts_whole_and_later_ones_in_part() {
        let mut drain = Drain::default();
        drain.begin(at(0));
        drain.end(at(100), 1_000, false);
        assert_eq!(drain.pages_per_second(), None, "too short");
        drain.end(at(200), 1_000, false);
        assert_eq!(drain.pages_per_second(), Some(10_000));
        drain.end(at(400), 1_000, false);
        assert_eq!(drain.pages_per_second(), Some(7_500));
        drain.end(at(600), 2_300, false);
        assert_eq!(drain.pages_per_second(), Some(8_000));
    }

    #[test]
    fn idle_times_do_not_count() {
        let mut drain = Drain::default();
        drain.begin(at(0));
        drain.end(at(150), 10, true);
        drain.begin(at(900));
        drain.end(at(1_100), 200, true);
        assert_eq!(drain.pages_per_second(), Some(1_000));
    }
}
