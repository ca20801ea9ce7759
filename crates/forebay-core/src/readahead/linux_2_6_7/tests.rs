//! The vectors of 2.6.7 and what follows from its rule, under a limit of 32 pages.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::super::serial::OFF;
use super::super::testing::{Bench, Shown};
use super::*;
use crate::units::PAGE_SIZE;

impl Shown for Linux267 {
    fn clauses(&self) -> Vec<String> {
        let state = &self.state;
        let window = |window: Window| format!("{}/{}", window.start, window.size);
        let ahead = if state.ahead.start == 0 { "-".to_string() } else { window(state.ahead) };
        let next = if state.next == OFF { "OFF".to_string() } else { state.next.to_string() };
        vec![
            window(state.current),
            format!("next {next}"),
            format!("prev {}", state.prev),
            format!("ahead {ahead}"),
            format!("ser {}", state.run),
            format!("avg {}", state.average),
            format!("miss {}", self.faults.misses),
            format!("hit {}", self.faults.hits),
        ]
    }
}

fn bench() -> Bench<Linux267> {
    Bench::of(Linux267::new(32), 1_000_000)
}

/// Pages that each of `requests` far-apart reads of `n` pages takes.
fn random_reads(n: u64, requests: u64) -> Vec<u64> {
    let mut bench = Bench::of(Linux267::new(32), (requests + 2) * 1000);
    let mut before = 0;
    let mut pages = Vec::new();
    for request in 1..=requests {
        bench.read(request * 1000, n);
        pages.push(bench.resident() - before);
        before = bench.resident();
    }
    pages
}

#[test]
fn v1_reads_a_sequence_of_single_pages() {
    let mut bench = bench();
    for page in 0..=83 {
        let submitted = bench.read(page, 1);
        let (expected, state) = match page {
            0 => ("+[0,16)", "0/16, next 16, prev 0, ahead -, ser 1, avg 16"),
            8 => ("", "0/16, next 32, ser 9"),
            16 => ("+[16,32)", "16/16, next 16, prev 16, ser 17, avg 16"),
            32 => ("+[32,48)", "32/16, next 16, ser 33"),
            48 => ("+[48,64)", "48/16, next 16, ser 49"),
            49 => ("+[64,82)", "48/16, next 18, ahead 64/18, ser 50"),
            64 => ("", "64/18, next 32, ahead -, ser 65"),
            65 => ("+[82,114)", "64/18, next 32, ahead 82/32, ser 65"),
            82 => ("", "82/32, ahead -"),
            83 => ("+[114,146)", "82/32, ahead 114/32, ser 65, avg 16"),
            _ => ("", ""),
        };
        assert_eq!(submitted, expected, "page {page}");
        bench.shows(state);
    }
}

#[test]
fn v2_reads_a_sequence_of_64_pages() {
    bench().follow(&[
        (
            0,
            64,
            "+[0,16), +[16,32), +[32,48), +[48,64), +[64,82)",
            "48/16, next 32, prev 63, ahead 64/18, ser 64",
        ),
        (64, 64, "+[82,114), +[114,146), +[146,178)", "114/32, prev 127, ahead 146/32, ser 65"),
        (128, 64, "+[178,210), +[210,242)", "178/32, prev 191, ahead 210/32"),
    ]);
}

#[test]
fn v3_turns_off_after_five_random_pages() {
    bench().follow(&[
        (1000, 1, "+[1000,1016)", "1000/16, next 16, ser 1, avg 16"),
        (5000, 1, "+[5000,5008)", "5000/8, next 8, avg 8"),
        (3000, 1, "+[3000,3004)", "3000/4, next 4, avg 4"),
        (200, 1, "+[200,202)", "200/2, next 2, avg 2"),
        (7000, 1, "S 7000", "200/0, next OFF, prev 7000, avg 1"),
        (9000, 1, "S 9000", "200/0, next OFF, prev 9000, avg 1"),
    ]);
}

#[test]
fn v4_resumes_after_32_misses_in_sequence_but_with_single_pages() {
    let mut bench = bench();
    for page in [1000, 5000, 3000, 200, 7000] {
        bench.read(page, 1);
    }
    for page in 7001..=7031 {
        assert_eq!(bench.read(page, 1), format!("S {page}"));
        bench.shows(&format!("200/{}, next OFF, prev {page}", page - 7000));
    }
    bench.follow(&[
        (7032, 1, "S 7032", "7000/32, next 32, prev 7032"),
        (7033, 1, "+[7033,7034)", "7033/1, next 1, ser 2, avg 1"),
        (7034, 1, "+[7034,7035)", "7034/1, next 1, ser 3"),
    ]);
    for page in 7035..7100 {
        assert_eq!(bench.read(page, 1), format!("+[{page},{})", page + 1));
    }
}

