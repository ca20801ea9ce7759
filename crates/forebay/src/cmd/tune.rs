//! `forebay tune`: tunes the running kernel, and shows and undoes the changes.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use forebay_live::journal::{
    Folder, FolderError, Found, JOURNAL_FILE, JournalError, LockError, State,
};
use forebay_live::knob::{Identity, Knob, Of, Patience, StartError, boot, turn};
use forebay_live::number::DevNumber;
use forebay_live::tree::Tree;
use forebay_report::messages::{Complaint, shown};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::args::tune::{Place, Tune, Undo, What};

mod log;
mod recommend;
mod run;
mod status;
mod undo;

/// Tunes, or runs a subcommand.
pub(crate) fn run(arguments: &Tune) -> Result<u8> {
    match &arguments.what {
        Some(What::Status(arguments)) => status::run(arguments),
        Some(What::Undo(arguments)) => undo(arguments, &Tuned::default()),
        Some(What::Log(arguments)) => log::run(arguments),
        Some(What::Recommend(arguments)) => recommend::run(arguments),
        None => run::run(&arguments.steer),
    }
}

/// Restores what a journal records, but for knobs that are tuned.
pub(crate) fn undo(arguments: &Undo, tuned: &Tuned) -> Result<u8> {
    undo::run(arguments, tuned)
}

/// The knobs that `forebay tune` has changed and not restored.
#[derive(Debug, Default)]
pub(crate) struct Tuned(State);

impl Tuned {
    /// By the journal in a folder.
    pub(crate) fn read(state: &Path, tree: &Tree) -> Result<Self> {
        let Some(folder) = folder(state)? else { return Ok(Self::default()) };
        // A window that is borrowed for a moment is in the journal too, until it is given back.
        let _turn = turn(tree, Patience::Short).ok();
        Ok(Self(recorded(&folder, &boot(tree)?)?.state))
    }

    /// Whether a knob is among them.
    pub(crate) fn has(&self, knob: Knob, identity: &Identity) -> bool {
        self.0.entries.get(&knob).is_some_and(|entry| entry.identity.is_same(identity))
    }
}

/// Why a knob stays as it is.
pub(crate) fn tuned_complaint(of: &Of, then: &str) -> Complaint {
    let hint = format!("`forebay tune undo` ends it and restores its changes; {then}");
    Complaint::new(format!("{of} is changed by `forebay tune`, and stays as it is")).hint(hint)
}

/// Why no change can be made; `held` is the hint where another process has the lock.
pub(crate) fn start_complaint(error: &StartError, state: &Path, held: &str) -> Complaint {
    let complaint = Complaint::new(error.to_string());
    match error {
        StartError::Lock(LockError::Held(_)) => complaint.hint(held),
        StartError::Lock(LockError::Io(source)) => {
            complaint.at(&shown(state)).hint(other_folder(source))
        }
        StartError::Folder(FolderError::Io { source, .. }) | StartError::NoJournal(source) => {
            complaint.hint(other_folder(source))
        }
        StartError::Folder(FolderError::Unsafe { .. }) => complaint.hint(UNSAFE),
        StartError::Boot(_) => complaint.hint("mount -t proc proc /proc"),
        StartError::Journal(error) => unusable(error, state),
    }
}

fn other_folder(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        "root can; nothing was changed"
    } else {
        "nothing was changed; --state DIR takes another folder"
    }
}

/// Why the journal of a folder cannot be used.
fn unusable(error: &JournalError, state: &Path) -> Complaint {
    let hint = match error {
        JournalError::Unread(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            "only root can read it"
        }
        JournalError::Unread(_) => {
            "look at it first: to remove it gives up the changes that it records, which a restart \
             of the machine undoes"
        }
        JournalError::Version { .. } => {
            "the forebay that wrote it can undo it, and so can a restart of the machine; to remove \
             it gives up the changes that it records, so look at it first"
        }
    };
    Complaint::new(error.to_string()).at(&shown(&state.join(JOURNAL_FILE))).hint(hint)
}

/// The journal of a folder; empty if it is of an earlier start of the machine.
fn recorded(folder: &Folder, boot: &str) -> Result<Found> {
    let found = Found::read(folder).map_err(|error| unusable(&error, folder.path()))?;
    let is_other_boot = found.head.as_ref().is_some_and(|head| head.boot != boot);
    Ok(if is_other_boot { Found::default() } else { found })
}

/// Whether the knobs of a backing device may be written; nothing is.
pub(crate) fn knob_access(tree: &Tree, number: DevNumber) -> Result<(), Errno> {
    access(tree.place(&format!("/sys/class/bdi/{number}/read_ahead_kb")), Access::WRITE_OK)
}

/// The machine that was typed.
fn tree(place: &Place) -> Result<Tree> {
    match &place.root {
        Some(root) => Tree::recorded(root).map_err(|error| anyhow!("--root: {error}")),
        None => Ok(Tree::machine()),
    }
}

/// The folder that was typed; none if it is not there, so that nothing was ever changed.
fn folder(state: &Path) -> Result<Option<Folder>> {
    match Folder::at(state) {
        Ok(folder) => Ok(Some(folder)),
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error @ FolderError::Unsafe { .. }) => {
            Err(Complaint::new(error.to_string()).at("--state").hint(UNSAFE).into())
        }
        Err(FolderError::Io { path, source }) => {
            Err(source).with_context(|| format!("--state: {}", shown(&path)))
        }
    }
}

/// The way out of a folder that other users can write to.
const UNSAFE: &str = "a writable journal lets its writer set any knob as root; chmod go-w makes \
                      the folder safe";

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that may not be opened, or is a pipe, was said to be another process's.
    #[test]
    fn only_a_lock_that_is_held_has_a_holder() {
        let said = |error| {
            let error = StartError::Lock(error);
            start_complaint(&error, Path::new("/run/x"), "it is another's").to_string()
        };
        assert!(said(LockError::Held(None)).ends_with("\nhint: it is another's"));
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "denied");
        let root = "/run/x: cannot lock: denied\nhint: root can; nothing was changed";
        assert_eq!(said(LockError::Io(denied)), root);
        let pipe = io::Error::other("it is a pipe");
        assert!(said(LockError::Io(pipe)).ends_with("--state DIR takes another folder"));
    }
}
