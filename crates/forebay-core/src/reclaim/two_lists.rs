//! Two lists of clean pages: the engine's own rule.
//!
//! Source:     the two lists of Linux (2.6 to 6.18), mm/vmscan.c and mm/swap.c, reduced to one
//!             memory zone and clean pages of files; dirty ones are the flush rule's.
//! Behaviour:  a new page is inactive; its second access makes it active. When no frame is free,
//!             active pages move to the inactive list until they are no longer the majority, and
//!             idle pages leave from the back of the inactive list, 32 at a time.
//! Differs:    a page that is dirty or under writeback is on no list, and returns to the front of
//!             its list. There is no background reclaim and no refault distance; a busy page goes
//!             to the front and is not isolated. The call that needs the frame reclaims. Accesses
//!             count per page, so a cold page at the end evicts its whole folio; Linux counts per
//!             folio. Every read of a part of a page is an access; Linux counts one per page and
//!             call.
//! Not for:    scans larger than memory with a hot set that is touched only once between them, and
//!             figures that depend on which clean pages stay while others are dirty.

use alloc::boxed::Box;

use super::list::List;
use super::{FrameTable, Origin, Policy, Reclaim, evict};
use crate::frame::{DIRTY, Frame, WRITEBACK};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "two-lists",
    summary: "active and inactive clean pages; dirty ones are on no list",
    source: "Forebay's own, after Linux 2.6 to 6.18",
    parameters: &[],
    build: |_| Box::new(TwoLists::default()),
};

/// The page was accessed once since it came or was made inactive.
const REFERENCED: u8 = 1;
/// The page is on the active list, or will be when it is clean.
pub(crate) const ACTIVE: u8 = 1 << 1;

/// Pages that one reclaim frees beyond those it needs, so that the next ones find some.
const CLUSTER: u64 = 32;

#[derive(Debug, Default)]
struct TwoLists {
    /// Clean pages accessed at least twice.
    active: List,
    /// Other clean pages, the oldest at the back.
    inactive: List,
}

impl Reclaim for TwoLists {
    fn begin(&mut self, _frames: u32) {}

    fn on_added(&mut self, frame: u32, origin: Origin, table: &mut FrameTable<'_>) {
        if origin == Origin::Write {
            table.set_rank(frame, REFERENCED);
        }
        self.inactive.push_front(frame, table);
    }

    fn on_accessed(&mut self, frame: u32, _first: bool, table: &mut FrameTable<'_>) {
        match table.rank(frame) {
            REFERENCED => {
                table.set_rank(frame, ACTIVE);
                if !table.is_unsafe(frame) {
                    self.inactive.remove(frame, table);
                    self.active.push_front(frame, table);
                }
            }
            rank => {
                table.set_rank(frame, rank | REFERENCED);
                table.settle(frame, rank & ACTIVE != 0);
            }
        }
    }

    fn on_dirtied(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.of(table.rank(frame)).remove(frame, table);
    }

    fn on_cleaned(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.of(table.rank(frame)).push_front(frame, table);
    }

    fn on_removed(&mut self, frame: u32, _evicted: bool, table: &mut FrameTable<'_>) {
        self.of(table.rank(frame)).remove(frame, table);
    }

    fn make_room(&mut self, pages: u64, _origin: Origin, table: &mut FrameTable<'_>) -> bool {
        // If a cluster is a large part of memory, only the needed pages are freed.
        let cluster = CLUSTER.min(u64::from(table.frames_max) / 64);
        self.shrink(pages - table.free() + cluster, table);
        table.free() >= pages
    }

    fn evictable(&self) -> u64 {
        self.inactive.len().into()
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let is_clean = |frame: &Frame| frame.flags & (DIRTY | WRITEBACK) == 0;
        let is_active = |frame: &Frame| frame.rank & ACTIVE != 0;
        self.active.check(frames, |frame| is_clean(frame) && is_active(frame))
            + self.inactive.check(frames, |frame| is_clean(frame) && !is_active(frame))
    }

    fn lists_dirty(&self) -> bool {
        false
    }
}

impl TwoLists {
    /// The list of a clean page of this rank.
    fn of(&mut self, rank: u8) -> &mut List {
        if rank & ACTIVE == 0 { &mut self.inactive } else { &mut self.active }
    }

    fn shrink(&mut self, wanted: u64, table: &mut FrameTable<'_>) {
        let mut freed = 0;
        // A second round finds pages that were active in the first, even if all inactive pages are
        // busy.
        for second in [false, true] {
            if freed >= wanted {
                return;
            }
            self.age_active(if second { wanted - freed } else { 0 }, table);
            let mut unseen = u64::from(self.inactive.len());
            while freed < wanted
                && unseen > 0
                && let Some(frame) = self.inactive.back()
            {
                if table.is_busy(frame) {
                    self.inactive.rotate(table);
                    unseen -= 1;
                    continue;
                }
                let dropped = evict(self, frame, table);
                freed += dropped;
                unseen = unseen.saturating_sub(dropped);
            }
        }
        self.shrink_active(wanted.saturating_sub(freed), table);
    }

    /// All inactive pages are busy, and so is the page that was active longest: raw pages that stay
    /// while they are decoded. Looks at the others, the oldest first.
    fn shrink_active(&mut self, wanted: u64, table: &mut FrameTable<'_>) {
        let mut freed = 0;
        while freed < wanted
            && let Some(frame) = self.deactivate(table)
        {
            if !table.is_busy(frame) {
                freed += evict(self, frame, table);
            }
        }
    }

    /// Moves the oldest active pages to the inactive list: `least` of them, and more while they are
    /// the majority.
    fn age_active(&mut self, mut least: u64, table: &mut FrameTable<'_>) {
        while self.active.len() > if least > 0 { 0 } else { self.inactive.len() } {
            least = least.saturating_sub(1);
            self.deactivate(table);
        }
    }

    /// Moves the page that has been active longest to the front of the inactive list.
    fn deactivate(&mut self, table: &mut FrameTable<'_>) -> Option<u32> {
        let frame = self.active.back()?;
        self.active.remove(frame, table);
        table.set_rank(frame, 0);
        table.settle(frame, false);
        self.inactive.push_front(frame, table);
        Some(frame)
    }
}
