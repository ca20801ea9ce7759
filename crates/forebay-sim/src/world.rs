//! Virtual time: a clock, an ordered queue of events, tasks on cores, and a price for each output.
//!
//! State changes at the moment of the input; costs land on the core of the task that caused them.
//! A request reaches its device after the cost that its call has run up so far, and a call is over
//! when all its costs have passed. What writing dirty pages costs falls on a kernel thread that
//! wants a core like every task.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::AddAssign;

use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Input, IoError, Op, Output, Request, RequestKind};
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, PAGE_SECTORS, RequestId};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_core::writeback::{Knobs, Levels};

use crate::cpu::{CoreId, Cpu};
use crate::device::{Command, Completion, Device, DeviceAccess, Outcome};
use crate::price::Prices;
use crate::stats::Latencies;

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
    /// Pages that the engine had added, and looked at, when costs were last charged.
    pages_added: u64,
    pages_walked: u64,
    observer: &'a mut Observer<'a>,
    /// Tasks that have not exited, those of the finale not counted before it begins.
    alive: usize,
    /// Tasks that begin when all before them have exited.
    finale: Vec<CallId>,
    last_exit: Instant,
    kernel: KernelThread,
    record: Record,
    /// Nothing is in flight.
    quiet: bool,
    /// When the state of the engine was last looked at, and whether pages were dirty and no request
    /// was at a device then.
    looked: (Instant, bool),
    /// The pages that were dirty or on their way then.
    unsafe_pages: u64,
}

/// The thread that flushes: what it has to do on a core.
#[derive(Debug, Default)]
struct KernelThread {
    debt: Duration,
    /// It waits for a core or has one.
    wants_core: bool,
}

/// The kernel thread among the tasks.
const KERNEL: CallId = CallId(u32::MAX);

/// What a world saw beside the calls.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Sectors that devices read and wrote in each second in which they did, the first second being
    /// number 0.
    pub seconds: Vec<(u64, Moved)>,
    /// The pauses of each task, up to the last one that paused.
    pub pauses: Vec<Pauses>,
    /// The lengths of all pauses.
    pub pause_lengths: Latencies,
    /// How long devices were busy in each second in which one was, summed over them.
    pub busy: Vec<(u64, Duration)>,
    /// How long pages were dirty while no device had a request.
    pub idle_while_dirty: Duration,
    /// Pages that were dirty or on their way times the nanoseconds that they were, until the last
    /// task exited; by the time they give the mean level.
    pub unsafe_page_nanos: u128,
    /// The knobs of writeback, from each moment on.
    pub knobs: Vec<(Instant, Knobs)>,
    /// How things stood when the last task exited, before the finale.
    pub at_exit: Option<AtExit>,
}

/// The pauses of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl AddAssign for Pauses {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// How things stood when the last task exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtExit {
    /// When that was.
    pub at: Instant,
    /// What the engine had counted.
    pub stats: Stats,
    /// Pages that were dirty or on their way.
    pub levels: Levels,
}

/// Sectors moved in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// From the devices.
    pub read: u64,
    /// To the devices.
    pub written: u64,
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
    Done(RequestId, Success, Sectors),
    Awaken(CallId),
}

/// Whether a request moved its data.
type Success = bool;

