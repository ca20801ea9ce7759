//! The paper's load under one set of policies, at full size or scaled down.

use forebay_core::control;
use forebay_core::flush;
use forebay_core::io::Op;
use forebay_core::throttle;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, MIB, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};

use crate::machine::{Machine, MachineError};
use crate::paper::Measured;
use crate::rng::MILLION;
use crate::scenario::{NewFile, Outcome, PolicySet, Scenario};
use crate::stats::Latencies;
use crate::workload::overwrite::Overwrite;
use crate::world::Record;

/// What a run is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// What a row calls it.
    pub(super) name: &'static str,
    /// How long a writer waits.
    pub(super) throttle: &'static str,
    /// When and how much is written.
    pub(super) flush: &'static str,
    /// How the knobs follow.
    pub(super) controller: &'static str,
    /// The part of the machine's page cache that there is, in parts per million.
    pub(super) memory_ppm: u64,
    /// Whether the page cache is full of the file's end when the writes begin.
    pub(super) warm: bool,
}

impl Setup {
    /// A throttle on a kernel that is otherwise stock.
    pub(super) const fn of(throttle: &'static str) -> Self {
        let (flush, controller) = ("linux-6", "fixed");
        Self { name: throttle, throttle, flush, controller, memory_ppm: MILLION, warm: false }
    }

    /// Runs the load with all sizes divided by `scale`, and gives times and bytes times `scale`.
    pub(super) fn run(
        &self,
        machine: &Machine,
        seed: u64,
        scale: u64,
    ) -> Result<Measured, MachineError> {
        let machine = self.machine(machine, scale)?;
        let kernel = PolicySet::of(&machine.kernel()).expect("a paper's machine names policies");
        let known = "an experiment names a policy";
        let policies = PolicySet {
            flush: flush::Spec::parse(self.flush).expect(known),
            controller: control::Spec::parse(self.controller).expect(known),
            throttle: throttle::Spec::parse(self.throttle).expect(known),
            ..kernel
        };
        // The last write ends the load; the scenario then makes the rest durable.
        let load = Overwrite { sync: false, ..Overwrite::of_paper(scale) };
        let file = NewFile::fixed(load.file_bytes);
        let mut scenario = Scenario::new(&machine, &policies, seed, 1, &[file])?;
        let handle = scenario.open(0);
        let (mut tasks, _) = load.tasks(&[handle], seed);
        if self.warm {
            let memory = machine.page_cache_bytes();
            let offset = load.file_bytes.saturating_sub(memory) / PAGE_SIZE * PAGE_SIZE;
            let end = load.file_bytes;
            let warmed = |load| Box::new(Warmed { handle, offset, end, load }) as Box<dyn Workload>;
            tasks = tasks.into_iter().map(warmed).collect();
        }
        let mut latencies = Latencies::new();
        let (mut bytes, mut begun) = (0, None);
        let mut count = |finished: &Finished| {
            // The sync that makes all safe in the end is not the load's.
            if !matches!(finished.op, Op::Write { .. }) {
                return;
            }
            begun.get_or_insert(finished.issued);
            bytes += finished.result.unwrap_or(0);
            latencies.record(finished.done.since(finished.issued));
        };
        let (outcome, record) = scenario.run(tasks, &mut count);
        // Reads that fill the page cache before are not part of the load.
        let before = begun.map_or(Duration::ZERO, |begun: Instant| begun.since(Instant::ZERO));
        let outcome = Outcome {
            elapsed: outcome.elapsed - before,
            durable: outcome.durable - before,
            ..outcome
        };
        let busy = busy(&record, before, outcome.durable);
        let figures = figures(&outcome, &record, busy, &latencies, scale);
        Ok(Measured { figures, ..Measured::new(bytes, outcome) })
    }

    /// The machine with all sizes divided by `scale`; rates and times stay.
    fn machine(&self, machine: &Machine, scale: u64) -> Result<Machine, MachineError> {
        let mut scaled = machine.clone();
        // In this order no size exceeds another that must hold it.
        for key in SIZES {
            let Some(size) = machine.parameters().find(|known| known.key == key) else { continue };
            let share = if key == MEMORY { self.memory_ppm } else { MILLION };
            let bytes = u128::from(size.value) * u128::from(share) / u128::from(MILLION);
            let least = if key == CACHE { u128::from(size.value.min(CACHE_MIN)) } else { 0 };
            if scale != 1 || share != MILLION {
                let bytes = (bytes / u128::from(scale)).max(least);
                scaled.set(key, &bytes.to_string())?;
            }
        }
        Ok(scaled)
    }
}

