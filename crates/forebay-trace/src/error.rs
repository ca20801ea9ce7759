//! What can be wrong with a trace, and where.

use std::fmt;
use std::io;

use crate::format::Format;

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The bytes could not be read, or not be decompressed.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// A line or record is not what the format says, and no more of them are skipped.
    #[error("{place}: {fault}")]
    Bad {
        /// Where it is.
        place: Place,
        /// The error.
        fault: Fault,
    },
    /// A record is not what the format says, and where the next one begins cannot be known.
    #[error("{place}: {fault}")]
    Lost {
        /// Where it is.
        place: Place,
        /// The error.
        fault: Fault,
    },
    /// No format matches the first bytes.
    #[error("the format of the trace is not recognized: {found}")]
    UnknownFormat {
        /// The beginning of the file.
        found: String,
    },
    /// The trace has no request.
    #[error("the trace has no request that {format} could read ({read} lines or records)")]
    NoRequests {
        /// The format.
        format: Format,
        /// Lines or records that were read.
        read: u64,
    },
    /// Requests lie further out of order than the sort window is long.
    #[error(
        "{place}: the clock ran back by {back} ns, past {window} requests that were held back to \
         sort them"
    )]
    Unsorted {
        /// Where it is.
        place: Place,
        /// By how much.
        back: u64,
        /// Requests that were held back.
        window: usize,
    },
}

/// Where something is in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from one.
    Line(u64),
    /// A record that begins at a byte, counted from zero.
    Byte(u64),
}

/// An error in a line or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: &'static str,
    /// The expected text.
    pub expected: &'static str,
    /// The text found, shortened.
    pub found: String,
}

impl Fault {
    /// A field that has something else in it.
    #[cold]
    pub(crate) fn new(field: &'static str, expected: &'static str, found: &[u8]) -> Self {
        const SHOWN_MAX: usize = 40;
        let mut shown = String::from_utf8_lossy(&found[..found.len().min(SHOWN_MAX)]).into_owned();
        if found.len() > SHOWN_MAX {
            shown.push_str("...");
        }
        Self { field, expected, found: shown.replace(char::is_control, "\u{fffd}") }
    }

    /// A number that cannot be.
    #[cold]
    pub(crate) fn number(field: &'static str, expected: &'static str, found: u64) -> Self {
        Self { field, expected, found: found.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, expected, found } = self;
        if found.is_empty() {
            write!(f, "{field}: expected {expected}, found nothing")
        } else {
            write!(f, "{field}: expected {expected}, found '{found}'")
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}
