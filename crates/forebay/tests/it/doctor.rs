//! `forebay doctor` here, as nobody, in recorded machines; and that it leaves nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Scene, for_everybody, stderr, stdout};

fn found(mut command: Command) -> (Option<i32>, Value) {
    let output = command.output().expect("the program runs");
    assert_eq!(stderr(&output), "");
    let found = serde_json::from_str(stdout(&output)).expect("it is JSON");
    (output.status.code(), found)
}

fn state<'a>(found: &'a Value, what: &str) -> &'a str {
    let checks = found["checks"].as_array().expect("there are checks");
    let check = checks.iter().find(|check| check["what"] == what);
    check.and_then(|check| check["state"].as_str()).expect("the check is there")
}

fn of_command<'a>(found: &'a Value, name: &str) -> &'a str {
    let commands = found["commands"].as_array().expect("there are commands");
    let command = commands.iter().find(|command| command["command"] == name);
    command.and_then(|command| command["state"].as_str()).expect("the command is there")
}

#[test]
fn every_check_says_what_it_gives_and_a_missing_one_what_would_bring_it() {
    let scene = Scene::new();
    let (code, found) = found(scene.command("doctor --json"));
    let main = ["advise", "watch", "mount"];
    let is_missing = main.iter().any(|name| of_command(&found, name) == "no");
    assert_eq!(code, Some(i32::from(is_missing)));
    for check in found["checks"].as_array().expect("there are checks") {
        let text = |key: &str| check[key].as_str().unwrap_or_default();
        assert!(!text("gives").is_empty() && !text("found").is_empty(), "{check}");
        let is_wanted = matches!(text("state"), "no" | "partly");
        assert_eq!(is_wanted, !text("way").is_empty(), "{check}");
        assert!(!text("way").contains('\n'), "{check}");
    }
    for always in ["reproduce", "simulate", "plan", "run", "image"] {
        assert_eq!(of_command(&found, always), "yes");
    }
    let page = scene.command("doctor").output().expect("the program runs");
    let page = stdout(&page);
    for check in found["checks"].as_array().expect("there are checks") {
        let what = check["what"].as_str().expect("it has a name");
        assert!(page.contains(what), "{what}\n{page}");
    }
}

#[test]
fn what_the_machine_has_is_what_is_found() {
    let (_, found) = found(Scene::new().command("doctor --json"));
    assert_eq!(state(&found, "counters"), "yes");
    assert_eq!(state(&found, "pressure (PSI)") == "yes", fs::read("/proc/pressure/io").is_ok());
    assert_eq!(state(&found, "/dev/fuse") == "yes", {
        fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
    });
    let root = rustix::process::geteuid().is_root();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux says its version");
    assert_eq!(found["kernel"], kernel.trim());
    assert_eq!(found["user"] == 0, root);
}

#[test]
fn nothing_is_written_and_nothing_is_mounted() {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("the kernel lists mounts");
    let scene = Scene::new();
    let instances = || {
        // Other tests trace at the same time; this checks that no instance of the doctor is left.
        let names = fs::read_dir("/sys/kernel/tracing/instances");
        names.map(|names| names.flatten().count()).unwrap_or(0)
    };
    let before = (mounts().lines().filter(|line| line.contains("tracefs")).count(), instances());
    let _ = found(scene.command("doctor --json"));
    let after = mounts();
    assert_eq!(after.lines().filter(|line| line.contains("tracefs")).count(), before.0);
    assert!(!after.contains(&scene.path(".").display().to_string()), "{after}");
    assert_eq!(fs::read_dir(scene.path(".")).expect("the folder is there").count(), 0);
}

#[test]
fn recorded_machines_are_judged_by_their_files() {
    let mut scene = Scene::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../forebay-live/tests/machines");
    for name in ["debian-12-hdd-ssd", "container-no-psi"] {
        symlink(recorded.join(name), scene.path(name)).expect("a link can be made");
        scene.forebay(&format!("doctor --root {name}"));
    }
    scene.refused("doctor --root nowhere").matches("doctor.txt");
}

#[test]
fn the_user_nobody_may_ask_too() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skip: forebay doctor as nobody: needs root");
        return;
    }
    let scene = Scene::new();
    let mut command = Command::new(for_everybody(&scene));
    command.args(["doctor", "--json"]).env_clear().uid(65_534).gid(65_534);
    let (code, found) = found(command);
    assert!(matches!(code, Some(0 | 1)));
    assert_eq!(state(&found, "knobs"), "no");
    assert_eq!(of_command(&found, "tune"), "no");
    assert_eq!(found["user"], 65_534);
}
