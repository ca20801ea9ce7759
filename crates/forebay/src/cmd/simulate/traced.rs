//! `forebay simulate TRACE...`: traces in virtual time, below the page cache or above it.

use std::path::Path;

use anyhow::{Result, bail};
use forebay_replay::above::{CachedReplay, StreamPauses};
use forebay_replay::{ReplayError, Survey, TraceSet, Volume, below};
use forebay_report::messages::{self, Complaint};
use forebay_sim::machine::Machine;
use forebay_sim::replay::{Pace, Replay, VolumeOutcome};
use forebay_sim::tally::RunTotals;
use forebay_trace::{Layer, Options, Record};

use crate::args::simulate::Simulate;
use crate::args::trace::{EntryLayer, TraceReplay};
use crate::choice;
use crate::progress::Progress;
use crate::results::{ALL, Results, Row};
use crate::slots::{self, ELEVATOR, Filled, PerSlot};
use crate::traces;

/// Traces, what is known of them, and where their volumes lie.
struct Traced<'a> {
    arguments: &'a Simulate,
    machines: &'a [&'a Machine],
    survey: Survey,
    /// The device of each volume, and how many there are.
    spread: Vec<u32>,
    devices: u32,
}

/// Replays traces once with each set of policies; `shown` shows how far that is.
pub(super) fn run(arguments: &Simulate, shown: Progress) -> Result<Results> {
    let machines = arguments.machines()?;
    let machines: Vec<&Machine> = machines.iter().collect();
    if arguments.inputs.iter().any(|path| path == Path::new(choice::STANDARD_INPUT)) {
        bail!(
            Complaint::new(
                "a replay reads its trace twice, and standard input can be read only once"
            )
            .hint("write the trace to a file")
        );
    }
    let options = &arguments.trace;
    let mut traces = open(arguments)?;
    let survey = Survey::of(&mut traces).map_err(complaint)?;
    for (name, report) in traces.reports() {
        traces::warn(name, &report);
    }
    messages::detail(|| {
        let format = traces.format().name();
        match options.trace_format {
            Some(_) => format!("trace: format {format}, as typed"),
            None => format!("trace: format {format}, by its first bytes"),
        }
    });
    if survey.left_out == survey.requests {
        let what = format!("{}: no request reads, writes, syncs or discards", traces.name());
        bail!(Complaint::new(what).hint("`forebay trace head` prints what is there"));
    }
    let layer = layer_of(options.layer, survey.layer);
    if options.layer.is_none() {
        let name = if layer == EntryLayer::Block { "block" } else { "cache" };
        messages::detail(|| format!("layer: {name}, where the trace was recorded"));
    }
    let devices = match survey.layer {
        Layer::File if layer == EntryLayer::Cache => Some(machines.len() as u32),
        Layer::File | Layer::Block | Layer::Object => None,
    };
    let spread = survey.spread(machines.len(), options.devices.or(devices));
    let (spread, devices) = spread.map_err(complaint)?;
    let left_out = survey.left_out;
    let traced = Traced { arguments, machines: &machines, survey, spread, devices };
    let mut results = match layer {
        EntryLayer::Block => traced.below(shown)?,
        EntryLayer::Cache => traced.above(shown)?,
    };
    results.notes.extend(traced.volumes_of_machines());
    if left_out > 0 {
        let what = if left_out == 1 { "request" } else { "requests" };
        results.notes.push(format!("{left_out} {what} left out: opens, closes and truncations"));
    }
    results.notes.push(arguments.repeated(&machines));
    Ok(results)
}

/// Where the requests of a trace enter.
pub(super) fn entry_of(path: &Path, options: &TraceReplay) -> Result<EntryLayer> {
    let how = Options { format: options.trace_format, skip_bad: options.skip_bad };
    let recorded = traces::reader(path, &how)?.format().layer();
    if recorded == Layer::Object {
        let name = choice::name(path);
        return Err(complaint(ReplayError::NoAddresses { name }).into());
    }
    Ok(layer_of(options.layer, recorded))
}

/// Where requests enter: as typed, or where the trace was recorded.
fn layer_of(typed: Option<EntryLayer>, recorded: Layer) -> EntryLayer {
    typed.unwrap_or(match recorded {
        Layer::File => EntryLayer::Cache,
        Layer::Block | Layer::Object => EntryLayer::Block,
    })
}

