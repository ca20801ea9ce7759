//! A limit in requests or bytes a second, recognised by how it holds requests back.
//!
//! ```text
//!   reads of 4 KiB   ......|......|......|......|     a dot is quick, a bar is held
//!                          '------'------'            equal distances: a window
//! ```
//!
//! Holds are long, at equal distances, and make up at least half of the time. Garbage collection
//! and a busy host are one or two of these, but not all.

use super::estimate::quantile;
use super::fitted::Number;
use super::{Estimate, Experiment, LARGE, Measured, SMALL, Samples, WRITE_LONG, WRITE_SMALL};

/// The limit of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Requests a second.
    pub requests: Option<Estimate>,
    /// Bytes a second.
    pub bytes: Option<Estimate>,
    /// Nanoseconds of a window.
    pub window: Estimate,
    /// Whether small writes are held as long as reads are.
    pub holds_writes: bool,
    /// Whether a long stream of writes is as fast as the limit of reads in bytes.
    pub slows_writes: bool,
    /// A read of 4 KiB that takes longer, in nanoseconds, was held.
    pub hold: f64,
}

/// The limit that held requests of one kind back, one at a time.
#[derive(Clone, Copy, Debug)]
struct Holds {
    /// Requests a second.
    rate: Estimate,
    /// Nanoseconds from one hold to the next.
    window: Estimate,
    /// What takes longer is a hold.
    hold: f64,
}

/// The limit of a device, if it has one.
pub(super) fn seen(measured: &Measured) -> Option<Seen> {
    let of = |wanted: Experiment| holds(measured.find(|known| *known == wanted)?.1);
    let (small, large) = (of(SMALL), of(LARGE));
    let window = small.or(large)?.window;
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < SAME;
    let (mut requests, mut bytes) =
        (small.map(|holds| holds.rate), large.map(|holds| holds.rate.times(LARGE.bytes as f64)));
    if let (Some(few), Some(many)) = (requests, bytes) {
        // One limit explains both.
        if near(few.value * SMALL.bytes as f64, many.value) {
            requests = None;
        } else if near(few.value, many.value / LARGE.bytes as f64) {
            bytes = None;
        }
    }
    let hold = small.map_or(f64::INFINITY, |holds| holds.hold);
    let (holds_writes, slows_writes) = (
        requests.is_some() && holds_writes(measured, window),
        bytes.is_some_and(|limit| slows_writes(measured, limit)),
    );
    Some(Seen { requests, bytes, window, holds_writes, slows_writes, hold })
}

fn holds_writes(measured: &Measured, window: Estimate) -> bool {
    let writes = measured.find(|known| *known == WRITE_SMALL);
    let is_held = |took: &u64| *took as f64 > window.value / 2.0;
    writes.is_some_and(|(_, samples)| samples.latencies.iter().any(is_held))
}

fn slows_writes(measured: &Measured, limit: Estimate) -> bool {
    let writes = measured.find(|known| *known == WRITE_LONG);
    writes.is_some_and(|(_, samples)| {
        let rate = WRITE_LONG.bytes as f64 * 1e9 / samples.each().max(1.0);
        (rate / limit.value - 1.0).abs() < SAME
    })
}

impl Seen {
    /// Its numbers, as keys of a machine.
    pub(super) fn numbers(&self) -> Vec<Number> {
        let number = |key, estimate: Estimate, size: &str, also: &str| {
            let source = format!("M: probe, reads{size}, held {} times{also}", estimate.count);
            Number { key, estimate, source }
        };
        let (small, large) = (" of 4 KiB", " of 1 MiB");
        let mut numbers = vec![number("device.limit_window", self.window, "", "")];
        if let Some(limit) = self.requests {
            numbers.push(number("device.limit_reads", limit, small, ""));
            if self.holds_writes {
                let also = "; writes of 4 KiB are held too";
                numbers.push(number("device.limit_writes", limit, small, also));
            }
        }
        if let Some(limit) = self.bytes {
            numbers.push(number("device.limit_read_rate", limit, large, ""));
            if self.slows_writes {
                let also = "; a long stream of writes is as slow";
                numbers.push(number("device.limit_write_rate", limit, large, also));
            }
        }
        numbers
    }
}

fn holds(samples: &Samples) -> Option<Holds> {
    let mut sorted = samples.latencies.clone();
    sorted.sort_unstable();
    let (median, longest) = (quantile(&sorted, 0.5), quantile(&sorted, 1.0));
    let hold = (median * LONG).max(HOLD_MIN_NS).max(longest / 8.0);
    let mut ends = Vec::new();
    let (mut now, mut held) = (0_u64, 0_u64);
    for (number, took) in samples.latencies.iter().enumerate() {
        now += took;
        if *took as f64 > hold {
            held += took;
            ends.push((number, now));
        }
    }
    let ([(first, begin), .., (last, end)], true) = (&ends[..], ends.len() >= HOLDS_MIN) else {
        return None;
    };
    let mut gaps: Vec<u64> = ends.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    gaps.sort_unstable();
    let window = Estimate::median(&gaps);
    let is_equal = |gap: &&u64| (**gap as f64 / window.value - 1.0).abs() < EQUAL;
    let equal = gaps.iter().filter(is_equal).count();
    if held * 2 < now || equal * 4 < gaps.len() * 3 {
        return None;
    }
    let rate = (last - first) as f64 * 1e9 / (end - begin) as f64;
    // As certain as the distances between holds.
    let (low, high) = (rate * window.value / window.high, rate * window.value / window.low);
    let rate = Estimate { value: rate, low, high, count: ends.len() as u64 };
    Some(Holds { rate, window, hold })
}

/// How many medians a hold takes, at least.
const LONG: f64 = 4.0;

/// And how many nanoseconds: no device is that late again and again.
const HOLD_MIN_NS: f64 = 2_000_000.0;

/// Fewer holds are chance.
const HOLDS_MIN: usize = 4;

/// How far equal distances differ.
const EQUAL: f64 = 0.1;

/// How far two views of one limit differ.
const SAME: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(latencies: &[u64]) -> Samples {
        Samples { latencies: latencies.to_vec(), ..Samples::default() }
    }

    /// Windows of 100 ms with 50 quick reads each.
    fn windows(count: usize) -> Vec<u64> {
        let window = [&[100_000; 50][..], &[95_000_000]].concat();
        window.repeat(count)
    }

    #[test]
    fn equal_distances_are_a_limit() {
        let found = holds(&samples(&windows(5))).expect("it is one");
        assert!((found.rate.value - 510.0).abs() < 0.1, "{found:?}");
        assert_eq!((found.window.value, found.rate.count), (100_000_000.0, 5));
        assert!(holds(&samples(&windows(3))).is_none());
    }

    #[test]
    fn late_reads_here_and_there_are_none() {
        // At unequal distances.
        let mut latencies = Vec::new();
        for distance in [3, 200, 20, 700, 90] {
            latencies.extend(vec![100_000; distance]);
            latencies.push(95_000_000);
        }
        assert!(holds(&samples(&latencies)).is_none());
        // At equal ones, and less than half of the time.
        let rare = [&[100_000; 50][..], &[4_000_000]].concat().repeat(9);
        assert!(holds(&samples(&rare)).is_none());
        assert!(holds(&samples(&[])).is_none());
        // A device that is slow is not held back.
        assert!(holds(&samples(&[20_000_000; 100])).is_none());
    }
}
