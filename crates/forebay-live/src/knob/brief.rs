//! A window for a moment: what is told in between latches it, and the device has its own again.
//!
//! Whoever opens a file in between latches it too, so the moment is kept short. It is one intent in
//! the journal: a crash in between leaves an open change, which the next undo takes back.

use std::io;

use crate::journal::{Entry, Journal, Record};
use crate::undo::write;

use super::{Identity, Kernel, Knob, Value};

/// Why there was no such moment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BriefError {
    /// The knob could not be read or written.
    #[error("{path}: {source}")]
    Knob {
        /// Its file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It could not be put on record.
    #[error("the journal cannot be written, so nothing was changed: {0}")]
    Journal(io::Error),
}

/// Has the window of a device stand at `to` while `act` runs.
pub(crate) fn brief<T>(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    bdi: Knob,
    to: Value,
    why: &str,
    act: impl FnOnce(&dyn Kernel) -> T,
) -> Result<T, BriefError> {
    let failed = |source| BriefError::Knob { path: bdi.path(to), source };
    let present = bdi.read(kernel).map_err(failed)?;
    if present == to {
        return Ok(act(kernel));
    }
    let base = match journal.state().entries.get(&bdi) {
        Some(entry) => entry.clone(),
        None => Entry {
            knob: bdi,
            identity: Identity::of(bdi, kernel).map_err(failed)?,
            before: present,
            last: present,
            asked: None,
            reasserted: 0,
            at: 0,
            why: why.to_owned(),
        },
    };
    let intent = Entry { last: present, asked: Some(to), ..base.clone() };
    journal.promise(Record::Intent(intent)).map_err(BriefError::Journal)?;
    let written = write(kernel, bdi, to);
    let result = written.is_ok().then(|| act(kernel));
    let found = bdi.read(kernel).map_err(failed)?;
    if found != present && bdi.is_made_of(found, to) {
        write(kernel, bdi, present).map_err(failed)?;
    }
    if bdi.read(kernel).map_err(failed)? == present || !bdi.is_made_of(found, to) {
        // Somebody else's value in between stays, and whoever looks next will find it.
        journal.tell(match base.last == base.before && base.asked.is_none() {
            true => Record::Closed(bdi),
            false => Record::Done(Entry { last: present, asked: None, ..base }),
        });
    }
    match (result, written) {
        (Some(result), _) => Ok(result),
        (None, Err(source)) => Err(failed(source)),
        (None, Ok(())) => unreachable!("what was written has a result"),
    }
}
