//! Tasks that have slept go first.
//!
//! Source:     Linux 2.6.20 and 2.6.21, kernel/sched.c, at nice 0.
//! Behaviour:  priorities 115 (has slept) to 125 (has run) follow an average of sleep between 0 and
//!             1 s. The average grows by the time asleep and shrinks by the time on a core, divided
//!             by the bonus. Slices are 100 ms of ticks. A runner whose slice is over waits in the
//!             expired array until the active one is empty. An interactive runner (118 or better)
//!             returns to the active one, unless the first that expired has waited for a second a
//!             runner. Sleep for a device lifts a task to 117 at most; kernel threads have no such
//!             limit. A woken runner preempts only a strictly worse one, and otherwise queues.
//! Differs:    one pair of arrays for all cores. Left out are other nice levels, the bonus for
//!             time in the queue, the limit to what one long sleep can give, and the turns among
//!             interactive runners within a slice. Ticks are those of 250 Hz: a slice shrinks by
//!             a tick of the runner on the core at that moment, however short its stay. A new
//!             runner has not slept.
//! Not for:    machines of many cores: the kernel balances queues there.

use std::collections::VecDeque;

use forebay_core::time::{Duration, Instant};

use super::{Arrival, RunQueue, Runner, Seats};

/// The time between two ticks at 250 Hz.
const TICK: u64 = 4_000_000;

/// The ticks of a slice.
const SLICE_TICKS: u64 = 25;

/// The most that counts as sleep.
const SLEEP_MAX: u64 = 1_000_000_000;

/// The most that a task can reach by waiting for devices.
const SLEEP_FOR_DEVICES_MAX: u64 = 800_000_000;

/// Steps of the bonus, from none to this.
const BONUS_MAX: u64 = 10;

/// The priority without a bonus, the worst.
const PRIORITY_WORST: u64 = 125;

/// The worst priority of an interactive runner.
const PRIORITY_INTERACTIVE: u64 = 118;

#[derive(Debug)]
pub(super) struct O1 {
    seats: Seats<Entity>,
    arrays: [Array; 2],
    active: usize,
    /// When the first runner went to the expired array.
    expired_since: Option<Instant>,
    on_cores: u64,
}

/// A queue for each priority, the best first.
#[derive(Debug, Default)]
struct Array {
    queues: [VecDeque<Runner>; BONUS_MAX as usize + 1],
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entity {
    /// It is a kernel thread.
    kernel: bool,
    sleep_avg: u64,
    /// As it was when it was last woken or its slice ended.
    priority: u64,
    slice_ticks: u64,
    /// Time on a core that the average has not seen.
    ran: u64,
    slept_at: Instant,
}

impl O1 {
    pub(super) fn new(devices: usize) -> Self {
        Self {
            seats: Seats::new(devices, Entity::new),
            arrays: [Array::default(), Array::default()],
            active: 0,
            expired_since: None,
            on_cores: 0,
        }
    }

    /// The first that expired has waited too long.
    fn starving(&self, now: Instant) -> bool {
        let runners = self.arrays[0].len + self.arrays[1].len + self.on_cores;
        let limit = Duration(SLEEP_MAX).times(runners) + Duration(TICK);
        self.expired_since.is_some_and(|since| now.since(since) >= limit)
    }

    fn end_slice(&mut self, runner: Runner, now: Instant) {
        let entity = self.seats.of_mut(runner);
        // The average is updated only after the priority was read.
        entity.priority = entity.effective();
        entity.slice_ticks = SLICE_TICKS;
        entity.settle();
        let priority = entity.priority;
        self.expired_since.get_or_insert(now);
        let again = priority <= PRIORITY_INTERACTIVE && !self.starving(now);
        let array = if again { self.active } else { 1 - self.active };
        self.on_cores -= 1;
        self.arrays[array].push_back(runner, priority);
    }
}

impl RunQueue for O1 {
    fn enqueue(&mut self, runner: Runner, arrival: Arrival, now: Instant) {
        let active = self.active;
        let entity = self.seats.of_mut(runner);
        match arrival {
            Arrival::New => {
                entity.priority = entity.effective();
                self.arrays[active].push_back(runner, entity.priority);
            }
            Arrival::Woken { uninterruptible } => {
                entity.wake(uninterruptible, now);
                self.arrays[active].push_back(runner, entity.priority);
            }
            Arrival::Preempted => {
                entity.settle();
                self.on_cores -= 1;
                self.arrays[active].push_front(runner, entity.priority);
            }
            Arrival::SliceOver => self.end_slice(runner, now),
        }
    }

