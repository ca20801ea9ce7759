//! Runners that work and sleep by turns, to drive a run queue by hand.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::CallId;

use super::{Arrival, Cpu, Happens, Runner};
use crate::price::Prices;

/// A task by its number.
pub(crate) const fn task(number: u32) -> Runner {
    Runner::Task(CallId(number))
}

/// What a runner does for ever: it works, then it sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    pub(crate) works: Duration,
    pub(crate) sleeps: Duration,
}

/// More work than any test has time for.
pub(crate) const HOG: Habit =
    Habit { works: Duration::from_secs(1_000_000), sleeps: Duration::ZERO };

/// Tasks with habits on a processor.
pub(crate) struct Model {
    pub(crate) cpu: Cpu,
    pub(crate) now: Instant,
    habits: Vec<Habit>,
    asleep: Vec<(Instant, usize)>,
    /// The longest that each waited from waking to its core.
    pub(crate) waited: Vec<Duration>,
    woken_at: Vec<Instant>,
    /// Dispatches, in order, of the last run.
    pub(crate) log: Vec<Runner>,
}

impl Model {
    pub(crate) fn new(prices: &Prices, habits: Vec<Habit>) -> Self {
        let now = Instant::ZERO;
        let mut cpu = Cpu::new(prices, 1);
        let tasks = habits.len();
        (0..tasks as u32).for_each(|number| cpu.enqueue(task(number), Arrival::New, now));
        let (waited, woken_at) = (vec![Duration::ZERO; tasks], vec![now; tasks]);
        Self { cpu, now, habits, asleep: Vec::new(), waited, woken_at, log: Vec::new() }
    }

    /// Runs until a moment.
    pub(crate) fn run(&mut self, until: Instant) {
        self.log.clear();
        loop {
            self.place();
            let due = self.cpu.earliest().filter(|due| due.at <= until);
            let wakes = self.asleep.iter().min().copied().filter(|(at, _)| *at <= until);
            match (due, wakes) {
                (None, None) => break,
                (due, Some((at, number))) if due.is_none_or(|due| at <= due.at) => {
                    self.now = at;
                    self.woken_at[number] = at;
                    self.asleep.retain(|(_, other)| *other != number);
                    let woken = Arrival::Woken { uninterruptible: true };
                    self.cpu.enqueue(task(number as u32), woken, at);
                }
                (Some(due), _) => {
                    self.now = due.at;
                    let Runner::Task(number) = due.runner else { panic!("all are tasks") };
                    match due.what {
                        Happens::Settled => {}
                        Happens::SliceEnds => {
                            let placed = self.cpu.end_slice(due.core, due.at);
                            self.begin(&placed);
                        }
                        Happens::StretchEnds => {
                            self.cpu.sleep(due.core, due.at);
                            let wakes = due.at + self.habits[number.index()].sleeps;
                            self.asleep.push((wakes, number.index()));
                        }
                    }
                }
                (None, Some(_)) => unreachable!("taken above"),
            }
        }
        self.now = until;
        self.cpu.account_all(until);
    }

    /// What a task has had of the processor.
    pub(crate) fn had(&mut self, number: u32) -> Duration {
        self.cpu.usage(task(number)).cpu
    }

    fn place(&mut self) {
        loop {
            let placed = match self.cpu.dispatch(self.now) {
                Some(placed) => placed,
                None => match self.cpu.preempt(self.now) {
                    Some(placed) => placed,
                    None => return,
                },
            };
            self.begin(&placed);
        }
    }

    fn begin(&mut self, placed: &super::Placed) {
        let Runner::Task(number) = placed.runner else { panic!("all are tasks") };
        let number = number.index();
        self.log.push(placed.runner);
        if let Some(mut rest) = placed.rest {
            rest.work += placed.cost;
            self.cpu.occupy_until(placed.core, rest, self.now);
        } else {
            let waited = self.now.since(self.woken_at[number]);
            self.waited[number] = self.waited[number].max(waited);
            self.cpu.occupy(placed.core, placed.cost + self.habits[number].works, self.now);
        }
    }
}
