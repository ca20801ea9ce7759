//! Benchmarks on this machine: the table's shape, and refusals. Figures differ.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::page_cells::{has_every_cell, page_beside_json};
use crate::support::{Scene, printed, stderr, stdout};

#[test]
fn every_way_has_a_row_in_every_cell_and_nothing_stays_behind() {
    let scene = Scene::new();
    let csv = printed(scene.command("dispatch --quick --on . --format csv"));
    let words = |line: &str| line.split(',').take(4).map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = csv.lines().map(words).collect();
    assert_eq!(rows[0], ["pages", "depth", "cores", "way"]);
    let ways = ["pread", "inline", "deferred", "uring", "spin", "adaptive"];
    let mut expected = Vec::new();
    for pages in ["cached", "cold", "cold-direct"] {
        for depth in ["1", "32"] {
            for cores in ["idle", "busy"] {
                expected.extend(ways.map(|way| vec![pages, depth, cores, way]));
                // Its buffers are not aligned for direct I/O.
                if pages != "cold-direct" {
                    expected.push(vec![pages, depth, cores, "tokio::fs"]);
                }
            }
        }
    }
    assert_eq!(rows[1..], expected);
    assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), 0);
}

#[test]
fn every_benchmark_has_its_help() {
    let mut scene = Scene::new();
    for line in ["--help", "dispatch --help", "mount --help", "live --help"] {
        let output = scene.command(line).output().expect("the program runs");
        scene.note(line, &output);
    }
    scene.matches("help.txt");
}

#[test]
fn an_absent_program_is_named_before_anything_is_made() {
    if !is_root() {
        eprintln!("skip: an absent forebay: needs root");
        return;
    }
    let mut scene = Scene::new();
    fs::create_dir(scene.path("tree")).expect("the scene can be set");
    scene.refused("mount --forebay absent --tree tree --work .");
    scene.matches("absent.txt");
    assert_eq!(fs::read_dir(scene.path(".")).expect("it is there").count(), 1);
}

#[test]
fn bad_places_and_times_are_refused() {
    let mut scene = Scene::new().file("small", [1; 4_096]);
    // Without a benchmark there is help, on standard error.
    let output = scene.command("").output().expect("the program runs");
    scene.note("", &output);
    scene
        .refused("dispach")
        .refused("dispatch --on nowhere")
        .refused("dispatch --on small")
        .refused("dispatch --on /proc")
        .refused("dispatch --on /dev/null")
        .refused("dispatch --time-per-cell 0")
        .refused("dispatch --time-per-cell 1 --quick")
        .refused("dispatch --format yaml")
        .refused("dispatch here")
        .refused("dispatch --html absent/page.html")
        .refused("mount --only everything")
        .refused("mount --rounds 0")
        .refused("mount --rounds 2 --quick")
        .refused("mount --size 1M")
        .refused("mount --size 5G")
        .refused("mount --size big")
        .refused("mount --tree nowhere")
        .refused("mount --tree small");
    scene.matches("refused.txt");
}

#[test]
fn every_cell_of_a_benchmark_is_on_its_page() {
    let scene = Scene::new();
    let (json, page) = page_beside_json(&scene, "dispatch --quick --on . --format json", 0);
    has_every_cell(&page, json.as_array().unwrap());
    assert!(page.contains("Time of a read: cold"));
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

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("the kernel lists processes").uid() == 0
}

/// The program that is measured, if it is not built: `cargo test --workspace` builds it.
pub(crate) fn forebay_is_missing() -> Option<&'static str> {
    let is_there = Path::new(crate::PROGRAM.1).with_file_name("forebay").is_file();
    (!is_there).then_some("forebay beside it; cargo build --package forebay")
}

/// Why images cannot be mounted here, if so.
fn cannot_mount() -> Option<String> {
    if !is_root() {
        return Some("root".to_owned());
    }
    let programs = [("mksquashfs", "squashfs-tools"), ("mkfs.ext4", "e2fsprogs")];
    let is_there = |program: &str| {
        let folders = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"];
        folders.iter().any(|folder| fs::metadata(format!("{folder}/{program}")).is_ok())
    };
    let missing = programs.iter().find(|(program, _)| !is_there(program));
    let missing = missing.map(|(program, package)| format!("{program}; apt-get install {package}"));
    let missing = missing.or_else(|| forebay_is_missing().map(str::to_owned));
    let missing =
        missing.or_else(|| fs::metadata("/dev/fuse").is_err().then(|| "/dev/fuse".to_owned()));
    missing.or_else(|| (!can_drop_caches()).then(|| "file systems that all answer".to_owned()))
}

/// Whether the kernel drops its caches in a minute. It waits for each file system, and one that
/// does not answer holds it up until the machine is started again.
fn can_drop_caches() -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", "echo 1 > /proc/sys/vm/drop_caches"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh runs");
    (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        child.try_wait().expect("sh is our child").is_some()
    })
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
    let line = "mount --quick --tree tree --work work --size 8M --only faults,tree,codec";
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
    let line = "mount --rounds 1000 --tree tree --work work --size 8M --only faults";
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
