//! Which runner has the core while a device works: switches, order, errors, time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use forebay_core::block::QueueConfig;
use forebay_core::dispatch::Handling;
use forebay_core::drive::drive;
use forebay_core::engine::{Config, Engine};
use forebay_core::io::{IoError, Op};
use forebay_core::readahead::Spec;
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::Step;

use super::*;
use crate::device::{Completion, DeviceAccess, FaultPlan, Faulty, Outcome};
use crate::price::Scheduler;

mod inline;
mod schedulers;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A device that takes the same time for each request, one after another.
#[derive(Clone, Debug)]
struct Chip {
    takes: Duration,
    /// Part of the time needs the processor.
    programmed: bool,
    free: Instant,
    /// When it was given requests, and their sectors.
    log: Arc<Mutex<Vec<(Instant, u64)>>>,
}

impl Chip {
    fn new(micros: u64, programmed: bool) -> Self {
        let takes = Duration(micros * US);
        Self { takes, programmed, free: Instant::ZERO, log: Arc::default() }
    }
}

impl Device for Chip {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let mut log = self.log.lock().unwrap();
        assert!(log.last().is_none_or(|(last, _)| *last <= now), "time does not go back");
        log.push((now, access.sector));
        let start = now.max(self.free);
        self.free = start + self.takes;
        let cpu = if self.programmed { self.takes } else { Duration::ZERO };
        Completion { start, done: self.free, cpu, outcome: Outcome::Success }
    }

    fn programmed(&self) -> bool {
        self.programmed
    }
}

/// Decides in the engine's place how requests are handled, and notes what passes.
struct Handled<W> {
    inner: W,
    choose: Box<dyn FnMut(u64) -> Handling>,
    requests: u64,
    trace: Vec<(Instant, Input)>,
    processors: Vec<Processor>,
}

impl<W: World> World for Handled<W> {
    fn now(&mut self) -> Instant {
        self.inner.now()
    }

    fn carry_out(&mut self, engine: &Engine, mut output: Output) {
        if let Output::Submit(request) = &mut output {
            request.handling = (self.choose)(self.requests);
            self.requests += 1;
        }
        self.inner.carry_out(engine, output);
    }

    fn settled(&mut self, engine: &Engine) {
        self.inner.settled(engine);
    }

    fn processor(&mut self) -> Processor {
        self.inner.processor()
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        let input = self.inner.next(deadline)?;
        self.processors.push(self.inner.processor());
        self.trace.push((self.inner.now(), input));
        Some(input)
    }
}

/// What a test looks at.
struct Seen {
    record: Record,
    calls: Vec<Finished>,
    trace: Vec<(Instant, Input)>,
    processors: Vec<Processor>,
    end: Instant,
}

/// A machine with one device and one file.
struct Machine {
    prices: Prices,
    device: Box<dyn Device>,
    readahead: &'static str,
    request_pages_max: u64,
    choose: Box<dyn FnMut(u64) -> Handling>,
    traits: Vec<Traits>,
}

type Tasks = Vec<Box<dyn Workload>>;

impl Machine {
    fn new(prices: Prices, device: impl Device + 'static, handling: Handling) -> Self {
        Self {
            prices,
            device: Box::new(device),
            readahead: "off",
            request_pages_max: 32,
            choose: Box::new(move |_| handling),
            traits: Vec::new(),
        }
    }

    fn run(self, tasks: impl FnOnce(HandleId) -> Tasks) -> Seen {
        let mut engine = Engine::new(Config { frames: 1024, calls_max: 64 });
        let request_pages_max = self.request_pages_max;
        let queue = QueueConfig { plug: None, request_pages_max, ..QueueConfig::default() };
        let device = engine.add_device(queue);
        let file = engine.add_file(device, FILE_PAGES * PAGE_SIZE, 0);
        let handle = engine.open(file, Spec::parse(self.readahead).unwrap().build());
        let calls = RefCell::new(Vec::new());
        let mut observer = |finished: &Finished| calls.borrow_mut().push(*finished);
        let tasks = tasks(handle);
        let world = SimWorld::new(&engine, self.prices, vec![self.device], tasks, &mut observer);
        let inner = world.with_traits(self.traits);
        let (trace, processors) = (Vec::new(), Vec::new());
        let mut world = Handled { inner, choose: self.choose, requests: 0, trace, processors };
        drive(&mut engine, &mut world);
        world.inner.assert_all_exited();
        let Handled { inner, trace, processors, .. } = world;
        let (end, record) = (inner.last_exit(), inner.into_record());
        let calls = calls.take();
        Seen { record, calls, trace, processors, end }
    }
}

const FILE_PAGES: u64 = 1 << 20;

