//! `forebay tune undo`: everything back where it was.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_live::journal::{Folder, History, Holder, Journal, Lock, LockError, Record};
use forebay_live::knob::{Event, boot};
use forebay_live::trace;
use forebay_live::tree::Tree;
use forebay_live::undo::undo;
use serde_json::json;

use crate::args::tune::Undo;
use crate::messages::{self, Complaint};

use super::{folder, tree};

/// Stops a steering that runs, and takes back what one that was killed has left.
pub(super) fn run(arguments: &Undo) -> Result<u8> {
    let tree = tree(&arguments.place)?;
    let Some(folder) = folder(&arguments.place)? else {
        sweep(&tree);
        return said(arguments, None, &[]);
    };
    let stopped = Holder::of(&folder);
    if let Some(holder) = stopped {
        stop(arguments, holder)?;
    }
    let lock = lock(&folder)?;
    sweep(&tree);
    let history = History::of(&folder);
    let boot = boot(&tree)?;
    let (mut journal, notes) = Journal::open(Box::new(folder), &boot).map_err(|error| {
        let hint = "the forebay that wrote it can undo it, and so can a restart of the machine";
        Complaint::new(error.to_string()).hint(hint)
    })?;
    notes.iter().for_each(|note| messages::note(&note.to_string()));
    let events = undo(&tree, &mut journal, "undo was asked for");
    events.iter().for_each(|event| history.add(event));
    if arguments.forget {
        journal.tell(Record::Forgotten);
        journal.settle();
    }
    drop(lock);
    said(arguments, stopped, &events)
}

/// A steering that was killed has left its tracing too, which costs memory and nothing else: where
/// it cannot be removed, the next steering does.
fn sweep(tree: &Tree) {
    if tree.is_machine() {
        let _ = trace::sweep();
    }
}

fn stop(arguments: &Undo, holder: Holder) -> Result<()> {
    let Holder { pid, .. } = holder;
    let has_ended = holder
        .stop(arguments.patience)
        .with_context(|| format!("cannot ask process {pid}, which steers, to end"))?;
    if has_ended {
        return Ok(());
    }
    let what = format!("process {pid} steers and has not ended in {:?}", arguments.patience);
    let hint = format!("it may wait for a device; `kill -9 {pid}` ends it, then undo again");
    Err(Complaint::new(what).hint(hint).into())
}

fn lock(folder: &Folder) -> Result<Lock> {
    Lock::take(folder).map_err(|error| match error {
        LockError::Held(_) => Complaint::new(error.to_string()).hint("undo again").into(),
        LockError::Io(source) => {
            let what = format!("cannot lock {}: {source}", folder.path().display());
            let may_not = source.kind() == io::ErrorKind::PermissionDenied;
            let complaint = Complaint::new(what);
            if may_not { complaint.hint("root can").into() } else { complaint.into() }
        }
    })
}

/// Says what became of each; the answer is no if something is left.
fn said(arguments: &Undo, stopped: Option<Holder>, events: &[Event]) -> Result<u8> {
    let mut out = io::stdout().lock();
    if arguments.json {
        let line = |event: &Event| {
            let (what, knob) = (event.word(), event.about());
            json!({ "what": what, "knob": knob, "sentence": event.to_string() })
        };
        let undone: Vec<_> = events.iter().map(line).collect();
        let stopped = stopped.map(|holder| holder.pid);
        writeln!(out, "{}", json!({ "stopped": stopped, "undone": undone }))?;
    } else {
        if let Some(holder) = stopped {
            let pid = holder.pid;
            writeln!(out, "Process {pid}, which steered, was asked to end and has ended.")?;
        }
        for event in events {
            writeln!(out, "{}.", capital(&event.to_string()))?;
        }
        if events.is_empty() && stopped.is_none() {
            writeln!(out, "Nothing is changed.")?;
        }
    }
    Ok(u8::from(events.iter().any(Event::is_failure)))
}

/// With a capital letter, as sentences begin.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
