//! The vectors of 2.6.21, under a limit of 32 pages.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::super::Mapping;
use super::super::testing::{Bench, Shown};
use super::*;

impl Shown for Linux2621 {
    fn clauses(&self) -> Vec<String> {
        let window = |window: Window| format!("{}/{}", window.start, window.size);
        let ahead = if self.ahead.start == 0 { "-".to_string() } else { window(self.ahead) };
        let off = self.current.size == 0;
        vec![
            if off { "off".to_string() } else { window(self.current) },
            format!("ahead {ahead}"),
            format!("prev {}", self.prev),
            format!("MISS {}", self.missed),
            format!("INCACHE {}", self.cached),
            format!("hits {}", self.hits),
            format!("max {}", self.limit.pages),
            format!("mmap_miss {}", self.faults.misses),
            format!("mmap_hit {}", self.faults.hits),
        ]
    }
}

fn bench() -> Bench<Linux2621> {
    bench_of(32, 1_000_000)
}

fn bench_of(max: u64, file_pages: u64) -> Bench<Linux2621> {
    Bench::of(Linux2621::new(max), file_pages)
}

#[test]
fn s1_doubles_the_window_of_a_sequence_of_single_pages() {
    let mut bench = bench();
    for page in 0..=60 {
        let submitted = bench.read(page, 1);
        let (expected, state) = match page {
            0 => ("+[0,4)", "0/4, ahead -, prev 0"),
            1 => ("+[4,12)", "0/4, ahead 4/8, prev 1"),
            4 => ("+[12,28)", "4/8, ahead 12/16"),
            12 => ("+[28,60)", "12/16, ahead 28/32"),
            28 => ("+[60,92)", "28/32, ahead 60/32"),
            60 => ("+[92,124)", "60/32, ahead 92/32, prev 60"),
            _ => ("", ""),
        };
        assert_eq!(submitted, expected, "page {page}");
        bench.shows(state);
    }
}

#[test]
fn s2_reads_a_sequence_of_32_pages() {
    bench().follow(&[
        (0, 32, "+[0,32), +[32,64)", "0/32, ahead 32/32, prev 31"),
        (32, 32, "+[64,96)", "32/32, ahead 64/32, prev 63"),
    ]);
}

#[test]
fn s3_reads_random_single_pages_alone() {
    bench().follow(&[
        (1000, 1, "+[1000,1001)", "off, prev 1000"),
        (7000, 1, "+[7000,7001)", "off, prev 7000"),
        (3000, 1, "+[3000,3001)", "off, prev 3000"),
    ]);
}

#[test]
fn s4_reads_96_pages_for_random_requests_of_64() {
    bench().follow(&[
        (1000, 64, "+[1000,1032), +[1032,1064), +[1064,1096)", "1032/32, ahead 1064/32"),
        (5000, 64, "+[5000,5032), +[5032,5064), +[5064,5096)", "5032/32, ahead 5064/32"),
    ]);
}

#[test]
fn s5_reads_36_pages_for_random_requests_of_33() {
    bench().follow(&[
        (1000, 33, "+[1000,1032), +[1032,1036)", "1032/4, ahead -, prev 1032"),
        (5000, 33, "+[5000,5032), +[5032,5036)", "5032/4, ahead -, prev 5032"),
    ]);
}

#[test]
fn s6_a_page_left_out_ends_the_sequence() {
    bench().follow(&[
        (1000, 1, "+[1000,1001)", "off"),
        (1001, 1, "+[1001,1005)", "1001/4"),
        (1002, 1, "+[1005,1013)", "1001/4, ahead 1005/8"),
        (1003, 1, "", ""),
        (1005, 1, "", "off, hits 1"),
    ]);
}

