//! What every flush rule of the table keeps, whatever it decides.
//!
//! The model itself stops a rule that does not come to an end at one moment, and asserts that a
//! written page was dirty.

use alloc::vec::Vec;

use super::testing::{Bench, Write};
use super::{DirtyPages, Flush, POLICIES, Spec};
use crate::testing::{Random, specs};
use crate::time::Duration;
use crate::writeback::{Amount, Knobs};

/// Knobs that a controller might choose, reasonable or not.
fn drawn(random: &mut Random) -> Knobs {
    let mut amount = || match random.below(2) {
        0 => Amount::Pages(random.below(300)),
        _ => Amount::Share(random.below(20_000) as u32),
    };
    let (background, limit) = (amount(), amount());
    Knobs {
        background,
        limit,
        batch: [None, Some(0), Some(1), Some(50)][random.below(4) as usize],
        in_flight: None,
        interval: Duration::from_millis(150 * random.below(40)),
        expire: Duration::from_secs(random.below(40)),
        expire_new: None,
    }
}

/// A random history: pages become dirty, writes complete, time passes, memory is short, knobs
/// change. Returns the written pages, after everything has been written.
fn history(spec: &str, seed: u64, slots: usize, turned: bool) -> Vec<Write> {
    let mut random = Random(seed);
    let mut bench = Bench::with_devices(spec, 1 + (seed % 3) as usize);
    let devices = bench.pages.devices.len();
    bench.pages.total = 20_000;
    for device in &mut bench.pages.devices {
        device.slots = slots;
        device.drain = [None, Some(1 + random.below(50_000))][random.below(2) as usize];
    }
    for _ in 0..120 {
        match random.below(10) {
            0..=4 => {
                let (file, first) = (random.below(7) as u32, random.below(5_000));
                let count = 1 << random.below(9);
                bench.dirty_range(file, first..first + count);
            }
            5 | 6 => {
                let device = random.below(devices as u64) as usize;
                bench.complete(device, 1 + random.below(200) as usize);
            }
            7 => bench.advance_to(bench.pages.now + Duration::from_millis(random.below(4_000))),
            8 => {
                bench.pages.short = random.below(2) == 0;
                bench.run();
            }
            _ if turned => {
                bench.pages.knobs = drawn(&mut random);
                bench.run();
            }
            _ => {}
        }
    }
    bench.pages.short = false;
    if turned {
        bench.pages.knobs = bench.rule.knobs();
    }
    settle(&mut bench);
    bench.pages.log
}

/// Gives the rule time and completions until nothing happens any more.
fn settle(bench: &mut Bench) {
    bench.run();
    bench.complete_all();
    // Whatever an earlier knob has set, the greatest age and interval are over after two days and
    // two intervals of a day each.
    let end = bench.pages.now + Duration::from_secs(5 * 86_400);
    while let Some(timeout) = bench.rule.timeout().filter(|at| *at <= end) {
        bench.advance_to(timeout.max(bench.pages.now));
        bench.complete_all();
        // A short interval with a long age would be millions of looks.
        let old = bench.pages.now + bench.pages.knobs.expire;
        if bench.pages.knobs.interval < Duration::from_secs(1) && old < end {
            bench.pages.knobs.interval = Duration::from_secs(60);
        }
    }
}

fn looks(spec: &str) -> bool {
    Spec::parse(spec).unwrap().build().knobs().interval > Duration::ZERO
}

#[test]
fn everything_is_written_in_the_end() {
    for spec in specs::<dyn Flush>("").iter().filter(|spec| looks(spec)) {
        for (seed, slots) in [(0, 1), (1, 3), (2, 100), (3, usize::MAX)] {
            let mut bench = Bench::with_devices(spec, 1 + seed);
            bench.pages.devices[0].slots = slots;
            bench.dirty_range(0, 0..300);
            bench.dirty_range(4, 7..8);
            bench.advance_to(bench.pages.now + Duration::from_millis(333));
            bench.dirty_range(1, 100..200);
            settle(&mut bench);
            assert_eq!(bench.pages.all().dirty, 0, "{spec}, {slots} slots");
            assert_eq!(bench.rule.timeout(), None, "{spec}: at rest");
        }
    }
}

#[test]
fn the_same_history_leads_to_the_same_writes() {
    for spec in specs::<dyn Flush>("") {
        for seed in 0..4 {
            let slots = [1, 7, 128, usize::MAX][seed as usize];
            for turned in [false, true] {
                let (one, other) =
                    (history(&spec, seed, slots, turned), history(&spec, seed, slots, turned));
                assert!(one == other, "{spec}, seed {seed}");
            }
        }
    }
}

#[test]
fn everything_is_written_whatever_the_knobs_were_in_between() {
    for policy in POLICIES {
        for seed in 0..20 {
            let mut random = Random(seed);
            let mut bench = Bench::with_devices(policy.name, 2);
            bench.pages.devices[1].slots = 1;
            for round in 0..20 {
                bench.dirty_range(round % 5, 0..random.below(400));
                bench.complete(random.below(2) as usize, random.below(100) as usize);
                bench.pages.knobs = drawn(&mut random);
                bench.advance_to(bench.pages.now + Duration::from_millis(random.below(9_000)));
            }
            bench.pages.knobs = bench.rule.knobs();
            settle(&mut bench);
            let all = bench.pages.all();
            assert_eq!((all.dirty, all.writeback), (0, 0), "{}, seed {seed}", policy.name);
        }
    }
}

#[test]
fn short_memory_sends_pages_at_once_and_goes_on_as_they_come_back() {
    for spec in specs::<dyn Flush>("") {
        for (slots, batch) in [(1, None), (5, Some(0)), (usize::MAX, Some(7))] {
            let mut bench = Bench::new(&spec);
            bench.pages.knobs.batch = batch;
            bench.pages.devices[0].slots = slots;
            bench.pages.knobs.background = Amount::percent(90);
            bench.pages.knobs.limit = Amount::percent(100);
            bench.dirty_range(0, 0..40);
            bench.pages.short = true;
            bench.run();
            assert!(bench.pages.all().writeback > 0, "{spec}, {slots} slots");
            bench.complete_all();
            assert_eq!(bench.pages.all().dirty, 0, "{spec}, {slots} slots");
        }
    }
}

#[test]
fn a_run_without_anything_dirty_does_nothing() {
    for spec in specs::<dyn Flush>("") {
        let mut bench = Bench::new(&spec);
        for short in [false, true] {
            bench.pages.short = short;
            bench.run();
            assert_eq!((bench.pages.log.len(), bench.rule.timeout()), (0, None), "{spec}");
        }
    }
}

#[test]
fn timeouts_of_extreme_times_do_not_overflow() {
    for spec in specs::<dyn Flush>("") {
        let mut bench = Bench::new(&spec);
        bench.pages.now = crate::time::Instant(u64::MAX - 5);
        bench.dirty_range(0, 0..3);
        bench.pages.now = crate::time::Instant(u64::MAX);
        bench.run();
    }
}
