//! The balance of Linux 2.2.19, the passes of bdflush and the ages of kupdate.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::flush::Spec;
use crate::flush::testing::{Bench, jiffies};
use crate::writeback::Amount;

/// `dirty` pages of file 0 that no rule has seen become dirty.
fn filled(spec: &str, dirty: u64) -> Bench {
    let mut bench = Bench::new(spec);
    for page in 0..dirty {
        bench.touch(0, page);
    }
    bench.rule = Spec::parse(spec).unwrap().build();
    bench
}

#[test]
fn writers_go_on_up_to_half_of_nfract_and_wait_above_nfract() {
    let vectors = [
        (20_000, 40, Balance::Below),
        (20_001, 40, Balance::Asynchronous),
        (40_000, 40, Balance::Asynchronous),
        (40_001, 40, Balance::Blocking),
        (50_000, 100, Balance::Below),
        (50_001, 100, Balance::Asynchronous),
        (100_000, 100, Balance::Asynchronous),
        (15_001, 30, Balance::Asynchronous),
        (30_001, 30, Balance::Blocking),
        (1, 0, Balance::Blocking),
        (0, 0, Balance::Below),
    ];
    for (dirty, nfract, expected) in vectors {
        let bench = filled(&format!("bdflush-2.2.19:nfract={nfract}"), dirty);
        assert_eq!(Balance::of(&bench.pages), expected, "{dirty} of nfract {nfract}");
    }
}

#[test]
fn a_page_asks_for_what_the_balance_says() {
    let mut bench = Bench::new("bdflush-2.2.19:nfract=2,interval=0");
    let demands: Vec<_> = (0..2_001).map(|page| bench.touch(0, page)).collect();
    assert_eq!(demands[0], Demand::Run, "the first page winds the timer");
    assert!(demands[1..1_000].iter().all(|demand| *demand == Demand::Nothing));
    assert!(demands[1_000..2_000].iter().all(|demand| *demand == Demand::Run));
    assert_eq!(demands[2_000], Demand::RunAndWait);
}

#[test]
fn passes_of_ndirty_pages_follow_each_other_while_much_is_dirty() {
    // The state stays at 0 until nothing is dirty.
    let mut bench = filled("bdflush-2.2.19:nfract=2,ndirty=500", 1_300);
    bench.pages.knobs.background = Amount::Pages(0);
    bench.pages.short = true;
    bench.run();
    assert_eq!(bench.pages.passes, [500, 500, 300]);
}

#[test]
fn passes_end_when_the_dirty_pages_are_below_the_asynchronous_level() {
    let mut bench = filled("bdflush-2.2.19:nfract=2,ndirty=100", 1_000);
    bench.dirty(0, 5_000);
    assert_eq!(bench.pages.passes, [100], "one pass leaves 901, which is below 1000");
    assert_eq!(bench.take_log(), [(0, 0, 100)], "the oldest first, whatever the age");
}

#[test]
fn a_full_device_keeps_the_pass_open() {
    let mut bench = filled("bdflush-2.2.19:nfract=0,ndirty=10", 20);
    bench.pages.devices[0].slots = 4;
    bench.dirty(0, 100);
    assert_eq!(bench.pages.passes, [0; 0]);
    bench.complete(0, 4);
    assert_eq!(bench.pages.passes, [0; 0]);
    bench.complete(0, 4);
    assert_eq!(bench.pages.passes, [10], "two more pages ended it; the next is open");
    bench.complete_all();
    assert_eq!(bench.pages.passes, [10, 10, 1], "nothing is dirty");
}

#[test]
fn a_pass_does_not_write_what_became_dirty_after_it_began() {
    let mut bench = filled("bdflush-2.2.19:nfract=0", 5);
    bench.pages.devices[0].slots = 2;
    bench.run();
    bench.dirty(0, 100);
    bench.dirty(0, 101);
    bench.complete(0, 2);
    bench.complete(0, 2);
    bench.complete(0, 2);
    bench.complete_all();
    assert_eq!(bench.pages.passes, [5, 2], "the list held five pages when the pass began");
}

