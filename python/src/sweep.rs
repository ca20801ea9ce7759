//! Many runs at once, on threads that hold no lock of the interpreter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::scenario::PolicySet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::machine::{self, Machine, bad};
use crate::policy::GivenPolicy;
use crate::replay::{ReplaySetup, TraceOptions, Traces};
use crate::rows::{Row, columns};
use crate::run::{self, Setup};
use crate::stop::{INTERRUPTED, Nested, Stop};

/// What is run: the text and name of a job, or the path of a trace.
#[derive(FromPyObject)]
pub(crate) enum GivenInput {
    Job(String, String),
    Trace(String),
}

/// One run: the place of its input, its machine, its policies, its seed.
type GivenPoint<'py> = (usize, PyRef<'py, Machine>, Vec<(String, GivenPolicy)>, u64);

/// The same as [`GivenInput`], read.
enum Input {
    Job(JobFile, String),
    Trace(Traces),
}

/// The same as [`GivenPoint`], read.
struct Point<'a> {
    input: &'a Input,
    machine: &'a SimMachine,
    policies: PolicySet,
    seed: u64,
}

/// Runs points on threads. Returns the columns of their rows, in the order of the points, and what
/// a reader of the traces should know.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (*, inputs, options, points, fio, threads))]
pub(crate) fn run_points<'py>(
    py: Python<'py>,
    inputs: Vec<GivenInput>,
    options: TraceOptions,
    points: Vec<GivenPoint<'py>>,
    fio: &str,
    threads: usize,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
    let compat = run::compat(fio)?;
    let nested = Nested::enter()?;
    let points: Vec<_> = points
        .iter()
        .map(|(input, machine, policies, seed)| (*input, &machine.0, policies, *seed))
        .collect();
    let (rows, warnings) = py.detach(|| {
        let stop = Arc::new(Stop::default());
        let inputs = inputs.into_iter().map(|given| Input::read(given, &options, &stop));
        let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
        let points = points.into_iter().map(|(input, machine, policies, seed)| {
            let input = inputs.get(input).ok_or_else(|| bad("a point has no input"))?;
            let policies = input.policies(machine, policies, &stop);
            let policies = policies.map_err(|error| input.named(&error))?;
            Ok(Point { input, machine, policies, seed })
        });
        let points = points.collect::<PyResult<Vec<_>>>()?;
        let rows = run_all(&points, compat, threads, (&nested, &stop))?;
        PyResult::Ok((rows, inputs.iter().flat_map(Input::warnings).cloned().collect()))
    })?;
    Ok((columns(&rows).into_dict(py)?, warnings))
}

impl Input {
    fn read(given: GivenInput, options: &TraceOptions, stop: &Stop) -> PyResult<Self> {
        match given {
            GivenInput::Job(text, name) => {
                Ok(Self::Job(JobFile::parse(&text, &name).map_err(bad)?, name))
            }
            GivenInput::Trace(path) => {
                let traces = Traces::open(vec![path.clone()], options, stop);
                traces.map(Self::Trace).map_err(|error| named(&path, &error))
            }
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Self::Job(..) => &[],
            Self::Trace(traces) => &traces.warnings,
        }
    }

    /// An error with the input that it is about.
    fn named(&self, error: &PyErr) -> PyErr {
        match self {
            Self::Job(_, name) => named(name, error),
            Self::Trace(traces) => named(&traces.name(), error),
        }
    }

    /// The policies of a machine, and those that were chosen for a slot.
    fn policies(
        &self,
        machine: &SimMachine,
        chosen: &[(String, GivenPolicy)],
        stop: &Arc<Stop>,
    ) -> PyResult<PolicySet> {
        match self {
            Self::Job(..) => machine::policy_set(machine, chosen, stop),
            Self::Trace(traces) => traces.policies(machine, chosen, stop),
        }
    }
}

/// An error of what was given, with the name of the input that it is about.
fn named(name: &str, error: &PyErr) -> PyErr {
    Python::attach(|py| match error.is_instance_of::<PyValueError>(py) {
        false => error.clone_ref(py),
        true => {
            let said = error.value(py).to_string();
            let is_named = said.contains(name);
            bad(if is_named { said } else { format!("{name}: {said}") })
        }
    })
}

fn run_all(
    points: &[Point<'_>],
    compat: Compat,
    threads: usize,
    (nested, stop): (&Nested, &Stop),
) -> PyResult<Vec<Row>> {
    let next = AtomicUsize::new(0);
    let (send, results) = channel();
    let mut rows: Vec<Row> = vec![Row::new(); points.len()];
    thread::scope(|scope| {
        for started in 0..threads.clamp(1, points.len().max(1)) {
            let (send, next, nest) = (send.clone(), &next, nested.hand_on());
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                nest();
                while let Some((place, point)) = take(points, next, stop) {
                    match point.run(compat, stop) {
                        // The other side takes rows until all threads have ended.
                        Ok(row) => drop(send.send((place, row))),
                        Err(error) => stop.set(error),
                    }
                }
            });
            if let Err(error) = thread {
                // Those that have started do the work of all.
                if started == 0 {
                    stop.set(error.into());
                }
                break;
            }
        }
        drop(send);
        for count in 1u64.. {
            match results.recv_timeout(INTERRUPTED) {
                Ok((place, row)) => {
                    rows[place] = row;
                    if count.is_multiple_of(ROWS_BETWEEN) {
                        stop.ask_python();
                    }
                }
                Err(RecvTimeoutError::Timeout) => stop.ask_python(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    stop.result()?;
    Ok(rows)
}

/// The next point that no thread has taken.
fn take<'a>(
    points: &'a [Point<'a>],
    next: &AtomicUsize,
    stop: &Stop,
) -> Option<(usize, &'a Point<'a>)> {
    if stop.is_set() {
        return None;
    }
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, points.get(place)?))
}

impl Point<'_> {
    fn run(&self, compat: Compat, stop: &Stop) -> PyResult<Row> {
        let Self { input, machine, ref policies, seed } = *self;
        match input {
            Input::Job(job, name) => {
                let keeps_calls = false;
                let setup = Setup { machine, policies, seed, compat, keeps_calls, stop };
                Ok(run::run(job, name, &setup)?.run)
            }
            Input::Trace(traces) => {
                let setup = ReplaySetup { machines: &[machine], policies, seed, stop };
                let rows = traces.replay(&setup);
                // What has stopped the run may be an error of another point.
                stop.result()?;
                Ok(rows.map_err(|error| input.named(&error))?.1)
            }
        }
    }
}

/// Rows after which the user may have interrupted.
const ROWS_BETWEEN: u64 = 64;
