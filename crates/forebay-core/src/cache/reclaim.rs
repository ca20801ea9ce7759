//! Who leaves when memory is short.
//!
//! Source:     the two lists of Linux (2.6 to 6.18), mm/vmscan.c and mm/swap.c, reduced to one
//!             memory zone and clean pages of files; dirty ones are the flush rule's.
//! Behaviour:  a new page is inactive; its second access makes it active. When no frame is free,
//!             active pages move to the inactive list until they are no longer the majority, and
//!             idle pages leave from the back of the inactive list, 32 at a time.
//! Differs:    no background reclaim and no refault distance; a busy page goes to the front and is
//!             not isolated. The reclaim is done by whoever needs the frame. Accesses count per
//!             page, so a cold page at the end takes its whole folio along; Linux counts per folio.
//!             Every read of a part of a page is an access; Linux counts one per page and call.
//! Not for:    scans larger than memory beside a hot set that is touched only once between them.

use super::{ACTIVE, PageCache, REFERENCED};
use crate::readahead::Folio;
use crate::units::{FileId, FrameId};

/// Pages that one reclaim frees beyond those it needs, so that the next ones find some.
const CLUSTER: u64 = 32;

impl PageCache {
    /// Makes sure that `pages` frames are free, if idle pages can make them so.
    pub(super) fn reserve(&mut self, pages: u64) -> bool {
        let free = self.free();
        if free >= pages || pages > u64::from(self.frames_max) {
            return free >= pages;
        }
        // Memory so small that a cluster is a large part of it frees only what it needs.
        let cluster = CLUSTER.min(u64::from(self.frames_max) / 64);
        self.shrink(pages - free + cluster);
        self.free() >= pages
    }

    /// Whether a page of a folio is being read, written or waited for, or is dirty.
    pub(super) fn busy(&self, folio: Folio, frame: u32) -> bool {
        let busy = |frame: u32| {
            let slot = &self.frames[frame as usize];
            slot.flags & (super::READING | super::DIRTY | super::WRITEBACK) != 0 || slot.pins > 0
        };
        if folio.order == 0 {
            return busy(frame);
        }
        let file = FileId(self.frames[frame as usize].file);
        (folio.first..folio.first + folio.pages())
            .any(|page| busy(self.find(file, page).expect("a folio is present as a whole")))
    }

    /// Removes all pages of the idle folio of a frame; returns how many.
    pub(super) fn drop_folio(&mut self, frame: u32) -> u64 {
        let folio = self.folio_of(FrameId(frame));
        let file = FileId(self.frames[frame as usize].file);
        for page in folio.first..folio.first + folio.pages() {
            let part = self.find(file, page).expect("a folio is present as a whole");
            self.frames[part as usize].order = 0;
            self.remove(part);
        }
        folio.pages()
    }

    fn shrink(&mut self, wanted: u64) {
        let mut freed = 0;
        // A second round finds what was active in the first, even if all that is inactive is busy.
        for second in [false, true] {
            if freed >= wanted {
                return;
            }
            self.age_active(if second { wanted - freed } else { 0 });
            let mut unseen = self.lists.inactive.len;
            while freed < wanted && unseen > 0 {
                let frame = self.lists.inactive.back;
                let folio = self.folio_of(FrameId(frame));
                if self.busy(folio, frame) {
                    self.lists.inactive.remove(&mut self.frames, frame);
                    self.lists.inactive.push_front(&mut self.frames, frame);
                    unseen -= 1;
                    continue;
                }
                let dropped = self.drop_folio(frame);
                self.counters.evicted += dropped;
                freed += dropped;
                unseen = unseen.saturating_sub(dropped as u32);
            }
        }
        self.shrink_active(wanted.saturating_sub(freed));
    }

    /// All that is inactive is busy, and so is what was active longest: raw pages that stay while
    /// they are decoded. Looks at the rest, the oldest first.
    fn shrink_active(&mut self, wanted: u64) {
        let mut freed = 0;
        while freed < wanted && self.lists.active.len > 0 {
            let frame = self.lists.active.back;
            self.lists.active.remove(&mut self.frames, frame);
            self.frames[frame as usize].flags &= !(ACTIVE | REFERENCED);
            self.lists.inactive.push_front(&mut self.frames, frame);
            let folio = self.folio_of(FrameId(frame));
            if !self.busy(folio, frame) {
                let dropped = self.drop_folio(frame);
                self.counters.evicted += dropped;
                freed += dropped;
            }
        }
    }

    /// Moves the oldest active pages to the inactive list: `least` of them, and more while they are
    /// the majority.
    fn age_active(&mut self, mut least: u64) {
        while self.lists.active.len > if least > 0 { 0 } else { self.lists.inactive.len } {
            least = least.saturating_sub(1);
            let frame = self.lists.active.back;
            self.lists.active.remove(&mut self.frames, frame);
            self.frames[frame as usize].flags &= !(ACTIVE | REFERENCED);
            self.lists.inactive.push_front(&mut self.frames, frame);
        }
    }
}
