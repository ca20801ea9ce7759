//! The daemon's loop from begin to end, on a machine that is modelled and by a clock that is set.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use forebay_core::time::{Duration, Instant};
use forebay_live::daemon::{Daemon, Notify};
use forebay_live::knob::{OpenFile, Terms, Value};
use forebay_live::number::DevNumber;
use forebay_live::policy_file::PolicyFile;
use forebay_live::scope::{Named, Scope, Slot};
use forebay_live::tree::Tree;

use crate::model::{DISK, FINE, Model, STRICT, WBT, WINDOW, open_file};
use crate::script::Script;

/// What the daemon said, after it has run and put everything back.
fn run(script: &mut Script, scope: Scope, policy: PolicyFile, dry: bool) -> Vec<String> {
    run_on(Tree::machine(), script, scope, policy, dry)
}

/// The same where processes are those of a tree.
fn run_on(
    tree: Tree,
    script: &mut Script,
    scope: Scope,
    policy: PolicyFile,
    dry: bool,
) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |text: &str| said.push(text.to_owned());
    let model = script.model.clone();
    let (period, wbt) = (Duration::from_millis(900), policy.read_latency > 0);
    let terms = Terms { period, wbt, ..Terms::default() };
    let steering = (!dry).then(|| model.steering_on(terms));
    let mut daemon = Daemon::new(scope, policy, tree, steering, &mut say).unwrap();
    assert!(daemon.run(script, &Notify::default(), None));
    drop(daemon);
    let untouched = Model::new();
    for knob in [WINDOW, STRICT, FINE] {
        assert_eq!(model.stands(knob), untouched.stands(knob), "{knob} is as it was: {said:#?}");
    }
    assert_eq!(model.world().unrecorded, [""; 0], "all was on record before it was written");
    said
}

fn of_disk(only: Option<Slot>) -> Scope {
    Scope::new([Named::Device(DISK)], [], only)
}

#[test]
fn a_fault_storm_is_steered_within_two_seconds_and_put_back_at_the_end() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.at(3, |script| script.faults = Some(open_file(3)));
    script.at(5, |script| {
        assert_eq!(script.window(&open_file(3)), 16, "two seconds after the first fault");
        assert_eq!(script.model.stands(WINDOW), Value::Number(8_192), "the default stays");
    });
    let said = run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
    assert!(script.progress > 20_000, "{} of 3000 a second: {said:#?}", script.progress);
    // Process 77 is a model, but what it is called is asked of this machine.
    assert!(said[0].starts_with("inode 103 of 7:0 on loop0 ("), "{said:#?}");
    let trial = "77): read-ahead 8 MiB -> 16 KiB; random faults; ";
    assert!(said[0].contains(trial), "{said:#?}");
    assert!(said[0].ends_with(" x the faults/s; kept"), "{said:#?}");
    assert_eq!(script.window(&open_file(3)), 8_192, "put back");
    assert_eq!(script.window(&open_file(4)), 8_192, "others were never touched");
}

#[test]
fn a_file_that_is_opened_again_gets_its_window_again() {
    let model = Model::new();
    let mut script = Script::new(&model, 16);
    script.faults = Some(open_file(3));
    script.at(8, |script| {
        let window = script.model.world().windows.insert(open_file(3), 8_192);
        assert_eq!(window, Some(16));
    });
    script.at(11, |script| assert_eq!(script.window(&open_file(3)), 16));
    let said = run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
    let trials = said.iter().filter(|said| said.contains("8 MiB -> 16 KiB")).count();
    assert_eq!(trials, 1, "what was found out still holds: {said:#?}");
}

#[test]
fn a_trial_of_a_file_that_was_closed_has_no_outcome() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.faults = Some(open_file(3));
    let soon = Instant::ZERO + Duration::from_millis(100_600);
    script.acts.push((soon, |script| {
        assert_eq!(script.window(&open_file(3)), 16, "it is under trial");
        script.faults = Some(open_file(4));
    }));
    let said = run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
    let told = |file: &str| said.iter().filter(|said| said.starts_with(file)).count();
    assert_eq!((told("inode 103"), told("inode 104")), (0, 1), "{said:#?}");
    let put_back = said.iter().filter(|said| said.contains("restored")).count();
    assert_eq!(put_back, 1, "{said:#?}");
    assert!(!said.iter().any(|said| said.contains("and another file")), "{said:#?}");
}