#[test]
fn v5_overreads_five_random_requests_of_32_pages() {
    bench().follow(&[
        (1000, 32, "+[1000,1016), +[1016,1032)", "1016/16, next 32, ser 32, avg 16"),
        (2000, 32, "+[2000,2024), +[2024,2048)", "avg 24"),
        (3000, 32, "+[3000,3028), +[3028,3056)", "avg 28"),
        (4000, 32, "+[4000,4030), +[4030,4060)", "avg 30"),
        (5000, 32, "+[5000,5031), +[5031,5062)", "avg 31, next 31"),
        (6000, 32, "+[6000,6032)", "6000/32, next 32, avg 32"),
        (7000, 32, "+[7000,7032)", "7000/32, next 32, avg 32"),
    ]);
}

#[test]
fn v6_overreads_random_requests_of_64_pages() {
    bench().follow(&[
        (
            1000,
            64,
            "+[1000,1016), +[1016,1032), +[1032,1048), +[1048,1064), +[1064,1082)",
            "1048/16, ahead 1064/18, ser 64, avg 16",
        ),
        (2000, 64, "+[2000,2032), +[2032,2064), +[2064,2096)", "2032/32, ahead 2064/32, avg 40"),
        (3000, 64, "+[3000,3032), +[3032,3064), +[3064,3096)", "avg 52"),
    ]);
}

#[test]
fn v7_converges_to_random_requests_of_4_pages() {
    bench().follow(&[
        (1000, 4, "+[1000,1016)", "avg 16, next 22"),
        (2000, 4, "+[2000,2010)", "avg 10, next 16"),
        (3000, 4, "+[3000,3007)", "avg 7, next 13"),
        (4000, 4, "+[4000,4005)", "avg 5, next 11"),
        (5000, 4, "+[5000,5004)", "avg 4, next 10"),
        (6000, 4, "+[6000,6004)", "avg 4, next 10"),
    ]);
}

#[test]
fn v8_a_return_to_page_0_shifts_into_a_window_of_nothing() {
    bench().follow(&[
        (1000, 1, "+[1000,1016)", ""),
        (0, 1, "S 0", "0/0, next 11, prev 0, avg 8"),
        (1, 1, "+[1,9)", "1/8, next 8, ser 2, avg 8"),
    ]);
}

#[test]
fn v9_two_interleaved_streams_turn_off_although_both_hit() {
    bench().follow(&[
        (1000, 1, "+[1000,1016)", "1000/16, next 16, avg 16"),
        (3001, 1, "+[3001,3009)", "3001/8, next 8, avg 8"),
        (1001, 1, "", "1001/4, next 7, avg 4"),
        (3002, 1, "", "3002/2, next 6, avg 2"),
        (1002, 1, "", "1002/1, next 5, avg 1"),
        (3003, 1, "", "3003/1, next 4, avg 1"),
        (1003, 1, "", "1003/1, next 3, avg 1"),
        (3004, 1, "", "3004/1, next 2, avg 1"),
        (1004, 1, "", "next OFF, avg 1"),
    ]);
}

#[test]
fn v10_a_stride_of_two_loses_the_average_and_turns_off() {
    let mut bench = bench();
    bench.follow(&[(0, 1, "+[0,16)", "")]);
    for page in [2, 4, 6, 8, 10, 12] {
        bench.follow(&[(page, 1, "", "")]);
    }
    bench.follow(&[
        (14, 1, "", "next 30, avg 1"),
        (16, 1, "+[16,17)", "16/1, next 1"),
        (18, 1, "S 18", "next OFF"),
    ]);
}

#[test]
fn v11_stops_at_the_end_of_a_short_file() {
    Bench::of(Linux267::new(32), 10).follow(&[
        (0, 4, "+[0,10)", "0/16, next 22"),
        (4, 4, "", "next 30"),
        (8, 4, "", "next 32, ser 10"),
    ]);
}

#[test]
fn v12_a_cached_sequence_corrects_the_ahead_window() {
    let mut bench = bench();
    bench.preload(0..2000);
    for page in 0..=49 {
        assert_eq!(bench.read(page, 1), "");
        match page {
            16 => bench.shows("16/16, next 31"),
            48 => bench.shows("48/16, next 31"),
            49 => bench.shows("48/16, next 30, ahead 64/30"),
            _ => {}
        }
    }
}

