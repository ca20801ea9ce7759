//! Levels, chunks, scans for old files, and several devices.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::flush::Spec;
use crate::flush::testing::Bench;

fn seconds(count: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(count)
}

#[test]
fn background_writes_until_its_level_is_reached_again() {
    let mut bench = Bench::new("linux-6");
    bench.dirty_range(0, 0..10_000);
    assert_eq!(bench.take_log(), []);
    bench.dirty(0, 10_000);
    // An eighth of the limit of 20 000 pages and 1024, in whole 1024s.
    assert_eq!(bench.take_log(), [(0, 0, 3_072)]);
}

#[test]
fn a_chunk_is_half_a_second_of_the_drain_but_no_more_than_an_eighth_of_the_limit() {
    let mut bench = Bench::new("linux-6");
    let chunk = |bench: &Bench| chunk_pages(DeviceId(0), &bench.pages);
    assert_eq!(chunk(&bench), 3_072, "2500 + 1024 down to 3072");
    bench.pages.devices[0].drain = Some(100);
    assert_eq!(chunk(&bench), 1_024);
    bench.pages.devices[0].drain = Some(2_048);
    assert_eq!(chunk(&bench), 2_048);
    bench.pages.devices[0].drain = None;
    bench.pages.total = 10_000_000;
    assert_eq!(chunk(&bench), 13_312, "12800 + 1024 down to 13312 for 100 MB/s");
    bench.pages.knobs.batch = Some(77);
    assert_eq!(chunk(&bench), 77);
}

#[test]
fn chunks_are_those_of_the_kernel() {
    let mut bench = Bench::new("linux-6");
    let cases = [
        (10_000, 32_768, 5_120),
        (25_600, 1_048_576, 13_312),
        (1_000, 32_768, 1_024),
        (200_000, 1_048_576, 100_352),
    ];
    for (drain, limit, pages) in cases {
        bench.pages.devices[0].drain = Some(drain);
        bench.pages.knobs.limit = Amount::Pages(limit);
        assert_eq!(chunk_pages(DeviceId(0), &bench.pages), pages, "{drain} {limit}");
    }
}

#[test]
fn files_are_written_in_turn_and_each_goes_on_where_it_ended() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.batch = Some(10);
    for file in [3, 1] {
        for page in 0..25 {
            bench.touch(file, page);
        }
    }
    bench.pages.short = true;
    bench.run();
    let expected = [(3, 0, 10), (1, 0, 10), (3, 10, 10), (1, 10, 10), (3, 20, 5), (1, 20, 5)];
    assert_eq!(bench.take_log(), expected);
}

#[test]
fn a_file_that_was_rewritten_behind_its_place_is_written_from_its_beginning_again() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.batch = Some(10);
    for page in 0..15 {
        bench.touch(0, page);
    }
    bench.pages.devices[0].slots = 12;
    bench.pages.short = true;
    bench.run();
    bench.touch(0, 3);
    bench.complete_all();
    assert_eq!(bench.take_log(), [(0, 0, 15), (0, 3, 1)]);
}

#[test]
fn a_full_device_interrupts_a_chunk_without_taking_the_turns_of_others() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.batch = Some(4);
    bench.pages.devices[0].slots = 1;
    for page in 0..8 {
        bench.touch(0, page);
        bench.touch(1, page);
    }
    bench.pages.short = true;
    bench.run();
    bench.complete_all();
    assert_eq!(bench.take_log(), [(0, 0, 4), (1, 0, 4), (0, 4, 4), (1, 4, 4)]);
}

#[test]
fn an_interrupted_chunk_is_finished_even_below_the_background_level() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.batch = Some(20);
    bench.pages.knobs.background = Amount::Pages(10);
    bench.pages.devices[0].slots = 5;
    bench.dirty_range(0, 0..11);
    assert_eq!(bench.pages.all().dirty, 6);
    bench.complete_all();
    assert_eq!(bench.take_log(), [(0, 0, 11)]);
}

