//! A kill at any step, and one more at any step of the undo: no knob is left changed.

use forebay_core::time::Instant;
use forebay_live::knob::{Brief, Change, Knob, Steering, Value, WindowOf};
use forebay_live::undo::undo;

use crate::model::{DISK, Death, FINE, Model, SHARE, STRICT, WINDOW, World, open_file};

#[test]
fn nothing_is_left_changed_after_a_kill_at_any_step() {
    let mut points = 0;
    for power_was_lost in [false, true] {
        for torn in [0, 1, 40, usize::MAX] {
            let mut step = 0;
            loop {
                let (before, model) = (machine(), machine());
                model.world().dies = Some(Death { step, torn });
                run(&model);
                let has_ended = !model.world().is_dead;
                if has_ended {
                    break;
                }
                model.revive(power_was_lost);
                take_back(&model);
                assert_as_before(&before, &model, &format!("killed at {step}, torn {torn}"));
                points += 1;
                step += 1;
            }
            assert!(step > 60, "the run has only {step} steps");
        }
    }
    eprintln!("{points} points");
    assert!(points >= 500);
}

#[test]
fn an_undo_that_is_killed_at_any_step_is_finished_by_the_next() {
    let mut points = 0;
    // Where the most is changed.
    let steps = steps_of(run_without_end);
    for step in (10..steps).step_by(7).chain([steps]) {
        let mut more = 0;
        loop {
            let (before, model) = (machine(), machine());
            model.world().dies = Some(Death { step, torn: 40 });
            run_without_end(&model);
            model.revive(false);
            let from = model.world().steps;
            model.world().dies = Some(Death { step: from + more, torn: 40 });
            take_back(&model);
            let has_ended = !model.world().is_dead;
            model.revive(true);
            take_back(&model);
            assert_as_before(&before, &model, &format!("killed at {step}, then {more} later"));
            points += 1;
            more += 1;
            if has_ended {
                break;
            }
        }
    }
    eprintln!("{points} points");
    assert!(points >= 100);
}

#[test]
fn a_steering_that_is_dropped_leaves_nothing() {
    let (before, model) = (machine(), machine());
    let mut steering = model.steering();
    change(&mut steering);
    drop(steering);
    assert_as_before(&before, &model, "dropped");
    assert_eq!(model.world().journal, None);
}

/// The limit is a ratio of zero, the hardest to have again.
fn machine() -> Model {
    let model = Model::new();
    model.write_as_other(Knob::DirtyLimit, Value::Ratio(0));
    model
}

/// Everything that is ever done, up to the end of the steering.
fn run(model: &Model) {
    let Some(mut steering) = started(model) else { return };
    change(&mut steering);
}

/// The same without an end: what a kill leaves.
fn run_without_end(model: &Model) {
    let Some(mut steering) = started(model) else { return };
    change(&mut steering);
    // Dropping it has no effect on a machine that is dead.
    model.world().is_dead = true;
}

fn started(model: &Model) -> Option<Steering> {
    let period = forebay_core::time::Duration::ZERO;
    let terms = forebay_live::knob::Terms { period, machine: true, wbt: true };
    Steering::on(Box::new(model.clone()), model.opened().0, terms).ok().map(|begun| begun.0)
}

/// Each kind of change at least once. What fails after a kill fails like everything else.
fn change(steering: &mut Steering) {
    let set = |steering: &mut Steering, knob, to| {
        let _ = steering.set(&Change { knob, to, why: "a test".to_owned() }, Instant(0));
    };
    let mebi = |n: u64| Value::Bytes(n << 20);
    set(steering, WINDOW, Value::Number(512));
    windows(steering, 16, &[3, 4]);
    set(steering, FINE, Value::Number(7000));
    set(steering, STRICT, Value::Number(1));
    set(steering, Knob::DirtyBackground, mebi(64));
    set(steering, Knob::DirtyLimit, mebi(128));
    set(steering, Knob::DirtyLimit, Value::Ratio(5));
    set(steering, Knob::DirtyExpire, Value::Number(500));
    set(steering, WINDOW, Value::Number(2048));
    windows(steering, 4096, &[5, 3]);
    set(steering, Knob::WbtLatUsec(DISK), Value::Number(0));
    steering.restore(FINE, "it did not help");
    set(steering, FINE, Value::Number(9000));
    set(steering, Knob::ReadAheadKb(SHARE), Value::Number(4096));
    steering.restore_file(&open_file(4));
    steering.watch_foreign();
    set(steering, Knob::DirtyLimit, mebi(256));
}

fn windows(steering: &mut Steering, kb: u64, fds: &[u32]) {
    let files: Vec<WindowOf> =
        fds.iter().map(|fd| WindowOf { file: open_file(*fd), before_kb: 8192 }).collect();
    let _ = steering.set_windows(
        &Brief { bdi: DISK, kb, why: "a test".to_owned(), name: String::new() },
        &files,
    );
}

fn take_back(model: &Model) {
    let (mut journal, _) = model.opened();
    undo(model, &mut journal, "a test ends");
}

fn steps_of(run: impl Fn(&Model)) -> u64 {
    let model = machine();
    run(&model);
    model.world().steps
}

/// All knobs and windows are what they were, and each write was on record before.
fn assert_as_before(before: &Model, after: &Model, when: &str) {
    let what = |world: &World| (world.numbers.clone(), world.windows.clone());
    assert_eq!(what(&after.world()), what(&before.world()), "{when}");
    assert_eq!(after.world().unrecorded, [""; 0], "{when}");
}
