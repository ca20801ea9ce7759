//! A block trace in virtual time, below the page cache.

use forebay_core::io::RequestKind;
use forebay_core::time::Instant;
use forebay_core::units::SECTOR_SIZE;
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::replay::{Arrival, Outcome, Pace, Placement, Replay, VolumeOutcome};
use forebay_trace::{Flags, Layer, Op, Options, Record, SORT_WINDOW, Sorted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::machine::{self, Machine};
use crate::rows::{Row, columns, counted, served};
use crate::stop::{ASK_EVERY, Stop};
use crate::trace;

/// The most volumes: each has its own latencies.
const VOLUMES_MAX: usize = 1_024;

/// Replays a trace, and returns the columns of its volumes and of the run.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python calls it with names")]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (*, path, format, skip_bad, machine, policies, seed, speed, depth))]
pub(crate) fn run_trace<'py>(
    py: Python<'py>,
    path: &str,
    format: Option<&str>,
    skip_bad: u64,
    machine: PyRef<'py, Machine>,
    policies: Vec<(String, String)>,
    seed: u64,
    speed: f64,
    depth: Option<u32>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let machine = &machine.0;
    let elevator = machine::elevator_alone(machine, &policies)?;
    let options = Options { format: trace::parse_format(format)?, skip_bad };
    let speed_ppm = (speed * 1e6).round();
    if !(1.0..=1e15).contains(&speed_ppm) {
        return Err(PyValueError::new_err(format!("speed is above zero, not {speed}")));
    }
    let pace = match depth {
        None => Pace::Open { speed_ppm: speed_ppm as u64 },
        Some(0) => return Err(PyValueError::new_err("depth is at least one")),
        Some(depth) => Pace::Closed { depth },
    };
    let (volumes, run) = py.detach(|| {
        let names = survey(path, &options, machine)?;
        let placements: Vec<Placement> =
            (0..names.len() as u32).map(|device| Placement { device, sector: 0 }).collect();
        let replay = Replay { machine, elevator: &elevator, seed, pace, volumes: &placements };
        let outcome = replayed(&replay, path, &options)?;
        Ok::<_, PyErr>(rows(&outcome, &names))
    })?;
    Ok((columns(&volumes).into_dict(py)?, columns(&[run]).into_dict(py)?))
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

/// The names of the volumes, all of which fit on a device of their own.
fn survey(path: &str, options: &Options, machine: &SimMachine) -> PyResult<Vec<String>> {
    let bad = |why: String| PyValueError::new_err(format!("{path}: {why}"));
    let mut reader = trace::open(path, options).map_err(PyValueError::new_err)?;
    match reader.format().layer() {
        Layer::Block => {}
        Layer::File => {
            let what = "a trace of file calls; `forebay simulate` replays it above the page cache";
            return Err(bad(what.to_owned()));
        }
        Layer::Object => return Err(bad("objects of a cache have no addresses".to_owned())),
    }
    while let Some(record) = reader.next().map_err(|error| bad(error.to_string()))? {
        if record.object as usize >= VOLUMES_MAX {
            return Err(bad(format!("more than {VOLUMES_MAX} devices")));
        }
        let (end, capacity) = (record.offset + record.len, machine.capacity_bytes());
        if kind_of(&record).is_some() && end > capacity {
            let volume = reader.names().name(record.object);
            let what = format!("volume '{volume}' reaches to byte {end}");
            let hint = "settings={'device.capacity': ...} makes room";
            return Err(bad(format!("{what} of a device that has {capacity}; {hint}")));
        }
    }
    Ok(reader.names().iter().map(str::to_owned).collect())
}

fn replayed(replay: &Replay<'_>, path: &str, options: &Options) -> PyResult<Outcome> {
    let reader = trace::open(path, options).map_err(PyValueError::new_err)?;
    let mut source = Sorted::new(reader, SORT_WINDOW);
    let (stop, mut count) = (Stop::default(), 0u64);
    let outcome = replay.run(&mut || {
        loop {
            count += 1;
            if count.is_multiple_of(ASK_EVERY) {
                stop.ask_python();
            }
            if stop.is_set() {
                return None;
            }
            match source.next() {
                Ok(record) => {
                    let record = record?;
                    if let Some(arrival) = kind_of(&record).map(|kind| arrival(&record, kind)) {
                        return Some(arrival);
                    }
                }
                Err(error) => stop.set(PyValueError::new_err(format!("{path}: {error}"))),
            }
        }
    });
    stop.result()?;
    Ok(outcome)
}

fn arrival(record: &Record, kind: RequestKind) -> Arrival {
    let (first, end) = match kind {
        RequestKind::Flush => (0, 0),
        RequestKind::Read | RequestKind::Write | RequestKind::DurableWrite | RequestKind::Inode => {
            (record.offset / SECTOR_SIZE, (record.offset + record.len).div_ceil(SECTOR_SIZE))
        }
    };
    let at = Instant(record.time);
    Arrival { at, volume: record.object, sector: first, sectors: end - first, kind }
}

/// A row for each volume that was asked for something, and one for the run.
fn rows(outcome: &Outcome, names: &[String]) -> (Vec<Row>, Row) {
    let row = |name: &str, one: &VolumeOutcome| {
        let latencies = [one.reads, one.writes, one.flushes];
        served(name, one.bytes, one.errors, one.elapsed, &latencies)
    };
    let volumes = outcome.volumes.iter().zip(names);
    let is_used = |one: &VolumeOutcome| one.reads.count + one.writes.count + one.flushes.count > 0;
    let volumes: Vec<Row> =
        volumes.filter(|(one, _)| is_used(one)).map(|(one, name)| row(name, one)).collect();
    let mut run = row("all", &outcome.all);
    run.extend(counted(&outcome.stats, outcome.busy));
    (volumes, run)
}
