//! From measured requests to a machine: the experiments, their order, and the resulting numbers.
//!
//! ```text
//!   PLAN --> Bench::measure --> Samples --> fit --> Fit: kind, reason, numbers --> a machine file
//!            a device in virtual time, or a file of this machine
//! ```
//!
//! Nothing here has a clock: a [`Bench`] measures, the fit is a function of its samples. Probing a
//! [simulated](Simulated) device recovers the numbers of its machine, which is the fit's test.
//!
//! The fit takes the model itself: of candidate parameters, the device runs the same requests, and
//! those count whose medians and rates are nearest to the measured ones.

use std::collections::BTreeMap;

use forebay_core::time::Duration;

use crate::rng::{MILLION, Rng};

pub use estimate::Estimate;
pub use file::{Facts, Probed};
pub use fit::fit;
pub use fitted::{DeviceFit, Fit, Number, SPAN_MIN, Unfit};
pub use simulated::Simulated;

mod disk;
mod estimate;
mod fast;
mod file;
mod fit;
mod fitted;
mod limit;
mod simulated;
#[cfg(test)]
mod tests;

/// Requests of one kind, `depth` of them always in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment {
    /// Where they lie.
    pub pattern: Pattern,
    /// Whether they write.
    pub write: bool,
    /// The length of each.
    pub bytes: u64,
    /// How many are in flight.
    pub depth: u32,
    /// How many there are at most.
    pub count: u32,
}

/// Where the requests of an experiment lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Anywhere.
    Random,
    /// One behind the other, from a place on, in parts per million of the span.
    Sequential(u32),
    /// In pairs, so far apart in parts per million of the span; of each pair the second one counts.
    Apart(u32),
    /// Anywhere, each followed by a flush; the flushes count.
    Flushed,
}

/// The results of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The time of each request that counts, in nanoseconds, in the order in which they were made.
    pub latencies: Vec<u64>,
    /// From the first request to the end of the last.
    pub elapsed: Duration,
    /// How many requests there were.
    pub requests: u64,
    /// Whether the processor was busy all the time, so that the device could have done more.
    pub host_bound: bool,
}

/// Carries experiments out.
pub trait Bench {
    /// Why an experiment could not be executed.
    type Error;

    /// The bytes of the device, or of the file on it, that requests may lie in.
    fn span(&self) -> u64;

    /// Makes the requests of an experiment.
    ///
    /// # Errors
    /// The device failed.
    fn measure(&mut self, experiment: &Experiment) -> Result<Samples, Self::Error>;
}

/// All executed experiments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The bytes that requests lay in.
    pub span: u64,
    /// The cost of a request on the host, without the device, in nanoseconds.
    pub overhead: u64,
    /// The results of each.
    pub samples: BTreeMap<Experiment, Samples>,
}

impl Experiment {
    /// Reads anywhere.
    pub const fn random(bytes: u64, depth: u32, count: u32) -> Self {
        Self { pattern: Pattern::Random, write: false, bytes, depth, count }
    }

    /// The place of each request, in order. A span that is shorter than a request has none.
    pub fn offsets(&self, span: u64) -> Vec<u64> {
        let slots = span / self.bytes;
        if slots == 0 {
            return Vec::new();
        }
        let at = |ppm: u32| slots * u64::from(ppm) / MILLION;
        let mut rng = Rng::new(u64::from(self.depth)).fork("probe", self.bytes);
        let count = u64::from(self.count);
        let slot = |number: u64, rng: &mut Rng| match self.pattern {
            Pattern::Random | Pattern::Flushed => rng.below(slots),
            Pattern::Sequential(ppm) => (at(ppm) + number) % slots,
            Pattern::Apart(ppm) if number.is_multiple_of(2) => rng.below(slots - at(ppm)),
            Pattern::Apart(_) => 0,
        };
        let mut offsets = Vec::with_capacity(count as usize);
        for number in 0..count {
            let mut slot = slot(number, &mut rng);
            if let (Pattern::Apart(ppm), Some(before)) = (self.pattern, offsets.last())
                && !number.is_multiple_of(2)
            {
                slot = before / self.bytes + at(ppm);
            }
            offsets.push(slot.min(slots - 1) * self.bytes);
        }
        offsets
    }

    /// Whether the request of a number counts.
    pub const fn counts(&self, number: usize) -> bool {
        !matches!(self.pattern, Pattern::Apart(_)) || number % 2 == 1
    }
}

impl Samples {
    /// The time of one request of many, in nanoseconds.
    fn each(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.requests.max(1) as f64
    }
}

