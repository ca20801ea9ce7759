//! Room for pages: the page cache's side of reclaim.

use super::{Dirtied, PageCache};
use crate::reclaim::{self, FrameTable, Origin, Reclaim};
use crate::time::Instant;

impl PageCache {
    /// Makes sure that `pages` frames are free, if idle pages can make them so.
    #[inline]
    pub(super) fn reserve(&mut self, pages: u64, origin: Origin) -> bool {
        self.free() >= pages + self.low || self.make_room(pages, origin)
    }

    fn make_room(&mut self, pages: u64, origin: Origin) -> bool {
        if pages > u64::from(self.frames_max) {
            return false;
        }
        let (reclaim, mut table) = self.parts();
        let slept = !reclaim.is_awake();
        let made = reclaim.make_room(pages, origin, &mut table);
        self.reclaim_woke |= slept && self.reclaim.is_awake();
        made || (self.evicts_any && self.evict_any(pages))
    }

    /// Evicts idle pages in any order until `pages` frames are free; returns whether they are.
    fn evict_any(&mut self, pages: u64) -> bool {
        let count = self.frames.len() as u32;
        let (dirty, moving) = self.dirty_counts();
        // With nothing but dirty pages and such that are being read there is nothing to look for.
        let used = dirty + moving + u64::from(self.reading);
        let mut unseen = if used < self.len() { count } else { 0 };
        while self.free() < pages && unseen > 0 {
            unseen -= 1;
            self.hand = (self.hand + 1) % count;
            if self.frames[self.hand as usize].is_present() && !self.busy(self.hand) {
                let hand = self.hand;
                let (reclaim, mut table) = self.parts();
                let dropped = reclaim::remove_folio(reclaim, hand, true, &mut table);
                self.counters.evicted += dropped;
            }
        }
        self.free() >= pages
    }

    /// Whether a page of the folio of a frame is being read, written or waited for, or is dirty.
    pub(super) fn busy(&self, frame: u32) -> bool {
        reclaim::is_busy(&self.frames, &self.index, frame)
    }

    /// Whether reclaim's background writer has woken since this was last asked.
    pub(crate) fn take_reclaim_woke(&mut self) -> bool {
        core::mem::take(&mut self.reclaim_woke)
    }

    /// Whether a caller without memory sleeps until a pass of the flush rule has ended.
    pub(crate) fn waits_for_pass(&self) -> bool {
        self.waits_for_pass
    }

    /// Whether free requests of a full device are shared by pages sent, and not in turns.
    pub(crate) fn requests_by_work(&self) -> bool {
        self.reclaim.requests_by_work()
    }

    /// The timeout of reclaim's background writer.
    pub(crate) fn reclaim_timeout(&self) -> Option<Instant> {
        self.reclaim.timeout()
    }

    /// Runs reclaim's background writer; returns the dirty page that it wants to be written.
    pub(crate) fn reclaim_background(&mut self, now: Instant) -> Option<Dirtied> {
        let before = self.counters.scanned;
        let (reclaim, mut table) = self.parts();
        let found = reclaim.background(now, &mut table);
        let counters = &mut self.counters;
        counters.scanned_behind += core::mem::replace(&mut counters.scanned, before) - before;
        Some(self.dirtied(found?))
    }

    /// The policy, and all frames for it.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut dyn Reclaim, FrameTable<'_>) {
        let table = FrameTable {
            frames: &mut self.frames,
            index: &mut self.index,
            free: &mut self.free,
            files: &mut self.files,
            frames_max: self.frames_max,
            evicted: &mut self.counters.evicted,
            scanned: &mut self.counters.scanned,
        };
        (&mut *self.reclaim, table)
    }
}
