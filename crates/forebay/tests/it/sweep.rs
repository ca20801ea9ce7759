//! `forebay sweep`: plans, chunks and results on this machine.

use std::fs;
use std::process::Command;

use crate::support::{Scene, printed};

pub(crate) const JOB: &str = "[r]\nrw=randread\nsize=1M\nbs=16k\n";
pub(crate) const GRID: &str = "--machine vm-2026,ssd-2014 \
                               --grid readahead=off,fixed:max=8,linux-6.18 \
                               --grid device.jitter=0,10percent --seeds 1..4";

pub(crate) fn scene() -> Scene {
    Scene::new().file("r.fio", JOB)
}

#[test]
fn results_are_the_same_bytes_however_they_were_made() {
    let scene = scene();
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o one")));
    printed(scene.command("sweep submit one --jobs 3"));
    let whole = printed(scene.command("sweep merge one"));
    assert_eq!(whole.lines().count(), 1 + 2 * 3 * 2 * 4);
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o other --chunk-points 5")));
    // Backwards, and one chunk twice.
    for chunk in (0..10).rev().chain([3]) {
        printed(scene.command(&format!("sweep run other --chunk {chunk}")));
    }
    assert_eq!(printed(scene.command("sweep merge other")), whole);
    let objects = printed(scene.command("sweep merge other --format json"));
    let objects: Vec<serde_json::Value> = serde_json::from_str(&objects).unwrap();
    assert_eq!(objects.len(), 48);
}

#[test]
fn a_point_is_the_run_that_simulate_prints() {
    let scene = scene();
    let one = "--machine ssd-2014 --grid readahead=fixed:max=8 --seeds 7";
    printed(scene.command(&format!("sweep plan r.fio {one} -o one")));
    printed(scene.command("sweep submit one"));
    let merged = printed(scene.command("sweep merge one --format json"));
    let call = "simulate r.fio --machine ssd-2014 --policy readahead=fixed:max=8 --seed 7";
    let alone = printed(scene.command(&format!("{call} --format json")));
    let of = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (merged, alone) = (of(&merged), of(&alone));
    for column in ["reads", "read_p99_us", "throughput_mb_s", "requests", "elapsed_s"] {
        assert_eq!(merged[0][column], alone[0][column], "{column}");
    }
}

#[test]
fn traces_are_replayed_as_the_plan_says() {
    let trace = "0,0,8,1,0\n400,0,8,1,0\n1000000,0,8,0,0\nbad\n";
    let scene = scene().file("t.tencent", trace);
    let how = "--trace-format tencent --layer block --closed-loop --depth 4 --skip-bad 1";
    printed(scene.command(&format!("sweep plan t.tencent --seeds 2 {how} -o one")));
    printed(scene.command("sweep submit one"));
    let merged = printed(scene.command("sweep merge one --format json"));
    let alone = scene.command(&format!("-q simulate t.tencent --seed 2 {how} --json"));
    let alone = printed(alone);
    let of = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (merged, alone) = (of(&merged), of(&alone));
    for column in ["reads", "writes", "elapsed_s", "device_busy_s"] {
        assert_eq!(merged[0][column], alone[0][column], "{column}");
    }
    // Options are part of a point's name.
    printed(scene.command("sweep plan t.tencent --seeds 2 --speed 2 --skip-bad 1 -o one"));
    let status = printed(scene.command("sweep status one --json"));
    assert_eq!(of(&status)["done"], 0);
    let refused = scene.command("sweep plan r.fio --speed 2 -o two").output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("--speed is for traces, and "), "{message}");
}

#[test]
fn a_larger_plan_runs_only_what_is_new() {
    let scene = scene();
    printed(scene.command("sweep plan r.fio --grid readahead=off,linux-6.18 --seeds 1..4 -o s"));
    printed(scene.command("sweep submit s"));
    let larger = "sweep plan r.fio --grid readahead=linux-6.18,off,fixed:max=8 --seeds 1..5 -o s";
    printed(scene.command(larger));
    let status = printed(scene.command("sweep status s --json"));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["points"], &status["done"]), (&15.into(), &8.into()));
    printed(scene.command("sweep submit s"));
    assert_eq!(printed(scene.command("sweep merge s")).lines().count(), 16);
}

#[test]
fn the_best_settings_are_ranked() {
    let mut scene = scene();
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o s")));
    printed(scene.command("sweep submit s"));
    scene
        .forebay("sweep best s --by read_p99_us -n 3")
        .forebay("sweep best s --by read_p99_us -n 1 --json")
        .forebay("sweep best s --by throughput_mb_s --max --within read_max_us<150 -n 2")
        .forebay("sweep best s --by throughput_mb_s --within reads>1000")
        .forebay("sweep status s");
    scene.matches("sweep_best.txt");
}

