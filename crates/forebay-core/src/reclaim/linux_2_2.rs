//! Linux 2.2: a clock over page frames, and a kswapd that writes in their order.
//!
//! Source:     Linux 2.2.19, mm/filemap.c (shrink_mmap), mm/vmscan.c (do_try_to_free_pages,
//!             kswapd), mm/page_alloc.c (the watermarks, __get_free_pages), fs/buffer.c
//!             (try_to_free_buffers, sync_page_buffers, grow_buffers), kernel/sched.c (goodness).
//! Behaviour:  a hand walks over the frames in a circle. A referenced page loses the mark, a clean
//!             one is evicted. Callers skip a dirty page, because they must not write. kswapd notes
//!             it at the first visit and writes it, as a single page, at the next. The frame that
//!             was freed last is used first, so the order of a file and that of frames drift apart
//!             and these writes are seeks. Below the watermark *low* kswapd runs until *high*
//!             frames are free. At *min* a caller scans itself, for 32 frames. A reader (GFP_USER)
//!             that frees fewer gets no frame; a writer (GFP_BUFFER, with __GFP_MED) takes one from
//!             the reserve. A caller without a frame waits for the end of a pass of the flush rule.
//!             kswapd sleeps for 10 s after a scan that frees fewer than 32. A free request wakes
//!             all its waiters, and the scheduler runs the process that has used less processor
//!             time first. Here that is the one of bdflush and kswapd that has sent fewer pages.
//! Differs:    kswapd sees 4096 frames and goes on when a write has ended, since a scan costs no
//!             time within the engine. For the same reason it begins anew, without its sleep of
//!             10 s, if it has met pages under writeback. Only kswapd writes: a reader's scan
//!             (__GFP_IO) would move the same hand and write the same pages in the same order
//!             beside it. A reader without a frame waits; in the kernel its call ends with ENOMEM,
//!             and readahead is left out. Frames of processes and slabs are left out of a scan, and
//!             so is paging out. A scan ends at any frame once its share has been seen, not only at
//!             one without buffers. A caller's scan of memory that is dirty as a whole does not
//!             move the hand. Blocks of free frames are not merged; they are handed out from their
//!             ends, 2 MiB at a time, as the buddy allocator splits them. A page that is added is
//!             referenced; add_to_page_cache clears the mark, so pages read in advance and not used
//!             stay a round longer here. The floor of 10 frames under *min* is left out.
//! Not for:    machines of today: a clock over a large memory takes long.
//!
//! ```text
//!   free    0 ...... min ............. low ............ high
//!   caller   scans    |   goes on       |   goes on
//!   kswapd   runs     |   runs          |   runs until here, then sleeps until low
//! ```

use alloc::boxed::Box;

use super::{FrameTable, Origin, Policy, Reclaim, evict};
use crate::frame::Frame;
use crate::time::{Duration, Instant};
use hand::Hand;

mod hand;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-2.2",
    summary: "Linux 2.2: a clock over page frames; kswapd writes in their order",
    source: "Linux 2.2.19",
    parameters: &[],
    build: |_| Box::new(Clock::default()),
};

/// The page was accessed since the hand last met it.
const REFERENCED: u8 = 1;
/// kswapd has met the page while it was dirty.
const WAIT_IO: u8 = 1 << 1;

/// Frames that one scan frees (SWAP_CLUSTER_MAX).
const CLUSTER: u64 = 32;
/// The share of memory that a scan's first round sees, as a divisor.
const PRIORITY: u64 = 5;
/// Frames that kswapd sees without time passing: a millisecond of the machines of the time.
const STRETCH: u64 = 4_096;
/// How long kswapd sleeps after a scan that has not freed its share.
const REST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Clock {
    hand: Hand,
    watermarks: Watermarks,
    pages: u64,
    /// Pages that are dirty or under writeback.
    dirty: u64,
    kswapd: Option<Scan>,
    /// When kswapd continues after a scan that has not freed its share.
    rests_until: Option<Instant>,
    /// The page that kswapd waits to write.
    held: Option<u32>,
}

