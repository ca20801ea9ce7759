//! Every request is executed in the context of the caller.
//!
//! Source:     K. Lee, "The selective context switch for the storage which has no latency", Hanyang
//!             University (in Korean): a device that is marked as fast when it is set up.
//! Behaviour:  requests of reads and writes go to the device at once, without plug, merging or
//!             elevator, and the caller keeps the processor until they complete.
//! Differs:    the mark may be a mistake: a class of requests of which one in ten takes longer than
//!             50 switches is deferred, until one in ten takes no longer than 25. Where the
//!             processor moves the data itself, no request is.
//! Not for:    devices whose time another task could use.

use alloc::boxed::Box;

use super::overlap::{Classes, Histogram, SAMPLES_MIN};
use super::{Class, Dispatch, Handling, Medium, Policy, Processor};
use crate::time::{Duration, Instant};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "inline",
    summary: "The caller keeps the processor until the device is done.",
    source: "K. Lee, selective context switch",
    parameters: &[],
    build: |_| Box::new(Inline { classes: Classes::new() }),
};

/// A class is slow when one in ten requests takes more switches than the first, and fast again
/// below the second.
const SLOW: (u64, u64) = (50, 25);

#[derive(Debug)]
struct Inline {
    classes: Classes<Seen>,
}

/// What a class has shown.
#[derive(Debug)]
struct Seen {
    times: Histogram,
    /// Samples since the class was evaluated.
    fresh: u32,
    slow: bool,
}

impl Dispatch for Inline {
    fn choose(
        &mut self,
        _: Instant,
        class: &Class,
        medium: Medium,
        processor: Processor,
    ) -> Handling {
        if medium.programmed {
            return Handling::INLINE;
        }
        let seen = self.classes.of(class, Seen::new);
        if seen.fresh >= SAMPLES_MIN {
            seen.judge(processor.switch);
        }
        if seen.slow { Handling::Deferred } else { Handling::INLINE }
    }

    fn learn(&mut self, _: Instant, class: &Class, _: Handling, took: Duration) {
        let seen = self.classes.of(class, Seen::new);
        seen.times.add(took);
        seen.fresh = seen.fresh.saturating_add(1);
    }

    fn slow_classes(&self) -> u32 {
        u32::try_from(self.classes.iter().filter(|seen| seen.slow).count()).unwrap_or(u32::MAX)
    }
}

impl Seen {
    fn new() -> Self {
        Self { times: Histogram::new(), fresh: 0, slow: false }
    }

    /// Without a cost of switches nothing is slow compared with it.
    fn judge(&mut self, switch: Duration) {
        self.fresh = 0;
        let late = self.times.quantile(90);
        self.slow = match self.slow {
            _ if switch == Duration::ZERO => false,
            false => late > switch.times(SLOW.0),
            true => late >= switch.times(SLOW.1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::MediumKind;
    use super::super::testing::{READ, rule, solid};
    use super::*;

    const SWITCH: Duration = Duration::from_micros(10);

    fn run(rule: &mut dyn Dispatch, medium: Medium, samples: u32, us: u64) -> Handling {
        let processor = Processor { switch: SWITCH, contended: true };
        for _ in 0..samples {
            let handling = rule.choose(Instant::ZERO, &READ, medium, processor);
            rule.learn(Instant::ZERO, &READ, handling, Duration::from_micros(us));
        }
        rule.choose(Instant::ZERO, &READ, medium, processor)
    }

    #[test]
    fn a_device_that_was_marked_as_fast_and_is_slow_is_noticed_and_believed_again() {
        for kind in [MediumKind::Solid, MediumKind::Rotating, MediumKind::Remote] {
            let medium = Medium { kind, programmed: false };
            let mut rule = rule("inline");
            assert_eq!(run(&mut *rule, medium, 31, 501), Handling::INLINE);
            assert_eq!(run(&mut *rule, medium, 1, 501), Handling::Deferred);
            assert_eq!(rule.slow_classes(), 1);
            assert_eq!(run(&mut *rule, medium, 16_384, 250), Handling::Deferred);
            assert_eq!(run(&mut *rule, medium, 16_384, 249), Handling::INLINE);
            assert_eq!(run(&mut *rule, medium, 16_384, 500), Handling::INLINE);
            assert_eq!(rule.slow_classes(), 0);
        }
    }

    #[test]
    fn a_transfer_by_the_processor_is_always_inline() {
        let mut rule = rule("inline");
        assert_eq!(run(&mut *rule, solid(true), 1_000, 1_000_000), Handling::INLINE);
        assert_eq!(rule.slow_classes(), 0);
    }

    #[test]
    fn without_a_cost_of_switches_nothing_is_slow() {
        let mut rule = rule("inline");
        for _ in 0..100 {
            let handling = rule.choose(Instant::ZERO, &READ, solid(false), Processor::default());
            assert_eq!(handling, Handling::INLINE);
            rule.learn(Instant::ZERO, &READ, handling, Duration::from_secs(1));
        }
    }
}
