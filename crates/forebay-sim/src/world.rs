//! Virtual time: a clock, an ordered queue of events, tasks on cores, and a price for each output.
//!
//! State changes at the moment of the input; costs land on the core of the task that caused them.
//! A request reaches its device after the cost that its call has run up so far, and a call is over
//! when all its costs have passed. What writing dirty pages costs falls on a kernel thread that
//! wants a core like every task.
//!
//! | file | what |
//! | --- | --- |
//! | `task` | tasks: their programs, and what they do on their cores |
//! | `request` | requests on their way to devices, and which runner has the core meanwhile |
//! | `ended` | the end of a request at its device |
//! | `kernel` | kernel threads: the flusher, and those of drivers |
//! | `record` | what a world saw beside the calls |

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::dispatch::Processor;
use forebay_core::drive::World;
use forebay_core::engine::Engine;
use forebay_core::io::{Decode, Input, IoError, Op, Output};
use forebay_core::stats::Windows;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, DecodeId, DeviceId};
use forebay_core::workload::{Finished, Workload};

use crate::cpu::{Arrival, CoreId, Cpu, Happens, Placed, Runner};
use crate::device::Device;
use crate::price::Prices;
use crate::rng::Rng;
use ended::Ended;
use kernel::Thread;
use request::Attached;
use task::{State, Task};

mod ended;
mod kernel;
mod record;
mod request;
mod task;
#[cfg(test)]
mod tests;

pub use crate::cpu::ring_switch;
pub use crate::cpu::{Switches, Usage};
pub use record::{AtExit, FaultTime, LEVELS_MAX, Moved, Pauses, Record};
pub use task::Traits;

/// Called for each call that has ended.
pub type Observer<'a> = dyn FnMut(&Finished) + 'a;

/// A machine in virtual time.
pub struct SimWorld<'a> {
    now: Instant,
    prices: Prices,
    cpu: Cpu,
    devices: Vec<Attached>,
    tasks: Vec<Task<'a>>,
    flusher: Thread,
    /// The thread of each device's driver; it has work only if the processor moves the data.
    drivers: Vec<Thread>,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    /// The core whose input the engine handles, and the cost it has run up.
    handling: Option<(CoreId, CallId)>,
    cost: Duration,
    /// The runner that has served the request of this input, on its core and without an interrupt.
    polled: Option<Runner>,
    /// Pages that the engine had added, and looked at, when costs were last charged.
    pages_added: u64,
    folios_added: u64,
    raw_pages_added: u64,
    pages_walked: u64,
    /// Frames that reclaim had looked at: for callers, and behind their backs.
    frames_scanned: (u64, u64),
    /// Major faults that the engine had counted.
    faults_major: u64,
    /// Windows of readahead that it had counted.
    windows: Windows,
    /// How often the knobs of writeback had been set.
    knobs_set: u64,
    /// Reads that calls have put in front of devices, and those of them that were paid for.
    reads_opened: u64,
    reads_charged: u64,
    observer: &'a mut Observer<'a>,
    /// Tasks that have not exited, those of the finale not counted before it begins.
    alive: usize,
    /// Tasks that begin when all before them have exited.
    finale: Vec<CallId>,
    last_exit: Instant,
    record: Record,
    /// The engine has something for an idle core, and the core that has asked for it.
    idle_work: bool,
    idle_on: Option<CoreId>,
    /// Which blocks cannot be decoded.
    corruption: Option<Corruption>,
    /// Nothing is in flight.
    quiet: bool,
    /// When the state of the engine was last looked at, and whether pages were dirty and no request
    /// was at a device then.
    looked: (Instant, bool),
    /// The pages that were dirty or under writeback then.
    unsafe_pages: u64,
}

/// Names blocks that cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub struct Corruption {
    /// How many of a million blocks.
    pub ppm: u64,
    /// Says which.
    pub seed: u64,
}