#[test]
fn s7_a_lost_page_shrinks_the_next_window() {
    let mut bench = bench();
    for page in 0..=5 {
        bench.read(page, 1);
    }
    bench.evict(6);
    bench.follow(&[(6, 1, "S 6", "MISS true")]);
    for page in 7..=11 {
        bench.follow(&[(page, 1, "", "MISS true")]);
    }
    bench.follow(&[(12, 1, "+[28,42)", "12/16, ahead 28/14, MISS false")]);
}

#[test]
fn s8_a_cached_file_is_left_alone_until_a_page_is_missing() {
    let mut bench = bench();
    bench.preload(0..500);
    for page in (0..=56).step_by(4) {
        assert_eq!(bench.read(page, 4), "");
        bench.shows(match page {
            0 => "0/8, hits 8",
            4 => "ahead 8/16, hits 24",
            8 => "ahead 24/32, hits 56",
            24 => "ahead 56/32, hits 88",
            56 => "ahead 88/32, hits 120",
            _ => "INCACHE false",
        });
    }
    for page in (60..400).step_by(4) {
        bench.follow(&[(page, 4, "", "")]);
    }
    bench.shows("off, INCACHE true, hits 280");
    bench.evict(400);
    bench.follow(&[(400, 1, "S 400", "INCACHE false, MISS true, hits 0, off")]);
}

#[test]
fn m1_faults_read_around_themselves() {
    let mut bench = bench_of(32, 300);
    for (page, expected) in [
        (200, "+[184,216)"),
        (184, ""),
        (183, "+[167,184)"),
        (215, ""),
        (216, "+[216,232)"),
        (299, "+[283,300)"),
        (16, "+[0,32)"),
        (17, ""),
    ] {
        assert_eq!(bench.fault(page), expected, "fault {page}");
    }
    bench.shows("mmap_miss 5, mmap_hit 3, off, prev 18446744073709551615");
}

#[test]
fn m2_an_ascending_walk_faults_every_16_pages() {
    let mut bench = bench_of(32, 100);
    for (page, expected) in
        [(0, "+[0,32)"), (31, ""), (32, "+[32,48)"), (47, ""), (48, "+[48,64)"), (99, "+[83,100)")]
    {
        assert_eq!(bench.fault(page), expected, "fault {page}");
    }
    for pages in 17..300_u64 {
        let mut bench = bench_of(32, pages);
        let major = (0..pages).filter(|page| !bench.fault(*page).is_empty()).count() as u64;
        assert_eq!(major, pages.div_ceil(16) - 1, "{pages} pages");
        assert_eq!(bench.resident(), pages);
    }
}

#[test]
fn m3_a_hundred_misses_end_reading_around_for_good() {
    let mut bench = bench();
    for fault in 1..=105 {
        let page = fault * 1000;
        let around = format!("+[{},{})", page - 16, page + 16);
        let expected = if fault <= 100 { around } else { format!("S {page}") };
        assert_eq!(bench.fault(page), expected);
        match fault {
            100 => bench.shows("mmap_miss 100, mmap_hit 0"),
            101 => bench.shows("mmap_miss 101, mmap_hit 1"),
            _ => {}
        }
    }
}

/// Faults and pages read of the synthetic trace T1-S: 23 mapped files, touched in order.
fn sparse_ascending_walk(max: u64) -> (usize, u64) {
    let (mut major, mut pages, mut blocks) = (0, 0, 0);
    for file in 0..23 {
        let file_blocks = if file < 17 { 9 } else { 8 };
        let touched: Vec<u64> = if file < 10 {
            (0..12).collect()
        } else {
            let dense = blocks..blocks + file_blocks;
            blocks = dense.end;
            let block = |(index, block)| {
                let pages = if block < 15 { 11 } else { 10 };
                (0..pages).map(move |page| 16 * index + page)
            };
            (0_u64..).zip(dense).flat_map(block).collect()
        };
        let file_pages = if file < 10 { 12 } else { 16 * file_blocks };
        let mut bench = bench_of(max, file_pages);
        major += touched.into_iter().filter(|page| !bench.fault(*page).is_empty()).count();
        pages += bench.resident();
    }
    (major, pages)
}

