//! Decides how an access is executed: cached data at once, the rest by the rule.
//!
//! ```text
//!   likely in memory   pread, one in sixteen timed        nothing else: it costs as much as pread
//!   likely not         the rule `adaptive` of the core
//!                        inline    submit to the ring, look for the end up to the rule's limit
//!                        deferred  pread, which sleeps
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_core::dispatch::{Class, Dispatch, Handling, Spec};
use forebay_core::time;

use super::medium::Device;
use crate::processor::{self, Watch};

/// Decides about the waits of one file or queue.
pub(super) struct Judge {
    rule: Box<dyn Dispatch>,
    device: Device,
    watch: Watch,
    clock: Clock,
}

/// The clock of the rule. Rules compare the work done per time, so the clock stops while the caller
/// issues no accesses.
#[derive(Debug)]
struct Clock {
    at: Duration,
    last: Instant,
}

impl Judge {
    pub(super) fn new(device: Device) -> Self {
        let rule = Spec::parse(RULE).expect("the core has the rule").build();
        let clock = Clock { at: Duration::ZERO, last: Instant::now() };
        Self { rule, device, watch: Watch::new(), clock }
    }

    /// How to wait for an access, if it has to wait, and the time at which it was issued.
    pub(super) fn choose(&mut self, class: &Class) -> (Instant, Handling) {
        // Measured before the access begins, or the first one would seem to take as long.
        processor::costs();
        let now = Instant::now();
        let processor = self.watch.processor(now);
        let at = self.clock.asked(now);
        (now, self.rule.choose(at, class, self.device.medium(), processor))
    }

    /// An access at `offset` was waited for since `begin`.
    pub(super) fn learn(&mut self, begin: Instant, offset: u64, class: &Class, how: Handling) {
        let now = Instant::now();
        let took = now.saturating_duration_since(begin);
        self.device.learn(offset, class.bytes as usize, took);
        let took = time::Duration(processor::nanos(took));
        let at = self.clock.answered(now);
        self.rule.learn(at, class, how, took);
    }
}

impl Clock {
    /// A caller issues an access.
    fn asked(&mut self, now: Instant) -> time::Instant {
        let gap = now.saturating_duration_since(self.last);
        self.go_on(now, if gap > PAUSE { Duration::ZERO } else { gap })
    }

    /// An access has ended.
    fn answered(&mut self, now: Instant) -> time::Instant {
        self.go_on(now, now.saturating_duration_since(self.last))
    }

    fn go_on(&mut self, now: Instant, by: Duration) -> time::Instant {
        self.last = self.last.max(now);
        self.at += by;
        time::Instant(processor::nanos(self.at))
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge({:?}, {:?})", self.rule, self.device.medium())
    }
}

/// How likely bytes are in memory, by the size of the access. Threads share it without a lock: an
/// update that is lost is one sample less.
#[derive(Debug)]
pub(super) struct Hits {
    sizes: [Size; SIZES],
}

#[derive(Debug)]
struct Size {
    /// In [`SURE`]ths.
    likely: AtomicU32,
    count: AtomicU32,
}

/// Whether bytes are likely in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// They are, and it need not be seen whether this is still so.
    Hit,
    /// They are, and this access tells whether it is still so.
    HitToSee,
    /// They are not.
    Miss,
    /// They are not, and this access tells whether it is still so.
    MissToSee,
}

impl Hits {
    pub(super) fn new() -> Self {
        let size = |_| Size { likely: AtomicU32::new(SURE), count: AtomicU32::new(0) };
        Self { sizes: std::array::from_fn(size) }
    }

    /// Whether `bytes` bytes are likely cached.
    pub(super) fn guess(&self, bytes: usize) -> Guess {
        let size = self.size(bytes);
        let likely = size.likely.load(Ordering::Relaxed);
        let count = size.count.load(Ordering::Relaxed).wrapping_add(1);
        size.count.store(count, Ordering::Relaxed);
        // After a sample against the guess the next accesses are checked too.
        if likely >= SURE / 2 {
            let look = count.is_multiple_of(HITS_SEEN) || likely < SURE * 7 / 8;
            if look { Guess::HitToSee } else { Guess::Hit }
        } else if count.is_multiple_of(MISSES_SEEN) || likely > SURE / 8 {
            Guess::MissToSee
        } else {
            Guess::Miss
        }
    }

    /// `bytes` bytes were cached, or were not.
    pub(super) fn learn(&self, bytes: usize, hit: bool) {
        let size = self.size(bytes);
        let likely = size.likely.load(Ordering::Relaxed);
        let seen = if hit { SURE } else { 0 };
        // Half of the old estimate stays: contents are cached and evicted by file, not by page.
        size.likely.store((likely + seen) / 2, Ordering::Relaxed);
    }

    /// Whether an access that took so long found all its bytes in memory: copying runs at 1 GB/s
    /// or more, and waiting costs a switch at the least.
    pub(super) fn is_hit(bytes: usize, took: Duration) -> bool {
        let copied = Duration::from_nanos(bytes as u64);
        // Most hits are as short as that, and then a switch need not have been measured.
        took < copied || took < copied + processor::costs().contended
    }

    fn size(&self, bytes: usize) -> &Size {
        &self.sizes[(usize::BITS - bytes.leading_zeros()) as usize % SIZES]
    }
}

/// The rule that decides. While processors are wanted it tries its ways in turn, each for a time in
/// which the scheduler hands a processor round some fifty times (Linux kernel/sched/fair.c, a base
/// slice of 3 ms) and even a slow disk does tens of accesses.
const RULE: &str = "adaptive:trial_ms=200";

/// A caller that takes longer between two accesses has other work. Other tasks hold the processor
/// for no longer than some milliseconds at a time, and their time counts.
const PAUSE: Duration = Duration::from_millis(20);

const SURE: u32 = 1 << 16;

const SIZES: usize = usize::BITS as usize;

/// Reading the clock twice takes a tenth of a short read, so one in this many reads is timed.
const HITS_SEEN: u32 = 16;

/// A look that finds nothing costs several times a hit, a fraction of a wait.
const MISSES_SEEN: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_while_nothing_is_asked_for() {
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        let mut clock = Clock { at: Duration::ZERO, last: begin };
        clock.asked(after(1));
        clock.answered(after(101));
        clock.asked(after(5_000));
        assert_eq!(clock.answered(after(5_002)), time::Instant(103_000_000));
    }

    #[test]
    fn some_misses_or_hits_in_a_row_turn_the_guess() {
        let hits = Hits::new();
        assert_eq!(hits.guess(4096), Guess::Hit);
        hits.learn(4096, false);
        hits.learn(4096, false);
        assert!(matches!(hits.guess(4096), Guess::MissToSee));
        (0..8).for_each(|_| hits.learn(4096, false));
        assert_eq!(hits.guess(4096), Guess::Miss);
        assert_eq!(hits.guess(64), Guess::Hit, "sizes are apart");
        (0..4).for_each(|_| hits.learn(4096, true));
        assert!(matches!(hits.guess(4096), Guess::HitToSee | Guess::Hit));
    }

    #[test]
    fn what_is_guessed_is_seen_now_and_then() {
        let hits = Hits::new();
        let seen = (0..160).filter(|_| hits.guess(1) == Guess::HitToSee).count();
        assert_eq!(seen, 10);
        (0..32).for_each(|_| hits.learn(1, false));
        let seen = (0..640).filter(|_| hits.guess(1) == Guess::MissToSee).count();
        assert_eq!(seen, 10);
    }
}
