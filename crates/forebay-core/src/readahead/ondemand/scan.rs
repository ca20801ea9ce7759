//! Where a run of cached pages ends.
//!
//! Source:     Linux 6.12 and 6.18, mm/filemap.c and lib/xarray.c.
//! Behaviour:  The page cache is a tree of 64 slots a node. A scan keeps an index and a cursor (a
//!             slot) and moves both by one per step, as long as the cursor stays in its leaf; at
//!             the leaf's edge it takes its new slot from the index.
//! Differs:    Nodes are deduced from the pages: an evicted page's shadow keeps no node alive.
//! Not for:    Anything but the scans of readahead.
//!
//! A lookup inside a large folio moves the cursor to the folio's first slot, but not the index.
//! From there the two diverge until the next edge, and the scan misplaces the pages it finds:
//!
//! ```text
//!   index        i                      reported: i+3, the hole is at i+2
//!   page    [ 8  9 10 11 ] 12  --  14
//!   cursor    ^  >  >  >   >   ^
//!             first look   +1 +1 ...    starts d = i - 8 = 1 behind the index
//! ```
//!
//! A folio of 64 pages and more is a slot of a node one level up, where a step moves the cursor
//! only if the index has left the slot, or if the two disagree.

use super::super::AddressSpace;
use crate::units::PageIndex;

/// Where a lookup inside a large folio leaves the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// At the page that was looked up.
    Exact,
    /// At the folio's first page.
    Skewed,
}

/// The first absent page at or behind `from`, if one is found within `max` steps.
pub(super) fn next_miss(
    from: PageIndex,
    max: u64,
    cursor: Cursor,
    pages: &dyn AddressSpace,
) -> Option<PageIndex> {
    let mut slot = Slot::at(from, cursor, pages);
    for index in from..from + max {
        match slot {
            None => return Some(index),
            Some(here) => slot = here.next(index + 1, pages),
        }
    }
    None
}

/// The last absent page at or before `from`, or the last page looked at after `max` steps; nothing
/// if the run reaches back to page 0 and the scan far enough to see it.
pub(super) fn prev_miss(
    from: PageIndex,
    max: u64,
    cursor: Cursor,
    pages: &dyn AddressSpace,
) -> Option<PageIndex> {
    let mut slot = Slot::at(from, cursor, pages);
    let mut index = from;
    for _ in 1..max {
        let Some(here) = slot else { break };
        // Below page 0 there is no index and no slot.
        index = index.checked_sub(1)?;
        slot = here.prev(index, pages);
    }
    Some(index)
}

/// An occupied slot of the tree.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Its number among the slots of its level.
    number: u64,
    /// Log2 of the pages that it covers.
    shift: u32,
}

impl Slot {
    /// The slot that a lookup of `index` ends in.
    fn at(index: PageIndex, cursor: Cursor, pages: &dyn AddressSpace) -> Option<Self> {
        let folio = pages.folio(index)?;
        let page = match cursor {
            Cursor::Exact => index,
            Cursor::Skewed => folio.first,
        };
        let shift = u32::from(folio.order) / LEVEL * LEVEL;
        Some(Self { number: page >> shift, shift })
    }

    /// The slot after a step to `index`, which is one more than the last.
    fn next(self, index: PageIndex, pages: &dyn AddressSpace) -> Option<Self> {
        self.step(index, EDGE, |number| number + 1, pages)
    }

    /// The slot after a step to `index`, which is one less than the last.
    fn prev(self, index: PageIndex, pages: &dyn AddressSpace) -> Option<Self> {
        self.step(index, 0, |number| number - 1, pages)
    }

    /// Moves on; `edge` is the last slot of a node in the direction of `advance`.
    fn step(
        self,
        index: PageIndex,
        edge: u64,
        advance: impl Fn(u64) -> u64,
        pages: &dyn AddressSpace,
    ) -> Option<Self> {
        let Self { mut number, mut shift } = self;
        let inside_leaf = shift == 0 && number & EDGE != edge;
        if inside_leaf {
            // The index does not matter here.
            return Self::covering(advance(number), pages);
        }
        if number & EDGE != (index >> shift) & EDGE {
            while number & EDGE == edge {
                number >>= LEVEL;
                shift += LEVEL;
                if shift >= u64::BITS {
                    return None;
                }
            }
            number = advance(number);
        }
        // Downwards every level takes its slot from the index.
        let below = (1 << shift) - 1;
        Self::covering((number << shift) | (index & below), pages)
    }

    /// The occupied slot that covers `page`.
    fn covering(page: PageIndex, pages: &dyn AddressSpace) -> Option<Self> {
        Self::at(page, Cursor::Exact, pages)
    }
}

/// Log2 of the slots of a node.
const LEVEL: u32 = 6;

/// The last slot of a node.
const EDGE: u64 = (1 << LEVEL) - 1;
