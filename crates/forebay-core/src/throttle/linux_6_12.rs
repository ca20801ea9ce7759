//! Linux 6.12: as 3.18, with pauses that end at ticks and a bandwidth that is learnt less often.
//!
//! Source:     Linux 6.12, mm/page-writeback.c (balance_dirty_pages, __wb_update_bandwidth);
//!             kernel/time/timer.c (calc_index) for the length of a sleep.
//! Behaviour:  as `linux-3.18`. A sleep ends at a tick, one jiffy after its requested length, and
//!             at a multiple of eight jiffies from 63 on; the writer has paid only for the
//!             requested length. Bandwidth and rates are measured when more than 200 ms have
//!             passed, by a writer that is held; below the middle nothing is measured. A device
//!             counts as exceeded until a held writer finds that it is not.
//! Differs:    as `linux-3.18`. The flusher updates the bandwidth too, at the end of a chunk and
//!             200 ms after the last page of a file has arrived, and starts afresh at a device that
//!             was idle for a second; that is not seen. Writers whose pauses end at one tick go on
//!             in the order of their calls, not in the reverse one.
//! Not for:    as `linux-3.18`.

use alloc::boxed::Box;

use super::Policy;
use super::linux_3_18::{BalanceDirtyPages, PARAMETERS, Release};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6.12",
    summary: "Linux 6.12: as 3.18, with pauses that end at ticks",
    source: "Linux 6.12",
    parameters: &PARAMETERS,
    build: |values| Box::new(BalanceDirtyPages::new(values, Release::V6_12)),
};

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use super::super::testing::{BACKGROUND, LIMIT, view};
    use super::super::{DirtyView, Spec, Throttle};
    use super::*;
    use crate::time::Duration;
    use crate::units::CallId;

    const BOTH: [&str; 2] = ["linux-3.18", "linux-6.12"];

    fn policy(spec: &str) -> Box<dyn Throttle> {
        Spec::parse(spec).unwrap().build()
    }

    /// What a new task gets at its 32nd page, the first one that is checked.
    fn check(policy: &mut dyn Throttle, task: u32, view: &DirtyView) -> Option<Duration> {
        (0..32).filter_map(|_| policy.on_dirtied(CallId(task), view)).last()
    }

    #[test]
    fn a_pause_ends_at_the_tick_after_it_has_lasted() {
        let pauses =
            |millis| BOTH.map(|name| check(&mut *policy(name), 0, &view(millis, LIMIT)).unwrap());
        // 41 jiffies of 4 ms: from within jiffy 500 until the tick of 542.
        assert_eq!(pauses(2_001), [164, 167].map(Duration::from_millis));
        assert_eq!(pauses(2_000), [164, 168].map(Duration::from_millis));
    }

    #[test]
    fn pages_that_were_dirtied_again_on_their_way_count_twice() {
        let mut full = view(2_000, (LIMIT + BACKGROUND) / 2);
        for levels in [&mut full.all, &mut full.own] {
            levels.writeback = levels.dirty;
            levels.dirty = 0;
            levels.redirtied = LIMIT - levels.writeback;
        }
        let held = BOTH.map(|name| check(&mut *policy(name), 0, &full).is_some());
        assert_eq!(held, [false, true]);
    }

    #[test]
    fn the_device_is_looked_at_when_more_than_200_ms_have_passed_and_a_writer_is_held() {
        let stamp = |policy: &dyn Throttle| -> String {
            let state = format!("{policy:?}");
            let (_, from) = state.split_once("stamp: ").unwrap();
            from.split(',').next().unwrap().into()
        };
        for (dirty, writeback, millis, learnt) in [
            (LIMIT, 0, 200, [true, false]),
            (LIMIT, 0, 204, [true, true]),
            (0, BACKGROUND, 204, [true, false]),
        ] {
            let found = BOTH.map(|name| {
                let mut policy = policy(name);
                check(&mut *policy, 0, &view(0, 0));
                let before = stamp(&*policy);
                let mut later = view(millis, dirty);
                later.own.writeback = writeback;
                check(&mut *policy, 1, &later);
                stamp(&*policy) != before
            });
            assert_eq!(found, learnt, "{dirty} {millis}");
        }
    }

    #[test]
    fn a_device_is_above_its_limit_until_a_held_writer_finds_that_it_is_not() {
        // Every task is checked after 8 pages while it is; after 32 otherwise.
        let checks = BOTH.map(|name| {
            let mut policy = policy(name);
            let mut above = view(2_000, LIMIT + 1);
            above.own.written = 1;
            above.all.written = 1_000;
            check(&mut *policy, 0, &above);
            // A writer that is free sees the middle; the next one is held again.
            for _ in 0..32 {
                policy.on_dirtied(CallId(1), &view(2_001, BACKGROUND));
            }
            (0..32).position(|_| policy.on_dirtied(CallId(2), &view(2_002, LIMIT)).is_some())
        });
        assert_eq!(checks, [Some(31), Some(7)]);
    }
}
