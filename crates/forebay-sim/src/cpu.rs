//! The processor: cores, the runners on them, and what switching costs.
//!
//! ```text
//!   asleep --enqueue--> runnable --dispatch--> on a core --sleep / exit--> asleep / gone
//!                          ^                      |
//!                          +-- pushed off its core, or its slice is over
//! ```
//!
//! A runner on a core has a *stretch* before it: work to be done, and a moment before which the
//! stretch cannot end, because a device is waited for without leaving the core. A runner that is
//! pushed off keeps the rest of its stretch. The run queue, one for all cores, decides what runs:
//!
//! | file | what |
//! | --- | --- |
//! | `round_robin` | turns, without preemption |
//! | `o1` | Linux 2.6.0 to 2.6.22: tasks that have slept go first |
//! | `fair` | the same share for every runner |
//! | `cache` | what a switch costs: others have used the cache meanwhile |
//!
//! Every dispatch costs a switch, also back to the runner that was there last: the idle task ran in
//! between.

use std::collections::VecDeque;
use std::fmt::Debug;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, DeviceId};

use crate::price::{Prices, Scheduler};
use cache::Caches;
pub use cache::ring_switch;
use fair::Fair;
use o1::O1;
use round_robin::RoundRobin;
pub use usage::{Switches, Usage};

mod cache;
mod fair;
mod o1;
mod round_robin;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod usage;

/// How long a core counts as wanted after a task found none idle: some turns of a scheduler.
const WANTED: Duration = Duration::from_millis(16);

/// What can have a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runner {
    /// A task.
    Task(CallId),
    /// The kernel thread that flushes.
    Flusher,
    /// The kernel thread of a device whose data the processor moves.
    Driver(DeviceId),
}

/// Decides which runner gets a core, and for how long.
pub(crate) trait RunQueue: Debug {
    /// A runner becomes ready.
    fn enqueue(&mut self, runner: Runner, arrival: Arrival, now: Instant);

    /// Takes out the runner that gets a core.
    fn pick(&mut self, now: Instant) -> Option<Runner>;

    /// How strongly a runner that was woken pushes another one off its core; nothing if it waits.
    fn pushes(&self, woken: Runner, running: Runner) -> Option<u64>;

    /// A runner had a core for some time.
    fn charge(&mut self, runner: Runner, from: Instant, to: Instant);

    /// A runner leaves its core and sleeps.
    fn sleep(&mut self, runner: Runner, now: Instant);

    /// When a runner that was charged up to a moment has had its slice.
    fn slice_end(&self, runner: Runner, charged: Instant) -> Option<Instant>;

    /// A driver's thread works for a runner from now on.
    fn serve(&mut self, _driver: Runner, _payer: Runner) {}

    /// The share of a runner relative to others; 1024 is the usual one.
    fn set_weight(&mut self, _runner: Runner, _weight: u32) {}
}

/// Why a runner becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It begins.
    New,
    /// It was asleep.
    Woken {
        /// It waited for a device or for memory, as opposed to a moment.
        uninterruptible: bool,
    },
    /// It was pushed off its core.
    Preempted,
    /// It had its slice.
    SliceOver,
}

/// Something of each runner, by its number.
#[derive(Debug)]
pub(crate) struct Seats<T> {
    devices: usize,
    slots: Vec<T>,
    make: fn(Runner) -> T,
}

impl<T> Seats<T> {
    /// Seats on a machine with some devices; `make` says what a new runner begins with.
    pub(crate) fn new(devices: usize, make: fn(Runner) -> T) -> Self {
        let mut slots = vec![make(Runner::Flusher)];
        slots.extend((0..devices as u32).map(|device| make(Runner::Driver(DeviceId(device)))));
        Self { devices, slots, make }
    }

    /// The seat of a runner, made when it is first asked for.
    pub(crate) fn of_mut(&mut self, runner: Runner) -> &mut T {
        let number = self.number(runner);
        while self.slots.len() <= number {
            let task = self.slots.len() - 1 - self.devices;
            self.slots.push((self.make)(Runner::Task(CallId(task as u32))));
        }
        &mut self.slots[number]
    }

    /// The seat of a runner that has been asked for.
    pub(crate) fn of(&self, runner: Runner) -> &T {
        &self.slots[self.number(runner)]
    }

    /// The place of a runner: the flusher, then drivers, then tasks.
    pub(crate) fn number(&self, runner: Runner) -> usize {
        match runner {
            Runner::Flusher => 0,
            Runner::Driver(device) => 1 + device.index(),
            Runner::Task(task) => 1 + self.devices + task.index(),
        }
    }
}

