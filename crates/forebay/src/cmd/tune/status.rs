//! `forebay tune status`: what is changed at present.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_live::journal::{Disk, Entry, FileEntry, Found, Holder, State};
use forebay_live::knob::{Identity, Knob, Of, Patience, Value, boot, turn};
use forebay_live::tree::Tree;
use serde_json::json;

use crate::args::tune::Status;
use crate::messages;

use super::{folder, tree};

/// Prints who steers, what is changed, and what is left alone.
pub(super) fn run(arguments: &Status) -> Result<u8> {
    let tree = tree(&arguments.place)?;
    let (mut state, mut holder) = (State::default(), None);
    if let Some(folder) = folder(&arguments.place)? {
        holder = Holder::of(&folder);
        state = recorded(&tree, &folder.load().context("cannot read the journal")?)?;
    }
    let shown = Shown { tree, state, holder };
    let mut out = io::stdout().lock();
    if arguments.json { shown.object(&mut out) } else { shown.text(&mut out) }?;
    Ok(u8::from(shown.is_orphaned()))
}

/// What a journal says that was written since the machine was started.
fn recorded(tree: &Tree, bytes: &[u8]) -> Result<State> {
    let found = Found::of(bytes);
    if !found.damaged.is_empty() {
        let lines = found.damaged.len();
        messages::note(&format!("the journal is damaged: {lines} of its lines cannot be read"));
    }
    let boot = boot(tree)?;
    let is_other_boot = found.head.is_some_and(|head| head.boot != boot);
    Ok(if is_other_boot { State::default() } else { found.state })
}

struct Shown {
    tree: Tree,
    state: State,
    holder: Option<Holder>,
}

impl Shown {
    /// Whether something is changed and nobody is there who would put it back.
    fn is_orphaned(&self) -> bool {
        self.holder.is_none() && self.state.open() > 0
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let open = self.state.open();
        match self.holder {
            Some(holder) => writeln!(out, "Process {} steers this machine.", holder.pid)?,
            None if open > 0 => writeln!(
                out,
                "Nobody steers this machine, and a forebay that was killed has left changes.\n\
                 `forebay tune undo` puts them back."
            )?,
            None => writeln!(out, "Nobody steers this machine.")?,
        }
        writeln!(out, "{}", if open > 0 { "Changed:" } else { "Nothing is changed." })?;
        for entry in self.state.entries.values() {
            self.entry(out, entry)?;
        }
        for FileEntry { file, before_kb, kb, why, .. } in self.state.files.values() {
            writeln!(out, "  the readahead window of {file}")?;
            writeln!(out, "    is {kb} KiB, was {before_kb} KiB, because {why}")?;
        }
        if !self.state.released.is_empty() {
            writeln!(out, "Left alone, because somebody else has written it:")?;
        }
        for (knob, identity) in &self.state.released {
            writeln!(out, "  {}", Of { knob: *knob, identity: identity.clone() })?;
        }
        Ok(())
    }

    fn entry(&self, out: &mut impl Write, entry: &Entry) -> io::Result<()> {
        let knob = entry.knob;
        let show = |value| knob.show(value);
        writeln!(out, "  {}", Of { knob, identity: entry.identity.clone() })?;
        let (before, why) = (show(entry.before), &entry.why);
        match self.stands(knob, &entry.identity) {
            Some(found) if entry.is_ours(found) => {
                writeln!(out, "    is {}, was {before}, because {why}", show(found))
            }
            Some(found) => {
                let last = show(entry.last);
                writeln!(out, "    was set from {before} to {last}, because {why}")?;
                writeln!(out, "    is {}: somebody else has written it", show(found))
            }
            None => writeln!(out, "    was set from {before}; its device is gone"),
        }
    }

    /// What a knob stands at; none if its device is gone or another one.
    fn stands(&self, knob: Knob, whose: &Identity) -> Option<Value> {
        // A window that is borrowed at this moment would be shown as somebody else's.
        let _turn = turn(&self.tree, Patience::Short).ok();
        let present = Identity::of(knob, &self.tree).ok()?;
        if present.is_same(whose) { knob.read(&self.tree).ok() } else { None }
    }

    fn object(&self, out: &mut impl Write) -> io::Result<()> {
        let change = |entry: &Entry| {
            json!({
                "knob": entry.knob.to_string(),
                "device": entry.identity.show(),
                "before": entry.before.to_string(),
                "set": entry.last.to_string(),
                "present": self.stands(entry.knob, &entry.identity).map(|value| value.to_string()),
                "at": entry.at,
                "why": entry.why,
            })
        };
        let file = |entry: &FileEntry| {
            let FileEntry { file, before_kb, kb, at, why, .. } = entry;
            json!({
                "pid": file.pid,
                "fd": file.fd,
                "device": file.file.dev.to_string(),
                "inode": file.file.ino,
                "before_kb": before_kb,
                "set_kb": kb,
                "at": at,
                "why": why,
            })
        };
        let changes: Vec<_> = self.state.entries.values().map(change).collect();
        let files: Vec<_> = self.state.files.values().map(file).collect();
        let left: Vec<_> = self.state.released.keys().map(ToString::to_string).collect();
        let object = json!({
            "pid": self.holder.map(|holder| holder.pid),
            "changes": changes,
            "files": files,
            "left_alone": left,
        });
        writeln!(out, "{object}")
    }
}
