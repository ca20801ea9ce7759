//! Limits as seconds of measured drain.
//!
//! Source:     Forebay, for the daemon as for the simulator; a fifth of memory is the
//!             dirty_ratio of Linux.
//! Behaviour:  limit and background level are the amounts that the devices write in a given time,
//!             at the measured drain, within bounds. Until a drain is measured, the limit is a
//!             modest amount, with an eighth of it in flight. Pages in flight are the amount that
//!             the slowest device writes in a given time at its best drain. A drain measured while
//!             readers compete must not shrink the queue: this would leave the device to the
//!             readers and shrink the drain further. The best drain decays by a 64th at every
//!             sample. Levels change only by more than a tenth; a limit falls no faster than the
//!             dirty pages.
//! Differs:    nothing.
//! Not for:    several devices of very different speed: they share one limit, and the pages in
//!             flight are those of the slowest, which may be too few for the others.
//!
//! What a share of memory means depends on the machine: a fifth of 64 GiB is 14 s of a disk that
//! writes 1 GB/s and 23 minutes of one that writes 10 MB/s. What users notice is time: how long a
//! sync takes, how much work a crash can cost, how long a read stands behind writes. Seconds of
//! drain are such a time, so the same number of milliseconds means the same on every machine, and
//! follows the device when it becomes slower.
//!
//! ```text
//!   0 ... background_ms * B ............. limit_ms * B        B: pages a second of all devices
//!         |  floor <= limit <= cap, a fifth of memory  |
//! ```

use alloc::boxed::Box;

use super::pages::{self, MIB_PAGES};
use super::{Controller, Policy, Sample};
use crate::policy::{Parameter, Values};
use crate::writeback::{Amount, Knobs};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "drain",
    summary: "limits as seconds of the devices' measured write rate",
    source: "Forebay",
    parameters: &[
        Parameter::new("limit_ms", 1_000, (10, 600_000), "drain in ms above which writers wait"),
        Parameter::new(
            "background_ms",
            0,
            (0, 600_000),
            "drain in ms above which pages are written",
        ),
        Parameter::new(
            "queue_ms",
            50,
            (0, 10_000),
            "drain in ms at a device; 0 leaves it to its queue",
        ),
        Parameter::new(
            "floor_mib",
            32,
            (1, 1 << 20),
            "least limit in MiB, but for a fifth of memory",
        ),
        Parameter::new("cap_mib", 4_096, (1, 1 << 20), "greatest limit in MiB"),
        Parameter::new("start_mib", 128, (1, 1 << 20), "limit in MiB until a drain is measured"),
    ],
    build: |values| Box::new(Follow::new(values)),
};

/// The fewest pages in flight, one request of 128 KiB: a device with less has nothing to merge.
const IN_FLIGHT_MIN: u64 = 32;

