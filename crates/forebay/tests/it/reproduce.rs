//! `forebay reproduce`: the papers' tables, and what their verdicts do to the exit code.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Scene, matches, printed, stdout};

const KEYS: [&str; 15] = [
    "paper",
    "row",
    "metric",
    "unit",
    "policy",
    "published",
    "role",
    "measured",
    "low",
    "high",
    "tolerance_low",
    "tolerance_high",
    "verdict",
    "note",
    "seed",
];

/// Settings with which every predicted figure is inside its tolerance.
const NO_MISS: &str = "--set memory.page_cache=256MiB --set device.rate_outer=80MB/s";

/// Any move of any figure is a difference to review.
#[test]
fn every_figure_of_the_readahead_paper_is_where_it_was() {
    let scene = Scene::new();
    let line = "reproduce readahead --draws 1 --all --format csv";
    let table = printed(scene.command(line));
    matches(&table, "readahead.csv");
    assert_eq!(table, printed(scene.command(line)), "the same command prints the same bytes");
}

#[test]
fn a_paper_becomes_a_report_or_a_table() {
    let mut scene = Scene::new();
    scene.forebay("reproduce readahead --draws 2");
    scene.forebay("reproduce readahead --draws 2 --wide");
    scene.forebay("reproduce readahead --draws 1 --format markdown --set device.jitter=0 --seed 5");
    scene.matches("reproduce.txt");
}

/// The counts of the report are those of the rows.
#[test]
fn derived_and_calibrated_figures_do_not_count() {
    let scene = Scene::new();
    for paper in ["readahead", "cramfs"] {
        let line = format!("reproduce {paper} --draws 1");
        let json = printed(scene.command(&format!("{line} --format json")));
        let rows: Vec<Value> = serde_json::from_str(&json).expect("an array");
        let is_counted = |row: &&Value| {
            let is_claim = row["verdict"] != "not-claimed";
            row["role"] == "predicted" && !row["published"].is_null() && is_claim
        };
        let counted: Vec<&Value> = rows.iter().filter(is_counted).collect();
        let agree = counted.iter().filter(|row| row["verdict"] == "within").count();
        let said = printed(scene.command(&line)).split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = format!("{agree} of {} figures agree", counted.len());
        assert!(said.contains(&expected), "{expected}\n{said}");
    }
}

#[test]
fn json_has_the_same_keys_in_every_row_and_null_for_what_is_not_known() {
    let scene = Scene::new();
    let json = printed(scene.command("reproduce readahead --draws 2 --format json"));
    let rows: Vec<Value> = serde_json::from_str(&json).expect("an array");
    let expected = BTreeSet::from(KEYS);
    for row in &rows {
        let row = row.as_object().expect("a row is an object");
        assert_eq!(row.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
        for key in ["published", "measured", "low", "high", "tolerance_low", "tolerance_high"] {
            assert!(row[key].is_number() || row[key].is_null(), "{key}: {}", row[key]);
        }
        for key in ["paper", "row", "metric", "unit", "policy", "role", "verdict", "note"] {
            assert!(row[key].is_string(), "{key}: {}", row[key]);
        }
        assert_eq!(row["seed"], 1);
    }
    assert!(rows.iter().any(|row| row["published"].is_null()));
    assert!(rows.iter().any(|row| row["published"].is_number()));
}

#[test]
fn check_answers_with_the_exit_code() {
    let scene = Scene::new();
    for (settings, missed) in [("", true), (NO_MISS, false)] {
        let line = format!("reproduce readahead --draws 1 --format json {settings}");
        let table = printed(scene.command(&line));
        let rows: Vec<Value> = serde_json::from_str(&table).expect("an array");
        let misses = |row: &&Value| row["role"] == "predicted" && row["verdict"] == "outside";
        assert_eq!(rows.iter().find(misses).is_some(), missed, "{line}");
        let checked = scene.command(&format!("{line} --check")).output().expect("the program runs");
        assert_eq!(checked.status.code(), Some(i32::from(missed)), "{line}");
        assert_eq!(stdout(&checked), table, "a check prints the same table");
    }
}

#[test]
fn series_go_to_a_file_of_their_own() {
    let scene = Scene::new();
    printed(scene.command("reproduce flush --draws 1 --format csv --series figures.csv"));
    let text = std::fs::read_to_string(scene.path("figures.csv")).expect("the file is there");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("paper,row,policy,metric,unit,second,value"));
    assert!(lines.clone().count() > 1_000, "each second of each run has some");
    assert!(lines.all(|line| line.starts_with("flush,") && line.split(',').count() >= 7));
}

#[test]
fn what_cannot_be_reproduced_is_refused() {
    let mut scene = Scene::new();
    scene
        .refused("reproduce readahed")
        .refused("reproduce zebra")
        .refused("reproduce readahead --draws 0")
        .refused("reproduce readahead --draws 10001")
        .refused("reproduce readahead --machine desktop-2005")
        .refused("reproduce context-switch --machine hdd-2026")
        .refused("reproduce --machine nvme-2026")
        .refused("reproduce readahead --set device.rate_outr=1MB/s")
        .refused("reproduce readahead --set device.capacity=1MiB")
        .refused("reproduce throttle --set kernel.throttle=off")
        .refused("reproduce readahead --format yaml")
        .refused("reproduce readahead --set kernel.flush=linux-6")
        .refused("reproduce readahead --set kernel.reclaim=lru")
        .refused("reproduce flush --series figures.txt")
        .refused("reproduce flush --series absent/figures.csv")
        .refused("reproduce readahead --series figures.csv");
    scene.matches("reproduce_refused.txt");
}
