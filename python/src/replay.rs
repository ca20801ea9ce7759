//! Traces in virtual time, below the page cache or above it.

use std::sync::Arc;

use forebay_replay::above::CachedReplay;
use forebay_replay::{ReplayError, Survey, TraceSet, below};
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::replay::{Pace, Replay, VolumeOutcome};
use forebay_sim::scenario::PolicySet;
use forebay_trace::{Layer, Options, ReadReport, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::machine::{self, Machine, bad};
use crate::policy::GivenPolicy;
use crate::rows::{Row, columns, counted, of_pauses, of_totals, served};
use crate::stop::{Nested, Stop, Work};
use crate::trace;

/// How traces are read and replayed, as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TraceOptions {
    trace_format: Option<String>,
    skip_bad: u64,
    speed: f64,
    depth: Option<u32>,
    devices: Option<u32>,
    /// `block` or `cache`; by default where the traces were recorded.
    layer: Option<String>,
}

/// Traces that are replayed as one.
pub(crate) struct Traces {
    paths: Vec<String>,
    options: Options,
    survey: Survey,
    /// What a reader of the traces should know.
    pub(crate) warnings: Vec<String>,
    is_above: bool,
    speed_ppm: u64,
    depth: Option<u32>,
    devices: Option<u32>,
}

/// What traces are replayed on.
pub(crate) struct ReplaySetup<'a> {
    pub(crate) machines: &'a [&'a SimMachine],
    pub(crate) policies: &'a PolicySet,
    pub(crate) seed: u64,
    pub(crate) stop: &'a Stop,
}

/// An error of a replay, as Python gets it.
struct Failed(PyErr);

impl From<ReplayError> for Failed {
    fn from(error: ReplayError) -> Self {
        let hint = match error {
            ReplayError::Capacity { .. } => "; settings={'device.capacity': ...} makes room",
            ReplayError::OpenFiles { .. } | ReplayError::Streams { .. } => {
                "; layer='block' replays it without tasks"
            }
            ReplayError::Machines { .. } => "; devices=N sets their number",
            ReplayError::Trace { .. }
            | ReplayError::Formats { .. }
            | ReplayError::NoAddresses { .. }
            | ReplayError::Absent { .. }
            | ReplayError::Volumes { .. }
            | ReplayError::Behind { .. }
            | ReplayError::PastClock { .. }
            | ReplayError::Machine(_) => "",
        };
        Self(PyValueError::new_err(format!("{error}{hint}")))
    }
}

/// Columns of volumes and of the run, and what a reader of the traces should know.
type Replayed<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, Vec<String>);

/// Replays traces as one, and returns the columns of their volumes and of the run.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (*, paths, options, machines, policies, seed))]
pub(crate) fn run_trace<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    options: TraceOptions,
    machines: Vec<PyRef<'py, Machine>>,
    policies: Vec<(String, GivenPolicy)>,
    seed: u64,
) -> PyResult<Replayed<'py>> {
    let machines: Vec<&SimMachine> = machines.iter().map(|machine| &machine.0).collect();
    let Some(first) = machines.first() else { return Err(bad("a replay has a machine")) };
    let _nested = Nested::enter()?;
    let (volumes, run, warnings) = py.detach(|| {
        let stop = Arc::new(Stop::default());
        let traces = Traces::open(paths, &options, &stop)?;
        let policies = &traces.policies(first, &policies, &stop)?;
        let setup = ReplaySetup { machines: &machines, policies, seed, stop: &stop };
        let rows = traces.replay(&setup);
        stop.result()?;
        let (volumes, run) = rows?;
        PyResult::Ok((volumes, run, traces.warnings))
    })?;
    Ok((columns(&volumes).into_dict(py)?, columns(&[run]).into_dict(py)?, warnings))
}

impl Traces {
    /// Reads traces once, to learn what they need.
    pub(crate) fn open(paths: Vec<String>, given: &TraceOptions, stop: &Stop) -> PyResult<Self> {
        let TraceOptions { trace_format, skip_bad, speed, depth, devices, layer } = given;
        if paths.is_empty() {
            return Err(bad("a replay has a trace"));
        }
        let speed_ppm = (speed * 1e6).round();
        if !(1.0..=1e12).contains(&speed_ppm) {
            return Err(bad(format!("speed is a number from 0.000001 to 1000000, not {speed}")));
        }
        if depth.is_some() && *speed != 1.0 {
            return Err(bad(
                "speed changes recorded times, and a closed loop (depth) ignores them",
            ));
        }
        if *depth == Some(0) || *devices == Some(0) {
            return Err(bad("depth and devices are at least one"));
        }
        let layer = match layer.as_deref() {
            Some("cache") => Some(true),
            Some("block") => Some(false),
            Some(_) => return Err(bad("layer is 'block' or 'cache'")),
            None => None,
        };
        let format = trace::parse_format(trace_format.as_deref())?;
        let options = Options { format, skip_bad: *skip_bad };
        let mut traces = open(&paths, &options).map_err(|Failed(error)| error)?;
        let mut work = Work::default();
        let survey = Survey::of_while(&mut traces, || {
            work.add(0, stop);
            !stop.is_set()
        });
        let survey = survey.map_err(|error| Failed::from(error).0)?;
        stop.result()?;
        let said = |(name, report): (&str, ReadReport)| {
            let sentences = report.sentences().into_iter();
            sentences.map(|sentence| format!("{name}: {sentence}")).collect::<Vec<_>>()
        };
        let warnings = traces.reports().flat_map(said).collect();
        let is_above = layer.unwrap_or(survey.layer == Layer::File);
        if is_above && depth.is_some() {
            return Err(bad("depth is for replays below the page cache"));
        }
        let (depth, devices, speed_ppm) = (*depth, *devices, speed_ppm as u64);
        Ok(Self { paths, options, survey, warnings, is_above, speed_ppm, depth, devices })
    }