#[test]
fn processes_of_one_file_are_one_trial_whether_they_share_a_description_or_not() {
    for shares in [Some(true), Some(false), None] {
        let model = Model::new();
        let mut script = Script::new(&model, 12);
        let partner = OpenFile { pid: 80, ..open_file(3) };
        model.world().windows.insert(partner, 8_192);
        script.faults = Some(open_file(3));
        script.partner = Some((partner, shares));
        script.at(8, |script| {
            let both = script.faults.into_iter().chain(script.partner.map(|(file, _)| file));
            both.for_each(|file| assert_eq!(script.window(&file), 16, "{file}"));
        });
        let only = Slot::parse("readahead");
        let said = run(&mut script, of_disk(only), PolicyFile::default(), false);
        let first = |said: &&String| said.contains("read-ahead 8 MiB -> 16 KiB");
        assert_eq!(said.iter().filter(first).count(), 1, "{shares:?}: {said:#?}");
        let together = |said: &String| said.contains("77 and 1 more)");
        assert!(said.iter().any(together), "{shares:?}: {said:#?}");
        let left = [open_file(3), partner].map(|file| script.window(&file));
        assert_eq!(left, [8_192; 2], "put back");
    }
}

#[test]
fn a_burst_to_a_slow_disk_never_leaves_two_seconds_unwritten() {
    let model = Model::new();
    let mut script = Script::new(&model, 40);
    script.at(2, |script| script.wants = 500_000_000);
    let said = run(&mut script, of_disk(None), PolicyFile::default(), false);
    assert!(script.peak <= 40_000_000, "{}: {said:#?}", script.peak);
    assert_eq!(script.bdi.written, 500_000_000, "and all was written in its time");
}

#[test]
fn writers_that_block_nothing_are_left_alone_although_the_device_was_named() {
    for bursts in [None, Some(0)] {
        let model = Model::new();
        let mut script = Script::new(&model, 20);
        (script.syncs, script.bursts) = (false, bursts);
        script.at(2, |script| script.wants = 500_000_000);
        let said = run(&mut script, of_disk(None), PolicyFile::default(), false);
        assert_eq!(said, [""; 0]);
        assert!(script.peak > 400_000_000, "{}", script.peak);
    }
}

#[test]
fn a_temporary_file_is_left_alone_although_another_process_calls_fsync() {
    for (name, has_limit) in [("/data/tmp1", false), ("/data/copy", true)] {
        let model = Model::new();
        let mut script = Script::new(&model, 6);
        script.bursts = Some(0);
        script.at(2, |script| script.wants = 60_000_000);
        script.written_file = Some(name);
        script.at(3, |script| {
            script.written_file = None;
            (script.bdi.reclaimable, script.bdi.writeback, script.wants) = (0, 0, 0);
        });
        let said = run(&mut script, of_disk(None), PolicyFile::default(), false);
        assert_eq!(!said.is_empty(), has_limit, "{name}: {said:#?}");
        let least = if has_limit { 0 } else { 35_000_000 };
        assert!(script.peak >= least, "{name}: {} of 60 MB without a pause", script.peak);
    }
}

#[test]
fn a_dry_run_says_it_and_writes_nothing() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.faults = Some(open_file(3));
    script.wants = 500_000_000;
    let said = run(&mut script, of_disk(None), PolicyFile::default(), true);
    assert_eq!(model.world().steps, 0, "nothing was written");
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said.iter().all(|said| said.starts_with("would set the ")), "{said:#?}");
}

#[test]
fn a_dry_run_in_which_nothing_happens_ends_with_a_word() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    let said = run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), true);
    assert_eq!(said, ["nothing would have been changed"]);
}

#[test]
fn what_is_not_in_scope_is_not_touched() {
    let other = DevNumber { major: 7, minor: 9 };
    let elsewhere = Scope::new([Named::Device(other)], [], None);
    let protected = Scope::new([], [Named::Device(DISK)], None);
    for scope in [elsewhere, protected] {
        let model = Model::new();
        let mut script = Script::new(&model, 12);
        script.faults = Some(open_file(3));
        script.wants = 500_000_000;
        let said = run(&mut script, scope, PolicyFile::default(), false);
        assert_eq!(said, [""; 0]);
        assert_eq!(script.window(&open_file(3)), 8_192);
    }
}

#[test]
fn a_process_that_ends_in_the_midst_of_a_trial_is_no_trouble() {
    let model = Model::new();
    for exit_ms in (500..4_000).step_by(125) {
        let mut script = Script::new(&model, 8);
        script.faults = Some(open_file(3));
        script.exits = Some(script.now + Duration::from_millis(exit_ms));
        run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
        model.world().windows.insert(open_file(3), 8_192);
    }
}

