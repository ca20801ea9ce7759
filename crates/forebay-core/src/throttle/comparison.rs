//! All throttles on one small machine: how long writers and writes take, and how high the level is.
//!
//! The figures beside the names are those of an independent model of the same machine. Its flusher
//! is not known in every detail, and it has no guard across the tasks of a processor. Times of the
//! whole run agree within 5 %, and the time at which everything is written within 1 %. If pauses
//! differ from the model's by more than a fifth, the row says so.

use std::vec::Vec;

use super::testing::{Bench, Case, LIMIT, Seen, Stop};
use crate::time::Instant;

/// What the model found: times in milliseconds, the peak in MB of 1024 KiB.
struct Model {
    done: u64,
    drained: u64,
    peak: u64,
}

/// What a pause may be, in milliseconds: the 99th percentile and the longest of the writers' 64
/// KiB, and the longest of the light writer's pages.
struct Pauses {
    p99: core::ops::RangeInclusive<u64>,
    max: core::ops::RangeInclusive<u64>,
    light: core::ops::RangeInclusive<u64>,
}

const NO_PAUSE: core::ops::RangeInclusive<u64> = 0..=0;

/// Runs a row; `off_peak` is the distance of the peak from the model's, in percent.
fn row(spec: &str, case: Case, model: &Model, off_peak: u64, pauses: &Pauses) {
    let seen = Bench::run(spec, case);
    assert_eq!(seen, Bench::run(spec, case), "{spec}: the same twice");
    near(spec, "done", seen.done, 1_000 * model.done, 5);
    near(spec, "drained", seen.drained, 1_000 * model.drained, 1);
    near(spec, "peak", seen.peak_pages, model.peak * 256, off_peak);
    let within = |range: &core::ops::RangeInclusive<u64>, micros: u64| {
        range.contains(&micros.div_ceil(1_000))
    };
    assert!(within(&pauses.p99, seen.p99), "{spec}: p99 of {seen:?}");
    assert!(within(&pauses.max, seen.max), "{spec}: max of {seen:?}");
    assert!(within(&pauses.light, seen.light_max), "{spec}: light writer of {seen:?}");
    assert_eq!(seen.idle, 0, "{spec}: the device is busy while there is work");
}

fn near(spec: &str, what: &str, found: u64, expected: u64, percent: u64) {
    let distance = found.abs_diff(expected) * 100;
    assert!(distance <= percent * expected, "{spec}: {what} {found}, not {expected} ± {percent} %");
}

fn warm(case: Case) -> Case {
    Case { warm: true, ..case }
}

fn halved(case: Case) -> Case {
    Case { change: Some((Instant(4_000_000_000), 5_000)), ..case }
}

#[test]
fn without_throttle_everything_is_dirty_at_once() {
    let model = Model { done: 31, drained: 13_110, peak: 511 };
    let pauses = Pauses { p99: NO_PAUSE, max: NO_PAUSE, light: NO_PAUSE };
    row("off", Case::cold(8, Stop::Background), &model, 1, &pauses);
}

/// The model's longest pauses are 518 and 605 ms, its light writer's 290 and 357 ms. They deviate:
/// the loop ends for the task that happens to look first, and with 1 to 64 pages between two
/// checks, which neither paper nor model give, ours lie between 760 and 7700 ms.
#[test]
fn the_papers_loop_holds_one_writer_while_others_go_on() {
    let case = Case::cold(8, Stop::Background);
    let model = Model { done: 10_640, drained: 13_140, peak: 98 };
    let pauses = Pauses { p99: 140..=210, max: 500..=1_000, light: 10..=300 };
    row("paper-3.18", case, &model, 1, &pauses);
    let model = Model { done: 17_320, drained: 22_310, peak: 98 };
    let pauses = Pauses { p99: 150..=300, max: 600..=3_000, light: 100..=360 };
    row("paper-3.18", halved(case), &model, 1, &pauses);
}

/// The model has longest pauses of 348, 200, 12 and 200 ms, and 96 ms for the light writer. Ours
/// deviate by one or two pauses at a rate of zero, for a reason that is not known; it is not the
/// guard, without which they are as long.
#[test]
fn the_kernel_reaches_the_limit_before_it_knows_the_device() {
    let case = Case::cold(8, Stop::Background);
    let model = Model { done: 10_160, drained: 13_160, peak: 133 };
    let pauses = Pauses { p99: 160..=220, max: 300..=500, light: 90..=200 };
    row("linux-3.18", case, &model, 5, &pauses);
    let known = "linux-3.18:initial=10000";
    let model = Model { done: 10_240, drained: 13_160, peak: 128 };
    let pauses = Pauses { p99: 70..=90, max: 190..=250, light: 90..=200 };
    row(known, case, &model, 5, &pauses);
    let model = Model { done: 10_280, drained: 13_190, peak: 114 };
    let pauses = Pauses { p99: 7..=13, max: 11..=13, light: 0..=12 };
    row(known, Case::cold(1, Stop::Background), &model, 5, &pauses);
    let model = Model { done: 16_430, drained: 22_390, peak: 128 };
    let pauses = Pauses { p99: 100..=150, max: 190..=250, light: 90..=200 };
    row(known, halved(case), &model, 5, &pauses);
}

/// The model has no guard; it found a peak of 162 MB, and 1400, 4028 and 2000 ms. Without the guard
/// ours has a peak of 174 MB, and 1216, 1372 and 2400 ms; the peak of this row is our own.
#[test]
fn the_kernel_holds_64_writers_for_seconds() {
    let model = Model { done: 10_150, drained: 13_120, peak: 133 };
    let pauses = Pauses { p99: 600..=1_400, max: 1_200..=4_100, light: 500..=2_000 };
    row("linux-3.18", Case::cold(64, Stop::Background), &model, 5, &pauses);
}

