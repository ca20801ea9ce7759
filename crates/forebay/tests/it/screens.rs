//! Tables on screens of 80, 120 and 200 columns: columns leave, texts are cut, no line is wrapped.

use crate::simulate::{BURST, SMALL};
use crate::support::{Scene, on_terminal, printed, stdout};

const SCREENS: [u16; 3] = [80, 120, 200];

#[test]
fn a_comparison_fits_the_screen() {
    let mut scene = Scene::new().file("burst.fio", BURST);
    for columns in SCREENS {
        let compare = "--compare controller=fixed,drain";
        scene.forebay_at(columns, &format!("simulate burst.fio {SMALL} {compare}"));
    }
    scene.matches("screens_simulate.txt");
}

#[test]
fn a_paper_fits_the_screen() {
    let mut scene = Scene::new();
    for columns in SCREENS {
        scene.forebay_at(columns, "reproduce cramfs --draws 1");
    }
    scene.matches("screens_reproduce.txt");
    for columns in SCREENS {
        scene.forebay_at(columns, "reproduce cramfs --draws 1 --all");
    }
}

#[test]
fn lists_fit_the_screen() {
    // Their output depends on the machine, or has a snapshot elsewhere.
    let mut scene = Scene::new();
    for columns in SCREENS {
        scene.forebay_at(columns, "machines ssd-2014").forebay_at(columns, "policies");
        scene.forebay_at(columns, "help policies throttle").forebay_at(columns, "doctor");
    }
    let mut scene = Scene::new();
    for columns in SCREENS {
        scene.forebay_at(columns, "machines mips-2007");
    }
    scene.matches("screens_lists.txt");
}

#[test]
fn wide_has_every_column_on_any_screen() {
    let scene = Scene::new().file("burst.fio", BURST);
    let line = format!("simulate burst.fio {SMALL} --compare controller=fixed,drain");
    let without_limit = printed(scene.command(&line));
    let output = on_terminal(scene.command(&format!("{line} --wide")), 80);
    assert_eq!(stdout(&output), without_limit);
}
