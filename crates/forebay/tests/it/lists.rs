//! The tables of policies and machines.

use crate::support::{Scene, printed};

#[test]
fn policies_are_listed_slot_by_slot() {
    let mut scene = Scene::new();
    scene.forebay("policies").forebay("policies --format csv").matches("policies.txt");
}

#[test]
fn policies_fit_a_terminal() {
    let scene = Scene::new();
    let text = printed(scene.command("policies"));
    let widest = text.lines().max_by_key(|line| line.chars().count()).expect("there are lines");
    assert!(widest.chars().count() <= 100, "{widest}");
    let rows = printed(scene.command("policies --format csv"));
    for row in rows.lines().skip(1) {
        let name = row.split(',').nth(1).expect("a row has a name");
        assert!(text.lines().any(|line| line.split(' ').any(|word| word == name)), "{name}");
    }
}

#[test]
fn machines_are_listed() {
    let mut scene = Scene::new();
    scene.forebay("machines").forebay("machines --format json").matches("machines.txt");
}

#[test]
fn a_machine_shows_its_numbers_and_their_sources() {
    let mut scene = Scene::new();
    scene.forebay("machines desktop-2004").forebay("machines desktop-2004 --format csv");
    scene.matches("machine.txt");
}

#[test]
fn every_machine_that_is_listed_can_be_named() {
    let scene = Scene::new();
    let names = printed(scene.command("machines --format csv"));
    for row in names.lines().skip(1) {
        let name = row.split(',').next().expect("a row has a first cell");
        printed(scene.command(&format!("machines {name}")));
    }
}
