//! A window for a moment: what is told in between latches it, and the device has its own again.
//!
//! A file that is opened in between latches it too, so the moment is kept short. It is one intent
//! in the journal: a crash in between leaves an open change, which the next undo takes back.

use std::io;

use crate::journal::{Entry, Journal, Record, now};

use super::access::write_knob;
use super::{Identity, Kernel, Knob, Turn, Value};

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

/// Where the window of a moment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From us: nothing is written that is not on record.
    There,
    /// From before us. A journal without room must not keep what is ours in force, so it goes on
    /// without the record: only a kill within this moment could leave the device with it.
    Back,
}

/// A window that a device has for a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    /// Which device's.
    pub(crate) bdi: Knob,
    /// What it stands at meanwhile.
    pub(crate) to: Value,
    /// Why.
    pub(crate) why: &'a str,
    /// Where the window comes from.
    pub(crate) way: Way,
}

/// Has the window of a device stand at another value while `act` runs, within a turn. What cannot
/// be restored afterwards stays open in the journal, and is restored by the next look at the
/// knob.
pub(crate) fn brief<T>(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    turn: &Turn,
    moment: &Moment<'_>,
    act: impl FnOnce(&dyn Kernel) -> T,
) -> Result<T, BriefError> {
    let Moment { bdi, to, why, way } = *moment;
    let failed = |source| BriefError::Knob { path: bdi.path(to), source };
    let present = bdi.read(kernel).map_err(failed)?;
    if present == to {
        return Ok(act(kernel));
    }
    let base = match journal.state().entries.get(&bdi) {
        Some(entry) => Entry { last: present, ..entry.clone() },
        None => Entry {
            knob: bdi,
            identity: Identity::of(bdi, kernel).map_err(failed)?,
            before: present,
            last: present,
            asked: None,
            reasserted: 0,
            at: now(),
            why: why.to_owned(),
        },
    };
    let intent = Entry { asked: Some(to), ..base.clone() };
    match (journal.promise(Record::Intent(intent.clone())), way) {
        (Ok(()), Way::There | Way::Back) => {}
        (Err(error), Way::There) => return Err(BriefError::Journal(error)),
        // This process still knows, should the window not go back.
        (Err(_), Way::Back) => journal.tell(Record::Intent(intent.clone())),
    }
    // For daemons with another journal; without room for it, ours is enough.
    let _ = turn.note(&intent);
    let written = write_knob(kernel, bdi, to);
    let result = written.map(|()| act(kernel)).map_err(failed);
    if put_back(kernel, journal, base, to) {
        turn.clear();
    }
    result
}

/// Ends a brief window: what stood there before stands there again, unless another program
/// has written meanwhile, which the next look will find. False if it could not be restored.
pub(super) fn put_back(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    base: Entry,
    asked: Value,
) -> bool {
    let (bdi, present) = (base.knob, base.last);
    let Ok(found) = bdi.read(kernel) else { return false };
    if found != present && bdi.is_made_of(found, asked) {
        let back = write_knob(kernel, bdi, present).and_then(|()| bdi.read(kernel));
        if back.ok() != Some(present) {
            return false;
        }
    }
    let is_back = base.last == base.before;
    let done = Entry { asked: None, ..base };
    journal.tell(if is_back { Record::Closed(bdi) } else { Record::Done(done) });
    true
}
