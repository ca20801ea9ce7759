//! What went wrong during a run, and where.

use std::io;

use forebay_core::io::IoError;
use forebay_core::units::FileId;
use thiserror::Error;

/// Something that went wrong, with its place.
#[derive(Debug, Error)]
#[error("file {} at byte {offset}: {cause}", .file.0)]
pub struct Failure {
    /// The file.
    pub file: FileId,
    /// The place in the file.
    pub offset: u64,
    /// The cause.
    pub cause: Cause,
}

/// What can go wrong.
#[derive(Debug, Error)]
pub enum Cause {
    /// The backend reported an error.
    #[error("reading {len} bytes failed: {error}")]
    Read {
        /// The requested bytes.
        len: u64,
        /// The reported error.
        error: io::Error,
    },
    /// The backend did not accept a write.
    #[error("writing {len} bytes failed: {error}")]
    Write {
        /// The bytes that were to be written.
        len: u64,
        /// The reported error.
        error: io::Error,
    },
    /// The backend could not sync its data to disk.
    #[error("bringing writes to disk failed: {error}")]
    Sync {
        /// The reported error.
        error: io::Error,
    },
    /// After the run, the file does not hold a byte that was written.
    #[error("the file holds {found:#04x} instead of {expected:#04x}, which was written")]
    Lost {
        /// The byte that was written.
        expected: u8,
        /// The byte in the file.
        found: u8,
    },
    /// The file ended before its length at opening.
    #[error("the file was cut short: {found} of {len} bytes are left there")]
    Truncated {
        /// The requested bytes.
        len: u64,
        /// The bytes that came.
        found: u64,
    },
    /// The backend panicked.
    #[error("the backend panicked: {message}")]
    Panicked {
        /// Its message.
        message: String,
    },
    /// A call delivered less than the file holds although no request had failed.
    #[error("a read delivered {found} of {len} bytes")]
    Short {
        /// The bytes that were to come.
        len: u64,
        /// The bytes that came.
        found: u64,
    },
    /// A call delivered a byte that the file does not hold.
    #[error("a read delivered {found:#04x} instead of {expected:#04x}")]
    Mismatch {
        /// The byte in the file.
        expected: u8,
        /// The byte that was delivered.
        found: u8,
    },
    /// What a call delivered could not be verified.
    #[error("nothing to compare with: {error}")]
    Unverified {
        /// Why the file could not be read a second time.
        error: io::Error,
    },
}

impl Cause {
    /// The error of a failed request for the engine.
    pub(crate) fn io_error(&self) -> IoError {
        match self {
            Self::Truncated { .. } => IoError::Truncated,
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Sync { .. }
            | Self::Lost { .. }
            | Self::Panicked { .. }
            | Self::Short { .. }
            | Self::Mismatch { .. }
            | Self::Unverified { .. } => IoError::Device,
        }
    }
}