#[test]
fn m4_a_sparse_walk_explains_the_published_faults() {
    assert_eq!(sparse_ascending_walk(32), (108, 1896));
    assert_eq!(sparse_ascending_walk(0), (1245, 1245));
}

#[test]
fn random_requests_are_exact_up_to_the_limit_and_overread_above() {
    let exact = (1..=32).map(|n| (n, n));
    let above = [(33, 36), (48, 64), (64, 96), (65, 128), (128, 160), (256, 288)];
    for (n, expected) in exact.chain(above) {
        let mut bench = bench();
        for request in 1..=5 {
            bench.read(request * 1000, n);
            assert_eq!(bench.resident(), request * expected, "{n} pages");
        }
    }
}

#[test]
fn congestion_drops_what_is_read_in_advance_but_not_what_is_asked_for() {
    let mut bench = bench();
    bench.follow(&[(0, 1, "+[0,4)", "")]);
    bench.pages.congested = true;
    bench.follow(&[
        (1, 1, "", "0/4, ahead -, prev 1"),
        (2, 4, "+[4,12)", "4/8, ahead -, prev 5"),
        (900, 4, "+[900,904)", "off"),
    ]);
    assert_eq!(bench.fault(500), "S 500");
}

#[test]
fn hints_and_errors_move_the_limit() {
    let mut bench = bench();
    bench.pattern(Pattern::Sequential);
    bench.shows("max 64");
    bench.pattern(Pattern::Random);
    bench.follow(&[(0, 2, "S 0, S 1", "max 0, off")]);
    bench.pattern(Pattern::Normal);
    bench.policy.on_error();
    bench.follow(&[(100, 4, "+[100,104)", "max 8"), (200, 8, "+[200,208)", "max 8")]);
    bench.policy.on_error();
    bench.policy.on_error();
    bench.shows("max 0");
}

#[test]
fn a_request_that_begins_in_the_last_page_is_sequential() {
    let mut bench = bench();
    assert_eq!(bench.read_bytes(0, 2048), "+[0,4)");
    assert_eq!(bench.read_bytes(2048, 1024), "");
    bench.shows("0/4, ahead -, prev 0");
    assert_eq!(bench.read_bytes(3072, 4096), "+[4,12)");
    bench.shows("0/4, ahead 4/8, prev 1");
}

#[test]
fn a_window_of_one_page_becomes_the_limit_when_it_was_to_shrink() {
    let mut bench = bench_of(16, 1000);
    bench.policy.on_error();
    bench.policy.on_error();
    bench.follow(&[(0, 1, "+[0,1), +[1,2)", "0/1, ahead 1/1, max 1")]);
    bench.pattern(Pattern::Random);
    bench.evict(1);
    bench.follow(&[(1, 1, "S 1", "0/1, ahead 1/1, prev 1, MISS true")]);
    bench.pattern(Pattern::Normal);
    bench.follow(&[(2, 1, "+[2,18)", "1/1, ahead 2/16, MISS false")]);
}

#[test]
fn faults_of_advised_mappings_read_no_further() {
    let mut bench = bench();
    assert_eq!(bench.fault_advised(500, MapAdvice::Random), "S 500");
    bench.shows("mmap_miss 0, mmap_hit 1, off");
    assert_eq!(bench.fault_advised(0, MapAdvice::Sequential), "+[0,4)");
    bench.shows("mmap_miss 0, mmap_hit 2, 0/4");
    let mapping = Mapping { first: 700, end: 704, ..Mapping::WHOLE };
    assert_eq!(bench.fault_in(702, false, mapping), "+[686,718)");
}

#[test]
fn faults_take_at_most_half_of_what_memory_could_give() {
    let mut bench = bench();
    bench.pages.memory = Some(20);
    assert_eq!(bench.fault(500), "+[495,505)");
}
