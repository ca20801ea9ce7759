//! Tasks: their programs, their states, and their work on cores.

use std::collections::VecDeque;

use forebay_core::io::{Input, IoError, Op, Request};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, DecodeId};
use forebay_core::workload::{Finished, Step, Workload};

use super::ended::Ended;
use super::{SimWorld, What};
use crate::cpu::{Arrival, CoreId, Runner};

/// What distinguishes a task from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Its own data that it uses between two switches, in bytes, in addition to the data of every
    /// task.
    pub footprint: u64,
    /// Its share of the processor relative to others, if the scheduler gives shares; 1024 is nice
    /// 0.
    pub weight: u32,
}

impl Default for Traits {
    fn default() -> Self {
        Self { footprint: 0, weight: 1024 }
    }
}

pub(super) struct Task<'a> {
    pub(super) workload: Box<dyn Workload + 'a>,
    pub(super) op: Option<Op>,
    issued: Instant,
    pub(super) reply: Option<Result<u64, IoError>>,
    pub(super) state: State,
    /// What the input that the engine has handled makes it do on its core, if it serves requests.
    pub(super) script: VecDeque<Stage>,
    /// Requests that it has served and the engine has not heard of.
    pub(super) ended: VecDeque<Ended>,
    /// A block that it has decoded, or failed to, and the engine has not heard of.
    pub(super) decoded: Option<(DecodeId, Result<(), IoError>)>,
    /// What its call has cost the layers above the driver so far.
    pub(super) layers: Layers,
}

/// What a call has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layers {
    pub(super) memory: Duration,
    pub(super) file_system: Duration,
    /// It is a fault that did not find its page.
    pub(super) major: bool,
    /// It has decoded.
    pub(super) warm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its next step comes when it has a core.
    Ready,
    /// The engine handles its call, or it computes; it may have been pushed off its core.
    OnCore,
    /// As before, but its call was woken in the meantime.
    OnCoreAndWoken,
    /// Its call waits.
    Blocked,
    /// Its call resumes when it has a core.
    Woken,
    Exited,
}

/// A part of what an input makes a task do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// It works.
    Work(Duration),
    /// It serves a request and keeps its core, no longer than this if the device needs no help.
    Serve(Request, Duration),
    /// It hands a request over.
    Submit(Request),
    /// It decodes a block for so long.
    Decode(DecodeId, Duration, Result<(), IoError>),
    /// It will sleep so long.
    Pause(Duration),
}

impl<'a> Task<'a> {
    pub(super) fn new(workload: Box<dyn Workload + 'a>) -> Self {
        Self {
            workload,
            op: None,
            issued: Instant::ZERO,
            reply: None,
            state: State::Ready,
            script: VecDeque::new(),
            ended: VecDeque::new(),
            decoded: None,
            layers: Layers::default(),
        }
    }
}

