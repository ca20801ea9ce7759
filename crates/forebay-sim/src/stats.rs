//! What a run reports of its latencies.

use forebay_core::time::Duration;
use hdrhistogram::Histogram;

/// Latencies of a run: exact mean and maximum, percentiles to three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    total_ns: u128,
    longest: Duration,
}

/// The figures of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many latencies there were.
    pub count: u64,
    /// Their mean, rounded down to a nanosecond.
    pub mean: Duration,
    /// Half of them were not longer.
    pub p50: Duration,
    /// 99 of 100 were not longer.
    pub p99: Duration,
    /// 999 of 1000 were not longer.
    pub p99_9: Duration,
    /// The longest.
    pub max: Duration,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        let histogram = histogram.expect("the bounds are constants that the histogram accepts");
        Self { histogram, total_ns: 0, longest: Duration::ZERO }
    }

    /// Counts one latency.
    pub fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(latency.as_nanos());
        self.total_ns += u128::from(latency.as_nanos());
        self.longest = self.longest.max(latency);
    }

    /// Counts all latencies of `other` too.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both histograms have the same bounds");
        self.total_ns += other.total_ns;
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that `quantile` (0 to 1) of all did not exceed; never above the longest.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration(self.histogram.value_at_quantile(quantile)).min(self.longest)
    }

    /// The figures of a report; all zero if nothing was counted.
    pub fn summary(&self) -> Summary {
        let count = self.count();
        let mean = self.total_ns / u128::from(count.max(1));
        Summary {
            count,
            mean: Duration(u64::try_from(mean).unwrap_or(u64::MAX)),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p99_9: self.quantile(0.999),
            max: self.longest,
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// The end of the histogram, an hour: a longer latency counts as this long in a percentile.
const LONGEST_NS: u64 = 3_600 * 1_000_000_000;

/// Significant decimal digits of a percentile.
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counted_reports_zeros() {
        assert_eq!(Latencies::new().summary(), Summary::default());
    }

    #[test]
    fn percentiles_are_right_to_three_digits_and_the_rest_exactly() {
        let mut latencies = Latencies::new();
        for micros in 1..=10_000 {
            latencies.record(Duration::from_micros(micros));
        }
        let summary = latencies.summary();
        let near = |found: Duration, micros: u64| {
            let wanted = micros * 1_000;
            assert!(found.as_nanos().abs_diff(wanted) * 1_000 <= wanted, "{found} {micros}");
        };
        assert_eq!(summary.count, 10_000);
        assert_eq!(summary.mean, Duration(5_000_500));
        assert_eq!(summary.max, Duration::from_micros(10_000));
        near(summary.p50, 5_000);
        near(summary.p99, 9_900);
        near(summary.p99_9, 9_990);
    }

    #[test]
    fn a_merge_equals_counting_both() {
        let (mut left, mut right, mut both) = Default::default();
        for (index, latencies) in [&mut left, &mut right].into_iter().enumerate() {
            let latencies: &mut Latencies = latencies;
            for nanos in 0..1_000 {
                latencies.record(Duration(nanos * (1 + index as u64)));
                Latencies::record(&mut both, Duration(nanos * (1 + index as u64)));
            }
        }
        left.merge(&right);
        assert_eq!(left.summary(), both.summary());
    }

    #[test]
    fn a_latency_beyond_the_end_keeps_the_exact_maximum() {
        let mut latencies = Latencies::new();
        latencies.record(Duration(u64::MAX));
        assert_eq!(latencies.summary().max, Duration(u64::MAX));
        assert_eq!(latencies.summary().mean, Duration(u64::MAX));
    }
}
