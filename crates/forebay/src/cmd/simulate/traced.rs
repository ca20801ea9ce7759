//! `forebay simulate TRACE`: a trace in virtual time, below the page cache or above it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use forebay_core::io::RequestKind;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{MIB, SECTOR_SIZE};
use forebay_report::messages::{self, Complaint};
use forebay_sim::machine::Machine;
use forebay_sim::replay::{Arrival, Outcome, Pace, Placement, Replay, VolumeOutcome};
use forebay_sim::tally::RunTotals;
use forebay_trace::{Flags, Layer, Op, Record, SORT_WINDOW};

use crate::args::simulate::Simulate;
use crate::args::trace::{EntryLayer, TraceInput};
use crate::choice;
use crate::progress::Progress;
use crate::results::{ALL, Results, Row};
use crate::slots::{self, ELEVATOR, Filled};
use crate::traces::{self, TraceSource};

mod cached;

/// Facts about a trace that are needed before its replay.
#[derive(Default)]
struct Survey {
    layer: Option<Layer>,
    /// Names of files or devices, and the byte after the last requested one of each.
    volumes: Vec<(String, u64)>,
    /// Which streams use which volumes.
    pairs: BTreeSet<(u32, u32)>,
    /// Requests that are replayed, and those that are not.
    replayed: u64,
    left_out: u64,
}

/// The most volumes: each has its own latencies.
const VOLUMES_MAX: usize = 1_024;

/// The most pairs of a stream and a volume: each is an open file.
const PAIRS_MAX: usize = 1 << 16;

/// Replays a trace once with each set of policies.
pub(super) fn run(arguments: &Simulate, path: &Path, shown: Progress) -> Result<Results> {
    let machine = choice::machine(&arguments.machine, &arguments.set)?;
    if path == Path::new(choice::STANDARD_INPUT) {
        bail!(
            Complaint::new("a trace is read twice, and standard input can be read once")
                .hint("write the trace to a file")
        );
    }
    let options = &arguments.trace;
    let input = TraceInput {
        file: path.to_owned(),
        format: options.trace_format,
        skip_bad: options.skip_bad,
        only: options.only.clone(),
    };
    let survey = Survey::of(&input)?;
    let layer = options.layer.unwrap_or(match survey.layer {
        Some(Layer::File) => EntryLayer::Cache,
        Some(Layer::Block | Layer::Object) | None => EntryLayer::Block,
    });
    if options.layer.is_none() {
        let name = match layer {
            EntryLayer::Block => "block",
            EntryLayer::Cache => "cache",
        };
        messages::detail(|| format!("layer: {name}, where the trace was recorded"));
    }
    let mut results = match layer {
        EntryLayer::Block => below(arguments, &machine, &input, &survey, shown)?,
        EntryLayer::Cache => cached::run(arguments, &machine, &input, &survey, shown)?,
    };
    if survey.left_out > 0 {
        let left_out = survey.left_out;
        results.notes.push(format!("{left_out} requests left out: {}", LEFT_OUT[layer as usize]));
    }
    results.notes.push(arguments.repeated_on(&machine));
    Ok(results)
}

/// What each layer has no request for.
const LEFT_OUT: [&str; 2] =
    ["discards, opens, closes and cuts have no price", "opens, closes, cuts and discards"];

impl Survey {
    fn of(input: &TraceInput) -> Result<Self> {
        let mut source = TraceSource::open(input)?;
        if source.layer() == Layer::Object {
            let what = format!("{}: objects of a cache have no addresses to replay", source.name);
            bail!(Complaint::new(what).hint("`forebay trace stats` shows their reuse distances"));
        }
        let format = source.format().name();
        messages::detail(|| match input.format {
            Some(_) => format!("trace: {}: format {format}, as typed", source.name),
            None => format!("trace: {}: format {format}, by its first bytes", source.name),
        });
        let mut survey = Self { layer: Some(source.layer()), ..Self::default() };
        while let Some(record) = source.next()? {
            let volume = record.object as usize;
            if volume >= VOLUMES_MAX {
                let what = format!("{}: more than {VOLUMES_MAX} files or devices", source.name);
                bail!(Complaint::new(what).hint("--only NAME replays one of them"));
            }
            while survey.volumes.len() <= volume {
                let name = source.reader().names().name(survey.volumes.len() as u32);
                survey.volumes.push((name.to_owned(), 0));
            }
            if kind_of(&record).is_none() {
                survey.left_out += 1;
                continue;
            }
            survey.replayed += 1;
            let end = &mut survey.volumes[volume].1;
            *end = (*end).max(record.offset + record.len);
            survey.pairs.insert((record.stream, record.object));
            if survey.pairs.len() > PAIRS_MAX {
                let what = format!("{}: more than {PAIRS_MAX} open files", source.name);
                bail!(Complaint::new(what).hint("--layer block replays it without tasks"));
            }
        }
        traces::warn(&source);
        Ok(survey)
    }
}

