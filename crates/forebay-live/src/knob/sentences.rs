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
            (Some((file, name, fate)), Some((known, called, same))) => {
                let of_one = file.file == known.file || file.pid == known.pid;
                (of_one || (!name.is_empty() && name == called)) && fate == same
            }
            (None | Some(_), None | Some(_)) => false,
        };
        match (fate, told.iter_mut().find(is_alike)) {
            (Some((file, name, _)), Some(told)) => {
                told.files.push(*file);
                told.names.insert(name);
            }
            (fate, _) => {
                let files = fate.into_iter().map(|(file, _, _)| *file).collect();
                let names = fate.into_iter().map(|(_, name, _)| name).collect();
                told.push(Told { event, fate, files, names });
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
    fate: Option<(&'a OpenFile, &'a str, Fate<'a>)>,
    files: Vec<OpenFile>,
    /// What they are called.
    names: BTreeSet<&'a str>,
}

impl Told<'_> {
    /// The descriptors by the name of their file, if it is known, or else by their numbers.
    fn called(&self, first: &str) -> String {
        if first.is_empty() {
            return Descriptors(&self.files).to_string();
        }
        match self.names.len() {
            0 | 1 => first.to_owned(),
            2 => format!("{first} and another file"),
            count => format!("{first} and {} other files", count - 1),
        }
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, fate) = match self.fate {
            Some((_, name, fate)) if self.files.len() > 1 => (self.called(name), fate),
            Some(_) | None => return self.event.fmt(out),
        };
        match fate {
            Fate::Set { from_kb, to_kb, why } => write!(
                out,
                "the readahead windows of {files} were set from {from_kb} KiB to {to_kb} KiB, \
                 because {why}"
            ),
            Fate::Restored { to_kb } => {
                write!(out, "the readahead windows of {files} were restored to {to_kb} KiB")
            }
            Fate::Gone => {
                write!(out, "{files} are closed, and their readahead windows are gone with them")
            }
            Fate::Failed { error } => {
                write!(out, "the readahead windows of {files} could not be restored: {error}")
            }
        }
    }
}

/// What became of a description's window, if the event is about one.
fn fate(event: &Event) -> Option<(&OpenFile, &str, Fate<'_>)> {
    match event {
        Event::FileSet { file, from_kb, to_kb, why, name } => {
            Some((file, name, Fate::Set { from_kb: *from_kb, to_kb: *to_kb, why }))
        }
        Event::FileRestored { file, to_kb, name } => {
            Some((file, name, Fate::Restored { to_kb: *to_kb }))
        }
        Event::FileGone { file, name } => Some((file, name, Fate::Gone)),
        Event::FileFailed { file, error, name } => Some((file, name, Fate::Failed { error })),
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
        let back = |file, to_kb| Event::FileRestored { file, to_kb, name: String::new() };
        events.extend((3..25).map(|fd| back(open(7, fd, 9), 128)));
        let gone = |file| Event::FileGone { file, name: String::new() };
        events.extend((0..2).map(|fd| gone(open(7, fd, 9))));
        events.push(back(open(7, 30, 10), 128));
        events.push(back(open(7, 31, 9), 64));
        events.push(back(open(8, 3, 9), 64));
        let said = sentences(&events);
        assert_eq!(said[0], events[0].to_string(), "what is no file's stays as it is");
        let rest = [
            "the readahead windows of 23 descriptors of process 7 (inode 9 of 254:0 and another \
             file) were restored to 128 KiB",
            "2 descriptors of process 7 (inode 9 of 254:0) are closed, and their readahead windows \
             are gone with them",
            "the readahead windows of 2 descriptors of 2 processes (inode 9 of 254:0) were \
             restored to 64 KiB",
        ];
        assert_eq!(said[1..], rest);
    }

    #[test]
    fn another_error_is_another_sentence() {
        let failed = |fd, error: &str| Event::FileFailed {
            file: open(7, fd, 9),
            error: error.to_owned(),
            name: String::new(),
        };
        let events =
            [failed(1, "fadvise: EIO"), failed(2, "fadvise: EPERM"), failed(3, "fadvise: EIO")];
        let said = sentences(&events);
        assert_eq!(said.len(), 2);
        assert!(said[0].ends_with(
            "2 descriptors of process 7 (inode 9 of 254:0) could not be restored: fadvise: EIO"
        ));
    }

    #[test]
    fn files_are_called_by_path_device_and_command_where_these_are_known() {
        let back = |pid, fd, ino, name: &str| Event::FileRestored {
            file: open(pid, fd, ino),
            to_kb: 128,
            name: name.to_owned(),
        };
        let big = "/srv/big.db on sdb (postgres 7 and 1 more)";
        let one = [back(7, 3, 9, big)];
        let said = format!("the readahead window of {big} was restored to 128 KiB");
        assert_eq!(sentences(&one), [said]);
        let all = [back(7, 3, 9, big), back(8, 3, 9, big), back(7, 4, 10, "/srv/wal on sdb (x 7)")];
        let said =
            format!("the readahead windows of {big} and another file were restored to 128 KiB");
        assert_eq!(sentences(&all), [said]);
    }
}
