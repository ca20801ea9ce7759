//! Taking everything back.
//!
//! It compares before it writes: what does not stand at our last value was written by somebody
//! else, and stays. It may be killed at any step and run again: a knob that is back already is
//! seen to be back. A journal that cannot be written holds nothing up.
//!
//! ```text
//!   wbt_lat_usec, shares, strict_limit, dirty limit, background, expiry, read_ahead_kb, open files
//! ```
//!
//! The window goes back last of all knobs, because the kernel raises it when others change. Open
//! files come after it: they take over their device's window as it is then.

use std::io;

use crate::journal::{Entry, FileEntry, Journal, Record};
use crate::knob::{Event, Identity, Kernel, Knob, Of, OpenFile, Value, Way, brief};

/// Puts back everything that the journal says is changed, and says what became of each.
pub fn undo(kernel: &dyn Kernel, journal: &mut Journal, why: &str) -> Vec<Event> {
    let mut knobs: Vec<Knob> = journal.state().entries.keys().copied().collect();
    knobs.sort_by_key(|knob| (knob.rule().rank, *knob));
    let files: Vec<OpenFile> = journal.state().files.keys().copied().collect();
    let knobs = knobs.into_iter();
    let mut events: Vec<Event> =
        knobs.filter_map(|knob| undo_knob(kernel, journal, knob, why)).collect();
    events.extend(files.into_iter().filter_map(|file| undo_file(kernel, journal, &file)));
    if journal.state().open() == 0 {
        journal.settle();
    }
    events
}

/// Puts one knob back; none if it is not changed.
pub(crate) fn undo_knob(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    knob: Knob,
    why: &str,
) -> Option<Event> {
    let entry = journal.state().entries.get(&knob)?.clone();
    let of = Of { knob, identity: entry.identity.clone() };
    let failed = |error: String| Event::Failed { of: of.clone(), to: entry.before, error };
    let found = match stands(kernel, &entry) {
        Ok(Some(found)) => found,
        Ok(None) => {
            journal.tell(Record::Closed(knob));
            return Some(Event::Gone { of });
        }
        Err(error) => return Some(failed(error.to_string())),
    };
    if found == entry.before {
        journal.tell(Record::Closed(knob));
        return Some(Event::AsBefore { of, at: found });
    }
    if !entry.is_ours(found) {
        journal.tell(Record::Released(knob, entry.identity.clone()));
        return Some(Event::Foreign { of, last: entry.last, found });
    }
    let written = write(kernel, knob, entry.before).and_then(|()| knob.read(kernel));
    Some(match written {
        Ok(to) if to == entry.before => {
            journal.tell(Record::Closed(knob));
            Event::Restored { of, from: found, to, why: why.to_owned() }
        }
        Ok(to) => failed(format!("it reads back {}", knob.show(to))),
        Err(error) => failed(error.to_string()),
    })
}

/// Has one description take its old window; none if it has it.
pub(crate) fn undo_file(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    file: &OpenFile,
) -> Option<Event> {
    let entry = journal.state().files.get(file)?.clone();
    let file = *file;
    let failed = |error: String| Event::FileFailed { file, error };
    let FileEntry { bdi, before_kb, .. } = entry;
    let gone = match Identity::of(bdi, kernel) {
        Ok(present) => !present.is_same(&entry.identity),
        Err(error) if is_absent(&error) => true,
        Err(error) => return Some(failed(error.to_string())),
    };
    let told = if gone {
        // Open files outlive their device only as errors.
        Ok(Event::FileGone { file })
    } else {
        let why = "a file takes its old window";
        let window = Value::Number(before_kb);
        // Closed after the device has its own window again, however long that takes.
        let told = kernel.hold(&file).map(|held| {
            brief(kernel, journal, bdi, window, why, Way::Back, |kernel| kernel.latch(&held))
        });
        match told {
            Ok(Ok(Ok(()))) => Ok(Event::FileRestored { file, to_kb: before_kb }),
            Ok(Ok(Err(error))) | Err(error) if error.is_gone() => Ok(Event::FileGone { file }),
            Ok(Ok(Err(error))) | Err(error) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
        }
    };
    Some(told.map_or_else(failed, |event| {
        journal.tell(Record::FileClosed(file));
        event
    }))
}

/// What the knob of an entry stands at; none if its device is gone or another one.
pub(crate) fn stands(kernel: &dyn Kernel, entry: &Entry) -> io::Result<Option<Value>> {
    let here = Identity::of(entry.knob, kernel)
        .and_then(|present| Ok((present, entry.knob.read(kernel)?)));
    match here {
        Ok((present, found)) => Ok(present.is_same(&entry.identity).then_some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes what has to be written for a knob to have this value.
pub(crate) fn write(kernel: &dyn Kernel, knob: Knob, to: Value) -> io::Result<()> {
    knob.writes(to).into_iter().try_for_each(|(path, number)| kernel.write(&path, number))
}

/// Whether what a path names is not there, or went away while it was looked at.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();
    matches!(error.kind(), io::ErrorKind::NotFound) || error.raw_os_error() == Some(ENODEV)
}