impl SimWorld<'_> {
    /// Wakes a task; one that has not left its core continues there.
    pub(super) fn awaken(&mut self, task: CallId) {
        let state = &mut self.tasks[task.index()].state;
        let before = *state;
        *state = match before {
            State::OnCore | State::OnCoreAndWoken => State::OnCoreAndWoken,
            State::Blocked => State::Woken,
            State::Ready => State::Ready,
            State::Woken | State::Exited => panic!("only a sleeping task is woken"),
        };
        let in_place = *state == State::OnCoreAndWoken;
        let runner = Runner::Task(task);
        self.cpu.usage(runner).switches.wake(in_place);
        if !in_place {
            // A call waits for a device, memory, or the end of a pause.
            let uninterruptible = before == State::Blocked;
            self.cpu.enqueue(runner, Arrival::Woken { uninterruptible }, self.now);
        }
    }

    /// What a task did on its core is over.
    pub(super) fn task_done(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let mut slot = &mut self.tasks[task.index()];
        if !slot.script.is_empty() || !slot.ended.is_empty() {
            if self.advance_script(core, task) {
                return None;
            }
            if let Some(input) = self.hear_of(Runner::Task(task)) {
                return Some(input);
            }
            slot = &mut self.tasks[task.index()];
        }
        if let Some((decode, result)) = slot.decoded.take() {
            self.cost = Duration::ZERO;
            self.handling = Some((core, task));
            return Some(Input::Decoded(decode, result));
        }
        if slot.op.is_some() {
            let Some(result) = slot.reply.take() else {
                return self.wait(core, task);
            };
            let op = slot.op.take().expect("checked above");
            let (issued, done) = (slot.issued, self.now);
            let layers = std::mem::take(&mut slot.layers);
            if layers.major {
                self.record.count_fault(done.since(issued), &layers);
            }
            (self.observer)(&Finished { task, op, issued, done, result });
        }
        if self.cpu.slice_is_over(core, self.now) {
            self.tasks[task.index()].state = State::Ready;
            self.cpu.yield_core(core, self.now);
            return None;
        }
        self.cost = Duration::ZERO;
        self.step(core, task)
    }

    /// The call of a task waits; if the event has already happened, the task continues at once.
    fn wait(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let slot = &mut self.tasks[task.index()];
        let switches = &mut self.cpu.usage(Runner::Task(task)).switches;
        if slot.state == State::OnCoreAndWoken {
            slot.state = State::OnCore;
            switches.resumes += 1;
            self.cost = Duration::ZERO;
            self.handling = Some((core, task));
            return Some(Input::Resume(task));
        }
        slot.state = State::Blocked;
        switches.voluntary += 1;
        self.cpu.sleep(core, self.now);
        None
    }

    /// A task has got a core.
    pub(super) fn begin_task(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let state = std::mem::replace(&mut self.tasks[task.index()].state, State::OnCore);
        if state == State::Woken {
            self.cpu.usage(Runner::Task(task)).switches.resumes += 1;
            self.handling = Some((core, task));
            return Some(Input::Resume(task));
        }
        self.step(core, task)
    }

    /// The next step of the task on a core.
    #[inline]
    fn step(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let now = self.now;
        loop {
            let slot = &mut self.tasks[task.index()];
            match slot.workload.next(now) {
                Step::Call(op) => {
                    (slot.op, slot.issued) = (Some(op), now + self.cost);
                    let entry = match op {
                        Op::Fault { .. } => self.prices.fault,
                        Op::Write { .. } => self.prices.syscall + self.prices.write_call,
                        Op::Read { .. }
                        | Op::Direct { .. }
                        | Op::Sync { .. }
                        | Op::Truncate { .. }
                        | Op::Discard { .. }
                        | Op::Advise { .. } => self.prices.syscall,
                    };
                    self.cost += entry;
                    slot.layers = Layers { memory: entry, ..Layers::default() };
                    self.handling = Some((core, task));
                    return Some(Input::Call(task, op));
                }
                Step::Compute(length) => {
                    self.cpu.occupy(core, self.cost + length, now);
                    return None;
                }
                // Nothing comes after the end of the clock, and the outcome says that it was met.
                Step::Sleep(Instant::END) => return self.exit(core, task, Instant::END),
                Step::Sleep(until) if until <= now => {}
                Step::Sleep(until) => {
                    slot.state = State::Ready;
                    self.cpu.usage(Runner::Task(task)).switches.voluntary += 1;
                    self.cpu.sleep(core, now);
                    self.push_event(until, What::Awaken(task));
                    return None;
                }
                Step::Exit => return self.exit(core, task, now),
            }
        }
    }

    /// The task has no further step.
    fn exit(&mut self, core: CoreId, task: CallId, at: Instant) -> Option<Input> {
        self.tasks[task.index()].state = State::Exited;
        self.cpu.sleep(core, self.now);
        self.last_exit = self.last_exit.max(at);
        self.alive -= 1;
        // The engine is looked at once more when all have exited.
        (self.alive == 0).then_some(Input::Timeout)
    }
}
