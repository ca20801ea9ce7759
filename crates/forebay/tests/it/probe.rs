//! `forebay probe` and `forebay simulate --check` on files of the tests. Measurements differ from
//! run to run, so only their form is checked.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::support::{Scene, assert_refused, printed, stderr};

#[test]
fn what_cannot_be_probed_is_refused() {
    let mut scene = Scene::new().file("small", "x").file("job.fio", "[a]\nrw=read\nsize=4k\n");
    fs::create_dir(scene.path("folder")).expect("a folder can be made");
    scene
        .refused("probe missing -o m.toml")
        .refused("probe folder -o m.toml")
        .refused("probe small -o m.toml")
        .refused("probe small -o nowhere/m.toml")
        .refused("probe small -o m.toml --scratch small")
        .refused("probe small -o m.toml --scratch folder")
        .refused("probe small -o small")
        .refused("probe small -o ./m.toml --scratch m.toml")
        .refused("probe small -o job.fio")
        .refused("probe small")
        .refused("simulate - --check small")
        .refused("simulate job.fio --check missing")
        .refused("simulate job.fio --check small")
        .refused("simulate job.fio --check small --compare throttle=off,paced")
        .refused("simulate job.fio --allow-writes");
    assert!(!scene.path("m.toml").exists());
    scene.matches("probe_refused.txt");
}

/// The whole probe, on a file of the scratch folder: its output is a machine.
#[test]
fn a_probed_machine_is_one_that_simulate_takes() {
    let data: Vec<u8> = (0..64_u32 << 20).map(|at| (at.wrapping_mul(97) >> 5) as u8).collect();
    let scene = Scene::new().file("data", &data).file("job.fio", "[a]\nrw=randread\nsize=8m\n");
    let direct = i32::try_from(OFlags::DIRECT.bits()).expect("a flag is small");
    let mut options = fs::OpenOptions::new();
    if options.read(true).custom_flags(direct).open(scene.path("data")).is_err() {
        eprintln!("skipped: the scratch folder has no way past the page cache");
        return;
    }
    let output = scene.command("probe data --scratch scratch -o m.toml --format csv").output();
    let output = output.expect("the program runs");
    // Beside other work a model may be far from what was measured.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("key,value,low,high,unit,samples,source\n"), "{text}");
    for key in ["cpu.syscall", "cpu.fault", "device.jitter"] {
        assert!(text.contains(&format!("\n{key},")), "{key}: {text}");
    }
    assert!(fs::read(scene.path("data")).expect("it is there") == data, "it is only read");
    assert!(!scene.path("scratch").exists(), "what was made is removed");
    printed(scene.command("simulate job.fio --machine m.toml"));
    let output = scene.command("simulate job.fio --machine m.toml --check . --format csv").output();
    let output = output.expect("the program runs");
    // Whether the figures are met is the machine's business.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Vec<&str> =
        text.lines().map(|line| line.split(',').nth(1).unwrap_or("")).collect();
    assert_eq!(figures, ["figure", "throughput", "read p50", "read p99"], "{text}");
}

#[test]
fn a_check_needs_leave_to_write() {
    let scene = Scene::new().file("data", vec![7; 1 << 20]).file(
        "w.fio",
        "[w]\nrw=randwrite\nsize=512k\nbs=16k\nfsync=8\n[r]\nrw=randread\nsize=64k\n",
    );
    let output = scene.command("simulate w.fio --check data").output().expect("the program runs");
    assert_refused("a job that writes needs leave", &output);
    assert_eq!(fs::read(scene.path("data")).expect("it is there"), vec![7; 1 << 20]);
    for on in ["data --allow-writes", "."] {
        let line = format!("simulate w.fio --format csv --check {on}");
        let output = scene.command(&line).output().expect("the program runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("\nw,sync p99,us,") && text.contains("\nr,throughput,"), "{text}");
    }
    assert_eq!(fs::read_dir(scene.path(".")).expect("it is there").count(), 2);
}
