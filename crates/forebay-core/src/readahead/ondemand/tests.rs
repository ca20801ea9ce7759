//! Behaviour of Linux 6.12 and 6.18, as vectors. A line is `page: window log`: the window after the
//! read of that page, if it changed, and the pages that the read added; reads that did neither have
//! no line.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::super::Pattern;
use super::super::testing::Bench;
use crate::units::{PAGE_SIZE, PageIndex};

mod faults;
mod folios;
mod scans;

const BOTH: [&str; 2] = ["linux-6.12", "linux-6.18"];

/// The window in the policy's state.
fn window(bench: &Bench) -> String {
    bench.policy.window().unwrap().to_string()
}

/// What `act` changed, as one line.
fn line(bench: &mut Bench, page: PageIndex, act: impl FnOnce(&mut Bench) -> String) -> String {
    let before = window(bench);
    let log = act(bench);
    let after = window(bench);
    let parts = [if after == before { "" } else { &after }, &log];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!("{page}: {}", parts.join(" ")) }
}

/// Reads of `count` pages each; returns the lines.
fn reads(bench: &mut Bench, starts: impl IntoIterator<Item = u64>, count: u64) -> Vec<String> {
    let lines = starts.into_iter().map(|page| line(bench, page, |bench| bench.read(page, count)));
    lines.filter(|line| !line.is_empty()).collect()
}

/// Read faults; returns the lines.
fn touches(bench: &mut Bench, touched: impl IntoIterator<Item = u64>) -> Vec<String> {
    let lines = touched.into_iter().map(|page| line(bench, page, |bench| bench.fault(page)));
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn o1_sequential_windows_double_up_to_the_limit() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        let expected = [
            "0: win(0,4,3) +[0,4)",
            "1: win(4,8,8) +[4,12)",
            "4: win(12,16,16) +[12,28)",
            "12: win(28,32,32) +[28,60)",
            "28: win(60,32,32) +[60,92)",
            "60: win(92,32,32) +[92,124)",
        ];
        assert_eq!(reads(&mut bench, 0..64, 1), expected);
        assert_eq!(bench.resident(), 124);
    }
}

#[test]
fn o2_a_run_in_mid_file_is_noticed_at_its_second_page() {
    let start = ["1000: +[1000,1001)", "1001: win(1001,4,3) +[1001,1005)"];
    let old = ["1002: win(1005,8,8) +[1005,1013)", "1005: win(1013,16,16) +[1013,1029)"];
    let new = ["1002: win(1005,7,7) +[1005,1012)", "1005: win(1012,12,12) +[1012,1024)"];
    for (spec, rest) in [(BOTH[0], old), (BOTH[1], new)] {
        let expected = [start, rest].concat();
        assert_eq!(reads(&mut Bench::new(spec), 1000..1010, 1), expected, "{spec}");
    }
}

#[test]
fn o3_reads_beyond_limit_and_device_open_windows() {
    for spec in BOTH {
        let mut bench = Bench::new(&format!("{spec}:io=32"));
        let expected = ["1000: win(1064,32,32) +[1000,1032), +[1032,1064), +[1064,1096)"];
        assert_eq!(reads(&mut bench, [1000], 64), expected);
        assert_eq!(bench.resident(), 96);
    }
}

#[test]
fn o4_a_random_read_that_the_device_takes_at_once_is_read_alone() {
    for spec in BOTH {
        for (io, count) in [(64, 64), (320, 8), (320, 32), (320, 64), (320, 100), (320, 320)] {
            let mut bench = Bench::new(&format!("{spec}:io={io}"));
            let expected = [format!("1000: +[1000,{})", 1000 + count)];
            assert_eq!(reads(&mut bench, [1000], count), expected);
        }
    }
}

#[test]
fn o5_requests_of_half_the_limit_are_sequential_from_the_second_on() {
    for spec in BOTH {
        let expected = [
            "1000: +[1000,1016)",
            "1016: win(1016,32,16) +[1016,1048)",
            "1032: win(1048,32,32) +[1048,1080)",
            "1048: win(1080,32,32) +[1080,1112)",
            "1080: win(1112,32,32) +[1112,1144)",
        ];
        let starts = (1000..1096).step_by(16);
        assert_eq!(reads(&mut Bench::new(spec), starts, 16), expected);
    }
}

