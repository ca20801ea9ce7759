//! What the threads of the server and the tasks do, step by step.
//!
//! The same steps as those of the real mount (`forebay-host/src/mount/{read,jobs}.rs`), in the same
//! order.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::work::{HEADER_BYTES, WIDE_PAGES};
use forebay_core::serving::{
    Aftermath, FilePages, ImagePath, MountRules, PackedBlock, PartSource, RawRead, ReadCall, Use,
    Verdict,
};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{PAGE_SIZE, PageIndex};

use super::act::{Act, Fetch, Flow, Pace, WorkerJob};
use super::image::raw_ranges;
use super::kernel::{Kernel, SentRead, Touched};
use super::raw::ImageFile;
use super::replay::Program;
use super::request::{Ended, Job, Read, Slot, Symbol, Then};
use super::threads::{Event, Next, Threads};
use super::{Disturbances, MountCounts, MountOutcome, MountSetup, PackedImage};
use crate::cpu::CoreId;
use crate::price::Prices;
use crate::stats::Latencies;

/// A replay.
#[derive(Debug)]
pub(super) struct MountSim<'a> {
    pub(super) now: Instant,
    /// What the step costs.
    pub(super) cost: Duration,
    pub(super) prices: Prices,
    pub(super) image: &'a dyn PackedImage,
    pub(super) rules: MountRules,
    pub(super) path: ImagePath,
    pub(super) kernel: Kernel,
    pub(super) file: ImageFile,
    pub(super) threads: Threads,
    pub(super) frames: Vec<Symbol>,
    pub(super) slots: Vec<Slot>,
    /// Numbers of requests that are free.
    pub(super) free: Vec<u32>,
    /// READs for which there was no number.
    crowd: VecDeque<Box<Read>>,
    pub(super) workers: usize,
    /// What waits for a worker.
    pub(super) jobs: VecDeque<WorkerJob>,
    pub(super) fetches: VecDeque<Fetch>,
    pub(super) bell: bool,
    /// Since when the thread that pushes has had nothing to do.
    pub(super) pusher_idle: Option<Instant>,
    pub(super) is_stopped: bool,
    programs: Vec<Program>,
    tasks: Vec<Task>,
    pub(super) counts: MountCounts,
    waits: Latencies,
    last_end: Instant,
    /// Pages that were decoded, and whether they were touched.
    pub(super) decoded: BTreeMap<(PackedBlock, u64), bool>,
    is_checked: bool,
    trace: String,
}

/// A task of the recording.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    next: usize,
    is_dead: bool,
}

impl<'a> MountSim<'a> {
    pub(super) fn new(
        setup: MountSetup,
        image: &'a dyn PackedImage,
        programs: Vec<Program>,
        disturbances: &Disturbances,
    ) -> Self {
        let MountSetup { config, workers, prices, device, sector, request_pages_max, readahead } =
            setup;
        let requests = config.path.requests_max;
        let mut scripts = vec![VecDeque::from([Act::Take])];
        scripts.extend((0..workers).map(|_| VecDeque::from([Act::Work])));
        scripts.push(VecDeque::from([Act::NextPush]));
        scripts.push(VecDeque::from([Act::Fetch]));
        scripts.extend(programs.iter().map(|_| VecDeque::from([Act::NextTouch])));
        let mut threads = Threads::new(&prices, scripts);
        for (task, at) in &disturbances.deaths {
            threads.at(*at, Event::Death(*task));
        }
        disturbances.unmount.into_iter().for_each(|at| threads.at(at, Event::Unmount));
        let bytes = config.path.image_bytes;
        let mut rules = MountRules::new(&config);
        image.folders().iter().for_each(|folder| rules.list_folder(folder));
        Self {
            now: Instant::ZERO,
            cost: Duration::ZERO,
            prices,
            image,
            kernel: Kernel::new(config.ahead),
            file: ImageFile::new(bytes, device, sector, request_pages_max, readahead.build()),
            threads,
            frames: vec![Symbol::Nothing; config.path.frames as usize],
            slots: (0..requests).map(|_| Slot::new()).collect(),
            free: (0..requests).rev().collect(),
            crowd: VecDeque::new(),
            workers,
            jobs: VecDeque::new(),
            fetches: VecDeque::new(),
            bell: false,
            pusher_idle: None,
            is_stopped: false,
            tasks: vec![Task::default(); programs.len()],
            programs,
            counts: MountCounts::default(),
            waits: Latencies::new(),
            last_end: Instant::ZERO,
            decoded: BTreeMap::new(),
            is_checked: disturbances.is_checked,
            trace: String::new(),
            rules,
            path: ImagePath::new(&config.path),
        }
    }

