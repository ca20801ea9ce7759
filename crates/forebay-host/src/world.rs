//! The world that executes outputs for real: this machine's clock, threads and files.
//!
//! ```text
//!             Submit                        job
//!   engine ------------> HostWorld -----------------------> workers (or the spot, inline)
//!      ^    Copy, Wake,   |  ^  ^                              |
//!      |    Reply         |  |  +------------------------------+
//!      +------------------+  |                finish
//!         Call, Resume,      | Compute, Sleep, Call
//!         Done, Timeout    tasks
//! ```
//!
//! All tasks and the engine share one thread, as on a machine of one processor: a task that
//! computes holds up the others, one that sleeps or waits does not.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time;

use forebay_core::dispatch::Processor;
use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Copy, Input, IoError, Op, Output, Request};
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, FileId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};

use crate::dispatch::{Dispatcher, Finish, Job, Lists};
use crate::failure::{Cause, Failure};
use crate::files::FileMap;
use crate::frames::Frames;
use crate::pattern;
use crate::processor::Watch;
use crate::verify::Verifier;

/// The most that one read or write transfers, as in Linux; a longer one is cut short to it.
pub const READ_BYTES_MAX: u64 = 0x7fff_f000;

/// Called for every completed call, with the bytes that it delivered.
pub type Observer<'a> = Box<dyn FnMut(&Finished, &[u8]) + 'a>;

/// How things stood when the last task had exited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtExit {
    /// When that was.
    pub at: Instant,
    /// What the engine had counted.
    pub stats: Stats,
    /// Pages that had become dirty.
    pub dirtied: u64,
    /// Pages that were dirty or under writeback to a backend.
    pub residue: u64,
}

/// What a task slept because a throttle told it to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPauses {
    /// How many pauses there were.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Real time, real threads and real files.
///
/// Task `n` of the list issues its calls as [`CallId`]`(n)`.
pub struct HostWorld<'a> {
    origin: time::Instant,
    frames: Frames,
    dispatcher: Dispatcher,
    tasks: Vec<Task<'a>>,
    /// Tasks that have not exited.
    alive: usize,
    /// The call that the engine was given last, until it is settled.
    issued: Option<CallId>,
    /// When all tasks have exited: the end of the wait for requests that are held back.
    held_back_until: Option<Instant>,
    /// Tasks that begin when all others have exited, and are not counted.
    finale: Vec<Box<dyn Workload + 'a>>,
    at_exit: Option<AtExit>,
    /// When the last task exited, the finale included.
    ended: Instant,
    ready: VecDeque<Ready>,
    sleepers: BinaryHeap<Reverse<(Instant, CallId)>>,
    observer: Observer<'a>,
    totals: Totals,
    /// Writes so far: each has its own pattern.
    generation: u64,
    failure: Option<Failure>,
    /// Compares copied bytes if files are written, and knows the written data.
    verifier: Option<Verifier>,
    /// Samples the processor for a dispatch rule that needs it.
    watch: Option<Watch>,
}

/// What a world counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls that ended.
    pub calls: u64,
    /// Calls among them that ended with an error.
    pub errors: u64,
    /// Bytes that reads delivered.
    pub bytes: u64,
}

struct Task<'a> {
    workload: Box<dyn Workload + 'a>,
    /// The call that is in flight.
    call: Option<(Op, Instant)>,
    /// The bytes that the file of a read in flight had when it was issued.
    read_from: Option<u64>,
    /// Grows to the longest call of the task and is used for all of them.
    buffer: Vec<u8>,
    /// The write whose pattern the buffer holds.
    generation: u64,
    pauses: TaskPauses,
    /// Whether it belongs to the finale.
    is_finale: bool,
}

/// What the processor does next.
enum Ready {
    Resume(CallId),
    Step(CallId),
}