#[test]
fn o6_history_from_the_start_of_the_file_counts_twice() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        assert_eq!(reads(&mut bench, [0], 4), ["0: win(0,8,4) +[0,8)"]);
        assert_eq!(reads(&mut bench, [8], 1), ["8: win(8,17,1) +[8,25)"]);
    }
}

#[test]
fn o7_interleaved_streams_find_each_other_s_history() {
    let mixed = (1000..1016).flat_map(|page| [page, page + 2000]);
    let start = ["1000: +[1000,1001)", "1001: +[1001,1002)", "1002: win(1002,3,1) +[1002,1005)"];
    let old = [
        "1004: win(1005,4,4) +[1005,1009)",
        "1005: win(1009,10,10) +[1009,1019)",
        "1009: win(1019,22,22) +[1019,1041)",
    ];
    let new = [
        "1004: win(1005,3,3) +[1005,1008)",
        "1005: win(1008,8,8) +[1008,1016)",
        "1008: win(1016,16,16) +[1016,1032)",
    ];
    for (spec, rest) in [(BOTH[0], old), (BOTH[1], new)] {
        let lines = reads(&mut Bench::new(spec), mixed.clone(), 1);
        let first: Vec<&String> = lines.iter().filter(|line| line.starts_with('1')).collect();
        assert_eq!(first[..6], [start, rest].concat(), "{spec}");
    }
}

#[test]
fn o8_to_o10_history_is_weighed_against_the_request() {
    // The cached pages, the read after them, and its effect.
    let vectors = [
        (0..8, 8, 1, "8: win(8,17,1) +[8,25)"),
        (1000..1010, 1010, 10, "1010: +[1010,1020)"),
        (1000..1010, 1010, 9, "1010: win(1010,19,1) +[1010,1029)"),
        (1000..1040, 1040, 31, "1040: +[1040,1071)"),
        (1000..1040, 1040, 30, "1040: win(1040,32,1) +[1040,1072)"),
    ];
    for spec in BOTH {
        for (cached, start, count, expected) in vectors.clone() {
            let mut bench = Bench::new(spec);
            bench.preload(cached);
            assert_eq!(reads(&mut bench, [start], count), [expected]);
        }
    }
}

#[test]
fn an_evicted_page_ends_the_history() {
    let mut bench = Bench::new("linux-6.18");
    bench.preload(0..8);
    bench.evict(4);
    assert_eq!(reads(&mut bench, [8], 1), ["8: win(8,4,1) +[8,12)"]);
}

#[test]
fn o11_the_marker_inside_the_first_request_reads_the_next_window() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        let expected = ["0: win(32,32,32) +[0,32), +[32,64)", "32: win(64,32,32) +[64,96)"];
        assert_eq!(reads(&mut bench, [0, 32], 32), expected);
        let mut bench = Bench::new(spec);
        let expected = ["0: win(64,64,64) +[0,64), +[64,128)", "64: win(128,64,64) +[128,192)"];
        assert_eq!(reads(&mut bench, [0, 64], 64), expected);
    }
}

#[test]
fn o12_cached_pages_are_left_out_of_a_range() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        bench.preload(2010..2012);
        bench.preload(2050..2060);
        let expected = ["2000: +[2000,2010), +[2012,2050), +[2060,2100)"];
        assert_eq!(reads(&mut bench, [2000], 100), expected);
    }
}

#[test]
fn o13_large_folios_grow_with_the_marked_folio_or_with_the_windows() {
    let expected = [
        "0: win(4,8,8) +[0,4)o2, +[4,12)o2",
        "4: win(12,16,16) +[12,16)o2, +[16,24)o3, +[24,28)o2",
    ];
    assert_eq!(reads(&mut Bench::new("linux-6.12:folios"), 0..12, 1), expected);

    let expected = [
        "0: win(0,4,3) +[0,4)",
        "1: win(4,8,8) +[4,12)o2",
        "4: win(12,4,4) +[12,16)o2",
        "12: win(16,8,8) +[16,24)o3",
    ];
    assert_eq!(reads(&mut Bench::new("linux-6.18:folios"), 0..13, 1), expected);
}

