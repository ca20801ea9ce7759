//! What steering promises, knob by knob.

use forebay_core::time::{Duration, Instant};
use forebay_live::knob::{
    Brief, Change, Event, Kernel, Knob, Refused, Steering, Terms, Value, WindowOf,
};

use crate::model::{DISK, FINE, Model, SHARE, STRICT, WINDOW, open_file};

#[test]
fn a_change_says_what_was_what_was_asked_and_what_came_of_it() {
    let model = Model::new();
    let mut steering = model.steering();
    let applied = set(&mut steering, WINDOW, 130).unwrap();
    let all = (applied.before, applied.asked, applied.read_back);
    assert_eq!(all, (Value::Number(8192), Value::Number(130), Value::Number(128)));
    assert_eq!(model.stands(WINDOW), Value::Number(128));
}

#[test]
fn what_is_on_request_or_out_of_bounds_is_refused_untouched() {
    let model = Model::new();
    let mut steering = model.steering_on(Terms::default());
    for (knob, to) in [(Knob::DirtyExpire, 500), (Knob::WbtLatUsec(DISK), 0)] {
        assert!(matches!(set(&mut steering, knob, to), Err(Refused::NotAsked(_))));
    }
    let error = set(&mut steering, WINDOW, 0).unwrap_err().to_string();
    assert_eq!(error, "7:0/read_ahead_kb: 0 KiB is not between 16 KiB and 32768 KiB");
    // 1000 parts per million of a limit of 4 GB.
    let error = set(&mut steering, FINE, 1000).unwrap_err().to_string();
    assert!(error.contains("is less than 4194304"), "{error}");
    assert!(matches!(set(&mut steering, Knob::MaxRatio(DISK), 5), Err(Refused::Coarse(_))));
    assert!(steering.state().entries.is_empty());
}

#[test]
fn a_knob_moves_once_a_period() {
    let model = Model::new();
    let terms = Terms { period: Duration::from_secs(3), ..Terms::default() };
    let mut steering = model.steering_on(terms);
    let mut at = |second, kb| {
        let change = Change { knob: WINDOW, to: Value::Number(kb), why: String::new() };
        steering.set(&change, Instant::ZERO + Duration::from_secs(second)).map(|_| ())
    };
    at(1, 128).unwrap();
    assert!(matches!(at(3, 64), Err(Refused::TooSoon(_))));
    at(4, 64).unwrap();
}

#[test]
fn a_full_disk_refuses_the_change_and_the_kernel_is_not_written() {
    let model = Model::new();
    let mut steering = model.steering();
    let room = model.world().journal.as_ref().map_or(0, Vec::len) + 20;
    model.world().room = Some(room);
    let error = set(&mut steering, WINDOW, 128).unwrap_err();
    assert!(matches!(error, Refused::Journal { .. }), "{error}");
    assert_eq!(model.stands(WINDOW), Value::Number(8192));
    model.world().room = None;
    set(&mut steering, WINDOW, 128).unwrap();
}

#[test]
fn a_disk_that_fills_up_later_does_not_hold_the_undo_up() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, WINDOW, 128).unwrap();
    set(&mut steering, STRICT, 1).unwrap();
    model.world().room = Some(0);
    let events = steering.finish("the test ends");
    assert!(events.iter().all(|event| matches!(event, Event::Restored { .. })), "{events:?}");
    assert_eq!(model.stands(WINDOW), Value::Number(8192));
    assert_eq!(model.world().journal, None);
}

