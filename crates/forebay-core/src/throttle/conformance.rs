//! What every throttle of the table keeps, whatever it decides.

use std::vec::Vec;

use super::testing::{BACKGROUND, LIMIT};
use super::{DirtyView, Spec, Throttle};
use crate::testing::{Random, specs};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId};
use crate::writeback::Levels;

/// The longest pause before a task is checked again: 200 ms, and up to the tick after, which is 10
/// ms away at 100 jiffies a second.
const PAUSE_MAX: Duration = Duration::from_millis(210);

/// The questions of a stream.
const QUESTIONS: u64 = 800;

/// The tasks of a stream.
const TASKS: u32 = 5;

/// What the views of a stream are drawn from.
#[derive(Clone, Copy)]
struct Range {
    background: u64,
    limit: u64,
    /// The dirty pages of a device are below this.
    dirty: u64,
    /// The steps of time, in nanoseconds, are below this.
    step: u64,
    drain: Option<u64>,
}

const USUAL: Range = Range {
    background: BACKGROUND,
    limit: LIMIT,
    dirty: LIMIT,
    step: 3_000_000,
    drain: Some(10_000),
};

/// The answers to a stream of questions of tasks that are known by the numbers of `ids`.
fn answers(spec: &str, seed: u64, range: Range, ids: [u32; TASKS as usize]) -> Vec<Option<u64>> {
    let mut policy = Spec::parse(spec).unwrap().build();
    let mut random = Random(seed);
    let mut devices = [Levels::default(); 2];
    let mut paused = [false; TASKS as usize];
    let mut now = Instant::ZERO;
    let mut answers = Vec::new();
    for _ in 0..QUESTIONS {
        now += Duration(random.below(range.step.max(1)));
        let task = random.below(u64::from(TASKS)) as usize;
        let device = task % 2;
        let levels = &mut devices[device];
        levels.dirty = random.below(range.dirty.max(1)) / 2;
        levels.writeback = random.below(range.dirty.max(1)) / 2;
        levels.dirtied = levels.dirtied.saturating_add(random.below(range.dirty.max(2)) / 512);
        levels.written = levels.written.saturating_add(random.below(range.dirty.max(2)) / 512);
        let own = *levels;
        let sum = |part: fn(&Levels) -> u64| devices.iter().map(part).sum();
        let all = Levels {
            dirty: sum(|levels| levels.dirty),
            writeback: sum(|levels| levels.writeback),
            redirtied: sum(|levels| levels.redirtied),
            dirtied: sum(|levels| levels.dirtied / 2),
            written: sum(|levels| levels.written / 2),
        };
        let again = paused[task];
        let view = DirtyView {
            now,
            newly: !again && random.below(8) > 0,
            again,
            all,
            background: range.background,
            limit: range.limit,
            device: DeviceId(device as u32),
            own,
            drain: range.drain.filter(|_| random.below(4) > 0),
        };
        let pause = policy.on_dirtied(CallId(ids[task]), &view);
        if let Some(pause) = pause {
            assert!(pause > Duration::ZERO && pause <= PAUSE_MAX, "{spec}: {pause} at {view:?}");
        }
        paused[task] = pause.is_some();
        answers.push(pause.map(Duration::as_nanos));
    }
    answers
}

const SMALL: [u32; TASKS as usize] = [0, 1, 2, 3, 4];

#[test]
fn the_same_questions_have_the_same_answers() {
    for spec in specs::<dyn Throttle>("") {
        for seed in 0..4 {
            let first = answers(&spec, seed, USUAL, SMALL);
            assert_eq!(first, answers(&spec, seed, USUAL, SMALL), "{spec}");
            let pauses = first.iter().flatten().count();
            assert!(spec == "off" || spec.contains("check=1048576") || pauses > 0, "{spec}");
        }
    }
}

#[test]
fn a_tasks_number_does_not_matter() {
    for spec in specs::<dyn Throttle>("") {
        for seed in 0..4 {
            let plain = answers(&spec, seed, USUAL, SMALL);
            for ids in [[4, 3, 2, 1, 0], [65_534, 0, 1_000, 7, 65_533]] {
                assert_eq!(plain, answers(&spec, seed, USUAL, ids), "{spec}");
            }
        }
    }
}

#[test]
fn no_writer_waits_below_the_background_level() {
    // Two devices together stay below it.
    let low = Range { dirty: BACKGROUND / 2, ..USUAL };
    for spec in specs::<dyn Throttle>("") {
        for drain in [None, Some(1), Some(10_000)] {
            let found = answers(&spec, 1, Range { drain, ..low }, SMALL);
            assert_eq!(found.iter().flatten().count(), 0, "{spec}");
        }
    }
}

#[test]
fn any_levels_limits_and_drains_are_survived() {
    for spec in specs::<dyn Throttle>("") {
        for (background, limit) in
            [(0, 0), (0, 1), (1, 1), (100, 0), (0, LIMIT), (LIMIT, LIMIT), (u64::MAX, u64::MAX)]
        {
            for dirty in [0, 3, LIMIT, 1 << 61] {
                for drain in [None, Some(0), Some(1), Some(u64::MAX)] {
                    let range = Range { background, limit, dirty, drain, ..USUAL };
                    answers(&spec, dirty, range, SMALL);
                }
            }
        }
    }
}

#[test]
fn time_may_stand_still_or_leap() {
    for spec in specs::<dyn Throttle>("") {
        for step in [0, 1, 10_000_000_000, 1 << 53, u64::MAX] {
            for dirty in [LIMIT, 1 << 61] {
                answers(&spec, step, Range { step, dirty, ..USUAL }, SMALL);
            }
        }
    }
}
