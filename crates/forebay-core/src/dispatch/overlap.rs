//! What a class of requests has shown of the device's time, and how long it pays to spin.
//!
//! What matters is the part of the device's time that another task could use: all of it, or nothing
//! if the processor moves the data itself. Each class keeps a histogram of these times `t` with
//! four buckets an octave. With `U` for the value of the spinning processor and `lam` for that of
//! the caller's latency, the limit of a spin is the `x` that minimizes
//!
//! ```text
//!   sum over t <= x of U t   +   the number of t > x, times (U x + switch (1 + lam))
//! ```
//!
//! among zero (never spin), the buckets' ends up to four switches, and no limit at all.
//! Each bucket keeps the sum of its times, so the first sum is exact and not one of bucket ends.
//! The rule is that of a rented ski: A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical studies of
//! competitive spinning for a shared-memory multiprocessor", SOSP 1991.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Class;
use crate::time::Duration;

/// Samples before a class is believed.
pub(super) const SAMPLES_MIN: u32 = 32;

/// Counts are halved at this number of samples.
const SAMPLES_MAX: u32 = 1024;

/// Four an octave of `u64`.
const BUCKETS: usize = 256;

/// Where an octave is cut: 2^(1/4), 2^(1/2) and 2^(3/4), times 2^63 and rounded up.
const CUTS: [u64; 3] =
    [10_968_499_650_544_839_024, 13_043_817_825_332_782_213, 15_511_800_964_685_064_949];

/// Beyond this number of switches only an endless spin is considered.
const SWITCHES_WEIGHED: u64 = 4;

/// The times of a class, the older the fainter.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: [u16; BUCKETS],
    sums: [u64; BUCKETS],
    samples: u32,
}

/// What spinning and blocking cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// The processor's way to another task and back.
    pub(super) switch: Duration,
    /// The value of the processor that spins, in percent.
    pub(super) processor: u64,
    /// The value of the caller's latency, in percent of the processor's.
    pub(super) latency: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: [0; BUCKETS], sums: [0; BUCKETS], samples: 0 }
    }

    /// One more request took so long.
    pub(super) fn add(&mut self, time: Duration) {
        if self.samples >= SAMPLES_MAX {
            self.halve();
        }
        let bucket = bucket(time.0);
        self.counts[bucket] += 1;
        self.sums[bucket] = self.sums[bucket].saturating_add(time.0);
        self.samples += 1;
    }

    /// The samples that are kept.
    pub(super) fn samples(&self) -> u32 {
        self.samples
    }

    /// A time that this percentage of the samples does not exceed: the mean of the bucket where
    /// the percentage is reached, which is exact where all its times are the same.
    pub(super) fn quantile(&self, percent: u32) -> Duration {
        let rank = (self.samples * percent).div_ceil(100);
        let mut below = 0;
        for (count, sum) in self.counts.iter().zip(&self.sums) {
            below += u32::from(*count);
            if *count > 0 && below >= rank {
                return Duration(sum / u64::from(*count));
            }
        }
        Duration::ZERO
    }

    /// The limit of a spin that costs least; of equals the longer.
    pub(super) fn spin(&self, prices: Prices) -> Duration {
        let weighed = prices.switch.times(SWITCHES_WEIGHED).0;
        let mut best = (self.cost(prices, Duration::ZERO), Duration::ZERO);
        let mut spun = 0_u128;
        let mut left = self.samples;
        for (bucket, end) in (0..BUCKETS).map(|bucket| (bucket, end(bucket))) {
            spun += u128::from(self.sums[bucket]);
            left -= u32::from(self.counts[bucket]);
            if end <= weighed || end == ENDLESS.0 {
                let cost = prices.of(spun, left, end);
                if cost <= best.0 {
                    best = (cost, Duration(end));
                }
            }
        }
        best.1
    }

    /// What spinning up to `limit`, the end of a bucket, costs for all samples: hundredths of
    /// nanoseconds of a processor.
    pub(super) fn cost(&self, prices: Prices, limit: Duration) -> u128 {
        let mut spun = 0_u128;
        let mut left = self.samples;
        for bucket in (0..BUCKETS).take_while(|bucket| limit.0 > 0 && end(*bucket) <= limit.0) {
            spun += u128::from(self.sums[bucket]);
            left -= u32::from(self.counts[bucket]);
        }
        prices.of(spun, left, limit.0)
    }

    fn halve(&mut self) {
        self.samples = 0;
        for (count, sum) in self.counts.iter_mut().zip(&mut self.sums) {
            // A bucket's mean stays, so a last sample that is dropped takes its time along.
            let half = *count / 2;
            *sum = match *count {
                0 => 0,
                count => {
                    let part = u128::from(*sum) * u128::from(half) / u128::from(count);
                    u64::try_from(part).unwrap_or(u64::MAX)
                }
            };
            *count = half;
            self.samples += u32::from(half);
        }
    }
}

