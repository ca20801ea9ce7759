//! Why bytes are not delivered.

use std::fmt;

use forebay_image::Error;

use super::image_file::{self, Absent};

/// What is wrong with the image at some place.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// First byte of the image that it is about.
    pub(super) offset: u64,
    pub(super) what: String,
}

/// Why something is not delivered.
#[derive(Clone, Debug)]
pub(super) enum Missed {
    /// It cannot be.
    Fault(Fault),
    /// Part of the image's tree is not in memory, and the caller waits for no device.
    Absent(Absent),
    /// It would take longer than the caller has.
    Slow,
}

/// How long a thread may be busy with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Other requests wait: no device, and no large block.
    Quick,
    /// As long as it takes.
    Patient,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { offset: error.offset().unwrap_or(0), what: error.to_string() }
    }
}

impl From<Fault> for Missed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Error> for Missed {
    fn from(error: Error) -> Self {
        match image_file::absent(&error) {
            Some(absent) => Self::Absent(absent),
            None => Self::Fault(error.into()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