/// Cores and the runners that are ready.
#[derive(Debug)]
pub(crate) struct Cpu {
    cores: Vec<Option<Run>>,
    queue: Box<dyn RunQueue>,
    /// Slices end in the middle of a stretch, and woken runners may preempt others.
    preemptive: bool,
    seats: Seats<Seat>,
    caches: Caches,
    /// Until when each core does background work, if no runner has it.
    reserved: Vec<Instant>,
    /// Runners in the queue.
    waiting: usize,
    /// Runners that were woken and have not been compared with those on the cores.
    woken: VecDeque<Runner>,
    /// When a task last found no idle core.
    wanted: Option<Instant>,
    busy: Duration,
    charged: Charged,
}

/// What dispatches have been charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    /// How many there were.
    pub(crate) count: u64,
    /// Their sum.
    pub(crate) total: Duration,
    /// Eight times the mean, in which each new one has the weight of an eighth.
    mean_8: u64,
}

/// State of a runner.
#[derive(Debug, Default)]
struct Seat {
    /// The remaining work when it was preempted.
    rest: Option<Stretch>,
    queued: bool,
    /// Where it was last.
    core: usize,
    /// The bytes of its own data that it uses.
    footprint: u64,
    usage: Usage,
}

/// What a runner on a core has before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The work to do.
    pub(crate) work: Duration,
    /// Before this it does not end.
    pub(crate) not_before: Instant,
}

/// A runner on a core.
#[derive(Clone, Copy, Debug)]
struct Run {
    runner: Runner,
    stretch: Stretch,
    began: Instant,
    until: Instant,
    /// When it got the core.
    since: Instant,
    /// When the switch to it is paid for; it is not preempted before, so that it makes progress.
    settled: Instant,
    /// Up to when its time is counted.
    charged: Instant,
}

/// Which core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreId(usize);

/// A runner that has got a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) core: CoreId,
    pub(crate) runner: Runner,
    /// What the switch costs.
    pub(crate) cost: Duration,
    /// The remaining work when it was preempted from its last core.
    pub(crate) rest: Option<Stretch>,
}

/// What happens next on the cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) core: CoreId,
    pub(crate) runner: Runner,
    pub(crate) at: Instant,
    pub(crate) what: Happens,
}

/// What happens on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happens {
    /// The stretch of the runner ends.
    StretchEnds,
    /// Its slice ends.
    SliceEnds,
    /// The switch to it is over, and a runner has waited for that to preempt it.
    Settled,
}

impl Cpu {
    /// Idle cores and some devices.
    ///
    /// # Panics
    /// If there is no core.
    pub(crate) fn new(prices: &Prices, devices: usize) -> Self {
        let cores = prices.cores as usize;
        assert!(cores > 0, "a machine has at least one core");
        let queue: Box<dyn RunQueue> = match prices.scheduler {
            Scheduler::RoundRobin => Box::new(RoundRobin::default()),
            Scheduler::O1 => Box::new(O1::new(devices)),
            Scheduler::Fair => Box::new(Fair::new(devices, prices.cores)),
        };
        let mean_8 = prices.context_switch.as_nanos().saturating_mul(8);
        Self {
            cores: vec![None; cores],
            queue,
            preemptive: prices.scheduler != Scheduler::RoundRobin,
            seats: Seats::new(devices, |_| Seat::default()),
            caches: Caches::new(prices),
            reserved: vec![Instant::ZERO; cores],
            waiting: 0,
            woken: VecDeque::new(),
            wanted: None,
            busy: Duration::ZERO,
            charged: Charged { count: 0, total: Duration::ZERO, mean_8 },
        }
    }

    /// Sets a runner's own data and its weight.
    pub(crate) fn set_traits(&mut self, runner: Runner, footprint: u64, weight: u32) {
        self.seats.of_mut(runner).footprint = footprint;
        self.queue.set_weight(runner, weight);
    }

    /// A runner becomes ready.
    pub(crate) fn enqueue(&mut self, runner: Runner, arrival: Arrival, now: Instant) {
        let seat = self.seats.of_mut(runner);
        assert!(!seat.queued, "a runner waits for one core at a time");
        seat.queued = true;
        self.waiting += 1;
        if matches!(runner, Runner::Task(_)) && self.cores.iter().all(Option::is_some) {
            self.wanted = Some(now);
        }
        self.queue.enqueue(runner, arrival, now);
        if self.preemptive && matches!(arrival, Arrival::New | Arrival::Woken { .. }) {
            self.woken.push_back(runner);
        }
    }

    /// Gives an idle core to the runner whose turn it is.
    #[inline]
    pub(crate) fn dispatch(&mut self, now: Instant) -> Option<Placed> {
        if self.waiting == 0 { None } else { self.dispatch_first(now) }
    }