impl Prices {
    /// Of `spun` nanoseconds and `left` requests that blocked after `limit` more each.
    ///
    /// At most 2^10 (2^73 + 2^11 2^64) + 2^11 2^64 2^11 is below 2^128.
    fn of(self, spun: u128, left: u32, limit: u64) -> u128 {
        let left = u128::from(left);
        let spins = spun + left * u128::from(limit);
        let blocks = left * u128::from(self.switch.0);
        u128::from(self.processor) * spins + blocks * (100 + u128::from(self.latency))
    }
}

/// No limit.
pub(super) const ENDLESS: Duration = Duration(u64::MAX);

/// The bucket of a time: its octave, and which of the cuts it reaches there.
fn bucket(time: u64) -> usize {
    let time = time.max(1);
    let octave = time.ilog2() as usize;
    let mantissa = time << (63 - octave);
    4 * octave + CUTS.iter().filter(|cut| **cut <= mantissa).count()
}

/// The longest time of a bucket; the first buckets share theirs.
fn end(bucket: usize) -> u64 {
    let shift = 63 - bucket / 4;
    let beyond = CUTS.get(bucket % 4).map_or(u64::MAX, |cut| cut - 1);
    beyond >> shift
}

/// A value for each class that was seen: of reads and writes, needed and ahead, by octave of size.
#[derive(Debug)]
pub(super) struct Classes<T> {
    slots: Vec<Option<Box<T>>>,
}

/// The octaves of a size: 2^0 to 2^64 bytes, rounded up.
const SIZES: usize = 65;

impl<T> Classes<T> {
    pub(super) fn new() -> Self {
        Self { slots: (0..4 * SIZES).map(|_| None).collect() }
    }

    /// The value of a class; `fresh` makes it at the first access, which is the only allocation.
    pub(super) fn of(&mut self, class: &Class, fresh: impl FnOnce() -> T) -> &mut T {
        self.slots[slot(class)].get_or_insert_with(|| Box::new(fresh()))
    }

    /// The values of the same kind, needed or ahead, of sizes below that of `class`; the nearest
    /// first.
    pub(super) fn smaller(&self, class: &Class) -> impl Iterator<Item = &T> {
        let (first, size) = (slot(&Class { bytes: 0, ..*class }), size(class.bytes));
        let twin = slot(&Class { bytes: 0, ahead: !class.ahead, ..*class });
        let both = (0..size).rev().flat_map(move |size| [first + size, twin + size]);
        both.filter_map(|slot| self.slots[slot].as_deref())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(Option::as_deref)
    }
}

fn slot(class: &Class) -> usize {
    (2 * usize::from(class.write) + usize::from(class.ahead)) * SIZES + size(class.bytes)
}

