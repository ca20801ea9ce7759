//! What the program says of itself.

use crate::support::Scene;

#[test]
fn every_command_has_its_help() {
    let mut scene = Scene::new();
    scene.forebay("--version").forebay("--help").forebay("-h");
    for command in [
        "reproduce",
        "simulate",
        "run",
        "plan",
        "policies",
        "bench",
        "bench dispatch",
        "bench mount",
        "machines",
        "mount",
        "advise",
        "watch",
    ] {
        scene.forebay(&format!("{command} --help"));
    }
    scene.forebay("image --help");
    for command in ["info", "ls", "stat", "cat", "extract", "verify", "make", "compare"] {
        scene.forebay(&format!("image {command} --help"));
    }
    scene.matches("help.txt");
}

#[test]
fn a_mistyped_command_is_an_error() {
    // Without a command there is help, on standard error.
    let mut scene = Scene::new();
    scene
        .forebay("")
        .refused("simulat")
        .refused("run")
        .refused("plan")
        .refused("policies --fromat");
    scene.matches("mistyped.txt");
}