#[test]
fn a_blocked_writer_waits_for_one_pass_not_for_the_limit() {
    let mut bench = filled("bdflush-2.2.19:nfract=1,ndirty=100", 1_500);
    bench.pages.devices[0].slots = 100;
    assert_eq!(bench.dirty(0, 9_999), Demand::RunAndWait);
    assert_eq!(bench.pages.passes, [100]);
    assert!(bench.pages.all().dirty > 1_000, "still above the limit");
}

#[test]
fn blocked_writers_take_back_a_page_each_of_what_a_pass_cleans() {
    let writers = 10;
    let mut bench = filled("bdflush-2.2.19:nfract=1,ndirty=100", 1_500);
    bench.pages.devices[0].slots = 100;
    bench.dirty(0, 9_999);
    for round in 1..=5 {
        for writer in 0..writers {
            let demand = bench.dirty(1, 100 * round + writer);
            assert_eq!(demand, Demand::RunAndWait, "round {round}");
        }
        let before = bench.pages.all().dirty;
        bench.complete(0, 100);
        assert_eq!(bench.pages.all().dirty, before - 100);
        assert_eq!(bench.pages.all().dirty, 1_401 - round * 90);
        assert_eq!(bench.pages.passes.len() as u64, 1 + round, "one pass for all of them");
    }
    assert_eq!(bench.dirty(1, 0), Demand::Run, "at memory speed again: 952 are dirty");
}

#[test]
fn a_page_is_written_at_the_first_pass_of_kupdate_after_its_age() {
    let mut bench = Bench::new("bdflush-2.2.19");
    bench.advance_to(jiffies(1_000));
    bench.dirty(0, 7);
    bench.advance_to(jiffies(2_500));
    bench.dirty(0, 7);
    bench.advance_to(jiffies(3_999));
    assert_eq!(bench.take_log(), [], "not at 3500");
    bench.advance_to(jiffies(4_000));
    assert_eq!(bench.take_log(), [(0, 7, 1)], "dirtying it again has not moved it");
}

#[test]
fn the_timer_runs_freely_while_nothing_is_dirty() {
    let mut bench = Bench::new("bdflush-2.2.19");
    assert_eq!(bench.rule.timeout(), None);
    bench.advance_to(jiffies(1_234));
    bench.dirty(0, 0);
    assert_eq!(bench.rule.timeout(), Some(jiffies(1_500)));
    bench.advance_to(jiffies(20_000));
    bench.complete_all();
    bench.advance_to(jiffies(30_000));
    assert_eq!(bench.rule.timeout(), None, "all is written, metadata too");
    bench.dirty(0, 0);
    assert_eq!(bench.rule.timeout(), Some(jiffies(30_500)));
}

#[test]
fn kupdate_sleeps_for_the_interval_after_the_end_of_its_pass() {
    let mut bench = Bench::new("bdflush-2.2.19");
    bench.dirty_range(0, 0..2);
    bench.advance_to(jiffies(2_999));
    bench.complete_all();
    bench.pages.devices[0].slots = 1;
    bench.advance_to(jiffies(3_600));
    assert_eq!(bench.rule.timeout(), None, "the second page waits for the first");
    bench.dirty(0, 2);
    bench.advance_to(jiffies(3_700));
    assert_eq!(bench.rule.timeout(), None);
    bench.complete(0, 1);
    assert_eq!(bench.rule.timeout(), Some(jiffies(4_200)));
}

#[test]
fn the_age_at_submission_lies_between_the_age_and_one_interval_more() {
    for at in [0, 1, 77, 499, 500, 501, 1_000, 1_337] {
        let mut bench = Bench::new("bdflush-2.2.19");
        bench.advance_to(jiffies(at));
        bench.dirty(0, 0);
        bench.advance_to(jiffies(at + 3_500));
        let written: Vec<_> = bench.pages.log.iter().filter(|w| w.page.is_some()).collect();
        assert_eq!(written.len(), 1, "{at}");
        let age = written[0].at.since(jiffies(at));
        assert!((JIFFY.times(3_000)..=JIFFY.times(3_500)).contains(&age), "{at}: {age}");
    }
}

