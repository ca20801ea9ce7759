//! `forebay tune status | undo | log` as a user meets them, on a folder of knobs.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use forebay_core::time::{Duration, Instant};
use forebay_live::journal::{FileEntry, Folder, Head, Lock, Record};
use forebay_live::knob::{Change, Identity, Knob, OpenFile, Steering, Terms, Value};
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::tree::Tree;

use crate::support::{Scene, for_everybody, stderr, stdout};

const DISK: DevNumber = DevNumber { major: 7, minor: 0 };

#[test]
fn what_a_killed_one_has_left_is_shown_and_put_back() {
    let mut scene = scene();
    steer_and_die(&scene);
    fs::write(scene.path("sys/class/bdi/7:0/max_ratio_fine"), "500000\n").unwrap();
    scene
        .forebay("tune status --state state --root .")
        .forebay("tune undo --state state --root .")
        .forebay("tune status --state state --root .")
        .forebay("tune undo --state state --root . --json --forget")
        .forebay("tune status --state state --root . --json")
        .matches("tune_undo.txt");
    let stands = |name| fs::read_to_string(scene.path(&format!("sys/class/bdi/7:0/{name}")));
    assert_eq!(stands("read_ahead_kb").unwrap(), "8192\n");
    assert_eq!(stands("max_ratio_fine").unwrap(), "500000\n");
    let log = scene.command("tune log --state state --root .").output().unwrap();
    let sentences: Vec<&str> = stdout(&log).lines().map(|line| &line[20..]).collect();
    assert_eq!(sentences.len(), 6, "{sentences:?}");
    assert!(sentences[0].ends_with("because faults use 4 of 8192 KiB"), "{sentences:?}");
}

#[test]
fn one_that_runs_goes_on_if_only_what_has_ended_is_to_be_undone() {
    let scene = scene();
    steer_and_die(&scene);
    let undo = || {
        let line = "tune undo --state state --root . --if-ended";
        let output = scene.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let stands = fs::read_to_string(scene.path("sys/class/bdi/7:0/read_ahead_kb")).unwrap();
        (stands, stderr(&output).to_owned())
    };
    let lock = Lock::take(&Folder::at(&scene.path("state")).unwrap()).unwrap();
    let (stands, said) = undo();
    assert_ne!(stands, "8192\n", "what runs keeps its changes");
    assert!(said.contains("tunes and goes on; nothing was restored"), "{said}");
    drop(lock);
    assert_eq!(undo(), ("8192\n".to_owned(), String::new()));
}

#[test]
fn the_log_says_what_was_changed_at_a_time_and_what_it_brought() {
    let scene = scene();
    steer_and_die(&scene);
    // 03:07:15 of 2026-11-23.
    let lines = "1795403235 file-set 77/fd3/8:1/12 the readahead window of fd 3 was set\n\
                 1795403236 outcome 8:1/12 big.db: random faults; 31 x the faults/s; kept\n\
                 1795403300 file-gone 77/fd3/8:1/12 it is closed\n";
    fs::write(scene.path("state/log"), lines).unwrap();
    let answer = |arguments: &str| {
        let log = scene.command(&format!("tune log --state state {arguments}")).output().unwrap();
        (log.status.code(), stdout(&log).to_owned())
    };
    let told = "2026-11-23 03:07:15 the readahead window of fd 3 was set\n  \
                2026-11-23 03:07:16 big.db: random faults; 31 x the faults/s; kept\n";
    assert_eq!(answer("--at 3:07"), (Some(0), told.to_owned()));
    let none = "No change at 03:08 (UTC) is on record.\n\
                The record begins at 2026-11-23 03:07:15.\n\
                The last change was at 2026-11-23 03:07:15: the readahead window of fd 3 was set\n";
    assert_eq!(answer("--at 03:08"), (Some(1), none.to_owned()));
    let (code, json) = answer("--at 03:07:15 --json");
    assert_eq!((code, json.lines().count()), (Some(0), 1));
    assert!(json.contains("\"outcome\":{\"at\":1795403236,"), "{json}");
}

#[test]
fn where_nothing_was_ever_changed_nothing_is_made() {
    let mut scene = scene();
    scene
        .forebay("tune status --state none --root .")
        .forebay("tune undo --state none --root .")
        .forebay("tune log --state none --root .")
        .matches("tune_nothing.txt");
    assert!(!scene.path("none").exists());
}

#[test]
fn a_journal_that_cannot_be_trusted_is_refused_and_a_damaged_one_is_used() {
    let mut scene = scene();
    steer_and_die(&scene);
    let state = scene.path("state");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    scene.refused("tune undo --state state --root .");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    let journal = state.join("journal");
    let text = fs::read_to_string(&journal).unwrap();
    let damaged = text.replacen("intent", "intend", 1);
    fs::write(&journal, &damaged).unwrap();
    scene.forebay("tune undo --state state --root .");
    assert_eq!(fs::read_to_string(state.join("journal.damaged-1")).unwrap(), damaged);
    scene.refused("tune undo --dry-run").refused("tune --for 5x").matches("tune_undo_refused.txt");
}

