//! `forebay advise` on recorded machines, on this one, and mistyped.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;

use crate::support::{Scene, for_everybody, stderr, stdout};

/// A scene in which the recorded machines lie.
fn scene() -> Scene {
    let scene = Scene::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../forebay-live/tests/machines");
    for entry in fs::read_dir(recorded).expect("there are recorded machines") {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name().into_string().expect("a name is text");
        symlink(entry.path(), scene.path(&name)).expect("a link can be made");
    }
    scene
}

/// The page and the JSON of one machine.
fn judged(name: &str) {
    let mut scene = scene();
    scene.forebay(&format!("advise --root {name}"));
    scene.forebay(&format!("advise --json --root {name}"));
    scene.matches(&format!("advise_{}.txt", name.replace(['-', '.'], "_")));
}

#[test]
fn a_virtual_disk_of_linux_6_18_has_too_large_a_window() {
    judged("vm-6.18-virtio");
}

#[test]
fn the_page_of_the_commands_shows_the_whole_answer() {
    let page = include_str!("../../../../docs/commands.md");
    let (_, section) = page.split_once("\n## advise: ").expect("the page has the command");
    let (_, block) = section.split_once("\n```text\n").expect("and what it prints");
    let (shown, _) = block.split_once("```\n").expect("a block ends");
    let output = scene().command("advise --root vm-6.18-virtio").output();
    assert_eq!(shown, stdout(&output.expect("the program runs")));
}

#[test]
fn a_server_with_a_disk_that_seeks_and_no_strict_limits() {
    judged("debian-12-hdd-ssd");
}

#[test]
fn a_guest_whose_knobs_belong_to_tuned() {
    judged("ubuntu-22.04-tuned");
}

#[test]
fn a_laptop_with_a_stick_that_is_mounted() {
    judged("laptop-6.12-usb");
}

#[test]
fn a_cloud_s_machine_with_64_mib_of_readahead_and_nfs() {
    judged("cloud-6.18-nvme-nfs");
}

#[test]
fn a_container_without_pressure_and_debugfs() {
    judged("container-no-psi");
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let mut scene = scene().file("text", "");
    fs::create_dir(scene.path("empty")).expect("a folder can be made");
    scene
        .refused("advise --root nowhere")
        .refused("advise --root text")
        .refused("advise --root empty")
        .refused("advise --root vm-6.18-virtio --watch 5")
        .refused("advise --watch 0")
        .refused("advise --record text")
        .refused("advise --record x --json")
        .matches("advise_refused.txt");
}

#[test]
fn a_machine_with_nothing_to_advise_exits_with_0() {
    let scene = Scene::new();
    for folder in ["quiet/proc/sys/kernel", "quiet/proc/self"] {
        fs::create_dir_all(scene.path(folder)).expect("a folder can be made");
    }
    let mut scene = scene
        .file("quiet/proc/sys/kernel/osrelease", "6.18.1\n")
        .file("quiet/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 1 kB\nCached: 1 kB\n")
        .file("quiet/proc/self/mountinfo", "1 1 0:2 / / rw - tmpfs tmpfs rw\n");
    scene.forebay("advise --root quiet").matches("advise_quiet.txt");
}

#[test]
fn what_was_recorded_is_judged_like_the_machine() {
    let scene = Scene::new();
    let run = |line: &str| scene.command(line).output().expect("the program runs");
    let recorded = run("advise --record here");
    assert_eq!((recorded.status.code(), stdout(&recorded)), (Some(0), ""), "{}", stderr(&recorded));
    // Loop devices and mounts of other tests come and go: the machine's own disks do not.
    let ids = |line: &str| {
        let found: serde_json::Value =
            serde_json::from_str(stdout(&run(line))).expect("it is JSON");
        let findings = found["findings"].as_array().expect("there are findings").clone();
        let of_devices = findings.into_iter().filter(|finding| {
            let name = finding["subject"]["name"].as_str().unwrap_or_default();
            finding["subject"]["kind"] == "device" && name.starts_with(['v', 's', 'n'])
        });
        of_devices.map(|it| it["id"].to_string() + &it["subject"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids("advise --json --root here"), ids("advise --json"));
}

#[test]
fn the_user_nobody_may_ask_too() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skip: forebay advise as nobody: needs root");
        return;
    }
    let scene = Scene::new();
    let mut command = std::process::Command::new(for_everybody(&scene));
    command.args(["advise", "--watch", "1", "--json"]).env_clear().uid(65_534).gid(65_534);
    let output = command.output().expect("the program runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let found: serde_json::Value = serde_json::from_str(stdout(&output)).expect("it is JSON");
    let gaps = found["gaps"].to_string();
    assert!(gaps.contains("processes do not show what they read"), "{gaps}");
    assert_eq!(found["watched_seconds"], 1);
}
