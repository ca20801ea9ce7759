//! `forebay tune status`: the changes in effect.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use forebay_live::journal::{Entry, FileEntry, Found, Holder, State};
use forebay_live::knob::{
    Descriptors, Identity, Knob, Of, OpenFile, Patience, Value, boot, started, turn,
};
use forebay_live::tree::Tree;
use forebay_report::messages::{printable, shown};
use serde_json::json;

use crate::args::tune::Status;

use super::{folder, recorded, tree};

/// Prints which process tunes, the changes in effect, and the released knobs.
pub(super) fn run(arguments: &Status) -> Result<u8> {
    let tree = tree(&arguments.place)?;
    let (mut found, mut holder, mut kept) = (Found::default(), None, Vec::new());
    if let Some(folder) = folder(&arguments.place.state)? {
        let boot = boot(&tree)?;
        holder = Holder::of(&folder);
        found = recorded(&folder, &boot)?;
        kept = folder.damaged(&boot);
    }
    let status = Shown { tree, state: found.state, damaged: found.damaged.len(), kept, holder };
    let mut out = io::stdout().lock();
    if arguments.json { status.object(&mut out) } else { status.text(&mut out) }?;
    Ok(u8::from(status.is_orphaned() || status.is_damaged()))
}

struct Shown {
    tree: Tree,
    state: State,
    /// Lines of the journal that cannot be read.
    damaged: usize,
    /// Damaged journals that an undo or a start has set aside.
    kept: Vec<PathBuf>,
    holder: Option<Holder>,
}

impl Shown {
    /// Whether something is changed and no daemon runs that would put it back.
    fn is_orphaned(&self) -> bool {
        self.holder.is_none() && self.state.open() > 0
    }

    /// Whether there may be unknown changes.
    fn is_damaged(&self) -> bool {
        self.damaged > 0 || !self.kept.is_empty()
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let open = self.state.open();
        match self.holder {
            Some(holder) if holder.is_stopped() => writeln!(
                out,
                "`forebay tune` (process {0}) is stopped: it changes and restores nothing.\n\
                 `kill -CONT {0}` lets it go on.",
                holder.pid
            )?,
            Some(holder) => writeln!(out, "`forebay tune` runs as process {}.", holder.pid)?,
            None if open > 0 => writeln!(
                out,
                "No daemon runs, and a forebay that was killed has left changes.\n\
                 `forebay tune undo` puts them back."
            )?,
            None => writeln!(out, "No daemon uses this journal.")?,
        }
        if self.damaged > 0 {
            let damaged = self.damaged;
            writeln!(out, "The journal is damaged: {damaged} of its lines cannot be read.")?;
        }
        if self.damaged > 0 && self.holder.is_none() {
            writeln!(
                out,
                "`forebay tune undo` restores what can be read, a restart of the machine the rest."
            )?;
        }
        for kept in &self.kept {
            writeln!(out, "A damaged journal was set aside: {}", shown(kept))?;
        }
        if !self.kept.is_empty() {
            writeln!(
                out,
                "What it knew of goes back by a restart of the machine; \
                 `forebay tune undo --forget` leaves it."
            )?;
        }
        writeln!(
            out,
            "{}",
            match (open, self.is_damaged()) {
                (0, false) => "Nothing is changed.",
                (0, true) => "Whether something is changed cannot be told.",
                (_, _) => "Changed:",
            }
        )?;
        for entry in self.state.entries.values() {
            self.entry(out, entry)?;
        }
        for (files, FileEntry { before_kb, kb, why, name, .. }) in self.files() {
            let windows = if files.len() == 1 { "window" } else { "windows" };
            let are = if files.len() == 1 { ["is", "was"] } else { ["are", "were"] };
            let [are, were] = are;
            let name = (!name.is_empty()).then(|| printable(name).to_string());
            match name.or_else(|| self.name(&files)) {
                Some(name) => writeln!(out, "  the readahead {windows} of {name}")?,
                None => writeln!(out, "  the readahead {windows} of {}", Descriptors(&files))?,
            }
            writeln!(out, "    {are} {kb} KiB, {were} {before_kb} KiB, because {why}")?;
        }
        if !self.state.released.is_empty() {
            writeln!(out, "Left alone, because another program has written it:")?;
        }
        for (knob, identity) in &self.state.released {
            writeln!(out, "  {}", Of { knob: *knob, identity: identity.clone() })?;
        }
        Ok(())
    }