impl Corruption {
    /// Whether a block is one of them.
    pub fn hits(&self, decode: &Decode) -> bool {
        let rng = Rng::new(self.seed).fork("corrupt", decode.file.0.into());
        rng.fork("block", decode.pages.start).chance(self.ppm)
    }
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
    /// A device is done with a request.
    Done(Ended),
    /// A task wakes.
    Awaken(CallId),
    /// A request reaches the thread of a device's driver.
    Arrive(DeviceId),
    /// An idle core has decoded a block, or failed to.
    Decoded(DecodeId, bool),
}

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
        let now = engine.now();
        let mut cpu = Cpu::new(&prices, devices.len());
        let alive = tasks.len();
        (0..tasks.len() as u32)
            .for_each(|task| cpu.enqueue(Runner::Task(CallId(task)), Arrival::New, now));
        Self {
            now,
            prices,
            cpu,
            drivers: devices.iter().map(|_| Thread::default()).collect(),
            devices: devices.into_iter().map(Attached::new).collect(),
            tasks: tasks.into_iter().map(Task::new).collect(),
            flusher: Thread::default(),
            events: BinaryHeap::new(),
            sequence: 0,
            handling: None,
            cost: Duration::ZERO,
            polled: None,
            pages_added: engine.pages_added(),
            folios_added: engine.folios_added(),
            raw_pages_added: engine.raw_pages_added(),
            faults_major: engine.faults_major(),
            windows: engine.windows(),
            knobs_set: engine.knobs_set(),
            pages_walked: engine.pages_walked(),
            frames_scanned: engine.frames_scanned(),
            reads_opened: engine.reads_opened(),
            reads_charged: engine.reads_opened(),
            observer,
            alive,
            finale: Vec::new(),
            last_exit: now,
            record: Record { knobs: vec![(now, *engine.knobs())], ..Record::default() },
            idle_work: false,
            idle_on: None,
            corruption: None,
            quiet: false,
            looked: (now, false),
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

    /// Sets the traits of the first tasks; the others have the defaults.
    #[must_use]
    pub fn with_traits(mut self, traits: Vec<Traits>) -> Self {
        for (task, Traits { footprint, weight }) in traits.into_iter().enumerate() {
            self.cpu.set_traits(Runner::Task(CallId(task as u32)), footprint, weight);
        }
        self
    }

    /// Some blocks of packed files cannot be decoded.
    #[must_use]
    pub fn with_corruption(self, corruption: Corruption) -> Self {
        Self { corruption: Some(corruption), ..self }
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

    /// The record of the run.
    pub fn into_record(mut self) -> Record {
        self.cpu.account_all(self.now);
        let tasks = (0..self.tasks.len() as u32).map(|task| Runner::Task(CallId(task)));
        self.record.tasks = tasks.map(|task| *self.cpu.usage(task)).collect();
        self.record.kernel = *self.cpu.usage(Runner::Flusher);
        for device in 0..self.devices.len() as u32 {
            self.record.kernel += *self.cpu.usage(Runner::Driver(DeviceId(device)));
        }
        let charged = self.cpu.charged();
        self.record.cpu_busy = self.cpu.busy();
        (self.record.dispatches, self.record.dispatch_time) = (charged.count, charged.total);
        self.record
    }

    /// How long at least one request was at a device, summed over the devices.
    pub fn device_busy(&self) -> Duration {
        self.devices.iter().fold(Duration::ZERO, |sum, attached| sum + attached.busy)
    }

    fn push_event(&mut self, at: Instant, what: What) {
        self.sequence += 1;
        self.events.push(Reverse(Event { at, sequence: self.sequence, what }));
    }

    /// Gives cores to runners that wait: idle ones, and those of runners that are pushed off.
    fn dispatch(&mut self) -> Option<Input> {
        self.wake_flusher();
        loop {
            let placed = match self.cpu.dispatch(self.now) {
                Some(placed) => placed,
                None => self.cpu.preempt(self.now)?,
            };
            if let Some(input) = self.begin(&placed) {
                return Some(input);
            }
        }
    }

    /// A runner has got a core.
    fn begin(&mut self, placed: &Placed) -> Option<Input> {
        let Placed { core, runner, cost, rest } = *placed;
        if let Some(mut rest) = rest {
            rest.work += cost;
            self.cpu.occupy_until(core, rest, self.now);
            return None;
        }
        self.cost = cost;
        match runner {
            Runner::Task(task) => self.begin_task(core, task),
            Runner::Flusher | Runner::Driver(_) => {
                self.begin_thread(core, runner, cost);
                None
            }
        }
    }

    /// Processes the next event; only a completed request is an input itself.
    fn happen(&mut self) -> Option<Input> {
        let Reverse(event) = self.events.pop().expect("the caller has seen the event");
        self.now = event.at;
        match event.what {
            What::Done(ended) => return Some(self.end_request(ended)),
            What::Awaken(task) => self.awaken(task),
            What::Arrive(device) => self.wake_driver(device),
            What::Decoded(decode, success) => {
                let result = if success { Ok(()) } else { Err(IoError::Corrupt) };
                return Some(Input::Decoded(decode, result));
            }
        }
        None
    }

    /// Carries out an output that lets something begin or a task sleep or wake.
    fn set_going(&mut self, output: &Output) {
        match *output {
            Output::Submit(ref request) => self.submit(request),
            Output::Gather(ref gather) => self.gather(gather),
            Output::Decode(ref decode) => self.decode(decode),
            Output::Pause(task, length) => self.pause(task, length),
            Output::Wake(task) if self.polled.is_some() => self.awaken(task),
            Output::Wake(task) => {
                self.push_event(self.now + self.prices.interrupt, What::Awaken(task));
            }
            Output::Copy(_) | Output::Reply(..) => unreachable!("the caller carries them out"),
        }
    }

    /// Offers an idle core to the engine, unless something else happens at this moment.
    fn offer_core(&mut self) -> Option<Input> {
        let happens = |Reverse(event): &Reverse<Event>| event.at <= self.now;
        if !self.idle_work || self.alive == 0 || self.events.peek().is_some_and(happens) {
            return None;
        }
        self.idle_on = Some(self.cpu.idle_core(self.now)?);
        self.idle_work = false;
        Some(Input::Idle)
    }

    /// Counts the time since the engine was last looked at, during which nothing has changed.
    #[inline]
    fn count_time(&mut self) {
        let (since, idle) = self.looked;
        if idle {
            self.record.idle_while_dirty += self.now.since(since);
        }
        if self.unsafe_pages > 0 && self.record.at_exit.is_none() {
            self.record.count_level(since, self.now, self.unsafe_pages);
        }
        self.looked.0 = self.now;
    }

    /// Looks at the engine after all outputs of an input that has changed something.
    fn look(&mut self, engine: &Engine) {
        let windows = engine.windows();
        if windows != self.windows {
            let Windows { count, pages } = std::mem::replace(&mut self.windows, windows);
            let new = Windows { count: windows.count - count, pages: windows.pages - pages };
            self.record.count_windows(self.now, new);
        }
        let walked = engine.pages_walked() - self.pages_walked;
        self.pages_walked += walked;
        self.flusher.debt += self.prices.flush_scan.times(walked);
        let scanned = engine.frames_scanned().1;
        let new = scanned - std::mem::replace(&mut self.frames_scanned.1, scanned);
        self.flusher.debt += self.prices.frame_scan.times(new);
        let levels = engine.levels();
        self.unsafe_pages = levels.unsafe_pages();
        self.looked = (self.now, levels.unsafe_pages() > 0 && engine.devices_are_idle());
        self.quiet = self.alive == 0 && engine.is_quiet();
        let knobs_set = engine.knobs_set();
        if std::mem::replace(&mut self.knobs_set, knobs_set) != knobs_set {
            self.record.note_knobs(self.now, engine.knobs());
        }
        if self.alive == 0 && self.record.at_exit.is_none() {
            let (at, stats) = (self.last_exit, engine.stats());
            self.record.at_exit = Some(AtExit { at, stats, levels });
            // Written data may still be in a device's cache.
            self.begin_finale(stats.pages_written + stats.direct_writes > 0);
        }
    }

    /// All tasks have exited: those of the finale begin, if there is anything to end.
    fn begin_finale(&mut self, wanted: bool) {
        for task in std::mem::take(&mut self.finale) {
            if wanted {
                self.alive += 1;
                self.quiet = false;
                self.cpu.enqueue(Runner::Task(task), Arrival::New, self.now);
            } else {
                self.tasks[task.index()].state = State::Exited;
            }
        }
    }
}

impl World for SimWorld<'_> {
    fn now(&mut self) -> Instant {
        self.now
    }

    #[inline]
    fn carry_out(&mut self, engine: &Engine, output: Output) {
        let before = self.pages_added;
        if !engine.is_unchanged() {
            self.charge_pages(engine);
        }
        match output {
            Output::Copy(copy) => {
                let pages = copy.pages();
                self.cost += self.prices.copy(pages, copy.len);
                if copy.to_frames {
                    self.cost += self.prices.page_dirty.times(pages);
                    // Linux adds what a call writes as one folio.
                    let is_new = self.pages_added > before;
                    self.cost += self.prices.folio_alloc.times(u64::from(is_new));
                }
            }
            Output::Reply(task, result) => {
                let slot = &mut self.tasks[task.index()];
                slot.reply = Some(result);
                if matches!(slot.op, Some(Op::Fault { .. })) {
                    let seen = engine.faults_major();
                    slot.layers.major = seen > self.faults_major;
                    self.faults_major = seen;
                }
            }
            going @ (Output::Submit(_)
            | Output::Gather(_)
            | Output::Decode(_)
            | Output::Pause(..)
            | Output::Wake(_)) => self.set_going(&going),
        }
    }

    #[inline]
    fn settled(&mut self, engine: &Engine) {
        let unchanged = engine.is_unchanged();
        if !unchanged {
            self.charge_rest(engine);
        }
        self.idle_on = None;
        self.idle_work = engine.has_idle_work();
        self.count_time();
        if !unchanged {
            self.look(engine);
        }
    }

    fn processor(&mut self) -> Processor {
        let switch = self.cpu.charged().mean().times(2);
        Processor { switch, contended: self.cpu.contended(self.now) }
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        self.settle_input();
        if let Some(runner) = self.polled.take()
            && let Some(input) = self.hear_of(runner)
        {
            return Some(input);
        }
        loop {
            if let Some(input) = self.dispatch() {
                return Some(input);
            }
            if self.quiet && self.events.is_empty() {
                return None;
            }
            if let Some(input) = self.offer_core() {
                return Some(input);
            }
            let due = self.cpu.earliest();
            let core_at = due.map(|due| due.at);
            let event_at = self.events.peek().map(|Reverse(event)| event.at);
            let soonest = Instant::earlier(Instant::earlier(core_at, event_at), deadline)?;
            if event_at == Some(soonest) {
                if let Some(input) = self.happen() {
                    return Some(input);
                }
                continue;
            }
            self.now = self.now.max(soonest);
            let Some(due) = due.filter(|due| due.at == soonest) else {
                return Some(Input::Timeout);
            };
            let input = match (due.what, due.runner) {
                // Runners that have waited for it are compared with the running one again.
                (Happens::Settled, _) => None,
                (Happens::SliceEnds, _) => {
                    let placed = self.cpu.end_slice(due.core, self.now);
                    self.begin(&placed)
                }
                (Happens::StretchEnds, Runner::Task(task)) => self.task_done(due.core, task),
                (Happens::StretchEnds, runner @ (Runner::Flusher | Runner::Driver(_))) => {
                    self.thread_done(due.core, runner)
                }
            };
            if input.is_some() {
                return input;
            }
        }
    }
}
