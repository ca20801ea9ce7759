//! A fio job in virtual time.

use std::sync::Arc;

use forebay_core::io::{Op, RequestKind};
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Workload};
use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::machine::Machine as SimMachine;
use forebay_sim::scenario::{NewFile, PAST_CLOCK, PolicySet, Scenario};
use forebay_sim::tally::Tally;
use forebay_sim::workload::job::{Access, groups};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{Column, Columns, whole};
use crate::machine::{self, Machine, bad};
use crate::policy::GivenPolicy;
use crate::rows::{Row, columns, of_jobs, of_run};
use crate::stop::{Nested, Stop, Stoppable, Work};

/// What a job is run on.
pub(crate) struct Setup<'a> {
    pub(crate) machine: &'a SimMachine,
    pub(crate) policies: &'a PolicySet,
    pub(crate) seed: u64,
    pub(crate) compat: Compat,
    pub(crate) keeps_calls: bool,
    pub(crate) stop: &'a Stop,
}

/// What a job came to.
pub(crate) struct Ran {
    pub(crate) jobs: Vec<Row>,
    pub(crate) run: Row,
    calls: Option<Calls>,
}

/// Every call of the jobs, in the order in which they ended.
#[derive(Default)]
struct Calls {
    task: Vec<i64>,
    op: Vec<u8>,
    file: Vec<i64>,
    offset: Vec<i64>,
    length: Vec<i64>,
    issued: Vec<i64>,
    done: Vec<i64>,
    result: Vec<i64>,
}

/// Sections, the run, and calls if they are kept.
type Tables<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, Option<Bound<'py, PyDict>>);

/// Runs a job, and returns the columns of its sections, of the run and of its calls.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python calls it with names")]
#[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
#[pyo3(signature = (*, text, name, machine, policies, seed, fio, keep_calls))]
pub(crate) fn run_job<'py>(
    py: Python<'py>,
    text: &str,
    name: &str,
    machine: PyRef<'py, Machine>,
    policies: Vec<(String, GivenPolicy)>,
    seed: u64,
    fio: &str,
    keep_calls: bool,
) -> PyResult<Tables<'py>> {
    let job = JobFile::parse(text, name).map_err(bad)?;
    let machine = &machine.0;
    let _nested = Nested::enter()?;
    let stop = Arc::new(Stop::default());
    let policies = machine::policy_set(machine, &policies, &stop)?;
    let setup = Setup {
        machine,
        policies: &policies,
        seed,
        compat: compat(fio)?,
        keeps_calls: keep_calls,
        stop: &stop,
    };
    let ran = py.detach(|| run(&job, name, &setup))?;
    let calls = match ran.calls {
        Some(calls) => Some(calls.columns().into_dict(py)?),
        None => None,
    };
    Ok((columns(&ran.jobs).into_dict(py)?, columns(&[ran.run]).into_dict(py)?, calls))
}

/// The version of fio whose offsets a job draws.
pub(crate) fn compat(typed: &str) -> PyResult<Compat> {
    match typed {
        "3.34" => Ok(Compat::V3_34),
        "3.35" => Ok(Compat::V3_35),
        other => Err(PyValueError::new_err(format!("fio is '3.34' or '3.35', not '{other}'"))),
    }
}