impl<'a> HostWorld<'a> {
    /// A world with page memory of `frames`, whose time begins at once. The engine that it is
    /// driven with has as many frames, the files in their order, and call ids for all tasks.
    /// Workers are from one to [`WORKERS_MAX`](crate::dispatch::WORKERS_MAX).
    ///
    /// # Errors
    /// A worker thread cannot be started.
    pub fn new(
        frames: u32,
        files: &Arc<FileMap>,
        workers: Option<usize>,
        tasks: Vec<Box<dyn Workload + 'a>>,
        observer: Observer<'a>,
    ) -> io::Result<Self> {
        let dispatcher = Dispatcher::new(Arc::clone(files), workers)?;
        let tasks: Vec<_> = tasks.into_iter().map(|task| Task::new(task, false)).collect();
        Ok(Self {
            origin: time::Instant::now(),
            frames: Frames::new(frames),
            dispatcher,
            alive: tasks.len(),
            issued: None,
            held_back_until: None,
            finale: Vec::new(),
            at_exit: None,
            ended: Instant::ZERO,
            generation: 0,
            ready: (0..tasks.len() as u32).map(|task| Ready::Step(CallId(task))).collect(),
            tasks,
            sleepers: BinaryHeap::new(),
            observer,
            totals: Totals::default(),
            failure: None,
            verifier: None,
            watch: None,
        })
    }

    /// Reports the state of the processor to the engine; measures the cost of a switch first.
    #[must_use]
    pub fn with_processor(self) -> Self {
        Self { watch: Some(Watch::new()), ..self }
    }

    /// Adds tasks that begin when all others have exited. The observer does not see their calls.
    #[must_use]
    pub fn with_finale(self, finale: Vec<Box<dyn Workload + 'a>>) -> Self {
        Self { finale, ..self }
    }

    /// Compares each copy with earlier writes and with the files.
    #[must_use]
    pub(crate) fn with_verifier(self, verifier: Option<Verifier>) -> Self {
        Self { verifier, ..self }
    }

    /// How things stood when the last task exited, the finale left out, once all have.
    pub fn at_exit(&self) -> Option<AtExit> {
        self.at_exit
    }

    /// When the finale had ended.
    pub fn ended(&self) -> Instant {
        self.ended
    }

    /// What each task slept because a throttle told it to.
    pub fn pauses(&self) -> Vec<TaskPauses> {
        self.tasks.iter().filter(|task| !task.is_finale).map(|task| task.pauses).collect()
    }

    /// The verifier, after the run.
    pub(crate) fn take_verifier(&mut self) -> Option<Verifier> {
        self.verifier.take()
    }

    /// The counters so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The union of the times in which at least one request was with a backend, from the moment it
    /// was handed over (so waiting for a worker counts) until its bytes had been read.
    pub fn device_busy(&self) -> Duration {
        Duration(nanos(self.dispatcher.busy()))
    }

    /// Ends the world, its threads included, and returns the first thing that went wrong.
    pub fn into_failure(self) -> Option<Failure> {
        self.failure
    }

    fn clock(&self) -> Instant {
        Instant(nanos(self.origin.elapsed()))
    }

    /// A task's next step; an input, if it is a call.
    fn step(&mut self, id: CallId) -> Option<Input> {
        let now = self.clock();
        let task = &mut self.tasks[id.index()];
        match task.workload.next(now) {
            Step::Call(op) => {
                let mut issued = now;
                if let Op::Write { offset, len, .. } = clipped(op) {
                    self.generation += 1;
                    task.buffer.resize(task.buffer.len().max(len as usize), 0);
                    pattern::fill(&mut task.buffer[..len as usize], offset, self.generation);
                    task.generation = self.generation;
                    // A caller has its bytes before it calls.
                    issued = Instant(nanos(self.origin.elapsed()));
                }
                task.call = Some((op, issued));
                self.issued = Some(id);
                return Some(Input::Call(id, clipped(op)));
            }
            Step::Compute(length) => {
                let end = now + length;
                while self.clock() < end {
                    std::hint::spin_loop();
                }
                self.ready.push_back(Ready::Step(id));
            }
            Step::Sleep(until) => self.sleepers.push(Reverse((until, id))),
            Step::Exit => {
                self.alive -= 1;
                self.ended = now;
            }
        }
        None
    }

    /// All tasks have exited for the first time: what the engine has counted is kept, and the
    /// finale begins.
    fn begin_finale(&mut self, engine: &Engine) {
        let levels = engine.levels();
        self.at_exit = Some(AtExit {
            at: self.ended,
            stats: engine.stats(),
            dirtied: levels.dirtied,
            residue: levels.unsafe_pages(),
        });
        let first = self.tasks.len() as u32;
        self.tasks
            .extend(mem::take(&mut self.finale).into_iter().map(|task| Task::new(task, true)));
        self.alive = self.tasks.len() - first as usize;
        self.ready.extend((first..self.tasks.len() as u32).map(|task| Ready::Step(CallId(task))));
    }

