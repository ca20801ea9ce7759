//! Threads on the cores of a machine, and events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use forebay_core::time::{Duration, Instant};
use forebay_core::units::CallId;

use super::act::Act;
use crate::cpu::{Arrival, CoreId, Cpu, Happens, Placed, Runner};
use crate::price::Prices;

/// All threads: those of the server, then the tasks.
#[derive(Debug)]
pub(super) struct Threads {
    cpu: Cpu,
    all: Vec<Thread>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    sequence: u64,
}

#[derive(Debug)]
struct Thread {
    state: State,
    /// It was woken while it did something.
    is_woken: bool,
    script: VecDeque<Act>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is running or ready.
    Busy,
    Asleep,
    Over,
}

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread is woken.
    Wake(usize),
    /// A request to the device is over.
    DeviceDone(u32),
    /// A task dies.
    Death(usize),
    /// The image is unmounted.
    Unmount,
}

/// The next event.
#[derive(Debug)]
pub(super) enum Next {
    /// An event.
    Event(Event),
    /// A thread on a core begins its next step, after a switch that costs.
    Step(CoreId, usize, Duration),
    /// Nothing ever happens again.
    Over,
}

impl Threads {
    /// Some threads with their first steps.
    pub(super) fn new(prices: &Prices, scripts: Vec<VecDeque<Act>>) -> Self {
        let mut cpu = Cpu::new(prices, 0);
        let thread = |script| Thread { state: State::Busy, is_woken: false, script };
        let all: Vec<Thread> = scripts.into_iter().map(thread).collect();
        for thread in 0..all.len() {
            cpu.enqueue(runner(thread), Arrival::New, Instant::ZERO);
        }
        Self { cpu, all, events: BinaryHeap::new(), sequence: 0 }
    }

    /// Has something happen at a moment.
    pub(super) fn at(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// A thread that waits looks again.
    pub(super) fn wake(&mut self, thread: usize, now: Instant) {
        let one = &mut self.all[thread];
        match one.state {
            State::Busy => one.is_woken = true,
            State::Asleep => {
                one.state = State::Busy;
                let arrival = Arrival::Woken { uninterruptible: true };
                self.cpu.enqueue(runner(thread), arrival, now);
            }
            State::Over => {}
        }
    }

    /// Whether a thread waits.
    pub(super) fn is_asleep(&self, thread: usize) -> bool {
        self.all[thread].state == State::Asleep
    }

    /// Whether a thread is over.
    pub(super) fn is_over(&self, thread: usize) -> bool {
        self.all[thread].state == State::Over
    }

    /// Takes the next step of a thread.
    pub(super) fn take_act(&mut self, thread: usize) -> Option<Act> {
        self.all[thread].is_woken = false;
        self.all[thread].script.pop_front()
    }

    /// Whether a thread was woken since its step began.
    pub(super) fn is_woken(&self, thread: usize) -> bool {
        self.all[thread].is_woken
    }

    /// Puts steps in front of those that a thread has.
    pub(super) fn begin_with(&mut self, thread: usize, acts: impl DoubleEndedIterator<Item = Act>) {
        for act in acts.rev() {
            self.all[thread].script.push_front(act);
        }
    }

    /// A thread works for some time before its next step.
    pub(super) fn occupy(&mut self, core: CoreId, work: Duration, now: Instant) {
        self.cpu.occupy(core, work, now);
    }

    /// A thread waits until it is woken.
    pub(super) fn sleep(&mut self, core: CoreId, thread: usize, now: Instant) {
        self.all[thread].state = State::Asleep;
        self.cpu.sleep(core, now);
    }

    /// A thread has come to its end.
    pub(super) fn exit(&mut self, core: CoreId, thread: usize, now: Instant) {
        self.all[thread].state = State::Over;
        self.all[thread].script.clear();
        self.cpu.sleep(core, now);
    }

    /// The next event, and its time.
    pub(super) fn next(&mut self, now: &mut Instant) -> Next {
        loop {
            let placed = self.cpu.dispatch(*now).or_else(|| self.cpu.preempt(*now));
            if let Some(placed) = placed {
                if let Some(next) = self.begin(&placed, *now) {
                    return next;
                }
                continue;
            }
            let due = self.cpu.earliest();
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let Some(at) = event.or(due.map(|due| due.at)) else {
                return Next::Over;
            };
            if let Some(due) = due.filter(|due| event.is_none() || due.at < at) {
                *now = (*now).max(due.at);
                match due.what {
                    Happens::Settled => {}
                    Happens::SliceEnds => {
                        let placed = self.cpu.end_slice(due.core, *now);
                        if let Some(next) = self.begin(&placed, *now) {
                            return next;
                        }
                    }
                    Happens::StretchEnds if self.cpu.slice_is_over(due.core, *now) => {
                        self.cpu.yield_core(due.core, *now);
                    }
                    Happens::StretchEnds => {
                        return Next::Step(due.core, number(due.runner), Duration::ZERO);
                    }
                }
                continue;
            }
            let Reverse((at, _, event)) = self.events.pop().expect("it was seen above");
            *now = at;
            return Next::Event(event);
        }
    }

    /// A thread has got a core.
    fn begin(&mut self, placed: &Placed, now: Instant) -> Option<Next> {
        let Placed { core, runner, cost, rest } = *placed;
        if let Some(mut rest) = rest {
            rest.work += cost;
            self.cpu.occupy_until(core, rest, now);
            return None;
        }
        Some(Next::Step(core, number(runner), cost))
    }
}

const fn runner(thread: usize) -> Runner {
    Runner::Task(CallId(thread as u32))
}

fn number(runner: Runner) -> usize {
    match runner {
        Runner::Task(call) => call.index(),
        Runner::Flusher | Runner::Driver(_) => unreachable!("there are threads alone"),
    }
}
