//! Active and inactive pages of a kernel that remembers evicted pages.
//!
//! ```text
//!                 second access, or back soon after it left
//!   new --> inactive --------------------------------------> active
//!            |  ^  ^-------- active list is too long --------'
//!            |  '-- dirty: kept, and the next to leave once it is clean
//!            v
//!          evicted: its age is remembered; the refault distance is the ages passed since
//! ```
//!
//! Dirty pages are on the lists. Reclaim counts the clean inactive ones, so it walks only when it
//! will find some, and the pages it passes over are marked to be the next to leave.

use super::ghosts::Ghosts;
use super::list::{BATCH, List};
use super::{FrameTable, Origin, Reclaim, evict};
use crate::frame::Frame;
use crate::time::Instant;

/// In what kernels of this kind differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Active pages allowed for each inactive one, for this number of pages on both lists.
    pub(super) active_per_inactive: fn(u64) -> u64,
    /// A dirty page that reclaim meets becomes active.
    pub(super) activates_dirty: bool,
    /// Accesses count per folio and not per page.
    pub(super) counts_folios: bool,
    /// Whether the background writer writes dirty pages that reclaim has not passed over before.
    pub(super) writes_at_once: bool,
}

/// Two lists, the evicted pages, and a background writer.
#[derive(Debug)]
pub(super) struct Workingset {
    rules: Rules,
    active: List,
    inactive: List,
    /// Inactive pages that are neither dirty nor under writeback.
    clean_inactive: u64,
    /// Pages that are dirty or under writeback.
    dirty: u64,
    /// Evictions and activations so far.
    age: u64,
    evicted: Ghosts,
    /// Free frames from which on the background writer sleeps.
    high: u64,
    awake: bool,
    /// A whole batch of the oldest inactive pages was dirty and not under writeback (ZONE_DIRTY).
    flagged: bool,
}

/// The page was accessed once since it came or was made active.
const REFERENCED: u8 = 1;
/// The page is on the active list.
const ACTIVE: u8 = 1 << 1;
/// The page shall be the next to leave when it is clean.
const NEXT: u8 = 1 << 2;

/// Pages that one reclaim looks at, besides dirty ones. The kernel begins with a 4096th of the
/// list, at least this many, and waits before it looks further.
const SCAN_MAX: u64 = BATCH;

