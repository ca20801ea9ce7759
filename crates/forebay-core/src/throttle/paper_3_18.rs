//! Linux 3.18 as a paper describes it: writers sleep until much has been written.
//!
//! Source:     J. Oh, Y. Won, "The effect of Linux I/O throttling on user write latency",
//!             sections 2.1 and 2.2 with their pseudo code.
//! Behaviour:  after every 32 pages that it made dirty a task sleeps as long as the dirty pages
//!             ask, and asks again, until the pause is below the floor. A pause grows in
//!             proportion from nothing halfway between background and limit to 200 ms at the
//!             limit.
//! Differs:    the paper gives neither the rule of the pause nor the number of pages between two
//!             checks. It names a floor of 20 ms in its text and 10 ms in its pseudo code. A
//!             device's pages are scaled by its share of the completions, as the kernel's limit of
//!             a device is; a device that has completed nothing counts by the level of all.
//! Not for:    latency: a writer also waits until the pages of other writers have been written.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::share::{Fraction, Shares};
use super::{DirtyView, Policy, Throttle};
use crate::policy::Parameter;
use crate::time::Duration;
use crate::units::CallId;
use crate::writeback::background_below;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "paper-3.18",
    summary: "sleeps of up to 200 ms until the required sleep is below the floor",
    source: "Oh and Won's description of Linux 3.18",
    parameters: &[
        Parameter {
            name: "check",
            default: 32,
            low: 1,
            high: 1 << 20,
            summary: "pages that a task makes dirty between two checks",
        },
        Parameter {
            name: "floor",
            default: 10,
            low: 1,
            high: 200,
            summary: "the shortest pause, in ms: 10 in the paper's code, 20 in its text",
        },
    ],
    build: |values| {
        Box::new(Paper318 {
            check: values.of("check"),
            floor: Duration::from_millis(values.of("floor")),
            shares: Shares::new(),
            dirtied: Vec::new(),
        })
    },
};

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Paper318 {
    check: u64,
    floor: Duration,
    shares: Shares,
    /// Pages that each task has made dirty since its last check.
    dirtied: Vec<u64>,
}

impl Throttle for Paper318 {
    fn on_dirtied(&mut self, task: CallId, view: &DirtyView) -> Option<Duration> {
        if !view.again {
            if self.dirtied.len() <= task.index() {
                self.dirtied.resize(task.index() + 1, 0);
            }
            let dirtied = &mut self.dirtied[task.index()];
            *dirtied += u64::from(view.newly);
            if *dirtied < self.check {
                return None;
            }
            *dirtied = 0;
        }
        let share = self.shares.observe(view);
        // Below the background level nothing is written that a writer could wait for.
        if view.all.unsafe_pages() <= background_below(view.background, view.limit) {
            return None;
        }
        let level = level(view, share);
        let pause = pause(level, view.background, view.limit);
        (pause >= self.floor).then_some(pause)
    }
}

/// The dirty pages that count: those of all devices, or the device's as if it were the only one.
fn level(view: &DirtyView, share: Fraction) -> u64 {
    let all = view.all.unsafe_pages();
    if share.is_nothing() { all } else { all.max(share.whole(view.own.unsafe_pages())) }
}

/// The pause at `dirty` pages, up to a millionth of a millisecond.
fn pause(dirty: u64, background: u64, limit: u64) -> Duration {
    let background = background_below(background, limit);
    let from = background + (limit - background) / 2;
    if dirty <= from {
        return Duration::ZERO;
    }
    if dirty >= limit {
        return PAUSE_MAX;
    }
    let part = u128::from(dirty - from) * u128::from(PAUSE_MAX.as_nanos());
    Duration((part / u128::from(limit - from)) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use super::super::testing::{LIMIT, view};
    use super::*;

    fn asked(spec: &str, dirty: u64) -> Option<u64> {
        let mut policy = Spec::parse(spec).unwrap().build();
        let mut view = view(0, dirty);
        view.again = true;
        policy.on_dirtied(CallId(0), &view).map(Duration::as_nanos)
    }

    #[test]
    fn the_pause_grows_from_halfway_to_the_limit() {
        assert_eq!(asked("paper-3.18", 24_576), None);
        assert_eq!(asked("paper-3.18", 24_985), None);
        assert_eq!(pause(24_985, 16_384, LIMIT).as_nanos() / 10_000, 998);
        assert_eq!(asked("paper-3.18", 25_000).map(|nanos| nanos / 10_000), Some(1_035));
        assert_eq!(asked("paper-3.18", 26_624), Some(50_000_000));
        assert_eq!(asked("paper-3.18", 28_672), Some(100_000_000));
        assert_eq!(asked("paper-3.18", LIMIT), Some(200_000_000));
        assert_eq!(asked("paper-3.18", 2 * LIMIT), Some(200_000_000));
    }

    #[test]
    fn the_floor_of_the_papers_text_lets_more_through() {
        assert_eq!(asked("paper-3.18:floor=20", 25_000), None);
        assert!(asked("paper-3.18:floor=20", 26_624).is_some());
    }

    #[test]
    fn a_task_is_checked_after_its_own_new_pages() {
        let mut policy = Spec::parse("paper-3.18:check=3").unwrap().build();
        let full = view(0, LIMIT);
        let same = DirtyView { newly: false, ..full };
        let mut asks = |task, view| policy.on_dirtied(CallId(task), view).is_some();
        assert!(!asks(0, &full) && !asks(0, &full) && !asks(1, &full));
        assert!(!asks(0, &same), "a page that was dirty does not count");
        assert!(asks(0, &full) && !asks(0, &full));
    }

    #[test]
    fn a_task_sleeps_until_the_level_has_fallen() {
        let mut policy = Spec::parse("paper-3.18").unwrap().build();
        let mut again = |dirty| {
            let view = DirtyView { again: true, ..view(0, dirty) };
            policy.on_dirtied(CallId(0), &view).is_some()
        };
        assert!(again(LIMIT) && again(28_000) && again(25_000) && !again(24_900));
    }

    #[test]
    fn a_device_above_its_share_counts_as_if_it_were_alone() {
        let mut policy = Spec::parse("paper-3.18").unwrap().build();
        let mut view = DirtyView { again: true, ..view(0, 20_000) };
        (view.all.written, view.own.written) = (39_999, 10_000);
        view.own.dirty = 7_168;
        let nanos = policy.on_dirtied(CallId(0), &view).unwrap().as_nanos();
        assert_eq!(nanos, 100_000_000, "a quarter of the completions: 28672 pages");
    }
}