    /// What happened outside since the last look, the engine's own time limit first.
    fn outside(&mut self, deadline: Option<Instant>) -> Option<Input> {
        if deadline.is_some() || !self.sleepers.is_empty() {
            let now = self.clock();
            if deadline.is_some_and(|at| at <= now) {
                return Some(Input::Timeout);
            }
            while let Some(&Reverse((_, id))) =
                self.sleepers.peek().filter(|Reverse((until, _))| *until <= now)
            {
                self.sleepers.pop();
                // A task that sleeps inside a call has been paused by the engine.
                let inside = self.tasks[id.index()].call.is_some();
                self.ready.push_back(if inside { Ready::Resume(id) } else { Ready::Step(id) });
            }
        }
        self.dispatcher.poll().map(|finish| self.done(finish))
    }

    /// A job has come back: pages that it filled go to their frames.
    fn done(&mut self, finish: Finish) -> Input {
        let Finish { job: Job { request, mut lists }, result, took, .. } = finish;
        for (frame, page) in lists.frames.drain(..).zip(lists.pages.drain(..)) {
            self.frames.give_back(frame, page);
        }
        self.dispatcher.recycle(lists);
        let result = result.map_err(|cause| {
            let error = cause.io_error();
            self.note(request.file, request.first * PAGE_SIZE, cause);
            error
        });
        Input::Done(request.id, result, Some(Duration(nanos(took))))
    }