/// Free frames: at which callers scan, below which kswapd runs, and up to which.
#[derive(Clone, Copy, Debug, Default)]
struct Watermarks {
    min: u64,
    low: u64,
    high: u64,
}

/// A scan under way.
#[derive(Clone, Copy, Debug)]
struct Scan {
    priority: u64,
    /// Frames that this round may still see.
    left: u64,
    /// Frames that the scan shall free.
    wanted: u64,
    freed: u64,
    /// It has met a page under writeback, which will become clean.
    met_moving: bool,
}

/// Why a scan came to a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// It has freed the requested number.
    Done,
    /// All rounds are over.
    Exhausted,
    /// It is at a dirty page that has to be written.
    Write(u32),
    /// It has seen as many frames as it may without time passing.
    Pause,
}

/// Frames that one scan frees; fewer if they were a large part of memory.
fn cluster(frames: u32) -> u64 {
    CLUSTER.min(u64::from(frames) / 64).max(1)
}

impl Scan {
    fn new(wanted: u64, frames: u64) -> Self {
        Self {
            priority: PRIORITY,
            left: frames.div_ceil(PRIORITY),
            wanted,
            freed: 0,
            met_moving: false,
        }
    }
}

impl Clock {
    /// All rounds of a caller's scan when all pages are dirty: references are lost, and nothing is
    /// freed.
    fn scan_in_vain(&mut self, table: &mut FrameTable<'_>) {
        let frames = table.used();
        while let Some(frame) = self.hand.pop_open() {
            table.set_rank(frame, table.rank(frame) & !REFERENCED);
            table.settle(frame, false);
        }
        let rounds = (1..=PRIORITY).map(|priority| u64::from(frames).div_ceil(priority));
        table.count_scanned(rounds.sum());
    }

    fn scan(&mut self, scan: &mut Scan, writes: bool, table: &mut FrameTable<'_>) -> Halt {
        let frames = table.used();
        let mut seen = 0;
        let halt = loop {
            if scan.freed >= scan.wanted {
                break Halt::Done;
            }
            if writes && seen >= STRETCH {
                break Halt::Pause;
            }
            if scan.left == 0 {
                if scan.priority <= 1 {
                    break Halt::Exhausted;
                }
                scan.priority -= 1;
                scan.left = u64::from(frames).div_ceil(scan.priority);
                continue;
            }
            let (passed, found) = match writes {
                true => (1, Some(self.hand.advance(frames))),
                false => self.hand.advance_to_open(frames, scan.left),
            };
            (scan.left, seen) = (scan.left - passed, seen + passed);
            let Some(frame) = found else { continue };
            if !table.is_present(frame) {
                continue;
            }
            let rank = table.rank(frame);
            if rank & REFERENCED != 0 {
                table.set_rank(frame, rank & !REFERENCED);
                table.settle(frame, false);
            } else if !table.is_busy(frame) {
                scan.freed += evict(self, frame, table);
                scan.left = u64::from(frames).div_ceil(scan.priority);
            } else if !writes && table.is_unsafe(frame) {
                self.hand.close(frame);
            } else if !table.waits_for_write(frame) {
                scan.met_moving |= table.is_unsafe(frame);
            } else {
                if rank & WAIT_IO != 0 {
                    break Halt::Write(frame);
                }
                table.set_rank(frame, rank | WAIT_IO);
            }
        };
        table.count_scanned(seen);
        halt
    }
}

impl Reclaim for Clock {
    fn begin(&mut self, frames: u32) {
        // freepages of free_area_init: a 128th of memory, at most 256 pages.
        let min = (u64::from(frames) >> 7).min(256);
        self.watermarks = Watermarks { min, low: 2 * min, high: 3 * min };
    }

