//! The scans that lose their place inside large folios, as seen on Linux 6.18.44.

use std::string::String;
use std::vec::Vec;

use super::super::super::{AddressSpace, Folio};
use super::super::scan::{Cursor, next_miss, prev_miss};
use super::{Bench, reads};

#[test]
fn a_skewed_scan_forward_leaves_one_page_out() {
    let mixed = (1000..1009).flat_map(|page| [page, page + 2000]);
    for (spec, start, left_out) in [
        ("linux-6.18:folios", "1008: win(1017,7,7) ", true),
        ("linux-6.18:folios,skew=off", "1008: win(1016,", false),
    ] {
        let mut bench = Bench::new(spec);
        let lines = reads(&mut bench, mixed.clone(), 1);
        let lines: Vec<&String> = lines.iter().filter(|line| line.starts_with('1')).collect();
        assert_eq!(lines[4], "1005: win(1008,8,8) +[1008,1016)o3");
        assert!(lines[5].starts_with(start), "{lines:?}");
        assert_eq!(bench.pages.contains(1016), !left_out);
    }
}

#[test]
fn a_skewed_scan_backward_counts_a_folio_as_one_page() {
    for (spec, expected) in [
        ("linux-6.18:folios", "32: win(32,26,1) +[32,58)"),
        ("linux-6.18:folios,skew=off", "32: win(32,32,1) +[32,64)"),
    ] {
        let mut bench = Bench::new(spec);
        reads(&mut bench, 0..17, 1);
        assert_eq!(bench.resident(), 32);
        bench.reopen();
        assert_eq!(reads(&mut bench, [32], 1), [expected]);
    }
}

#[test]
fn exact_scans_agree_with_a_walk_over_the_pages() {
    let bench = scattered();
    let absent = |page: &u64| !bench.pages.contains(*page);
    for from in 0..700 {
        for max in [1, 2, 31, 32, 64, 300] {
            let next = (from..from + max).find(absent);
            assert_eq!(next_miss(from, max, Cursor::Exact, &bench.pages), next);
            let stop = from.checked_sub(max - 1);
            let prev = (stop.unwrap_or(0)..=from).rev().find(absent).or(stop);
            assert_eq!(prev_miss(from, max, Cursor::Exact, &bench.pages), prev, "{from} {max}");
        }
    }
}

#[test]
fn a_scan_that_starts_on_a_folio_s_first_page_is_not_skewed() {
    let bench = scattered();
    for &from in bench.pages.folios.keys() {
        let [exact, skewed] = [Cursor::Exact, Cursor::Skewed].map(|cursor| {
            let next = next_miss(from, 300, cursor, &bench.pages);
            (next, prev_miss(from, 300, cursor, &bench.pages))
        });
        assert_eq!(exact, skewed);
    }
}

#[test]
fn a_skewed_scan_takes_its_place_again_at_the_edge_of_a_leaf() {
    // Pages 60 to 63 are one folio, 64 and 65 single. From page 63 the cursor is three pages
    // behind when it leaves the leaf, and the scan never looks at pages 64 to 66.
    let mut bench = Bench::new("linux-6.18:folios");
    bench.pages.folios.insert(60, Folio { first: 60, order: 2, marked: false });
    bench.preload(64..66);
    for (from, hole) in [(60, 66), (61, 66), (63, 67)] {
        assert_eq!(next_miss(from, 32, Cursor::Skewed, &bench.pages), Some(hole));
    }
    // Backwards, the folio's last page stands for the whole folio: page 62 is treated as page 59.
    assert_eq!(prev_miss(63, 32, Cursor::Skewed, &bench.pages), Some(62));
    assert_eq!(prev_miss(63, 32, Cursor::Exact, &bench.pages), Some(59));
}

/// Folios of many orders, holes between some of them.
fn scattered() -> Bench {
    let mut bench = Bench::new("linux-6.18:folios");
    let folios = [(0, 0), (1, 0), (2, 1), (4, 2), (8, 3), (20, 2), (24, 3), (32, 5), (64, 6)];
    let more = [(128, 7), (256, 5), (288, 4), (320, 6), (384, 6), (448, 1), (512, 7)];
    for (first, order) in folios.into_iter().chain(more) {
        bench.pages.folios.insert(first, Folio { first, order, marked: false });
    }
    bench
}
