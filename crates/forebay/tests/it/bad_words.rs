//! Policies, slots and flags that do not exist.

use crate::support::Scene;

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
fn a_slot_is_filled_once_or_compared() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=4k\n").file("file", [1; 4_096]);
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
        .refused("simulate job --compare max=3");
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