impl Workingset {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            active: List::default(),
            inactive: List::default(),
            clean_inactive: 0,
            dirty: 0,
            age: 0,
            evicted: Ghosts::new(0),
            high: 0,
            awake: false,
            flagged: false,
        }
    }

    fn of(&mut self, rank: u8) -> &mut List {
        if rank & ACTIVE == 0 { &mut self.inactive } else { &mut self.active }
    }

    /// Counts a page that has become inactive, or that is so no more.
    fn count_inactive(&mut self, frame: u32, table: &FrameTable<'_>, comes: bool) {
        if !table.is_unsafe(frame) {
            self.clean_inactive = self.clean_inactive + u64::from(comes) - u64::from(!comes);
        }
    }

    fn activate(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        let rank = table.rank(frame);
        if rank & ACTIVE == 0 {
            self.inactive.remove(frame, table);
            self.count_inactive(frame, table, false);
            self.active.push_front(frame, table);
        }
        table.set_rank(frame, (rank & !REFERENCED) | ACTIVE);
    }

    /// Makes an active page inactive, as the first or as the next to leave.
    fn deactivate(&mut self, frame: u32, leaves_next: bool, table: &mut FrameTable<'_>) {
        self.active.remove(frame, table);
        let rank = table.rank(frame);
        table.set_rank(frame, rank & !ACTIVE);
        table.settle(frame, false);
        if leaves_next {
            self.inactive.push_back(frame, table);
        } else {
            self.inactive.push_front(frame, table);
        }
        self.count_inactive(frame, table, true);
    }

    /// Makes the oldest active pages inactive while the active list is too long.
    fn age_active(&mut self, table: &mut FrameTable<'_>) {
        let all = u64::from(self.active.len() + self.inactive.len());
        let ratio = (self.rules.active_per_inactive)(all);
        while u64::from(self.active.len()) > u64::from(self.inactive.len()) * ratio
            && let Some(frame) = self.active.back()
        {
            self.deactivate(frame, false, table);
        }
    }

    /// Frees up to `wanted` frames of clean inactive pages, the oldest first.
    fn shrink(&mut self, wanted: u64, table: &mut FrameTable<'_>) {
        self.age_active(table);
        let (mut freed, mut unseen) = (0, u64::from(self.inactive.len()));
        if self.dirty > 0 {
            // A caller that finds none in its share sleeps until more pages are clean.
            unseen = unseen.min(SCAN_MAX);
        }
        let mut dirty_in_a_row = 0;
        while freed < wanted
            && unseen > 0
            && self.clean_inactive > 0
            && let Some(frame) = self.inactive.back()
        {
            unseen -= 1;
            dirty_in_a_row = if table.waits_for_write(frame) { dirty_in_a_row + 1 } else { 0 };
            if table.is_unsafe(frame) {
                self.pass_over(frame, table);
            } else if table.is_busy(frame) {
                self.inactive.rotate(table);
            } else {
                freed += evict(self, frame, table);
            }
            self.flagged |= dirty_in_a_row >= BATCH;
        }
        // Without a clean page there is no walk; the oldest pages are a batch all the same.
        if freed < wanted && self.dirty > 0 && self.clean_inactive == 0 {
            let batch = self.inactive.count_from_back(|frame| table.waits_for_write(frame), table);
            self.flagged |= batch > 0 && batch >= BATCH.min(self.inactive.len().into());
        }
    }

    /// A dirty page is met at the end of the inactive list.
    fn pass_over(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        let rank = table.rank(frame);
        table.set_rank(frame, (rank & !REFERENCED) | NEXT);
        if self.rules.activates_dirty {
            self.activate(frame, table);
        } else {
            self.inactive.rotate(table);
        }
    }

    /// Nothing is dirty, and all that is inactive is in use: active pages leave, the oldest first.
    fn shrink_active(&mut self, pages: u64, table: &mut FrameTable<'_>) {
        let mut unseen = self.active.len();
        while table.free() < pages
            && unseen > 0
            && let Some(frame) = self.active.back()
        {
            unseen -= 1;
            self.deactivate(frame, false, table);
            if !table.is_busy(frame) {
                let dropped = evict(self, frame, table);
                unseen = unseen.saturating_sub(dropped as u32 - 1);
            }
        }
    }
}

impl Reclaim for Workingset {
    fn begin(&mut self, frames: u32) {
        // A page that left more than a memory's worth of evictions ago is forgotten anyway.
        self.evicted = Ghosts::new(frames);
        let min = reserve_pages(frames.into());
        self.high = min + min / 2;
    }

    fn on_added(&mut self, frame: u32, origin: Origin, table: &mut FrameTable<'_>) {
        let referenced = if origin == Origin::Write { REFERENCED } else { 0 };
        let stamp = self.evicted.take(table.key(frame));
        let active = u64::from(self.active.len());
        if stamp.is_some_and(|stamp| self.age - stamp <= active) {
            self.age += 1;
            table.set_rank(frame, referenced | ACTIVE);
            self.active.push_front(frame, table);
        } else {
            table.set_rank(frame, referenced);
            self.inactive.push_front(frame, table);
            self.clean_inactive += 1;
        }
    }

    fn on_accessed(&mut self, frame: u32, _first: bool, table: &mut FrameTable<'_>) {
        let counted = if self.rules.counts_folios { table.head(frame) } else { frame };
        let rank = table.rank(counted);
        if rank & (REFERENCED | ACTIVE) != REFERENCED {
            table.set_rank(counted, rank | REFERENCED);
            table.settle(frame, counted == frame && rank & ACTIVE != 0);
            return;
        }
        self.age += 1;
        if !self.rules.counts_folios {
            self.activate(frame, table);
            return;
        }
        let (folio, (file, _)) = (table.folio_of(frame), table.key(frame));
        for page in folio.first..folio.first + folio.pages() {
            let part = table.find(file, page);
            self.activate(part, table);
        }
    }