/// The logarithm of a size, rounded up.
fn size(bytes: u64) -> usize {
    match bytes {
        0 | 1 => 0,
        bytes => (bytes - 1).ilog2() as usize + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn histogram(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        times.into_iter().for_each(|time| histogram.add(Duration(time)));
        histogram
    }

    /// Times of all octaves up to 2^25, most of them near each other.
    fn times(random: &mut Random, samples: u64) -> Vec<u64> {
        let octave = random.below(20);
        let mut any = |_| {
            let above = random.below(6);
            random.below(1 << (octave + above))
        };
        (0..samples).map(&mut any).collect()
    }

    #[test]
    fn every_time_lies_in_the_bucket_whose_end_is_the_next_one_above() {
        let mut random = Random(1);
        let near = (0..64).flat_map(|octave| [(1 << octave) - 1, 1 << octave, (1 << octave) + 1]);
        let any = (0..64).map(|shift| random.below(u64::MAX) >> shift);
        for time in near.chain(any).chain([0, 1, 2, 3, u64::MAX]) {
            let bucket = bucket(time);
            assert!(time <= end(bucket), "{time}");
            assert!(bucket < 4 || time > end(bucket - 1), "{time}");
        }
    }

    #[test]
    fn ends_lie_a_quarter_of_an_octave_apart() {
        for bucket in 64..BUCKETS {
            let (low, high) = (u128::from(end(bucket - 1)), u128::from(end(bucket)));
            assert!(low * 1_189 / 1_000 <= high && high <= low * 1_190 / 1_000, "{bucket}");
        }
    }

    #[test]
    fn the_spin_is_the_best_of_all_ends() {
        let mut random = Random(7);
        for round in 0..400 {
            let times = times(&mut random, 32 + round % 700);
            let switch = random.below(1 << 20);
            let (processor, latency) = (random.below(300), random.below(200));
            let prices = Prices { switch: Duration(switch), processor, latency };
            // The cost from the single times, without buckets.
            let cost = |limit: u64| -> u128 {
                let each = |time: &u64| match *time <= limit && limit > 0 {
                    true => u128::from(processor) * u128::from(*time),
                    false => {
                        u128::from(processor) * u128::from(limit)
                            + u128::from(switch) * u128::from(100 + latency)
                    }
                };
                times.iter().map(each).sum()
            };
            let weighed = (0..BUCKETS).map(end).filter(|end| *end <= 4 * switch);
            let least = weighed.chain([0, u64::MAX]).map(cost).min().unwrap();
            let found = histogram(times.iter().copied()).spin(prices);
            assert_eq!(cost(found.0), least, "round {round}: {found}");
        }
    }

    #[test]
    fn blocking_costs_the_asker_no_more_than_the_value_of_the_processor() {
        let mut random = Random(9);
        for round in 0..2_000 {
            let times = times(&mut random, 32 + round % 700);
            let switch = 1 + random.below(1 << 16);
            let prices = Prices { switch: Duration(switch), processor: 3, latency: 0 };
            let histogram = histogram(times.iter().copied());
            let slow = histogram.quantile(90) > Duration(50 * switch);
            let longest = if slow { Duration(50 * switch) } else { ENDLESS };
            // An endless spin is cut where one in ten takes longer.
            let spin = histogram.spin(prices).min(longest);
            let spins = |time: &&u64| **time <= spin.0 && spin.0 > 0;
            let blocked = times.len() - times.iter().filter(spins).count();
            let lost = 100 * switch * blocked as u64;
            assert!(lost <= 3 * times.iter().sum::<u64>(), "round {round}");
        }
    }

    #[test]
    fn a_known_time_is_spun_for_up_to_the_price_of_the_switch() {
        let spin = |time, processor| {
            let prices = Prices { switch: Duration(10_000), processor, latency: 0 };
            histogram([time; 64]).spin(prices)
        };
        assert_eq!([spin(9_999, 100), spin(10_001, 100)], [ENDLESS, Duration::ZERO]);
        assert_eq!([spin(333_333, 3), spin(333_334, 3)], [ENDLESS, Duration::ZERO]);
        assert_eq!(spin(u64::MAX, 0), ENDLESS, "a processor without value");
    }

    #[test]
    fn of_two_humps_only_the_near_one_is_spun_for() {
        let times = (0..100).map(|sample| if sample < 90 { 5_000 } else { 1_000_000 });
        let prices = Prices { switch: Duration(10_000), processor: 100, latency: 0 };
        let found = histogram(times).spin(prices);
        assert_eq!(found, Duration(end(bucket(5_000))));
    }

    #[test]
    fn quantiles_of_equal_times_are_exact() {
        let times = (0..100).map(|sample| if sample < 90 { 5_123 } else { 77_777 });
        let histogram = histogram(times);
        assert_eq!(histogram.quantile(90), Duration(5_123));
        assert_eq!(histogram.quantile(91), Duration(77_777));
        assert_eq!(Histogram::new().quantile(90), Duration::ZERO);
    }

    #[test]
    fn old_times_fade() {
        let mut histogram = histogram([1_000_000; 1_024]);
        (0..4 * 512).for_each(|_| histogram.add(Duration(1_000)));
        assert_eq!(histogram.quantile(90), Duration(1_000));
        assert!(histogram.samples() <= SAMPLES_MAX && histogram.samples() >= SAMPLES_MAX / 2);
        let huge = Prices { switch: ENDLESS, processor: 1_000, latency: 1_000 };
        (0..4_096).for_each(|_| histogram.add(ENDLESS));
        assert!(histogram.cost(huge, ENDLESS) > 0, "the largest sums do not overflow");
    }

    /// Spinning for the price of the switch costs at most twice what a prophet pays.
    #[test]
    fn spinning_for_one_switch_costs_at_most_twice_the_optimum() {
        let mut random = Random(3);
        let switch = 10_000;
        let cost = |time: u64| if time <= switch { time } else { switch + switch };
        for time in [1, switch - 1, switch, switch + 1, 2 * switch, u64::MAX] {
            assert!(cost(time) <= 2 * time.min(switch), "{time}");
        }
        let prices = Prices { switch: Duration(switch), processor: 100, latency: 0 };
        for _ in 0..200 {
            // An adversary that knows the limit ends each request just beyond it, or at once.
            let part = random.below(101);
            let draw = |_| if random.below(100) < part { switch + 1 } else { 1 };
            let times: Vec<u64> = (0..200).map(draw).collect();
            let prophet: u64 = times.iter().map(|time| (*time).min(switch)).sum();
            assert!(times.iter().map(|time| cost(*time)).sum::<u64>() <= 2 * prophet);
            // The choice, knowing the distribution, is not worse than either fixed rule.
            let histogram = histogram(times.iter().copied());
            let chosen = histogram.cost(prices, histogram.spin(prices));
            let (never, always) = (200 * switch, times.iter().sum::<u64>());
            assert!(chosen <= 100 * u128::from(never.min(always)));
        }
    }

    #[test]
    fn sizes_are_rounded_up_to_octaves() {
        let sizes = [0, 1, 2, 3, 4, 4_096, 4_097, 1 << 63, (1 << 63) + 1, u64::MAX].map(size);
        assert_eq!(sizes, [0, 0, 1, 2, 2, 12, 13, 63, 64, 64]);
    }

    #[test]
    fn smaller_classes_come_nearest_first_and_never_of_the_other_direction() {
        let class = |write, bytes, ahead| Class { write, bytes, ahead };
        let mut classes = Classes::new();
        for (name, class) in [
            (1, class(false, 512, false)),
            (2, class(false, 4_096, true)),
            (3, class(true, 8_192, false)),
            (4, class(false, 65_536, false)),
        ] {
            *classes.of(&class, || 0) = name;
        }
        let found: Vec<_> = classes.smaller(&class(false, 65_536, false)).copied().collect();
        assert_eq!(found, [2, 1]);
    }
}