    /// Open files with a changed window: descriptors of one file, or of files of one name, with the
    /// same window together.
    fn files(&self) -> Vec<(Vec<OpenFile>, &FileEntry)> {
        let mut all: Vec<(Vec<OpenFile>, &FileEntry)> = Vec::new();
        for entry in self.state.files.values() {
            let file = |entry: &FileEntry| entry.name.is_empty().then_some(entry.file.file);
            let of = |entry: &FileEntry| (file(entry), entry.before_kb, entry.kb);
            let words = |entry: &FileEntry| (entry.why.clone(), entry.name.clone());
            let is_alike =
                |known: &FileEntry| of(known) == of(entry) && words(known) == words(entry);
            match all.iter_mut().find(|(_, known)| is_alike(known)) {
                Some((files, _)) => files.push(entry.file),
                None => all.push((vec![entry.file], entry)),
            }
        }
        all
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
                writeln!(out, "    is {}: another program has written it", show(found))
            }
            None => writeln!(out, "    was set from {before}; its device is gone"),
        }
    }

    /// The path of the first descriptor and the command of its process, while they exist.
    fn name(&self, files: &[OpenFile]) -> Option<String> {
        let first = files.first()?;
        if started(first.pid) != Some(first.started) {
            return None;
        }
        let path = self.tree.link(&format!("/proc/{}/fd/{}", first.pid, first.fd)).ok()?;
        let command = self.tree.text(&format!("/proc/{}/comm", first.pid)).ok()?;
        let more = match files.len() {
            1 => String::new(),
            count => format!(", {count} descriptors"),
        };
        let process = format!("({} {}{more})", printable(command.trim()), first.pid);
        Some(format!("{} {process}", shown(&path)))
    }

    /// The value of a knob; none if its device is gone or another one.
    fn stands(&self, knob: Knob, whose: &Identity) -> Option<Value> {
        // A window that is borrowed at this moment would be shown as another program's.
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
            let FileEntry { file, before_kb, kb, at, why, name, .. } = entry;
            json!({
                "pid": file.pid,
                "fd": file.fd,
                "device": file.file.dev.to_string(),
                "inode": file.file.ino,
                "name": name,
                "before_kb": before_kb,
                "set_kb": kb,
                "at": at,
                "why": why,
            })
        };
        let changes: Vec<_> = self.state.entries.values().map(change).collect();
        let files: Vec<_> = self.state.files.values().map(file).collect();
        let left: Vec<_> = self.state.released.keys().map(ToString::to_string).collect();
        let kept: Vec<_> = self.kept.iter().map(|path| path.to_string_lossy()).collect();
        let object = json!({
            "pid": self.holder.map(|holder| holder.pid),
            "stopped": self.holder.is_some_and(|holder| holder.is_stopped()),
            "changes": changes,
            "files": files,
            "left_alone": left,
            "damaged_lines": self.damaged,
            "damaged_journals": kept,
        });
        writeln!(out, "{object}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use forebay_live::number::{DevNumber, FileKey};

    use super::*;

    #[test]
    fn an_open_file_is_named_by_path_and_command_while_its_process_is_there() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pid = std::process::id();
        let key = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };
        let fd = file.as_raw_fd().unsigned_abs();
        let open = OpenFile { pid, started: started(pid).unwrap(), fd, file: key };
        let (state, kept) = (State::default(), Vec::new());
        let status = Shown { tree: Tree::machine(), state, damaged: 0, kept, holder: None };
        let name = status.name(&[open, open]).unwrap();
        let path = format!("{} (", file.path().display());
        assert!(name.starts_with(&path), "{name}");
        assert!(name.ends_with(&format!(" {pid}, 2 descriptors)")), "{name}");
        let another = OpenFile { started: open.started + 1, ..open };
        assert_eq!(status.name(&[another]), None, "the number is another process's");
    }
}