    /// Replays until nothing happens any more.
    pub(super) fn run(mut self) -> MountOutcome {
        loop {
            match self.threads.next(&mut self.now) {
                Next::Over => break,
                Next::Event(event) => self.happen(event),
                Next::Step(core, thread, cost) => self.step(core, thread, cost),
            }
        }
        self.assert_over();
        self.counts.reads = self.kernel.sent();
        self.counts.image_requests = self.file.requests();
        self.counts.image_bytes = self.file.bytes;
        let useless = self.decoded.values().filter(|is_touched| !**is_touched);
        self.counts.pages_useless = useless.count() as u64;
        MountOutcome {
            elapsed: self.last_end.since(Instant::ZERO),
            waits: self.waits.summary(),
            counts: self.counts,
            trace: self.trace,
        }
    }

    fn assert_over(&mut self) {
        let first = self.first_task();
        let left = (0..self.tasks.len()).find(|task| !self.threads.is_over(first + task));
        assert_eq!(left, None, "a task waits for what will never come");
        assert!(self.path.is_quiet(), "nothing is in flight");
        assert_eq!(self.free.len(), self.slots.len(), "all requests have ended");
        assert!(self.crowd.is_empty() && self.jobs.is_empty(), "all work is done");
        assert!(!self.kernel.has_requests(), "all requests were taken");
        self.rules.check();
        self.path.check();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(thread) => self.threads.wake(thread, self.now),
            Event::DeviceDone(number) => {
                for thread in self.file.complete(number) {
                    self.threads.wake(thread, self.now);
                }
            }
            Event::Death(task) => self.die(task),
            Event::Unmount => {
                self.is_stopped = true;
                self.kernel.unmount();
                for thread in 0..self.first_task() + self.tasks.len() {
                    self.threads.wake(thread, self.now);
                }
            }
        }
        self.wake_threads();
    }

    /// A thread on a core runs until it has a cost to pay or waits.
    fn step(&mut self, core: CoreId, thread: usize, switch: Duration) {
        self.cost = switch;
        loop {
            let Some(act) = self.threads.take_act(thread) else {
                self.threads.exit(core, thread, self.now);
                return;
            };
            if self.is_checked {
                self.trace += &format!("{} {thread} {act:?}\n", self.now.0);
            }
            let flow = self.act(thread, act);
            self.wake_threads();
            if self.is_checked {
                self.rules.check();
                self.path.check();
                self.kernel.check();
            }
            if flow == Flow::Exit {
                self.threads.exit(core, thread, self.now);
                return;
            }
            if self.cost > Duration::ZERO {
                self.threads.occupy(core, self.cost, self.now);
                return;
            }
            if flow == Flow::Wait && !self.threads.is_woken(thread) {
                self.threads.sleep(core, thread, self.now);
                return;
            }
        }
    }

    fn act(&mut self, thread: usize, act: Act) -> Flow {
        match act {
            Act::NextTouch => return self.next_touch(thread),
            Act::Sleep(until) if self.now >= until || self.is_gone(thread) => {}
            Act::Sleep(until) => {
                self.threads.at(until, Event::Wake(thread));
                return self.again(thread, Act::Sleep(until));
            }
            Act::Touch { of, at, began } => return self.touch(thread, of, at, began),
            Act::Take => return self.take(thread),
            Act::Decide(number, sent) => self.decide(thread, number, sent),
            Act::Answer(read, pace) => self.answer(thread, read, pace),
            Act::GoOn(round, pace) => self.go_on(thread, round, pace),
            Act::Divide(jobs, pace) => {
                if let Some((todo, rest)) = self.divide(thread, jobs, pace) {
                    let (done, has_waited) = (Vec::new(), false);
                    self.then(thread, [Act::Carry { todo, done, rest, pace, has_waited }]);
                }
            }
            Act::Carry { todo, done, rest, pace, has_waited } => {
                return self.carry(thread, todo, done, rest, pace, has_waited);
            }
            Act::Look { job, until } => return self.look(thread, job, until),
            Act::Finish(done, pace) => {
                let round = self.finish(done);
                self.then(thread, [Act::GoOn(round, pace)]);
            }
            Act::Reply(ended) => self.reply(thread, ended),
            Act::Replied(ended) => self.replied(*ended),
            Act::NextCrowd => {
                if let Some(read) = self.crowd.pop_front() {
                    self.hand_over(thread, WorkerJob::Read(read));
                }
            }
            Act::Work => return self.work(thread),
            Act::NextPush => return self.next_push(thread),
            Act::Push(rest) => return self.push(thread, rest),
            Act::PushRead { number, run } => return self.push_read(thread, number, run),
            Act::Store { run, at, crossed } => return self.store(thread, run, at, crossed),
            Act::EndPush { run, is_over } => self.end_push(&run, is_over),
            Act::Fetch => return self.fetch(thread),
        }
        Flow::On
    }

    /// Puts steps in front of a thread's others.
    pub(super) fn then<const N: usize>(&mut self, thread: usize, acts: [Act; N]) {
        self.threads.begin_with(thread, acts.into_iter());
    }

    /// The same step comes again when the thread was woken.
    pub(super) fn again(&mut self, thread: usize, act: Act) -> Flow {
        self.then(thread, [act]);
        Flow::Wait
    }

    /// The thread that pushes.
    pub(super) const fn pusher(&self) -> usize {
        1 + self.workers
    }

    /// The thread that has raw bytes read.
    pub(super) const fn fetcher(&self) -> usize {
        2 + self.workers
    }

    const fn first_task(&self) -> usize {
        3 + self.workers
    }

    fn wake_threads(&mut self) {
        for thread in self.kernel.take_woken() {
            self.threads.wake(thread, self.now);
        }
        if self.kernel.has_requests() && self.threads.is_asleep(TAKER) {
            self.threads.wake(TAKER, self.now);
        }
    }

    fn is_gone(&self, thread: usize) -> bool {
        self.is_stopped || self.tasks[thread - self.first_task()].is_dead
    }

    fn next_touch(&mut self, thread: usize) -> Flow {
        let number = thread - self.first_task();
        if self.is_gone(thread) {
            self.die(number);
            return Flow::Exit;
        }
        let next = self.tasks[number].next;
        let program = &self.programs[number];
        let Some(touch) = program.touches.get(next).copied() else { return Flow::Exit };
        if next == 0
            && let Some((other, place)) = program.follows
            && self.tasks[other].next <= place
        {
            return self.again(thread, Act::NextTouch);
        }
        let of = FilePages { file: touch.file, pages: touch.pages };
        let touched = Act::Touch { of, at: of.pages.start, began: None };
        self.then(thread, [Act::Sleep(self.now + touch.think), touched, Act::NextTouch]);
        Flow::On
    }

    /// A task touches pages, and waits for those that are not there.
    fn touch(
        &mut self,
        thread: usize,
        of: FilePages,
        at: PageIndex,
        began: Option<Instant>,
    ) -> Flow {
        if self.is_gone(thread) {
            return Flow::On;
        }
        let number = thread - self.first_task();
        if began.is_none() {
            self.counts.touches += 1;
            self.counts.hits += u64::from(self.kernel.has(&of));
            self.cost += self.prices.syscall + self.prices.page_lookup.times(of.pages.len());
            self.mark_touched(&of);
        }
        let began = began.unwrap_or(self.now);
        let task = self.programs[number].task;
        match self.kernel.touch(self.image, thread, task, &of, at) {
            Touched::Waits(at) => {
                return self.again(thread, Act::Touch { of, at, began: Some(began) });
            }
            Touched::Ready => {}
            Touched::Failed => self.counts.errors += 1,
        }
        self.waits.record(self.now.since(began) + self.cost);
        self.last_end = self.now + self.cost;
        self.tasks[number].next += 1;
        self.wake_followers(number);
        Flow::On
    }

    /// Pages are not useless that were touched, or will be.
    fn mark_touched(&mut self, of: &FilePages) {
        let end = (of.pages.end * PAGE_SIZE).min(self.image.file_bytes(of.file).unwrap_or(0));
        let offset = of.pages.start * PAGE_SIZE;
        let parts = self.image.parts(of.file, offset, end - offset);
        for part in parts.into_iter().flatten() {
            if let PartSource::Packed(block, inside) = part.source {
                let inside = u64::from(inside);
                for page in inside / PAGE_SIZE..(inside + part.len).div_ceil(PAGE_SIZE) {
                    self.decoded.insert((block, page), true);
                }
            }
        }
    }

    fn die(&mut self, task: usize) {
        let Some(one) = self.tasks.get_mut(task) else { return };
        // What follows one of its requests does not wait for it.
        (one.is_dead, one.next) = (true, usize::MAX);
        let thread = self.first_task() + task;
        self.threads.wake(thread, self.now);
        self.wake_followers(task);
    }

    fn wake_followers(&mut self, task: usize) {
        let first = self.first_task();
        for (number, program) in self.programs.iter().enumerate() {
            if program.follows.is_some_and(|(other, _)| other == task)
                && self.tasks[number].next == 0
            {
                self.threads.wake(first + number, self.now);
            }
        }
    }

    /// Takes a request, or waits for one.
    fn take(&mut self, thread: usize) -> Flow {
        let Some(number) = self.kernel.take() else { return self.again(thread, Act::Take) };
        self.cost += TAKING;
        let sent = self.kernel.read(number).expect("a request that waits is not answered");
        let FilePages { file, pages } = sent.of;
        if let Some(bytes) = self.image.file_bytes(file) {
            self.rules.open_file(file, bytes);
        }
        let call = ReadCall { task: sent.task, file, pages, is_direct: false };
        self.then(thread, [Act::Decide(number, sent), Act::Take]);
        if self.rules.wants_first_bytes(&call) {
            self.peek(thread, file);
        }
        Flow::On
    }

    /// Looks at the first bytes of a file, if they are in memory or cost little.
    fn peek(&mut self, thread: usize, file: u64) {
        let len = self.image.file_bytes(file).unwrap_or(0).min(HEADER_BYTES);
        let Some(parts) = self.image.parts(file, 0, len) else { return };
        let Some(number) = self.free.pop() else { return };
        let mut round = self.start(number, &parts, (Then::Wait(thread, None), Use::Early));
        while !round.jobs.is_empty() && round.jobs.iter().all(Job::is_quick) {
            let jobs = std::mem::take(&mut round.jobs);
            let done = jobs.into_iter().map(|job| self.decode(job)).collect();
            let before = std::mem::take(&mut round.ended);
            round = self.finish(done);
            round.ended.splice(..0, before);
        }
        match self.take_over(number) {
            Some((_, Ok(()))) => self.rules.set_kind(file, self.image.program(file)),
            Some((_, Err(_))) => {}
            None => self.abandon(number),
        }
        self.then(thread, [Act::GoOn(round, Pace::Quick)]);
    }

    /// Refuses a READ or has it answered.
    fn decide(&mut self, thread: usize, number: u32, sent: SentRead) {
        let FilePages { file, pages } = sent.of;
        let Some(file_bytes) = self.image.file_bytes(file) else { return };
        let call = ReadCall { task: sent.task, file, pages, is_direct: false };
        let ranges = raw_ranges(self.image, file, pages);
        let raw = &self.file;
        let is_fetched = || ranges.iter().all(|range| raw.has(range.pages()));
        let plan = match self.rules.read(&call, is_fetched) {
            Verdict::Answer(plan) => plan,
            Verdict::Refuse { touched, fetch } => {
                self.counts.refusals += 1;
                self.cost += ANSWERING;
                self.kernel.refuse(number);
                if let Some(page) = touched {
                    for range in raw_ranges(self.image, file, Pages::new(page, page + 1)) {
                        self.will_need(range);
                    }
                }
                self.fetch_pages(file, fetch);
                self.ring();
                return;
            }
        };
        if let Some(next) = self.rules.next_file(&call)
            && let Some(bytes) = self.image.file_bytes(next)
        {
            self.rules.open_file(next, bytes);
            self.rules.push_small(next);
            self.ring();
        }
        let bytes = (pages.start * PAGE_SIZE, (pages.end * PAGE_SIZE).min(file_bytes));
        let read = Box::new(Read { number, call, bytes, plan });
        if pages.len() >= WIDE_PAGES || self.kernel.has_requests() {
            self.hand_over(thread, WorkerJob::Read(read));
        } else {
            self.then(thread, [Act::Answer(read, Pace::Quick)]);
        }
    }

    /// Reads the bytes that answer a READ.
    fn answer(&mut self, thread: usize, read: Box<Read>, pace: Pace) {
        let (start, end) = read.bytes;
        let Some(parts) = self.image.parts(read.call.file, start, end - start) else {
            self.fail(&read);
            return;
        };
        let Some(number) = self.free.pop() else {
            self.crowd.push_back(read);
            return;
        };
        let (call, plan) = (read.call, read.plan);
        let round = self.start(number, &parts, (Then::Hand(read), Use::Last));
        if round.jobs.iter().any(|job| matches!(job, Job::Read(..))) {
            let (raw, window) = (self.slots[number as usize].raw, self.rules.missed(plan));
            self.read_ahead(&call, raw, window, true);
        }
        self.then(thread, [Act::GoOn(round, pace)]);
    }

    fn reply(&mut self, thread: usize, ended: Box<Ended>) {
        let Read { call, bytes: (start, end), number, .. } = &*ended.read;
        self.cost += ANSWERING + self.prices.copy(call.pages.len(), end - start);
        match ended.result {
            Ok(()) => {
                self.assert_holds(call.file, *start, end - start, &ended.copied);
                self.kernel.answer(*number);
                self.then(thread, [Act::Replied(ended)]);
            }
            Err(_) => self.fail(&ended.read),
        }
    }

    /// Schedules the work that follows.
    fn replied(&mut self, ended: Ended) {
        let Ended { read, raw, waited, .. } = ended;
        let Read { call, plan, .. } = *read;
        if call.pages.start == 0 && !self.rules.is_known(call.file) {
            self.rules.set_kind(call.file, self.image.program(call.file));
        }
        let after = self.rules.answered(self.now, &call, plan, waited);
        let Aftermath { fetch, window, .. } = after;
        self.ring();
        self.fetch_pages(call.file, fetch);
        self.read_ahead(&call, raw, window, waited);
    }

    fn read_ahead(&mut self, call: &ReadCall, needed: RawBytes, window: Pages, missed: bool) {
        if window.is_empty() || needed.is_empty() {
            return;
        }
        let mut around = needed;
        if missed {
            for range in raw_ranges(self.image, call.file, window) {
                around.start = around.start.min(range.start);
                around.end = around.end.max(range.end);
            }
        }
        let read = RawRead { task: call.task, needed, window: around, is_miss: missed };
        if let Some(ahead) = self.rules.read_ahead(self.now, &read) {
            self.queue_fetch(Fetch::Image(ahead));
        }
    }

    fn fail(&mut self, read: &Read) {
        self.counts.failures += 1;
        self.kernel.fail(read.number);
        self.rules.failed(&read.call);
    }

    /// Wakes a thread on another processor, which takes its time.
    pub(super) fn wake_far(&mut self, thread: usize) {
        if self.prices.cores > 1 {
            self.threads.at(self.now + WAKING, Event::Wake(thread));
        } else {
            self.threads.wake(thread, self.now);
        }
    }
}

/// The thread that takes requests.
const TAKER: usize = 0;

/// Taking a request, and answering it: together a round trip of 12 us on one processor, without its
/// two switches.
///
/// Source: M: a request and its answer through /dev/fuse on the machine of docs/benchmarks.md.
const TAKING: Duration = Duration(4_400);

/// See [`TAKING`].
const ANSWERING: Duration = Duration(4_400);

/// Waking a thread on another processor, which is halted.
///
/// Source: M: a round trip that another processor answers takes 55 us there, less the 12 us above.
const WAKING: Duration = Duration::from_micros(43);