impl Traced<'_> {
    /// Replays at the block layer.
    fn below(&self, shown: Progress) -> Result<Results> {
        let Self { arguments, machines, survey, devices, .. } = self;
        let runs = slots::of_block_trace(&arguments.policies, &machines[0].kernel().elevator)?;
        let volumes = survey.place(machines, &self.spread).map_err(complaint)?;
        let of_devices = machines.iter().copied().cycle().take(*devices as usize);
        let of_devices: Vec<&Machine> = of_devices.collect();
        let (pace, said) = pace(arguments)?;
        let mut results = self.results();
        results.shown[ELEVATOR] = true;
        let mut progress = ReplayProgress::new(shown, runs.len(), survey);
        for Filled { policies, labels } in &runs {
            let replay = Replay {
                devices: &of_devices,
                elevator: &policies.elevator,
                seed: arguments.seed,
                pace,
                volumes: &volumes,
            };
            let mut traces = open(arguments)?;
            let outcome = below::replay(&replay, &mut || progress.next(&mut traces));
            let outcome = outcome.map_err(complaint)?;
            let only = |slot: usize| (slot == ELEVATOR).then(|| labels[slot].clone());
            let labels: PerSlot<_> = std::array::from_fn(only);
            let run =
                RunTotals { busy: outcome.busy, stats: outcome.stats, ..RunTotals::default() };
            let all = Row { run: Some(run), ..row_of(&labels, &outcome.all) };
            self.report(&outcome.volumes, all, &mut results);
            results.notes.push(format!(
                "{}: at most {} request{} in flight{}",
                labels[ELEVATOR].as_deref().unwrap_or_default(),
                outcome.in_flight_max,
                if outcome.in_flight_max == 1 { "" } else { "s" },
                match outcome.held_back {
                    0 => String::new(),
                    count =>
                        format!("; {count} times as many as the engine takes, and others waited"),
                }
            ));
        }
        results.notes.push(format!(
            "below the page cache, {said}, {}: only the elevator decides",
            counted_devices(*devices)
        ));
        Ok(results)
    }

    /// Replays above the page cache.
    fn above(&self, shown: Progress) -> Result<Results> {
        let Self { arguments, machines, survey, spread, devices } = self;
        let place = |key: &str| format!("machine '{}', {key}", arguments.machine[0]);
        let chosen = slots::sets(&arguments.policies, &machines[0].kernel(), place)?;
        let options = &arguments.trace;
        if options.depth.is_some() {
            bail!(
                Complaint::new("--depth is for replays at the block layer")
                    .hint("--layer block replays there")
            );
        }
        let is_open = options.open_loop || (!options.closed_loop && survey.layer == Layer::Block);
        let speed_ppm = options.speed.unwrap_or(1_000_000);
        let mut results = Results { shown: chosen.shown, ..self.results() };
        let mut progress = ReplayProgress::new(shown, chosen.runs.len(), survey);
        let mut streams = 0;
        for Filled { policies, labels } in &chosen.runs {
            if let Some(why) = policies.contradiction(machines[0].page_cache_bytes()) {
                bail!(Complaint::new(why).hint("lower the background level or raise the limit"));
            }
            let seed = arguments.seed;
            let replay =
                CachedReplay { survey, machines, spread, policies, seed, is_open, speed_ppm };
            let mut traces = open(arguments)?;
            let name = traces.name();
            let outcome = replay.run(&name, &mut || progress.next(&mut traces));
            let outcome = outcome.map_err(complaint)?;
            streams = outcome.streams;
            let StreamPauses { sum, lengths, alive } = outcome.pauses;
            let all = Row {
                run: Some(outcome.run),
                pauses: Some(sum),
                pause_lengths: lengths,
                alive,
                ..row_of(&labels.clone().map(Some), &outcome.all)
            };
            self.report(&outcome.volumes, all, &mut results);
        }
        results.notes.push(format!(
            "above the page cache, {} loop at speed {}, {streams} tasks, {} files, {}",
            if is_open { "open" } else { "closed" },
            speed_ppm as f64 / 1e6,
            survey.volumes.len(),
            counted_devices(*devices),
        ));
        Ok(results)
    }

    /// No rows yet.
    fn results(&self) -> Results {
        let names: Vec<String> =
            self.arguments.inputs.iter().map(|path| choice::name(path)).collect();
        let machines = super::names(self.machines.iter().copied());
        let title = format!("{} on {machines}", names.join(", "));
        Results { title, machines, ..Results::default() }
    }

    /// If there are several machines, what lies on the devices of each.
    fn volumes_of_machines(&self) -> Vec<String> {
        const NAMED_MAX: usize = 10;
        let Self { survey, spread, machines, .. } = self;
        if machines.len() == 1 {
            return Vec::new();
        }
        let of = |place: usize| {
            let volumes = survey.volumes.iter().zip(spread);
            let here = volumes.filter(move |(volume, device)| {
                volume.is_used && **device as usize % machines.len() == place
            });
            let mut names: Vec<&str> = here.map(|(volume, _)| volume.name.as_str()).collect();
            let more = names.len().saturating_sub(NAMED_MAX);
            names.truncate(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}: {}{more}", machines[place].name(), names.join(", "))
        };
        (0..machines.len()).map(of).collect()
    }

    /// A line for each volume, if there are several, and one for all.
    fn report(&self, volumes: &[VolumeOutcome], all: Row, results: &mut Results) {
        let named = self.survey.volumes.iter().zip(volumes);
        let used: Vec<_> = named.filter(|(volume, _)| volume.is_used).collect();
        if let [(only, _)] = used[..] {
            results.rows.push(Row { job: only.name.clone(), ..all });
            return;
        }
        let of_volume = |(volume, one): &(&Volume, &VolumeOutcome)| Row {
            job: volume.name.clone(),
            ..row_of(&all.labels, one)
        };
        results.rows.extend(used.iter().map(of_volume));
        results.rows.push(Row { job: ALL.to_owned(), ..all });
    }
}