/// The answer was "nothing is changed" and the exit code 0, because a journal without readable
/// lines contains no change. Changes that it had recorded may still be in effect.
#[test]
fn a_journal_that_cannot_be_read_is_never_answered_with_all_is_well() {
    let mut scene = scene();
    steer_and_die(&scene);
    let journal = scene.path("state/journal");
    let text = fs::read_to_string(&journal).unwrap();
    let damaged = [text.replace('=', "-"), "no journal at all".to_owned()];
    for text in &damaged {
        fs::write(&journal, text).unwrap();
        scene
            .forebay("tune status --state state --root .")
            .forebay("tune status --state state --root . --json")
            .forebay("tune undo --state state --root .");
    }
    fs::write(&journal, &damaged[0]).unwrap();
    scene
        .forebay("tune undo --state state --root . --json")
        .forebay("tune status --state state --root .")
        .forebay("tune undo --state state --root .")
        .forebay("tune undo --state state --root . --forget")
        .forebay("tune status --state state --root .");
    fs::remove_file(scene.path("state/log")).unwrap();
    fs::create_dir(scene.path("state/log")).unwrap();
    scene.forebay("tune log --state state").matches("tune_undo_damaged.txt");
}

/// `status` answered "Nothing is changed." for a journal of another version, and a journal of more
/// than 8 MiB had neither a name nor a way out.
#[test]
fn a_journal_that_is_not_understood_is_named_with_a_way_out() {
    let mut scene = scene();
    fs::create_dir(scene.path("state")).unwrap();
    let later = Record::Head(Head { version: 2, boot: "e1276973".to_owned() }).line();
    for text in [later, "x".repeat(9 << 20)] {
        fs::write(scene.path("state/journal"), text).unwrap();
        scene
            .refused("tune status --state state --root .")
            .refused("tune status --state state --root . --json")
            .refused("tune undo --state state --root .");
    }
    scene.matches("tune_undo_unknown.txt");
}

#[test]
fn another_user_is_told_that_status_needs_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skip: forebay tune status without privileges: needs root");
        return;
    }
    let mut scene = scene();
    steer_and_die(&scene);
    let program = for_everybody(&scene);
    for (name, mode) in [("state", 0o755), ("state/journal", 0o600), ("state/log", 0o600)] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(scene.path(name), mode).unwrap();
    }
    for line in ["tune status --state state", "tune log --state state"] {
        let mut command = Command::new(&program);
        command.args(line.split(' ')).env_clear().current_dir(scene.path("."));
        let output = command.uid(65_534).gid(65_534).output().unwrap();
        scene.note(line, &output);
    }
    scene.matches("tune_status_nobody.txt");
}

#[test]
fn many_descriptors_of_one_file_share_a_sentence() {
    let mut scene = scene();
    steer_and_die(&scene);
    let entry = |pid, fd, ino, name: &str| FileEntry {
        file: OpenFile { pid, started: 1, fd, file: FileKey { dev: DISK, ino } },
        bdi: Knob::ReadAheadKb(DISK),
        identity: Identity::of(Knob::ReadAheadKb(DISK), &Tree::recorded(&scene.path(".")).unwrap())
            .unwrap(),
        before_kb: 8_192,
        kb: 16,
        at: 1,
        why: "faults use 4 of 8192 KiB".to_owned(),
        name: name.to_owned(),
    };
    let journal = scene.path("state/journal");
    let mut text = fs::read_to_string(&journal).unwrap();
    // Numbers that no process has: their descriptors are gone.
    let (pid, named) = (u32::MAX >> 1, "/big.db on vda (postgres 9 and 1 more)");
    (3..25).for_each(|fd| text += &Record::File(entry(pid, fd, 12, "")).line());
    (1..3).for_each(|of| text += &Record::File(entry(pid - of, 3, 13, named)).line());
    fs::write(&journal, text).unwrap();
    scene
        .forebay("tune status --state state --root .")
        .forebay("tune undo --state state --root .")
        .matches("tune_undo_many.txt");
    let log = scene.command("tune log --state state --root .").output().unwrap();
    let closed = stdout(&log).lines().filter(|line| line.contains("is closed")).count();
    assert_eq!(closed, 24, "each is on record: {}", stdout(&log));
}

/// Two knobs are changed, and the daemon that has changed them was killed.
fn steer_and_die(scene: &Scene) {
    let tree = Tree::recorded(&scene.path(".")).unwrap();
    let terms = Terms { period: Duration::ZERO, ..Terms::default() };
    let (mut steering, _) = Steering::start(&tree, &scene.path("state"), terms).unwrap();
    let changes = [
        (Knob::ReadAheadKb(DISK), 16, "faults use 4 of 8192 KiB"),
        (Knob::MaxRatioFine(DISK), 7_000, "the disk drains 20 MB/s"),
        (Knob::StrictLimit(DISK), 1, "a share binds only if it is strict"),
    ];
    for (knob, to, why) in changes {
        let change = Change { knob, to: Value::Number(to), why: why.to_owned() };
        steering.set(&change, Instant(0)).unwrap();
    }
    // Its end would put everything back: so a copy of what a kill had left is kept and laid back.
    let state = scene.path("state");
    let journal = fs::read(state.join("journal")).unwrap();
    drop(steering);
    fs::write(state.join("journal"), journal).unwrap();
    for (knob, to, _) in changes {
        let path = knob.path(Value::Number(to));
        fs::write(scene.path(path.trim_start_matches('/')), format!("{to}\n")).unwrap();
    }
    let log = fs::read_to_string(state.join("log")).unwrap();
    let set: String = log.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(state.join("log"), set).unwrap();
}

/// A folder with the knobs of a disk.
fn scene() -> Scene {
    let scene = Scene::new();
    let files = [
        ("sys/class/bdi/7:0/read_ahead_kb", "8192\n"),
        ("sys/class/bdi/7:0/max_ratio_fine", "1000000\n"),
        ("sys/class/bdi/7:0/strict_limit", "0\n"),
        ("sys/dev/block/7:0/uevent", "DEVNAME=loop0\n"),
        ("proc/sys/kernel/random/boot_id", "e1276973\n"),
    ];
    for (path, text) in files {
        let path = scene.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    scene
}
