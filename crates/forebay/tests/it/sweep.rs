//! `forebay sweep`: plans, chunks, results, on this machine and on Dask.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Scene, printed};

const JOB: &str = "[r]\nrw=randread\nsize=1M\nbs=16k\n";
const GRID: &str = "--machine vm-2026,ssd-2014 --grid readahead=off,fixed:max=8,linux-6.18 \
                    --grid device.jitter=0,10percent --seeds 1..4";

fn scene() -> Scene {
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
        .forebay("sweep best s --by throughput_mb_s --max --within read_max_us<150 -n 2")
        .forebay("sweep best s --by throughput_mb_s --within reads>1000")
        .forebay("sweep status s");
    scene.matches("sweep_best.txt");
}

#[test]
fn plans_and_results_that_do_not_fit_are_refused() {
    let mut scene = scene().file("words.txt", "hello\n");
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
fn a_changed_job_is_no_part_of_the_plan() {
    let scene = scene();
    printed(scene.command("sweep plan r.fio -o s"));
    fs::write(scene.path("r.fio"), JOB.replace("1M", "2M")).unwrap();
    let output = scene.command("sweep submit s").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("was changed since the sweep was planned"), "{said}");
}

/// The servers of a scheduler are this machine's own; without them the test is skipped.
#[test]
fn schedulers_of_arrays_run_what_is_missing() {
    for (engine, asks) in [("slurm", ["sinfo", "-h"]), ("hyperqueue", ["hq", "server"])] {
        let mut is_up = Command::new(asks[0]);
        is_up.arg(asks[1]);
        if engine == "hyperqueue" {
            is_up.arg("info");
        }
        if !is_up.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no server of {engine} answers");
            continue;
        }
        let scene = scene();
        printed(scene.command(&format!("sweep plan r.fio {GRID} -o local")));
        printed(scene.command("sweep submit local"));
        let whole = printed(scene.command("sweep merge local"));
        printed(scene.command(&format!("sweep plan r.fio {GRID} -o there --chunk-points 2")));
        let mut command = scene.command(&format!("sweep submit there --on {engine}"));
        for name in ["PATH", "HOME", "SLURM_CONF", "HQ_SERVER_DIR"] {
            command.envs(std::env::var(name).map(|value| (name, value)));
        }
        printed(command);
        assert_eq!(printed(scene.command("sweep merge there")), whole, "{engine}");
    }
}

#[test]
fn a_scheduler_that_is_not_there_is_an_error() {
    let scene = scene();
    printed(scene.command("sweep plan r.fio -o s"));
    for (engine, program) in [("slurm", "sbatch"), ("hyperqueue", "hq")] {
        // A program's environment is empty in these tests, so nothing is found.
        let mut command = scene.command(&format!("sweep submit s --on {engine}"));
        let output = command.env("PATH", "/nowhere").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{engine}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("cannot start {program}")), "{said}");
    }
}

#[test]
fn dask_runs_the_chunks_of_a_worker_that_was_killed() {
    let has_dask = |python: &str| {
        let import = Command::new(python).args(["-c", "import distributed"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has_dask(&python) {
        eprintln!("skipped: {python} has no package 'distributed'");
        return;
    }
    let scene = scene();
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o local")));
    printed(scene.command("sweep submit local"));
    let whole = printed(scene.command("sweep merge local"));
    printed(scene.command(&format!("sweep plan r.fio {GRID} -o dask --chunk-points 2")));
    let mut command = scene.command("sweep submit dask --on dask --jobs 2 --python");
    command.arg(&python).env("PATH", std::env::var("PATH").unwrap_or_default());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let workers = said.find_map(|line| Some(line.ok()?.strip_prefix("note: workers ")?.to_owned()));
    let workers = workers.expect("the workers are named");
    let victim = workers.split(' ').next().unwrap();
    assert!(Command::new("kill").args(["-9", victim]).status().unwrap().success());
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    assert_eq!(printed(scene.command("sweep merge dask")), whole);
}