/// Why the values cannot stand side by side.
pub(super) fn contradiction(values: &Values<'_>) -> Option<&'static str> {
    if values.of("background_ms") >= values.of("limit_ms") {
        Some("background_ms must lie below limit_ms")
    } else if values.of("floor_mib") > values.of("cap_mib") {
        Some("floor_mib must not lie above cap_mib")
    } else {
        None
    }
}

#[derive(Debug)]
struct Follow {
    limit_ms: u64,
    background_ms: u64,
    queue_ms: u64,
    /// In pages, as the others.
    floor: u64,
    cap: u64,
    start: u64,
    /// The greatest drain of the slowest device, slowly forgotten.
    best: u64,
}

impl Follow {
    fn new(values: &Values<'_>) -> Self {
        Self {
            limit_ms: values.of("limit_ms"),
            background_ms: values.of("background_ms"),
            queue_ms: values.of("queue_ms"),
            floor: values.of("floor_mib") * MIB_PAGES,
            cap: values.of("cap_mib") * MIB_PAGES,
            start: values.of("start_mib") * MIB_PAGES,
            best: 0,
        }
    }

    fn limit(&self, drain: u64, total: u64) -> u64 {
        pages::bounded(pages::drained(drain, self.limit_ms), self.floor, total, self.cap)
    }

    fn in_flight(&mut self, slowest: Option<u64>) -> Option<u64> {
        self.best = (self.best - self.best / 64).max(slowest?);
        let wanted = pages::drained(self.best, self.queue_ms).max(IN_FLIGHT_MIN);
        (self.queue_ms > 0).then_some(wanted)
    }
}

impl Controller for Follow {
    fn begin(&mut self, own: Knobs, total: u64) -> Knobs {
        let limit = pages::bounded(self.start, self.floor, total, self.cap);
        // The background level is to the limit as their times are to each other.
        let background = u128::from(limit) * u128::from(self.background_ms);
        let background = (background / u128::from(self.limit_ms)) as u64;
        Knobs {
            limit: Amount::Pages(limit),
            background: Amount::Pages(background.min(limit / 2)),
            // Enough for a fast device, and not all that a slow one would take a second for.
            in_flight: (self.queue_ms > 0).then_some((limit / 8).max(IN_FLIGHT_MIN)),
            ..own
        }
    }

    fn observe(&mut self, samples: &[Sample], knobs: Knobs) -> Knobs {
        let Some(drain) = pages::drain(samples) else { return knobs };
        let slowest = samples.iter().filter_map(|sample| sample.drain).min();
        let target = self.limit(drain, pages::total(samples));
        let limit = pages::lead(knobs.limit, target, pages::dirty(samples));
        let background = pages::drained(drain, self.background_ms);
        let background = match knobs.background {
            Amount::Pages(old) if !pages::moves(old, background) => old,
            Amount::Pages(_) | Amount::Share(_) => background,
        };
        let in_flight = match (knobs.in_flight, self.in_flight(slowest)) {
            (Some(old), Some(new)) if !pages::moves(old, new) => Some(old),
            (_, new) => new,
        };
        // A bounded limit may be less than the requested time.
        let background = Amount::Pages(background.min(limit / 2));
        Knobs { limit: Amount::Pages(limit), background, in_flight, ..knobs }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::super::{Sample, Spec};
    use super::*;

    /// Memory of 1 GiB.
    const TOTAL: u64 = 262_144;

    fn measured(drain: Option<u64>, dirty: u64) -> Sample {
        Sample { drain, dirty, total: TOTAL, ..Sample::default() }
    }

    fn observed(spec: &str, samples: &[Sample]) -> Knobs {
        let mut controller = Spec::parse(spec).unwrap().build();
        let begun = controller.begin(Knobs::LINUX, TOTAL);
        controller.observe(samples, begun)
    }

    #[test]
    fn it_begins_modestly_until_a_drain_is_known() {
        let mut controller = Spec::parse("drain").unwrap().build();
        let begun = controller.begin(Knobs::LINUX, TOTAL);
        let expected = Knobs {
            limit: Amount::Pages(32_768),
            background: Amount::Pages(0),
            in_flight: Some(4_096),
            ..Knobs::LINUX
        };
        assert_eq!(begun, expected, "128 MiB, whatever the device does");
        assert_eq!(controller.observe(&[measured(None, 0)], begun), begun);
    }

    #[test]
    fn the_limit_is_a_time_of_all_devices_and_the_queue_one_of_the_slowest() {
        let samples = [measured(Some(20_000), 0), measured(None, 0), measured(Some(4_000), 0)];
        let knobs = observed("drain", &samples);
        assert_eq!(knobs.limit, Amount::Pages(24_000));
        assert_eq!(knobs.in_flight, Some(200));
        let knobs = observed("drain:limit_ms=2000,background_ms=500,queue_ms=0", &samples);
        assert_eq!(knobs.limit, Amount::Pages(48_000));
        assert_eq!(knobs.background, Amount::Pages(12_000));
        assert_eq!(knobs.in_flight, None);
    }

    #[test]
    fn floor_memory_and_cap_bound_the_limit() {
        let limit = |spec, drain| observed(spec, &[measured(Some(drain), 0)]).limit;
        assert_eq!(limit("drain", 100), Amount::Pages(8_192), "32 MiB");
        assert_eq!(limit("drain", 1_000_000), Amount::Pages(TOTAL / 5));
        assert_eq!(limit("drain:cap_mib=64", 1_000_000), Amount::Pages(16_384));
        assert_eq!(limit("drain:floor_mib=1000", 1), Amount::Pages(TOTAL / 5));
        assert_eq!(observed("drain", &[measured(Some(1), 0)]).in_flight, Some(32));
        let knobs = observed("drain:background_ms=999", &[measured(Some(1_000_000), 0)]);
        assert_eq!(knobs.background, Amount::Pages(TOTAL / 10), "half of a bounded limit");
    }

    #[test]
    fn small_changes_are_left_alone_and_a_limit_falls_with_the_dirty_pages() {
        let mut controller = Spec::parse("drain").unwrap().build();
        let mut knobs = controller.begin(Knobs::LINUX, TOTAL);
        let mut then = |drain, dirty| {
            knobs = controller.observe(&[measured(Some(drain), dirty)], knobs);
            (knobs.limit, knobs.in_flight)
        };
        assert_eq!(then(40_000, 0), (Amount::Pages(40_000), Some(2_000)));
        assert_eq!(then(36_000, 0), (Amount::Pages(40_000), Some(2_000)));
        assert_eq!(then(44_000, 0), (Amount::Pages(40_000), Some(2_000)));
        assert_eq!(then(20_000, 30_000), (Amount::Pages(30_000), Some(2_000)));
        assert_eq!(then(20_000, 24_000), (Amount::Pages(24_000), Some(2_000)));
        assert_eq!(then(20_000, 18_000), (Amount::Pages(20_000), Some(2_000)));
        (0..44).for_each(|_| {
            then(20_000, 18_000);
        });
        assert_eq!(then(20_000, 18_000).1, Some(1_033), "half of the best is forgotten in 44 s");
    }

    #[test]
    fn a_background_time_that_is_not_below_the_limit_is_rejected() {
        let message = |text| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("drain:background_ms=1000"),
            "the policy 'drain': background_ms must lie below limit_ms"
        );
        assert_eq!(
            message("drain:cap_mib=16"),
            "the policy 'drain': floor_mib must not lie above cap_mib"
        );
    }
}
