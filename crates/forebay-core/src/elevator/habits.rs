//! What an elevator learns of a task: how long it thinks between two requests, and how far apart
//! they lie.
//!
//! Source:     Linux 2.6.21, block/as-iosched.c and block/cfq-iosched.c.
//! Behaviour:  means in which each sample weighs an eighth and all older ones together the rest.
//!             The weights are counted too, so that the first sample is its own mean. A single long
//!             seek counts for little more than four times the mean.
//!
//! ```text
//!   samples   0    32    60    84 ... 249     of 256: how much of a mean is known
//! ```

/// One sample, in the fixed point of the means.
const ONE: u64 = 256;

/// More of a mean than this is known from the third sample on.
const KNOWN: u64 = 80;

/// How far beyond four times the mean a seek counts while the mean is young, in sectors: 1 GiB.
const SLACK_YOUNG: u64 = 2 * 1_024 * 1_024;

/// The same later: 64 MiB.
const SLACK: u64 = 2 * 64 * 1_024;

/// The weight of samples up to which a mean is young.
const YOUNG: u64 = 60;

/// A mean that forgets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    samples: u64,
    total: u128,
    mean: u64,
}

/// A mean that forgets and begins with nothing: it takes some samples until it is right.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drift {
    total: u128,
}

/// The habits of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// How long it thinks, in jiffies.
    pub(super) think: Mean,
    /// How far it seeks, in sectors.
    pub(super) seek: Mean,
    /// Where its last request ended.
    pub(super) position: u64,
}

impl Mean {
    /// Counts a sample.
    fn add(&mut self, sample: u64, half: impl Fn(u64) -> u64) {
        self.samples = (7 * self.samples + ONE) / 8;
        self.total = decayed(self.total, sample);
        let mean = (self.total + u128::from(half(self.samples))) / u128::from(self.samples);
        self.mean = u64::try_from(mean).unwrap_or(u64::MAX);
    }

    /// The mean; zero without a sample.
    pub(super) fn mean(&self) -> u64 {
        self.mean
    }

    /// Whether there is no sample.
    pub(super) fn is_new(&self) -> bool {
        self.samples == 0
    }

    /// Whether there are enough samples to act on.
    pub(super) fn is_known(&self) -> bool {
        self.samples > KNOWN
    }
}

impl Drift {
    /// Counts a sample.
    pub(super) fn add(&mut self, sample: u64) {
        self.total = decayed(self.total, sample);
    }

    /// The mean.
    pub(super) fn mean(&self) -> u64 {
        u64::try_from(self.total / u128::from(ONE)).unwrap_or(u64::MAX)
    }
}

impl Habits {
    /// The task has thought for `jiffies`.
    pub(super) fn thought(&mut self, jiffies: u64) {
        self.think.add(jiffies, |_| ONE / 2);
    }

    /// How far a request lies from the end of the task's last one.
    pub(super) fn distance(&self, sector: u64) -> u64 {
        self.position.abs_diff(sector)
    }

    /// The task has sought so far.
    pub(super) fn sought(&mut self, distance: u64) {
        let slack = if self.seek.samples <= YOUNG { SLACK_YOUNG } else { SLACK };
        let most = self.seek.mean.saturating_mul(4).saturating_add(slack);
        self.seek.add(distance.min(most), |samples| samples / 2);
    }
}

/// Seven parts of the old total and one of a sample.
fn decayed(total: u128, sample: u64) -> u128 {
    (7 * total + u128::from(ONE) * u128::from(sample)) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_is_the_mean_and_the_third_makes_it_known() {
        let mut habits = Habits::default();
        assert!(habits.think.is_new());
        let known = [12, 12, 12].map(|jiffies| {
            habits.thought(jiffies);
            // A half is 128 of 256 whatever the weight, so that a young mean is a little too high.
            assert!((12..=16).contains(&habits.think.mean()), "{}", habits.think.mean());
            habits.think.is_known()
        });
        assert_eq!(known, [false, false, true]);
    }

    #[test]
    fn a_sample_weighs_an_eighth() {
        let mut habits = Habits::default();
        for _ in 0..100 {
            habits.thought(16);
        }
        assert_eq!(habits.think.mean(), 16);
        habits.thought(0);
        assert_eq!(habits.think.mean(), 14);
    }

    #[test]
    fn one_long_seek_counts_for_little() {
        let mut habits = Habits::default();
        habits.sought(u64::MAX);
        assert_eq!(habits.seek.mean(), SLACK_YOUNG, "a gigabyte at first");
        for _ in 0..200 {
            habits.sought(0);
        }
        assert_eq!(habits.seek.mean(), 0);
        habits.sought(u64::MAX);
        assert_eq!(habits.seek.mean(), (SLACK * 32 + 124) / 249, "an eighth of 64 MiB later");
    }

    #[test]
    fn seeks_beyond_any_disk_do_not_overflow() {
        let mut habits = Habits::default();
        for _ in 0..1_000 {
            habits.sought(u64::MAX);
            habits.thought(u64::MAX);
        }
        assert!(habits.seek.mean() > u64::MAX / 2);
    }

    #[test]
    fn a_drifting_mean_comes_near_by_eighths() {
        let mut drift = Drift::default();
        drift.add(80);
        assert_eq!(drift.mean(), 10);
        drift.add(80);
        assert_eq!(drift.mean(), 18);
    }
}