    fn on_dirtied(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.dirty += 1;
        if table.rank(frame) & ACTIVE == 0 {
            self.clean_inactive -= 1;
        }
    }

    fn on_cleaned(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        self.dirty -= 1;
        let rank = table.rank(frame);
        if rank & ACTIVE == 0 {
            self.clean_inactive += 1;
        }
        if rank & NEXT == 0 {
            return;
        }
        table.set_rank(frame, rank & !NEXT);
        if rank & ACTIVE == 0 {
            self.inactive.remove(frame, table);
            self.inactive.push_back(frame, table);
        } else if self.rules.activates_dirty {
            self.deactivate(frame, true, table);
        }
    }

    fn on_removed(&mut self, frame: u32, evicted: bool, table: &mut FrameTable<'_>) {
        let rank = table.rank(frame);
        self.of(rank).remove(frame, table);
        if rank & ACTIVE == 0 {
            self.clean_inactive -= 1;
        }
        if evicted {
            self.age += 1;
            self.evicted.push(table.key(frame), self.age);
        }
    }

    fn make_room(&mut self, pages: u64, _origin: Origin, table: &mut FrameTable<'_>) -> bool {
        let cluster = BATCH.min(u64::from(table.frames_max) / 64);
        self.shrink((pages - table.free()).max(cluster), table);
        if table.free() < pages && self.dirty == 0 {
            self.shrink_active(pages, table);
        }
        self.awake |= self.flagged;
        table.free() >= pages
    }

    fn evictable(&self) -> u64 {
        self.clean_inactive
    }

    fn is_awake(&self) -> bool {
        self.awake
    }

    /// Goes through the inactive pages, the oldest first, until enough frames are free or a round
    /// has met nothing to change.
    fn background(&mut self, _now: Instant, table: &mut FrameTable<'_>) -> Option<u32> {
        let mut unseen = self.inactive.len();
        while unseen > 0
            && table.free() < self.high
            && self.flagged
            && let Some(frame) = self.inactive.back()
        {
            unseen -= 1;
            if !table.is_unsafe(frame) {
                if table.is_busy(frame) {
                    self.inactive.rotate(table);
                } else {
                    evict(self, frame, table);
                }
                continue;
            }
            let rank = table.rank(frame);
            let may_write =
                table.waits_for_write(frame) && (self.rules.writes_at_once || rank & NEXT != 0);
            if may_write && rank & REFERENCED != 0 {
                table.set_rank(frame, rank & !REFERENCED);
                self.inactive.rotate(table);
                // The page is written when it is met again.
                unseen = self.inactive.len();
                continue;
            }
            self.pass_over(frame, table);
            if may_write {
                return Some(frame);
            }
        }
        (self.awake, self.flagged) = (false, false);
        None
    }

    fn check(&self, frames: &[Frame]) -> usize {
        let dirty = frames.iter().filter(|frame| frame.is_unsafe()).count();
        assert_eq!(dirty as u64, self.dirty, "dirty pages are counted");
        let clean = |frame: &&Frame| frame.is_present() && !frame.is_unsafe();
        let inactive = |frame: &&Frame| frame.rank & ACTIVE == 0;
        let clean_inactive = frames.iter().filter(clean).filter(inactive).count();
        assert_eq!(clean_inactive as u64, self.clean_inactive, "clean inactive pages are counted");
        self.active.check(frames, |frame| frame.rank & ACTIVE != 0)
            + self.inactive.check(frames, |frame| frame.rank & ACTIVE == 0)
    }

    fn lists_dirty(&self) -> bool {
        true
    }
}

/// The pages that a kernel keeps in reserve (min_free_kbytes: 4 times the square root of the
/// memory's KiB), for memory too small to spare any, none.
fn reserve_pages(frames: u64) -> u64 {
    let kib = frames * 4;
    (kib * 16).isqrt() / 4 * u64::from(frames >= 1_024)
}
