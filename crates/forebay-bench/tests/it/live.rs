//! `forebay-bench live`: a rig of seconds, and that nothing of it stays behind. Figures differ.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::benchmarks::forebay_is_missing;
use crate::page_cells::has_every_cell;
use crate::support::{Scene, stderr, stdout};

/// Why no device can be made here, if so.
fn cannot_make_devices() -> Option<&'static str> {
    if fs::metadata("/proc/self").expect("the kernel lists processes").uid() != 0 {
        return Some("root");
    }
    if let Some(missing) = forebay_is_missing() {
        return Some(missing);
    }
    for file in ["/dev/loop-control", "/dev/fuse"] {
        if fs::File::options().read(true).write(true).open(file).is_err() {
            return Some(file);
        }
    }
    let folders = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"];
    let has = |program: &str| {
        folders.iter().any(|folder| fs::metadata(format!("{folder}/{program}")).is_ok())
    };
    let missing = ["mkfs.ext4", "losetup", "fallocate", "umount"].into_iter();
    missing.into_iter().find(|program| !has(program))
}

/// The device of the rig that lives in the folder of a scene, once it has its disk.
fn device_of(scene: &Scene) -> Option<PathBuf> {
    let run = fs::read_dir(scene.path("work")).ok()?.flatten().next()?;
    let number = fs::read_to_string(run.path().join("devices")).ok()?;
    let device = PathBuf::from(format!("/sys/block/loop{}", number.trim()));
    device.join("loop").exists().then_some(device)
}

/// One rig at a time: a number that was given back is given to the next.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bench(scene: &Scene, line: &str) -> Command {
    fs::create_dir_all(scene.path("work")).expect("a folder can be made");
    let mut command = scene.command(&format!("live --work work {line}"));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn a_rig_is_set_up_measured_and_put_away() {
    if let Some(missing) = cannot_make_devices() {
        eprintln!("skip: slow devices: needs {missing}");
        return;
    }
    let _alone = alone();
    let scene = Scene::new();
    let line = "--quick --scenario a,e --limits served --ways default,fixed --format json \
                --html page.html";
    let output = bench(&scene, line).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Vec<Value> = serde_json::from_str(stdout(&output)).expect("what is printed is JSON");
    let page = fs::read_to_string(scene.path("page.html")).expect("the page is there");
    has_every_cell(&page, &rows);
    let ways = |scenario: &str| {
        let rows = rows.iter().filter(|row| row["scenario"] == scenario);
        rows.map(|row| row["way"].as_str().expect("a way has a name")).collect::<Vec<_>>()
    };
    let windows = ["fixed 16 KiB", "fixed 32 KiB", "fixed 64 KiB", "fixed 128 KiB"];
    assert_eq!(ways("a"), [&["default"][..], &windows].concat());
    assert_eq!(ways("e"), ["default", "fixed cap 32 MiB", "fixed cap 8 MiB"]);
    for row in &rows {
        let figure = if row["scenario"] == "a" { "touches_per_s" } else { "total_s" };
        assert!(row[figure].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
    }
    // The device of a window of 8 MiB gives a page for 8 MiB, whatever else this machine does.
    let touches = |way: &str| {
        let row = rows.iter().find(|row| row["scenario"] == "a" && row["way"] == way);
        row.and_then(|row| row["touches_per_s"].as_f64()).expect("every way has touched pages")
    };
    assert!(touches("fixed 16 KiB") > 2.0 * touches("default"));
    assert_eq!(fs::read_dir(scene.path("work")).expect("it is there").count(), 0);
    let folder = scene.path("work").display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the kernel lists mounts");
    assert!(!mounts.contains(&folder), "{mounts}");
}

#[test]
fn what_a_killed_run_has_left_goes_away_with_the_next() {
    if let Some(missing) = cannot_make_devices() {
        eprintln!("skip: a killed run of slow devices: needs {missing}");
        return;
    }
    let _alone = alone();
    let scene = Scene::new();
    let mut killed = bench(&scene, "--scenario f --rounds 1000 --ways default");
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let device = loop {
        if let Some(device) = device_of(&scene) {
            break device;
        }
        assert_eq!(killed.try_wait().expect("it is our child"), None);
        thread::sleep(Duration::from_millis(5));
    };
    killed.kill().expect("it is our child");
    killed.wait().expect("it is our child");
    assert_eq!(fs::read_dir(scene.path("work")).expect("it is there").count(), 1);
    let next = bench(&scene, "--quick --scenario f --ways default").output().expect("it runs");
    assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
    assert!(stderr(&next).contains("which a run that was killed has left"), "{}", stderr(&next));
    assert_eq!(fs::read_dir(scene.path("work")).expect("it is there").count(), 0);
    assert!(!device.exists(), "{}", device.display());
}

#[test]
fn an_interrupted_run_puts_all_away() {
    if let Some(missing) = cannot_make_devices() {
        eprintln!("skip: an interrupted run of slow devices: needs {missing}");
        return;
    }
    let _alone = alone();
    let scene = Scene::new();
    let mut child = bench(&scene, "--scenario f --rounds 1000 --ways default");
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let device = loop {
        if let Some(device) = device_of(&scene) {
            break device;
        }
        assert_eq!(child.try_wait().expect("it is our child"), None);
        thread::sleep(Duration::from_millis(5));
    };
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.expect("there is such a program").success());
    assert_eq!(child.wait().expect("it is our child").code(), Some(2));
    assert_eq!(fs::read_dir(scene.path("work")).expect("it is there").count(), 0);
    assert!(!device.exists(), "{}", device.display());
}

#[test]
fn what_live_does_not_know_is_refused() {
    let mut scene = Scene::new();
    scene
        .refused("live --scenario g")
        .refused("live --ways best")
        .refused("live --rounds 0")
        .refused("live --rounds 2 --quick")
        .refused("live --limits none");
    scene.matches("live_refused.txt");
}