    fn dispatch_first(&mut self, now: Instant) -> Option<Placed> {
        let idle = (0..self.cores.len()).find(|core| self.is_idle(*core, now))?;
        let runner = self.queue.pick(now)?;
        let last = self.seats.of(runner).core;
        // Its last core may still hold some of its data.
        let again = self.caches.matter() && self.is_idle(last, now);
        let core = if again { last } else { idle };
        Some(self.place(core, runner, now))
    }

    /// A core that no runner has or waits for.
    pub(crate) fn idle_core(&self, now: Instant) -> Option<CoreId> {
        if self.waiting > 0 {
            return None;
        }
        (0..self.cores.len()).find(|core| self.is_idle(*core, now)).map(CoreId)
    }

    /// An idle core does background work, which no runner interrupts.
    pub(crate) fn reserve(&mut self, core: CoreId, now: Instant, length: Duration) {
        assert!(self.is_idle(core.0, now), "only an idle core does background work");
        self.reserved[core.0] = now + length;
        self.busy += length;
    }

    fn is_idle(&self, core: usize, now: Instant) -> bool {
        self.cores[core].is_none() && self.reserved[core] <= now
    }

    /// Lets a runner that was woken push another one off its core. One that could only do so in the
    /// midst of switches tries again when the first of these is over.
    #[inline]
    pub(crate) fn preempt(&mut self, now: Instant) -> Option<Placed> {
        if self.woken.is_empty() { None } else { self.preempt_first(now) }
    }

    fn preempt_first(&mut self, now: Instant) -> Option<Placed> {
        for _ in 0..self.woken.len() {
            let woken = self.woken.pop_front()?;
            if !self.seats.of(woken).queued {
                continue;
            }
            self.account_all(now);
            let pushed = self.cores.iter().enumerate().filter_map(|(core, run)| {
                let run = run.as_ref()?;
                let strength = self.queue.pushes(woken, run.runner)?;
                Some((run.settled < now, strength, std::cmp::Reverse(core)))
            });
            match pushed.max() {
                None => {}
                Some((true, _, std::cmp::Reverse(core))) => {
                    return Some(self.exchange(core, Arrival::Preempted, now));
                }
                Some((false, ..)) => self.woken.push_back(woken),
            }
        }
        None
    }

    /// The slice of the runner on a core is over: the next runner continues there.
    pub(crate) fn end_slice(&mut self, core: CoreId, now: Instant) -> Placed {
        self.exchange(core.0, Arrival::SliceOver, now)
    }

    /// The runner on a core has work to do.
    #[inline]
    pub(crate) fn occupy(&mut self, core: CoreId, work: Duration, now: Instant) {
        let run = self.cores[core.0].as_mut().expect("a runner is on the core");
        run.stretch = Stretch { work, not_before: now };
        (run.began, run.until) = (now, now + work);
    }

    /// The runner on a core has a stretch before it.
    pub(crate) fn occupy_until(&mut self, core: CoreId, stretch: Stretch, now: Instant) {
        let run = self.cores[core.0].as_mut().expect("a runner is on the core");
        (run.stretch, run.began) = (stretch, now);
        run.until = (now + stretch.work).max(stretch.not_before);
    }

    /// The runner leaves its core and sleeps.
    pub(crate) fn sleep(&mut self, core: CoreId, now: Instant) {
        let runner = self.leave(core, now);
        if self.preemptive {
            self.queue.sleep(runner, now);
        }
    }

    /// The runner, between two stretches, lets others have its core.
    pub(crate) fn yield_core(&mut self, core: CoreId, now: Instant) {
        let runner = self.leave(core, now);
        self.usage(runner).switches.involuntary += 1;
        self.enqueue(runner, Arrival::SliceOver, now);
    }

    /// A driver's thread works for a runner from now on.
    pub(crate) fn serve(&mut self, driver: Runner, payer: Runner, now: Instant) {
        if let Some(core) = self.core_of(driver) {
            self.account(core, now);
        }
        self.queue.serve(driver, payer);
    }

    /// The counters of a runner.
    pub(crate) fn usage(&mut self, runner: Runner) -> &mut Usage {
        &mut self.seats.of_mut(runner).usage
    }

    /// Counts the time of those on the cores.
    pub(crate) fn account_all(&mut self, now: Instant) {
        (0..self.cores.len()).for_each(|core| self.account(core, now));
    }

    /// Whether a runner that keeps its core from stretch to stretch has to make room for another.
    #[inline]
    pub(crate) fn slice_is_over(&self, core: CoreId, now: Instant) -> bool {
        if self.preemptive || self.waiting == 0 {
            return false;
        }
        let run = self.cores[core.0].as_ref().expect("a runner is on the core");
        now.since(run.since) >= round_robin::SLICE
    }

