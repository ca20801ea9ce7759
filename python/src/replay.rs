//! Traces in virtual time, below the page cache or above it.

use forebay_replay::above::CachedReplay;
use forebay_replay::{ReplayError, Survey, TraceSet, below};
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::replay::{Pace, Replay, VolumeOutcome};
use forebay_trace::{Layer, Options, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::machine::{self, Machine, bad};
use crate::rows::{Row, columns, counted, of_totals, served};
use crate::stop::{ASK_EVERY, Stop};
use crate::trace;

/// Traces and how they are replayed.
struct Asked<'a> {
    paths: &'a [String],
    options: Options,
    machines: &'a [&'a SimMachine],
    policies: &'a [(String, String)],
    seed: u64,
    speed_ppm: u64,
    depth: Option<u32>,
    devices: Option<u32>,
    /// `block` or `cache`; by default where the traces were recorded.
    layer: Option<&'a str>,
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
            | ReplayError::Machine(_) => "",
        };
        Self(PyValueError::new_err(format!("{error}{hint}")))
    }
}

/// Replays traces as one, and returns the columns of their volumes and of the run.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python calls it with names")]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (
    *, paths, format, skip_bad, machines, policies, seed, speed, depth, devices, layer
))]
pub(crate) fn run_trace<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    format: Option<&str>,
    skip_bad: u64,
    machines: Vec<PyRef<'py, Machine>>,
    policies: Vec<(String, String)>,
    seed: u64,
    speed: f64,
    depth: Option<u32>,
    devices: Option<u32>,
    layer: Option<&str>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let machines: Vec<&SimMachine> = machines.iter().map(|machine| &machine.0).collect();
    if machines.is_empty() || paths.is_empty() {
        return Err(bad("a replay has a trace and a machine"));
    }
    let speed_ppm = (speed * 1e6).round();
    if !(1.0..=1e15).contains(&speed_ppm) {
        return Err(bad(format!("speed is above zero, not {speed}")));
    }
    if depth == Some(0) || devices == Some(0) {
        return Err(bad("depth and devices are at least one"));
    }
    if layer.is_some_and(|layer| !["block", "cache"].contains(&layer)) {
        return Err(bad("layer is 'block' or 'cache'"));
    }
    let asked = Asked {
        paths: &paths,
        options: Options { format: trace::parse_format(format)?, skip_bad },
        machines: &machines,
        policies: &policies,
        seed,
        speed_ppm: speed_ppm as u64,
        depth,
        devices,
        layer,
    };
    let (volumes, run) = py.detach(|| asked.run().map_err(|Failed(error)| error))?;
    Ok((columns(&volumes).into_dict(py)?, columns(&[run]).into_dict(py)?))
}

impl Asked<'_> {
    fn run(&self) -> Result<(Vec<Row>, Row), Failed> {
        let survey = Survey::of(&mut self.open()?)?;
        let is_above = match self.layer {
            Some(layer) => layer == "cache",
            None => survey.layer == Layer::File,
        };
        let devices = match survey.layer {
            Layer::File if is_above => Some(self.machines.len() as u32),
            Layer::File | Layer::Block | Layer::Object => None,
        };
        let spread = survey.spread(self.machines.len(), self.devices.or(devices))?;
        if is_above { self.above(&survey, &spread.0) } else { self.below(&survey, &spread) }
    }

    fn below(
        &self,
        survey: &Survey,
        (spread, devices): &(Vec<u32>, u32),
    ) -> Result<(Vec<Row>, Row), Failed> {
        let elevator = machine::elevator_alone(self.machines[0], self.policies).map_err(Failed)?;
        let of_devices = self.machines.iter().copied().cycle().take(*devices as usize);
        let of_devices: Vec<&SimMachine> = of_devices.collect();
        let pace = match self.depth {
            None => Pace::Open { speed_ppm: self.speed_ppm },
            Some(depth) => Pace::Closed { depth },
        };
        let replay = Replay {
            devices: &of_devices,
            elevator: &elevator,
            seed: self.seed,
            pace,
            volumes: &survey.place(self.machines, spread)?,
        };
        let outcome = below::replay(&replay, &mut self.requests()?)?;
        let mut run = row("all", &outcome.all);
        run.extend(counted(&outcome.stats, outcome.busy));
        Ok((rows(survey, &outcome.volumes), run))
    }

    fn above(&self, survey: &Survey, spread: &[u32]) -> Result<(Vec<Row>, Row), Failed> {
        if self.depth.is_some() {
            return Err(Failed(bad("depth is for replays below the page cache")));
        }
        let policies = machine::policy_set(self.machines[0], self.policies).map_err(Failed)?;
        let replay = CachedReplay {
            survey,
            machines: self.machines,
            spread,
            policies: &policies,
            seed: self.seed,
            is_open: survey.layer == Layer::Block,
            speed_ppm: self.speed_ppm,
        };
        let outcome = replay.run(&self.paths.join(", "), &mut self.requests()?)?;
        let mut run = row("all", &outcome.all);
        run.extend(of_totals(&outcome.run));
        Ok((rows(survey, &outcome.volumes), run))
    }

    /// The traces, from their beginning.
    fn open(&self) -> Result<TraceSet<'static>, Failed> {
        let open = |path: &String| {
            let reader = trace::open(path, &self.options);
            reader.map(|reader| (path.clone(), reader)).map_err(|why| Failed(bad(why)))
        };
        let readers = self.paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(TraceSet::new(readers, None)?)
    }

    /// The requests, until the user interrupts.
    fn requests(&self) -> Result<impl FnMut() -> Result<Option<Record>, Failed> + 'static, Failed> {
        let mut traces = self.open()?;
        let (stop, mut count) = (Stop::default(), 0u64);
        Ok(move || {
            count += 1;
            if count.is_multiple_of(ASK_EVERY) {
                stop.ask_python();
                stop.result().map_err(Failed)?;
            }
            Ok(traces.next()?)
        })
    }
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
