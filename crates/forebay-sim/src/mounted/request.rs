//! A request to the path of the core: what it answers, the jobs it makes, what it copies.

use forebay_core::io::{self, Decode, IoError};
use forebay_core::packed::{Plan, RawBytes};
use forebay_core::serving::work::QUICK_BYTES;
use forebay_core::serving::{PackedBlock, ReadCall};
use forebay_core::time::Instant;
use forebay_core::units::FrameId;

/// A READ that is answered in full.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) number: u32,
    pub(super) call: ReadCall,
    pub(super) bytes: (u64, u64),
    pub(super) plan: Option<Plan>,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Symbol {
    /// Nothing that is known.
    Nothing,
    /// A page of the image.
    Raw(u64),
    /// A page of what a block decodes to.
    Decoded(PackedBlock, u64),
}

/// Bytes of a request's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) symbol: Symbol,
    /// The first byte's place in its page.
    pub(super) start: u64,
}

/// A request in flight, or a free place for one.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) copied: Vec<Copied>,
    pub(super) raw: RawBytes,
    pub(super) then: Then,
    pub(super) waited: bool,
}

/// What follows the end of a request.
#[derive(Debug)]
pub(super) enum Then {
    /// Nothing.
    Drop,
    /// A thread waits for it.
    Wait(usize, Option<Result<(), IoError>>),
    /// It goes to whichever thread finishes it.
    Hand(Box<Read>),
}

/// The results of some inputs.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) ended: Vec<Ended>,
    pub(super) jobs: Vec<Job>,
}

/// A request that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) read: Box<Read>,
    pub(super) copied: Vec<Copied>,
    pub(super) result: Result<(), IoError>,
    pub(super) raw: RawBytes,
    pub(super) waited: bool,
}

/// Work for a thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Pages of the image are read; it began at this time.
    Read(io::Request, Instant),
    /// A block is decoded into frames, by their places in the block.
    Decode { decode: Decode, block: PackedBlock, upto: u64, filled: Vec<(u64, FrameId)> },
}

/// An executed job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) result: Result<(), IoError>,
    /// A device was waited for.
    pub(super) waited: bool,
}

impl Job {
    /// Whether it takes no longer than handing it to another thread.
    pub(super) const fn is_quick(&self) -> bool {
        match self {
            Self::Read(..) => false,
            Self::Decode { upto, .. } => *upto <= QUICK_BYTES,
        }
    }
}

impl Slot {
    pub(super) const fn new() -> Self {
        let raw = RawBytes { start: 0, end: 0 };
        Self { copied: Vec::new(), raw, then: Then::Drop, waited: false }
    }
}
