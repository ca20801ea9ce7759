//! `forebay simulate`: a job in virtual time, in every format.

use crate::support::{Scene, printed};

const RANDOM: &str = "[global]\nsize=4M\n[random]\nrw=randread\nbs=16k\n";
const TWO: &str = "[stream]\nrw=read\nsize=2M\nbs=64k\n[random]\nrw=randread\nsize=1M\nstonewall\n";

/// A light writer, backups that write more than the little memory holds, a reader, syncs.
pub(crate) const BURST: &str = "[global]\nfadvise_hint=0\n\
                     [backup]\nrw=write\nbs=64k\nsize=24m\nnumjobs=2\n\
                     [light]\nrw=write\nbs=4k\nsize=1m\nthinktime=1ms\nfsync=32\n\
                     [reader]\nrw=randread\nbs=4k\nsize=4m\nnumber_ios=64\nthinktime=1ms\n";

/// Memory in which a burst is too much.
pub(crate) const SMALL: &str = "--machine ssd-2014 --set memory.page_cache=64MiB";

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
fn every_slot_can_be_chosen_and_compared() {
    let mut scene = Scene::new().file("burst.fio", BURST).file("random.fio", RANDOM);
    let two = "--compare throttle=paced,off --compare controller=fixed,drain";
    scene
        .forebay(&format!("simulate burst.fio {SMALL} {two}"))
        .forebay(&format!("simulate burst.fio {SMALL} --policy throttle=pi:gain=500"))
        .forebay(&format!(
            "simulate burst.fio {SMALL} --policy readahead=off --policy flush=linux-6"
        ))
        .forebay("simulate burst.fio --machine raid-2001 --policy flush=bdflush-2.2.19:nfract=10")
        .forebay("simulate random.fio --compare throttle=paced,off");
    scene.matches("simulate_slots.txt");
}

#[test]
fn a_job_that_writes_has_columns_for_writes_in_every_format() {
    let rewrites = "[again]\nrw=write\nbs=64k\nsize=1m\nloops=3\nfsync=8\n";
    let mut scene = Scene::new().file("burst.fio", BURST).file("again.fio", rewrites);
    for format in ["markdown", "csv", "json"] {
        scene.forebay(&format!("simulate burst.fio {SMALL} --format {format}"));
    }
    scene.forebay("simulate again.fio");
    scene.matches("simulate_writes.txt");
}

/// The order of the rows is the order of typing, whatever the order of the slots.
#[test]
fn the_comparison_that_was_typed_last_varies_fastest() {
    let scene = Scene::new().file("random.fio", RANDOM);
    let rows = |compare: &str| {
        let line = format!("simulate random.fio --format csv {compare}");
        let printed = printed(scene.command(&line));
        let cells = printed.lines().skip(1).map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            format!("{} {}", cells[0], cells[3])
        });
        cells.collect::<Vec<_>>()
    };
    let (readahead, throttle) = ("--compare readahead=off,fixed", "--compare throttle=pi,off");
    let expected = ["off pi", "off off", "fixed pi", "fixed off"];
    assert_eq!(rows(&format!("{readahead} {throttle}")), expected);
    let expected = ["off pi", "fixed pi", "off off", "fixed off"];
    assert_eq!(rows(&format!("{throttle} {readahead}")), expected);
}

/// A policy that was not chosen is the machine's own, with the same output as if it had been typed.
#[test]
fn what_is_not_chosen_comes_from_the_machine() {
    let scene = Scene::new().file("burst.fio", BURST);
    let csv = |more: &str| {
        printed(scene.command(&format!("simulate burst.fio {SMALL} --format csv {more}")))
    };
    let own = csv("");
    let typed = "--policy readahead=linux-6.12 --policy flush=linux-6 --policy controller=fixed \
                 --policy throttle=linux-3.18";
    assert_eq!(csv(typed), own);
    assert_eq!(csv("--policy throttle=off"), csv("--set kernel.throttle=off"));
    assert_ne!(csv("--policy throttle=off"), own);
}

#[test]
fn nine_integers_are_a_flush_rule() {
    let scene = Scene::new().file("burst.fio", BURST);
    let elapsed = |flush: &str| {
        let mut command = scene.command("simulate burst.fio --machine raid-2001 --format json");
        command.args(["--policy", flush]);
        let rows: serde_json::Value = serde_json::from_str(&printed(command)).expect("JSON");
        let cell = |key: &str| rows[0][key].clone();
        assert!(cell("flush").as_str().expect("a text").starts_with("bdflush-2.2.19:"));
        [cell("elapsed_s"), cell("write_p99_us"), rows[3]["pages_cleaned"].clone()]
    };
    let keyed = "nfract=100,ndirty=1200,nrefill=128,nref_dirt=512,interval=15,age_buffer=5000,\
                 age_super=500,dummy1=1884,dummy2=2";
    assert_eq!(
        elapsed("flush=bdflush-2.2.19:100 1200 128 512 15 5000 500 1884 2"),
        elapsed(&format!("flush=bdflush-2.2.19:{keyed}"))
    );
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
