//! `forebay tune undo`: everything back where it was.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use forebay_live::journal::{
    Folder, History, Holder, Journal, LOCK_FILE, Lock, LockError, Note, Record,
};
use forebay_live::knob::{Event, Knob, Of, boot, sentences};
use forebay_live::trace;
use forebay_live::tree::Tree;
use forebay_live::undo::undo_except;
use forebay_report::messages::{self, Complaint, complain, shown};
use forebay_report::program::ERROR;
use serde_json::json;

use crate::args::tune::Undo;

use super::{Tuned, folder, tree, tuned_complaint, unusable};

/// Stops a running daemon, and reverts the changes that a killed one has left, but for knobs that
/// are tuned by the journal of another folder.
pub(super) fn run(arguments: &Undo, tuned: &Tuned) -> Result<u8> {
    let tree = tree(&arguments.place)?;
    let Some(folder) = folder(&arguments.place.state)? else {
        sweep(&tree);
        return Done::default().said(arguments);
    };
    let stopped = Holder::of(&folder);
    if let Some(Holder { pid, .. }) = stopped.filter(|_| arguments.if_ended) {
        messages::note(&format!("process {pid} tunes and goes on; nothing was restored"));
        return Ok(0);
    }
    if let Some(holder) = stopped {
        stop(arguments, holder)?;
    }
    let lock = lock(&folder)?;
    sweep(&tree);
    let (history, path) = (History::of(&folder), folder.path().to_owned());
    let boot = boot(&tree)?;
    let kept = folder.damaged(&boot);
    let (mut journal, notes) =
        Journal::open(Box::new(folder), &boot).map_err(|error| unusable(&error, &path))?;
    notes.iter().for_each(|note| messages::note(&note.to_string()));
    let entries = journal.state().entries.values();
    let tuned: Vec<Of> = entries
        .filter(|entry| tuned.has(entry.knob, &entry.identity))
        .map(|entry| Of { knob: entry.knob, identity: entry.identity.clone() })
        .collect();
    let kept_knobs: BTreeSet<Knob> = tuned.iter().map(|of| of.knob).collect();
    let events = undo_except(&kept_knobs, &tree, &mut journal, "undo was asked for");
    events.iter().for_each(|event| history.add(event));
    if arguments.forget {
        journal.tell(Record::Forgotten);
        journal.settle();
        Folder::at(&path)?.forget_damaged(&boot).context("cannot remove a damaged journal")?;
    }
    drop(lock);
    let damaged = notes.iter().map(Note::damaged).sum();
    let kept = if arguments.forget { Vec::new() } else { kept };
    Done { stopped, events, tuned, damaged, kept }.said(arguments)
}

/// A killed daemon has also left its tracing instance, which only costs memory: if it cannot be
/// removed now, the next daemon removes it.
fn sweep(tree: &Tree) {
    if tree.is_machine() {
        let _ = trace::sweep();
    }
}

fn stop(arguments: &Undo, holder: Holder) -> Result<()> {
    let Holder { pid, .. } = holder;
    let has_ended = holder
        .stop(arguments.patience)
        .with_context(|| format!("cannot ask `forebay tune` (process {pid}) to end"))?;
    if has_ended {
        return Ok(());
    }
    let what =
        format!("`forebay tune` (process {pid}) has not ended within {:?}", arguments.patience);
    let hint = match holder.is_stopped() {
        true => format!("it is stopped; `kill -CONT {pid}` lets it go on, and then it ends"),
        false => format!("it may wait for a device; `kill -9 {pid}` ends it, then undo again"),
    };
    Err(Complaint::new(what).hint(hint).into())
}

fn lock(folder: &Folder) -> Result<Lock> {
    Lock::take(folder).map_err(|error| match error {
        LockError::Held(_) => Complaint::new(error.to_string()).hint("undo again").into(),
        LockError::Io(source) => {
            let file = folder.path().join(LOCK_FILE);
            let hint = if source.kind() == io::ErrorKind::PermissionDenied {
                "root can"
            } else if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
                "its file system has to be writable before anything can be undone"
            } else {
                "a lock is a plain file: remove what stands there, and undo again"
            };
            Complaint::new(format!("cannot lock {}: {source}", shown(&file))).hint(hint).into()
        }
    })
}

/// The results.
#[derive(Default)]
struct Done {
    /// The daemon that was asked to end.
    stopped: Option<Holder>,
    events: Vec<Event>,
    /// Knobs that stay as they are, because they are tuned.
    tuned: Vec<Of>,
    /// Lines of the journal that may have known of more.
    damaged: usize,
    /// Damaged journals that were set aside before.
    kept: Vec<PathBuf>,
}

impl Done {
    fn is_damaged(&self) -> bool {
        self.damaged > 0 || !self.kept.is_empty()
    }

    /// Reports the result of each; the answer is no if a change is left, or may be left, and an
    /// error if a knob is tuned.
    fn said(&self, arguments: &Undo) -> Result<u8> {
        let mut out = io::stdout().lock();
        if arguments.json { self.object(&mut out) } else { self.text(&mut out) }?;
        for of in &self.tuned {
            complain(&tuned_complaint(of, "then undo again: its old value stays on record"));
        }
        if !self.tuned.is_empty() {
            return Ok(ERROR);
        }
        Ok(u8::from(self.is_damaged() || self.events.iter().any(Event::is_failure)))
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(Holder { pid, .. }) = self.stopped {
            writeln!(out, "Process {pid}, which steered, was asked to end and has ended.")?;
        }
        for sentence in sentences(&self.events) {
            writeln!(out, "{}.", capital(&sentence))?;
        }
        for kept in &self.kept {
            writeln!(out, "A damaged journal was set aside before: {}", shown(kept))?;
        }
        match (self.events.is_empty(), self.is_damaged()) {
            (true, false) if self.stopped.is_none() && self.tuned.is_empty() => {
                writeln!(out, "Nothing is changed.")
            }
            (_, false) => Ok(()),
            (true, true) => writeln!(out, "It is unknown whether something is changed. {RESTART}"),
            (false, true) => writeln!(out, "It is unknown whether something is left. {RESTART}"),
        }
    }

    fn object(&self, out: &mut impl Write) -> io::Result<()> {
        let line = |event: &Event| {
            let (what, knob) = (event.word(), event.about());
            json!({ "what": what, "knob": knob, "sentence": event.to_string() })
        };
        let undone: Vec<_> = self.events.iter().map(line).collect();
        let stopped = self.stopped.map(|holder| holder.pid);
        let damaged = self.damaged;
        let kept: Vec<_> = self.kept.iter().map(|path| path.to_string_lossy()).collect();
        let object = json!({
            "stopped": stopped,
            "undone": undone,
            "damaged_lines": damaged,
            "damaged_journals": kept,
        });
        writeln!(out, "{object}")
    }
}

/// The way out of unknown changes.
const RESTART: &str =
    "A restart of the machine undoes all of it; `forebay tune undo --forget` leaves it.";

/// With a capital letter, as sentences begin.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
