//! Many runs at once, on threads that hold no lock of the interpreter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::scenario::PolicySet;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::machine::{self, Machine, bad};
use crate::rows::{Row, columns};
use crate::run::{self, Setup};
use crate::stop::{INTERRUPTED, Stop};

/// One run: the place of its job, its machine, its policies, its seed.
type GivenPoint<'py> = (usize, PyRef<'py, Machine>, Vec<(String, String)>, u64);

/// The same, read.
struct Point {
    job: usize,
    machine: SimMachine,
    policies: PolicySet,
    seed: u64,
}

/// Runs points on threads, and returns the columns of their rows, in the order of the points.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (*, jobs, points, fio, threads))]
pub(crate) fn run_points<'py>(
    py: Python<'py>,
    jobs: Vec<(String, String)>,
    points: Vec<GivenPoint<'py>>,
    fio: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let compat = run::compat(fio)?;
    let parsed: Vec<(JobFile, &str)> = jobs
        .iter()
        .map(|(text, name)| Ok((JobFile::parse(text, name).map_err(bad)?, name.as_str())))
        .collect::<PyResult<_>>()?;
    let points: Vec<Point> = points
        .iter()
        .map(|(job, machine, policies, seed)| {
            let policies = machine::policy_set(&machine.0, policies)?;
            Ok(Point { job: *job, machine: machine.0.clone(), policies, seed: *seed })
        })
        .collect::<PyResult<_>>()?;
    let rows = py.detach(|| run_all(&parsed, &points, compat, threads))?;
    columns(&rows).into_dict(py)
}

fn run_all(
    jobs: &[(JobFile, &str)],
    points: &[Point],
    compat: Compat,
    threads: usize,
) -> PyResult<Vec<Row>> {
    let (stop, next) = (Stop::default(), AtomicUsize::new(0));
    let (send, results) = channel();
    let mut rows: Vec<Row> = vec![Row::new(); points.len()];
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, points.len().max(1)) {
            let (send, stop, next) = (send.clone(), &stop, &next);
            scope.spawn(move || {
                while let Some((place, point)) = take(points, next, stop) {
                    match run_point(jobs, point, compat, stop) {
                        // The other side takes rows until all threads have ended.
                        Ok(row) => drop(send.send((place, row))),
                        Err(error) => stop.set(error),
                    }
                }
            });
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
fn take<'a>(points: &'a [Point], next: &AtomicUsize, stop: &Stop) -> Option<(usize, &'a Point)> {
    if stop.is_set() {
        return None;
    }
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, points.get(place)?))
}

fn run_point(
    jobs: &[(JobFile, &str)],
    point: &Point,
    compat: Compat,
    stop: &Stop,
) -> PyResult<Row> {
    let (job, name) = jobs.get(point.job).ok_or_else(|| bad("a point has no job"))?;
    let setup = Setup {
        machine: &point.machine,
        policies: &point.policies,
        python: None,
        seed: point.seed,
        compat,
        keeps_calls: false,
        stop,
    };
    Ok(run::run(job, name, &setup)?.run)
}

/// Rows after which the user may have interrupted.
const ROWS_BETWEEN: u64 = 64;
