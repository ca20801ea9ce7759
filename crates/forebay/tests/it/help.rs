//! The help texts of the program.

use crate::support::{Scene, printed};

#[test]
fn every_command_has_its_help() {
    let mut scene = Scene::new();
    scene.forebay("--version").forebay("--help").forebay("-h");
    for command in [
        "reproduce",
        "simulate",
        "run",
        "plan",
        "policies",
        "machines",
        "mount",
        "unmount",
        "advise",
        "watch",
        "doctor",
        "sweep",
        "sweep plan",
        "sweep run",
        "sweep submit",
        "sweep status",
        "sweep merge",
        "sweep best",
        "trace",
        "trace info",
        "trace head",
        "trace convert",
        "trace sample",
        "trace stats",
        "tune",
        "completions",
        "man",
    ] {
        scene.forebay(&format!("{command} --help"));
    }
    scene.forebay("image --help");
    for command in ["info", "ls", "stat", "cat", "extract", "verify", "make", "layout", "compare"] {
        scene.forebay(&format!("image {command} --help"));
    }
    scene.matches("help.txt");
}

#[test]
fn topics_are_explained() {
    let mut scene = Scene::new();
    for topic in ["papers", "units", "safety", "job-files"] {
        scene.forebay(&format!("help {topic}"));
    }
    scene.matches("topics.txt");
}

#[test]
fn the_policies_are_explained_from_their_table() {
    let scene = Scene::new();
    let text = printed(scene.command("help policies"));
    let rows = printed(scene.command("policies --format json"));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).expect("an array");
    assert!(rows.len() > 25);
    for row in rows {
        let slot = row["slot"].as_str().expect("a slot has a name").to_uppercase();
        let (_, rest) = text.split_once(&format!("\n{slot}: ")).expect("the slot is explained");
        let name = row["name"].as_str().expect("a policy has a name");
        let (_, rest) = rest.split_once(&format!("\n  {name}\n")).expect(name);
        for parameter in row["parameters"].as_str().expect("they are listed").split(',') {
            let key = parameter.split('=').next().unwrap_or_default();
            assert!(rest.contains(&format!("      {key}")) || key.is_empty(), "{name}: {key}");
        }
    }
}

#[test]
fn help_of_a_command_is_that_command_s_help() {
    let scene = Scene::new();
    for words in ["simulate", "image ls", "tune", "sweep plan"] {
        let asked = printed(scene.command(&format!("help {words}")));
        assert_eq!(asked, printed(scene.command(&format!("{words} --help"))), "{words}");
    }
    let all = printed(scene.command("help"));
    assert_eq!(all, printed(scene.command("--help")));
    for topic in ["policies", "papers", "units", "job-files", "safety"] {
        assert!(all.contains(&format!("\n  {topic} ")), "{topic}");
    }
}

#[test]
fn a_mistyped_command_is_an_error() {
    // Without a command there is what to try first, on standard error.
    let mut scene = Scene::new();
    scene
        .forebay("")
        .forebay("sweep")
        .refused("help unit")
        .refused("help zebra")
        .refused("help units zebra")
        .refused("simulat")
        .refused("run")
        .refused("plan")
        .refused("policies --fromat")
        .refused("completions tcsh");
    scene.matches("mistyped.txt");
}