#[test]
fn a_kernel_that_refuses_is_left_as_it_was() {
    let errors = [(30, "Read-only"), (13, "denied"), (22, "Invalid"), (2, "No such file")];
    for (errno, said) in errors {
        let model = Model::new();
        let mut steering = model.steering();
        model.world().refuses.insert(WINDOW.path(Value::Number(0)), errno);
        let error = set(&mut steering, WINDOW, 128).unwrap_err().to_string();
        assert!(error.starts_with("/sys/class/bdi/7:0/read_ahead_kb: "), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(steering.state().entries.is_empty());
    }
}

#[test]
fn a_knob_that_cannot_be_put_back_stays_on_record_until_it_can() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, WINDOW, 128).unwrap();
    model.world().refuses.insert(WINDOW.path(Value::Number(0)), 30);
    let event = steering.finish("the test ends").remove(0);
    assert!(event.is_failure());
    let said = "the readahead window (read_ahead_kb) of loop0 (7:0) could not be restored to \
                8192 KiB: /sys/class/bdi/7:0/read_ahead_kb: Read-only file system (os error 30)";
    assert_eq!(event.to_string(), said);
    model.world().refuses.clear();
    let event = steering.finish("the test ends").remove(0);
    assert!(matches!(event, Event::Restored { .. }));
}

#[test]
fn what_another_program_writes_is_released_for_good() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, WINDOW, 64).unwrap();
    model.write_as_other(WINDOW, Value::Number(300));
    let event = steering.watch_foreign().remove(0);
    let said = "the readahead window (read_ahead_kb) of loop0 (7:0) is 300 KiB, written by \
                another program, instead of our 64 KiB; it is left alone from now on";
    assert_eq!(event.to_string(), said);
    assert!(matches!(set(&mut steering, WINDOW, 64), Err(Refused::Released(_))));
    drop(steering);
    assert_eq!(model.stands(WINDOW), Value::Number(300));
    let mut next = model.steering();
    assert!(matches!(set(&mut next, WINDOW, 64), Err(Refused::Released(_))));
}

#[test]
fn another_writer_is_noticed_before_a_change_too() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, FINE, 7000).unwrap();
    model.write_as_other(FINE, Value::Number(50_000));
    assert!(matches!(set(&mut steering, FINE, 8000), Err(Refused::Foreign(_))));
    assert_eq!(model.stands(FINE), Value::Number(50_000));
}

#[test]
fn what_the_kernel_resets_is_set_again_once() {
    // Twice the largest request of the model's disk.
    let reset = Value::Number(4096);
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, WINDOW, 64).unwrap();
    let request = format!("/sys/dev/block/{DISK}/queue/max_sectors_kb");
    model.world().numbers.insert(request, 2048);
    model.write_as_other(WINDOW, reset);
    assert!(matches!(steering.watch_foreign()[..], [Event::Reasserted { .. }]));
    assert_eq!(model.stands(WINDOW), Value::Number(64));
    model.write_as_other(WINDOW, reset);
    assert!(matches!(steering.watch_foreign()[..], [Event::Foreign { .. }]));
    assert_eq!(model.stands(WINDOW), reset);
}

#[test]
fn the_kernels_usual_window_is_anothers_choice_while_the_queue_is_as_it_was() {
    for usual in [128, 8192] {
        let model = Model::new();
        let mut steering = model.steering();
        set(&mut steering, WINDOW, 64).unwrap();
        model.write_as_other(WINDOW, Value::Number(usual));
        assert!(matches!(steering.watch_foreign()[..], [Event::Foreign { .. }]));
        assert_eq!(model.stands(WINDOW), Value::Number(usual));
    }
}

#[test]
fn another_device_under_the_same_number_is_not_touched() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, STRICT, 1).unwrap();
    set(&mut steering, Knob::ReadAheadKb(SHARE), 4096).unwrap();
    model.world().nodes.insert(format!("/sys/class/bdi/{DISK}"), 6991);
    model.world().nodes.remove(&format!("/sys/class/bdi/{SHARE}"));
    let events = steering.finish("the test ends");
    let said: Vec<String> = events.iter().map(ToString::to_string).collect();
    let gone = [
        "whether the share of the dirty limit always binds (strict_limit) of loop0 (7:0) is gone \
         with its device; there is nothing to restore",
        "the readahead window (read_ahead_kb) of server:/home (0:45) is gone with its device; \
         there is nothing to restore",
    ];
    assert_eq!(said, gone);
    assert_eq!(model.stands(STRICT), Value::Number(1));
}