#[test]
fn skipping_one_page_is_sequential_and_skipping_two_is_random() {
    for spec in BOTH {
        let expected = ["1000: +[1000,1001)", "1002: win(1002,4,3) +[1002,1006)"];
        assert_eq!(reads(&mut Bench::new(spec), [1000, 1002], 1), expected);
        let expected = ["1000: +[1000,1001)", "1003: +[1003,1004)"];
        assert_eq!(reads(&mut Bench::new(spec), [1000, 1003], 1), expected);
        let stride = ["0: win(0,4,3) +[0,4)", "4: win(4,4,3) +[4,8)", "8: win(8,4,3) +[8,12)"];
        let lines = reads(&mut Bench::new(spec), (0..12).step_by(2), 1);
        assert_eq!(lines, stride);
    }
}

#[test]
fn random_and_backward_reads_get_what_they_ask_for() {
    for spec in BOTH {
        let far: Vec<u64> = [1000, 5000, 3000, 200].into();
        let backward: Vec<u64> = (30..=40).rev().collect();
        for starts in [far, backward] {
            let alone: Vec<String> =
                starts.iter().map(|page| format!("{page}: +[{page},{})", page + 1)).collect();
            assert_eq!(reads(&mut Bench::new(spec), starts, 1), alone);
        }
    }
}

#[test]
fn a_stream_in_mid_file_ends_its_windows_on_multiples_of_four() {
    let mut bench = Bench::new("linux-6.18");
    let expected = ["7: +[7,8)", "8: win(8,4,3) +[8,12)", "9: win(12,8,8) +[12,20)"];
    assert_eq!(reads(&mut bench, 7..10, 1), expected);
}

#[test]
fn a_read_beyond_the_device_s_largest_request_opens_windows_of_that_size() {
    let mut bench = Bench::new("linux-6.18");
    let expected = ["9000: win(9640,320,320) +[9000,9320), +[9320,9640), +[9640,9960)"];
    assert_eq!(reads(&mut bench, [9000], 400), expected);
    assert_eq!(bench.resident(), 960);
}

#[test]
fn requests_of_four_pages_pipeline() {
    for spec in BOTH {
        let expected = [
            "0: win(0,8,4) +[0,8)",
            "4: win(8,16,16) +[8,24)",
            "8: win(24,32,32) +[24,56)",
            "24: win(56,32,32) +[56,88)",
        ];
        assert_eq!(reads(&mut Bench::new(spec), (0..28).step_by(4), 4), expected);
    }
}

#[test]
fn parts_of_a_page_count_as_the_pages_they_touch() {
    let mut bench = Bench::new("linux-6.18");
    let half = PAGE_SIZE / 2;
    assert_eq!(bench.read_bytes(1000 * PAGE_SIZE + half, 3 * half), "+[1000,1002)");
    assert_eq!(reads(&mut bench, [1002], 1), ["1002: win(1002,4,3) +[1002,1006)"]);

    let mut bench = Bench::new("linux-6.18");
    let halves: Vec<String> = (0..16)
        .map(|index| line(&mut bench, index / 2, |bench| bench.read_bytes(index * half, half)))
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(halves, reads(&mut Bench::new("linux-6.18"), 0..8, 1));
}

#[test]
fn cached_pages_split_a_request_and_a_window() {
    let mut bench = Bench::new("linux-6.18");
    bench.preload(1004..1008);
    assert_eq!(reads(&mut bench, [1000], 16), ["1000: +[1000,1004), +[1008,1016)"]);

    let mut bench = Bench::new("linux-6.18");
    bench.preload(10..12);
    let expected =
        ["0: win(0,8,4) +[0,8)", "4: win(8,16,16) +[8,10), +[12,24)", "8: win(24,32,32) +[24,56)"];
    assert_eq!(reads(&mut bench, [0, 4, 8], 4), expected);
}