/// Steps one after another, then the end.
struct Script(VecDeque<Step>);

impl Workload for Script {
    fn next(&mut self, _now: Instant) -> Step {
        self.0.pop_front().unwrap_or(Step::Exit)
    }
}

fn script(steps: impl IntoIterator<Item = Step>) -> Box<dyn Workload> {
    Box::new(Script(steps.into_iter().collect()))
}

/// Computes until another task has finished.
struct Hog(Rc<Cell<bool>>);

impl Workload for Hog {
    fn next(&mut self, _now: Instant) -> Step {
        if self.0.get() { Step::Exit } else { Step::Compute(Duration::from_millis(500)) }
    }
}

/// Reads one page after another, then says so.
struct Reader {
    handle: HandleId,
    next: u64,
    end: u64,
    finished: Rc<Cell<bool>>,
}

impl Workload for Reader {
    fn next(&mut self, _now: Instant) -> Step {
        if self.next == self.end {
            self.finished.set(true);
            return Step::Exit;
        }
        self.next += 1;
        read(self.handle, self.next - 1, 1)
    }
}

fn read(handle: HandleId, page: u64, pages: u64) -> Step {
    Step::Call(Op::Read { handle, offset: page * PAGE_SIZE, len: pages * PAGE_SIZE })
}

fn compute(micros: u64) -> Step {
    Step::Compute(Duration(micros * US))
}

/// Every price a different one.
fn dear() -> Prices {
    Prices {
        syscall: Duration(1_000),
        page_lookup: Duration(100),
        page_alloc: Duration(200),
        context_switch: Duration(7_000),
        interrupt: Duration(2_000),
        request_submit: Duration(500),
        ..Prices::FREE
    }
}

/// What one uncached read of one page costs on its task's core, beyond switches and the device.
const READ_COST: u64 = 1_000 + 200 + 500 + 100;

fn one_read(device: Chip, handling: Handling) -> Seen {
    Machine::new(dear(), device, handling).run(|handle| vec![script([read(handle, 7, 1)])])
}

#[test]
fn a_deferred_read_costs_a_switch_away_and_one_back() {
    let seen = one_read(Chip::new(100, false), Handling::Deferred);
    let Switches { voluntary, involuntary, wakes, resumes, in_place } =
        seen.record.tasks[0].switches;
    assert_eq!((voluntary, involuntary, wakes, resumes, in_place), (1, 0, 1, 1, 0));
    assert_eq!(seen.record.dispatches, 2, "to begin, and back");
    assert_eq!(seen.record.dispatch_time, Duration(14_000));
    assert_eq!(seen.end, Instant(2 * 7_000 + READ_COST + 100 * US + 2_000));
    assert_eq!(seen.record.cpu_busy, Duration(2 * 7_000 + READ_COST));
}

#[test]
fn a_read_through_the_driver_s_thread_costs_two_switches() {
    let seen = one_read(Chip::new(100, true), Handling::Deferred);
    assert_eq!(seen.record.dispatches, 3, "to begin, to the thread, and back");
    assert_eq!(seen.record.tasks[0].switches.voluntary, 1);
    let kernel = seen.record.kernel;
    assert_eq!((kernel.switches.wakes, kernel.switches.voluntary), (1, 1));
    assert_eq!(kernel.cpu, Duration(7_000 + 100 * US));
    assert_eq!(seen.end, Instant(3 * 7_000 + READ_COST + 100 * US), "and no interrupt");
}

#[test]
fn an_inline_read_costs_no_switch() {
    for programmed in [false, true] {
        let seen = one_read(Chip::new(100, programmed), Handling::INLINE);
        let Switches { voluntary, involuntary, wakes, resumes, in_place } =
            seen.record.tasks[0].switches;
        assert_eq!((voluntary, involuntary, wakes, resumes, in_place), (0, 0, 1, 1, 1));
        assert_eq!(seen.record.dispatches, 1, "to begin");
        assert_eq!(seen.end, Instant(7_000 + READ_COST + 100 * US), "and no interrupt");
        assert_eq!(seen.record.tasks[0].cpu, seen.end.since(Instant::ZERO), "it kept its core");
        assert_eq!(seen.record.kernel, Usage::default());
    }
}

#[test]
fn a_wake_that_comes_before_its_task_has_left_costs_nothing() {
    let prices = Prices { interrupt: Duration::ZERO, ..dear() };
    let machine = Machine::new(prices, Chip::new(0, false), Handling::Deferred);
    let seen = machine.run(|handle| vec![script([read(handle, 7, 1)])]);
    let switches = seen.record.tasks[0].switches;
    assert_eq!((switches.voluntary, switches.in_place, switches.resumes), (0, 1, 1));
    assert_eq!(seen.record.dispatches, 1);
    assert_eq!(seen.end, Instant(7_000 + READ_COST));
}

