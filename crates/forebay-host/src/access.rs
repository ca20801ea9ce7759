//! A file's bytes by the way that costs least: on the spot, by worker threads, or by io_uring.
//!
//! [`File`] reads and writes one access at a time, [`Queue`] keeps many in flight. Both accept the
//! same [`Mode`]s. [`run`](crate::run) has its own page memory and policies; these types use the
//! kernel's page cache, or bypass it.
//!
//! ```text
//!   mode        one access at a time (File)         many in flight (Queue)
//!   inline      pread                               preadv2(RWF_NOWAIT), if nothing is there pread
//!   deferred    a worker thread                     as many workers as accesses
//!   uring       io_uring, asleep meanwhile          io_uring, one enter for many
//!   spin        io_uring, looking for the end       the same, looking for the end
//!   adaptive    pread while bytes are in memory;    io_uring; looking or asleep by the rule
//!               else pread or spin by the rule      `adaptive` of the core
//! ```
//!
//! Without io_uring, the modes that use it use worker threads, and `adaptive` with one access at a
//! time uses `pread` and `pwrite`; [`File::note`] says so. Adaptive buffered writes always use
//! `pwrite`. A worker that panics fails only its access.
//!
//! ```
//! use forebay_host::access::{File, Mode, Options, Queue};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("file");
//! # std::fs::write(&path, [])?;
//! let file = File::open(&path, Options { write: true, ..Options::default() })?;
//! assert_eq!(file.mode(), Mode::Adaptive);
//! if let Some(note) = file.note() {
//!     eprintln!("note: {note}");
//! }
//!
//! // One at a time.
//! file.write_at(b"water behind the dam", 0)?;
//! file.sync()?;
//! let mut bytes = [0; 5];
//! assert_eq!(file.read_at(&mut bytes, 0)?, 5);
//! assert_eq!(&bytes, b"water");
//!
//! // Many at a time; they end in any order, and a token tells them apart.
//! let mut queue = Queue::new(&file, 4)?;
//! for token in 0..4 {
//!     let buffer = queue.buffer(5);
//!     queue.read(token * 5, buffer, token)?;
//! }
//! let mut read = [0; 20];
//! while let Some(done) = queue.wait() {
//!     let at = done.token as usize * 5;
//!     read[at..at + done.result?].copy_from_slice(&done.buffer);
//!     queue.recycle(done.buffer);
//! }
//! assert_eq!(&read, b"water behind the dam");
//! # Ok(())
//! # }
//! ```

use crate::{uring, workers};
pub use buffer::Buffer;
pub use error::{AccessError, Refused};
pub use file::File;
pub use queue::{Completion, DEPTH_MAX, Queue};

mod buffer;
mod error;
mod file;
mod judge;
mod medium;
mod plain;
mod queue;

/// Whether this thread may use io_uring: a ring is made and entered once, and goes with the thread.
///
/// # Errors
/// The kernel has no io_uring, or forbids it.
pub fn has_uring() -> std::io::Result<()> {
    uring::with_own(|ring| match ring {
        Ok(_) => Ok(()),
        Err(refused) => Err(refused
            .raw_os_error()
            .map_or_else(|| refused.kind().into(), std::io::Error::from_raw_os_error)),
    })
}

/// How accesses are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By the caller, on the spot.
    Inline,
    /// By worker threads.
    Deferred,
    /// By io_uring; the waiter sleeps.
    Uring,
    /// By io_uring; the waiter polls for the end and keeps its processor.
    Spin,
    /// By the class of each access, and how long others of its class took.
    #[default]
    Adaptive,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 5] =
        [Self::Inline, Self::Deferred, Self::Uring, Self::Spin, Self::Adaptive];

    /// What a user types.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Deferred => "deferred",
            Self::Uring => "uring",
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
        }
    }

    fn uses_ring(self) -> bool {
        matches!(self, Self::Uring | Self::Spin | Self::Adaptive)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How accesses are executed.
    pub mode: Mode,
    /// Past the page cache (`O_DIRECT`): offsets, lengths and buffers have to be aligned.
    pub direct: bool,
    /// Also for writing.
    pub write: bool,
    /// Places will be random, so the kernel reads nothing ahead.
    pub random: bool,
    /// Use io_uring if the kernel lets us; without it all is as if the kernel forbade it.
    pub uring: bool,
}

impl Default for Options {
    /// Adaptive, with the page cache, read-only.
    fn default() -> Self {
        Self { mode: Mode::Adaptive, direct: false, write: false, random: false, uring: true }
    }
}

/// One access in flight.
#[derive(Debug)]
struct Order {
    write: bool,
    offset: u64,
    buffer: Buffer,
    token: u64,
}

/// Threads that carry orders out.
type Workers = workers::Workers<Order, Result<usize, AccessError>>;

/// An executed order.
type Finish = workers::Finish<Order, Result<usize, AccessError>>;

/// The most threads of one file or queue: beyond it devices have enough to choose from.
const WORKERS_MAX: usize = 64;
