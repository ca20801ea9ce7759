//! What every controller of the table keeps, whatever it decides.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Controller, Sample, Spec, Traffic};
use crate::testing::{Random, specs};
use crate::time::Duration;
use crate::writeback::{Amount, Knobs};

/// Each controller with its defaults, and with its parameters at their ends; once more with limits
/// in seconds, where they exist.
fn all_specs() -> Vec<String> {
    let mut all = specs::<dyn Controller>("");
    all.extend(specs::<dyn Controller>("map=1,"));
    all
}

/// A number of any size: none, one, reasonable, without end.
fn any(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => 1,
        2 => u64::MAX - random.below(2),
        3 => random.below(1_000),
        _ => random.below(2_000_000_000),
    }
}

fn traffic(random: &mut Random) -> Traffic {
    Traffic { requests: any(random), sectors: any(random), time: Duration(any(random)) }
}

fn sample(random: &mut Random) -> Sample {
    let drain = any(random);
    Sample {
        elapsed: Duration(any(random)),
        busy: Duration(any(random)),
        reads: traffic(random),
        writes: traffic(random),
        drain: (random.below(2) == 0).then_some(drain),
        dirty: any(random),
        total: any(random),
    }
}

/// Asserts that the knobs are such as a flush rule can work with.
fn check(spec: &str, knobs: &Knobs, total: u64) {
    let amounts = [knobs.background, knobs.limit];
    for amount in amounts {
        if let Amount::Share(ppm) = amount {
            assert!(ppm <= 1_000_000, "{spec}: {knobs:?}");
        }
    }
    let [background, limit] = amounts.map(|amount| amount.pages(total));
    assert!(background <= limit, "{spec}: {knobs:?}");
    assert!(knobs.batch.is_none_or(|batch| (10..=5_000).contains(&batch)), "{spec}: {knobs:?}");
    assert!(knobs.in_flight.is_none_or(|pages| pages >= 32), "{spec}: {knobs:?}");
    let centiseconds = |length: Duration| length.as_nanos() / 10_000_000;
    assert!((1..=6_000).contains(&centiseconds(knobs.interval)), "{spec}: {knobs:?}");
    assert!((100..=60_000).contains(&centiseconds(knobs.expire)), "{spec}: {knobs:?}");
}

/// The knobs of a hundred seconds of samples of any size.
fn history(spec: &str, seed: u64, devices: u64) -> Vec<Knobs> {
    let mut random = Random(seed);
    let mut controller = Spec::parse(spec).unwrap().build();
    let mut knobs = controller.begin(Knobs::LINUX, 1 << 20);
    let mut history = Vec::new();
    check(spec, &knobs, 100_000);
    for _ in 0..100 {
        let samples: Vec<_> = (0..devices).map(|_| sample(&mut random)).collect();
        knobs = controller.observe(&samples, knobs);
        check(spec, &knobs, 100_000);
        history.push(knobs);
    }
    history
}

#[test]
fn results_are_in_range_whatever_is_observed() {
    for spec in all_specs() {
        for seed in 0..6 {
            history(&spec, seed, seed % 4);
        }
    }
}

#[test]
fn the_same_samples_lead_to_the_same_knobs() {
    for spec in all_specs() {
        assert_eq!(history(&spec, 7, 2), history(&spec, 7, 2), "{spec}");
    }
}

#[test]
fn a_controller_without_samples_changes_nothing() {
    let mut random = Random(1);
    for spec in all_specs() {
        let mut controller = Spec::parse(&spec).unwrap().build();
        let begun = controller.begin(Knobs::LINUX, 1 << 20);
        if !controller.observes() {
            assert_eq!(controller.observe(&[sample(&mut random)], begun), begun, "{spec}");
        }
    }
}