#[test]
fn plans_and_results_that_do_not_fit_are_refused() {
    let mut scene = scene();
    printed(scene.command("sweep plan r.fio --grid readahead=off,linux-6.18 -o s"));
    scene
        .refused("sweep merge s")
        .refused("sweep run s --chunk 9")
        .refused("sweep status .")
        .refused("sweep plan r.fio --grid readahead=off,off -o t")
        .refused("sweep plan r.fio --grid readahead=off --grid readahead=on -o t")
        .refused("sweep plan r.fio --grid readahead=of -o t")
        .refused("sweep plan r.fio --grid device.dealy=1us -o t")
        .refused("sweep plan r.fio --seeds 3..1 -o t")
        .refused("sweep plan r.fio r.fio -o t")
        .refused("sweep plan r.fio --machine vm-2026,vm-2026 -o t")
        .refused("sweep plan r.fio --grid redahead=off -o t")
        .refused("sweep plan absent.fio -o t");
    printed(scene.command("sweep submit s"));
    scene.refused("sweep best s --by raed_p99_us").refused("sweep best s --by reads --within x");
    let plan = fs::read_to_string(scene.path("s/plan.json")).unwrap();
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(scene.path("s/plan.json"), plan.replace(&version, "\"version\": \"0.0.9\"")).unwrap();
    scene.refused("sweep merge s");
    fs::write(scene.path("s/plan.json"), &plan).unwrap();
    let result = fs::read_dir(scene.path("s/results")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&result, scene.path("s/results/a.json")).unwrap();
    let text = fs::read_to_string(scene.path("s/results/a.json")).unwrap();
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let older = text.replace(&version, "\"version\":\"0.0.9\"");
    assert_ne!(older, text);
    fs::write(scene.path("s/results/a.json"), older).unwrap();
    scene.refused("sweep merge s");
    scene.matches("sweep_refused.txt");
}

#[test]
fn what_cannot_be_run_is_not_planned() {
    let trace = "128166372003061629,src1,2,Read,8050688,4096,1331\n";
    let scene = scene().file("words.txt", "hello\n").file("msr.csv", trace);
    for (inputs, why) in [
        ("words.txt", "option 'hello' stands outside a section"),
        ("msr.csv --grid throttle=off,paced", "the slot 'throttle' has nothing to decide"),
        ("msr.csv --grid elevator=none,zebra", "zebra"),
    ] {
        let output = scene.command(&format!("sweep plan {inputs} -o s")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{inputs}: {said}");
        assert!(!scene.path("s").exists(), "{inputs}");
    }
    printed(scene.command("sweep plan msr.csv --grid elevator=none,mq-deadline -o s"));
    printed(scene.command("sweep submit s"));
}

#[test]
fn a_result_that_is_damaged_or_of_other_points_is_made_again() {
    let scene = scene();
    printed(
        scene.command("sweep plan r.fio --grid readahead=off,linux-6.18 -o s --chunk-points 1"),
    );
    printed(scene.command("sweep submit s"));
    let whole = printed(scene.command("sweep merge s"));
    let results = fs::read_dir(scene.path("s/results")).unwrap();
    let mut results: Vec<_> = results.map(|entry| entry.unwrap().path()).collect();
    results.sort();
    let texts = [0, 1].map(|place| fs::read_to_string(&results[place]).unwrap());
    let older = texts[0].replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    for damaged in ["", &texts[0][..texts[0].len() / 2], "{}", &older, &texts[1]] {
        fs::write(&results[0], damaged).unwrap();
        let submitted = printed(scene.command("sweep submit s"));
        assert_eq!(submitted, "1 chunk run, 0 failed\n", "{damaged}");
        assert_eq!(printed(scene.command("sweep merge s")), whole, "{damaged}");
    }
    assert_eq!(printed(scene.command("sweep submit s")), "0 chunks run, 0 failed\n");
}

#[test]
fn a_changed_job_is_no_part_of_the_plan() {
    let scene = scene();
    printed(scene.command("sweep plan r.fio -o s"));
    fs::write(scene.path("r.fio"), JOB.replace("1M", "2M")).unwrap();
    let output = scene.command("sweep submit s").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("was changed since the sweep was planned"), "{said}");
}

/// What a Python of this machine reads in the file, if it has a reader.
#[test]
fn a_parquet_file_has_the_rows_of_the_others() {
    let scene = scene();
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o s")));
    printed(scene.command("sweep submit s"));
    let mut merge = scene.command("sweep merge s --format parquet");
    let output = merge.output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    assert!(output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1"));
    let again = scene.command("sweep merge s --format parquet").output().unwrap();
    assert_eq!(again.stdout, output.stdout);
    let objects = printed(scene.command("sweep merge s --format json"));
    let scene = scene.file("s.parquet", &output.stdout).file("s.json", objects);
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut has_reader = Command::new(&python);
    if !has_reader.args(["-c", "import pyarrow"]).output().is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: {python} has no package 'pyarrow'");
        return;
    }
    let mut reader = Command::new(&python);
    reader.args(["-c", SAME_ROWS]).current_dir(scene.path("."));
    let output = reader.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const SAME_ROWS: &str = "
import json, pyarrow.parquet
rows = pyarrow.parquet.read_table('s.parquet').to_pylist()
assert rows == json.load(open('s.json')), rows[0]
assert len(rows) == 48 and isinstance(rows[0]['reads'], int)
";