#[test]
fn a_page_that_is_redirtied_on_its_way_keeps_its_file_in_the_line() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.background = Amount::Pages(0);
    bench.dirty(0, 0);
    bench.dirty(0, 0);
    bench.pages.short = true;
    bench.run();
    assert_eq!(bench.pages.all().dirty, 0, "it becomes dirty when its write ends");
    bench.complete_all();
    assert_eq!(bench.take_log(), [(0, 0, 1), (0, 0, 1)]);
}

#[test]
fn a_full_device_does_not_stop_the_others() {
    let mut bench = Bench::with_devices("linux-6", 3);
    bench.pages.knobs.background = Amount::Pages(0);
    bench.pages.devices[0].slots = 0;
    bench.pages.devices[1].slots = 2;
    for file in 0..3 {
        bench.dirty_range(file, 0..10);
    }
    let on = |bench: &Bench, device: u32| bench.pages.device(DeviceId(device)).dirty;
    assert_eq!((on(&bench, 0), on(&bench, 1), on(&bench, 2)), (10, 8, 0));
    bench.complete(2, 1);
    assert_eq!(on(&bench, 1), 8, "nothing of device 1 is done");
    bench.complete(1, 1);
    assert_eq!(on(&bench, 1), 7);
    bench.pages.devices[0].slots = 3;
    bench.complete(2, 1);
    assert_eq!(on(&bench, 0), 7, "any write that is done tries every device again");
}

#[test]
fn a_page_of_a_full_device_does_not_run_the_rule() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.background = Amount::Pages(0);
    bench.pages.devices[0].slots = 1;
    assert_eq!(bench.dirty(0, 0), Demand::Run);
    assert_eq!(bench.dirty(0, 1), Demand::Run, "one page is on its way, the other found it full");
    assert_eq!(bench.dirty(0, 2), Demand::Nothing);
    bench.complete(0, 1);
    bench.complete_all();
    assert_eq!(bench.pages.all().written, 3);
}

#[test]
fn without_a_background_level_pages_go_from_the_first_one_on_until_none_is_dirty() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.background = Amount::Pages(0);
    bench.dirty(0, 5);
    assert_eq!(bench.take_log(), [(0, 5, 1)]);
    bench.dirty(0, 6);
    assert_eq!(bench.take_log(), [(0, 6, 1)]);
    assert_eq!(bench.pages.all().dirty, 0);
}

#[test]
fn files_become_old_and_the_next_look_writes_all_their_pages() {
    let mut bench = Bench::new("linux-6:commit=0");
    bench.advance_to(seconds(1));
    bench.dirty_range(0, 0..5_000);
    bench.advance_to(seconds(20));
    bench.dirty_range(1, 0..10);
    bench.dirty(0, 7_000);
    assert_eq!(bench.rule.timeout(), Some(seconds(21)), "every 5 s from the first page on");
    bench.advance_to(seconds(30));
    assert_eq!(bench.take_log(), []);
    bench.advance_to(seconds(31));
    assert_eq!(bench.take_log(), [(0, 0, 5_000), (0, 7_000, 1)], "a young page of it too");
    bench.advance_to(seconds(50));
    assert_eq!(bench.take_log(), []);
    bench.advance_to(seconds(51));
    assert_eq!(bench.take_log(), [(1, 0, 10)]);
    bench.complete_all();
    bench.advance_to(seconds(60));
    assert_eq!(bench.rule.timeout(), None);
}

#[test]
fn a_look_goes_on_over_several_runs_and_comes_to_an_end() {
    let mut bench = Bench::new("linux-6:commit=0,interval=6000");
    bench.pages.devices[0].slots = 3;
    bench.dirty_range(0, 0..10);
    bench.dirty_range(1, 0..10);
    bench.advance_to(seconds(60));
    assert_eq!(bench.take_log(), [(0, 0, 3)]);
    // A page for each that is written: the scan still ends.
    for page in 10..40 {
        bench.dirty(0, page);
        bench.complete(0, 1);
    }
    bench.complete_all();
    let (all, log) = (bench.pages.all(), bench.take_log());
    assert_eq!(all.written, 20, "what was dirty at the look: {log:?}");
    assert_eq!(all.dirty, 30);
}

