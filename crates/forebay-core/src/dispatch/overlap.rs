//! What a class of requests has shown of the device's time, and how long it pays to spin.
//!
//! What matters is the part of the device's time that another task could use: all of it, or nothing
//! where the processor moves the data itself. Each class keeps a histogram of these times `t` with
//! four buckets an octave. With `U` for the value of the processor that spins and `lam` for that of
//! the asker's latency, the limit of a spin is the `x` that makes the least of
//!
//! ```text
//!   sum over t <= x of U t   +   the number of t > x, times (U x + switch (1 + lam))
//! ```
//!
//! among zero (never spin), the buckets' ends up to four switches, and the longest that is allowed.
//! Each bucket keeps the sum of its times, so the first sum is exact and not one of bucket ends.
//! The rule is that of a rented ski: A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical studies of
//! competitive spinning for a shared-memory multiprocessor", SOSP 1991.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Class;
use crate::time::Duration;

/// Samples before a class is believed.
pub(super) const SAMPLES_MIN: u32 = 32;

/// Counts are halved when there are so many samples.
const SAMPLES_MAX: u32 = 1024;

/// Four an octave of `u64`.
const BUCKETS: usize = 256;

/// Where an octave is cut: 2^(1/4), 2^(1/2) and 2^(3/4), times 2^63 and rounded up.
const CUTS: [u64; 3] =
    [10_968_499_650_544_839_024, 13_043_817_825_332_782_213, 15_511_800_964_685_064_949];

/// Beyond so many switches nothing but the longest spin is weighed.
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
    /// The value of the asker's latency, in percent of the processor's.
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

    /// The limit of a spin that costs least, not beyond `longest`; of equals the longer.
    pub(super) fn spin(&self, prices: Prices, longest: Duration) -> Duration {
        let (weighed, last) = (prices.switch.times(SWITCHES_WEIGHED), last_end(longest));
        let mut best = (self.cost(prices, Duration::ZERO), 0);
        let mut spun = 0_u128;
        let mut left = self.samples;
        for (bucket, end) in (0..BUCKETS).map(|bucket| (bucket, end(bucket))) {
            if end > last {
                break;
            }
            spun += u128::from(self.sums[bucket]);
            left -= u32::from(self.counts[bucket]);
            if end <= weighed.0 || end == last {
                let cost = prices.of(spun, left, end);
                if cost <= best.0 {
                    best = (cost, end);
                }
            }
        }
        Duration(best.1)
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

/// The last bucket's end that is not beyond `limit`, zero if there is none.
fn last_end(limit: Duration) -> u64 {
    match bucket(limit.0) {
        bucket if end(bucket) <= limit.0 => end(bucket),
        0 => 0,
        bucket => end(bucket - 1),
    }
}

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

    /// The value of a class; `fresh` makes it at the first sight, the only time that memory is
    /// asked for.
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
