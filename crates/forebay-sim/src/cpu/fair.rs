//! Each runner gets a share of the processor that follows its weight.
//!
//! Source:     Linux 2.6.36 to 6.5, kernel/sched/fair.c: the rule of 2.6.23 with the lengths that
//!             2.6.36 has come to.
//! Behaviour:  a runner's virtual time advances while it has a core, the slower the greater its
//!             weight; the one furthest behind runs next. In a period of 6 ms, or 0.75 ms a runner
//!             if that is more, each has a slice by its weight, of 0.75 ms at least (as from 5.12
//!             on). A woken runner is placed at most half a period behind the least virtual time.
//!             It preempts a runner that is more than 1 ms of its own virtual time ahead. All three
//!             lengths are multiplied by 1 and the logarithm of the number of cores, up to 8.
//! Differs:    one queue for all cores, and exact time instead of ticks. A driver's thread runs on
//!             the virtual time of the caller whose request it handles, so that handing work over
//!             changes no share. A new runner begins at the least virtual time. Groups and buddies
//!             are left out.
//! Not for:    machines of many cores: the kernel balances queues there.

use std::collections::BTreeSet;

use forebay_core::time::{Duration, Instant};

use super::{Arrival, RunQueue, Runner, Seats};

/// A period on one core, in nanoseconds.
const LATENCY: u64 = 6_000_000;

/// The least part of a period on one core, in nanoseconds.
const GRANULARITY: u64 = 750_000;

/// How far behind a runner that is woken must be on one core, in nanoseconds.
const WAKEUP_GRANULARITY: u64 = 1_000_000;

/// The usual weight.
const WEIGHT: u64 = 1024;

/// Units of virtual time in a nanosecond of the usual weight.
const UNITS: u128 = 1 << 20;

#[derive(Debug)]
pub(super) struct Fair {
    seats: Seats<Entity>,
    queue: BTreeSet<Key>,
    on_cores: Vec<Runner>,
    /// The weights of all that run or wait.
    load: u64,
    /// The least virtual time of those, which never decreases.
    least: u128,
    sequence: u64,
    /// 1 and the logarithm of the number of cores.
    factor: u64,
}

/// Virtual time, and a sequence number for ties.
type Key = (u128, u64, Runner);

#[derive(Clone, Copy, Debug)]
struct Entity {
    /// Virtual time.
    virtual_time: u128,
    weight: u64,
    /// The runner whose virtual time advances while this one has a core.
    payer: Runner,
    /// Time on a core since it was picked.
    ran: u64,
    /// Its place in the queue.
    key: Option<Key>,
}

impl Fair {
    pub(super) fn new(devices: usize, cores: u32) -> Self {
        let new =
            |runner| Entity { virtual_time: 0, weight: WEIGHT, payer: runner, ran: 0, key: None };
        Self {
            seats: Seats::new(devices, new),
            queue: BTreeSet::new(),
            on_cores: Vec::new(),
            load: 0,
            least: 0,
            sequence: 0,
            factor: 1 + u64::from(cores.clamp(1, 8).ilog2()),
        }
    }

    /// The runner that pays for a runner's time.
    fn account(&self, runner: Runner) -> &Entity {
        self.seats.of(self.seats.of(runner).payer)
    }

    /// A runner that has been asleep, or is new, is not too far behind the others.
    fn catch_up(&mut self, runner: Runner, behind: u64) {
        let payer = self.seats.of(runner).payer;
        if self.seats.of(payer).key.is_none() && !self.on_cores.contains(&payer) {
            let least = self.least.saturating_sub(u128::from(behind) * UNITS);
            let account = self.seats.of_mut(payer);
            account.virtual_time = account.virtual_time.max(least);
        }
    }

    fn insert(&mut self, runner: Runner) {
        self.sequence += 1;
        let key = (self.account(runner).virtual_time, self.sequence, runner);
        self.queue.insert(key);
        self.seats.of_mut(runner).key = Some(key);
    }

