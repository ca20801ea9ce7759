//! Policies, slots and flags that do not exist.

use crate::support::{Scene, assert_refused};

#[test]
fn a_policy_is_a_slot_a_name_and_parameters_in_range() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n");
    for policy in [
        "off",
        "",
        "readahead",
        "readahed=off",
        "writeback=off",
        "readahead=",
        "readahead=linux-6.19",
        "readahead=zebra",
        "readahead=off:max=3",
        "readahead=fixed:",
        "readahead=fixed:mux=3",
        "readahead=fixed:max",
        "readahead=fixed:max=",
        "readahead=fixed:max=-1",
        "readahead=fixed:max=4k",
        "readahead=fixed:max=18446744073709551616",
        "readahead=linux-6.18:max=99999999999",
        "readahead=linux-6.18:folios=2",
    ] {
        // A colon with nothing behind it takes the defaults.
        if policy != "readahead=fixed:" {
            scene.refused(&format!("simulate job --policy={policy}"));
        }
    }
    scene.matches("policies_bad.txt");
}

#[test]
fn every_slot_names_what_is_wrong_with_its_policy() {
    let mut scene = Scene::new().file("job", "[a]\nrw=write\nsize=4k\n");
    for policy in [
        "flush=linux-7",
        "flush=zebra",
        "flush=linux-6:limit=101",
        "flush=linux-6:limti=10",
        "flush=linux-6:limit=10,background=20",
        "flush=bdflush-2.2.19:nfract=101",
        "flush=bdflush-2.2.19:nfrac=1",
        "flush=bdflush-2.2.19:40",
        "controler=fixed",
        "controller=fixd",
        "controller=fixed:max=3",
        "controller=dyn:cap=1000",
        "controller=drain:limit_ms=0",
        "controller=drain:floor_mib=64,cap_mib=32",
        "trottle=off",
        "throttle=linux-3.19",
        "throttle=zebra",
        "throttle=paced:gain=x",
        "throttle=deadline:cpa=3",
        "throttle=linux-6",
    ] {
        scene.refused(&format!("simulate job --policy={policy}"));
    }
    for line in [
        "40 500",
        "200 500 64 256 500 3000 500 1884 2",
        "40 500 64 256 5s 3000 500 1884 2",
        "-1 500 64 256 500 3000 500 1884 2",
        "40 500 64 256 500 3000 500 1884 2 1",
    ] {
        let mut command = scene.command("simulate job --policy");
        command.arg(format!("flush=bdflush-2.2.19:{line}"));
        let output = command.output().expect("the program runs");
        assert_refused(line, &output);
        scene.note(&format!("simulate job --policy 'flush=bdflush-2.2.19:{line}'"), &output);
    }
    scene.matches("policies_slots.txt");
}

#[test]
fn what_only_reads_takes_readahead_alone() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n").file("file", [1; 4_096]);
    for slot in ["flush=linux-6", "controller=drain", "throttle=off", "throttle=zebra"] {
        scene
            .refused(&format!("run job --on file --policy {slot}"))
            .refused(&format!("plan --policy {slot}"));
    }
    scene
        .refused("run job --on file --compare throttle=off,paced")
        .refused("run job --on file --policy readahead=off --compare flush=linux-6");
    scene.matches("policies_read_only.txt");
}

#[test]
fn a_slot_is_filled_once_or_compared() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n").file("file", [1; 4_096]);
    let many = |name: &str| (1..=33).map(|n| format!("{name}{n}")).collect::<Vec<_>>().join(",");
    let (one, other) = (many("paced:limit_ms="), many("fixed:max="));
    scene
        .refused("simulate job --policy readahead=off --policy readahead=fixed")
        .refused("simulate job --policy readahead=off --compare readahead=off,fixed")
        .refused("simulate job --compare readahead=off --compare readahead=fixed")
        .refused("run job --on file --policy readahead=off --policy readahead=off")
        .refused("plan --policy readahead=off --policy readahead=fixed")
        .refused("simulate job --compare=")
        .refused("simulate job --compare readahead=")
        .refused("simulate job --compare readahead=off,,fixed")
        .refused("simulate job --compare readahead=off,zebra")
        .refused("simulate job --compare readahead=off,fixed:max=3,previous=off")
        .refused("simulate job --compare max=3")
        .refused("simulate job --compare readahead=off,max=3")
        .refused("simulate job --policy throttle=off --policy throttle=off")
        .refused("simulate job --policy flush=linux-6 --compare flush=linux-6")
        .refused("simulate job --compare throttle=off,paced --compare throttle=pi")
        .refused("simulate job --compare throttle=off,pacde --compare flush=linux-6")
        .refused("simulate job --compare readahead=off,fixed,off")
        .refused(&format!("simulate job --compare throttle={one} --compare readahead={other}"));
    scene.matches("policies_compared.txt");
}

#[test]
fn flags_take_what_they_say() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n");
    scene
        .refused("simulate job --format yaml")
        .refused("simulate job --fio-compat 3.33")
        .refused("simulate job --machine vm-2026 --machine hdd-2026")
        .refused("simulate job job")
        .refused("simulate")
        .refused("simulate job --draws 3")
        .refused("simulate job --verify");
    scene.matches("flags.txt");
}
