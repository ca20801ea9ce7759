//! Taking everything back.
//!
//! It compares before it writes: what is not our last value was written by another
//! program, and stays. It may be killed at any step and run again: a knob that is back already is
//! seen to be back. A journal that cannot be written holds nothing up.
//!
//! ```text
//!   wbt_lat_usec, shares, strict_limit, dirty limit, background, expiry, read_ahead_kb, open files
//! ```
//!
//! The window goes back last of all knobs, because the kernel raises it when others change. Open
//! files come after it: they take over their device's window as it is then.

use std::collections::BTreeSet;

use crate::journal::{FileEntry, Journal, Record};
use crate::knob::{
    Event, Identity, Kernel, Knob, Moment, Of, OpenFile, Turn, Turns, Value, Way, brief, is_absent,
    stands, write_knob,
};

/// Puts back everything that the journal says is changed, and says what became of each.
pub fn undo(kernel: &dyn Kernel, journal: &mut Journal, why: &str) -> Vec<Event> {
    undo_except(&BTreeSet::new(), kernel, journal, why)
}

/// The same but for some knobs, which stay as they are and on record.
pub fn undo_except(
    kept: &BTreeSet<Knob>,
    kernel: &dyn Kernel,
    journal: &mut Journal,
    why: &str,
) -> Vec<Event> {
    let changed = journal.state().entries.keys().copied();
    let mut knobs: Vec<Knob> = changed.filter(|knob| !kept.contains(knob)).collect();
    knobs.sort_by_key(|knob| (knob.rule().rank, *knob));
    let files: Vec<OpenFile> = journal.state().files.keys().copied().collect();
    let (knobs, turns) = (knobs.into_iter(), &mut Turns::default());
    let mut events: Vec<Event> =
        knobs.filter_map(|knob| undo_knob(kernel, journal, turns, knob, why)).collect();
    let files = files.into_iter();
    events.extend(files.filter_map(|file| undo_file(kernel, journal, turns, &file)));
    if journal.state().open() == 0 {
        journal.settle();
    }
    events
}

/// Puts one knob back; none if it is not changed.
pub(crate) fn undo_knob(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    turns: &mut Turns,
    knob: Knob,
    why: &str,
) -> Option<Event> {
    let entry = journal.state().entries.get(&knob)?;
    // Out of turn a borrowed window would be taken for another program's choice, and left.
    let turn = if knob.is_borrowed() { turns.next(kernel) } else { Ok(Turn::alone()) };
    match turn {
        Ok(_turn) => back(kernel, journal, knob, why),
        Err(error) => {
            let of = Of { knob, identity: entry.identity.clone() };
            Some(Event::Failed { of, to: entry.before, error: error.to_string() })
        }
    }
}

/// The same within a turn that is had already.
pub(crate) fn back(
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
    let written = write_knob(kernel, knob, entry.before).and_then(|()| knob.read(kernel));
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
    turns: &mut Turns,
    file: &OpenFile,
) -> Option<Event> {
    let entry = journal.state().files.get(file)?.clone();
    let file = *file;
    let FileEntry { bdi, before_kb, name, .. } = entry;
    let failed = |error: String| Event::FileFailed { file, error, name: name.clone() };
    let is_gone = || Event::FileGone { file, name: name.clone() };
    let gone = match Identity::of(bdi, kernel) {
        Ok(present) => !present.is_same(&entry.identity),
        Err(error) if is_absent(&error) => true,
        Err(error) => return Some(failed(error.to_string())),
    };
    let told = if gone {
        // Open files outlive their device only as errors.
        Ok(is_gone())
    } else {
        let (to, why) = (Value::Number(before_kb), "a file takes its old window");
        let moment = Moment { bdi, to, why, way: Way::Back };
        // Closed after the device has its own window again, however long that takes.
        let told = match kernel.hold(&file) {
            Ok(held) => {
                let turn = match turns.next(kernel) {
                    Ok(turn) => turn,
                    Err(error) => return Some(failed(error.to_string())),
                };
                Ok(brief(kernel, journal, &turn, &moment, |kernel| kernel.latch(&held)))
            }
            Err(error) => Err(error),
        };
        match told {
            Ok(Ok(Ok(()))) => {
                Ok(Event::FileRestored { file, to_kb: before_kb, name: name.clone() })
            }
            Ok(Ok(Err(error))) | Err(error) if error.is_gone() => Ok(is_gone()),
            Ok(Ok(Err(error))) | Err(error) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
        }
    };
    Some(told.map_or_else(failed, |event| {
        journal.tell(Record::FileClosed(file));
        event
    }))
}
