//! One task that asks again as soon as it has been answered, a device, and other tasks that
//! compute.

use alloc::boxed::Box;

use super::{Class, Dispatch, Handling, Medium, Processor, Spec};
use crate::testing::Random;
use crate::time::{Duration, Instant};

/// A read of a page that a task waits for.
pub(super) const READ: Class = Class { write: false, bytes: 4096, ahead: false };

/// One request in a hundred takes five times as long.
pub(super) const TAIL: (u64, u64) = (1, 5);

/// How long the scheduler of [`Rivals::Shares`] remembers the behaviour of a task.
const MEMORY: u64 = 1_000_000_000;

/// The situation of the caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    /// The longest usual time of the device from each moment on.
    pub(super) times: &'a [(Instant, Duration)],
    /// This percentage of the requests takes this many times as long.
    pub(super) tail: (u64, u64),
    /// To another task and back.
    pub(super) switch: Duration,
    pub(super) programmed: bool,
    pub(super) rivals: Rivals,
}

/// The other tasks that need the processor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rivals {
    /// No other task.
    None,
    /// This many tasks besides the caller, each with the same share of the processor.
    Equal(u64),
    /// This many tasks. Once the scheduler knows that a task keeps the processor while the device
    /// works, it gives that task this many thousandths of the others' share.
    Shares(u64, u64),
}

/// A rule that always says the same.
#[derive(Debug)]
pub(super) struct Always(pub(super) Handling);

impl Dispatch for Always {
    fn choose(&mut self, _: Instant, _: &Class, _: Medium, _: Processor) -> Handling {
        self.0
    }
}

/// A rule as a user types it.
pub(super) fn rule(typed: &str) -> Box<dyn Dispatch> {
    Spec::parse(typed).unwrap().build()
}

/// Solid media with or without a transfer by the processor.
pub(super) fn solid(programmed: bool) -> Medium {
    Medium { programmed, ..Medium::default() }
}

/// The requests that are done until each of the `ends`, the earlier first.
pub(super) fn done<const N: usize>(
    rule: &mut (impl Dispatch + ?Sized),
    situation: &Situation<'_>,
    ends: [Instant; N],
) -> [u64; N] {
    let Situation { times, tail, switch, programmed, rivals } = *situation;
    let contended = !matches!(rivals, Rivals::None);
    let processor = Processor { switch, contended };
    let (mut random, mut now, mut known) = (Random(1), Instant::ZERO, 0_u64);
    let (mut done, mut past, mut counts) = (0, 0, [0; N]);
    loop {
        let usual = times.iter().rev().find(|(from, _)| *from <= now).map_or(0, |(_, time)| time.0);
        // Between seven and nine tenths of the longest, but for the tail.
        let draw = random.below(20_000);
        let body = usual * (70_000 + draw) / 100_000;
        let took = if draw < 200 * tail.0 { tail.1 * usual } else { body };
        let handling = rule.choose(now, &READ, solid(programmed), processor);
        let spun = match handling {
            Handling::Deferred => 0,
            Handling::Inline(limit) => took.min(limit.0),
        };
        let switched = if spun < took { switch.0 } else { 0 };
        let busy = spun + switched;
        now += Duration(match rivals {
            Rivals::None => took + switched,
            Rivals::Equal(tasks) => (busy * tasks).max(took + switched),
            Rivals::Shares(tasks, part) => {
                let share = (1_000 * (MEMORY - known) + part * known) / MEMORY;
                let wall = (took + switch.0) * tasks * 1_000 / share;
                known = match spun {
                    0 => known.saturating_sub(wall),
                    1.. => (known + wall).min(MEMORY),
                };
                wall
            }
        });
        while now > ends[past] {
            counts[past] = done;
            past += 1;
            if past == N {
                return counts;
            }
        }
        rule.learn(now, &READ, handling, Duration(took));
        done += 1;
    }
}

/// How much less `typed` gets done than the better of the two fixed rules until each of the `ends`:
/// hundredths of a percent.
pub(super) fn lost<const N: usize>(
    typed: &str,
    situation: &Situation<'_>,
    ends: [Instant; N],
) -> [u64; N] {
    let fixed = |handling| done(&mut Always(handling), situation, ends);
    let (deferred, inline) = (fixed(Handling::Deferred), fixed(Handling::INLINE));
    let own = done(&mut *rule(typed), situation, ends);
    core::array::from_fn(|end| {
        let better = deferred[end].max(inline[end]);
        better.saturating_sub(own[end]) * 10_000 / better.max(1)
    })
}
