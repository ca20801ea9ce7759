//! Runners that work and sleep by turns, to drive a run queue by hand.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::CallId;

use super::{Arrival, Cpu, Happens, Runner};
use crate::price::{Prices, Scheduler};

/// One core on which nothing costs anything.
pub(crate) fn prices() -> Prices {
    Prices {
        cores: 1,
        syscall: Duration::ZERO,
        page_lookup: Duration::ZERO,
        page_alloc: Duration::ZERO,
        copy_picos_per_kib: 0,
        context_switch: Duration::ZERO,
        interrupt: Duration::ZERO,
        request_submit: Duration::ZERO,
        page_dirty: Duration::ZERO,
        flush_page: Duration::ZERO,
        flush_scan: Duration::ZERO,
        scheduler: Scheduler::RoundRobin,
        cache_bytes: 0,
        footprint_bytes: 0,
        refill: Duration::ZERO,
        decode_page: Duration::ZERO,
        decode_block: Duration::ZERO,
        decode_cold: Duration::ZERO,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CoreId;

    fn long(cpu: &mut Cpu, core: CoreId, at: Instant) {
        cpu.occupy(core, Duration::from_secs(10), at);
    }

    /// Two cores with a runner each, and the price of a switch.
    fn two_cores() -> (Cpu, Duration) {
        let switch = Duration::from_micros(10);
        let context_switch = switch;
        let prices = Prices { cores: 2, scheduler: Scheduler::O1, context_switch, ..prices() };
        let mut cpu = Cpu::new(&prices, 1);
        (0..4).for_each(|number| cpu.enqueue(task(number), Arrival::New, Instant(0)));
        for _ in 0..2 {
            let placed = cpu.dispatch(Instant(0)).unwrap();
            long(&mut cpu, placed.core, Instant(0));
        }
        (cpu, switch)
    }

    /// Task 2 has slept for a second, and task 3 goes on where it left.
    fn one_sleeps() -> (Cpu, Instant) {
        let (mut cpu, _) = two_cores();
        let at = Instant(1_000_000);
        let placed = cpu.end_slice(CoreId(0), at);
        assert_eq!(placed.runner, task(2));
        cpu.occupy(placed.core, Duration::from_micros(20), at);
        let at = Instant(1_020_000);
        cpu.sleep(CoreId(0), at);
        let placed = cpu.dispatch(at).unwrap();
        assert_eq!(placed.runner, task(3));
        long(&mut cpu, placed.core, at);
        (cpu, Instant(1_020_000_000))
    }

    #[test]
    fn who_is_woken_takes_a_core_that_is_not_in_the_midst_of_a_switch() {
        let (mut cpu, at) = one_sleeps();
        let placed = cpu.end_slice(CoreId(0), at);
        long(&mut cpu, placed.core, at);
        let woken = Arrival::Woken { uninterruptible: true };
        cpu.enqueue(task(2), woken, at + Duration(1_000));
        let placed = cpu.preempt(at + Duration(1_000)).expect("core 1 can be taken");
        assert_eq!((placed.core, placed.runner), (CoreId(1), task(2)));
    }

    #[test]
    fn who_is_woken_in_the_midst_of_all_switches_waits_for_the_end_of_the_first() {
        let (mut cpu, at) = one_sleeps();
        for (core, at) in [(0, at), (1, at + Duration(4_000))] {
            let placed = cpu.end_slice(CoreId(core), at);
            long(&mut cpu, placed.core, at);
        }
        let woken = Arrival::Woken { uninterruptible: true };
        let now = at + Duration(5_000);
        cpu.enqueue(task(2), woken, now);
        assert!(cpu.preempt(now).is_none());
        let due = cpu.earliest().unwrap();
        assert_eq!((due.what, due.at), (Happens::Settled, at + Duration(10_001)));
        let placed = cpu.preempt(due.at).expect("the first switch is over");
        assert_eq!((placed.core, placed.runner), (CoreId(0), task(2)));
    }
}
