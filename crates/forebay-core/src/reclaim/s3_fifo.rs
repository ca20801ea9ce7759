//! S3-FIFO: a small queue for newcomers, a main one for pages that were used again.
//!
//! Source:     J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. Vinayak, "FIFO queues are all you need for
//!             cache eviction" (SOSP 2023), as in libCacheSim's S3FIFO.c; hits equal its own on the
//!             same requests (`libcachesim.rs` of the simulator's tests).
//! Behaviour:  a new page joins the small queue, or the main one if it left the small queue not
//!             long ago; until memory is full the first time, also if the small queue has its
//!             share. While the main queue has more than its share, its last page leaves, or
//!             goes to the front with one use less if it was used; otherwise the last page of the
//!             small queue leaves, or joins the main queue if it was used twice.
//! Differs:    dirty and busy pages are passed over: they go to the front of their queue and keep
//!             their uses. A ghost that libCacheSim would drop with a request of another size has
//!             no counterpart: all pages are of one size.
//! Not for:    loads whose hot pages come back only after more than a memory's worth of others;
//!             streams whose windows together are larger than the small queue, since what was read
//!             ahead then leaves before it is used.

use alloc::boxed::Box;

use super::ghosts::Ghosts;
use super::list::List;
use super::{FrameTable, Origin, Policy, Reclaim, evict};
use crate::frame::Frame;
use crate::policy::Parameter;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "s3-fifo",
    summary: "a small queue for new pages, a main one for those used again",
    source: "Yang and others, SOSP 2023; as in libCacheSim",
    parameters: &[
        Parameter::new("small", 10, (1, 90), "the small queue's share, in percent of memory"),
        Parameter::new("ghost", 90, (0, 100), "evicted pages to remember, in percent of memory"),
        Parameter::new("uses", 2, (1, 3), "uses after which a page joins the main queue"),
    ],
    build: |values| {
        Box::new(S3Fifo {
            small_percent: values.of("small"),
            ghost_percent: values.of("ghost"),
            uses: values.of("uses") as u8,
            small_max: 0,
            main_max: 0,
            has_evicted: false,
            small: List::default(),
            main: List::default(),
            ghosts: Ghosts::new(0),
            dirty: 0,
        })
    },
};

/// Uses since the page came, as far as they matter.
const USES: u8 = 3;
/// The page is in the main queue.
const MAIN: u8 = 1 << 2;

#[derive(Debug)]
struct S3Fifo {
    small_percent: u64,
    ghost_percent: u64,
    uses: u8,
    /// Pages of the small queue beyond which the first ones that come join the main queue.
    small_max: u64,
    /// Pages of the main queue beyond which it evicts one of its own.
    main_max: u64,
    /// Memory was full at least once.
    has_evicted: bool,
    small: List,
    main: List,
    ghosts: Ghosts,
    /// Pages that are dirty or under writeback.
    dirty: u32,
}

impl Reclaim for S3Fifo {
    fn begin(&mut self, frames: u32) {
        let frames = u64::from(frames);
        self.small_max = frames * self.small_percent / 100;
        self.main_max = frames - self.small_max;
        self.ghosts = Ghosts::new((frames * self.ghost_percent / 100) as u32);
    }

    fn on_added(&mut self, frame: u32, _origin: Origin, table: &mut FrameTable<'_>) {
        let full = u64::from(self.small.len()) >= self.small_max;
        let returns = self.ghosts.take(table.key(frame)).is_some();
        if returns || (full && !self.has_evicted) {
            table.set_rank(frame, MAIN);
            self.main.push_front(frame, table);
        } else {
            self.small.push_front(frame, table);
        }
    }

    fn on_accessed(&mut self, frame: u32, first: bool, table: &mut FrameTable<'_>) {
        let rank = table.rank(frame);
        if !first && rank & USES < USES {
            table.set_rank(frame, rank + 1);
            table.settle(frame, (rank + 1) & USES == USES);
        }
    }

