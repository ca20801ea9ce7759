//! Packed files: a file whose pages are decoded from compressed blocks of a lower file, the image.
//!
//! ```text
//!   packed file   | page | page | page | page | page | page |      decoded pages
//!                    ^      ^             ^ decode on demand
//!   image         |==|=====|===|====|=====|==|                    raw bytes, read in bulk
//! ```
//!
//! A page of it is *absent*, *deferred* (its raw bytes were read, it is not decoded) or *ready*.
//! For each demand the fill rule says which raw bytes are read, what is decoded before the caller
//! continues, and what an idle processor may decode afterwards. The simulator's engine and a
//! mounted image use the same rule.
//!
//! ```text
//!             the window came, the page was not wanted
//!   absent ------------------------------------------> deferred
//!     |  ^                                                | a demand for it, or an idle processor
//!     |  +--- evicted --- ready <--- decoded -------------+
//!     +--- a demand for it ---^
//! ```
//!
//! Where the blocks of a file lie is a [`BlockMap`]'s business: pages, raw bytes, and the pointer
//! words that say so and have to be read first. A block of several pages is decoded from its front
//! to the last page that is wanted; the pages on the way are by-catch and become ready too.
//!
//! | file | what |
//! | --- | --- |
//! | `eager` | the whole window of readahead, block by block |
//! | `off` | only the demanded pages, no readahead |
//! | `selective` | raw bytes of the window in bulk, the demanded pages decoded |
//! | `selective_then_idle` | the same, and likely pages on an idle processor |

use core::fmt;

use crate::policy::{self, Slot};
use crate::units::{PAGE_SIZE, PageIndex};

pub(crate) mod buffers;
#[cfg(test)]
mod conformance;
mod eager;
mod flags;
mod off;
mod selective;
mod selective_then_idle;
#[cfg(test)]
mod tests;

pub(crate) use flags::Flags;

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

/// A demand for pages of a packed file, through one open description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The pages whose bytes the caller waits for. None if readahead reads a window ahead of its
    /// reader, or on `POSIX_FADV_WILLNEED`; they then lie at the start of the window.
    pub wanted: Pages,
    /// The window of readahead, including `wanted`.
    pub window: Pages,
    /// The pages of the file; a partial last one counts.
    pub file_pages: u64,
    /// The caller copies the bytes out (`read`); a fault maps the page instead.
    pub copied: bool,
    /// The pages were read before and deferred, so their raw bytes are most likely cached.
    pub deferred: bool,
}

/// The work for a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The pages whose raw bytes are read; they contain `now`.
    pub fetch: Pages,
    /// All raw bytes in as few and as large requests as the device allows, instead of block by
    /// block, each when it is decoded.
    pub bulk: bool,
    /// The pages that are decoded before the caller continues; they contain the wanted ones.
    pub now: Pages,
    /// The pages that may be decoded afterwards, in this order, by a processor that has nothing to
    /// do; they lie in `fetch`, outside `now`.
    pub later: Pages,
}

/// Decides for one open description what is decoded, and when.
pub trait Fill: fmt::Debug + Send {
    /// The work for a demand. A plan that contains too little or too much is widened or narrowed by
    /// [`Plan::fitted`].
    fn on_demand(&mut self, demand: &Demand) -> Plan;

    /// Which side reads ahead under this rule. Under [`Ahead::Ours`] no window is requested: the
    /// window of a demand is its wanted pages.
    fn ahead(&self) -> Ahead {
        Ahead::Kernel
    }
}

/// What reads ahead of a task that reads a packed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Readahead, and the rule decodes or defers its windows: nothing is pushed.
    Kernel,
    /// Readahead for files that are read. For files that are mapped its windows are deferred, and
    /// pages are pushed.
    Both,
    /// Only the rule.
    Ours,
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

    /// The pages that are also in another run.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        let start = if self.start > other.start { self.start } else { other.start };
        let end = if self.end < other.end { self.end } else { other.end };
        if start < end { Self { start, end } } else { Self::none(start) }
    }

    /// The least run that has all pages of this and of another one.
    #[must_use]
    pub const fn hull(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let start = if self.start < other.start { self.start } else { other.start };
        let end = if self.end > other.end { self.end } else { other.end };
        Self { start, end }
    }

    /// Whether all pages of another run are in it.
    pub const fn covers(self, other: Self) -> bool {
        other.is_empty() || self.start <= other.start && other.end <= self.end
    }
}

impl Plan {
    /// The plan as it can be executed for a demand: the pages read lie in the window and contain
    /// all decoded pages, and the wanted pages are decoded at once.
    #[must_use]
    pub const fn fitted(self, demand: &Demand) -> Self {
        let now = self.now.hull(demand.wanted).within(demand.window.hull(demand.wanted));
        let fetch = self.fetch.within(demand.window).hull(now);
        let later = self.later.within(fetch);
        Self { fetch, bulk: self.bulk, now, later }
    }
}

/// Bytes of the image, `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawBytes {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl RawBytes {
    /// The number of bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The pages of the image that hold them, whole or in part.
    pub const fn pages(self) -> Pages {
        let first = self.start / PAGE_SIZE;
        if self.is_empty() {
            return Pages::none(first);
        }
        Pages::new(first, (self.end - 1) / PAGE_SIZE + 1)
    }
}

/// How raw bytes become pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// There are no raw bytes: all is zero.
    Hole,
    /// The raw bytes are the content.
    Stored,
    /// They have to be decoded, from the front.
    Packed,
}

/// A run of a file's pages that are decoded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The pages; never empty.
    pub pages: Pages,
    /// The raw bytes of its pages; empty for a hole.
    pub raw: RawBytes,
    /// How.
    pub coding: Coding,
}

/// The positions of the blocks of a packed file in its image; they never change.
pub trait BlockMap: fmt::Debug + Send {
    /// The bytes of the file.
    fn bytes(&self) -> u64;

    /// The block that holds a page of the file.
    fn block(&self, page: PageIndex) -> Block;

    /// The pointer words that say where the blocks of some pages lie, at least one; empty if that
    /// is known without reading.
    fn pointers(&self, pages: Pages) -> RawBytes;

    /// Raw bytes that are read block by block go through two buffers of four pages each, which all
    /// files of the image share, as cramfs has them.
    fn two_buffers(&self) -> bool {
        false
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
