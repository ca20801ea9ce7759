//! Benchmarks on this machine: the table's shape, and refusals. Figures differ.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::page::has_every_cell;
use crate::support::{Scene, printed, stderr, stdout};

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
        .refused("bench dispatch --time-per-cell 0")
        .refused("bench dispatch --time-per-cell 1 --quick")
        .refused("bench dispatch --format yaml")
        .refused("bench dispatch here")
        .refused("bench mount --only everything")
        .refused("bench mount --rounds 0")
        .refused("bench mount --rounds 2 --quick")
        .refused("bench mount --size 1M")
        .refused("bench mount --size 5G")
        .refused("bench mount --size big")
        .refused("bench mount --tree nowhere")
        .refused("bench mount --tree small");
    scene.matches("bench_refused.txt");
}

/// A tree with a program and libraries that compress as such do.
fn small_tree(scene: &Scene) {
    let library = scene.path(&format!("tree/lib/{}-linux-gnu", std::env::consts::ARCH));
    fs::create_dir_all(&library).expect("the scene can be set");
    fs::create_dir_all(scene.path("tree/bin")).expect("the scene can be set");
    fs::write(scene.path("tree/bin/program"), b"#!/bin/sh\n").expect("the scene can be set");
    let mut state = 1_u32;
    for number in 0..8 {
        let word = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        };
        let bytes: Vec<u8> = (0..300_000).map(word).collect();
        fs::write(library.join(format!("lib{number}.so")), bytes).expect("the scene can be set");
    }
}

/// Why images cannot be mounted here, if so.
fn cannot_mount() -> Option<String> {
    if fs::metadata("/proc/self").expect("the scene can be set").uid() != 0 {
        return Some("root".to_owned());
    }
    let programs = [("mksquashfs", "squashfs-tools"), ("mkfs.ext4", "e2fsprogs")];
    let is_there = |program: &str| {
        let folders = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"];
        folders.iter().any(|folder| fs::metadata(format!("{folder}/{program}")).is_ok())
    };
    let missing = programs.iter().find(|(program, _)| !is_there(program));
    let missing = missing.map(|(program, package)| format!("{program}; apt-get install {package}"));
    missing.or_else(|| fs::metadata("/dev/fuse").is_err().then(|| "/dev/fuse".to_owned()))
}

#[test]
fn mounted_images_are_measured_and_nothing_stays_behind() {
    if let Some(missing) = cannot_mount() {
        eprintln!("skip: mounted images beside each other: needs {missing}");
        return;
    }
    let scene = Scene::new();
    small_tree(&scene);
    fs::create_dir(scene.path("work")).unwrap();
    let line = "bench mount --quick --tree tree --work work --size 8M --only faults,tree,codec";
    let mut command = scene.command(&format!("{line} --format json --html page.html"));
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Vec<Value> = serde_json::from_str(stdout(&output)).unwrap();
    has_every_cell(&fs::read_to_string(scene.path("page.html")).unwrap(), &rows);
    let rows_of = |way: &str| {
        let rows =
            rows.iter().filter(|row| row["way"] == way && row["image"] == "squashfs-zlib-4k");
        rows.map(|row| row["work"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rows_of("forebay"), ["faults", "tree"]);
    assert_eq!(rows.iter().filter(|row| row["work"] == "codec").count(), 2);
    for row in rows.iter().filter(|row| row["work"] == "faults") {
        assert!(row["p50_us"].as_f64().unwrap() <= row["p99_us"].as_f64().unwrap(), "{row}");
    }
    assert_eq!(fs::read_dir(scene.path("work")).unwrap().count(), 0);
    nothing_is_mounted(&scene);
}

#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    if let Some(missing) = cannot_mount() {
        eprintln!("skip: an interrupted benchmark: needs {missing}");
        return;
    }
    let scene = Scene::new();
    small_tree(&scene);
    fs::create_dir(scene.path("work")).unwrap();
    let line = "bench mount --rounds 1000 --tree tree --work work --size 8M --only faults";
    let mut command = scene.command(line);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // Until something has been mounted, or the program has ended.
    let is_busy = || {
        let own = fs::read_to_string(format!("/proc/{}/mountinfo", child.id()));
        !own.is_ok_and(|list| list.contains("/work/"))
    };
    while is_busy() {
        thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(fs::read_dir(scene.path("work")).unwrap().count(), 0);
    nothing_is_mounted(&scene);
}

/// Neither a mount nor a loop device names the folder of the test.
fn nothing_is_mounted(scene: &Scene) {
    let folder = scene.path("work").display().to_string();
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").expect("the kernel lists what there is");
    assert!(!mounts.contains(&folder), "{mounts}");
    for device in fs::read_dir("/sys/block").expect("the kernel lists what there is") {
        let file = device.expect("the kernel lists what there is").path().join("loop/backing_file");
        let file = fs::read_to_string(file).unwrap_or_default();
        assert!(!file.contains(&folder), "{file}");
    }
}