#[test]
fn v13_cached_random_pages_wear_the_next_window_down() {
    let mut bench = bench();
    bench.preload(0..2000);
    bench.follow(&[
        (100, 1, "", "100/16, next 16"),
        (200, 1, "", "200/8, next 15"),
        (300, 1, "", "300/4, next 14"),
        (400, 1, "", "400/2, next 13"),
        (500, 1, "", "500/1, next 12"),
    ]);
}

#[test]
fn v14_quarter_page_reads_count_once() {
    let mut bench = bench();
    for (quarter, expected) in [(0, "+[0,16)"), (1, ""), (2, ""), (3, "")] {
        assert_eq!(bench.read_bytes(quarter * PAGE_SIZE / 4, PAGE_SIZE / 4), expected);
        bench.shows("next 16");
    }
    bench.follow(&[(1, 1, "", "next 18")]);
}

#[test]
fn v15_backwards_reads_turn_off() {
    bench().follow(&[
        (40, 1, "+[40,56)", "40/16, next 16"),
        (39, 1, "+[39,40)", "39/8, next 8"),
        (38, 1, "+[38,39)", "38/4, next 4"),
        (37, 1, "+[37,38)", "37/2, next 2"),
        (36, 1, "S 36", "next OFF"),
    ]);
}

#[test]
fn a_sequence_is_pipelined_after_49_pages_from_anywhere_by_any_request() {
    for (first, request) in [(0, 1), (1, 3), (1000, 7), (5, 16), (123, 64)] {
        let mut bench = bench();
        let mut log = Vec::new();
        for call in 0..300_u64.div_ceil(request) {
            log.push(bench.read(first + call * request, request));
        }
        log.retain(|entry| !entry.is_empty());
        let windows = [16, 16, 16, 16, 18, 32, 32, 32, 32];
        let mut at = first;
        let expected = windows.map(|size| {
            at += size;
            format!("+[{},{at})", at - size)
        });
        assert!(log.join(", ").starts_with(&expected.join(", ")), "{first} {request}: {log:?}");
    }
}

#[test]
fn random_requests_up_to_half_the_limit_converge_to_themselves() {
    for n in 1..=16 {
        let mut window = 16;
        for (request, pages) in random_reads(n, 20).into_iter().enumerate() {
            // The fifth single page is read singly, as a window of it would be.
            assert_eq!(pages, n.max(window), "request {request} of {n} pages");
            window = (window + u64::from(window < n) + n) / 2;
        }
    }
    assert_eq!(random_reads(2, 6), [16, 9, 5, 3, 2, 2]);
    assert_eq!(random_reads(4, 5), [16, 10, 7, 5, 4]);
}

#[test]
fn random_requests_above_half_the_limit_overread_in_their_own_ways() {
    for (n, expected) in [
        (20, &[32, 36, 38, 20][..]),
        (24, &[32, 40, 44, 46, 24]),
        (32, &[32, 48, 56, 60, 62, 32, 32]),
        (33, &[48, 50, 58, 62, 64, 64]),
        (64, &[82, 96, 96]),
        (128, &[178, 160]),
        (256, &[306, 288]),
    ] {
        assert_eq!(random_reads(n, expected.len() as u64), expected, "{n} pages");
    }
}

#[test]
fn random_requests_settle_at_themselves_or_whole_windows() {
    for n in 1..300_u64 {
        let settled = if n <= 32 { n } else { 32 * (1 + (n - 1).div_ceil(32)) };
        assert_eq!(random_reads(n, 16)[12..], [settled; 4], "{n} pages");
    }
}

#[test]
fn interleaved_streams_are_off_at_the_ninth_access() {
    let mut bench = bench();
    for access in 0..9 {
        let page = if access % 2 == 0 { 1000 } else { 3001 } + access / 2;
        bench.shows(if access == 0 { "next 0" } else { "" });
        assert_ne!(bench.policy.state.next, OFF, "access {access}");
        bench.read(page, 1);
    }
    bench.shows("next OFF");
}

#[test]
fn a_stride_of_two_is_off_at_the_tenth_read() {
    let mut bench = bench();
    for read in 0..10 {
        assert_ne!(bench.policy.state.next, OFF, "read {read}");
        bench.read(2 * read, 1);
    }
    bench.shows("next OFF");
}

