//! What a journal promises, in a folder of this machine.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::knob::Value;
use crate::number::DevNumber;

const STRICT: Knob = Knob::StrictLimit(DevNumber { major: 7, minor: 0 });

#[test]
fn what_was_promised_is_read_by_the_next() {
    let place = TempDir::new().unwrap();
    let (mut journal, notes) = open(&place, "boot");
    assert_eq!(notes, []);
    journal.promise(Record::Intent(entry(STRICT))).unwrap();
    journal.promise(Record::Intent(entry(Knob::DirtyLimit))).unwrap();
    journal.tell(Record::Closed(Knob::DirtyLimit));
    let (next, notes) = open(&place, "boot");
    assert_eq!((next.state(), notes), (journal.state(), Vec::new()));
    assert_eq!(next.state().open(), 1);
}

#[test]
fn nothing_is_made_before_there_is_something_to_say() {
    let place = TempDir::new().unwrap();
    let (mut journal, _) = open(&place, "boot");
    assert!(!place.path().join("journal").exists());
    journal.promise(Record::Intent(entry(STRICT))).unwrap();
    journal.tell(Record::Closed(STRICT));
    journal.settle();
    assert!(!place.path().join("journal").exists());
}

#[test]
fn after_a_restart_of_the_machine_nothing_is_replayed() {
    let place = TempDir::new().unwrap();
    open(&place, "boot").0.promise(Record::Intent(entry(STRICT))).unwrap();
    let (journal, notes) = open(&place, "another");
    assert_eq!(notes, [Note::OtherBoot { open: 1 }]);
    assert_eq!(journal.state().open(), 0);
    assert_eq!(open(&place, "another").1, []);
}

#[test]
fn half_a_record_at_the_end_counts_as_never_written() {
    let place = TempDir::new().unwrap();
    open(&place, "boot").0.promise(Record::Intent(entry(STRICT))).unwrap();
    let file = place.path().join("journal");
    let whole = fs::read(&file).unwrap();
    let next = Record::Intent(entry(Knob::DirtyLimit)).line();
    for end in (1..next.len()).step_by(19) {
        fs::write(&file, [&whole, next.as_bytes().get(..end).unwrap()].concat()).unwrap();
        let (mut journal, notes) = open(&place, "boot");
        assert_eq!((journal.state().open(), notes), (1, Vec::new()), "{end}");
        journal.promise(Record::Intent(entry(Knob::DirtyExpire))).unwrap();
        assert_eq!(open(&place, "boot").0.state().open(), 2, "{end}");
    }
}

#[test]
fn a_damaged_line_costs_nothing_that_another_line_says_too() {
    let place = TempDir::new().unwrap();
    let (mut journal, _) = open(&place, "boot");
    for knob in [STRICT, Knob::DirtyLimit] {
        journal.promise(Record::Intent(entry(knob))).unwrap();
        journal.tell(Record::Done(Entry { last: Value::Number(1), asked: None, ..entry(knob) }));
    }
    let file = place.path().join("journal");
    let whole = fs::read_to_string(&file).unwrap();
    // The header, an intent, its end; each of them alone.
    for damaged in 1..=5 {
        let bad: Vec<String> = whole.lines().map(str::to_owned).collect();
        let text: String = bad
            .iter()
            .enumerate()
            .map(|(at, line)| {
                if at + 1 == damaged { line.replace('=', "-") + "\n" } else { line.clone() + "\n" }
            })
            .collect();
        fs::write(&file, &text).unwrap();
        let (journal, notes) = open(&place, "boot");
        let kept = place.path().join(format!("journal.damaged-{damaged}"));
        let shown = kept.display().to_string();
        assert_eq!(notes, [Note::Damaged { lines: vec![damaged], kept: shown }]);
        assert_eq!(journal.state().open(), 2, "{damaged}");
        assert_eq!(fs::read_to_string(kept).unwrap(), text);
        assert_eq!(open(&place, "boot").1, [], "it was repaired");
    }
}

#[test]
fn any_bytes_are_a_journal_or_damage() {
    let place = TempDir::new().unwrap();
    let head = b"00000000 forebay-journal version=1\n";
    for bytes in [&b"\n"[..], b"\0\xff\n\n", b"text\n", head, b"text", b"\0", b"00000000 text"] {
        fs::write(place.path().join("journal"), bytes).unwrap();
        let (journal, notes) = open(&place, "boot");
        assert!(matches!(notes[..], [Note::Damaged { .. }]), "{bytes:?}: {notes:?}");
        assert_eq!(journal.state(), &State::default());
    }
    fs::write(place.path().join("journal"), vec![b'x'; 9 << 20]).unwrap();
    let opened = Journal::open(Box::new(Folder::at(place.path()).unwrap()), "boot");
    let said = opened.err().unwrap().to_string();
    assert_eq!(said, "cannot read the journal: it has more than 8 MiB");
}

#[test]
fn half_a_head_is_no_damage() {
    let place = TempDir::new().unwrap();
    let head = Record::Head(Head { version: VERSION, boot: "boot".to_owned() }).line();
    for end in 1..head.len() {
        fs::write(place.path().join("journal"), &head.as_bytes()[..end]).unwrap();
        assert_eq!(open(&place, "boot").1, [], "{end}");
    }
}