    fn on_dirtied(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {
        self.dirty += 1;
    }

    fn on_cleaned(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {
        self.dirty -= 1;
    }

    fn on_removed(&mut self, frame: u32, evicted: bool, table: &mut FrameTable<'_>) {
        if table.rank(frame) & MAIN != 0 {
            self.main.remove(frame, table);
            return;
        }
        self.small.remove(frame, table);
        if evicted {
            self.ghosts.push(table.key(frame), 0);
        }
    }

    fn make_room(&mut self, pages: u64, _origin: Origin, table: &mut FrameTable<'_>) -> bool {
        self.has_evicted = true;
        // Busy pages met in a row; a page is met at most once for each of its uses and once more.
        let turns = (u64::from(USES) + 1) * u64::from(self.small.len() + self.main.len());
        let mut left = if self.evictable() > 0 { turns } else { 0 };
        while table.free() < pages && left > 0 {
            left -= 1;
            let from_main = u64::from(self.main.len()) > self.main_max || self.small.len() == 0;
            let busy = if from_main { self.turn_main(table) } else { self.turn_small(table) };
            // All of one queue may be busy.
            if busy && table.free() < pages {
                let _ = if from_main { self.turn_small(table) } else { self.turn_main(table) };
            }
        }
        table.free() >= pages
    }

    fn evictable(&self) -> u64 {
        (self.small.len() + self.main.len() - self.dirty).into()
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let dirty = frames.iter().filter(|frame| frame.is_unsafe()).count();
        assert_eq!(dirty, self.dirty as usize, "dirty pages are counted");
        self.small.check(frames, |frame| frame.rank & MAIN == 0)
            + self.main.check(frames, |frame| frame.rank & MAIN != 0)
    }

    fn lists_dirty(&self) -> bool {
        true
    }
}

impl S3Fifo {
    /// Looks at the last page of the small queue; returns whether it was busy.
    fn turn_small(&mut self, table: &mut FrameTable<'_>) -> bool {
        let Some(frame) = self.small.back() else { return false };
        let uses = table.rank(frame) & USES;
        if uses >= self.uses {
            self.small.remove(frame, table);
            table.set_rank(frame, MAIN);
            table.settle(frame, false);
            self.main.push_front(frame, table);
            return false;
        }
        self.leave(frame, table)
    }

    /// Looks at the last page of the main queue; returns whether it was busy.
    fn turn_main(&mut self, table: &mut FrameTable<'_>) -> bool {
        let Some(frame) = self.main.back() else { return false };
        let rank = table.rank(frame);
        if rank & USES > 0 {
            table.set_rank(frame, rank - 1);
            table.settle(frame, false);
            self.main.rotate(table);
            return false;
        }
        self.leave(frame, table)
    }

    /// The last page of a queue leaves, or goes to the front if it is busy.
    fn leave(&mut self, frame: u32, table: &mut FrameTable<'_>) -> bool {
        let busy = table.is_busy(frame);
        if busy {
            let main = table.rank(frame) & MAIN != 0;
            (if main { &mut self.main } else { &mut self.small }).rotate(table);
        } else {
            evict(self, frame, table);
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;

    #[test]
    fn pages_used_twice_survive_a_scan_and_ghosts_come_back_to_the_main_queue() {
        // One page of ten belongs into the small queue: page 1.
        let mut memory = Memory::new("s3-fifo", 10);
        memory.read_each([1, 1, 1]);
        memory.read_each(10..19);
        // Page 1, used twice, joins the main queue, which now has one too many: page 10 leaves.
        memory.read_each([20]);
        assert_eq!(memory.present([1, 10, 11, 20]), [1, 11, 20]);
        // Page 20 leaves the small queue and returns into the main one, which evicts page 11.
        memory.read_each([21, 20, 22]);
        assert_eq!(memory.present([1, 11, 12, 20, 21, 22]), [1, 12, 20, 22]);
        // A scan uses only the small queue.
        memory.read_each(30..60);
        assert_eq!(memory.present([1, 12, 20]), [1, 12, 20]);
    }

    #[test]
    fn a_page_of_the_main_queue_gives_up_its_uses_before_it_leaves() {
        // Four pages are too few for a small queue.
        let mut memory = Memory::new("s3-fifo", 4);
        memory.read_each([1, 1, 2, 2, 3, 4, 4]);
        memory.read_each([5]);
        assert_eq!(memory.present(1..=5), [1, 2, 4, 5]);
    }
}
