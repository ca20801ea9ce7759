//! What every rule of dispatch of the table keeps, whatever it decides.

use std::string::String;
use std::vec::Vec;

use super::testing::rule;
use super::{Class, Dispatch, Handling, Medium, MediumKind, Processor};
use crate::testing::{Random, specs};
use crate::time::{Duration, Instant};

const CALLS: u64 = 3_000;

const KINDS: [MediumKind; 3] = [MediumKind::Solid, MediumKind::Rotating, MediumKind::Remote];

/// A number of any octave, the ends among them.
fn any(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        _ => random.below(u64::MAX) >> random.below(64),
    }
}

/// Answers to a stream of random questions about one device, and how many classes are slow.
fn answers(typed: &str, seed: u64, wild: bool) -> (Vec<Handling>, u32) {
    let (mut rule, mut random) = (rule(typed), Random(seed));
    let kind = KINDS[random.below(3) as usize];
    let medium = Medium { kind, programmed: random.below(2) == 0 };
    let usual = 1_000 << random.below(14);
    let mut now = Instant::ZERO;
    let mut answers = Vec::new();
    for _ in 0..CALLS {
        let class = Class {
            write: random.below(4) == 0,
            bytes: if wild { any(&mut random) } else { 4_096 << random.below(3) },
            ahead: random.below(4) == 0,
        };
        let switch = if wild { any(&mut random) } else { 10_000 };
        let contended = random.below(8) > 0;
        let processor = Processor { switch: Duration(switch), contended };
        // Some requests are done before the rule was ever asked, some never are.
        let took = Duration(if wild { any(&mut random) } else { usual + random.below(usual) });
        if random.below(8) > 0 {
            let handling = rule.choose(now, &class, medium, processor);
            assert_ne!(handling, Handling::Inline(Duration::ZERO), "{typed}");
            answers.push(handling);
        }
        now += if wild { Duration(any(&mut random) >> 13) } else { took };
        if random.below(8) > 0 {
            let handling = answers.last().copied().unwrap_or(Handling::Deferred);
            let seen = if random.below(64) == 0 { Instant::ZERO } else { now };
            rule.learn(seen, &class, handling, took);
        }
    }
    (answers, rule.slow_classes())
}

fn rules() -> Vec<String> {
    specs::<dyn Dispatch>("")
}

#[test]
fn the_same_calls_have_the_same_answers() {
    for typed in rules() {
        for seed in 0..12 {
            assert_eq!(answers(&typed, seed, false), answers(&typed, seed, false), "{typed}");
        }
    }
}

#[test]
fn any_sizes_times_and_costs_are_survived() {
    for typed in rules() {
        for seed in 0..12 {
            answers(&typed, seed, true);
        }
    }
}

#[test]
fn the_least_and_the_greatest_of_everything_is_survived() {
    for typed in rules() {
        for bits in 0..256_u32 {
            let end = |bit: u32| if bits >> bit & 1 == 1 { u64::MAX } else { 0 };
            let on = |bit: u32| bits >> bit & 1 == 1;
            let class = Class { write: on(0), bytes: end(1), ahead: on(2) };
            let medium = Medium { programmed: on(3), ..Medium::default() };
            let processor = Processor { switch: Duration(end(4)), contended: on(5) };
            let mut rule = rule(&typed);
            for _ in 0..100 {
                let handling = rule.choose(Instant(end(7)), &class, medium, processor);
                assert_ne!(handling, Handling::Inline(Duration::ZERO), "{typed}");
                rule.learn(Instant(end(7)), &class, handling, Duration(end(6)));
            }
        }
    }
}
