//! Plans of the four rules, and the arithmetic of runs.

use super::{Ahead, Demand, Fill, Pages, Plan, RawBytes, Spec};
use crate::units::PAGE_SIZE;

fn rule(typed: &str) -> std::boxed::Box<dyn Fill> {
    Spec::parse(typed).unwrap().build()
}

/// A fault on page 100 whose window lies around it.
const FAULT: Demand = Demand {
    wanted: Pages::new(100, 101),
    window: Pages::new(84, 116),
    file_pages: 1_000,
    copied: false,
    deferred: false,
};

/// The same page once more, after it was deferred.
const DEFERRED: Demand = Demand { window: FAULT.wanted, deferred: true, ..FAULT };

/// A window ahead of its reader.
const AHEAD: Demand =
    Demand { wanted: Pages::none(200), window: Pages::new(200, 232), copied: true, ..FAULT };

fn read(start: u64, end: u64, window: Pages) -> Demand {
    Demand { wanted: Pages::new(start, end), window, copied: true, ..FAULT }
}

#[test]
fn eager_decodes_the_window_block_by_block() {
    let mut eager = rule("eager");
    let Plan { fetch, bulk, now, later } = eager.on_demand(&FAULT);
    assert_eq!((fetch, now, bulk, later.len()), (FAULT.window, FAULT.window, false, 0));
    let plan = eager.on_demand(&AHEAD);
    assert_eq!((plan.fetch, plan.now), (AHEAD.window, AHEAD.window), "the kernel waits for it");
}

#[test]
fn off_brings_in_what_is_wanted() {
    let mut off = rule("off");
    assert_eq!(off.ahead(), Ahead::Ours);
    let plan = off.on_demand(&Demand { window: FAULT.wanted, ..FAULT });
    let own = FAULT.wanted;
    assert_eq!((plan.fetch, plan.now, plan.bulk), (own, own, false));
}

#[test]
fn selective_reads_the_window_and_decodes_what_is_wanted() {
    let mut selective = rule("selective");
    let plan = selective.on_demand(&FAULT);
    assert_eq!((plan.fetch, plan.now, plan.bulk), (FAULT.window, FAULT.wanted, true));
    assert!(plan.later.is_empty(), "nothing is decoded in the background");
    let plan = selective.on_demand(&DEFERRED);
    assert_eq!((plan.fetch, plan.now), (FAULT.wanted, FAULT.wanted), "no window of its own");
    let plan = selective.on_demand(&AHEAD);
    assert_eq!((plan.fetch, plan.now.len(), plan.bulk), (AHEAD.window, 0, true));
}

#[test]
fn a_narrower_window_lies_as_the_wider_one_does() {
    for (max, fetch) in [(1, (100, 101)), (4, (99, 103)), (8, (97, 105)), (32, (84, 116))] {
        let mut rule = rule(&std::format!("selective:window={max}"));
        assert_eq!(rule.on_demand(&FAULT).fetch, Pages::new(fetch.0, fetch.1), "{max}");
    }
    let forward = read(100, 101, Pages::new(100, 132));
    assert_eq!(rule("selective:window=8").on_demand(&forward).fetch, Pages::new(100, 108));
    let large = read(100, 120, Pages::new(100, 132));
    let plan = rule("selective:window=4").on_demand(&large);
    assert_eq!(plan.fetch, large.wanted, "all that is wanted in any case");
}

#[test]
fn idle_processors_are_offered_what_comes_next() {
    let mut rule = rule("selective-then-idle:first=8");
    let plan = rule.on_demand(&FAULT);
    assert_eq!((plan.now, plan.later), (FAULT.wanted, Pages::new(101, 109)));
    assert_eq!(rule.on_demand(&AHEAD).later, AHEAD.window, "no call waits for any of it");
}

#[test]
fn an_offer_that_was_taken_grows_and_one_in_vain_shrinks() {
    let mut rule = rule("selective-then-idle:first=8");
    let mut offer = |at: u64| {
        let (wanted, window) = (Pages::new(at, at + 1), Pages::new(at, at + 100));
        rule.on_demand(&Demand { wanted, window, ..FAULT }).later.len()
    };
    assert_eq!(offer(100), 8);
    assert_eq!(offer(109), 16, "it ended where this one begins");
    assert_eq!(offer(127), 31, "one page was left out; the window ends it");
    assert_eq!(offer(500), 16);
    assert_eq!(offer(300), 8);
    let shrunk = (0..5).map(|turn| offer(1_000 * turn + 2_000)).last();
    assert_eq!(shrunk, Some(0), "a random reader gets nothing that was not asked for");
    assert_eq!(offer(6_001), 2, "and begins anew when demands follow each other");
}

#[test]
fn a_stream_is_decoded_before_its_reader_goes_on() {
    let mut rule = rule("selective-then-idle");
    let window = Pages::new(8, 40);
    let first = rule.on_demand(&read(4, 8, Pages::new(4, 8)));
    assert_eq!(first.now, Pages::new(4, 8), "one read is no stream");
    let second = rule.on_demand(&read(8, 12, window));
    assert_eq!((second.now, second.later.len()), (window, 0));
    let elsewhere = rule.on_demand(&read(100, 104, Pages::new(100, 132)));
    assert_eq!(elsewhere.now, Pages::new(100, 104));
}

#[test]
fn what_a_rule_forgets_is_put_right() {
    let nothing = Plan {
        fetch: Pages::none(0),
        bulk: true,
        now: Pages::none(0),
        later: Pages::new(0, 1_000),
    };
    let plan = nothing.fitted(&FAULT);
    assert_eq!((plan.fetch, plan.now, plan.later), (FAULT.wanted, FAULT.wanted, FAULT.wanted));
    let all = Pages::new(0, u64::MAX);
    let plan = Plan { fetch: all, bulk: true, now: all, later: all }.fitted(&FAULT);
    assert_eq!((plan.fetch, plan.now), (FAULT.window, FAULT.window));
}

#[test]
fn runs_meet_in_what_both_have() {
    let (one, other) = (Pages::new(3, 8), Pages::new(6, 12));
    assert_eq!(one.within(other), Pages::new(6, 8));
    assert_eq!(one.hull(other), Pages::new(3, 12));
    assert!(one.within(Pages::new(20, 30)).is_empty());
    assert_eq!(one.hull(Pages::none(50)), one);
    assert_eq!(Pages::none(50).hull(one), one);
}

#[test]
fn raw_bytes_lie_in_all_pages_that_they_touch() {
    let bytes = |start, end| RawBytes { start, end }.pages();
    assert_eq!(bytes(0, 1), Pages::new(0, 1));
    assert_eq!(bytes(PAGE_SIZE - 1, PAGE_SIZE + 1), Pages::new(0, 2));
    assert_eq!(bytes(PAGE_SIZE, 2 * PAGE_SIZE), Pages::new(1, 2));
    assert!(bytes(5, 5).is_empty());
}