#[test]
fn pages_of_one_burst_become_due_together_and_ndirty_does_not_bound_kupdate() {
    let mut bench = Bench::new("bdflush-2.2.19:ndirty=10");
    bench.advance_to(jiffies(100));
    bench.dirty_range(0, 0..2_000);
    bench.advance_to(jiffies(3_499));
    assert_eq!(bench.take_log(), []);
    bench.advance_to(jiffies(3_500));
    assert_eq!(bench.take_log(), [(0, 0, 2_000)]);
}

#[test]
fn metadata_goes_by_its_own_age_before_the_pages() {
    let mut bench = Bench::new("bdflush-2.2.19:age_buffer=100");
    bench.advance_to(jiffies(400));
    bench.dirty(0, 0);
    bench.advance_to(jiffies(500));
    assert_eq!(bench.pages.log.len(), 1, "the page");
    bench.advance_to(jiffies(1_000));
    let pages: Vec<_> = bench.pages.log.iter().map(|write| write.page).collect();
    assert_eq!(pages, [Some(0), None], "metadata is old at 900");
}

#[test]
fn an_interval_of_zero_stops_kupdate() {
    let mut bench = Bench::new("bdflush-2.2.19:interval=0");
    bench.dirty_range(0, 0..10);
    assert_eq!(bench.rule.timeout(), None);
    bench.advance_to(jiffies(100_000));
    bench.run();
    assert_eq!(bench.take_log(), []);
}

#[test]
fn a_new_interval_counts_from_the_end_of_the_present_sleep() {
    let mut bench = Bench::new("bdflush-2.2.19");
    bench.dirty(0, 0);
    bench.pages.knobs.interval = JIFFY.times(15);
    bench.advance_to(jiffies(100));
    bench.run();
    assert_eq!(bench.rule.timeout(), Some(jiffies(500)));
    bench.advance_to(jiffies(500));
    assert_eq!(bench.rule.timeout(), Some(jiffies(515)));
}

#[test]
fn both_daemons_wait_for_a_full_device_and_take_turns() {
    let mut bench = Bench::new("bdflush-2.2.19");
    bench.pages.devices[0].slots = 1;
    bench.dirty_range(0, 0..20);
    // One slot is busy with metadata of the past, so both find the device full.
    bench.pages.short = true;
    bench.run();
    bench.pages.short = false;
    bench.advance_to(jiffies(3_000));
    assert_eq!(bench.take_log(), [(0, 0, 1)]);
    bench.complete_all();
    assert_eq!(bench.pages.all().dirty, 0);
    assert_eq!(bench.pages.all().written, 20);
    let metadata = bench.pages.log.iter().position(|write| write.page.is_none());
    assert!(metadata.is_some_and(|place| place < 3), "kupdate did not wait for all of bdflush");
}

#[test]
fn the_end_of_a_pass_of_kupdate_wakes_no_writer_of_bdflush() {
    let mut bench = Bench::new("bdflush-2.2.19");
    bench.pages.devices[0].slots = 1;
    bench.dirty_range(0, 0..3);
    bench.pages.short = true;
    bench.run();
    bench.advance_to(jiffies(500));
    assert_eq!(bench.rule.timeout(), Some(jiffies(1_000)), "kupdate was there, nothing was old");
    assert_eq!(bench.pages.passes, [0; 0]);
    bench.pages.short = false;
    bench.complete_all();
    assert_eq!(bench.pages.passes, [3]);
}

#[test]
fn a_field_out_of_its_range_is_rejected_by_name() {
    let message = Spec::parse("bdflush-2.2.19:nfract=200").unwrap_err().to_string();
    assert_eq!(message, "'nfract' takes a number from 0 to 100, not '200'");
    for field in FIELDS {
        let text = format!("bdflush-2.2.19:{}={}", field.name, field.high + 1);
        assert!(Spec::parse(&text).is_err(), "{text}");
        let text = format!("bdflush-2.2.19:{}={}", field.name, field.high);
        assert!(Spec::parse(&text).is_ok(), "{text}");
    }
}