#[test]
fn damage_of_an_earlier_boot_hides_nothing() {
    let place = TempDir::new().unwrap();
    open(&place, "boot").0.promise(Record::Intent(entry(STRICT))).unwrap();
    let file = place.path().join("journal");
    let damaged = fs::read_to_string(&file).unwrap() + "text\n";
    fs::write(&file, damaged).unwrap();
    let (_, notes) = open(&place, "another");
    assert_eq!(notes, [Note::OtherBoot { open: 1 }]);
    assert_eq!(notes.iter().map(Note::damaged).sum::<usize>(), 0);
}

#[test]
fn a_later_format_is_not_touched() {
    let place = TempDir::new().unwrap();
    let line = Record::Head(Head { version: 2, boot: "boot".to_owned() }).line();
    fs::write(place.path().join("journal"), &line).unwrap();
    let opened = Journal::open(Box::new(Folder::at(place.path()).unwrap()), "boot");
    let said = opened.err().unwrap().to_string();
    assert_eq!(said, "the journal has format 2, and this forebay knows 1");
    assert_eq!(fs::read_to_string(place.path().join("journal")).unwrap(), line);
}

#[test]
fn a_long_journal_shrinks_to_what_is_open() {
    let place = TempDir::new().unwrap();
    let (mut journal, _) = open(&place, "boot");
    let long = Entry { why: "w".repeat(1_000), ..entry(STRICT) };
    for _ in 0..2 * JOURNAL_MAX / 1_000 {
        journal.tell(Record::Intent(long.clone()));
    }
    assert!(fs::metadata(place.path().join("journal")).unwrap().len() <= JOURNAL_MAX as u64);
    assert_eq!(open(&place, "boot").0.state().open(), 1);
}

#[test]
fn a_journal_that_is_full_of_open_changes_promises_no_more() {
    let place = TempDir::new().unwrap();
    let (mut journal, _) = open(&place, "boot");
    let error = (0..).find_map(|minor| {
        let knob = Knob::StrictLimit(DevNumber { major: 0, minor });
        let long = Entry { why: "w".repeat(10_000), ..entry(knob) };
        journal.promise(Record::Intent(long)).err()
    });
    assert_eq!(error.unwrap().to_string(), "the journal is full of open changes");
    assert_eq!(open(&place, "boot").0.state(), journal.state());
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let place = TempDir::new().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Folder::at(place.path()), Err(FolderError::Unsafe { .. })));
    assert!(matches!(Folder::made(place.path()), Err(FolderError::Unsafe { .. })));
}

#[test]
fn other_users_see_who_tunes_and_not_what_was_changed() {
    let place = TempDir::new().unwrap();
    let folder = Folder::at(place.path()).unwrap();
    let _lock = Lock::take(&folder).unwrap();
    History::of(&folder).add_outcome("8:1/12", "/home/user/secret.db: kept");
    let mode = |name| fs::metadata(place.path().join(name)).unwrap().mode() & 0o777;
    let (mut journal, _) = open(&place, "boot");
    journal.promise(Record::Intent(entry(STRICT))).unwrap();
    let [added, log, lock] = ["journal", "log", "lock"].map(mode);
    journal.prove().unwrap();
    assert_eq!([added, mode("journal"), log, lock & 0o700], [0o600, 0o600, 0o600, 0o600]);
}

#[test]
fn a_link_in_place_of_the_journal_is_not_followed() {
    let place = TempDir::new().unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "").unwrap();
    std::os::unix::fs::symlink(&victim, place.path().join("journal")).unwrap();
    let opened = Journal::open(Box::new(Folder::at(place.path()).unwrap()), "boot");
    assert!(opened.is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[test]
fn a_pipe_in_place_of_the_journal_is_not_waited_for() {
    let place = TempDir::new().unwrap();
    for name in ["journal", "log", "lock"] {
        let path = place.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }
    let folder = Folder::at(place.path()).unwrap();
    assert_eq!(Holder::of(&folder), None);
    assert!(Lock::take(&folder).is_err());
    assert!(History::of(&folder).read().is_err());
    assert!(Journal::open(Box::new(folder), "boot").is_err());
}

#[test]
fn the_second_process_learns_which_one_has_the_lock() {
    let place = TempDir::new().unwrap();
    let folder = Folder::at(place.path()).unwrap();
    assert_eq!(Holder::of(&folder), None);
    let lock = Lock::take(&folder).unwrap();
    let us = std::process::id();
    assert_eq!(Holder::of(&folder).map(|holder| holder.pid), Some(us));
    let said = Lock::take(&folder).unwrap_err().to_string();
    assert_eq!(said, format!("forebay tune runs already, as process {us}"));
    drop(lock);
    assert_eq!(Holder::of(&folder), None);
    Lock::take(&folder).unwrap();
}

#[test]
fn a_holder_that_has_died_holds_nothing() {
    let place = TempDir::new().unwrap();
    let us = std::process::id();
    // The number of a process that runs, and the start of another one.
    fs::write(place.path().join("lock"), format!("{us} 1\n")).unwrap();
    assert_eq!(Holder::of(&Folder::at(place.path()).unwrap()), None);
}

fn open(place: &TempDir, boot: &str) -> (Journal, Vec<Note>) {
    let folder: &Path = place.path();
    Journal::open(Box::new(Folder::at(folder).unwrap()), boot).unwrap()
}

fn entry(knob: Knob) -> Entry {
    Entry {
        knob,
        identity: Identity::default(),
        before: Value::Number(0),
        last: Value::Number(0),
        asked: Some(Value::Number(1)),
        reasserted: 0,
        at: 1,
        why: "a test".to_owned(),
    }
}