/// What a request moves: sectors, and whether to the device.
type Sectors = (u64, bool);

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
        let alive = tasks.len();
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
            pages_walked: engine.pages_walked(),
            observer,
            alive,
            finale: Vec::new(),
            last_exit: engine.now(),
            kernel: KernelThread::default(),
            record: Record { knobs: vec![(engine.now(), *engine.knobs())], ..Record::default() },
            quiet: false,
            looked: (engine.now(), false),
            unsafe_pages: engine.levels().unsafe_pages(),
        }
    }

    /// Adds tasks that begin when all others have exited. Their numbers follow those of the others.
    #[must_use]
    pub fn with_finale(mut self, tasks: Vec<Box<dyn Workload + 'a>>) -> Self {
        let first = self.tasks.len() as u32;
        self.finale = (first..first + tasks.len() as u32).map(CallId).collect();
        self.tasks.extend(tasks.into_iter().map(Task::new));
        self
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

    /// What was seen beside the calls.
    pub fn into_record(self) -> Record {
        self.record
    }

    /// How long at least one request was at a device, summed over the devices.
    pub fn device_busy(&self) -> Duration {
        self.devices.iter().fold(Duration::ZERO, |sum, attached| sum + attached.busy)
    }

    fn submit(&mut self, request: &Request) {
        let (sector, sectors) = (request.sector, request.pages * PAGE_SECTORS);
        let command = match request.kind {
            RequestKind::Read => Command::Read,
            RequestKind::Write | RequestKind::Inode => Command::Write,
            RequestKind::DurableWrite => Command::DurableWrite,
            RequestKind::Flush => Command::Flush,
        };
        if request.kind.is_read() {
            self.cost += self.prices.request_submit;
        } else {
            let pages = self.prices.flush_page.times(request.pages);
            self.kernel.debt += self.prices.request_submit + pages;
        }
        let given = self.now + self.cost;
        let access = DeviceAccess { sector, sectors, command };
        let (completion, from) = self.devices[request.device.index()].service(given, &access);
        self.count_busy(from, completion.done);
        let success = completion.outcome == Outcome::Success;
        let moved = (sectors, !request.kind.is_read());
        self.push_event(completion.done, What::Done(request.id, success, moved));
    }

    fn pause(&mut self, task: CallId, length: Duration) {
        let pauses = &mut self.record.pauses;
        if pauses.len() <= task.index() {
            pauses.resize(task.index() + 1, Pauses::default());
        }
        pauses[task.index()] += Pauses { count: 1, total: length, longest: length };
        self.record.pause_lengths.record(length);
        self.push_event(self.now + self.cost + length, What::Awaken(task));
    }

    /// Lets the kernel thread ask for a core if it has something to do.
    fn wake_kernel(&mut self) {
        if self.kernel.debt > Duration::ZERO && !self.kernel.wants_core {
            self.kernel.wants_core = true;
            self.cpu.enqueue(KERNEL);
        }
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
        self.wake_kernel();
        while let Some((core, task)) = self.cpu.dispatch(self.now) {
            self.cost = self.prices.context_switch;
            if task == KERNEL {
                let debt = std::mem::take(&mut self.kernel.debt);
                self.cpu.occupy(core, self.now + self.cost + debt);
                continue;
            }
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
        if task == KERNEL {
            self.cpu.release(core);
            self.kernel.wants_core = false;
            return None;
        }
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
                    self.alive -= 1;
                    // The engine is looked at once more when all have exited.
                    return (self.alive == 0).then_some(Input::Timeout);
                }
            }
        }
    }

    /// Lets the next event happen; only a request that is done is an input by itself.
    fn happen(&mut self) -> Option<Input> {
        let Reverse(event) = self.events.pop().expect("the caller has seen the event");
        self.now = event.at;
        match event.what {
            What::Done(request, success, (sectors, written)) => {
                self.count_moved(sectors, written);
                Some(Input::Done(request, if success { Ok(()) } else { Err(IoError::Device) }))
            }
            What::Awaken(task) => {
                self.awaken(task);
                None
            }
        }
    }
}

