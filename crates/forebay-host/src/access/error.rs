//! What can go wrong with a file, and where.

use std::io;
use std::path::PathBuf;

use super::Buffer;

/// An access that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be opened so.
    #[error("cannot open {path}{how}: {error}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The requested mode beyond reading, such as ` past the page cache`.
        how: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// A read past the page cache begins or ends where the device cannot.
    #[error("{what} {value} is no multiple of {align}, as access past the page cache needs")]
    Unaligned {
        /// The offset, the length or the address in memory.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The required alignment, in bytes.
        align: u64,
    },
    /// The file was opened read-only.
    #[error("cannot write at {offset}: the file is open for reading alone")]
    ReadOnly {
        /// Where the write begins, in bytes.
        offset: u64,
    },
    /// A place beyond what a file can have.
    #[error("{len} bytes at {offset} end beyond the largest file")]
    Beyond {
        /// Where the access begins, in bytes.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
    /// As many accesses are in flight as the queue takes.
    #[error("all {depth} places of the queue are taken")]
    Full {
        /// The depth of the queue.
        depth: usize,
    },
    /// The kernel failed the read.
    #[error("cannot read {len} bytes at {offset}: {error}")]
    Read {
        /// Where the read begins, in bytes.
        offset: u64,
        /// The number of bytes.
        len: usize,
        /// Why not.
        error: io::Error,
    },
    /// The kernel failed the write.
    #[error("cannot write {len} bytes at {offset}, {written} are written: {error}")]
    Write {
        /// Where the write begins, in bytes.
        offset: u64,
        /// The number of bytes.
        len: usize,
        /// How many are written.
        written: usize,
        /// Why not all.
        error: io::Error,
    },
    /// Written data may not be durable.
    #[error("cannot sync: {0}")]
    Sync(io::Error),
    /// The worker that carried the access out panicked; a part of a write may be written.
    #[error("the worker panicked that carried out the access at {offset}: {message}")]
    Panicked {
        /// Where the access begins, in bytes.
        offset: u64,
        /// What the worker said.
        message: String,
    },
    /// Worker threads cannot be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(io::Error),
}

/// An access that a queue does not take, and its buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why not.
    pub error: AccessError,
    /// The buffer, untouched.
    pub buffer: Buffer,
}
