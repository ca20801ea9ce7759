//! Jobs that are typed as options, direct jobs, and what `--quiet` and `--verbose` print.

use crate::support::{Scene, assert_refused, printed, stderr, stdout};

#[test]
fn a_typed_job_runs_as_the_same_job_of_a_file() {
    let file = "[global]\nbs=8k\nsize=1m\n[a]\nrw=randread\n[b]\nrw=write\nend_fsync=1\n";
    let scene = Scene::new().file("job.fio", file);
    let typed = "simulate --bs=8k --size 1m --name=a --rw=randread --format csv --name b \
                 --rw=write --seed=7 --end_fsync=1";
    let expected = printed(scene.command("simulate job.fio --format csv --seed=7"));
    assert_eq!(printed(scene.command(typed)), expected);
    let on = "--on . --memory 8M --format csv";
    let run = printed(scene.command(&format!("run --name=a --rw=read --size=64k {on}")));
    assert!(run.lines().count() == 2 && run.contains(",a,"), "{run}");
}

#[test]
fn errors_of_typed_jobs_name_the_option_and_no_line() {
    let mut scene = Scene::new();
    scene
        .refused("simulate --name=a --rw=raed --size=1m")
        .refused("simulate --name=a --size=1m --iodpeth=2")
        .refused("simulate --name=a --size=1m --machin=vm-2026")
        .refused("simulate --rw=read --name=a")
        .refused("simulate job.fio --name=a --size=1m")
        .refused("simulate --name=a --size=1m --rate_min=1m")
        .refused("run --name=a --rw=read --size=1m --direct=1 --on .");
    scene.matches("typed_jobs.txt");
}

#[test]
fn direct_jobs_pass_the_page_cache() {
    let scene = Scene::new();
    let row = |options: &str| {
        let job = "--name=a --size=16m --fadvise_hint=0 --machine nvme-2026 --format json";
        let json = printed(scene.command(&format!("simulate {job} {options}")));
        let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let cell = |key: &str| rows[0][key].as_f64().unwrap_or_default();
        ["pages_read", "reads", "writes", "throughput_mb_s", "durable_s", "elapsed_s"].map(cell)
    };
    let [pages, reads, _, slow, ..] = row("--rw=randread --direct=1");
    assert_eq!((pages, reads), (0.0, 4_096.0));
    let [.., deep, _, _] = row("--rw=randread --direct=1 --ioengine=libaio --iodepth=8");
    assert!(deep > 4.0 * slow, "{deep} and {slow}");
    let [pages, .., fast, _, _] = row("--rw=read");
    assert!(pages > 4_000.0 && fast > slow, "readahead helps buffered reads: {fast}, {slow}");
    let [_, _, writes, _, durable, elapsed] = row("--rw=randwrite --direct=1");
    assert!(writes > 4_000.0 && durable > elapsed, "the device's cache is flushed at the end");
}

#[test]
fn a_direct_job_beside_a_buffered_one_slows_it_down() {
    let scene = Scene::new();
    let elapsed = |more: &str| {
        let job = "--name=buffered --rw=randread --size=4m --machine hdd-2026 --format csv";
        let csv = printed(scene.command(&format!("simulate {job} {more}")));
        let mut lines = csv.lines();
        let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let place = header.iter().position(|name| *name == "elapsed_s").expect("a column");
        let row: Vec<&str> = lines.next().expect("a row").split(',').collect();
        row[place].parse::<f64>().expect("a number")
    };
    let both = elapsed("--name=direct --rw=randread --size=4m --direct=1");
    assert!(both > 1.5 * elapsed(""), "they share a disk");
}

#[test]
fn quiet_has_no_notes_and_verbose_has_choices_and_timings() {
    let scene = Scene::new().file("job.fio", "[a]\nrw=read\nsize=64k\ngroup_reporting\n");
    let said = |more: &str| {
        let line = format!("simulate job.fio --policy readahead=off {more}");
        let output = scene.command(&line).output().expect("the program runs");
        (stdout(&output).to_owned(), stderr(&output).to_owned())
    };
    let (plain, note) = said("");
    assert_eq!(note.lines().count(), 1, "{note}");
    assert!(note.starts_with("note: job.fio: line 4: option 'group_reporting'"), "{note}");
    assert_eq!(said("-q"), (plain.clone(), String::new()));
    assert_eq!(said("--quiet").1, "");
    let (out, verbose) = said("-v");
    assert_eq!(out, plain);
    for line in [
        "verbose: machine: vm-2026, built in",
        "verbose: policy: flush=linux-6, not chosen: the machine's kernel has it",
        "note: job.fio: line 4: option 'group_reporting'",
        "verbose: took ",
    ] {
        assert!(verbose.lines().any(|said| said.starts_with(line)), "{line}\n{verbose}");
    }
    assert!(!verbose.contains("readahead="), "it was chosen: {verbose}");
    let both = "simulate job.fio -q -v";
    assert_refused(both, &scene.command(both).output().expect("the program runs"));
}