impl SimWorld<'_> {
    fn count_moved(&mut self, sectors: u64, written: bool) {
        let second = self.now.0 / NANOS_PER_S;
        let seconds = &mut self.record.seconds;
        if seconds.last().is_none_or(|(last, _)| *last != second) {
            seconds.push((second, Moved::default()));
        }
        if let Some((_, moved)) = seconds.last_mut() {
            *(if written { &mut moved.written } else { &mut moved.read }) += sectors;
        }
    }

    /// A device is busy from one moment to another: each second gets its part.
    fn count_busy(&mut self, mut from: Instant, to: Instant) {
        let seconds = &mut self.record.busy;
        while from < to {
            let second = from.0 / NANOS_PER_S;
            let end = to.min(Instant(second.saturating_add(1).saturating_mul(NANOS_PER_S)));
            let place = seconds.partition_point(|(known, _)| *known < second);
            if seconds.get(place).is_none_or(|(known, _)| *known != second) {
                seconds.insert(place, (second, Duration::ZERO));
            }
            seconds[place].1 += end.since(from);
            if end == from {
                return;
            }
            from = end;
        }
    }

    /// Looks at the engine after all outputs of an input.
    fn look(&mut self, engine: &Engine) {
        let (since, idle) = self.looked;
        let passed = self.now.since(since);
        if idle {
            self.record.idle_while_dirty += passed;
        }
        if self.record.at_exit.is_none() {
            let page_nanos = u128::from(self.unsafe_pages) * u128::from(passed.as_nanos());
            self.record.unsafe_page_nanos += page_nanos;
        }
        let walked = engine.pages_walked() - self.pages_walked;
        self.pages_walked += walked;
        self.kernel.debt += self.prices.flush_scan.times(walked);
        let levels = engine.levels();
        self.unsafe_pages = levels.unsafe_pages();
        self.looked = (self.now, levels.unsafe_pages() > 0 && engine.devices_are_idle());
        self.quiet = self.alive == 0 && engine.is_quiet();
        if self.record.knobs.last().is_some_and(|(_, knobs)| knobs != engine.knobs()) {
            self.record.knobs.push((self.now, *engine.knobs()));
        }
        if self.alive == 0 && self.record.at_exit.is_none() {
            let (at, stats) = (self.last_exit, engine.stats());
            self.record.at_exit = Some(AtExit { at, stats, levels });
            // What has arrived may still lie in a device's cache.
            self.begin_finale(stats.pages_written > 0);
        }
    }

    /// All tasks have exited: those of the finale begin, if there is anything to end.
    fn begin_finale(&mut self, wanted: bool) {
        for task in std::mem::take(&mut self.finale) {
            if wanted {
                self.alive += 1;
                self.quiet = false;
                self.cpu.enqueue(task);
            } else {
                self.tasks[task.index()].state = State::Exited;
            }
        }
    }
}

/// Nanoseconds of a second.
const NANOS_PER_S: u64 = 1_000_000_000;

impl World for SimWorld<'_> {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn carry_out(&mut self, engine: &Engine, output: Output) {
        let added = engine.pages_added();
        self.cost += self.prices.page_alloc.times(added - self.pages_added);
        self.pages_added = added;
        match output {
            Output::Submit(request) => self.submit(&request),
            Output::Copy(copy) => {
                self.cost += self.prices.copy(copy.pages(), copy.len);
                if copy.to_frames {
                    self.cost += self.prices.page_dirty.times(copy.pages());
                }
            }
            Output::Pause(task, length) => self.pause(task, length),
            Output::Wake(task) => {
                self.push_event(self.now + self.prices.interrupt, What::Awaken(task));
            }
            Output::Reply(task, result) => self.tasks[task.index()].reply = Some(result),
        }
    }

    fn settled(&mut self, engine: &Engine) {
        self.look(engine);
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
            if self.quiet && self.events.is_empty() {
                return None;
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

    /// Serves a request; says too from when on the device is busy that was not before.
    fn service(&mut self, given: Instant, access: &DeviceAccess) -> (Completion, Instant) {
        // Two cores may run up costs side by side; the device gets their requests in order.
        self.last_given = self.last_given.max(given);
        let completion = self.device.service(self.last_given, access);
        let from = completion.start.max(self.busy_until);
        self.busy += completion.done.since(from);
        self.busy_until = self.busy_until.max(completion.done);
        (completion, from)
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
