//! Properties of every fill rule of the table, for every demand.

use std::string::String;
use std::vec::Vec;

use super::{Demand, Fill, Pages, Plan, Spec};
use crate::testing::{Random, specs};

/// A number of any octave, the ends among them.
fn any(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        _ => random.below(u64::MAX) >> random.below(64),
    }
}

fn rules() -> Vec<String> {
    specs::<dyn Fill>("")
}

fn rule(typed: &str) -> std::boxed::Box<dyn Fill> {
    Spec::parse(typed).unwrap().build()
}

/// A demand as the path makes it: `wanted` in `window`, both in a file of 3000 pages.
fn likely(random: &mut Random, last: &mut u64) -> Demand {
    let file_pages = 3_000;
    let start = match random.below(4) {
        0 => random.below(file_pages - 300),
        _ => *last,
    };
    let copied = random.below(2) == 0;
    let deferred = random.below(4) == 0;
    let wanted = Pages::new(start, start + 1 + if copied { random.below(20) } else { 0 });
    *last = wanted.end.min(file_pages - 300);
    if deferred || random.below(5) == 0 {
        return Demand { wanted, window: wanted, file_pages, copied, deferred };
    }
    let window = Pages::new(start.saturating_sub(random.below(17)), wanted.end + random.below(200));
    let ahead = random.below(6) == 0;
    let wanted = if ahead { Pages::none(window.start) } else { wanted };
    Demand { wanted, window, file_pages, copied, deferred }
}

fn plans(typed: &str, seed: u64) -> Vec<Plan> {
    let (mut rule, mut random, mut last) = (rule(typed), Random(seed), 0);
    (0..2_000).map(|_| rule.on_demand(&likely(&mut random, &mut last))).collect()
}

#[test]
fn the_same_demands_have_the_same_plans() {
    for typed in rules() {
        for seed in 0..8 {
            assert_eq!(plans(&typed, seed), plans(&typed, seed), "{typed}");
        }
    }
}

#[test]
fn a_plan_keeps_its_promises_without_being_fitted() {
    for typed in rules() {
        for seed in 0..8 {
            let (mut rule, mut random, mut last) = (rule(&typed), Random(seed), 0);
            for _ in 0..2_000 {
                let demand = likely(&mut random, &mut last);
                let plan = rule.on_demand(&demand);
                let Plan { fetch, now, later, .. } = plan;
                assert!(demand.window.covers(fetch), "{typed}: {demand:?} {plan:?}");
                assert!(fetch.covers(now), "{typed}: {demand:?} {plan:?}");
                assert!(now.covers(demand.wanted), "{typed}: {demand:?} {plan:?}");
                assert!(fetch.covers(later), "{typed}: {demand:?} {plan:?}");
                let apart = later.is_empty() || later.start >= now.end || later.end <= now.start;
                assert!(apart, "{typed}: {demand:?} {plan:?}");
                assert_eq!(plan.fitted(&demand).now, now, "{typed}: {demand:?} {plan:?}");
            }
        }
    }
}

#[test]
fn nothing_is_decoded_without_a_demand_unless_the_rule_reads_ahead() {
    for typed in rules() {
        let (mut rule, mut random, mut last) = (rule(&typed), Random(1), 0);
        for _ in 0..2_000 {
            let demand = likely(&mut random, &mut last);
            let demand = Demand { window: demand.wanted, ..demand };
            let plan = rule.on_demand(&demand);
            assert_eq!((plan.now, plan.fetch), (demand.wanted, demand.wanted), "{typed}");
        }
    }
}

#[test]
fn any_numbers_are_survived_and_fitted() {
    for typed in rules() {
        for seed in 0..8 {
            let (mut rule, mut random) = (rule(&typed), Random(seed));
            for _ in 0..2_000 {
                let mut run = || {
                    let (one, other) = (any(&mut random), any(&mut random));
                    Pages::new(one.min(other), one.max(other))
                };
                let (wanted, window) = (run(), run());
                let (copied, deferred) = (random.below(2) == 0, random.below(2) == 0);
                let file_pages = any(&mut random);
                let demand = Demand { wanted, window, file_pages, copied, deferred };
                let plan = rule.on_demand(&demand).fitted(&demand);
                assert!(plan.fetch.covers(plan.now) && plan.now.covers(wanted), "{typed}");
                assert!(window.hull(wanted).covers(plan.fetch), "{typed}: {demand:?} {plan:?}");
            }
        }
    }
}

#[test]
fn a_new_description_knows_nothing_of_the_one_before() {
    for typed in rules() {
        assert_eq!(plans(&typed, 3)[..50], plans(&typed, 3)[..50], "{typed}");
        let mut used = rule(&typed);
        let mut random = Random(5);
        let mut last = 0;
        for _ in 0..100 {
            used.on_demand(&likely(&mut random, &mut last));
        }
        let demand = likely(&mut Random(9), &mut 0);
        let fresh = rule(&typed).on_demand(&demand);
        assert_eq!(rule(&typed).on_demand(&demand), fresh, "{typed}");
    }
}
