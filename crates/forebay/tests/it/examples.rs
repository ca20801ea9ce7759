//! `examples/`: every file is run, and a file of a new kind fails until this test knows how.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Scene, printed, stderr, stdout};

/// What a file is run with.
fn line(name: &str) -> Option<String> {
    let path = format!("examples/{name}");
    let kind = name.rsplit_once('.').map(|(_, extension)| extension);
    match (kind, name) {
        (Some("fio"), _) => Some(format!("simulate {path} --format csv")),
        (Some("toml"), name) if name.starts_with("machine-") => {
            Some(format!("simulate examples/random.fio --machine {path} --format csv"))
        }
        (Some("toml"), name) if name.starts_with("tune") => {
            Some(format!("tune --dry-run --for 20ms --root recorded --policy {path}"))
        }
        (Some("txt"), name) if name.starts_with("plan") => {
            Some(format!("plan --policy readahead=linux-6.18 --script {path}"))
        }
        _ => None,
    }
}

#[test]
fn every_example_runs() {
    let scene = Scene::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    symlink(root.join("../../examples"), scene.path("examples")).expect("a link can be made");
    let recorded = root.join("../forebay-live/tests/machines/debian-12-hdd-ssd");
    symlink(recorded, scene.path("recorded")).expect("a link can be made");
    let mut kinds = Vec::new();
    for entry in fs::read_dir(scene.path("examples")).expect("there are examples") {
        let name = entry.expect("the folder can be read").file_name();
        let name = name.into_string().expect("a name is text");
        let Some(line) = line(&name) else {
            panic!("examples/{name}: say in {} how it is run", file!());
        };
        let output = scene.command(&line).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{line}\n{}", stderr(&output));
        let is_policy = line.starts_with("tune");
        assert_eq!(stdout(&output).is_empty(), is_policy, "{line}\n{}", stdout(&output));
        kinds.push(line.split(' ').next().map(str::to_owned));
    }
    for kind in ["simulate", "tune", "plan"] {
        assert!(kinds.contains(&Some(kind.to_owned())), "no example of {kind}");
    }
}

#[test]
fn a_machine_of_the_examples_lists_its_numbers() {
    let scene = Scene::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    symlink(examples, scene.path("examples")).expect("a link can be made");
    let listed = printed(scene.command("machines examples/machine-usb-disk.toml --format csv"));
    assert!(
        listed.lines().any(|line| line.starts_with("device.interface_rate,35000000,")),
        "{listed}"
    );
}
