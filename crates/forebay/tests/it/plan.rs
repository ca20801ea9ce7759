//! `forebay plan`: scripts, good ones and bad ones.

use crate::support::Scene;

const STREAM: &str = "# a stream, a hole, a new descriptor\nr 0 4096\nr 4096 4096\n\n\
                      r 8192 65536\nr 409600 8192\nn\nr 413696 1\nt 200\nt 200\nf 1\n\
                      r 1048576 8192\n\
                      f 3\nd\nt 0\n";

#[test]
fn a_script_shows_each_policy_at_work() {
    let mut scene = Scene::new().file("stream.txt", STREAM);
    for policy in
        ["off", "fixed:max=4", "linux-2.6.7", "request-size", "linux-2.6.21", "linux-6.18"]
    {
        let line = format!("plan --policy readahead={policy} --file-size 2M --script stream.txt");
        scene.forebay(&line);
    }
    scene.matches("plan.txt");
}

#[test]
fn a_script_may_come_from_standard_input() {
    let mut scene = Scene::new();
    let reads = "r 0 4096\nr 4096 4096\n";
    scene
        .forebay_reads(reads, "plan --policy readahead=linux-6.18")
        .forebay_reads(reads, "plan --policy readahead=linux-6.18 --script -")
        .forebay_reads(reads, "plan --policy readahead=linux-6.18 --json")
        .forebay_reads(reads, "plan --policy readahead=linux-6.18 --ra-kb 16")
        .forebay_reads(reads, "plan --policy readahead=linux-6.18 --ra-kb 3")
        .forebay_reads("", "plan --policy readahead=linux-6.18")
        .forebay_reads("r 0 4096\nf 3\nd", "plan --policy readahead=off --file-size 0")
        .forebay_reads("r 0 9\nr 5 0\nt 0\nf 4", "plan --policy readahead=fixed --file-size 1")
        .forebay_reads("r 0 4096", "plan --policy readahead=off --file-size 4095b");
    scene.matches("plan_stdin.txt");
}

#[test]
fn a_bad_script_is_refused_as_a_whole_and_names_its_line() {
    let mut scene = Scene::new().file("bad.txt", "r 0 4096\n\n# x\nr 0\n").file("bytes", [0xff, 9]);
    let plan = "plan --policy readahead=off";
    for text in [
        "x 3",
        "r 0 4096\nr 0",
        "r 0 4k",
        "r -1 4096",
        "n 1",
        "\n\nf 6",
        "t 18446744073709551616",
        "r 18446744073709551615 1",
        "r 9223372036854775807 9223372036854775807",
        "# two\nr 0 1\n\nt 16384",
        "t 9223372036854775807",
    ] {
        scene.refused_reading(text, plan);
    }
    scene
        .refused("plan --policy readahead=off --script bad.txt")
        .refused("plan --policy readahead=off --script bytes")
        .refused("plan --policy readahead=off --script .")
        .refused("plan --policy readahead=off --script missing.txt")
        .refused_reading("r 0 8G", "plan --policy readahead=off --file-size 8G")
        .refused_reading("r 0 4294967297", "plan --policy readahead=off --file-size 8G");
    scene.matches("plan_bad_scripts.txt");
}

#[test]
fn sizes_are_numbers_of_bytes() {
    let mut scene = Scene::new();
    for size in
        ["64Q", "-1", "M", "1.5G", "9223372036854775808", "8388608T", "99999999999999999999"]
    {
        scene.refused(&format!("plan --policy readahead=off --file-size={size}"));
    }
    for kib in ["9007199254740992", "18446744073709551615", "18446744073709551616", "-1", "4k"] {
        scene.refused(&format!("plan --policy readahead=off --ra-kb={kib}"));
    }
    for policy in ["off", "linux-6.18:max=3", "fixed:max=1,max=2"] {
        scene.refused(&format!("plan --policy readahead={policy} --ra-kb=64"));
    }
    scene.matches("plan_bad_sizes.txt");
}