    /// What happens first on the cores: a stretch ends, or a slice.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Due> {
        if let ([run], false) = (&self.cores[..], self.preemptive) {
            let (core, what) = (CoreId(0), Happens::StretchEnds);
            return run.as_ref().map(|run| Due { core, runner: run.runner, at: run.until, what });
        }
        self.earliest_of_all()
    }

    fn earliest_of_all(&self) -> Option<Due> {
        let mut first: Option<Due> = None;
        for (core, run) in self.cores.iter().enumerate() {
            let Some(run) = run else { continue };
            let (core, what) = (CoreId(core), Happens::StretchEnds);
            let mut due = Due { core, runner: run.runner, at: run.until, what };
            if self.preemptive
                && let Some(end) = self.queue.slice_end(run.runner, run.charged)
                && end.max(run.settled) < due.at
            {
                let at = end.max(run.charged).max(run.settled);
                (due.at, due.what) = (at, Happens::SliceEnds);
            }
            let settled = run.settled + Duration(1);
            if !self.woken.is_empty() && run.settled >= run.charged && settled < due.at {
                (due.at, due.what) = (settled, Happens::Settled);
            }
            if first.is_none_or(|first| due.at < first.at) {
                first = Some(due);
            }
        }
        first
    }

    /// Whether a runner waits for a core and none is idle for it, or did so recently: a runner that
    /// keeps its core also keeps it from runners that will need it in a moment.
    #[inline]
    pub(crate) fn contended(&self, now: Instant) -> bool {
        let waits = || self.waiting > self.cores.iter().filter(|run| run.is_none()).count();
        let lately = self.wanted.is_some_and(|at| now.since(at) <= WANTED);
        lately || (self.waiting > 0 && waits())
    }

    /// How long cores were busy, summed over them.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// What dispatches have been charged.
    #[inline]
    pub(crate) fn charged(&self) -> Charged {
        self.charged
    }

    fn core_of(&self, runner: Runner) -> Option<usize> {
        self.cores.iter().position(|run| run.is_some_and(|run| run.runner == runner))
    }

    fn place(&mut self, core: usize, runner: Runner, now: Instant) -> Placed {
        let number = self.seats.number(runner);
        let seat = self.seats.of_mut(runner);
        (seat.queued, seat.core) = (false, core);
        let (rest, footprint) = (seat.rest.take(), seat.footprint);
        self.waiting -= 1;
        let cost = self.caches.switch(core, number, footprint);
        self.cores[core] = Some(Run { settled: now + cost, ..Run::new(runner, now) });
        self.charged.add(cost);
        Placed { core: CoreId(core), runner, cost, rest }
    }

    /// Puts the runner of a core back into the queue and the next one of the queue on the core.
    /// If it is the same one, it never left.
    fn exchange(&mut self, core: usize, arrival: Arrival, now: Instant) -> Placed {
        self.account(core, now);
        let run = self.cores[core].expect("a runner is on the core");
        self.queue.enqueue(run.runner, arrival, now);
        let next = self.queue.pick(now).expect("one has been added");
        let mut rest = run.stretch;
        rest.work = rest.work - now.since(run.began);
        if next == run.runner {
            self.cores[core] = Some(Run::new(next, now));
            let cost = Duration::ZERO;
            return Placed { core: CoreId(core), runner: next, cost, rest: Some(rest) };
        }
        self.caches.leave(core, self.seats.number(run.runner));
        let seat = self.seats.of_mut(run.runner);
        (seat.queued, seat.rest) = (true, Some(rest));
        seat.usage.switches.involuntary += 1;
        self.waiting += 1;
        self.place(core, next, now)
    }

    fn leave(&mut self, core: CoreId, now: Instant) -> Runner {
        self.account(core.0, now);
        let run = self.cores[core.0].take().expect("a runner is on the core");
        self.caches.leave(core.0, self.seats.number(run.runner));
        run.runner
    }

    /// Counts the time of the runner on a core up to now.
    fn account(&mut self, core: usize, now: Instant) {
        let Some(run) = &mut self.cores[core] else { return };
        let (runner, from) = (run.runner, run.charged);
        if from < now {
            run.charged = now;
            self.busy += now.since(from);
            self.seats.of_mut(runner).usage.cpu += now.since(from);
            if self.preemptive {
                self.queue.charge(runner, from, now);
            }
        }
    }
}

impl Run {
    const fn new(runner: Runner, now: Instant) -> Self {
        let stretch = Stretch { work: Duration::ZERO, not_before: now };
        Self { runner, stretch, began: now, until: now, since: now, settled: now, charged: now }
    }
}

impl Charged {
    /// The mean of late, in which each new one has the weight of an eighth.
    pub(crate) const fn mean(&self) -> Duration {
        Duration(self.mean_8 / 8)
    }

    fn add(&mut self, cost: Duration) {
        self.count += 1;
        self.total += cost;
        self.mean_8 = (self.mean_8 - self.mean_8.div_ceil(8)).saturating_add(cost.as_nanos());
    }
}