    pub(crate) fn name(&self) -> String {
        self.paths.join(", ")
    }

    /// The policies of a machine, and those that were chosen for a slot.
    pub(crate) fn policies(
        &self,
        machine: &SimMachine,
        chosen: &[(String, GivenPolicy)],
        stop: &Arc<Stop>,
    ) -> PyResult<PolicySet> {
        if !self.is_above {
            machine::elevator_alone(chosen)?;
        }
        machine::policy_set(machine, chosen, stop)
    }

    /// Replays them, as far as the run is not stopped: a row for each volume, and that of the run.
    pub(crate) fn replay(&self, setup: &ReplaySetup<'_>) -> PyResult<(Vec<Row>, Row)> {
        let devices = match self.survey.layer {
            Layer::File if self.is_above => Some(setup.machines.len() as u32),
            Layer::File | Layer::Block | Layer::Object => None,
        };
        let spread = self.survey.spread(setup.machines.len(), self.devices.or(devices));
        let replay = if self.is_above { Self::above } else { Self::below };
        let rows = spread.map_err(Failed::from).and_then(|spread| replay(self, setup, &spread));
        rows.map_err(|Failed(error)| error)
    }

    fn below(
        &self,
        setup: &ReplaySetup<'_>,
        (spread, devices): &(Vec<u32>, u32),
    ) -> Result<(Vec<Row>, Row), Failed> {
        let ReplaySetup { machines, policies, seed, stop } = *setup;
        let of_devices = machines.iter().copied().cycle().take(*devices as usize);
        let of_devices: Vec<&SimMachine> = of_devices.collect();
        let pace = match self.depth {
            None => Pace::Open { speed_ppm: self.speed_ppm },
            Some(depth) => Pace::Closed { depth },
        };
        let replay = Replay {
            devices: &of_devices,
            elevator: &policies.elevator,
            seed,
            pace,
            volumes: &self.survey.place(machines, spread)?,
        };
        let outcome = below::replay(&replay, &mut self.requests(stop)?)?;
        let mut run = row("all", &outcome.all);
        run.extend(counted(&outcome.stats, outcome.busy));
        Ok((rows(&self.survey, &outcome.volumes), run))
    }

    fn above(
        &self,
        setup: &ReplaySetup<'_>,
        (spread, _): &(Vec<u32>, u32),
    ) -> Result<(Vec<Row>, Row), Failed> {
        let ReplaySetup { machines, policies, seed, stop } = *setup;
        let survey = &self.survey;
        let is_open = survey.layer == Layer::Block;
        let speed_ppm = self.speed_ppm;
        let replay = CachedReplay { survey, machines, spread, policies, seed, is_open, speed_ppm };
        let outcome = replay.run(&self.name(), &mut self.requests(stop)?)?;
        let mut run = row("all", &outcome.all);
        run.extend(of_pauses(&outcome.pauses));
        run.extend(of_totals(&outcome.run));
        Ok((rows(survey, &outcome.volumes), run))
    }

    /// The requests, until the run is stopped.
    fn requests<'a>(
        &self,
        stop: &'a Stop,
    ) -> Result<impl FnMut() -> Result<Option<Record>, Failed> + 'a, Failed> {
        let (mut traces, mut work) = (open(&self.paths, &self.options)?, Work::default());
        Ok(move || {
            if stop.is_set() {
                return Ok(None);
            }
            let record = traces.next()?;
            work.add(record.map_or(0, |record| record.len), stop);
            Ok(record)
        })
    }
}

/// Traces, from their beginning.
fn open(paths: &[String], options: &Options) -> Result<TraceSet<'static>, Failed> {
    let open = |path: &String| {
        let reader = trace::open(path, options);
        reader.map(|reader| (path.clone(), reader)).map_err(|why| Failed(bad(why)))
    };
    let readers = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    Ok(TraceSet::new(readers, None)?)
}

/// A row for each volume that was asked for something.
fn rows(survey: &Survey, volumes: &[VolumeOutcome]) -> Vec<Row> {
    let named = survey.volumes.iter().zip(volumes).filter(|(volume, _)| volume.is_used);
    named.map(|(volume, one)| row(&volume.name, one)).collect()
}

fn row(name: &str, one: &VolumeOutcome) -> Row {
    let latencies = [one.reads, one.writes, one.flushes, one.discards];
    served(name, one.bytes, one.errors, one.elapsed, &latencies)
}