#[test]
fn the_kernel_keeps_its_level_with_any_clock_and_any_processors() {
    for spec in ["hz=100", "hz=1000", "cpus=64", "strict=1", "knob=0"] {
        let case = Case::cold(8, Stop::Background);
        let seen = Bench::run(&std::format!("linux-3.18:{spec}"), case);
        near(spec, "done", seen.done, 10_160_000, 7);
        near(spec, "peak", seen.peak_pages, LIMIT, 7);
    }
}

/// The model has longest pauses of 13, 13, 3, 26 and 102 ms. Its peak lies lower, at 95 MB, because
/// it paces from the background level on, and ours only from a free level above it.
#[test]
fn paced_writers_wait_for_their_share_of_the_drain() {
    let case = |writers| Case::cold(writers, Stop::Clean);
    let even = |max: u64| Pauses { p99: 1..=max, max: 1..=max, light: NO_PAUSE };
    let model = |done, drained| Model { done, drained, peak: 95 };
    row("paced", case(8), &model(10_740, 13_170), 10, &even(15));
    row("paced", warm(case(8)), &model(10_780, 13_170), 5, &even(15));
    row("paced", warm(case(1)), &model(10_810, 13_190), 5, &even(3));
    row("paced", halved(case(8)), &model(17_490, 22_400), 12, &even(27));
    row("paced", case(64), &model(10_730, 13_160), 10, &even(105));
}

/// The model has longest pauses of 13 and 26 ms.
#[test]
fn a_controlled_level_returns_to_its_setpoint() {
    let case = Case::cold(8, Stop::Clean);
    let even = |max: u64| Pauses { p99: 1..=max, max: 1..=max, light: NO_PAUSE };
    let model = Model { done: 10_620, drained: 13_170, peak: 99 };
    row("pi", case, &model, 5, &even(16));
    let model = Model { done: 17_260, drained: 22_400, peak: 103 };
    row("pi", halved(case), &model, 5, &even(28));
}

/// The model's 110 ms are a debt of more than a second. From a cold start our run comes near the
/// ceiling first, where writers sleep what they owe and owe little.
#[test]
fn bounded_writes_owe_what_they_do_not_wait_for() {
    let model = Model { done: 10_550, drained: 13_160, peak: 116 };
    let case = Case::cold(8, Stop::Clean);
    let pauses = Pauses { p99: 10..=110, max: 10..=110, light: NO_PAUSE };
    row("deadline", case, &model, 5, &pauses);
    assert_eq!(Bench::run("deadline", case).p50, 10_000);
    let pauses = Pauses { p99: 110..=110, max: 110..=110, light: NO_PAUSE };
    row("deadline", warm(case), &model, 5, &pauses);
}

/// Each run of a policy over devices and numbers of writers whose shares the light writer, with 50
/// pages a second, is below.
fn over_devices(spec: &str) -> Vec<(Case, Seen)> {
    let mut runs = Vec::new();
    for drain in [1_000, 5_000, 10_000, 100_000] {
        for writers in [1, 8, 64] {
            for (warm, stop) in [(true, Stop::Background), (false, Stop::Clean)] {
                if drain / u64::from(writers) >= 60 {
                    let pages = drain + 45_000;
                    let case = Case { drain, pages, warm, ..Case::cold(writers, stop) };
                    runs.push((case, Bench::run(spec, case)));
                }
            }
        }
    }
    runs
}

/// A machine without throttle, for the time that a device needs.
fn drained_by_itself(case: Case) -> u64 {
    Bench::run("off", case).drained
}

#[test]
fn paced_writes_wait_their_turn_light_writers_never_and_the_level_keeps_its_limit() {
    for (case, seen) in over_devices("paced") {
        // A write of 16 pages takes the device this long once all writers have had their turn.
        let turn = u64::from(case.writers) * 16 * 1_000_000 / case.drain;
        assert!(seen.max_settled <= turn + turn / 5 + 5_000, "{case:?} {seen:?}");
        assert!(seen.peak_pages <= LIMIT && seen.light_max == 0, "{case:?} {seen:?}");
        near("paced", "drained", seen.drained, drained_by_itself(case), 3);
        assert_eq!(seen.idle, 0, "{case:?}");
    }
}

#[test]
fn a_controlled_level_keeps_its_limit_and_light_writers_never_wait() {
    for (case, seen) in over_devices("pi") {
        assert!(seen.peak_pages <= LIMIT && seen.light_max == 0, "{case:?} {seen:?}");
        assert_eq!(seen.idle, 0, "{case:?}");
    }
}

#[test]
fn a_device_that_becomes_ten_times_slower_does_not_fill_the_room() {
    for spec in ["paced", "pi", "deadline"] {
        let case =
            Case { change: Some((Instant(4_000_000_000), 1_000)), ..Case::cold(8, Stop::Clean) };
        let seen = Bench::run(spec, case);
        assert!(seen.peak_pages <= LIMIT, "{spec} {seen:?}");
        assert!(seen.max_settled <= 200_000 && seen.light_max == 0, "{spec} {seen:?}");
    }
}

#[test]
fn a_limit_of_a_few_pages_is_kept_and_the_writers_go_on() {
    for spec in ["paced", "pi", "deadline"] {
        for limit in [80, 256, 1_024] {
            let case = Case { limit, pages: 8_192, ..Case::cold(8, Stop::Background) };
            let seen = Bench::run(spec, case);
            assert!(seen.peak_pages <= limit, "{spec} {limit} {seen:?}");
        }
    }
}