    fn on_added(&mut self, frame: u32, _origin: Origin, table: &mut FrameTable<'_>) {
        self.pages += 1;
        self.hand.open(frame);
        table.set_rank(frame, REFERENCED);
        table.settle(frame, true);
    }

    fn on_accessed(&mut self, frame: u32, _first: bool, table: &mut FrameTable<'_>) {
        self.hand.open(frame);
        table.set_rank(frame, table.rank(frame) | REFERENCED);
        table.settle(frame, true);
    }

    fn on_dirtied(&mut self, _frame: u32, _table: &mut FrameTable<'_>) {
        self.dirty += 1;
    }

    fn on_cleaned(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.dirty -= 1;
        self.hand.open(frame);
        table.set_rank(frame, table.rank(frame) & !WAIT_IO);
    }

    fn on_removed(&mut self, frame: u32, _evicted: bool, _table: &mut FrameTable<'_>) {
        self.pages -= 1;
        self.hand.close(frame);
    }

    fn make_room(&mut self, pages: u64, origin: Origin, table: &mut FrameTable<'_>) -> bool {
        if self.kswapd.is_none() && self.rests_until.is_none() {
            self.kswapd = Some(Scan::new(cluster(table.used()), table.used().into()));
        }
        if table.free() >= self.watermarks.min + pages {
            return true;
        }
        let mut scan = Scan::new(cluster(table.used()).max(pages), table.used().into());
        let has_clean = self.pages > self.dirty;
        let succeeded = has_clean && self.scan(&mut scan, false, table) == Halt::Done;
        if !has_clean {
            self.scan_in_vain(table);
        }
        // __GFP_MED, which only buffers have, allows taking a frame from the reserve.
        let may_take = origin == Origin::Write || table.free() > self.watermarks.high;
        table.free() >= pages && (may_take || succeeded)
    }

    fn low(&self) -> u64 {
        self.watermarks.low
    }

    fn waits_for_pass(&self) -> bool {
        true
    }

    fn requests_by_work(&self) -> bool {
        true
    }

    fn evictable(&self) -> u64 {
        self.pages - self.dirty
    }

    fn is_awake(&self) -> bool {
        self.kswapd.is_some()
    }

    fn timeout(&self) -> Option<Instant> {
        self.rests_until
    }

