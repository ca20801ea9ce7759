//! Virtual time: a clock, an ordered queue of events, tasks on cores, and a price for each output.
//!
//! State changes at the moment of the input; costs land on the core of the task that caused them.
//! A request reaches its device after the cost that its call has run up so far, and a call is over
//! when all its costs have passed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Input, IoError, Op, Output, Request};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, PAGE_SECTORS, RequestId};
use forebay_core::workload::{Finished, Step, Workload};

use crate::cpu::{CoreId, Cpu};
use crate::device::{Completion, Device, DeviceAccess, Outcome};
use crate::price::Prices;

/// Called for each call that has ended.
pub type Observer<'a> = dyn FnMut(&Finished) + 'a;

/// A machine in virtual time.
pub struct SimWorld<'a> {
    now: Instant,
    prices: Prices,
    cpu: Cpu,
    devices: Vec<Attached>,
    tasks: Vec<Task<'a>>,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    /// The core whose input the engine handles, and the cost it has run up.
    handling: Option<(CoreId, CallId)>,
    cost: Duration,
    /// Pages that the engine had added when costs were last charged.
    pages_added: u64,
    observer: &'a mut Observer<'a>,
    last_exit: Instant,
}

/// A device and when it was in use.
struct Attached {
    device: Box<dyn Device>,
    last_given: Instant,
    busy_until: Instant,
    busy: Duration,
}

struct Task<'a> {
    workload: Box<dyn Workload + 'a>,
    op: Option<Op>,
    issued: Instant,
    reply: Option<Result<u64, IoError>>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its next step comes when it has a core.
    Ready,
    /// The engine handles its call, or it computes.
    OnCore,
    /// As before, but its call was woken meanwhile.
    OnCoreAndWoken,
    /// Its call waits.
    Blocked,
    /// Its call resumes when it has a core.
    Woken,
    Exited,
}

/// Something that will happen; the sequence number orders what happens at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Instant,
    sequence: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Done(RequestId, Success),
    Awaken(CallId),
}

/// Whether a request moved its data.
type Success = bool;

impl<'a> SimWorld<'a> {
    /// A machine with its devices and tasks, at the engine's time; the tasks' numbers are their
    /// calls' ids.
    pub fn new(
        engine: &Engine,
        prices: Prices,
        devices: Vec<Box<dyn Device>>,
        tasks: Vec<Box<dyn Workload + 'a>>,
        observer: &'a mut Observer<'a>,
    ) -> Self {
        let mut cpu = Cpu::new(prices.cores);
        (0..tasks.len() as u32).for_each(|task| cpu.enqueue(CallId(task)));
        Self {
            now: engine.now(),
            prices,
            cpu,
            devices: devices.into_iter().map(Attached::new).collect(),
            tasks: tasks.into_iter().map(Task::new).collect(),
            events: BinaryHeap::new(),
            sequence: 0,
            handling: None,
            cost: Duration::ZERO,
            pages_added: engine.pages_added(),
            observer,
            last_exit: engine.now(),
        }
    }

    /// Asserts that no task was left behind.
    ///
    /// # Panics
    /// If a task has not come to its end.
    pub fn assert_all_exited(&self) {
        let left = self.tasks.iter().position(|task| task.state != State::Exited);
        assert_eq!(left, None, "a task waits for what will never come");
    }

    /// When the last task ended.
    pub fn last_exit(&self) -> Instant {
        self.last_exit
    }

    /// How long at least one request was at a device, summed over the devices.
    pub fn device_busy(&self) -> Duration {
        self.devices.iter().fold(Duration::ZERO, |sum, attached| sum + attached.busy)
    }

    fn submit(&mut self, request: &Request) {
        let access = DeviceAccess::read(request.sector, request.pages * PAGE_SECTORS);
        let given = self.now + self.cost;
        let completion = self.devices[request.device.index()].service(given, &access);
        let success = completion.outcome == Outcome::Success;
        self.push_event(completion.done, What::Done(request.id, success));
    }

    fn push_event(&mut self, at: Instant, what: What) {
        self.sequence += 1;
        self.events.push(Reverse(Event { at, sequence: self.sequence, what }));
    }

    fn awaken(&mut self, task: CallId) {
        let state = &mut self.tasks[task.index()].state;
        *state = match *state {
            State::OnCore | State::OnCoreAndWoken => State::OnCoreAndWoken,
            State::Blocked => State::Woken,
            State::Ready => State::Ready,
            State::Woken | State::Exited => panic!("only a sleeping task is woken"),
        };
        if *state != State::OnCoreAndWoken {
            self.cpu.enqueue(task);
        }
    }

    /// Puts a waiting task on an idle core.
    fn dispatch(&mut self) -> Option<Input> {
        while let Some((core, task)) = self.cpu.dispatch(self.now) {
            self.cost = self.prices.context_switch;
            let state = std::mem::replace(&mut self.tasks[task.index()].state, State::OnCore);
            if state == State::Woken {
                self.handling = Some((core, task));
                return Some(Input::Resume(task));
            }
            if let Some(input) = self.step(core, task) {
                return Some(input);
            }
        }
        None
    }