    fn pick(&mut self, _now: Instant) -> Option<Runner> {
        if self.arrays[self.active].len == 0 {
            self.active = 1 - self.active;
            self.expired_since = None;
        }
        let runner = self.arrays[self.active].pop()?;
        self.on_cores += 1;
        Some(runner)
    }

    fn pushes(&self, woken: Runner, running: Runner) -> Option<u64> {
        let (woken, running) = (self.seats.of(woken).priority, self.seats.of(running).priority);
        (woken < running).then(|| running - woken)
    }

    fn charge(&mut self, runner: Runner, from: Instant, to: Instant) {
        let entity = self.seats.of_mut(runner);
        let ticks = to.0 / TICK - from.0 / TICK;
        entity.slice_ticks = entity.slice_ticks.saturating_sub(ticks);
        entity.ran = entity.ran.saturating_add(to.since(from).as_nanos());
    }

    fn sleep(&mut self, runner: Runner, now: Instant) {
        let entity = self.seats.of_mut(runner);
        entity.settle();
        entity.slept_at = now;
        self.on_cores -= 1;
    }

    fn slice_end(&self, runner: Runner, charged: Instant) -> Option<Instant> {
        let ticks = self.seats.of(runner).slice_ticks;
        let end = (charged.0 / TICK).saturating_add(ticks).saturating_mul(TICK);
        Some(Instant(end).max(charged))
    }
}

impl Entity {
    fn new(runner: Runner) -> Self {
        Self {
            kernel: !matches!(runner, Runner::Task(_)),
            sleep_avg: 0,
            priority: PRIORITY_WORST,
            slice_ticks: SLICE_TICKS,
            ran: 0,
            slept_at: Instant::ZERO,
        }
    }

    fn bonus(&self) -> u64 {
        self.sleep_avg * BONUS_MAX / SLEEP_MAX
    }

    fn effective(&self) -> u64 {
        PRIORITY_WORST - self.bonus()
    }

    /// Takes the time on the core off the average.
    fn settle(&mut self) {
        let ran = std::mem::take(&mut self.ran).min(SLEEP_MAX);
        self.sleep_avg = self.sleep_avg.saturating_sub(ran / self.bonus().max(1));
    }

    fn wake(&mut self, uninterruptible: bool, now: Instant) {
        let slept = now.since(self.slept_at).as_nanos().min(SLEEP_MAX);
        let limited = uninterruptible && !self.kernel;
        let ceiling = if limited { SLEEP_FOR_DEVICES_MAX } else { SLEEP_MAX };
        let risen = (self.sleep_avg + slept).min(ceiling);
        // A task that is above the limit already stays there.
        self.sleep_avg = self.sleep_avg.max(risen);
        self.priority = self.effective();
    }
}

impl Array {
    fn push_back(&mut self, runner: Runner, priority: u64) {
        self.len += 1;
        self.queue(priority).push_back(runner);
    }

    fn push_front(&mut self, runner: Runner, priority: u64) {
        self.len += 1;
        self.queue(priority).push_front(runner);
    }

    fn pop(&mut self) -> Option<Runner> {
        let runner = self.queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.len -= 1;
        Some(runner)
    }

    fn queue(&mut self, priority: u64) -> &mut VecDeque<Runner> {
        &mut self.queues[(priority + BONUS_MAX - PRIORITY_WORST) as usize]
    }
}

#[cfg(test)]
mod tests;