#[test]
fn what_others_depend_on_goes_back_first_and_the_window_last() {
    let model = Model::new();
    let mut steering = model.steering();
    let knobs = [
        (WINDOW, Value::Number(64)),
        (Knob::DirtyBackground, Value::Bytes(32 << 20)),
        (STRICT, Value::Number(1)),
        (Knob::DirtyLimit, Value::Bytes(64 << 20)),
        (FINE, Value::Number(100_000)),
        (Knob::WbtLatUsec(DISK), Value::Number(0)),
    ];
    for (knob, to) in knobs {
        steering.set(&Change { knob, to, why: String::new() }, Instant(0)).unwrap();
    }
    model.world().written.clear();
    drop(steering);
    let order = [
        "wbt_lat_usec",
        "max_ratio_fine",
        "strict_limit",
        "dirty_ratio",
        "dirty_background_ratio",
        "read_ahead_kb",
    ];
    assert_eq!(model.world().written, order);
}

#[test]
fn another_medium_has_the_value_that_was_there_before() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, STRICT, 1).unwrap();
    model.world().numbers.insert(format!("/sys/dev/block/{DISK}/diskseq"), 10);
    let said = steering.watch_foreign().remove(0).to_string();
    assert!(said.ends_with("from 1 to 0, because another medium is in the device"), "{said}");
    set(&mut steering, STRICT, 1).unwrap();
}

#[test]
fn a_limit_below_what_is_dirty_is_refused() {
    let model = Model::new();
    let levels = "nr_dirty 10000\nnr_writeback 10000\nnr_dirty_threshold 1000000\n";
    model.world().texts.insert("/proc/vmstat".to_owned(), levels.to_owned());
    let mut steering = model.steering();
    let mut limit = |mebibytes: u64| {
        let to = Value::Bytes(mebibytes << 20);
        let change = Change { knob: Knob::DirtyLimit, to, why: String::new() };
        steering.set(&change, Instant(0)).map_err(|refused| refused.to_string())
    };
    let said = limit(64).unwrap_err();
    assert!(said.contains("would stop every writer while 81920000 bytes are unwritten"), "{said}");
    limit(256).unwrap();
}

#[test]
fn a_moment_that_could_not_end_is_ended_at_the_next_look() {
    let model = Model::new();
    let mut steering = model.steering();
    set(&mut steering, WINDOW, 512).unwrap();
    let brief = Brief { bdi: DISK, kb: 16, why: "a test".to_owned(), name: String::new() };
    let refuse = |errno: Option<i32>| {
        let path = WINDOW.path(Value::Number(0));
        match errno {
            Some(errno) => model.world().refuses.insert(path, errno),
            None => model.world().refuses.remove(&path),
        };
    };
    steering.with_window(&brief, &[], |_| refuse(Some(5))).unwrap();
    assert_eq!(model.stands(WINDOW), Value::Number(16));
    refuse(None);
    assert_eq!(steering.watch_foreign(), []);
    assert_eq!(model.stands(WINDOW), Value::Number(512));
    drop(steering);
    assert_eq!(model.stands(WINDOW), Value::Number(8192));
}

#[test]
fn a_borrowed_window_leaves_what_another_program_writes_meanwhile() {
    let model = Model::new();
    let mut steering = model.steering();
    let brief = Brief { bdi: DISK, kb: 16, why: "a test".to_owned(), name: String::new() };
    let other = |_: &dyn Kernel| model.write_as_other(WINDOW, Value::Number(300));
    steering.with_window(&brief, &[], other).unwrap();
    drop(steering);
    assert_eq!(model.stands(WINDOW), Value::Number(300));
}

