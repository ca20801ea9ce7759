//! Machines that do not exist, machine files that are wrong, and overrides that are.

use crate::support::Scene;

const MACHINE: &str = include_str!("../../../forebay-sim/machines/vm-2026.toml");

#[test]
fn a_machine_file_says_where_it_is_wrong() {
    let changed = |from: &str, to: &str| {
        assert!(MACHINE.contains(from), "the machine has changed: {from}");
        MACHINE.replacen(from, to, 1)
    };
    let mut scene = Scene::new()
        .file("syntax.toml", "[device\n")
        .file("bytes.toml", [b'[', 0xff, b']'])
        .file("empty.toml", "")
        .file("missing.toml", changed("\ncores =", "\n# cores ="))
        .file("negative.toml", changed("\ndelay = { value = ", "\ndelay = { value = -"))
        .file("huge.toml", changed("\ndelay = { value = 55", "\ndelay = { value = 1e300"))
        .file("key.toml", changed("\ncores =", "\ncoers ="))
        .file("field.toml", changed("\ndelay = { value =", "\ndelay = { vlaue ="))
        .file("unit.toml", changed("unit = \"ns\"", "unit = \"nsec\""))
        .file("source.toml", changed("source = \"A: ", "source = \"Z: "))
        .file("device.toml", changed("type = \"fast\"", "type = \"tape\""))
        .file("placement.toml", changed("placement = \"", "placement = \"un"))
        .file("elevator.toml", changed("[kernel]", "[kernel]\nelevator = \"deadlien\""))
        .file("dispatch.toml", changed("[kernel]", "[kernel]\ndispatch = \"sometimes\""))
        .file("scheduler.toml", changed("[kernel]", "[kernel]\nscheduler = \"fiar\""));
    for name in [
        "syntax",
        "bytes",
        "empty",
        "missing",
        "negative",
        "huge",
        "key",
        "field",
        "unit",
        "source",
        "device",
        "placement",
        "elevator",
        "dispatch",
        "scheduler",
        "nowhere",
    ] {
        scene.refused(&format!("machines {name}.toml"));
    }
    scene.refused("machines .").matches("machine_files.txt");
}

#[test]
fn a_machine_that_does_not_exist_brings_the_nearest() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n");
    scene
        .refused("machines desktop-2005")
        .refused("machines zebra")
        .refused("machines VM-2026")
        .refused("simulate job --machine nvme-2025")
        .refused("simulate job --machine missing.toml");
    scene.matches("machine_names.txt");
}

#[test]
fn policies_of_a_machine_file_are_looked_at_when_it_is_read() {
    let changed = |from: &str, to: &str| {
        assert!(MACHINE.contains(from), "the machine has changed: {from}");
        MACHINE.replacen(from, to, 1)
    };
    let mut scene = Scene::new()
        .file("job", "[a]\nrw=read\nsize=4k\n")
        .file("readahead.toml", changed("readahead = \"linux-6.18", "readahead = \"linux-6.19"))
        .file("flush.toml", changed("flush = \"linux-6", "flush = \"linux-6:limit=101"))
        .file("throttle.toml", changed("throttle = \"linux-3.18", "throttle = \"linux-3.81"))
        .file("controller.toml", changed("controller = \"fixed", "controller = \"fxied"));
    for name in ["readahead", "flush", "throttle", "controller"] {
        scene.refused(&format!("simulate job --machine {name}.toml"));
    }
    scene.refused("machines flush.toml");
    // The file is wrong, whether that policy is used or not.
    scene.refused("simulate job --machine throttle.toml --policy throttle=off");
    // A chosen policy replaces one that was set.
    scene.forebay("simulate job --set kernel.throttle=linux-3.81 --policy throttle=off");
    scene.matches("machine_policies.txt");
}

#[test]
fn an_override_names_a_key_and_a_possible_value() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n");
    for set in [
        "device.delay",
        "=1",
        "device.dealy=1us",
        "zebra=1",
        "device.rate_outer=1MB/s",
        "device.delay=",
        "device.delay=fast",
        "device.delay=-1us",
        "device.delay=1MB/s",
        "device.delay=1e300s",
        "device.delay=NaN",
        "device.delay=inf",
        "device.delay=0.1ns",
        "device.delay=18446744073709551615",
        "cpu.cores=0",
        "cpu.cores=1.5",
        "cpu.cores=1025",
        "memory.page_cache=4095",
        "kernel.large_folios=2",
        "kernel.readahead=linux-6.19",
        "kernel.readahead=",
        "kernel.flush=linux-7",
        "kernel.flush=linux-6:limit=10,background=20",
        "kernel.flush=",
        "kernel.throttle=linux-6",
        "kernel.controller=drain:limit_ms=0",
        "layout.placement=scatterd",
        "device.type=hdd",
    ] {
        scene.refused(&format!("simulate job --set {set}"));
    }
    scene.refused("simulate job --machine hdd-2026 --set device.seek_min=1s");
    scene.refused("simulate job --set device.capacity=1MiB --set layout.span=1ppm");
    scene.matches("machine_overrides.txt");
}
