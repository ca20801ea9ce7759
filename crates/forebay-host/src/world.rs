//! The world that carries outputs out for real: this machine's clock, threads and files.
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
use std::sync::Arc;
use std::time;

use forebay_core::dispatch::Processor;
use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Copy, Input, IoError, Op, Output, Request};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};

use crate::dispatch::{Dispatcher, Finish, Job};
use crate::failure::{Cause, Failure};
use crate::files::FileMap;
use crate::frames::Frames;
use crate::processor::Watch;

/// The most that one read transfers, as in Linux; a longer one is cut short to it.
pub const READ_BYTES_MAX: u64 = 0x7fff_f000;

/// What is called for every call that has ended, with the bytes that it delivered.
pub type Observer<'a> = Box<dyn FnMut(&Finished, &[u8]) + 'a>;

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
    exited: Instant,
    ready: VecDeque<Ready>,
    sleepers: BinaryHeap<Reverse<(Instant, CallId)>>,
    observer: Observer<'a>,
    totals: Totals,
    failure: Option<Failure>,
    /// Looks at the processor for a rule of dispatch that wants to know.
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
    /// Grows to the longest read of the task and is used for all of them.
    buffer: Vec<u8>,
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
        let task = |workload| Task { workload, call: None, buffer: Vec::new() };
        let tasks: Vec<_> = tasks.into_iter().map(task).collect();
        Ok(Self {
            origin: time::Instant::now(),
            frames: Frames::new(frames),
            dispatcher,
            alive: tasks.len(),
            exited: Instant::ZERO,
            ready: (0..tasks.len() as u32).map(|task| Ready::Step(CallId(task))).collect(),
            tasks,
            sleepers: BinaryHeap::new(),
            observer,
            totals: Totals::default(),
            failure: None,
            watch: None,
        })
    }

    /// Tells the engine what the processor is like; what switching costs is measured first.
    #[must_use]
    pub fn with_processor(self) -> Self {
        Self { watch: Some(Watch::new()), ..self }
    }

    /// When the last task exited, once all have.
    pub fn exited(&self) -> Option<Instant> {
        (self.alive == 0).then_some(self.exited)
    }

    /// What was counted so far.
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
                task.call = Some((op, now));
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
                self.exited = now;
            }
        }
        None
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

    /// A job has come back: its pages go to their frames.
    fn done(&mut self, finish: Finish) -> Input {
        let Finish { job: Job { request, mut frames, mut pages }, result, took, .. } = finish;
        for (frame, page) in frames.drain(..).zip(pages.drain(..)) {
            self.frames.give_back(frame, page);
        }
        self.dispatcher.recycle(frames, pages);
        let result = result.map_err(|cause| {
            let error = cause.io_error();
            self.note(request.file, request.first * PAGE_SIZE, cause);
            error
        });
        Input::Done(request.id, result, Some(Duration(nanos(took))))
    }

    /// Waits for a request, a sleeper or the engine's time limit; says whether there is any.
    fn wait(&mut self, deadline: Option<Instant>) -> bool {
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
        assert!(request.kind.is_read(), "the tasks of this world only read");
        let (mut frames, mut pages) = self.dispatcher.lists();
        frames.extend(engine.frames_of(&request));
        pages.extend(frames.iter().map(|frame| self.frames.lend(*frame)));
        self.dispatcher.submit(Job { request, frames, pages });
    }

    fn copy(&mut self, copy: Copy) {
        let start = copy.buffer_offset as usize;
        let end = start + copy.len as usize;
        let buffer = &mut self.tasks[copy.call.index()].buffer;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let in_page = (copy.offset % PAGE_SIZE) as usize;
        self.frames.copy_out(copy.frame, in_page, &mut buffer[start..end]);
    }

    fn reply(&mut self, engine: &Engine, id: CallId, result: Result<u64, IoError>) {
        let done = self.clock();
        let (op, issued) =
            self.tasks[id.index()].call.take().expect("a reply ends a call that was issued");
        let delivered = result.unwrap_or(0);
        self.totals.calls += 1;
        self.totals.bytes += delivered;
        self.totals.errors += u64::from(result.is_err());
        if let Op::Read { handle, offset, len } = clipped(op) {
            self.judge(engine, (handle, offset, len), result);
        }
        let finished = Finished { task: id, op, issued, done, result };
        (self.observer)(&finished, &self.tasks[id.index()].buffer[..delivered as usize]);
        self.ready.push_back(Ready::Step(id));
    }

    /// A read delivers all that the file holds of what it asked for, unless a request has failed.
    fn judge(&mut self, engine: &Engine, read: (HandleId, u64, u64), result: Result<u64, IoError>) {
        let (handle, offset, asked) = read;
        let file = engine.file_of(handle);
        let len = asked.min(engine.file_bytes(file).saturating_sub(offset));
        match result {
            Ok(found) if found != len => self.note(file, offset, Cause::Short { len, found }),
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

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        loop {
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

/// The part of a call that is carried out.
fn clipped(op: Op) -> Op {
    match op {
        Op::Read { handle, offset, len } => {
            Op::Read { handle, offset, len: len.min(READ_BYTES_MAX) }
        }
        Op::Write { .. }
        | Op::Sync { .. }
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
