//! The front door: tasks over files through an engine, from beginning to end.

use std::io;
use std::sync::Arc;

use forebay_core::block::QueueConfig;
use forebay_core::dispatch;
use forebay_core::drive::drive;
use forebay_core::elevator;
use forebay_core::engine::{Config, Engine};
use forebay_core::readahead::Spec;
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{FileId, HandleId, PAGE_SIZE, SECTOR_SIZE};
use forebay_core::workload::{Finished, Workload};
use thiserror::Error;

use crate::dispatch::WORKERS_MAX;
use crate::failure::Failure;
use crate::files::FileMap;
use crate::verify::Verifier;
use crate::world::HostWorld;

/// How to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The readahead of every open file.
    pub readahead: Spec,
    /// Page memory in bytes, at least one page; the rest of a page is not used.
    pub memory: u64,
    /// Where requests are carried out: in the engine's own thread, or by workers while tasks go on.
    pub dispatch: dispatch::Spec,
    /// Worker threads, from one to [`WORKERS_MAX`]. Under the rule `inline` there are none, and
    /// what it defers all the same is carried out on the spot.
    pub workers: usize,
    /// The queue of every backend.
    pub queue: QueueConfig,
    /// Whether every delivered byte is compared with what a second descriptor reads. The time that
    /// this takes is part of [`Outcome::elapsed`].
    pub verify: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// From the first task's first step to the last task's exit. Readahead that is still under way
    /// then is waited for, but not counted.
    pub elapsed: Duration,
    /// Bytes that reads delivered.
    pub bytes: u64,
    /// Calls that ended.
    pub calls: u64,
    /// Calls that ended with an error; under verification, also calls whose bytes were not those of
    /// the file. A read cut short by a failed page is none, as in read(2).
    pub errors: u64,
    /// What went wrong first, readahead that no call waited for included. A byte that was delivered
    /// wrong outranks whatever a backend reported.
    pub first_error: Option<Failure>,
    /// What the engine counted.
    pub stats: Stats,
    /// The union of the times in which at least one request was with a backend, waiting for a
    /// worker included.
    pub device_busy: Duration,
    /// Bytes that were compared and found equal.
    pub verified_bytes: u64,
}

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// Page memory holds no page, or more than can be numbered.
    #[error("page memory holds from 1 to 4294967295 pages of {PAGE_SIZE} bytes, not {0} bytes")]
    Memory(u64),
    /// The number of worker threads is none or too large.
    #[error("deferred dispatch takes from 1 to {WORKERS_MAX} workers, not {0}")]
    Workers(usize),
    /// A worker thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    Threads(io::Error),
    /// A backend could not be opened a second time.
    #[error("cannot open a file again to verify what is read: {0}")]
    Reopen(io::Error),
}

/// Opens files for tasks, before the run.
pub struct Opener<'a> {
    files: &'a FileMap,
    opened: Vec<FileId>,
}

impl Setup {
    /// Deferred dispatch to four workers and a queue without a plug, as for today's fast devices.
    pub fn new(readahead: Spec, memory: u64) -> Self {
        let queue = QueueConfig { plug: None, ..QueueConfig::default() };
        let dispatch = dispatch::Spec::parse("deferred").expect("the table has it");
        Self { readahead, memory, dispatch, workers: 4, queue, verify: false }
    }

    /// The worker threads that there are to be.
    fn workers(&self) -> Option<usize> {
        (self.dispatch.policy().name != "inline").then_some(self.workers)
    }

    fn frames(&self) -> Result<u32, RunError> {
        match u32::try_from(self.memory / PAGE_SIZE) {
            Ok(frames) if frames > 0 => Ok(frames),
            Ok(_) | Err(_) => Err(RunError::Memory(self.memory)),
        }
    }
}

impl Opener<'_> {
    /// Opens a file: a fresh description with its own readahead state.
    pub fn open(&mut self, file: FileId) -> HandleId {
        assert!(file.index() < self.files.places().len(), "a file is mapped before it is opened");
        self.opened.push(file);
        HandleId(self.opened.len() as u32 - 1)
    }

    /// The number of files; their ids are the numbers below it.
    pub fn files(&self) -> u32 {
        self.files.places().len() as u32
    }

    /// The bytes of a file.
    pub fn bytes(&self, file: FileId) -> u64 {
        self.files.place(file).len
    }
}

/// Runs the tasks that `tasks` makes to their end, and tells `observer` of every call that ended
/// and of the bytes that it delivered. A task's number in the list is the number of its calls.
///
/// What goes wrong on the way reaches the task that asked, and [`Outcome::first_error`].
///
/// # Errors
/// The run cannot begin.
pub fn run<'a>(
    setup: &Setup,
    files: FileMap,
    tasks: impl FnOnce(&mut Opener<'_>) -> Vec<Box<dyn Workload + 'a>>,
    mut observer: impl FnMut(&Finished, &[u8]) + 'a,
) -> Result<Outcome, RunError> {
    let frames = setup.frames()?;
    if !(1..=WORKERS_MAX).contains(&setup.workers) {
        return Err(RunError::Workers(setup.workers));
    }
    let mut opener = Opener { files: &files, opened: Vec::new() };
    let tasks = tasks(&mut opener);
    let opened = opener.opened;
    let mut engine =
        engine(setup, &files, &opened, Config { frames, calls_max: tasks.len() as u32 });
    let verifier = setup.verify.then(|| Verifier::new(&files, opened));
    let mut verifier = verifier.transpose().map_err(RunError::Reopen)?;
    let checked = |finished: &Finished, delivered: &[u8]| {
        if let Some(verifier) = &mut verifier {
            verifier.check(finished, delivered);
        }
        observer(finished, delivered);
    };
    let files = Arc::new(files);
    let mut world = HostWorld::new(frames, &files, setup.workers(), tasks, Box::new(checked))
        .map_err(RunError::Threads)?;
    if setup.dispatch.policy().name != "deferred" {
        world = world.with_processor();
    }
    drive(&mut engine, &mut world);
    let exited = world.exited().expect("a run ends when every task has exited");
    let (totals, device_busy) = (world.totals(), world.device_busy());
    let failure = world.into_failure();
    let (verified_bytes, mismatches, mismatch) =
        verifier.map_or((0, 0, None), |v| (v.verified_bytes, v.errors, v.failure));
    Ok(Outcome {
        elapsed: exited.since(Instant::ZERO),
        bytes: totals.bytes,
        calls: totals.calls,
        errors: totals.errors + mismatches,
        first_error: mismatch.or(failure),
        stats: engine.stats(),
        device_busy,
        verified_bytes,
    })
}

/// An engine with one device for each backend, all files, and the handles that were promised.
fn engine(setup: &Setup, files: &FileMap, opened: &[FileId], config: Config) -> Engine {
    let mut engine = Engine::new(config);
    let devices: Vec<_> = files.backends().iter().map(|_| engine.add_device(setup.queue)).collect();
    let none = elevator::Spec::parse("none").expect("the table has it");
    devices.iter().for_each(|device| engine.set_rules(*device, &none, &setup.dispatch));
    for place in files.places() {
        engine.add_file(devices[place.backend], place.len, place.base / SECTOR_SIZE);
    }
    for (number, file) in opened.iter().enumerate() {
        let handle = engine.open(*file, setup.readahead.build());
        assert_eq!(handle.index(), number, "handles are numbered in the order of opening");
    }
    engine
}
