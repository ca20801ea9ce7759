//! Reclaim: which pages leave when memory is short.
//!
//! A policy is one file below this one and one line in [`POLICIES`]. The page cache reports to it
//! every page that is added, accessed, dirtied, cleaned or removed. When frames are short it has to
//! free some, and chooses which idle pages are evicted. The policy also chooses where dirty pages
//! are kept: on its lists, or off them.
//!
//! ```text
//!   on_added --> on_accessed, on_dirtied, on_cleaned ... --> on_removed
//!                                                               ^
//!   no frame is free --> make_room --> FrameTable: busy? ---- evict
//!                            '--> wakes its background writer: background --> dirty page: sent
//! ```
//!
//! A policy keeps one byte (the *rank*) and two links for each page in the frame itself, so it
//! allocates nothing per page. Its memory of evicted pages is reserved in
//! [`begin`](Reclaim::begin).

use core::fmt::Debug;

use crate::policy::{self, Slot};
use crate::time::Instant;

pub use crate::frame::Frame;
pub use frame_table::FrameTable;
pub(crate) use frame_table::is_busy;
#[cfg(test)]
pub(crate) use two_lists::ACTIVE;

#[cfg(test)]
mod conformance;
mod frame_table;
mod ghosts;
mod linux_2_2;
mod linux_3_18;
mod linux_6_12;
mod list;
mod lru;
mod s3_fifo;
#[cfg(test)]
mod testing;
mod two_lists;
mod workingset;

/// Every reclaim policy: the one table that names them.
pub static POLICIES: &[Policy] = &[
    two_lists::POLICY,
    linux_2_2::POLICY,
    linux_3_18::POLICY,
    linux_6_12::POLICY,
    s3_fifo::POLICY,
    lru::POLICY,
];

/// One line of the table of reclaim policies.
pub type Policy = policy::Policy<dyn Reclaim>;

/// A reclaim policy and the values of its parameters.
pub type Spec = policy::Spec<dyn Reclaim>;

impl Slot for dyn Reclaim {
    const NAME: &'static str = "reclaim";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

impl Default for Spec {
    /// The policy of an engine that is given none.
    fn default() -> Self {
        Self::parse("two-lists").expect("the table has it")
    }
}

/// What a page comes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is read or decoded, by demand or in advance.
    Read,
    /// A write brings all of its bytes.
    Write,
}

/// A reclaim policy and its state.
pub trait Reclaim: Debug + Send {
    /// Page memory has `frames` pages, all free.
    fn begin(&mut self, frames: u32);

    /// A page has come into a frame.
    fn on_added(&mut self, frame: u32, origin: Origin, table: &mut FrameTable<'_>);

    /// A page is accessed. The `first` access of a page that was read is the one that it came for,
    /// or proves that it was right to read it in advance. Not called for a page that the policy has
    /// settled. The background writer neither wakes by it nor sleeps longer.
    fn on_accessed(&mut self, frame: u32, first: bool, table: &mut FrameTable<'_>);

    /// A clean page has become dirty.
    fn on_dirtied(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {}

    /// A page is no longer dirty or under writeback.
    fn on_cleaned(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {}

    /// A page leaves its frame: `evicted` by this policy, or because its file is cut or dropped.
    fn on_removed(&mut self, frame: u32, evicted: bool, table: &mut FrameTable<'_>);

    /// Fewer than `pages` frames are free beyond [`low`](Self::low): evicts pages of its choice.
    /// Returns whether that many frames may be taken.
    fn make_room(&mut self, pages: u64, origin: Origin, table: &mut FrameTable<'_>) -> bool;

    /// Frames that the policy keeps free; below this it is called before any is taken.
    fn low(&self) -> u64 {
        0
    }

    /// Whether a caller that gets no frame sleeps until a pass of the flush rule has ended, and not
    /// only until some page has been written.
    fn waits_for_pass(&self) -> bool {
        false
    }

    /// Whether the background writer gets the free requests of a full device until it has sent as
    /// many pages as the flush rule. Otherwise the two take turns.
    fn requests_by_work(&self) -> bool {
        false
    }

    /// Pages that could leave before pages that matter more, those being read included.
    fn evictable(&self) -> u64;

    /// Whether the background writer has something to do.
    fn is_awake(&self) -> bool {
        false
    }

    /// The timeout of the background writer.
    fn timeout(&self) -> Option<Instant> {
        None
    }

    /// The background writer continues: evicts pages of its choice, and returns a dirty page that
    /// has to be written before it continues, or nothing when it sleeps.
    fn background(&mut self, _now: Instant, _table: &mut FrameTable<'_>) -> Option<u32> {
        None
    }

    /// States the policy's invariants over all frames; returns how many pages are on its lists.
    fn check(&self, frames: &[Frame]) -> usize;

    /// Whether dirty pages are on the policy's lists.
    fn lists_dirty(&self) -> bool;
}

/// Evicts the idle folio that the page in a frame belongs to; returns how many pages left.
///
/// # Panics
/// If a page of it is [busy](FrameTable::is_busy).
pub fn evict<R: Reclaim + ?Sized>(policy: &mut R, frame: u32, table: &mut FrameTable<'_>) -> u64 {
    let pages = remove_folio(policy, frame, true, table);
    table.count_evicted(pages);
    pages
}

/// Removes the pages of an idle folio; returns how many.
pub(crate) fn remove_folio<R: Reclaim + ?Sized>(
    policy: &mut R,
    frame: u32,
    evicted: bool,
    table: &mut FrameTable<'_>,
) -> u64 {
    let folio = table.folio_of(frame);
    if folio.order == 0 {
        policy.on_removed(frame, evicted, table);
        table.discard(frame);
        return 1;
    }
    let (file, _) = table.key(frame);
    for page in folio.first..folio.first + folio.pages() {
        let part = table.find(file, page);
        policy.on_removed(part, evicted, table);
        table.discard(part);
    }
    folio.pages()
}
