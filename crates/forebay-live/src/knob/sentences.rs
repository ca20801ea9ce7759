//! What happened, in as few sentences as say it: descriptors of one file or of one process that
//! fared alike share one. A server with a descriptor for each client, or a file for each table,
//! would fill a screen otherwise.

use std::collections::BTreeSet;
use std::fmt;

use super::{Event, OpenFile};

/// What happened, each in a sentence; the order is that of the events.
pub fn sentences(events: &[Event]) -> Vec<String> {
    let mut told: Vec<Told<'_>> = Vec::new();
    for event in events {
        let fate = fate(event);
        let is_alike = |told: &&mut Told<'_>| match (fate, told.fate) {
            (Some((file, fate)), Some((known, same))) => {
                (file.file == known.file || file.pid == known.pid) && fate == same
            }
            (None | Some(_), None | Some(_)) => false,
        };
        match (fate, told.iter_mut().find(is_alike)) {
            (Some((file, _)), Some(told)) => told.files.push(*file),
            (fate, _) => {
                let files = fate.into_iter().map(|(file, _)| *file).collect();
                told.push(Told { event, fate, files });
            }
        }
    }
    told.iter().map(ToString::to_string).collect()
}

/// Descriptors of one file, as a sentence names them.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors<'a>(pub &'a [OpenFile]);

impl fmt::Display for Descriptors<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, count) = match self.0 {
            [] => return out.write_str("no descriptor"),
            [one] => return write!(out, "{one}"),
            [first, ..] => (first, self.0.len()),
        };
        let mut processes: Vec<u32> = self.0.iter().map(|file| file.pid).collect();
        processes.sort_unstable();
        processes.dedup();
        match processes[..] {
            [pid] => write!(out, "{count} descriptors of process {pid} ({}", first.file)?,
            _ => {
                let processes = processes.len();
                write!(out, "{count} descriptors of {processes} processes ({}", first.file)?;
            }
        }
        let others: BTreeSet<_> =
            self.0.iter().map(|of| of.file).filter(|file| *file != first.file).collect();
        match others.len() {
            0 => write!(out, ")"),
            1 => write!(out, " and another file)"),
            count => write!(out, " and {count} other files)"),
        }
    }
}

/// What became of the window of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate<'a> {
    Set { from_kb: u64, to_kb: u64, why: &'a str },
    Restored { to_kb: u64 },
    Gone,
    Failed { error: &'a str },
}

/// An event, and the descriptors of its file that fared as this one.
struct Told<'a> {
    event: &'a Event,
    fate: Option<(&'a OpenFile, Fate<'a>)>,
    files: Vec<OpenFile>,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, fate) = match self.fate {
            Some((_, fate)) if self.files.len() > 1 => (Descriptors(&self.files), fate),
            Some(_) | None => return self.event.fmt(out),
        };
        match fate {
            Fate::Set { from_kb, to_kb, why } => write!(
                out,
                "the readahead windows of {files} were set from {from_kb} KiB to {to_kb} KiB, \
                 because {why}"
            ),
            Fate::Restored { to_kb } => {
                write!(out, "the readahead windows of {files} were put back to {to_kb} KiB")
            }
            Fate::Gone => {
                write!(out, "{files} are closed, and their readahead windows are gone with them")
            }
            Fate::Failed { error } => {
                write!(out, "the readahead windows of {files} could not be put back: {error}")
            }
        }
    }
}

/// What became of a description's window, if the event is about one.
fn fate(event: &Event) -> Option<(&OpenFile, Fate<'_>)> {
    match event {
        Event::FileSet { file, from_kb, to_kb, why } => {
            Some((file, Fate::Set { from_kb: *from_kb, to_kb: *to_kb, why }))
        }
        Event::FileRestored { file, to_kb } => Some((file, Fate::Restored { to_kb: *to_kb })),
        Event::FileGone { file } => Some((file, Fate::Gone)),
        Event::FileFailed { file, error } => Some((file, Fate::Failed { error })),
        Event::Set { .. }
        | Event::Reasserted { .. }
        | Event::Restored { .. }
        | Event::AsBefore { .. }
        | Event::Foreign { .. }
        | Event::Gone { .. }
        | Event::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::{Identity, Knob, Of};
    use crate::number::{DevNumber, FileKey};

    fn open(pid: u32, fd: u32, ino: u64) -> OpenFile {
        let dev = DevNumber { major: 254, minor: 0 };
        OpenFile { pid, started: 1, fd, file: FileKey { dev, ino } }
    }

    #[test]
    fn descriptors_of_one_file_or_process_that_fared_alike_share_a_sentence() {
        let of = Of { knob: Knob::DirtyLimit, identity: Identity::default() };
        let mut events = vec![Event::Gone { of }];
        events.extend((3..25).map(|fd| Event::FileRestored { file: open(7, fd, 9), to_kb: 128 }));
        events.extend((0..2).map(|fd| Event::FileGone { file: open(7, fd, 9) }));
        events.push(Event::FileRestored { file: open(7, 30, 10), to_kb: 128 });
        events.push(Event::FileRestored { file: open(7, 31, 9), to_kb: 64 });
        events.push(Event::FileRestored { file: open(8, 3, 9), to_kb: 64 });
        let said = sentences(&events);
        assert_eq!(said[0], events[0].to_string(), "what is no file's stays as it is");
        let rest = [
            "the readahead windows of 23 descriptors of process 7 (inode 9 of 254:0 and another \
             file) were put back to 128 KiB",
            "2 descriptors of process 7 (inode 9 of 254:0) are closed, and their readahead windows \
             are gone with them",
            "the readahead windows of 2 descriptors of 2 processes (inode 9 of 254:0) were put \
             back to 64 KiB",
        ];
        assert_eq!(said[1..], rest);
    }

    #[test]
    fn another_error_is_another_sentence() {
        let failed =
            |fd, error: &str| Event::FileFailed { file: open(7, fd, 9), error: error.to_owned() };
        let events =
            [failed(1, "fadvise: EIO"), failed(2, "fadvise: EPERM"), failed(3, "fadvise: EIO")];
        let said = sentences(&events);
        assert_eq!(said.len(), 2);
        assert!(said[0].ends_with(
            "2 descriptors of process 7 (inode 9 of 254:0) could not be put back: fadvise: EIO"
        ));
    }
}