impl Measured {
    /// Carries out all experiments that read, and those that write where that is allowed.
    ///
    /// # Errors
    /// The first experiment that failed.
    pub fn take<B: Bench>(bench: &mut B, writes: bool, overhead: u64) -> Result<Self, B::Error> {
        let span = bench.span();
        let mut samples = BTreeMap::new();
        let plan = READS.iter().chain(WRITES.iter().filter(|_| writes));
        for experiment in plan.filter(|experiment| experiment.bytes <= span) {
            samples.insert(*experiment, bench.measure(experiment)?);
        }
        Ok(Self { span, overhead, samples })
    }

    /// The results of the first experiment of a kind.
    fn find(&self, wanted: impl Fn(&Experiment) -> bool) -> Option<(&Experiment, &Samples)> {
        let has_some = |samples: &Samples| !samples.latencies.is_empty();
        self.samples.iter().find(|(experiment, samples)| wanted(experiment) && has_some(samples))
    }

    /// Its latencies at the device only, in ascending order, in nanoseconds.
    fn sorted(&self, wanted: impl Fn(&Experiment) -> bool) -> Option<Vec<u64>> {
        let (_, samples) = self.find(wanted)?;
        let at_device = samples.latencies.iter().map(|took| took.saturating_sub(self.overhead));
        let mut sorted: Vec<u64> = at_device.map(|took| took.max(1)).collect();
        sorted.sort_unstable();
        Some(sorted)
    }

    /// Random reads of 4 KiB, one at a time, in ascending order.
    fn small(&self) -> Option<Vec<u64>> {
        self.sorted(|experiment| *experiment == SMALL)
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The experiment that most is compared with.
pub const SMALL: Experiment = Experiment::random(4 * KIB, 1, 1_500);

/// Reads that meet a limit in bytes a second.
const LARGE: Experiment = Experiment::random(MIB, 1, 100);

/// Sequential reads that show what a command costs, and what the bytes.
const SEQUENTIAL_SMALL: [Experiment; 2] =
    [sequential(4 * KIB, 1, 0, 400), sequential(16 * KIB, 1, 0, 400)];

/// Sequential reads at both ends.
const STREAMS: [Experiment; 2] = [sequential(MIB, 1, 0, 64), sequential(MIB, 1, 950_000, 64)];

/// Pairs of reads: near, a third of the span apart, nearly all of it.
/// The near ones are so far apart that a drive has not read on from one to the other.
const APART: [Experiment; 3] = [apart(1_000), apart(333_333), apart(980_000)];

/// Every experiment that reads.
pub const READS: &[Experiment] = &[
    SMALL,
    Experiment::random(16 * KIB, 1, 500),
    Experiment::random(64 * KIB, 1, 400),
    Experiment::random(256 * KIB, 1, 200),
    LARGE,
    Experiment::random(4 * KIB, 2, 1_000),
    Experiment::random(4 * KIB, 4, 1_000),
    Experiment::random(4 * KIB, 8, 2_000),
    Experiment::random(4 * KIB, 16, 2_000),
    Experiment::random(4 * KIB, 32, 4_000),
    Experiment::random(64 * KIB, 4, 600),
    Experiment::random(64 * KIB, 8, 800),
    Experiment::random(64 * KIB, 32, 1_000),
    Experiment::random(MIB, 2, 150),
    Experiment::random(MIB, 8, 200),
    SEQUENTIAL_SMALL[0],
    SEQUENTIAL_SMALL[1],
    STREAMS[0],
    STREAMS[1],
    APART[0],
    APART[1],
    APART[2],
];

/// Small writes, one at a time; writes that fill a buffer; writes that are made safe.
const WRITE_SMALL: Experiment = Experiment { write: true, ..Experiment::random(4 * KIB, 1, 500) };
const WRITE_LONG: Experiment = Experiment { write: true, ..sequential(MIB, 4, 0, 512) };
const WRITE_SCATTERED: Experiment =
    Experiment { write: true, ..Experiment::random(16 * KIB, 1, 1_024) };
const WRITE_FLUSHED: Experiment =
    Experiment { pattern: Pattern::Flushed, write: true, ..Experiment::random(4 * KIB, 1, 100) };

/// Every experiment that writes.
///
/// Flushes come before long writes: a device, or what stands for one, is busy with those for longer
/// than they take.
pub const WRITES: &[Experiment] = &[WRITE_SMALL, WRITE_FLUSHED, WRITE_LONG, WRITE_SCATTERED];

const fn sequential(bytes: u64, depth: u32, start_ppm: u32, count: u32) -> Experiment {
    let pattern = Pattern::Sequential(start_ppm);
    Experiment { pattern, write: false, bytes, depth, count }
}

const fn apart(ppm: u32) -> Experiment {
    Experiment { pattern: Pattern::Apart(ppm), write: false, bytes: 4 * KIB, depth: 1, count: 500 }
}