/// What a device does for a request; nothing if it has no price.
fn kind_of(record: &Record) -> Option<RequestKind> {
    match record.op {
        Op::Read => Some(RequestKind::Read),
        Op::Write if record.flags.has(Flags::DURABLE) => Some(RequestKind::DurableWrite),
        Op::Write => Some(RequestKind::Write),
        Op::Sync | Op::DataSync | Op::Flush => Some(RequestKind::Flush),
        Op::Discard | Op::Open | Op::Close | Op::Truncate => None,
    }
}

/// Replays at the block layer.
fn below(
    arguments: &Simulate,
    machine: &Machine,
    input: &TraceInput,
    survey: &Survey,
    shown: Progress,
) -> Result<Results> {
    let kernel = machine.kernel();
    let runs = slots::of_block_trace(&arguments.policies, &kernel.elevator)?;
    let (placements, devices) = place(arguments, machine, survey)?;
    let (pace, said) = pace(arguments);
    let name = choice::name(&input.file);
    let mut results =
        Results { title: format!("{name} on {}", machine.name()), ..Results::default() };
    results.shown[ELEVATOR] = true;
    let mut progress = ReplayProgress::new(shown, runs.len(), survey);
    for Filled { policies, labels } in &runs {
        let replay = Replay {
            machine,
            elevator: &policies.elevator,
            seed: arguments.seed,
            pace,
            volumes: &placements,
        };
        let outcome = replayed(&replay, input, &mut progress)?;
        let only = |slot: usize| (slot == ELEVATOR).then(|| labels[slot].clone());
        let labels = std::array::from_fn(only);
        report(&outcome, survey, &labels, &mut results);
        results.notes.push(format!(
            "{}: at most {} requests in flight{}",
            labels[ELEVATOR].as_deref().unwrap_or_default(),
            outcome.in_flight_max,
            match outcome.held_back {
                0 => String::new(),
                count => format!("; {count} times as many as the engine takes, and others waited"),
            }
        ));
    }
    results.notes.push(format!(
        "below the page cache, {said}, {devices} device{}: only the elevator decides",
        if devices == 1 { "" } else { "s" }
    ));
    Ok(results)
}

/// When requests are issued, and its description.
fn pace(arguments: &Simulate) -> (Pace, String) {
    let options = &arguments.trace;
    if options.closed_loop {
        let depth = options.depth.unwrap_or(1);
        return (Pace::Closed { depth }, format!("closed loop of depth {depth}"));
    }
    let speed_ppm = options.speed.unwrap_or(1_000_000);
    let said = format!("open loop at speed {}", speed_ppm as f64 / 1e6);
    (Pace::Open { speed_ppm }, said)
}

/// Where volumes lie, and on how many devices.
fn place(
    arguments: &Simulate,
    machine: &Machine,
    survey: &Survey,
) -> Result<(Vec<Placement>, u32)> {
    let asked: Vec<bool> = (0..survey.volumes.len() as u32)
        .map(|volume| survey.pairs.iter().any(|(_, object)| *object == volume))
        .collect();
    let used = asked.iter().filter(|asked| **asked).count() as u32;
    let devices = arguments.trace.devices.unwrap_or(used).clamp(1, used.max(1));
    let mut ends = vec![0u64; devices as usize];
    let (mut placements, mut turn) = (Vec::new(), 0);
    for ((name, end), asked) in survey.volumes.iter().zip(asked) {
        let device = if asked { turn % devices } else { 0 };
        turn += u32::from(asked);
        let begin = ends[device as usize];
        placements.push(Placement { device, sector: begin / SECTOR_SIZE });
        let behind = begin.saturating_add(end.saturating_add(MIB - 1) / MIB * MIB);
        ends[device as usize] = behind;
        let capacity = machine.capacity_bytes();
        if begin.saturating_add(*end) > capacity {
            let what = format!(
                "volume '{name}' reaches to byte {} of a device of {} that has {capacity}",
                begin.saturating_add(*end),
                machine.name(),
            );
            bail!(Complaint::new(what).hint("--set device.capacity makes room"));
        }
    }
    Ok((placements, devices))
}

