//! Faults, as seen on Linux 6.18.44.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::super::super::{MapAdvice, Mapping};
use super::{Bench, line, touches, window};

/// Both kinds of mapping.
const SPECS: [&str; 2] = ["linux-6.18", "linux-6.18:folios"];

/// Read faults through `mapping`; returns the lines.
fn touches_in(bench: &mut Bench, mapping: Mapping, touched: &[u64]) -> Vec<String> {
    let fault = |&page: &u64| line(bench, page, |bench| bench.fault_in(page, false, mapping));
    touched.iter().map(fault).filter(|line| !line.is_empty()).collect()
}

/// The lines without the added pages: `page: window`.
fn windows(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split(" +").next().unwrap()).collect()
}

#[test]
fn a_walk_through_a_mapping_is_pipelined() {
    for spec in SPECS {
        let mut bench = Bench::new(spec);
        let lines = touches(&mut bench, 0..97);
        let expected = [
            "0: win(0,32,8)",
            "24: win(32,32,32)",
            "32: win(64,32,32)",
            "64: win(96,32,32)",
            "96: win(128,32,32)",
        ];
        assert_eq!(windows(&lines), expected);
        assert_eq!(bench.resident(), 160);
    }
}

#[test]
fn a_fault_in_mid_file_reads_around() {
    for spec in SPECS {
        let expected = [
            "1000: win(984,32,8) +[984,1016)",
            "1016: win(1000,32,8) +[1016,1032)",
            "983: win(967,32,8) +[967,984)",
        ];
        assert_eq!(touches(&mut Bench::new(spec), [1000, 1016, 983]), expected);
    }
}

#[test]
fn far_read_faults_never_count_as_misses() {
    for spec in SPECS {
        let mut bench = Bench::new(spec);
        for page in (1..=150).map(|index| index * 1000) {
            assert_eq!(bench.fault(page), format!("+[{},{})", page - 16, page + 16));
            assert!(bench.state().contains("mmap_miss: 0"));
        }
    }
}

#[test]
fn far_write_faults_end_the_reading_around() {
    for spec in SPECS {
        let mut bench = Bench::new(spec);
        for index in 1..=150 {
            let page = index * 1000;
            let log = bench.fault_in(page, true, Mapping::WHOLE);
            let around = format!("+[{},{})", page - 16, page + 16);
            assert_eq!(log, if index <= 100 { around } else { format!("S {page}") });
        }
        assert!(bench.state().contains("mmap_miss: 150"));
    }
}

#[test]
fn the_count_of_misses_has_an_end() {
    let mut bench = Bench::new("linux-6.18");
    for index in 1..=1100 {
        bench.fault_in(index * 100, true, Mapping::WHOLE);
    }
    assert!(bench.state().contains("mmap_miss: 1000"));
}

#[test]
fn a_sequential_mapping_pipelines_from_the_start_of_the_file_alone() {
    let mapping = Mapping { advice: MapAdvice::Sequential, ..Mapping::WHOLE };
    for spec in SPECS {
        let lines = touches_in(&mut Bench::new(spec), mapping, &[0, 16, 32]);
        let expected = ["0: win(0,32,16)", "16: win(32,32,32)", "32: win(64,32,32)"];
        assert_eq!(windows(&lines), expected);

        let touched: Vec<u64> = (1000..1128).collect();
        let lines = touches_in(&mut Bench::new(spec), mapping, &touched);
        let expected: Vec<String> = (1000..1128)
            .step_by(32)
            .map(|page: u64| format!("{page}: +[{page},{})", page + 32))
            .collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_random_mapping_reads_single_pages() {
    for spec in SPECS {
        let mut bench = Bench::new(spec);
        assert_eq!(bench.fault_advised(1000, MapAdvice::Random), "S 1000");
        assert_eq!(bench.fault_advised(1001, MapAdvice::Random), "S 1001");
    }
}

#[test]
fn an_executable_mapping_reads_forward_and_inside_itself() {
    let whole = Mapping { executable: true, ..Mapping::WHOLE };
    let part = Mapping { first: 45, end: 55, ..whole };
    for spec in SPECS {
        let expected = [
            "1000: win(1000,32,0) +[1000,1032)",
            "1032: win(1032,32,0) +[1032,1064)",
            "990: win(990,32,0) +[990,1000)",
            "100: win(100,32,0) +[100,132)",
        ];
        let lines = touches_in(&mut Bench::new(spec), whole, &[1000, 1032, 990, 100]);
        assert_eq!(lines, expected);

        let expected = ["50: win(50,5,0) +[50,55)", "46: win(46,9,0) +[46,50)"];
        assert_eq!(touches_in(&mut Bench::new(spec), part, &[50, 46]), expected);
        let readable = Mapping { executable: false, ..part };
        let lines = touches_in(&mut Bench::new(spec), readable, &[50]);
        assert_eq!(lines, ["50: win(34,32,8) +[34,66)"]);
    }
    let lines = touches_in(&mut Bench::new("linux-6.12"), part, &[50]);
    assert_eq!(lines, ["50: win(34,32,8) +[34,66)"]);
}

#[test]
fn a_huge_mapping_reads_two_huge_pages() {
    for (spec, expected) in [
        ("linux-6.18", "+[512,1536)"),
        ("linux-6.18:folios", "+[512,1536)o9"),
        ("linux-6.12:folios", "+[512,1536)o9"),
        ("linux-6.18:max=0", "+[512,1536)"),
    ] {
        let mut bench = Bench::new(spec);
        assert_eq!(bench.fault_advised(1000, MapAdvice::Huge), expected);
        assert_eq!(window(&bench), "win(0,1024,512)");
        assert!(bench.pages.folios[&1024].marked);
    }
}
