//! Each rule of the scheduler separately.

use super::*;
use crate::cpu::testing::{HOG, Habit, Model, task};
use crate::price::{Prices, Scheduler};
use forebay_core::units::DeviceId;

const MS: u64 = 1_000_000;
const BY_MOMENT: Arrival = Arrival::Woken { uninterruptible: false };
const BY_DEVICE: Arrival = Arrival::Woken { uninterruptible: true };
const DRIVER: Runner = Runner::Driver(DeviceId(0));

fn at(ms: u64) -> Instant {
    Instant(ms * MS)
}

/// A runner has a core from one moment to another and sleeps until a third.
fn run_and_sleep(queue: &mut O1, runner: Runner, from: u64, to: u64, until: u64, by: Arrival) {
    assert_eq!(queue.pick(at(from)), Some(runner));
    queue.charge(runner, at(from), at(to));
    queue.sleep(runner, at(to));
    queue.enqueue(runner, by, at(until));
}

fn priority(queue: &O1, runner: Runner) -> u64 {
    queue.seats.of(runner).priority
}

/// Gives a runner an average of sleep as if it had slept for so long.
fn asleep_for(queue: &mut O1, runner: Runner, ms: u64) {
    queue.enqueue(runner, Arrival::New, at(0));
    run_and_sleep(queue, runner, 0, 0, ms, BY_MOMENT);
}

#[test]
fn priorities_follow_the_average_of_sleep_from_125_to_115() {
    for (slept, expected) in [(0, 125), (99, 125), (100, 124), (550, 120), (1000, 115), (9000, 115)]
    {
        let mut queue = O1::new(1);
        asleep_for(&mut queue, task(0), slept);
        assert_eq!(priority(&queue, task(0)), expected, "{slept} ms");
    }
}

#[test]
fn time_on_a_core_counts_the_less_the_greater_the_bonus() {
    let mut queue = O1::new(1);
    asleep_for(&mut queue, task(0), 500);
    run_and_sleep(&mut queue, task(0), 500, 600, 600, BY_MOMENT);
    assert_eq!(queue.seats.of(task(0)).sleep_avg, 480 * MS, "100 ms by a bonus of 5");
    let mut queue = O1::new(1);
    asleep_for(&mut queue, task(0), 50);
    run_and_sleep(&mut queue, task(0), 50, 80, 80, BY_MOMENT);
    assert_eq!(queue.seats.of(task(0)).sleep_avg, 20 * MS, "no bonus divides by one");
}

#[test]
fn a_task_that_waits_for_devices_rises_to_117_at_most_and_a_kernel_thread_to_115() {
    for (runner, expected) in [(task(0), 117), (DRIVER, 115), (Runner::Flusher, 115)] {
        let mut queue = O1::new(1);
        queue.enqueue(runner, Arrival::New, at(0));
        run_and_sleep(&mut queue, runner, 0, 0, 5_000, BY_DEVICE);
        assert_eq!(priority(&queue, runner), expected, "{runner:?}");
    }
    // A runner that is above the limit already is not lowered to it.
    let mut queue = O1::new(1);
    asleep_for(&mut queue, task(0), 950);
    run_and_sleep(&mut queue, task(0), 950, 950, 2_000, BY_DEVICE);
    assert_eq!(queue.seats.of(task(0)).sleep_avg, 950 * MS);
}

#[test]
fn a_woken_runner_preempts_only_what_is_strictly_worse() {
    // An equal one queues behind.
    for (slept, pushes) in [(200, None), (300, None), (400, Some(1))] {
        let mut queue = O1::new(1);
        asleep_for(&mut queue, task(0), 300);
        assert_eq!(queue.pick(at(300)), Some(task(0)));
        asleep_for(&mut queue, task(1), slept);
        assert_eq!(queue.pushes(task(1), task(0)), pushes, "{slept} ms");
    }
}

#[test]
fn a_slice_is_25_ticks_of_the_runner_that_is_there_when_they_come() {
    let mut queue = O1::new(1);
    queue.enqueue(task(0), Arrival::New, at(1));
    queue.pick(at(1));
    assert_eq!(queue.slice_end(task(0), at(1)), Some(at(100)), "the ticks at 4, 8 ... 100 ms");
    queue.charge(task(0), at(1), at(3));
    assert_eq!(queue.slice_end(task(0), at(3)), Some(at(100)), "no tick has come");
    queue.charge(task(0), at(3), at(5));
    queue.sleep(task(0), at(5));
    queue.enqueue(task(0), BY_MOMENT, at(50));
    queue.pick(at(50));
    assert_eq!(queue.slice_end(task(0), at(50)), Some(at(48 + 24 * 4)), "24 ticks are left");
}