#[test]
fn a_file_that_cannot_be_told_keeps_its_entry_only_if_it_was_told_before() {
    let model = Model::new();
    let mut steering = model.steering();
    let window = |kb| Brief { bdi: DISK, kb, why: "a test".to_owned(), name: String::new() };
    let of = |fd| WindowOf { file: open_file(fd), before_kb: 8192 };
    let told = steering.set_windows(&window(16), &[of(3), of(9)]).unwrap();
    assert!(told[0].is_ok() && told[1].is_err());
    assert_eq!(steering.state().files.len(), 1);
    model.world().refuses.insert(WINDOW.path(Value::Number(0)), 30);
    assert!(steering.set_windows(&window(64), &[of(3), of(4)]).is_err());
    let kept: Vec<u64> = steering.state().files.values().map(|entry| entry.kb).collect();
    assert_eq!(kept, [16]);
    model.world().refuses.clear();
    let event = steering.restore_file(&open_file(3)).unwrap();
    assert!(matches!(event, Event::FileRestored { to_kb: 8192, .. }), "{event}");
    assert_eq!(model.world().windows[&open_file(3)], 8192);
}

#[test]
fn a_window_out_of_bounds_is_given_back_to_its_owner() {
    for before_kb in [8, 65_536] {
        let model = Model::new();
        model.world().windows.insert(open_file(3), before_kb);
        let mut steering = model.steering();
        let window = |kb| Brief { bdi: DISK, kb, why: "a test".to_owned(), name: String::new() };
        let of = |fd| WindowOf { file: open_file(fd), before_kb };
        let refused = steering.set_windows(&window(before_kb), &[of(3)]).unwrap_err();
        assert!(matches!(refused, Refused::Unfit { .. }), "{refused}");
        steering.set_windows(&window(64), &[of(3)]).unwrap();
        let others = steering.set_windows(&window(before_kb), &[of(3), of(4)]);
        assert!(matches!(others, Err(Refused::Unfit { .. })));
        steering.set_windows(&window(before_kb), &[of(3)]).unwrap();
        assert_eq!(model.world().windows[&open_file(3)], before_kb);
        assert_eq!(steering.state().open(), 0);
    }
}

#[test]
fn descriptions_are_held_before_the_window_is_borrowed() {
    let model = Model::new();
    let mut steering = model.steering();
    let brief = Brief { bdi: DISK, kb: 16, why: "a test".to_owned(), name: String::new() };
    let files = [3, 4].map(|fd| WindowOf { file: open_file(fd), before_kb: 4096 });
    steering.set_windows(&brief, &files).unwrap();
    drop(steering);
    assert_eq!(model.world().held_under, [8192; 4]);
}

#[test]
fn a_disk_that_fills_up_later_does_not_hold_files_up() {
    let model = Model::new();
    let mut steering = model.steering();
    let window = |kb| Brief { bdi: DISK, kb, why: "a test".to_owned(), name: String::new() };
    let files = [3, 4].map(|fd| WindowOf { file: open_file(fd), before_kb: 4096 });
    steering.set_windows(&window(16), &files).unwrap();
    model.world().room = Some(0);
    assert!(matches!(steering.set_windows(&window(64), &files), Err(Refused::Journal { .. })));
    steering.set_windows(&window(4096), &files[..1]).unwrap();
    let events = steering.finish("the test ends");
    assert!(matches!(events[..], [Event::FileRestored { to_kb: 4096, .. }]), "{events:?}");
    for of in files {
        assert_eq!(model.world().windows[&of.file], 4096);
    }
    assert_eq!(model.stands(WINDOW), Value::Number(8192));
    assert_eq!(model.world().journal, None);
}

#[test]
fn a_ratio_of_zero_is_had_again() {
    let model = Model::new();
    model.write_as_other(Knob::DirtyLimit, Value::Bytes(1 << 30));
    model.write_as_other(Knob::DirtyLimit, Value::Ratio(1));
    model.write_as_other(Knob::DirtyLimit, Value::Ratio(0));
    let mut steering = model.steering();
    let change = Change { knob: Knob::DirtyLimit, to: Value::Bytes(1 << 28), why: String::new() };
    steering.set(&change, Instant(0)).unwrap();
    drop(steering);
    assert_eq!(model.stands(Knob::DirtyLimit), Value::Ratio(0));
}

fn set(
    steering: &mut Steering,
    knob: Knob,
    to: u64,
) -> Result<forebay_live::knob::Applied, Refused> {
    steering.set(&Change { knob, to: Value::Number(to), why: "a test".to_owned() }, Instant(0))
}