    /// A runner leaves its core, if it is on one.
    fn leave_core(&mut self, runner: Runner) {
        if let Some(place) = self.on_cores.iter().position(|other| *other == runner) {
            self.on_cores.swap_remove(place);
            self.load = self.load.saturating_sub(self.account(runner).weight);
        }
    }

    fn advance_least(&mut self) {
        let running = self.on_cores.iter().map(|runner| self.account(*runner).virtual_time);
        let first = self.queue.first().map(|(time, ..)| *time);
        if let Some(least) = running.chain(first).min() {
            self.least = self.least.max(least);
        }
    }
}

impl RunQueue for Fair {
    fn enqueue(&mut self, runner: Runner, arrival: Arrival, _now: Instant) {
        self.leave_core(runner);
        // A new runner and its account have seats from here on.
        let payer = self.seats.of_mut(runner).payer;
        self.seats.of_mut(payer);
        match arrival {
            Arrival::New => self.catch_up(runner, 0),
            Arrival::Woken { .. } => self.catch_up(runner, LATENCY * self.factor / 2),
            Arrival::Preempted | Arrival::SliceOver => {}
        }
        self.load += self.account(runner).weight;
        self.insert(runner);
    }

    fn pick(&mut self, _now: Instant) -> Option<Runner> {
        let (_, _, runner) = self.queue.pop_first()?;
        let entity = self.seats.of_mut(runner);
        (entity.key, entity.ran) = (None, 0);
        self.on_cores.push(runner);
        self.advance_least();
        Some(runner)
    }

    fn pushes(&self, woken: Runner, running: Runner) -> Option<u64> {
        let (woken, running) = (self.account(woken), self.account(running));
        let ahead = running.virtual_time.saturating_sub(woken.virtual_time);
        let enough = u128::from(WAKEUP_GRANULARITY * self.factor) * UNITS;
        let enough = enough * u128::from(WEIGHT) / u128::from(woken.weight);
        (ahead > enough).then(|| u64::try_from(ahead / UNITS).unwrap_or(u64::MAX))
    }

    fn charge(&mut self, runner: Runner, from: Instant, to: Instant) {
        let ran = to.since(from).as_nanos();
        let entity = self.seats.of_mut(runner);
        entity.ran = entity.ran.saturating_add(ran);
        let payer = entity.payer;
        let account = self.seats.of_mut(payer);
        let weight = u128::from(account.weight);
        account.virtual_time += u128::from(ran) * UNITS * u128::from(WEIGHT) / weight;
        if let Some(key) = account.key {
            self.queue.remove(&key);
            self.insert(payer);
        }
        self.advance_least();
    }

    fn sleep(&mut self, runner: Runner, _now: Instant) {
        self.leave_core(runner);
        self.advance_least();
    }

    fn slice_end(&self, runner: Runner, charged: Instant) -> Option<Instant> {
        if self.queue.is_empty() {
            return None;
        }
        let runners = (self.queue.len() + self.on_cores.len()) as u64;
        let period = LATENCY.max(GRANULARITY.saturating_mul(runners));
        let period = u128::from(period.saturating_mul(self.factor));
        let slice = period * u128::from(self.account(runner).weight) / u128::from(self.load.max(1));
        let slice = u64::try_from(slice).unwrap_or(u64::MAX).max(GRANULARITY * self.factor);
        Some(charged + Duration(slice.saturating_sub(self.seats.of(runner).ran)))
    }

    fn serve(&mut self, driver: Runner, payer: Runner) {
        self.seats.of_mut(payer);
        let was = self.account(driver).weight;
        self.seats.of_mut(driver).payer = payer;
        if self.on_cores.contains(&driver) {
            self.load = self.load.saturating_sub(was) + self.account(driver).weight;
        }
    }

    fn set_weight(&mut self, runner: Runner, weight: u32) {
        let weight = u64::from(weight.max(1));
        let entity = self.seats.of_mut(runner);
        let was = std::mem::replace(&mut entity.weight, weight);
        if entity.key.is_some() || self.on_cores.contains(&runner) {
            self.load = self.load.saturating_sub(was) + weight;
        }
    }
}

#[cfg(test)]
mod tests;
