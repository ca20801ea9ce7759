//! A number that was measured, and how far it can be trusted.

/// A value with an interval that holds it nineteen times of twenty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end of the interval.
    pub high: f64,
    /// How many measurements it rests on.
    pub count: u64,
}

impl Estimate {
    /// The median of sorted values; its interval by the order of the values, whatever their
    /// distribution. Nothing is known of none.
    pub fn median(sorted: &[u64]) -> Self {
        let count = sorted.len();
        if count == 0 {
            return Self::default();
        }
        let half = (DEVIATIONS * libm::sqrt(count as f64) / 2.0) as usize;
        let at = |rank: usize| sorted[rank.min(count - 1)] as f64;
        let middle = count / 2;
        Self {
            value: at(middle),
            low: at(middle.saturating_sub(half + 1)),
            high: at(middle + half + 1),
            count: count as u64,
        }
    }

    /// The same in another unit, or of a quantity that is proportional to it.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// The same interval, relative to its value, around another value.
    #[must_use]
    pub fn around(self, value: f64) -> Self {
        let scale = if self.value > 0.0 { value / self.value } else { 0.0 };
        Self { value, ..self.times(scale) }
    }
}

/// The value at a share of sorted values; zero if there are none.
pub(super) fn quantile(sorted: &[u64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get(libm::round(last * share) as usize).map_or(0.0, |value| *value as f64)
}

/// This many standard deviations contain 95 % of the samples.
const DEVIATIONS: f64 = 1.96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_narrows_with_the_count() {
        let few: Vec<u64> = (0..25).map(|n| n * 40).collect();
        let many: Vec<u64> = (0..1_000).collect();
        let (few, many) = (Estimate::median(&few), Estimate::median(&many));
        assert_eq!((few.value, many.value), (480.0, 500.0));
        assert!(few.high - few.low > 4.0 * (many.high - many.low), "{few:?} {many:?}");
        assert!(many.low < 500.0 && many.high > 500.0);
        assert_eq!(Estimate::median(&[]), Estimate::default());
    }
}
