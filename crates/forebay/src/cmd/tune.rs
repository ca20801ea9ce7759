//! `forebay tune`: tunes the running kernel, and shows and undoes the changes.

use std::io;

use anyhow::{Context, Result, anyhow};
use forebay_live::journal::{Folder, FolderError};
use forebay_live::number::DevNumber;
use forebay_live::tree::Tree;
use forebay_report::messages::{Complaint, shown};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::args::tune::{Place, Tune, What};

mod log;
mod recommend;
mod run;
mod status;
mod undo;

/// Tunes, or runs a subcommand.
pub(crate) fn run(arguments: &Tune) -> Result<u8> {
    match &arguments.what {
        Some(what) => perform(what),
        None => run::run(&arguments.steer),
    }
}

/// Runs a subcommand.
pub(crate) fn perform(what: &What) -> Result<u8> {
    match what {
        What::Status(arguments) => status::run(arguments),
        What::Undo(arguments) => undo::run(arguments),
        What::Log(arguments) => log::run(arguments),
        What::Recommend(arguments) => recommend::run(arguments),
    }
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
fn folder(place: &Place) -> Result<Option<Folder>> {
    match Folder::at(&place.state) {
        Ok(folder) => Ok(Some(folder)),
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error @ FolderError::Unsafe { .. }) => {
            let hint = "a writable journal lets its writer set any knob as root; \
                        chmod go-w makes the folder safe";
            Err(Complaint::new(error.to_string()).at("--state").hint(hint).into())
        }
        Err(FolderError::Io { path, source }) => {
            Err(source).with_context(|| format!("--state: {}", shown(&path)))
        }
    }
}
