//! The front door: tasks over files through an engine, from beginning to end.

use std::io;
use std::sync::Arc;

use forebay_core::block::QueueConfig;
use forebay_core::dispatch;
use forebay_core::drive::drive;
use forebay_core::elevator;
use forebay_core::engine::{Config, Engine, Policies};
use forebay_core::io::Op;
use forebay_core::readahead::Spec;
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{FileId, HandleId, PAGE_SIZE, SECTOR_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_core::{control, flush, reclaim, throttle};
use thiserror::Error;

use crate::dispatch::WORKERS_MAX;
use crate::failure::Failure;
use crate::files::FileMap;
use crate::verify::Verifier;
use crate::world::{AtExit, HostWorld, TaskPauses};

/// How to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The readahead of every open file.
    pub readahead: Spec,
    /// Page memory in bytes, at least one page; the rest of a page is not used.
    pub memory: u64,
    /// Which thread executes requests: the engine's own thread, or workers while tasks continue.
    pub dispatch: dispatch::Spec,
    /// Worker threads, from one to [`WORKERS_MAX`]. Under the rule `inline` there are none, and
    /// requests that it still defers are executed at once.
    pub workers: usize,
    /// The queue of every backend.
    pub queue: QueueConfig,
    /// The policies that decide about dirty pages; none if files are only read.
    pub writeback: Option<WritebackSpecs>,
    /// Whether every delivered byte is compared with what a second descriptor reads, or with the
    /// last write. After a run that writes, the files are compared with all written data. The time
    /// for comparing is part of [`Outcome::elapsed`].
    pub verify: bool,
}

/// The policies of a run that writes.
#[derive(Clone, Debug)]
pub struct WritebackSpecs {
    /// When and how much is written.
    pub flush: flush::Spec,
    /// How the flush rule's knobs follow the load.
    pub controller: control::Spec,
    /// How long writers wait.
    pub throttle: throttle::Spec,
    /// Which pages leave when memory is short.
    pub reclaim: reclaim::Spec,
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// From the first task's first step to the last task's exit. Readahead that is still under way
    /// then is waited for, but not counted.
    pub elapsed: Duration,
    /// Bytes that reads delivered.
    pub bytes: u64,
    /// From the start until all that was written was on disk.
    pub durable: Duration,
    /// How things stood when the last task had exited.
    pub at_exit: AtExit,
    /// The highest level above which writers waited, in pages; zero if nothing may be written.
    pub limit_pages: u64,
    /// What each task slept because a throttle told it to.
    pub pauses: Vec<TaskPauses>,
    /// Calls that ended.
    pub calls: u64,
    /// Calls that ended with an error; under verification, also calls whose bytes were not those of
    /// the file. A read cut short by a failed page is none, as in read(2).
    pub errors: u64,
    /// What went wrong first, readahead that no call waited for included. A byte that was delivered
    /// or written wrong outranks whatever a backend reported.
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
        Self { readahead, memory, dispatch, workers: 4, queue, writeback: None, verify: false }
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
/// Errors reach the task that issued the call, and [`Outcome::first_error`].
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
        engine(setup, &files, &opened, Config { frames, calls_max: tasks.len() as u32 + 1 });
    let syncs = finale(setup, &mut engine, &files);
    let verifier = setup.verify.then(|| Verifier::new(&files, opened));
    let verifier = verifier.transpose().map_err(RunError::Reopen)?;
    let (mut verifier, of_copies) =
        if setup.writeback.is_some() { (None, verifier) } else { (verifier, None) };
    let checked = |finished: &Finished, delivered: &[u8]| {
        if let Some(verifier) = &mut verifier {
            verifier.check(finished, delivered);
        }
        observer(finished, delivered);
    };
    let files = Arc::new(files);
    let world = HostWorld::new(frames, &files, setup.workers(), tasks, Box::new(checked))
        .map_err(RunError::Threads)?;
    let deferred = setup.dispatch.policy().name == "deferred";
    let world = if deferred { world } else { world.with_processor() };
    let mut world = world.with_finale(syncs).with_verifier(of_copies);
    drive(&mut engine, &mut world);
    let at_exit = world.at_exit().expect("a run ends when every task has exited");
    let (totals, device_busy, pauses) = (world.totals(), world.device_busy(), world.pauses());
    let durable = world.ended().since(Instant::ZERO);
    let of_copies = world.take_verifier();
    let failure = world.into_failure();
    if let Some(mut of_copies) = of_copies {
        // What a backend did not take is known already.
        if failure.is_none() {
            of_copies.check_files();
        }
        verifier = Some(of_copies);
    }
    let (verified_bytes, mismatches, mismatch) =
        verifier.map_or((0, 0, None), |v| (v.verified_bytes, v.errors, v.failure));
    let limit = engine.knobs().limit.pages(u64::from(frames));
    Ok(Outcome {
        elapsed: at_exit.at.since(Instant::ZERO),
        durable,
        at_exit,
        limit_pages: if setup.writeback.is_some() { limit } else { 0 },
        pauses,
        bytes: totals.bytes,
        calls: totals.calls,
        errors: totals.errors + mismatches,
        first_error: mismatch.or(failure),
        stats: engine.stats(),
        device_busy,
        verified_bytes,
    })
}

/// What brings all files to disk at the end, if they may be written.
fn finale(setup: &Setup, engine: &mut Engine, files: &FileMap) -> Vec<Box<dyn Workload>> {
    if setup.writeback.is_none() {
        return Vec::new();
    }
    let off = Spec::parse("off").expect("the table has it");
    let count = files.places().len() as u32;
    let handles = (0..count).map(|file| engine.open(FileId(file), off.build())).collect();
    vec![Box::new(SyncAll(handles))]
}

/// Brings one file after another to disk.
struct SyncAll(Vec<HandleId>);

impl Workload for SyncAll {
    fn next(&mut self, _now: Instant) -> Step {
        self.0.pop().map_or(Step::Exit, |handle| Step::Call(Op::Sync { handle }))
    }
}

/// An engine with one device for each backend, all files, and the handles that were promised.
fn engine(setup: &Setup, files: &FileMap, opened: &[FileId], config: Config) -> Engine {
    let mut engine = Engine::new(config);
    let devices: Vec<_> = files.backends().iter().map(|_| engine.add_device(setup.queue)).collect();
    let none = elevator::Spec::parse("none").expect("the table has it");
    devices.iter().for_each(|device| engine.set_rules(*device, &none, &setup.dispatch));
    if let Some(WritebackSpecs { flush, controller, throttle, reclaim }) = &setup.writeback {
        engine.set_reclaim(reclaim.build());
        engine.set_policies(Policies::build(flush, controller, throttle));
    }
    for (file, place) in (0..).map(FileId).zip(files.places()) {
        let (device, sector) = (devices[place.backend], place.base / SECTOR_SIZE);
        engine.add_growing_file(device, files.held(file), place.len, sector);
    }
    for (number, file) in opened.iter().enumerate() {
        let handle = engine.open(*file, setup.readahead.build());
        assert_eq!(handle.index(), number, "handles are numbered in the order of opening");
    }
    engine
}