#[test]
fn a_runner_that_has_had_its_slice_waits_for_all_others_unless_it_is_interactive() {
    let mut queue = O1::new(1);
    asleep_for(&mut queue, task(0), 1_000);
    [task(1), task(2)].into_iter().for_each(|one| queue.enqueue(one, Arrival::New, at(1_000)));
    let mut order = Vec::new();
    for slice in 0..6 {
        let (from, to) = (at(1_000 + slice * 100), at(1_100 + slice * 100));
        let runner = queue.pick(from).unwrap();
        order.push(runner);
        queue.charge(runner, from, to);
        queue.enqueue(runner, Arrival::SliceOver, to);
    }
    assert_eq!(order, [task(0); 6], "115, at 10 ms of sleep for 100 ms on the core");
    let mut queue = O1::new(1);
    [task(1), task(2)].into_iter().for_each(|one| queue.enqueue(one, Arrival::New, at(0)));
    assert_eq!(queue.pick(at(0)), Some(task(1)));
    queue.charge(task(1), at(0), at(100));
    queue.enqueue(task(1), Arrival::SliceOver, at(100));
    queue.enqueue(task(3), Arrival::New, at(100));
    let order: Vec<_> = (0..3).filter_map(|_| queue.pick(at(100))).collect();
    assert_eq!(order, [task(2), task(3), task(1)], "the expired array comes last");
}

#[test]
fn interactive_runners_expire_too_when_the_first_expired_has_waited_a_second_a_runner() {
    let mut queue = O1::new(1);
    queue.enqueue(task(1), Arrival::New, at(0));
    queue.pick(at(0));
    queue.charge(task(1), at(0), at(100));
    queue.enqueue(task(1), Arrival::SliceOver, at(100));
    queue.enqueue(task(0), Arrival::New, at(0));
    queue.seats.of_mut(task(0)).sleep_avg = SLEEP_MAX;
    assert_eq!(queue.pick(at(100)), Some(task(0)));
    // One that expired at 100 ms, one that runs: 2 s and a tick.
    queue.enqueue(task(0), Arrival::SliceOver, at(2_103));
    assert_eq!((queue.arrays[0].len, queue.arrays[1].len), (1, 1));
    assert_eq!(queue.pick(at(2_103)), Some(task(0)));
    queue.enqueue(task(0), Arrival::SliceOver, at(2_104));
    assert_eq!((queue.arrays[0].len, queue.arrays[1].len), (0, 2));
}

#[test]
fn a_preempted_runner_keeps_its_place_at_the_head() {
    let mut queue = O1::new(1);
    [task(0), task(1)].into_iter().for_each(|one| queue.enqueue(one, Arrival::New, at(0)));
    assert_eq!(queue.pick(at(0)), Some(task(0)));
    queue.enqueue(task(0), Arrival::Preempted, at(10));
    assert_eq!(queue.pick(at(10)), Some(task(0)));
}

#[test]
fn a_task_that_sleeps_gets_its_core_at_once_among_hogs() {
    let prices = Prices { scheduler: Scheduler::O1, ..Prices::FREE };
    let sleeper = Habit { works: Duration(2 * MS), sleeps: Duration(20 * MS) };
    let mut model = Model::new(&prices, vec![HOG, HOG, HOG, sleeper]);
    model.run(at(10_000));
    model.waited.fill(Duration::ZERO);
    let before = model.had(3);
    model.run(at(30_000));
    assert_eq!(model.waited[3], Duration::ZERO);
    let hogs: Vec<u64> = (0..3).map(|hog| model.had(hog).as_nanos() / MS).collect();
    assert!(hogs.iter().all(|ms| hogs[0].abs_diff(*ms) <= 200), "{hogs:?}");
    let had = model.had(3) - before;
    assert!(had >= Duration(20_000 * MS / 11 - 3 * MS), "2 of 22 ms: {had}");
}
