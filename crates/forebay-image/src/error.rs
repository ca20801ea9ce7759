//! What can be wrong with an image, and where.

use std::io;

/// A result with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an image, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the image failed.
    #[error("reading {len} bytes at byte {offset} of the image: {source}")]
    Read {
        /// First byte, from the image's beginning.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The image ends before its stated length.
    #[error("the image is truncated: it says {expected} bytes and has {found}")]
    Truncated {
        /// What the image says, in bytes.
        expected: u64,
        /// The existing length, in bytes.
        found: u64,
    },
    /// No known format begins like this.
    #[error("not an image of a known format: {found}")]
    Unknown {
        /// The bytes found instead.
        found: String,
    },
    /// A feature that is known and not supported.
    #[error("{what}, at byte {offset} of the image, is not supported")]
    Unsupported {
        /// Its name.
        what: String,
        /// The position of the statement.
        offset: u64,
    },
    /// A field has an invalid value.
    #[error("{field} at byte {offset} of the image: {found}")]
    Field {
        /// The field, in words.
        field: &'static str,
        /// First byte of the field.
        offset: u64,
        /// The error in its value.
        found: String,
    },
    /// A block cannot be decoded.
    #[error("block at byte {offset} of the image ({len} raw bytes): {why}")]
    Block {
        /// First raw byte.
        offset: u64,
        /// Number of raw bytes.
        len: u64,
        /// The error.
        why: String,
    },
}

impl Error {
    /// A field with an invalid value.
    pub(crate) fn field(field: &'static str, offset: u64, found: impl Into<String>) -> Self {
        Self::Field { field, offset, found: found.into() }
    }

    /// The first byte of the image that it is about, if it is about one.
    pub const fn offset(&self) -> Option<u64> {
        match self {
            Self::Read { offset, .. }
            | Self::Unsupported { offset, .. }
            | Self::Field { offset, .. }
            | Self::Block { offset, .. } => Some(*offset),
            Self::Truncated { .. } | Self::Unknown { .. } => None,
        }
    }
}
