//! Packed files: a file whose pages are decoded from compressed blocks of a lower file, the image.
//!
//! ```text
//!   packed file   | page | page | page | page | page | page |      decoded pages
//!                    ^      ^             ^ decode on demand
//!   image         |==|=====|===|====|=====|==|                    raw bytes, read in bulk
//! ```
//!
//! A page of it is *absent*, *deferred* (its raw bytes are in memory, it is not decoded) or
//! *ready*. The fill rule says for each demand which raw bytes are read, what is decoded before
//! the asker goes on, and what may be decoded afterwards by a processor that has nothing to do.
//! It says the same to the simulator's engine and to a mounted image.
//!
//! | file | what |
//! | --- | --- |
//! | `eager` | everything that readahead asked for, block by block |
//! | `off` | the demanded pages alone, nothing ahead |
//! | `selective` | raw bytes of the window in bulk, the demanded pages decoded |
//! | `selective_then_idle` | the same, and the likely rest by an idle processor |

use core::fmt;

use crate::policy::{self, Slot};
use crate::units::PageIndex;

mod eager;
mod off;
mod selective;
mod selective_then_idle;

/// A fill rule and its parameters.
pub type Spec = policy::Spec<dyn Fill>;

/// A line of the table of fill rules.
pub type Policy = policy::Policy<dyn Fill>;

/// A run of a file's pages, `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The first page.
    pub start: PageIndex,
    /// The page after the last one.
    pub end: PageIndex,
}

/// What was asked of a packed file, through one open description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The pages whose bytes the asker waits for; never empty.
    pub wanted: Pages,
    /// What readahead would bring in, `wanted` included.
    pub window: Pages,
    /// The pages of the file; a partial last one counts.
    pub file_pages: u64,
    /// The asker copies the bytes out (`read`); a fault maps the page instead.
    pub copied: bool,
    /// The pages were brought in before and deferred, so their raw bytes are most likely here.
    pub deferred: bool,
}

/// What is to be done for a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The pages whose raw bytes are read; they contain `now`.
    pub fetch: Pages,
    /// All raw bytes in as few and as large requests as the device allows, instead of block by
    /// block, each when it is decoded.
    pub bulk: bool,
    /// The pages that are decoded before the asker goes on; they contain the wanted ones.
    pub now: Pages,
    /// The pages that may be decoded afterwards, in this order, by a processor that has nothing to
    /// do; they lie in `fetch`, outside `now`.
    pub later: Pages,
}

/// Decides for one open description what is decoded, and when.
pub trait Fill: fmt::Debug + Send {
    /// What is to be done for a demand.
    fn on_demand(&mut self, demand: &Demand) -> Plan;

    /// Whether the readahead window is asked for at all; otherwise a demand's window is what is
    /// wanted.
    fn reads_ahead(&self) -> bool {
        true
    }
}

impl Pages {
    /// The run from one page up to another, which is not in it.
    pub const fn new(start: PageIndex, end: PageIndex) -> Self {
        Self { start, end }
    }

    /// No page, at a place.
    pub const fn none(at: PageIndex) -> Self {
        Self { start: at, end: at }
    }

    /// The number of pages.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether a page is in it.
    pub const fn contains(self, page: PageIndex) -> bool {
        self.start <= page && page < self.end
    }

    /// Whether all pages of another run are in it.
    pub const fn covers(self, other: Self) -> bool {
        other.is_empty() || self.start <= other.start && other.end <= self.end
    }
}

impl Slot for dyn Fill {
    const NAME: &'static str = "fill";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

/// Every fill rule.
pub static POLICIES: &[Policy] =
    &[eager::POLICY, off::POLICY, selective::POLICY, selective_then_idle::POLICY];