#[test]
fn the_end_of_the_file_cuts_a_window_and_its_marker() {
    let mut bench = Bench::with_pages("linux-6.18", 32768);
    let expected = ["32766: +[32766,32767)", "32767: win(32767,4,3) +[32767,32768)"];
    assert_eq!(reads(&mut bench, [32766, 32767], 1), expected);
    assert!(!bench.pages.folios[&32767].marked);

    let mut bench = Bench::with_pages("linux-6.18", 32768);
    let expected = [
        "32760: +[32760,32761)",
        "32761: win(32761,4,3) +[32761,32765)",
        "32762: win(32765,7,7) +[32765,32768)",
    ];
    assert_eq!(reads(&mut bench, 32760..32763, 1), expected);
}

#[test]
fn a_limit_of_zero_reads_page_by_page() {
    for spec in BOTH {
        let mut bench = Bench::new(&format!("{spec}:max=0"));
        let alone: Vec<String> =
            (10..18).map(|page: u64| format!("+[{page},{})", page + 1)).collect();
        assert_eq!(bench.read(10, 8), alone.join(", "));
    }
}

#[test]
fn an_odd_limit_is_reached_and_kept() {
    let mut bench = Bench::new("linux-6.18:max=5");
    let expected = [
        "0: win(0,2,1) +[0,2)",
        "1: win(2,4,4) +[2,6)",
        "2: win(6,5,5) +[6,11)",
        "6: win(11,5,5) +[11,16)",
        "11: win(16,5,5) +[16,21)",
    ];
    assert_eq!(reads(&mut bench, 0..12, 1), expected);
}

#[test]
fn a_random_descriptor_reads_what_it_is_asked_up_to_the_device_s_limit() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        bench.pattern(Pattern::Random);
        assert_eq!(bench.read(0, 1), "+[0,1)");
        assert_eq!(bench.read(1, 1), "+[1,2)");
        assert_eq!(bench.read(8, 64), "+[8,72)");
        assert_eq!(bench.read(200, 400), "+[200,520), +[520,600)");
    }
}

#[test]
fn a_sequential_descriptor_has_twice_the_limit() {
    for spec in BOTH {
        let mut bench = Bench::new(spec);
        bench.pattern(Pattern::Sequential);
        let lines = reads(&mut bench, 0..64, 1);
        let expected = [
            "12: win(28,32,32) +[28,60)",
            "28: win(60,64,64) +[60,124)",
            "60: win(124,64,64) +[124,188)",
        ];
        assert_eq!(lines[3..], expected);
    }
}

#[test]
fn normal_advice_ends_random_advice() {
    let mut bench = Bench::new("linux-6.18");
    bench.pattern(Pattern::Random);
    assert_eq!(reads(&mut bench, [0], 1), ["0: +[0,1)"]);
    bench.pattern(Pattern::Normal);
    assert_eq!(reads(&mut bench, [1], 1), ["1: win(1,4,3) +[1,5)"]);
}

#[test]
fn what_will_be_needed_is_read_up_to_one_request_of_the_device() {
    let forced = |spec: &str, first, count| Bench::with_pages(spec, 32768).will_need(first, count);
    for spec in BOTH {
        assert_eq!(forced(spec, 100, 1000), "+[100,420)");
        assert_eq!(forced(spec, 32000, 768), "+[32000,32320)");
        assert_eq!(forced(spec, 32700, u64::MAX >> 12), "+[32700,32768)");
        assert_eq!(forced(spec, 5, 2), "+[5,7)");
        assert_eq!(forced(spec, 200, 50), "+[200,250)");
        assert_eq!(forced(&format!("{spec}:io=32"), 0, 100), "+[0,32)");
        let chunks = forced(&format!("{spec}:max=1000"), 0, 2000);
        assert_eq!(chunks, "+[0,512), +[512,1000)");
    }
}
