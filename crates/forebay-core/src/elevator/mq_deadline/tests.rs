//! The rule of 6.18 by hand.

use std::vec::Vec;

use crate::elevator::testing::{Bench, By};
use crate::time::Duration;
use crate::units::RequestId;

const READ: By = By::Reader(0);

fn add(bench: &mut Bench, by: By, sectors: &[u64]) -> Vec<RequestId> {
    sectors.iter().map(|&sector| bench.add(by, sector).0).collect()
}

/// An elevator that has dispatched one read.
fn reading(typed: &str, sector: u64) -> Bench {
    let mut bench = Bench::new(typed);
    add(&mut bench, READ, &[sector]);
    assert_eq!(bench.next(), Some(sector));
    bench
}

fn steps(first: u64, count: u64, step: u64) -> Vec<u64> {
    (0..count).map(|n| first + step * n).collect()
}

#[test]
fn a_fresh_queue_begins_as_in_a_batch_of_writes() {
    let mut bench = Bench::new("mq-deadline");
    for expected in [[8, 16, 48, 80], [80, 16, 48, 8]] {
        add(&mut bench, READ, &[80, 16, 48]);
        add(&mut bench, By::Flusher, &[8]);
        assert_eq!(bench.rest(), expected);
    }
}

#[test]
fn a_batch_passes_gaps_and_writes_come_after_two_further_ones() {
    let mut bench = reading("mq-deadline", 0);
    let reads = steps(100, 60, 100);
    add(&mut bench, READ, &reads);
    add(&mut bench, By::Flusher, &[9_000, 50]);
    let order = bench.rest();
    // The batch of the first read, and two more.
    assert_eq!(order[..47], reads[..47]);
    assert_eq!(order[47..49], [50, 9_000]);
    assert_eq!(order[49..], reads[47..]);
}

#[test]
fn writes_starved_and_fifo_batch_set_how_many_reads_go_first() {
    for (starved, batch, first) in [(0, 16, 15), (1, 16, 31), (2, 4, 11), (2, 1, 2), (2, 0, 2)] {
        let typed = std::format!("mq-deadline:writes_starved={starved},fifo_batch={batch}");
        let mut bench = reading(&typed, 0);
        add(&mut bench, READ, &steps(100, 60, 100));
        add(&mut bench, By::Flusher, &[9_000]);
        let order = bench.rest();
        assert_eq!(order.iter().position(|&sector| sector == 9_000), Some(first), "{typed}");
    }
}

#[test]
fn a_read_that_expired_begins_the_next_batch() {
    for (early, expected) in [(0, [100, 200, 300, 6_120]), (1, [6_120, 6_128, 6_136, 6_144])] {
        let mut bench = reading("mq-deadline", 5_000);
        add(&mut bench, READ, &[100]);
        bench.after(Duration(500_000_000 - early));
        add(&mut bench, READ, &steps(6_000, 30, 8));
        add(&mut bench, READ, &[200, 300]);
        let order = bench.rest();
        assert_eq!(order[..15], steps(6_000, 15, 8));
        assert_eq!(order[15..19], expected);
    }
}

#[test]
fn a_write_that_expired_waits_for_a_choice_of_writes() {
    let mut bench = reading("mq-deadline:fifo_batch=1", 0);
    add(&mut bench, By::Flusher, &[900]);
    bench.after(Duration::from_secs(5));
    add(&mut bench, By::Flusher, &[100]);
    add(&mut bench, READ, &[10, 30, 50]);
    assert_eq!(bench.rest(), [10, 30, 900, 50, 100]);
}

#[test]
fn one_sweep_goes_up_and_starts_again_from_the_oldest() {
    let mut bench = reading("mq-deadline", 900);
    add(&mut bench, READ, &[500, 100, 950, 700]);
    assert_eq!(bench.rest(), [950, 500, 700, 100]);
}

#[test]
fn a_read_that_begins_no_earlier_than_the_last_one_goes_before_those_above() {
    for sector in [100, 104, 108] {
        let mut bench = reading("mq-deadline", 100);
        add(&mut bench, READ, &[900, sector, 99]);
        assert_eq!(bench.rest(), [sector, 900, 99]);
    }
}

#[test]
fn a_request_that_begins_at_a_sector_is_found_unless_front_merges_are_off() {
    for (typed, found) in [("mq-deadline", true), ("mq-deadline:front_merges=off", false)] {
        let mut bench = reading(typed, 0);
        let ids = add(&mut bench, By::Flusher, &[100, 200]);
        let at = |bench: &Bench, sector, write| bench.elevator.starts_at(sector, write);
        assert_eq!(at(&bench, 200, true), found.then_some(ids[1]));
        assert_eq!(at(&bench, 200, false), None);
        bench.grow_front(ids[1]);
        assert_eq!(at(&bench, 200, true), None);
        assert_eq!(at(&bench, 192, true), found.then_some(ids[1]));
        assert_eq!(bench.rest(), [100, 192]);
        assert_eq!(at(&bench, 192, true), None);
    }
}

#[test]
fn a_joined_request_keeps_the_earlier_deadline() {
    let mut bench = reading("mq-deadline:fifo_batch=1", 0);
    let late = add(&mut bench, READ, &[908])[0];
    bench.after(Duration::from_millis(200));
    let early = add(&mut bench, READ, &[900])[0];
    bench.join(early, late);
    bench.after(Duration::from_millis(300));
    add(&mut bench, READ, &[100]);
    assert_eq!(bench.take().map(|one| (one.sector, one.sectors)), Some((900, 16)));
    assert_eq!(bench.rest(), [100]);
}