/// Runs the groups of a job, one after the other.
pub(crate) fn run(job: &JobFile, name: &str, setup: &Setup<'_>) -> PyResult<Ran> {
    let groups = groups(&job.jobs, name, Access::Direct).map_err(bad)?;
    let mut tally = Tally::default();
    let mut calls = setup.keeps_calls.then(Calls::default);
    let frames = setup.machine.page_cache_bytes() / PAGE_SIZE;
    let (mut base, mut work) = (Base::default(), Work::default());
    for group in &groups {
        tally.begin(group);
        let sizes = group.sizes().iter().zip(group.rooms());
        let files: Vec<NewFile> = sizes
            .map(|(bytes, room)| NewFile {
                bytes: *bytes,
                room: *room,
                inode: bytes < room,
                device: 0,
            })
            .collect();
        let task_count = group.task_count();
        let scenario = Scenario::new(setup.machine, setup.policies, setup.seed, task_count, &files);
        let mut scenario = scenario.map_err(bad)?;
        let mut places = Places { sectors: scenario.sectors(), opened: Vec::new() };
        let Places { sectors, opened } = &mut places;
        let tasks = group.tasks_on_device(setup.compat, sectors, |file| {
            opened.push(file);
            scenario.open(file)
        });
        let stoppable =
            |task| -> Box<dyn Workload + '_> { Box::new(Stoppable { task, stop: setup.stop }) };
        let tasks = tasks.into_iter().map(stoppable).collect();
        let mut observe = |finished: &Finished| {
            work.add(finished.result.unwrap_or(0), setup.stop);
            if tally.count(finished)
                && let Some(calls) = &mut calls
            {
                calls.add(finished, &places, &base);
            }
        };
        let (outcome, record) = scenario.run(tasks, &mut observe);
        if outcome.is_cut() {
            return Err(bad(format!("{name}: {PAST_CLOCK}")));
        }
        base.time += outcome.durable.max(outcome.elapsed).as_nanos();
        base.task += i64::from(task_count);
        base.file += files.len() as i64;
        tally.end_scenario(&outcome, &record, frames);
        setup.stop.result()?;
    }
    Ok(Ran { jobs: of_jobs(&tally), run: of_run(&tally), calls })
}

/// What the groups before one have had.
#[derive(Default)]
struct Base {
    time: u64,
    task: i64,
    file: i64,
}

/// Where the files of a group lie, and how they are opened.
struct Places {
    /// The first sectors, by file.
    sectors: Vec<u64>,
    /// The files of open descriptions. Nothing is closed, so these are numbered in order.
    opened: Vec<u32>,
}

impl Places {
    /// The file of an open description.
    fn file(&self, handle: HandleId) -> u32 {
        self.opened.get(handle.0 as usize).copied().expect("the group has opened it")
    }

    /// The file that a sector of the device belongs to, and the byte in it.
    fn at(&self, sector: u64) -> (u32, u64) {
        let before = (0..).zip(&self.sectors).filter(|(_, first)| **first <= sector);
        let last = before.max_by_key(|(_, first)| **first);
        last.map_or((0, 0), |(file, first)| (file, (sector - first) * SECTOR_SIZE))
    }
}

/// Numbers in the column `op`, as `CALL_OPS` of the package names them.
const READ: u8 = 0;
const FAULT: u8 = 1;
const WRITE: u8 = 2;
const SYNC: u8 = 3;

/// Bytes of a sector.
const SECTOR_SIZE: u64 = 512;

impl Calls {
    fn add(&mut self, finished: &Finished, places: &Places, base: &Base) {
        let (op, file, offset, length) = match finished.op {
            Op::Read { handle, offset, len } => (READ, places.file(handle), offset, len),
            Op::Fault { handle, page, .. } => {
                (FAULT, places.file(handle), page * PAGE_SIZE, PAGE_SIZE)
            }
            Op::Write { handle, offset, len, .. } => (WRITE, places.file(handle), offset, len),
            Op::Sync { handle } => (SYNC, places.file(handle), 0, 0),
            Op::Direct { sector, sectors, kind, .. } => {
                let op = match kind {
                    RequestKind::Read => READ,
                    RequestKind::Flush => SYNC,
                    RequestKind::Discard => return,
                    RequestKind::Write | RequestKind::DurableWrite | RequestKind::Inode => WRITE,
                };
                let (file, offset) = places.at(sector);
                (op, file, offset, sectors * SECTOR_SIZE)
            }
            Op::Truncate { .. } | Op::Discard { .. } | Op::Advise { .. } => return,
        };
        self.task.push(base.task + i64::from(finished.task.0));
        self.op.push(op);
        self.file.push(base.file + i64::from(file));
        self.offset.push(whole(offset));
        self.length.push(whole(length));
        self.issued.push(whole(base.time + finished.issued.0));
        self.done.push(whole(base.time + finished.done.0));
        self.result.push(finished.result.map_or(-1, whole));
    }

    fn columns(self) -> Columns {
        let mut columns = Columns::default();
        columns.add("task", Column::Whole(self.task));
        columns.add("op", Column::Byte(self.op));
        columns.add("file", Column::Whole(self.file));
        columns.add("offset", Column::Whole(self.offset));
        columns.add("length", Column::Whole(self.length));
        columns.add("issued_ns", Column::Whole(self.issued));
        columns.add("done_ns", Column::Whole(self.done));
        columns.add("result", Column::Whole(self.result));
        columns
    }
}