#[test]
fn a_cached_file_never_turns_a_sequence_off_but_random_reads() {
    let mut bench = bench();
    bench.preload(0..10_000);
    for page in 0..10_000 {
        bench.read(page, 1);
        assert!((1..=32).contains(&bench.policy.state.next));
    }
    *bench.policy = Linux267::new(32);
    for read in 1..=15 {
        bench.read(read * 100, 1);
        bench.shows(&format!("next {}", 17 - read));
    }
    bench.follow(&[(5000, 1, "", "next OFF")]);
}

#[test]
fn the_excess_on_128_files_is_that_of_the_first_requests() {
    for (n, expected) in
        [(4, 2801), (8, 1908), (16, 0), (32, 11_897), (64, 30_209), (128, 34_303), (256, 34_303)]
    {
        // Thousand requests fall on 128 files. The chance that k of them fall on one is a fraction
        // of 2^96: (127/128)^1000 for none, and the ratio of neighbours leads to the others.
        let mut chance = (0..1000).fold(1_u128 << 96, |chance, _| chance * 127 / 128);
        let (mut excess, mut expectation) = (0, 0);
        for (k, pages) in (1..=40_u128).zip(random_reads(n, 40)) {
            chance = chance * (1001 - k) / (127 * k);
            excess += u128::from(pages - n);
            expectation += 128 * chance * excess;
        }
        assert_eq!((expectation + (1 << 95)) >> 96, expected, "{n} pages");
    }
}

#[test]
fn hints_move_the_limit_and_nothing_else() {
    let mut bench = bench();
    bench.read(0, 1);
    bench.pattern(Pattern::Random);
    bench.follow(&[(16, 2, "S 16, S 17", "0/16, next 10, prev 0, avg 16")]);
    bench.pattern(Pattern::Sequential);
    assert_eq!(bench.policy.state.limit.pages, 64);
    bench.pattern(Pattern::Normal);
    assert_eq!(bench.policy.state.limit.pages, 32);
    bench.shows("0/16, next 10, prev 0, avg 16");
}

#[test]
fn misses_below_zero_turn_off_at_the_next_page() {
    let mut bench = bench();
    bench.pattern(Pattern::Random);
    bench.read(10, 1);
    assert_eq!(bench.policy.state.next, 3_u64.wrapping_neg());
    bench.pattern(Pattern::Normal);
    bench.follow(&[(11, 1, "S 11", "next OFF")]);
    *bench.policy = Linux267::new(32);
    bench.read(100, 2);
    bench.policy.state.next = 2;
    bench.policy.state.miss(101);
    bench.shows("next OFF, 100/16");
}

#[test]
fn a_window_resumed_before_page_0_holds_no_page() {
    let mut bench = bench();
    bench.policy.state.next = OFF;
    bench.policy.state.current = Window { start: 0, size: 31 };
    bench.follow(&[(1, 1, "S 1", "next 32")]);
    assert_eq!(bench.policy.state.current.start, 31_u64.wrapping_neg());
    bench.follow(&[(2, 1, "+[2,18)", "2/16")]);
}

#[test]
fn a_congested_device_shrinks_the_next_window() {
    let mut bench = bench();
    bench.read(0, 1);
    bench.pages.congested = true;
    bench.follow(&[(500, 1, "S 500", "500/8, next 12")]);
    bench.pages.congested = false;
    bench.follow(&[(501, 1, "S 501", "500/8, next 11"), (509, 1, "+[509,514)", "509/5, next 5")]);
}

#[test]
fn a_limit_of_zero_reads_every_page_alone() {
    let mut bench = Bench::of(Linux267::new(0), 100);
    assert_eq!(bench.read(0, 3), "S 0, S 1, S 2");
    assert_eq!(bench.fault(50), "S 50");
}

#[test]
fn faults_read_forward_only() {
    let mut bench = bench();
    assert_eq!(bench.fault(200), "+[200,232)");
    assert_eq!(bench.fault(199), "+[199,200)");
    assert_eq!(bench.fault(231), "");
    bench.shows("miss 2, hit 1, 0/0, next 0");
    assert_eq!(bench.fault_advised(500, MapAdvice::Random), "S 500");
    bench.shows("miss 2, hit 2");
}

#[test]
fn faults_of_a_sequential_mapping_move_the_windows() {
    let mut bench = bench();
    assert_eq!(bench.fault_advised(100, MapAdvice::Sequential), "+[100,116)");
    bench.shows("100/16, next 16, ser 1, hit 1, miss 0");
    bench.pages.congested = true;
    assert_eq!(bench.fault_advised(500, MapAdvice::Sequential), "S 500");
    bench.shows("500/8, next 12, hit 2, miss 0");
}
