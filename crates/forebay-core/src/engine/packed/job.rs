//! A job: what a fill rule has planned for a call, and how far it has come.

use crate::io::IoError;
use crate::packed::{Block, Plan};
use crate::units::{FileId, PageIndex};

/// What a call has to do before it looks at its page again.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Job {
    pub(super) file: FileId,
    /// The index of the file in the table.
    pub(super) place: usize,
    pub(super) plan: Plan,
    /// The current page of the call; other pages follow as memory and device allow.
    pub(super) wanted: Option<PageIndex>,
    pub(super) step: Step,
    /// The next page to be decoded.
    pub(super) at: PageIndex,
    /// The page of the image that the call waits for.
    pub(super) asked: Option<PageIndex>,
    /// Requests are of one page, since a larger one has failed.
    pub(super) alone: bool,
    /// Why a page of the image could not go into a buffer.
    pub(super) error: Option<IoError>,
    /// How often raw bytes of the block had to be read.
    pub(super) reads: u32,
    /// Pages of the image, from the first one that is wanted on, that were looked at and need not
    /// stay.
    pub(super) seen: u64,
    /// Pages of the image, from the block's first one on, that stay until it is decoded.
    pub(super) held: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The pointer words of all that is fetched are read.
    Pointers,
    /// The raw bytes of all that is fetched are sent for.
    Raw,
    /// The next block is looked for.
    Next,
    /// The pointer words of the block are read.
    BlockPointers,
    /// Its raw bytes are read, and it is decoded.
    BlockRaw,
    Decoding,
}

impl Job {
    pub(super) fn new(file: FileId, place: usize, plan: Plan, wanted: Option<PageIndex>) -> Self {
        let step = if plan.bulk { Step::Pointers } else { Step::Next };
        Self {
            file,
            place,
            plan,
            wanted,
            step,
            at: plan.now.start,
            asked: None,
            alone: false,
            error: None,
            reads: 0,
            seen: 0,
            held: 0,
        }
    }

    /// Whether the call cannot continue without a block.
    pub(super) fn needs(&self, block: &Block) -> bool {
        self.wanted.is_some_and(|page| block.pages.contains(page))
    }
}
