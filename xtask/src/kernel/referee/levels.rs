//! Writeback: a burst, eight writers and random overwrites under stock rules; times, pauses, bytes
//! and the mean dirty level.
//!
//! Whether a page is under writeback when it is written again changes the bytes, and depends on the
//! moment: eight writers that begin 11.3 ms later write up to 13 % more or less.
//! Figures are means over some moments, the same ones on both sides.

use anyhow::{Context, Result};
use forebay_core::flush;
use forebay_core::io::Op;
use forebay_core::throttle;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, KIB, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_sim::scenario::{NewFile, Scenario};

use super::super::boot;
use super::super::build::Lab;
use super::super::processors::side_by_side;
use super::dispatch::Random;
use super::machine::{DEVICE_BYTES, machine, number, percent, policies};
use crate::process::say;

/// The compared figures, by the key of the init's record.
const FIGURES: [&str; 8] = [
    "written_ms",
    "durable_ms",
    "pauses",
    "held_ms",
    "most_held_ms",
    "longest_ms",
    "kib",
    "level_kib",
];

/// A load of `kernel/init/levels.c`.
struct Load {
    name: &'static str,
    writers: u64,
    /// Of each writer.
    writes: u64,
    random: bool,
    /// Whether figures that are apart are a fault; docs/kernel.md says why others are.
    judged: bool,
}

const LOADS: [Load; 3] = [
    Load { name: "burst", writers: 1, writes: 5_000, random: false, judged: true },
    Load { name: "eight", writers: 8, writes: 8_000, random: false, judged: false },
    Load { name: "random", writers: 1, writes: 60_000, random: true, judged: true },
];

/// Prints kernel and simulator; returns how many figures of judged loads differ by more than
/// [`PERCENT_MAX`].
pub(super) fn compare(lab: &Lab, starts: u64) -> Result<usize> {
    say("\nwriteback  figure          kernel     from       to   simulator   percent")?;
    let mut apart = 0;
    for load in &LOADS {
        let starts: Vec<u64> = (0..starts).map(|at| START_US + at * STEP_US).collect();
        let kernel = side_by_side(&starts, |start| load.boot(lab, *start))?;
        let model = side_by_side(&starts, |start| load.simulate(Instant(start * 1_000)))?;
        for (index, key) in FIGURES.iter().enumerate() {
            let real = Spread::of(kernel.iter().map(|figures| figures[index]));
            let model = Spread::of(model.iter().map(|figures| figures[index]));
            if *key == "level_kib" && kernel[0][0] < SHORT_MS {
                continue;
            }
            let off = if (real.mean - model.mean).abs() <= 1.0 {
                0.0
            } else {
                percent(real.mean, model.mean)
            };
            let far = off.abs() > PERCENT_MAX;
            apart += usize::from(far && load.judged);
            let mark = if far { "  apart" } else { "" };
            let Spread { mean, least, most } = real;
            let kernel = format!("{mean:>8.1} {least:>8.1} {most:>8.1}");
            say(&format!(
                "{:<9}  {key:<12}  {kernel}  {:>10.1}  {off:>+8.2}{mark}",
                load.name, model.mean
            ))?;
        }
    }
    Ok(apart)
}

/// Of one figure over all starts.
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let figures: Vec<f64> = figures.collect();
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            least: figures.iter().copied().fold(f64::INFINITY, f64::min),
            most: figures.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl Load {
    /// The figures in the kernel, in their order, of a load that begins at `start` microseconds.
    fn boot(&self, lab: &Lab, start: u64) -> Result<Vec<f64>> {
        let record = boot::boot(lab, &["levels", self.name, &start.to_string()])?;
        FIGURES.iter().map(|key| number(record.trim_end(), key)).collect()
    }

    /// The figures in the simulator, in their order, of a load that begins at `start`.
    fn simulate(&self, start: Instant) -> Result<Vec<f64>> {
        let machine = machine(&[("device.delay", "20us"), ("device.unit_rate", "100MB/s")])?;
        let policies = policies(&machine, |policies| {
            policies.flush = flush::Spec::parse("linux-6:limit_mib=64,background_mib=32")?;
            policies.throttle = throttle::Spec::parse("linux-6.12:hz=100")?;
            Ok(())
        })?;
        let file = NewFile::fixed(DEVICE_BYTES);
        let tasks = u32::try_from(self.writers).context("a handful of writers")?;
        let mut scenario = Scenario::new(&machine, &policies, 1, tasks, &[file])?;
        let pages = PAGES / self.writers;
        let tasks = (0..self.writers).map(|number| -> Box<dyn Workload> {
            Box::new(Writer {
                handle: scenario.open(0),
                start: Some(start),
                first: number * pages,
                pages,
                random: self.random.then_some(Random(200 + number)),
                done: 0,
                writes: self.writes,
            })
        });
        let tasks = tasks.collect();
        let mut longest = 0;
        let mut observer = |call: &Finished| {
            if matches!(call.op, Op::Write { .. }) {
                longest = longest.max(call.latency().as_nanos());
            }
        };
        let (outcome, record) = scenario.run(tasks, &mut observer);
        let pauses = || record.pauses.iter();
        let held = || pauses().map(|one| one.total.as_nanos());
        let elapsed = outcome.elapsed.as_nanos() - start.0;
        let level = record.unsafe_page_nanos / u128::from(elapsed.max(1));
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Ok(vec![
            ms(elapsed),
            ms(outcome.durable.as_nanos() - start.0),
            pauses().map(|one| one.count).sum::<u64>() as f64,
            ms(held().sum()),
            ms(held().max().unwrap_or(0)),
            ms(longest),
            (outcome.stats.pages_cleaned * (PAGE_SIZE / KIB)) as f64,
            (level * u128::from(PAGE_SIZE / KIB)) as f64,
        ])
    }
}

/// A writer of `kernel/init/levels.c`.
struct Writer {
    handle: HandleId,
    /// When it begins, until it has begun.
    start: Option<Instant>,
    first: u64,
    pages: u64,
    /// None if it goes through its region in order.
    random: Option<Random>,
    done: u64,
    writes: u64,
}

impl Workload for Writer {
    fn next(&mut self, _now: Instant) -> Step {
        if let Some(start) = self.start.take() {
            return Step::Sleep(start);
        }
        if self.done == self.writes {
            return Step::Exit;
        }
        let page = match &mut self.random {
            Some(random) => random.below(self.pages),
            None => self.done % self.pages,
        };
        self.done += 1;
        let offset = (self.first + page) * PAGE_SIZE;
        Step::Call(Op::Write { handle: self.handle, offset, len: PAGE_SIZE, durable: false })
    }
}

/// Pages of the region that is written, as in `kernel/init/levels.c`.
const PAGES: u64 = 128 << 8;

/// The first moment at which a load begins, and the step to the next: no part of a jiffy.
const START_US: u64 = 100_000;
const STEP_US: u64 = 11_300;

/// A load that is over before has no mean level: the sampler looks every 10 ms.
const SHORT_MS: f64 = 100.0;

/// Figures may be apart by so much, or by one of their unit.
const PERCENT_MAX: f64 = 2.0;
