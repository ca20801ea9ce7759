//! Writeback: a burst, eight writers and random overwrites under stock rules; times, pauses, bytes
//! and the mean dirty level.

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
use super::dispatch::Random;
use super::machine::{DEVICE_BYTES, machine, number, percent, policies};
use crate::process::say;

/// What is compared, by the key of the init's record. What stands beside each other is judged by
/// hand: docs/kernel.md says which differences there are and why.
const FIGURES: [&str; 6] = ["written_ms", "durable_ms", "pauses", "paused_ms", "kib", "level_kib"];

/// Prints kernel beside simulator; how many figures are further apart than [`PERCENT_MAX`].
pub(super) fn compare(lab: &Lab) -> Result<usize> {
    let mut records = String::new();
    for load in ["burst", "eight", "random"] {
        records.push_str(&boot::boot(lab, &["levels", load])?);
    }
    say("\nwriteback  figure          kernel   simulator   percent")?;
    let mut apart = 0;
    for record in records.lines() {
        let (_, rest) = record.split_once("load=").with_context(|| format!("no load: {record}"))?;
        let load = rest.split(' ').next().unwrap_or_default();
        let (writers, writes) = (number(record, "writers")?, number(record, "writes")?);
        let model = simulate(writers as u64, writes as u64, load == "random")?;
        for (key, value) in FIGURES.iter().zip(model) {
            let real = number(record, key)?;
            if *key == "level_kib" && number(record, "written_ms")? < SHORT_MS {
                continue;
            }
            let off = if (real - value).abs() < 1.0 { 0.0 } else { percent(real, value) };
            let far = off.abs() > PERCENT_MAX;
            apart += usize::from(far);
            let mark = if far { "  apart" } else { "" };
            say(&format!("{load:<9}  {key:<10}  {real:>10.1}  {value:>10.1}  {off:>+8.2}{mark}"))?;
        }
    }
    Ok(apart)
}

/// The figures of a load in the simulator, in their order.
fn simulate(writers: u64, writes: u64, random: bool) -> Result<[f64; 6]> {
    let machine = machine(&[("device.delay", "20us"), ("device.unit_rate", "100MB/s")])?;
    let policies = policies(&machine, |policies| {
        policies.flush = flush::Spec::parse("linux-6:limit_mib=64,background_mib=32")?;
        policies.throttle = throttle::Spec::parse("linux-3.18:hz=100")?;
        Ok(())
    })?;
    let file = NewFile { bytes: DEVICE_BYTES, room: DEVICE_BYTES, inode: false };
    let tasks = u32::try_from(writers).context("a handful of writers")?;
    let mut scenario = Scenario::new(&machine, &policies, 1, tasks, &[file])?;
    let pages = PAGES / writers;
    let tasks = (0..writers).map(|number| -> Box<dyn Workload> {
        Box::new(Writer {
            handle: scenario.open(0),
            first: number * pages,
            pages,
            random: random.then_some(Random(200 + number)),
            done: 0,
            writes,
        })
    });
    let tasks = tasks.collect();
    let mut observer = |_: &Finished| {};
    let (outcome, record) = scenario.run(tasks, &mut observer);
    let pauses = record.pauses.iter();
    let (count, total) = pauses
        .fold((0, 0), |(count, total), one| (count + one.count, total + one.total.as_nanos()));
    let elapsed = outcome.elapsed.as_nanos();
    let level = record.unsafe_page_nanos / u128::from(elapsed.max(1)) * u128::from(PAGE_SIZE / KIB);
    Ok([
        elapsed as f64 / 1e6,
        outcome.durable.as_nanos() as f64 / 1e6,
        count as f64,
        total as f64 / 1e6,
        (outcome.stats.pages_cleaned * (PAGE_SIZE / KIB)) as f64,
        level as f64,
    ])
}

/// A writer of `kernel/init/levels.c`.
struct Writer {
    handle: HandleId,
    first: u64,
    pages: u64,
    /// None if it goes through its region in order.
    random: Option<Random>,
    done: u64,
    writes: u64,
}

impl Workload for Writer {
    fn next(&mut self, _now: Instant) -> Step {
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

/// A load that is over before has no mean level: the sampler looks every 10 ms.
const SHORT_MS: f64 = 100.0;

/// Figures may be apart by so much.
const PERCENT_MAX: f64 = 2.0;
