//! Least recently used: the page that was not accessed for the longest time leaves.
//!
//! Source:     the textbook's rule; hits equal libCacheSim's LRU on the same requests
//!             (`libcachesim.rs` of the simulator's tests).
//! Behaviour:  one list; every access moves a page to the front, and the idle page at the back
//!             leaves, one at a time.
//! Differs:    dirty and busy pages are not evicted: reclaim skips them and moves them to the
//!             front.
//! Not for:    scans: they take everything that is used less often than they are long.

use alloc::boxed::Box;

use super::list::List;
use super::{FrameTable, Origin, Policy, Reclaim, evict};
use crate::frame::Frame;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "lru",
    summary: "evicts the least recently used page",
    source: "the textbook; as in libCacheSim",
    parameters: &[],
    build: |_| Box::new(Lru::default()),
};

#[derive(Debug, Default)]
struct Lru {
    pages: List,
    /// Pages that are dirty or under writeback.
    dirty: u32,
}

impl Reclaim for Lru {
    fn begin(&mut self, _frames: u32) {}

    fn on_added(&mut self, frame: u32, _origin: Origin, table: &mut FrameTable<'_>) {
        self.pages.push_front(frame, table);
    }

    fn on_accessed(&mut self, frame: u32, _first: bool, table: &mut FrameTable<'_>) {
        self.pages.remove(frame, table);
        self.pages.push_front(frame, table);
    }

    fn on_dirtied(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {
        self.dirty += 1;
    }

    fn on_cleaned(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {
        self.dirty -= 1;
    }

    fn on_removed(&mut self, frame: u32, _evicted: bool, table: &mut FrameTable<'_>) {
        self.pages.remove(frame, table);
    }

    fn make_room(&mut self, pages: u64, _origin: Origin, table: &mut FrameTable<'_>) -> bool {
        let mut unseen = if self.evictable() > 0 { self.pages.len() } else { 0 };
        while table.free() < pages
            && unseen > 0
            && let Some(frame) = self.pages.back()
        {
            unseen -= 1;
            if table.is_busy(frame) {
                self.pages.rotate(table);
            } else {
                evict(self, frame, table);
            }
        }
        table.free() >= pages
    }

    fn evictable(&self) -> u64 {
        (self.pages.len() - self.dirty).into()
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let dirty = frames.iter().filter(|frame| frame.is_unsafe()).count();
        assert_eq!(dirty, self.dirty as usize, "dirty pages are counted");
        self.pages.check(frames, |_| true)
    }

    fn lists_dirty(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;

    #[test]
    fn the_page_whose_access_is_longest_ago_leaves() {
        let mut memory = Memory::new("lru", 3);
        memory.read_each([1, 2, 3, 1, 4]);
        assert_eq!(memory.present(1..=4), [1, 3, 4]);
        memory.write_each([3]);
        memory.read_each([5]);
        memory.read_each([6]);
        assert_eq!(memory.present(1..=6), [3, 5, 6], "a dirty page stays");
    }
}
