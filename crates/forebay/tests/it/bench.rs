//! Measuring on this machine: the table's shape, and what is refused. Figures differ.

use std::fs;

use crate::support::{Scene, printed};

#[test]
fn every_way_has_a_row_in_every_cell_and_nothing_stays_behind() {
    let scene = Scene::new();
    let csv = printed(scene.command("bench dispatch --quick --on . --format csv"));
    let words = |line: &str| line.split(',').take(4).map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = csv.lines().map(words).collect();
    assert_eq!(rows[0], ["pages", "depth", "cores", "way"]);
    let ways = ["pread", "inline", "deferred", "uring", "spin", "adaptive"];
    let mut expected = Vec::new();
    for pages in ["cached", "cold", "cold-direct"] {
        for depth in ["1", "32"] {
            for cores in ["idle", "busy"] {
                expected.extend(ways.map(|way| vec![pages, depth, cores, way]));
            }
        }
    }
    assert_eq!(rows[1..], expected);
    assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), 0);
}

#[test]
fn bad_places_and_times_are_refused() {
    let mut scene = Scene::new().file("small", [1; 4_096]);
    // Without a subject there is help, on standard error.
    scene.forebay("bench");
    scene
        .refused("bench dispach")
        .refused("bench dispatch --on nowhere")
        .refused("bench dispatch --on small")
        .refused("bench dispatch --on /proc")
        .refused("bench dispatch --on /dev/null")
        .refused("bench dispatch --seconds-per-cell 0")
        .refused("bench dispatch --seconds-per-cell 1 --quick")
        .refused("bench dispatch --format yaml")
        .refused("bench dispatch here");
    scene.matches("bench_refused.txt");
}
