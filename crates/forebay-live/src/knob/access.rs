//! Knobs through the kernel: what they stand at, and how they are written.

use std::io;

use crate::journal::Entry;

use super::{Identity, Kernel, Knob, Value};

impl Knob {
    /// What it stands at.
    pub fn read(self, kernel: &dyn Kernel) -> io::Result<Value> {
        let number = |value| kernel.number(&self.path(value));
        match self {
            Self::DirtyLimit | Self::DirtyBackground => match number(Value::Bytes(0))? {
                0 => number(Value::Ratio(0)).map(Value::Ratio),
                bytes => Ok(Value::Bytes(bytes)),
            },
            Self::ReadAheadKb(_)
            | Self::StrictLimit(_)
            | Self::MaxRatioFine(_)
            | Self::MaxRatio(_)
            | Self::WbtLatUsec(_)
            | Self::DirtyExpire => number(Value::Number(0)).map(Value::Number),
        }
    }
}

/// Writes what has to be written for a knob to have this value.
pub(crate) fn write_knob(kernel: &dyn Kernel, knob: Knob, to: Value) -> io::Result<()> {
    knob.writes(to).into_iter().try_for_each(|(path, number)| kernel.write(&path, number))
}

/// What the knob of an entry stands at; none if its device is gone or another one.
pub(crate) fn stands(kernel: &dyn Kernel, entry: &Entry) -> io::Result<Option<Value>> {
    Ok(stands_with(kernel, entry)?.map(|(_, found)| found))
}

/// The same with what the knob belongs to at present, which may have another medium in it.
pub(crate) fn stands_with(
    kernel: &dyn Kernel,
    entry: &Entry,
) -> io::Result<Option<(Identity, Value)>> {
    let present = entry.identity.again(entry.knob, kernel);
    let here = present.and_then(|present| Ok((present, entry.knob.read(kernel)?)));
    match here {
        Ok((present, found)) => Ok(present.is_same(&entry.identity).then_some((present, found))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether what a path names is not there, or went away while it was looked at.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();
    matches!(error.kind(), io::ErrorKind::NotFound) || error.raw_os_error() == Some(ENODEV)
}