#[test]
fn windows_are_known_of_each_second_in_which_there_were_some() {
    let mut machine = Machine::new(dear(), Chip::new(100, false), Handling::Deferred);
    machine.readahead = "fixed:max=8";
    let later = |seconds: u64| Step::Sleep(Instant(seconds * 1_000 * MS));
    // A cached page triggers nothing; from page 8 on there is another window.
    let seen = machine.run(|handle| {
        let first = [read(handle, 0, 1), read(handle, 3, 1), later(2)];
        vec![script(first.into_iter().chain([read(handle, 8, 4), read(handle, 100, 9)]))]
    });
    let windows = |count, pages| Windows { count, pages };
    assert_eq!(seen.record.windows, [(0, windows(1, 8)), (2, windows(3, 24))]);
    assert_eq!(one_read(Chip::new(100, false), Handling::Deferred).record.windows, []);
}

#[test]
fn errors_reach_the_call_on_every_path() {
    let plan = FaultPlan { fail_ppm: 1_000_000, ..FaultPlan::default() };
    for programmed in [false, true] {
        let short = Handling::Inline(Duration(10 * US));
        for handling in [Handling::Deferred, Handling::INLINE, short] {
            let device = Faulty::new(Box::new(Chip::new(100, programmed)), plan.clone(), 1);
            let machine = Machine::new(dear(), device, handling);
            let seen = machine.run(|handle| vec![script([read(handle, 7, 1)])]);
            let results: Vec<_> = seen.calls.iter().map(|call| call.result).collect();
            assert_eq!(results, [Err(IoError::Device)], "{programmed}, {handling:?}");
        }
    }
}

#[test]
fn the_driver_s_thread_serves_in_order_and_does_not_sleep_in_between() {
    let chip = Chip::new(100, true);
    let log = Arc::clone(&chip.log);
    let seen = Machine::new(dear(), chip, Handling::Deferred)
        .run(|handle| (0..4).map(|task| script([read(handle, 40 - 10 * task, 1)])).collect());
    let sectors: Vec<u64> = log.lock().unwrap().iter().map(|(_, sector)| sector / 8).collect();
    assert_eq!(sectors, [40, 30, 20, 10]);
    let kernel = seen.record.kernel.switches;
    assert_eq!((kernel.wakes, kernel.voluntary), (1, 1));
    let log = log.lock().unwrap();
    let apart = log.windows(2).map(|two| two[1].0.since(two[0].0)).max();
    assert_eq!(apart, Some(Duration(100 * US)), "no other task had the core");
}

#[test]
fn the_processor_is_described_by_its_last_switches_and_its_waiters() {
    let prices = Prices {
        cache_bytes: 32 * 1024,
        footprint_bytes: 16 * 1024,
        refill: Duration(8_000),
        ..dear()
    };
    let machine = Machine::new(prices, Chip::new(100, false), Handling::Deferred);
    let seen = machine.run(|handle| vec![script([read(handle, 7, 1)]), script([compute(30_000)])]);
    // Both begin with a cache that holds nothing of theirs: 7 us and half of 8 us.
    let first = seen.processors.first().unwrap();
    let once = 2 * (7_000 + (11_000 - 7_000) / 8);
    assert_eq!((first.switch, first.contended), (Duration(once), true));
    // The reader has waited for its core for longer than that counts as wanted.
    assert!(!seen.processors.last().unwrap().contended);
    assert_eq!(seen.record.dispatch_time, Duration(11_000 + 11_000 + 7_000));
}

#[test]
fn a_task_with_more_data_pays_more_for_its_way_back() {
    let prices = Prices {
        cache_bytes: 32 * 1024,
        footprint_bytes: 4 * 1024,
        refill: Duration(8_000),
        ..dear()
    };
    let back = |footprint| {
        let mut machine = Machine::new(prices, Chip::new(100, false), Handling::Deferred);
        machine.traits = vec![Traits::default(), Traits { footprint, ..Traits::default() }];
        let seen = machine.run(|handle| vec![script([read(handle, 7, 1)]), script([compute(500)])]);
        // Two cold ways in, and the reader's way back.
        let cold = 2 * 7_000 + 1_000 + 8_000 * ((4 << 10) + footprint).min(32 << 10) / (32 << 10);
        seen.record.dispatch_time - Duration(cold)
    };
    assert_eq!(back(0), Duration(7_000), "8 KB fit into the cache");
    assert_eq!(back(26 << 10), Duration(7_000 + 500), "2 KB too many are brought back");
    assert_eq!(back(1 << 20), Duration(7_000 + 1_000), "all 4 KB");
}