/// How far all replays of a trace are.
struct ReplayProgress {
    shown: Progress,
    total: u64,
    runs: u64,
    done: u64,
}

impl ReplayProgress {
    fn new(shown: Progress, runs: usize, survey: &Survey) -> Self {
        let (total, runs) = (survey.replayed.max(1), runs as u64);
        Self { shown, total, runs, done: 0 }
    }

    /// A request has its turn.
    fn count(&mut self) {
        const EVERY: u64 = 64;
        self.done += 1;
        if !self.done.is_multiple_of(EVERY) {
            return;
        }
        let (done, total, runs) = (self.done, self.total, self.runs);
        self.shown.measure(done as f64 / (total * runs) as f64, || {
            let (run, done) = ((done - 1) / total + 1, (done - 1) % total + 1);
            let run = if runs > 1 { format!("run {run} of {runs}: ") } else { String::new() };
            format!("{run}replayed {done} of {total} requests")
        });
    }
}

fn replayed(
    replay: &Replay<'_>,
    input: &TraceInput,
    progress: &mut ReplayProgress,
) -> Result<Outcome> {
    let mut source = TraceSource::open(input)?.sorted(SORT_WINDOW as u64);
    let mut error = None;
    let outcome = replay.run(&mut || {
        loop {
            let record = match source.next() {
                Ok(record) => record?,
                Err(failed) => {
                    error = Some(failed);
                    return None;
                }
            };
            let Some(kind) = kind_of(&record) else { continue };
            progress.count();
            let (first, end) = match kind {
                RequestKind::Flush => (0, 0),
                RequestKind::Read
                | RequestKind::Write
                | RequestKind::DurableWrite
                | RequestKind::Inode => (
                    record.offset / SECTOR_SIZE,
                    (record.offset + record.len).div_ceil(SECTOR_SIZE),
                ),
            };
            let (volume, sectors) = (record.object, end - first);
            let at = Instant(record.time);
            return Some(Arrival { at, volume, sector: first, sectors, kind });
        }
    });
    error.map_or(Ok(outcome), Err)
}

/// A line for each volume, if there are several, and one for all.
fn report(
    outcome: &Outcome,
    survey: &Survey,
    labels: &slots::PerSlot<Option<String>>,
    results: &mut Results,
) {
    let row = |name: &str, one: &VolumeOutcome| Row {
        labels: labels.clone(),
        job: name.to_owned(),
        bytes: one.bytes,
        errors: one.errors,
        elapsed: one.elapsed,
        reads: one.reads,
        writes: one.writes,
        syncs: one.flushes,
        ..Row::default()
    };
    let used: Vec<usize> = (0..outcome.volumes.len())
        .filter(|volume| {
            let VolumeOutcome { reads, writes, flushes, .. } = &outcome.volumes[*volume];
            reads.count + writes.count + flushes.count > 0
        })
        .collect();
    let run = Some(RunTotals { busy: outcome.busy, stats: outcome.stats, ..RunTotals::default() });
    if let [only] = used[..] {
        results.rows.push(Row { run, ..row(&survey.volumes[only].0, &outcome.all) });
        return;
    }
    for volume in &used {
        results.rows.push(row(&survey.volumes[*volume].0, &outcome.volumes[*volume]));
    }
    results.rows.push(Row { run, ..row(ALL, &outcome.all) });
}

/// The pause of a stream between two records, at a speed.
fn think_time(before: &Record, next: &Record, speed_ppm: u64) -> Duration {
    let ended = before.time.saturating_add(before.took.unwrap_or(0));
    let nanos = u128::from(next.time.saturating_sub(ended)) * 1_000_000 / u128::from(speed_ppm);
    Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
}
