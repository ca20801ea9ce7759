//! Mappings with large folios, as seen on Linux 6.18.44.

use std::string::String;
use std::vec::Vec;

use super::{Bench, reads};

const FOLIOS: &str = "linux-6.18:folios";

/// The lines' windows.
fn windows(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split(' ').nth(1).unwrap()).collect()
}

#[test]
fn windows_and_folios_grow_together() {
    let expected = [
        "0: win(0,4,3) +[0,4)",
        "1: win(4,8,8) +[4,12)o2",
        "4: win(12,4,4) +[12,16)o2",
        "12: win(16,8,8) +[16,24)o3",
        "16: win(24,8,8) +[24,32)o3",
        "24: win(32,16,16) +[32,48)o4",
        "32: win(48,16,16) +[48,64)o4",
        "48: win(64,32,32) +[64,96)o5",
        "64: win(96,32,32) +[96,128)o5",
    ];
    assert_eq!(reads(&mut Bench::new(FOLIOS), 0..65, 1), expected);
}

#[test]
fn the_ends_of_a_window_take_smaller_folios() {
    let expected = [
        "1000: +[1000,1001)",
        "1001: win(1001,4,3) +[1001,1005)",
        "1002: win(1005,7,7) +[1005,1006), +[1006,1008)o1, +[1008,1012)o2",
        "1005: win(1012,12,12) +[1012,1016)o2, +[1016,1024)o3",
    ];
    assert_eq!(reads(&mut Bench::new(FOLIOS), 1000..1006, 1), expected);
}

#[test]
fn requests_of_half_the_limit_come_into_step() {
    let expected = [
        "1000: +[1000,1016)",
        "1016: win(1016,32,16) +[1016,1048)",
        "1032: win(1048,32,32) +[1048,1080)o2",
        "1048: win(1080,24,24) +[1080,1088)o3, +[1088,1104)o4",
        "1080: win(1104,16,16) +[1104,1120)o4",
        "1096: win(1120,32,32) +[1120,1152)o5",
    ];
    let starts = (1000..1112).step_by(16);
    assert_eq!(reads(&mut Bench::new(FOLIOS), starts, 16), expected);
}

#[test]
fn a_large_request_is_cut_to_whole_folios() {
    let mut bench = Bench::new("linux-6.18:folios,io=32");
    let lines = reads(&mut bench, [1000], 64);
    assert!(lines[0].starts_with("1000: win(1064,24,24) +[1000,1032), +[1032,1064)o2, "));
    assert_eq!(bench.resident(), 88);

    let mut bench = Bench::new(FOLIOS);
    let lines = reads(&mut bench, [9000], 400);
    assert!(lines[0].starts_with("9000: win(9640,312,312) +[9000,9320), +[9320,9640)o2, "));
    assert_eq!(bench.resident(), 952);
}

#[test]
fn a_high_limit_reaches_huge_folios() {
    let lines = reads(&mut Bench::new("linux-6.18:folios,max=1024"), 0..770, 1);
    let expected = [
        "win(0,4,3)",
        "win(4,16,16)",
        "win(20,60,60)",
        "win(80,240,240)",
        "win(320,448,448)",
        "win(768,256,256)",
        "win(1024,512,512)",
    ];
    assert_eq!(windows(&lines), expected);
    assert_eq!(lines[5], "320: win(768,256,256) +[768,1024)o8");
    assert_eq!(lines[6], "768: win(1024,512,512) +[1024,1536)o9");

    let starts = (0..15_361).step_by(512);
    let lines = reads(&mut Bench::new("linux-6.18:folios,max=4096"), starts, 512);
    let expected = [
        "win(0,1024,512)",
        "win(1024,2048,2048)",
        "win(3072,4096,4096)",
        "win(7168,4096,4096)",
        "win(11264,4096,4096)",
        "win(15360,4096,4096)",
        "win(19456,3072,3072)",
    ];
    assert_eq!(windows(&lines), expected);
    let last = |line: &String| line.rsplit('o').next().unwrap().parse::<u8>();
    assert_eq!(lines[1..].iter().flat_map(last).collect::<Vec<_>>(), [2, 4, 6, 8, 9, 9]);
}

#[test]
fn a_cached_page_ends_the_large_folios_of_a_window() {
    let mut bench = Bench::new(FOLIOS);
    bench.preload(10..12);
    let expected = [
        "0: win(0,8,4) +[0,8)",
        "4: win(8,16,16) +[8,10), +[12,24)",
        "8: win(24,24,24) +[24,32)o3, +[32,48)o4",
    ];
    assert_eq!(reads(&mut bench, [0, 4, 8], 4), expected);
}

#[test]
fn an_older_kernel_reads_past_the_window_behind_a_cached_page() {
    let mut bench = Bench::new("linux-6.12:folios");
    bench.preload(17..18);
    assert_eq!(reads(&mut bench, [0], 4), ["0: win(0,8,4) +[0,8)o2"]);
    let expected = ["4: win(8,16,16) +[8,16)o3, +[16,17), +[18,32)"];
    assert_eq!(reads(&mut bench, [4], 4), expected);
}

#[test]
fn the_end_of_the_file_cuts_a_folio() {
    let mut bench = Bench::with_pages(FOLIOS, 32768);
    let expected = [
        "32760: +[32760,32761)",
        "32761: win(32761,4,3) +[32761,32765)",
        "32762: win(32765,7,7) +[32765,32766), +[32766,32768)o1",
    ];
    assert_eq!(reads(&mut bench, 32760..32763, 1), expected);
    assert_eq!(reads(&mut bench, [32763], 5), ["32763: win(32772,12,12)"]);
}