#[test]
fn a_limit_that_another_program_changed_is_left_alone_for_good() {
    let model = Model::new();
    let mut script = Script::new(&model, 40);
    script.at(3, |script| script.model.write_as_other(FINE, Value::Number(500_000)));
    script.at(5, |script| script.wants = 500_000_000);
    script.at(39, |script| {
        assert_eq!(script.model.stands(FINE), Value::Number(500_000));
        assert_eq!(script.model.stands(STRICT), Value::Number(0), "the other half is restored");
        script.model.write_as_other(FINE, Value::Number(1_000_000));
    });
    let said = run(&mut script, of_disk(Slot::parse("writeback")), PolicyFile::default(), false);
    assert_eq!(said.iter().filter(|said| said.contains("instead of our")).count(), 1, "{said:#?}");
    assert!(script.peak > 400_000_000, "it is not limited any more");
}

#[test]
fn writeback_is_held_back_for_reads_with_a_limit_where_it_is_off_and_asked_for() {
    let policy = |read_latency| PolicyFile { read_latency, ..PolicyFile::default() };
    for (before, asked, during) in [(0, 2_000, 2_000), (0, 0, 0), (75_000, 2_000, 75_000)] {
        let model = Model::new();
        model.write_as_other(WBT, Value::Number(before));
        let mut script = Script::new(&model, 10);
        script.wants = 500_000_000;
        script.at(5, |script| {
            script.seen = Some(script.model.stands(WBT));
            script.why = script.model.reason(WBT);
        });
        let said = run(&mut script, of_disk(Slot::parse("writeback")), policy(asked), false);
        assert_eq!(script.seen, Some(Value::Number(during)), "{before} us, {asked} us asked for");
        let why = ", because it has a limit, and reads are to come first";
        let is_said = |said: &String| said.contains("the read latency") && said.ends_with(why);
        let is_set = (before, asked) == (0, 2_000);
        assert_eq!(said.iter().any(is_said), is_set, "a reason of its own: {said:#?}");
        let reason = script.why.take();
        assert_eq!(reason.is_some_and(|reason| why.ends_with(&reason)), is_set);
        assert_eq!(model.stands(WBT), Value::Number(before), "it is restored");
    }
}

#[test]
fn bursts_that_bring_no_limit_do_not_keep_the_daemon_awake() {
    for dry in [false, true] {
        let model = Model::new();
        let mut script = Script::new(&model, 10);
        script.bursts = Some(0);
        script.wants = if dry { 500_000_000 } else { 0 };
        run(&mut script, of_disk(Slot::parse("writeback")), PolicyFile::default(), dry);
        let most = if dry { 16 } else { 1_600 };
        assert!(script.bursts.unwrap() <= most, "{:?} looks, dry: {dry}", script.bursts);
    }
}

#[test]
fn limits_of_a_machine_with_other_pages_are_left_alone() {
    let model = Model::new();
    let mut script = Script::new(&model, 10);
    (script.wants, script.page_size) = (500_000_000, 65_536);
    let said = run(&mut script, of_disk(None), PolicyFile::default(), false);
    assert_eq!(said, [""; 0]);
}

#[test]
fn another_medium_begins_without_the_limit_of_the_last_one() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.at(5, |script| {
        script.model.world().numbers.insert(format!("/sys/dev/block/{DISK}/diskseq"), 10);
    });
    let said = run(&mut script, of_disk(Slot::parse("writeback")), PolicyFile::default(), false);
    let set = said.iter().filter(|said| said.starts_with("set the dirty limit")).count();
    assert_eq!(set, 2, "{said:#?}");
    assert!(said.iter().any(|said| said.contains("another medium")), "{said:#?}");
}

#[test]
fn a_mapping_without_descriptor_is_said_once_and_changes_defaults_only_if_allowed() {
    for device_default in [false, true] {
        let model = Model::new();
        let mut script = Script::new(&model, 12);
        script.faults = Some(open_file(3));
        script.closed = true;
        script.at(
            11,
            if device_default {
                |script| assert_eq!(script.model.stands(WINDOW), Value::Number(128))
            } else {
                |script| assert_eq!(script.model.stands(WINDOW), Value::Number(8_192))
            },
        );
        let policy = PolicyFile { device_default, ..PolicyFile::default() };
        let said = run(&mut script, of_disk(Slot::parse("readahead")), policy, false);
        let closed = said.iter().filter(|said| said.contains("descriptor closed")).count();
        assert_eq!(closed, 1, "{said:#?}");
        let recommends = said.iter().any(|said| said.contains("`device_default = true`"));
        assert_eq!(recommends, !device_default, "not where it is on already: {said:#?}");
    }
}

