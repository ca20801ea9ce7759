//! `forebay sweep submit --on`: engines of others run the chunks, lose workers, and fail.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Scene, printed};
use crate::sweep::{GRID, JOB, scene};

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
    // Without `hq` its Python package is tried.
    for (engine, program) in [("slurm", "sbatch"), ("hyperqueue", "python3")] {
        // A program's environment is empty in these tests, so nothing is found.
        let mut command = scene.command(&format!("sweep submit s --on {engine}"));
        let output = command.env("PATH", "/nowhere").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{engine}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("cannot start {program}")), "{said}");
    }
    let output = scene.command("sweep submit s --on slurm --scheduler tcp://a:1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// A Python with a package, or nothing, which is said.
fn python_with(package: &str) -> Option<String> {
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if import.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("skipped: {python} has no package '{package}'");
    None
}

/// A program that finds a Python and its packages.
fn with_python(scene: &Scene, line: &str, python: &str) -> Command {
    let mut command = scene.command(line);
    command.args(["--python", python]);
    for name in ["PATH", "PYTHONPATH"] {
        command.envs(std::env::var(name).map(|value| (name, value)));
    }
    command
}

/// Runs a plan here and on two workers of Dask, one of which is killed when chunks have results and
/// others have not; the merged bytes are the same.
fn kills_a_worker(scene: &Scene, python: &str, plan: &str, chunk_points: u32) {
    printed(scene.command(&format!("sweep plan {plan} -o local")));
    printed(scene.command("sweep submit local"));
    let whole = printed(scene.command("sweep merge local"));
    printed(scene.command(&format!("sweep plan {plan} -o dask --chunk-points {chunk_points}")));
    let mut command = with_python(scene, "sweep submit dask --on dask --jobs 2", python);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut said = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
    let workers = said.find_map(|line| Some(line.ok()?.strip_prefix("note: workers ")?.to_owned()));
    let workers = workers.expect("the workers are named");
    let has_result = || {
        let entries = fs::read_dir(scene.path("dask/results")).expect("the plan made it");
        entries.flatten().any(|one| one.path().extension().is_some_and(|name| name == "json"))
    };
    while !has_result() {
        assert!(child.try_wait().expect("it is a child").is_none(), "Dask ended without a result");
        thread::sleep(Duration::from_millis(5));
    }
    let victim = workers.split(' ').next().expect("there is one");
    let killed = Command::new("kill").args(["-9", victim]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let status = printed(scene.command("sweep status dask --json"));
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    assert_ne!(status["missing_chunks"], serde_json::json!([]), "the worker died in the midst");
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert!(child.wait().is_ok_and(|status| status.success()), "{rest:?}");
    assert_eq!(printed(scene.command("sweep merge dask")), whole);
}

#[test]
fn dask_runs_the_chunks_of_a_worker_that_was_killed() {
    let Some(python) = python_with("distributed") else { return };
    kills_a_worker(&scene(), &python, &format!("r.fio {GRID}"), 1);
}

#[test]
#[ignore = "takes two minutes; cargo test -p forebay --test it ten_thousand -- --ignored"]
fn dask_runs_ten_thousand_points_with_a_worker_killed() {
    let Some(python) = python_with("distributed") else { return };
    let scene = Scene::new().file("r.fio", "[r]\nrw=randread\nsize=64k\nbs=16k\n");
    let grid = "--grid readahead=off,linux-6.18 --grid device.jitter=0,10percent --seeds 1..2500";
    kills_a_worker(&scene, &python, &format!("r.fio {grid}"), 32);
}

/// Half of the chunks fail, because their input was changed; what failed is said and run again.
fn says_what_fails(engine: &str, python: &str) {
    // The same job under another name would be the same points.
    let other = JOB.replace("16k", "8k");
    let scene = scene().file("other.fio", &other);
    printed(scene.command("sweep plan r.fio other.fio --seeds 1..4 --chunk-points 2 -o s"));
    fs::write(scene.path("other.fio"), JOB.replace("1M", "2M")).expect("a scratch file");
    let submit = || {
        let line = format!("sweep submit s --on {engine} --jobs 2");
        with_python(&scene, &line, python).output().expect("the program runs")
    };
    let output = submit();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4 chunks run, 2 failed\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("was changed since the sweep was planned").count(), 2, "{said}");
    fs::write(scene.path("other.fio"), other).expect("a scratch file");
    assert_eq!(String::from_utf8_lossy(&submit().stdout), "2 chunks run, 0 failed\n");
    assert_eq!(printed(scene.command("sweep merge s")).lines().count(), 9);
    printed(scene.command("sweep plan r.fio other.fio --seeds 1..4 -o local"));
    printed(scene.command("sweep submit local"));
    let merged = |folder: &str| printed(scene.command(&format!("sweep merge {folder}")));
    assert_eq!(merged("s"), merged("local"));
}

#[test]
fn chunks_that_fail_on_dask_are_said_and_can_be_run_again() {
    let Some(python) = python_with("distributed") else { return };
    says_what_fails("dask", &python);
}

#[test]
fn chunks_that_fail_on_hyperqueue_are_said_and_can_be_run_again() {
    if Command::new("hq").arg("--version").output().is_ok() {
        eprintln!("skipped: there is an hq, so the Python package is not used");
        return;
    }
    let Some(python) = python_with("hyperqueue.cluster") else { return };
    says_what_fails("hyperqueue", &python);
}
