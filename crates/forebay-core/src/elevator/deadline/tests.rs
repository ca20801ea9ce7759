//! The rule of 2.6.21 by hand.

use std::vec::Vec;

use crate::elevator::testing::{Bench, By};
use crate::time::Duration;
use crate::units::RequestId;

const READ: By = By::Reader(0);

fn add(bench: &mut Bench, by: By, sectors: &[u64]) -> Vec<RequestId> {
    sectors.iter().map(|&sector| bench.add(by, sector).0).collect()
}

/// Reads and then writes come at once, and all leave; says where each begins.
fn order(typed: &str, reads: &[u64], writes: &[u64]) -> Vec<u64> {
    let mut bench = Bench::new(typed);
    add(&mut bench, READ, reads);
    add(&mut bench, By::Flusher, writes);
    bench.rest()
}

#[test]
fn every_gap_ends_the_batch_and_the_third_choice_goes_to_the_write() {
    assert_eq!(order("deadline", &[80, 16, 48], &[8]), [16, 48, 8, 80]);
}

#[test]
fn writes_starved_counts_the_choices_of_reads() {
    let order = |starved| {
        order(&std::format!("deadline:writes_starved={starved}"), &[80, 16, 48], &[8, 200])
    };
    assert_eq!(order(0), [8, 200, 16, 48, 80]);
    assert_eq!(order(1), [16, 8, 48, 200, 80]);
    assert_eq!(order(9), [16, 48, 80, 8, 200]);
}

#[test]
fn a_batch_without_gaps_has_sixteen_requests_and_the_next_ones_are_chosen_each() {
    let reads: Vec<u64> = (0..20).map(|n| 8 * n).collect();
    let mut expected = reads.clone();
    // The first choice and the one behind the batch were for reads.
    expected.insert(17, 8_000);
    assert_eq!(order("deadline", &reads, &[8_000]), expected);
    expected.remove(17);
    expected.insert(5, 8_000);
    assert_eq!(order("deadline:fifo_batch=4", &reads, &[8_000]), expected);
    expected.remove(5);
    expected.insert(2, 8_000);
    assert_eq!(order("deadline:fifo_batch=0", &reads, &[8_000]), expected);
}

#[test]
fn a_batch_of_writes_goes_on_although_a_read_comes() {
    let mut bench = Bench::new("deadline");
    add(&mut bench, By::Flusher, &[8, 16, 24, 40]);
    assert_eq!(bench.next(), Some(8));
    add(&mut bench, READ, &[500]);
    assert_eq!(bench.rest(), [16, 24, 500, 40]);
}

#[test]
fn a_read_that_expired_goes_first_once_its_jiffy_has_passed() {
    for (typed, ms, first) in [
        ("deadline", 503, 100),
        ("deadline", 504, 900),
        ("deadline:hz=100", 509, 100),
        ("deadline:hz=100", 510, 900),
        ("deadline:hz=1000", 500, 100),
        ("deadline:hz=1000", 501, 900),
        ("deadline:read_expire=0", 3, 100),
        ("deadline:read_expire=0", 4, 900),
    ] {
        let mut bench = Bench::new(typed);
        add(&mut bench, READ, &[900]);
        bench.after(Duration::from_millis(ms));
        add(&mut bench, READ, &[100]);
        assert_eq!(bench.next(), Some(first), "{typed} after {ms} ms");
    }
}

#[test]
fn a_write_that_expired_waits_for_a_choice_of_writes() {
    let mut bench = Bench::new("deadline");
    add(&mut bench, By::Flusher, &[900]);
    bench.after(Duration::from_millis(5_004));
    add(&mut bench, By::Flusher, &[100]);
    add(&mut bench, READ, &[10, 30, 50]);
    assert_eq!(bench.rest(), [10, 30, 900, 50, 100]);
}

#[test]
fn one_sweep_goes_up_and_starts_again_from_the_lowest() {
    let mut bench = Bench::new("deadline");
    add(&mut bench, READ, &[500, 900]);
    assert_eq!(bench.next(), Some(500));
    add(&mut bench, READ, &[300, 100, 700]);
    // A request that arrives between the last one and the one after it is skipped.
    assert_eq!(bench.rest(), [900, 100, 300, 700]);
}

#[test]
fn a_new_sweep_begins_a_new_batch() {
    let mut bench = Bench::new("deadline");
    add(&mut bench, READ, &[500, 900]);
    assert_eq!(bench.rest(), [500, 900]);
    add(&mut bench, READ, &[0, 8, 16]);
    add(&mut bench, By::Flusher, &[700]);
    // If the gap below 900 still counted, the second read would be chosen, and the third not.
    assert_eq!(bench.rest(), [0, 8, 16, 700]);
}

#[test]
fn a_request_that_begins_at_a_sector_is_found_unless_front_merges_are_off() {
    for (typed, found) in [("deadline", true), ("deadline:front_merges=off", false)] {
        let mut bench = Bench::new(typed);
        let ids = add(&mut bench, READ, &[100, 200]);
        let at = |bench: &Bench, sector, write| bench.elevator.starts_at(sector, write);
        assert_eq!(at(&bench, 200, false), found.then_some(ids[1]));
        assert_eq!(at(&bench, 200, true), None);
        bench.grow_front(ids[1]);
        assert_eq!(at(&bench, 200, false), None);
        assert_eq!(at(&bench, 192, false), found.then_some(ids[1]));
        assert_eq!(bench.rest(), [100, 192]);
        assert_eq!(at(&bench, 192, false), None);
    }
}

#[test]
fn a_joined_request_keeps_the_earlier_deadline() {
    let mut bench = Bench::new("deadline");
    let late = add(&mut bench, READ, &[908])[0];
    bench.after(Duration::from_millis(200));
    let early = add(&mut bench, READ, &[900])[0];
    bench.join(early, late);
    bench.after(Duration::from_millis(304));
    add(&mut bench, READ, &[100]);
    assert_eq!(bench.take().map(|one| (one.sector, one.sectors)), Some((900, 16)));
    assert_eq!(bench.rest(), [100]);
}

#[test]
fn a_request_that_grew_goes_on_where_it_ends() {
    let mut bench = Bench::new("deadline");
    let ids = add(&mut bench, READ, &[8, 24, 200]);
    add(&mut bench, By::Flusher, &[900]);
    bench.grow_back(ids[0]);
    // Without the growth the read at 24 would have been chosen, and the next one not.
    bench.grow_back(ids[1]);
    assert_eq!(bench.rest(), [8, 24, 200, 900]);
}

#[test]
fn the_request_behind_the_last_one_may_grow_and_be_joined() {
    let mut bench = Bench::new("deadline");
    let ids = add(&mut bench, READ, &[0, 16, 40, 80]);
    assert_eq!(bench.next(), Some(0));
    bench.grow_front(ids[1]);
    assert_eq!(bench.take().map(|one| (one.sector, one.sectors)), Some((8, 16)));
    let lower = add(&mut bench, READ, &[32])[0];
    bench.join(lower, ids[2]);
    // The request at 40 was behind the last one; the one behind it takes its place.
    assert_eq!(bench.rest(), [80, 32]);
}