    /// What a task did on its core is over.
    fn core_done(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let slot = &mut self.tasks[task.index()];
        if slot.op.is_some() {
            let Some(result) = slot.reply.take() else {
                self.cpu.release(core);
                let woken = slot.state == State::OnCoreAndWoken;
                slot.state = State::Blocked;
                if woken {
                    self.awaken(task);
                }
                return None;
            };
            let op = slot.op.take().expect("checked above");
            let (issued, done) = (slot.issued, self.now);
            (self.observer)(&Finished { task, op, issued, done, result });
        }
        if self.cpu.slice_is_over(core, self.now) {
            self.cpu.release(core);
            self.tasks[task.index()].state = State::Ready;
            self.cpu.enqueue(task);
            return None;
        }
        self.cost = Duration::ZERO;
        self.step(core, task)
    }

    /// The next step of the task on a core.
    fn step(&mut self, core: CoreId, task: CallId) -> Option<Input> {
        let now = self.now;
        loop {
            let slot = &mut self.tasks[task.index()];
            match slot.workload.next(now) {
                Step::Call(op) => {
                    (slot.op, slot.issued) = (Some(op), now + self.cost);
                    self.cost += self.prices.syscall;
                    self.handling = Some((core, task));
                    return Some(Input::Call(task, op));
                }
                Step::Compute(length) => {
                    self.cpu.occupy(core, now + self.cost + length);
                    return None;
                }
                Step::Sleep(until) if until <= now => {}
                Step::Sleep(until) => {
                    slot.state = State::Ready;
                    self.cpu.release(core);
                    self.push_event(until, What::Awaken(task));
                    return None;
                }
                Step::Exit => {
                    slot.state = State::Exited;
                    self.cpu.release(core);
                    self.last_exit = self.last_exit.max(now);
                    return None;
                }
            }
        }
    }

    /// Lets the next event happen; only a request that is done is an input by itself.
    fn happen(&mut self) -> Option<Input> {
        let Reverse(event) = self.events.pop().expect("the caller has seen the event");
        self.now = event.at;
        match event.what {
            What::Done(request, success) => {
                Some(Input::Done(request, if success { Ok(()) } else { Err(IoError::Device) }))
            }
            What::Awaken(task) => {
                self.awaken(task);
                None
            }
        }
    }
}

impl World for SimWorld<'_> {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn carry_out(&mut self, engine: &Engine, output: Output) {
        let added = engine.pages_added();
        self.cost += self.prices.page_alloc.times(added - self.pages_added);
        self.pages_added = added;
        match output {
            Output::Submit(request) => {
                self.cost += self.prices.request_submit;
                self.submit(&request);
            }
            Output::Copy(copy) => self.cost += self.prices.copy(copy.pages(), copy.len),
            Output::Wake(task) => {
                self.push_event(self.now + self.prices.interrupt, What::Awaken(task));
            }
            Output::Reply(task, result) => self.tasks[task.index()].reply = Some(result),
        }
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        if let Some((core, _)) = self.handling.take() {
            self.cpu.occupy(core, self.now + self.cost);
        }
        self.cost = Duration::ZERO;
        loop {
            if let Some(input) = self.dispatch() {
                return Some(input);
            }
            let core = self.cpu.earliest();
            let core_at = core.map(|(_, run)| run.until);
            let event_at = self.events.peek().map(|Reverse(event)| event.at);
            let soonest = earlier(earlier(core_at, event_at), deadline)?;
            if event_at == Some(soonest) {
                if let Some(input) = self.happen() {
                    return Some(input);
                }
            } else if let (Some((core, run)), true) = (core, core_at == Some(soonest)) {
                self.now = self.now.max(soonest);
                if let Some(input) = self.core_done(core, run.task) {
                    return Some(input);
                }
            } else {
                self.now = self.now.max(soonest);
                return Some(Input::Timeout);
            }
        }
    }
}

impl Attached {
    fn new(device: Box<dyn Device>) -> Self {
        let zero = Instant::ZERO;
        Self { device, last_given: zero, busy_until: zero, busy: Duration::ZERO }
    }

    fn service(&mut self, given: Instant, access: &DeviceAccess) -> Completion {
        // Two cores may run up costs side by side; the device gets their requests in order.
        self.last_given = self.last_given.max(given);
        let completion = self.device.service(self.last_given, access);
        self.busy += completion.done.since(completion.start.max(self.busy_until));
        self.busy_until = self.busy_until.max(completion.done);
        completion
    }
}

impl<'a> Task<'a> {
    fn new(workload: Box<dyn Workload + 'a>) -> Self {
        Self { workload, op: None, issued: Instant::ZERO, reply: None, state: State::Ready }
    }
}

/// The earlier of two moments that there are.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