#[test]
fn a_default_is_not_changed_for_a_process_that_was_singled_out() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.faults = Some(open_file(3));
    script.closed = true;
    script.at(11, |script| assert_eq!(script.model.stands(WINDOW), Value::Number(8_192)));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("proc/77")).unwrap();
    let stat = format!("77 (reader) S 1{} 5 0\n", " 0".repeat(17));
    std::fs::write(folder.path().join("proc/77/stat"), stat).unwrap();
    let named = Named::Process { pid: 77, started: 5 };
    let scope = Scope::new([named], [], Slot::parse("readahead"));
    let policy = PolicyFile { device_default: true, ..PolicyFile::default() };
    let tree = Tree::recorded(folder.path()).unwrap();
    let said = run_on(tree, &mut script, scope, policy, false);
    assert_eq!(said.len(), 1, "it was seen, and said: {said:#?}");
}

#[test]
fn a_journal_without_room_stops_changes_and_not_the_daemon() {
    let model = Model::new();
    let mut script = Script::new(&model, 20);
    script.at(2, |script| {
        script.model.world().room = Some(0);
        script.faults = Some(open_file(3));
    });
    let scope = of_disk(Slot::parse("readahead"));
    let said = run(&mut script, scope, PolicyFile::default(), false);
    assert!(said.iter().any(|said| said.contains("journal")), "{said:#?}");
    assert_eq!(script.window(&open_file(3)), 8_192);
}

#[test]
fn a_daemon_whose_looks_take_longer_than_its_interval_still_ends() {
    let model = Model::new();
    let mut script = Script::new(&model, 20);
    script.slow = Duration::from_secs(2);
    let said = run(&mut script, Scope::default(), PolicyFile::default(), false);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn where_nothing_happens_it_looks_less_often_and_an_event_wakes_it() {
    let model = Model::new();
    let mut script = Script::new(&model, 230);
    script.at(200, |script| script.faults = Some(open_file(3)));
    script.at(202, |script| {
        assert_eq!(script.window(&open_file(3)), 16, "two seconds after the first fault");
        assert!(script.looks < 20 + 50 + 30, "{} looks of an idle machine", script.looks);
    });
    run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
}

#[test]
fn while_a_knob_is_ours_it_is_looked_at_every_second() {
    let model = Model::new();
    let mut script = Script::new(&model, 130);
    // A limit that is set from the start, because no event would wake us.
    script.at(100, |script| script.model.write_as_other(FINE, Value::Number(500_000)));
    script.at(102, |script| {
        assert_eq!(script.model.stands(STRICT), Value::Number(0), "it was let go");
        script.model.write_as_other(FINE, Value::Number(1_000_000));
    });
    run(&mut script, of_disk(Slot::parse("writeback")), PolicyFile::default(), false);
}

#[test]
fn a_disk_that_writes_nothing_is_not_asked_each_time() {
    let model = Model::new();
    let mut script = Script::new(&model, 60);
    script.at(50, |script| {
        assert!(script.bdi_looks <= script.looks / 5, "{} of {}", script.bdi_looks, script.looks);
        assert!(script.disk_looks <= script.looks / 5, "{} too", script.disk_looks);
        script.wants = 500_000_000;
    });
    run(&mut script, of_disk(None), PolicyFile::default(), false);
    assert!(script.peak <= 40_000_000, "a burst is seen all the same: {}", script.peak);
}

#[test]
fn a_number_that_is_another_process_s_by_now_begins_anew() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    script.faults = Some(open_file(3));
    script.at(5, |script| {
        assert_eq!(script.window(&open_file(3)), 16);
        script.started += 1;
        script.model.world().windows.insert(open_file(3), 8_192);
    });
    script.at(9, |script| assert_eq!(script.window(&open_file(3)), 16, "it is steered again"));
    run(&mut script, of_disk(Slot::parse("readahead")), PolicyFile::default(), false);
}

#[test]
fn a_default_is_not_changed_while_a_process_is_protected() {
    let model = Model::new();
    let mut script = Script::new(&model, 12);
    (script.faults, script.closed) = (Some(open_file(3)), true);
    script.at(11, |script| assert_eq!(script.model.stands(WINDOW), Value::Number(8_192)));
    let protected = Named::Process { pid: u32::MAX, started: 0 };
    let scope = Scope::new([Named::Device(DISK)], [protected], Slot::parse("readahead"));
    let policy = PolicyFile { device_default: true, ..PolicyFile::default() };
    let said = run(&mut script, scope, policy, false);
    assert!(said.iter().any(|said| said.contains("is protected")), "{said:#?}");
}
