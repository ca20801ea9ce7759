//! `forebay simulate`: a job in virtual time, in every format.

use crate::support::{Scene, printed};

const RANDOM: &str = "[global]\nsize=4M\n[random]\nrw=randread\nbs=16k\n";
const TWO: &str = "[stream]\nrw=read\nsize=2M\nbs=64k\n[random]\nrw=randread\nsize=1M\nstonewall\n";

/// The second piece with a `=` is a parameter of the policy before it.
const COMPARED: &str = "off,request-size:max=32,previous=off,linux-6.18";

#[test]
fn a_job_becomes_a_table_in_every_format() {
    let mut scene = Scene::new().file("two.fio", TWO);
    for format in ["text", "markdown", "csv", "json"] {
        scene.forebay(&format!("simulate two.fio --format {format}"));
    }
    scene.matches("simulate.txt");
}

#[test]
fn policies_are_compared_and_machines_changed() {
    let mut scene = Scene::new().file("random.fio", RANDOM);
    scene
        .forebay(&format!("simulate random.fio --compare readahead={COMPARED}"))
        .forebay("simulate random.fio --policy readahead=fixed:max=8 --machine desktop-2004")
        .forebay("simulate random.fio --set device.delay=1ms --set device.jitter=0 --seed 9")
        .forebay("simulate random.fio --fio-compat 3.34 --format csv")
        .forebay_reads("[odd]\nrw=read\nsize=10001\nbs=1000\n", "simulate - --format csv")
        .forebay_reads("[a|b]\nrw=read\nsize=4k\ngtod_reduce=1\n", "simulate - --format markdown");
    scene.matches("simulate_choices.txt");
}

#[test]
fn a_machine_may_be_a_file() {
    let file = include_str!("../../../forebay-sim/machines/vm-2026.toml");
    let scene = Scene::new().file("random.fio", RANDOM).file("vm-2026.toml", file);
    assert_eq!(
        printed(scene.command("simulate random.fio --machine ./vm-2026.toml")),
        printed(scene.command("simulate random.fio --machine vm-2026"))
    );
}

#[test]
fn a_seed_names_a_run() {
    let scene = Scene::new().file("random.fio", RANDOM);
    let run =
        |seed| printed(scene.command(&format!("simulate random.fio --format csv --seed {seed}")));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn csv_json_and_text_show_the_same_rows() {
    let scene = Scene::new().file("two.fio", TWO);
    let csv = printed(scene.command("simulate two.fio --format csv"));
    let json = printed(scene.command("simulate two.fio --format json"));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("an array of objects");
    let header: Vec<&str> = csv.lines().next().expect("a header").split(',').collect();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    for row in rows {
        let keys: Vec<&str> =
            row.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, header);
    }
}
