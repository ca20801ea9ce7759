//! The load of the disks and the share of writes in it, from samples to their averages.
//!
//! ```text
//!   second      1        2        3        4        5        6
//!   tumbling   [        one       ]       [        one       ]
//!   sliding    [   one, from the third second on, every second of the last three
//! ```
//!
//! Numbers between 0 and 1 are counted in billionths, rounded half up; averages are kept as exact
//! fractions of those.

use alloc::collections::VecDeque;

use crate::control::Sample;
use crate::time::Duration;

/// One as a whole.
pub(super) const ONE: u64 = 1_000_000_000;

/// What counts as the share of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    Operations,
    Sectors,
    BusyTime,
}

/// How a load is read from samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Seconds of a window.
    pub(super) window: usize,
    /// An average every second instead of one for each window.
    pub(super) sliding: bool,
    /// The ratio of the sums instead of the mean of the seconds.
    pub(super) sums: bool,
    /// A second without requests keeps the share of the second before.
    pub(super) hold: bool,
    pub(super) share: Share,
    /// The busiest disk counts instead of the mean of all.
    pub(super) busiest: bool,
}

/// A fraction between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction {
    pub(super) part: u64,
    pub(super) whole: u64,
}

/// The averages of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// How long the disks were busy.
    pub(super) busy: Fraction,
    /// The share of writes.
    pub(super) writes: Fraction,
}

/// One second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// In billionths.
    busy: u64,
    writes: u64,
    /// Writes, and all operations.
    written: u64,
    done: u64,
    /// Busy nanoseconds and the nanoseconds of the second.
    nanos: (u64, u64),
}

/// The seconds of the present window.
#[derive(Debug)]
pub(super) struct Window {
    reading: Reading,
    seconds: VecDeque<Second>,
    /// The share of writes of the last second, which may itself have been kept.
    held: u64,
}

impl Window {
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, seconds: VecDeque::with_capacity(reading.window), held: 0 }
    }

    /// Takes a second. Returns the averages if it is time for them.
    pub(super) fn add(&mut self, samples: &[Sample]) -> Option<Load> {
        if self.seconds.len() == self.reading.window {
            match self.reading.sliding {
                true => drop(self.seconds.pop_front()),
                false => self.seconds.clear(),
            }
        }
        let second = self.second(samples);
        self.seconds.push_back(second);
        (self.seconds.len() == self.reading.window).then(|| self.average())
    }

    fn second(&mut self, samples: &[Sample]) -> Second {
        let of = |sample: &Sample| match self.reading.share {
            Share::Operations => (sample.reads.requests, sample.writes.requests),
            Share::Sectors => (sample.reads.sectors, sample.writes.sectors),
            Share::BusyTime => (sample.reads.time.as_nanos(), sample.writes.time.as_nanos()),
        };
        let (mut read, mut written) = (0_u64, 0_u64);
        for sample in samples {
            let (reads, writes) = of(sample);
            read = read.saturating_add(reads);
            written = written.saturating_add(writes);
        }
        let done = read.saturating_add(written);
        let nanos = self.busy(samples);
        let writes = match done {
            0 if self.reading.hold => self.held,
            0 => 0,
            _ => billionths(written, done),
        };
        self.held = writes;
        Second { busy: billionths(nanos.0, nanos.1), writes, written, done, nanos }
    }

    /// Busy time and time, of the busiest disk or of all.
    fn busy(&self, samples: &[Sample]) -> (u64, u64) {
        let of = |sample: &Sample| {
            let Duration(elapsed) = sample.elapsed;
            (sample.busy.as_nanos().min(elapsed), elapsed)
        };
        let all = samples.iter().map(of);
        if self.reading.busiest {
            return all.max_by_key(|(busy, elapsed)| billionths(*busy, *elapsed)).unwrap_or((0, 0));
        }
        all.fold((0, 0), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
    }

    fn average(&self) -> Load {
        let whole = ONE * self.seconds.len() as u64;
        let sum = |of: fn(&Second) -> u64| self.seconds.iter().map(of).fold(0, u64::saturating_add);
        if !self.reading.sums {
            let busy = Fraction { part: sum(|second| second.busy), whole };
            return Load { busy, writes: Fraction { part: sum(|second| second.writes), whole } };
        }
        let ratio = |part, all| Fraction { part: billionths(part, all), whole: ONE };
        let busy = ratio(sum(|second| second.nanos.0), sum(|second| second.nanos.1));
        let writes = match sum(|second| second.done) {
            0 => Fraction { part: self.held, whole: ONE },
            done => ratio(sum(|second| second.written), done),
        };
        Load { busy, writes }
    }
}

/// A ratio up to one in billionths, rounded half up; zero of nothing.
fn billionths(part: u64, all: u64) -> u64 {
    if all == 0 {
        return 0;
    }
    let (part, all) = (u128::from(part.min(all)), u128::from(all));
    ((part * u128::from(ONE) + all / 2) / all) as u64
}