/// Reads a part of a file, then continues with a load.
struct Warmed<'a> {
    handle: HandleId,
    offset: u64,
    end: u64,
    load: Box<dyn Workload + 'a>,
}

impl Workload for Warmed<'_> {
    fn next(&mut self, now: Instant) -> Step {
        if self.offset >= self.end {
            return self.load.next(now);
        }
        let (handle, offset, len) = (self.handle, self.offset, MIB.min(self.end - self.offset));
        self.offset += len;
        Step::Call(Op::Read { handle, offset, len })
    }
}

const MEMORY: &str = "memory.page_cache";
const CACHE: &str = "device.write_cache";

/// Less memory than two stripes for each of its eight dies, and the drive's dies wait for data.
const CACHE_MIN: u64 = 256 << 10;

/// The sizes of a machine that the load meets.
const SIZES: [&str; 7] = [
    MEMORY,
    CACHE,
    "device.buffer",
    "device.random_region",
    "device.live",
    "device.capacity",
    "device.flash",
];

/// From the first write to the return of the last, in s.
pub(super) const LAST_WRITE: &str = "time to the last write";
/// From the first write until all is on the device, in s.
pub(super) const DURABLE: &str = "time until durable";
/// Bytes that were on the device when the last write returned, in GB.
pub(super) const WRITTEN: &str = "device bytes at the last write";
/// The same when all is on the device, in GB.
const WRITTEN_ALL: &str = "device bytes until durable";
/// Dirty bytes when the last write returned, in GB.
const RESIDUE: &str = "residue left dirty";
/// Dirty bytes on average over the time to the last write, in GB.
const LEVEL: &str = "mean dirty level";

/// Every figure of a run with its unit, in the order of the rows.
pub(super) const FIGURES: [(&str, &str); 13] = [
    (LAST_WRITE, "s"),
    (DURABLE, "s"),
    (WRITTEN, "GB"),
    (WRITTEN_ALL, "GB"),
    (RESIDUE, "GB"),
    (LEVEL, "GB"),
    ("share of time slept", "%"),
    ("device busy", "%"),
    ("write latency p50", "us"),
    ("write latency p99", "us"),
    ("write latency p99.9", "us"),
    ("write latency max", "ms"),
    ("longest pause", "ms"),
];

fn figures(
    outcome: &Outcome,
    record: &Record,
    busy: f64,
    latencies: &Latencies,
    scale: u64,
) -> Vec<(&'static str, f64)> {
    let scale = scale as f64;
    let gigabytes = |pages: f64| pages * PAGE_SIZE as f64 / 1e9 * scale;
    let cleaned = |stats: &forebay_core::stats::Stats| gigabytes(stats.pages_cleaned as f64);
    let pauses = record.pauses.first().copied().unwrap_or_default();
    let slept = pauses.total.as_nanos() as f64;
    let level = record.unsafe_page_nanos as f64 / outcome.elapsed.as_nanos().max(1) as f64;
    let writes = latencies.summary();
    let values = [
        seconds(outcome.elapsed) * scale,
        seconds(outcome.durable) * scale,
        cleaned(&outcome.stats_at_exit),
        cleaned(&outcome.stats),
        gigabytes(outcome.residue as f64),
        gigabytes(level),
        100.0 * slept / outcome.elapsed.as_nanos().max(1) as f64,
        100.0 * busy,
        seconds(writes.p50) * 1e6,
        seconds(writes.p99) * 1e6,
        seconds(writes.p99_9) * 1e6,
        seconds(writes.max) * 1e3,
        seconds(pauses.longest) * 1e3,
    ];
    FIGURES.iter().zip(values).map(|((name, _), value)| (*name, value)).collect()
}

/// The share of the time for which the device was busy, in the whole seconds of a load that begins
/// so late and takes so long.
fn busy(record: &Record, before: Duration, durable: Duration) -> f64 {
    let first = before.as_nanos().div_ceil(Duration::from_secs(1).as_nanos());
    let counted = record.busy.iter().filter(|(second, _)| *second >= first);
    let time = seconds(before) + seconds(durable) - first as f64;
    counted.map(|(_, busy)| seconds(*busy)).sum::<f64>() / time
}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}