fn row_of(labels: &PerSlot<Option<String>>, one: &VolumeOutcome) -> Row {
    Row {
        labels: labels.clone(),
        bytes: one.bytes,
        errors: one.errors,
        elapsed: one.elapsed,
        reads: one.reads,
        writes: one.writes,
        syncs: one.flushes,
        discards: one.discards,
        ..Row::default()
    }
}

/// How many requests of all runs were read.
struct ReplayProgress {
    shown: Progress,
    runs: u64,
    total: u64,
    read: u64,
}

impl ReplayProgress {
    fn new(shown: Progress, runs: usize, survey: &Survey) -> Self {
        Self { shown, runs: runs as u64, total: survey.requests.max(1), read: 0 }
    }

    /// The next request.
    fn next(&mut self, traces: &mut TraceSet<'_>) -> Result<Option<Record>, ReplayError> {
        const EVERY: u64 = 4_096;
        let Some(record) = traces.next()? else { return Ok(None) };
        self.read += 1;
        if self.read.is_multiple_of(EVERY) {
            let (read, total, runs) = (self.read, self.total, self.runs);
            self.shown.measure(read as f64 / (total * runs) as f64, || {
                let (run, read) = ((read - 1) / total + 1, (read - 1) % total + 1);
                let run = if runs > 1 { format!("run {run} of {runs}: ") } else { String::new() };
                format!("{run}replayed {read} of {total} requests")
            });
        }
        Ok(Some(record))
    }
}

/// The traces, from their beginning.
fn open(arguments: &Simulate) -> Result<TraceSet<'static>> {
    let options = &arguments.trace;
    let how = Options { format: options.trace_format, skip_bad: options.skip_bad };
    let inputs = arguments.inputs.iter();
    let readers = inputs.map(|path| Ok((choice::name(path), traces::reader(path, &how)?)));
    let readers = readers.collect::<Result<Vec<_>>>()?;
    Ok(TraceSet::new(readers, options.only.as_deref()).map_err(complaint)?)
}

/// When requests are issued, and its description.
fn pace(arguments: &Simulate) -> Result<(Pace, String)> {
    let options = &arguments.trace;
    if options.closed_loop {
        if options.speed.is_some() {
            let what =
                "--speed changes recorded times, and a closed loop at the block layer ignores them";
            bail!(Complaint::new(what).hint("--open-loop keeps the times"));
        }
        let depth = options.depth.unwrap_or(1);
        return Ok((Pace::Closed { depth }, format!("closed loop of depth {depth}")));
    }
    if options.depth.is_some() {
        let what = "--depth is for a closed loop, and requests come at their recorded times";
        bail!(Complaint::new(what).hint("--closed-loop keeps that many in flight"));
    }
    let speed_ppm = options.speed.unwrap_or(1_000_000);
    let said = format!("open loop at speed {}", speed_ppm as f64 / 1e6);
    Ok((Pace::Open { speed_ppm }, said))
}

fn counted_devices(devices: u32) -> String {
    format!("{devices} device{}", if devices == 1 { "" } else { "s" })
}

/// The error of a replay, with a hint.
fn complaint(error: ReplayError) -> Complaint {
    let what = error.to_string();
    let hint = match error {
        ReplayError::Trace { name, error } => return traces::complaint(&name, &error),
        ReplayError::Machine(error) => return Complaint::from(error),
        ReplayError::Absent { known, .. } => format!("volumes are {}", known.join(", ")),
        ReplayError::Formats { .. } => {
            "the clocks of two formats cannot be aligned: replay each format by itself".to_owned()
        }
        ReplayError::NoAddresses { .. } => {
            "`forebay trace stats` shows their reuse distances".to_owned()
        }
        ReplayError::Volumes { .. } => "--only NAME replays one of them".to_owned(),
        ReplayError::OpenFiles { .. } | ReplayError::Streams { .. } => {
            "--layer block replays it without tasks".to_owned()
        }
        ReplayError::Behind { .. } => {
            "--open-loop keeps the recorded times; --only NAME replays one file".to_owned()
        }
        ReplayError::PastClock { .. } => "--speed divides the pauses".to_owned(),
        ReplayError::Capacity { .. } => "--set device.capacity makes room".to_owned(),
        ReplayError::Machines { .. } => {
            "name fewer machines, or set the number of devices with --devices".to_owned()
        }
    };
    Complaint::new(what).hint(hint)
}
