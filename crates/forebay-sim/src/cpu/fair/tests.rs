//! Shares, prompt service, and what a driver's thread is charged to.

use super::*;
use crate::cpu::testing::{HOG, Habit, Model, task};
use crate::price::{Prices, Scheduler};
use forebay_core::units::DeviceId;

const MS: u64 = 1_000_000;

fn fair(cores: u32) -> Prices {
    Prices { scheduler: Scheduler::Fair, cores, ..Prices::FREE }
}

#[test]
fn shares_follow_the_weights() {
    let weights = [1024, 2048, 512, 335, 3121];
    let mut model = Model::new(&fair(1), vec![HOG; weights.len()]);
    for (number, weight) in weights.into_iter().enumerate() {
        model.cpu.set_traits(task(number as u32), 0, weight);
    }
    model.run(Instant(20_000 * MS));
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    for (number, weight) in weights.into_iter().enumerate() {
        let due = 20_000 * MS * u64::from(weight) / sum;
        let had = model.had(number as u32).as_nanos();
        assert!(had.abs_diff(due) * 100 <= due, "{number}: {had} of {due}");
    }
}

#[test]
fn hogs_share_two_cores_alike() {
    let mut model = Model::new(&fair(2), vec![HOG; 3]);
    model.run(Instant(9_000 * MS));
    for number in 0..3 {
        let had = model.had(number).as_nanos();
        assert!(had.abs_diff(6_000 * MS) <= 60 * MS, "{number}: {had}");
    }
}

#[test]
fn a_period_is_6_ms_or_three_quarters_of_a_millisecond_a_runner() {
    for (runners, slice) in [(2, 3_000_000), (8, 750_000), (16, 750_000)] {
        let mut model = Model::new(&fair(1), vec![HOG; runners]);
        model.run(Instant(1_000 * MS));
        let switches = model.log.len() as u64;
        let expected = 1_000 * MS / slice;
        assert!(switches.abs_diff(expected) <= expected / 50, "{runners}: {switches}");
    }
}

#[test]
fn a_runner_that_sleeps_much_has_its_core_at_once() {
    let sleeper = Habit { works: Duration(MS / 10), sleeps: Duration(20 * MS) };
    let mut model = Model::new(&fair(1), vec![HOG, HOG, HOG, HOG, sleeper]);
    model.run(Instant(1_000 * MS));
    model.waited.fill(Duration::ZERO);
    model.run(Instant(5_000 * MS));
    let waited = model.waited[4];
    assert!(waited <= Duration(MS), "no longer than the granularity: {waited}");
    // It also gets all of its demand: 0.1 of 20.1 ms.
    assert!(model.had(4) >= Duration(5_000 * MS / 201 * 98 / 100));
}

#[test]
fn sleep_is_saved_up_for_half_a_period_at_most() {
    let mut queue = Fair::new(1, 1);
    let long = Instant(10_000 * MS);
    queue.enqueue(task(0), Arrival::New, Instant(0));
    queue.enqueue(task(1), Arrival::New, Instant(0));
    queue.pick(Instant(0));
    queue.sleep(task(0), Instant(0));
    queue.pick(Instant(0));
    queue.charge(task(1), Instant(0), long);
    queue.enqueue(task(0), Arrival::Woken { uninterruptible: true }, long);
    let behind = queue.account(task(1)).virtual_time - queue.account(task(0)).virtual_time;
    assert_eq!(behind, 3_000_000 * UNITS);
    assert_eq!(queue.pushes(task(0), task(1)), Some(3_000_000));
    assert_eq!(queue.pushes(task(1), task(0)), None);
}

#[test]
fn a_woken_runner_waits_for_one_that_is_ahead_by_less_than_the_granularity() {
    for (ahead, pushes) in [(1_000_000, false), (1_000_001, true)] {
        let mut queue = Fair::new(1, 1);
        queue.enqueue(task(0), Arrival::New, Instant(0));
        queue.enqueue(task(1), Arrival::New, Instant(0));
        queue.pick(Instant(0));
        queue.charge(task(0), Instant(0), Instant(ahead));
        assert_eq!(queue.pushes(task(1), task(0)).is_some(), pushes, "{ahead}");
    }
}

#[test]
fn a_driver_s_thread_runs_on_the_time_of_its_asker() {
    let driver = Runner::Driver(DeviceId(0));
    let mut queue = Fair::new(1, 1);
    queue.set_weight(task(1), 2048);
    queue.enqueue(task(1), Arrival::New, Instant(0));
    queue.pick(Instant(0));
    queue.sleep(task(1), Instant(0));
    queue.serve(driver, task(1));
    queue.enqueue(driver, Arrival::Woken { uninterruptible: false }, Instant(0));
    assert_eq!(queue.pick(Instant(0)), Some(driver));
    assert_eq!(queue.load, 2048);
    queue.charge(driver, Instant(0), Instant(4_000));
    assert_eq!(queue.account(task(1)).virtual_time, 2_000 * UNITS);
    // In the middle of its stay it works for another task, which waits for a core in the meantime.
    queue.enqueue(task(2), Arrival::New, Instant(4_000));
    queue.serve(driver, task(2));
    let before = queue.account(task(2)).virtual_time;
    queue.charge(driver, Instant(4_000), Instant(5_000));
    assert_eq!(queue.account(task(2)).virtual_time, before + 1_000 * UNITS);
    assert_eq!(queue.queue.first().unwrap().0, before + 1_000 * UNITS, "its place has moved");
    queue.sleep(driver, Instant(5_000));
    assert_eq!(queue.load, 1024, "the one that waits");
}

#[test]
fn a_runner_gains_no_time_by_a_thread_that_begins_to_work_for_it() {
    let driver = Runner::Driver(DeviceId(0));
    for runs in [false, true] {
        let mut queue = Fair::new(1, 1);
        queue.enqueue(task(0), Arrival::New, Instant(0));
        queue.pick(Instant(0));
        queue.charge(task(0), Instant(0), Instant(10 * MS));
        // It comes half a period behind the least time of all.
        queue.enqueue(task(1), Arrival::Woken { uninterruptible: true }, Instant(10 * MS));
        if runs {
            assert_eq!(queue.pick(Instant(10 * MS)), Some(task(1)));
        }
        queue.serve(driver, task(1));
        queue.enqueue(driver, Arrival::New, Instant(10 * MS));
        assert_eq!(queue.account(task(1)).virtual_time, 7_000_000 * UNITS, "{runs}");
    }
}

#[test]
fn lengths_grow_with_the_logarithm_of_the_cores() {
    for (cores, factor) in [(1, 1), (2, 2), (3, 2), (4, 3), (8, 4), (64, 4)] {
        assert_eq!(Fair::new(0, cores).factor, factor, "{cores}");
    }
}