#[test]
fn a_look_wraps_around_a_file_of_which_a_chunk_was_written() {
    let mut bench = Bench::new("linux-6:commit=0");
    bench.pages.knobs.batch = Some(5);
    bench.pages.knobs.background = Amount::Pages(9);
    bench.dirty_range(0, 0..10);
    assert_eq!(bench.take_log(), [(0, 0, 5)]);
    bench.complete_all();
    bench.touch(0, 2);
    bench.advance_to(seconds(30));
    assert_eq!(bench.take_log(), [(0, 5, 5), (0, 2, 1)]);
}

#[test]
fn without_an_interval_nothing_becomes_old() {
    let mut bench = Bench::new("linux-6:interval=0,commit=0");
    bench.dirty_range(0, 0..100);
    assert_eq!(bench.rule.timeout(), None);
    bench.advance_to(seconds(1_000));
    bench.run();
    assert_eq!(bench.pages.log, []);
}

#[test]
fn metadata_is_committed_by_its_own_clock() {
    let written = |spec| {
        let mut bench = Bench::new(spec);
        bench.dirty(0, 0);
        bench.advance_to(seconds(29));
        bench.pages.log.iter().map(|write| (write.at, write.page)).collect::<Vec<_>>()
    };
    assert_eq!(written("linux-6"), [(seconds(10), None)], "at 5 s it is not older than 5 s");
    assert_eq!(written("linux-6:interval=0"), [(seconds(10), None)]);
    assert_eq!(written("linux-6:commit=8"), [(seconds(16), None)]);
    assert_eq!(written("linux-6:commit=0"), []);
}

#[test]
fn metadata_of_a_file_whose_pages_are_written_waits_for_its_age() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.background = Amount::Pages(0);
    bench.dirty(0, 0);
    bench.complete_all();
    assert_eq!(bench.rule.timeout(), Some(seconds(5)));
    bench.advance_to(seconds(9));
    assert_eq!(bench.pages.log.len(), 1, "the page");
    bench.advance_to(seconds(10));
    assert_eq!(bench.pages.log[1].page, None);
    assert_eq!(bench.rule.timeout(), None);
}

#[test]
fn the_rule_by_itself_has_the_knobs_of_the_kernel() {
    assert_eq!(Spec::parse("linux-6").unwrap().build().knobs(), Knobs::LINUX);
}

#[test]
fn levels_can_be_given_in_mib() {
    let knobs = Spec::parse("linux-6:limit_mib=64,background_mib=8").unwrap().build().knobs();
    assert_eq!((knobs.limit, knobs.background), (Amount::Pages(16_384), Amount::Pages(2_048)));
    let knobs = Spec::parse("linux-6:limit_mib=64").unwrap().build().knobs();
    assert_eq!(knobs.background, Amount::percent(10));
}

#[test]
fn a_background_level_above_the_limit_is_rejected() {
    let message = |text| Spec::parse(text).unwrap_err().to_string();
    let expected = "the policy 'linux-6': the background level lies above the limit; the kernel \
                    would use half the limit and say nothing";
    assert_eq!(message("linux-6:background=50"), expected);
    assert_eq!(message("linux-6:limit=9"), expected);
    assert_eq!(message("linux-6:limit_mib=8,background_mib=9"), expected);
    assert!(Spec::parse("linux-6:limit=10").is_ok(), "half the limit, as in the kernel");
    assert!(Spec::parse("linux-6:limit_mib=8,background=90").is_ok(), "depends on the memory");
}

#[test]
fn a_controller_that_reverses_the_levels_gets_half_the_limit() {
    let mut bench = Bench::new("linux-6");
    bench.pages.knobs.limit = Amount::Pages(100);
    bench.pages.knobs.background = Amount::Pages(200);
    bench.dirty_range(0, 0..50);
    assert_eq!(bench.take_log(), []);
    bench.dirty(0, 50);
    assert_eq!(bench.take_log(), [(0, 0, 51)]);
}