    /// Waits for a request, a sleeper or the engine's timeout; returns whether there is any. When
    /// all tasks have exited, only requests remain, those that are held back included.
    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        let deadline = if self.alive > 0 { deadline } else { self.held_back_until };
        let wake = self.sleepers.peek().map(|Reverse((until, _))| *until);
        let until = [deadline, wake].into_iter().flatten().min();
        if until.is_none() && self.dispatcher.is_idle() {
            assert!(self.alive == 0, "a task that waits, waits for a request or for a moment");
            return false;
        }
        let until = until.map(|at| self.origin + time::Duration::from_nanos(at.0));
        self.dispatcher.wait(until);
        true
    }

    fn submit(&mut self, engine: &Engine, request: Request) {
        let mut lists = self.dispatcher.lists();
        if request.kind.is_read() {
            let Lists { frames, pages, .. } = &mut lists;
            frames.extend(engine.frames_of(&request));
            pages.extend(frames.iter().map(|frame| self.frames.lend(*frame)));
        } else if request.kind.is_data_write() {
            // Calls may read and write these pages while their bytes are in flight.
            for frame in engine.frames_of(&request) {
                lists.bytes.extend(self.frames.page(frame));
            }
            let left = engine.file_bytes(request.file) - request.first * PAGE_SIZE;
            lists.bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        self.dispatcher.submit(Job { request, lists });
    }

    fn copy(&mut self, copy: Copy) {
        let start = copy.buffer_offset as usize;
        let end = start + copy.len as usize;
        let Task { buffer, generation, .. } = &mut self.tasks[copy.call.index()];
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let in_page = (copy.offset % PAGE_SIZE) as usize;
        if copy.to_frames {
            self.frames.copy_in(copy.frame, in_page, &buffer[start..end]);
            if let Some(verifier) = &mut self.verifier {
                verifier.written(copy.file, copy.offset..copy.offset + copy.len, *generation);
            }
        } else {
            self.frames.copy_out(copy.frame, in_page, &mut buffer[start..end]);
            if let Some(verifier) = &mut self.verifier {
                verifier.copied(copy.file, copy.offset, &buffer[start..end]);
            }
        }
    }

    fn reply(&mut self, engine: &Engine, id: CallId, result: Result<u64, IoError>) {
        let done = self.clock();
        let (op, issued) =
            self.tasks[id.index()].call.take().expect("a reply ends a call that was issued");
        self.totals.errors += u64::from(result.is_err());
        self.ready.push_back(Ready::Step(id));
        let task = &self.tasks[id.index()];
        if task.is_finale {
            return;
        }
        let finished = Finished { task: id, op, issued, done, result };
        self.totals.calls += 1;
        let Op::Read { handle, offset, len } = clipped(op) else {
            (self.observer)(&finished, &[]);
            return;
        };
        let delivered = result.unwrap_or(0);
        self.totals.bytes += delivered;
        (self.observer)(&finished, &task.buffer[..delivered as usize]);
        let file = engine.file_of(handle);
        let now = engine.file_bytes(file);
        let begun = self.tasks[id.index()].read_from.take().unwrap_or(now);
        self.judge(file, (offset, len), [begun, now], result);
    }

    /// A read delivers all existing bytes of its range, unless a request has failed. If the file
    /// has changed its length in the meantime, either length may count, and any between.
    fn judge(
        &mut self,
        file: FileId,
        (offset, asked): (u64, u64),
        lengths: [u64; 2],
        result: Result<u64, IoError>,
    ) {
        let [begun, now] = lengths.map(|bytes| asked.min(bytes.saturating_sub(offset)));
        match result {
            Ok(found) if !(begun.min(now)..=begun.max(now)).contains(&found) => {
                self.note(file, offset, Cause::Short { len: now, found });
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Keeps the first failure.
    fn note(&mut self, file: FileId, offset: u64, cause: Cause) {
        self.failure.get_or_insert(Failure { file, offset, cause });
    }
}

impl World for HostWorld<'_> {
    fn now(&mut self) -> Instant {
        self.clock()
    }

    fn carry_out(&mut self, engine: &Engine, output: Output) {
        match output {
            Output::Submit(request) => self.submit(engine, request),
            Output::Copy(copy) => self.copy(copy),
            Output::Gather(_) | Output::Decode(_) => {
                unreachable!("no file of this world is packed")
            }
            Output::Pause(call, length) => {
                self.tasks[call.index()].pauses.count(length);
                let until = self.clock() + length;
                self.sleepers.push(Reverse((until, call)));
            }
            Output::Wake(call) => self.ready.push_back(Ready::Resume(call)),
            Output::Reply(call, result) => self.reply(engine, call, result),
        }
    }

    fn processor(&mut self) -> Processor {
        let watch = self.watch.as_mut();
        watch.map_or_else(Processor::default, |watch| watch.processor(time::Instant::now()))
    }

    fn settled(&mut self, engine: &Engine) {
        if let Some(issued) = self.issued.take() {
            let task = &mut self.tasks[issued.index()];
            if let Some((Op::Read { handle, .. }, _)) = task.call {
                task.read_from = Some(engine.file_bytes(engine.file_of(handle)));
            }
        }
        if self.alive == 0 && self.at_exit.is_none() {
            self.begin_finale(engine);
        }
        self.held_back_until = engine.held_back_until().filter(|_| self.alive == 0);
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        loop {
            if self.alive == 0 && self.at_exit.is_none() {
                // An early one is harmless, and the engine is looked at after it.
                return Some(Input::Timeout);
            }
            if let Some(input) = self.outside(deadline) {
                return Some(input);
            }
            let input = match self.ready.pop_front() {
                Some(Ready::Resume(call)) => Some(Input::Resume(call)),
                Some(Ready::Step(task)) => self.step(task),
                None if self.wait(deadline) => None,
                None => return None,
            };
            if input.is_some() {
                return input;
            }
        }
    }
}

impl<'a> Task<'a> {
    fn new(workload: Box<dyn Workload + 'a>, is_finale: bool) -> Self {
        let pauses = TaskPauses::default();
        Self {
            workload,
            call: None,
            read_from: None,
            buffer: Vec::new(),
            generation: 0,
            pauses,
            is_finale,
        }
    }
}

impl TaskPauses {
    fn count(&mut self, length: Duration) {
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
    }
}

/// The part of a call that is executed.
fn clipped(op: Op) -> Op {
    match op {
        Op::Read { handle, offset, len } => {
            Op::Read { handle, offset, len: len.min(READ_BYTES_MAX) }
        }
        Op::Write { handle, offset, len, durable } => {
            Op::Write { handle, offset, len: len.min(READ_BYTES_MAX), durable }
        }
        Op::Sync { .. }
        | Op::Truncate { .. }
        | Op::Discard { .. }
        | Op::Fault { .. }
        | Op::Advise { .. } => op,
        Op::Direct { .. } => unreachable!("tasks on files have no devices to name"),
    }
}

fn nanos(length: time::Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