    fn background(&mut self, now: Instant, table: &mut FrameTable<'_>) -> Option<u32> {
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
            if table.free() < self.watermarks.high {
                self.kswapd = Some(Scan::new(cluster(table.used()), table.used().into()));
            }
        }
        if let Some(frame) = self.held.take()
            && table.waits_for_write(frame)
        {
            self.held = Some(frame);
            return Some(frame);
        }
        while let Some(mut scan) = self.kswapd.take() {
            let halt = self.scan(&mut scan, true, table);
            let rested = table.free() >= self.watermarks.high;
            match halt {
                Halt::Write(frame) => {
                    (self.kswapd, self.held) = (Some(scan), Some(frame));
                    return Some(frame);
                }
                Halt::Done if !rested => {
                    self.kswapd = Some(Scan::new(cluster(table.used()), table.used().into()));
                }
                Halt::Done => {}
                Halt::Pause => {
                    self.kswapd = Some(scan);
                    return None;
                }
                // A round takes tens of milliseconds, in which some of the pages would arrive.
                Halt::Exhausted if scan.met_moving => {
                    self.kswapd = Some(Scan::new(cluster(table.used()), table.used().into()));
                    return None;
                }
                Halt::Exhausted => self.rests_until = Some(now + REST),
            }
        }
        None
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let count = |holds: fn(&&Frame) -> bool| frames.iter().filter(holds).count();
        assert_eq!(count(|frame| frame.is_unsafe()) as u64, self.dirty, "dirty pages are counted");
        for (number, frame) in (0..).zip(frames).filter(|(_, frame)| frame.is_present()) {
            let is_open = self.hand.is_open(number);
            let changes = !frame.is_unsafe() || frame.rank & REFERENCED != 0;
            assert!(is_open || !changes, "a caller's scan meets what it would change: {number}");
        }
        let pages = count(|frame| frame.is_present());
        assert_eq!(pages as u64, self.pages, "pages are counted");
        pages
    }

    fn lists_dirty(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::testing::Memory;

    #[test]
    fn the_hand_takes_references_first_and_goes_down_a_block_of_frames() {
        let mut memory = Memory::new("linux-2.2", 4);
        memory.read_each(1..=4);
        // The hand has seen frames 2, 1, 0, 3 once; at the second visit frame 2 is free.
        memory.read_each([5]);
        assert_eq!(memory.present(1..=5), [1, 2, 4, 5]);
        // Page 2 was read again, so page 1 is the next.
        memory.read_each([2]);
        memory.read_each([6]);
        assert_eq!(memory.present(1..=6), [2, 4, 5, 6]);
        assert_eq!(memory.frame(6).0, 0, "the frame that was freed last is used first");
    }

    #[test]
    fn kswapd_marks_at_the_first_visit_and_writes_at_the_second_in_the_order_of_frames() {
        let mut memory = Memory::new("linux-2.2", 8);
        memory.write_each(10..18);
        assert!(!memory.write(18), "a caller must not write");
        assert_eq!(memory.background(), [16, 15, 14, 13, 12, 11, 10, 17]);
        assert!(memory.write(18));
    }

    #[test]
    fn kswapd_runs_from_the_low_watermark_to_the_high_one() {
        let mut memory = Memory::new("linux-2.2", 1_280);
        memory.read_each(0..1_260);
        assert!(!memory.cache.take_reclaim_woke(), "20 frames are free");
        memory.read_each([1_260]);
        assert!(memory.cache.take_reclaim_woke());
        assert_eq!(memory.background(), [], "nothing is dirty");
        assert_eq!(
            memory.cache.available() - memory.cache.len(),
            38,
            "19 were free, and one cluster is 19"
        );
    }

    #[test]
    fn a_reader_that_frees_nothing_leaves_the_reserve_to_writers() {
        let mut memory = Memory::new("linux-2.2", 1_280);
        memory.write_each(0..1_270);
        assert_eq!(memory.read(5_000), None, "10 frames are kept");
        let written: Vec<u64> = (1_270..2_000).take_while(|page| memory.write(*page)).collect();
        assert_eq!(written.len(), 10);
    }

    #[test]
    fn a_reader_succeeds_only_if_its_scan_frees_all_that_it_shall() {
        let mut memory = Memory::new("linux-2.2", 1_280);
        // The share of a scan is 19 frames; 18 pages are clean.
        memory.read_each(2_000..2_018);
        memory.write_each(0..1_252);
        assert_eq!(memory.read(5_000), None, "28 frames are free, 18 by this scan");
        assert_eq!(memory.present(2_000..2_018), []);
        for page in 0..19 {
            memory.clean(page);
        }
        memory.write_each(1_252..1_270);
        assert_eq!(memory.read(5_000), Some(false), "19 pages are clean");
    }

    #[test]
    fn kswapd_that_frees_too_little_rests_for_ten_seconds() {
        let mut memory = Memory::new("linux-2.2", 8);
        memory.write_each(0..8);
        let frames: Vec<_> = (0..8).map(|page| memory.frame(page)).collect();
        for frame in &frames {
            memory.cache.start_writeback(*frame);
        }
        assert!(!memory.write(8));
        assert_eq!(memory.background(), []);
        assert_eq!(memory.cache.reclaim_timeout(), None, "pages that are on their way will arrive");
        for frame in frames {
            memory.cache.end_writeback(frame);
            memory.cache.pin(frame);
        }
        assert_eq!(memory.background(), []);
        assert_eq!(memory.cache.reclaim_timeout(), Some(memory.now + super::REST));
    }
}
