//! Dirty pages: which they are, since when, and their way to the device.
//!
//! A page is *dirty* from the write that made it differ from the device until it is submitted, and
//! *under writeback* until that write has completed. It can be dirtied again under writeback; then
//! it is dirty once more at completion.
//!
//! ```text
//!   queue   | a | b | c | a | d |     each entry has a number; a page's frame knows its own, so
//!             x                       the first `a` is seen to be void: it was sent meanwhile
//! ```
//!
//! Sending a page leaves its entry in the queue, which costs no look at its neighbours. When most
//! entries are void, the queue is swept.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::PageCache;
use crate::frame::{DIRTY, WRITEBACK};
use crate::page_set::PageSet;
use crate::time::Instant;
use crate::units::{FileId, FrameId, PageIndex};

/// Bookkeeping of all dirty pages.
#[derive(Debug, Default)]
pub(super) struct DirtyPages {
    files: Vec<OfFile>,
    /// Dirty pages, the one that has been dirty longest first, and void entries.
    queue: VecDeque<Entry>,
    /// The number of the first entry.
    first: u32,
    /// Whether the queue may not be in the order of its dues.
    unordered: bool,
    /// Dirty pages that are not under writeback.
    waiting: u64,
    moving: u64,
}

/// A page that became dirty.
#[derive(Clone, Copy, Debug)]
struct Entry {
    frame: u32,
    /// When the page is old, in ticks.
    due: u32,
}

/// The pages of one file.
#[derive(Debug, Default)]
struct OfFile {
    /// Dirty pages, including those dirtied again under writeback.
    dirty: PageSet,
    /// Dirty pages that are also under writeback.
    again: u64,
    writeback: PageSet,
    since: Option<Instant>,
}

/// The page that has been dirty longest, or that is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirtied {
    pub(crate) file: FileId,
    pub(crate) page: PageIndex,
    pub(crate) frame: FrameId,
}

impl PageCache {
    /// A page differs from the device as of now, and is old at `due`. Returns whether it was clean.
    pub(crate) fn mark_dirty(&mut self, frame: FrameId, now: Instant, due: Instant) -> bool {
        let slot = &mut self.frames[frame.index()];
        let flags = slot.flags;
        if flags & DIRTY != 0 {
            return false;
        }
        let (file, page) = (slot.file as usize, slot.page);
        slot.flags |= DIRTY;
        let dirty = &mut self.dirty;
        if dirty.files.len() <= file {
            dirty.files.resize_with(file + 1, OfFile::default);
        }
        let of_file = &mut dirty.files[file];
        of_file.dirty.insert(page);
        of_file.since.get_or_insert(now);
        if flags & WRITEBACK != 0 {
            of_file.again += 1;
            self.frames[frame.index()].mark = ticks(due);
        } else {
            let (reclaim, mut table) = self.parts();
            reclaim.on_dirtied(frame.0, &mut table);
            self.push_dirty(frame.0, ticks(due));
        }
        true
    }

    /// A dirty page is sent to the device.
    pub(crate) fn start_writeback(&mut self, frame: FrameId) {
        let slot = &mut self.frames[frame.index()];
        assert_eq!(slot.flags & (DIRTY | WRITEBACK), DIRTY, "only what is dirty is sent");
        slot.flags = (slot.flags & !DIRTY) | WRITEBACK;
        let of_file = &mut self.dirty.files[slot.file as usize];
        of_file.dirty.remove(slot.page);
        of_file.writeback.insert(slot.page);
        of_file.forget_if_clean();
        self.dirty.waiting -= 1;
        self.dirty.moving += 1;
    }

    /// The writeback of a page has ended, with or without an error. Returns whether it is dirty
    /// again.
    pub(crate) fn end_writeback(&mut self, frame: FrameId) -> bool {
        let slot = &mut self.frames[frame.index()];
        assert!(slot.flags & WRITEBACK != 0, "only what is on its way arrives");
        slot.flags &= !WRITEBACK;
        let flags = slot.flags;
        let of_file = &mut self.dirty.files[slot.file as usize];
        of_file.writeback.remove(slot.page);
        self.dirty.moving -= 1;
        if flags & DIRTY != 0 {
            of_file.again -= 1;
            let due = self.frames[frame.index()].mark;
            self.push_dirty(frame.0, due);
        } else {
            let (reclaim, mut table) = self.parts();
            reclaim.on_cleaned(frame.0, &mut table);
        }
        flags & DIRTY != 0
    }

    /// A dirty page that is not under writeback is clean again: its file was truncated.
    fn cancel_dirty(&mut self, frame: FrameId) {
        let slot = &mut self.frames[frame.index()];
        assert_eq!(slot.flags & (DIRTY | WRITEBACK), DIRTY, "what is on its way cannot be stopped");
        slot.flags &= !DIRTY;
        let of_file = &mut self.dirty.files[slot.file as usize];
        of_file.dirty.remove(slot.page);
        of_file.forget_if_clean();
        self.dirty.waiting -= 1;
        let (reclaim, mut table) = self.parts();
        reclaim.on_cleaned(frame.0, &mut table);
    }

    /// The page that has been dirty longest, among those not under writeback.
    pub(crate) fn oldest_dirty(&mut self) -> Option<Dirtied> {
        self.drop_void();
        let oldest = self.dirty.queue.front()?.frame;
        Some(self.dirtied(oldest))
    }

    /// When the first of the dirty pages is old.
    pub(crate) fn oldest_due(&self) -> Option<Instant> {
        let mut dues = self.dirty_entries().map(|entry| entry.due);
        let due = if self.dirty.unordered { dues.min() } else { dues.next() };
        Some(Instant(u64::from(due?) * TICK))
    }

    /// The first page that is old, from the one that has been dirty longest on.
    pub(crate) fn old_dirty(&mut self, now: Instant) -> Option<Dirtied> {
        self.drop_void();
        let old = |entry: &Entry| u64::from(entry.due) <= now.0 / TICK;
        let found = if self.dirty.unordered {
            self.dirty_entries().find(old)
        } else {
            self.dirty_entries().next().filter(old)
        };
        Some(self.dirtied(found?.frame))
    }

    /// The first dirty page of a file from `from` on, and whether it is also under writeback.
    pub(crate) fn next_dirty(&self, file: FileId, from: PageIndex) -> Option<(PageIndex, bool)> {
        let of_file = self.dirty.files.get(file.index())?;
        let page = of_file.dirty.next(from)?;
        Some((page, of_file.is_again(page)))
    }

    /// How many pages of a file from `from` on, up to `most`, can be sent together.
    pub(crate) fn dirty_run(&self, file: FileId, from: PageIndex, most: u64) -> u64 {
        let of_file = &self.dirty.files[file.index()];
        let mut run = 0;
        while run < most && of_file.dirty.contains(from + run) && !of_file.is_again(from + run) {
            run += 1;
        }
        run
    }

    /// The first page of a file from `from` on that is under writeback.
    pub(crate) fn next_writeback(&self, file: FileId, from: PageIndex) -> Option<PageIndex> {
        self.dirty.files.get(file.index())?.writeback.next(from)
    }

    /// The number of dirty pages of a file that are not under writeback, and since when it has had
    /// dirty pages.
    pub(crate) fn file_dirty(&self, file: FileId) -> (u64, Option<Instant>) {
        let of_file = self.dirty.files.get(file.index());
        of_file.map_or((0, None), |of_file| (of_file.dirty.len() - of_file.again, of_file.since))
    }

    /// Dirty pages that are not under writeback, and pages under writeback.
    pub(crate) fn dirty_counts(&self) -> (u64, u64) {
        (self.dirty.waiting, self.dirty.moving)
    }

    /// Pages under writeback that have been dirtied again.
    pub(crate) fn redirtied(&self) -> u64 {
        self.dirty.files.iter().map(|of_file| of_file.again).sum()
    }

    /// Removes the pages of a file from `first` to before `end` that are not in use, also dirty
    /// ones; returns a page that is in use, if there is any, and how many dirty pages are so no
    /// more.
    pub(crate) fn cut(
        &mut self,
        file: FileId,
        (first, end): (PageIndex, PageIndex),
    ) -> (Option<FrameId>, u64) {
        let (mut in_use, mut cancelled) = (None, 0);
        if end.saturating_sub(first) > self.frames.len() as u64 {
            for frame in 0..self.frames.len() as u32 {
                let slot = self.frames[frame as usize];
                let inside = slot.page >= first && slot.page < end;
                if slot.flags & super::PRESENT != 0 && slot.file == file.0 && inside {
                    in_use = self.cut_one(frame, &mut cancelled).or(in_use);
                }
            }
        } else {
            for page in first..end {
                if let Some(frame) = self.find(file, page) {
                    in_use = self.cut_one(frame, &mut cancelled).or(in_use);
                }
            }
        }
        (in_use, cancelled)
    }

    /// Removes the page of a frame; returns it if it is in use. Its folio becomes single pages, of
    /// which those outside of the range stay.
    fn cut_one(&mut self, frame: u32, cancelled: &mut u64) -> Option<FrameId> {
        self.split(frame);
        if self.frames[frame as usize].flags & (DIRTY | WRITEBACK) == DIRTY {
            self.cancel_dirty(FrameId(frame));
            *cancelled += 1;
        }
        if self.busy(frame) {
            return Some(FrameId(frame));
        }
        self.drop_folio(frame);
        None
    }

    /// Whether a page is being read or written; the end of that wakes its waiters.
    pub(crate) fn is_moving(&self, frame: FrameId) -> bool {
        self.frames[frame.index()].flags & (super::READING | WRITEBACK) != 0
    }

    /// Whether a page differs from its device, under writeback or not.
    pub(crate) fn is_unsafe(&self, frame: FrameId) -> bool {
        self.frames[frame.index()].is_unsafe()
    }

    /// Whether a page is under writeback.
    pub(crate) fn is_writeback(&self, frame: FrameId) -> bool {
        self.frames[frame.index()].flags & WRITEBACK != 0
    }

    /// States what holds for dirty pages.
    pub(super) fn check_dirty(&self) {
        let (mut dirty, mut again, mut writeback) = (0, 0, 0);
        for (number, frame) in self.frames.iter().enumerate() {
            let Some(of_file) = self.dirty.files.get(frame.file as usize) else { continue };
            if frame.flags & super::PRESENT == 0 {
                continue;
            }
            let is = |flag| frame.flags & flag != 0;
            let moving = is(WRITEBACK);
            assert_eq!(of_file.dirty.contains(frame.page), is(DIRTY), "frame {number} is dirty");
            assert_eq!(of_file.writeback.contains(frame.page), moving, "frame {number} moves");
            assert!(!(is(super::READING) && (is(DIRTY) || moving)), "what is read is clean");
            dirty += u64::from(is(DIRTY));
            again += u64::from(is(DIRTY) && moving);
            writeback += u64::from(moving);
        }
        let sum = |count: fn(&OfFile) -> u64| self.dirty.files.iter().map(count).sum::<u64>();
        assert_eq!(sum(|file| file.dirty.len()), dirty, "the set has the dirty pages alone");
        assert_eq!(sum(|file| file.writeback.len()), writeback, "the set has what is on its way");
        assert_eq!(sum(|file| file.again), again, "pages dirtied on their way are counted");
        assert_eq!(self.dirty.waiting, dirty - again, "dirty pages are counted");
        assert_eq!(self.dirty.moving, writeback, "pages on their way are counted");
        let queued = self.dirty_entries().count() as u64;
        assert_eq!(queued, dirty - again, "each dirty page has one entry that counts");
        for file in &self.dirty.files {
            assert_eq!(file.since.is_some(), file.dirty.len() > 0, "a dirty file knows since when");
        }
    }

    /// Puts a page at the end of those that wait to be written.
    fn push_dirty(&mut self, frame: u32, due: u32) {
        let dirty = &mut self.dirty;
        dirty.waiting += 1;
        // No entry of the page has the number of the next entry, and none is counted for it in
        // between.
        self.frames[frame as usize].mark = dirty.number(dirty.queue.len());
        // Few void entries cost less than sweeping them.
        const VOID_MIN: u64 = 1_024;
        if dirty.queue.len() as u64 > 2 * dirty.waiting + VOID_MIN {
            self.sweep();
        }
        let dirty = &mut self.dirty;
        self.frames[frame as usize].mark = dirty.number(dirty.queue.len());
        match dirty.queue.back() {
            None => dirty.unordered = false,
            Some(last) => dirty.unordered |= due < last.due,
        }
        dirty.queue.push_back(Entry { frame, due });
    }

    /// Takes void entries from the queue, all of them.
    fn sweep(&mut self) {
        let mut kept = 0;
        let first = self.dirty.number(self.dirty.queue.len());
        for place in 0..self.dirty.queue.len() {
            let entry = self.dirty.queue[place];
            if self.counts(entry, place) {
                self.frames[entry.frame as usize].mark = first.wrapping_add(kept as u32);
                self.dirty.queue[kept] = entry;
                kept += 1;
            }
        }
        self.dirty.queue.truncate(kept);
        self.dirty.first = first;
    }

    /// Takes void entries from the front of the queue.
    fn drop_void(&mut self) {
        while let Some(entry) = self.dirty.queue.front()
            && !self.counts(*entry, 0)
        {
            self.dirty.queue.pop_front();
            self.dirty.first = self.dirty.first.wrapping_add(1);
        }
    }

    /// Whether an entry belongs to a dirty page that is not under writeback.
    fn counts(&self, entry: Entry, place: usize) -> bool {
        let slot = &self.frames[entry.frame as usize];
        slot.flags & (DIRTY | WRITEBACK) == DIRTY && slot.mark == self.dirty.number(place)
    }

    /// The entries of dirty pages, the one that has been dirty longest first.
    fn dirty_entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let entries = self.dirty.queue.iter().copied().enumerate();
        entries.filter(|(place, entry)| self.counts(*entry, *place)).map(|(_, entry)| entry)
    }

    pub(super) fn dirtied(&self, frame: u32) -> Dirtied {
        let slot = &self.frames[frame as usize];
        Dirtied { file: FileId(slot.file), page: slot.page, frame: FrameId(frame) }
    }
}

impl DirtyPages {
    /// The number of the entry at a place of the queue.
    fn number(&self, place: usize) -> u32 {
        self.first.wrapping_add(place as u32)
    }
}

/// The unit of dues: the tick of the kernels whose rules count in them, 10 ms in nanoseconds.
const TICK: u64 = 10_000_000;

/// The first tick at or after a moment; at most 497 days.
fn ticks(due: Instant) -> u32 {
    u32::try_from(due.0.div_ceil(TICK)).unwrap_or(u32::MAX)
}

impl OfFile {
    /// Whether a dirty page is also under writeback.
    fn is_again(&self, page: PageIndex) -> bool {
        self.again > 0 && self.writeback.contains(page)
    }

    fn forget_if_clean(&mut self) {
        if self.dirty.len() == 0 {
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::Folio;
    use crate::reclaim::ACTIVE;
    use crate::time::Duration;

    const FILE: FileId = FileId(0);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn write(cache: &mut PageCache, page: PageIndex, now: Instant, due: Instant) -> FrameId {
        let hit = cache.lookup(FILE, page).or_else(|| cache.add_written(FILE, page)).unwrap();
        cache.mark_dirty(hit.frame, now, due);
        cache.check();
        hit.frame
    }

    #[test]
    fn pages_leave_in_the_order_in_which_they_became_dirty() {
        let mut cache = PageCache::new(8);
        for page in [5, 3, 4] {
            write(&mut cache, page, at(1), at(31));
        }
        write(&mut cache, 5, at(2), at(32));
        let oldest = cache.oldest_dirty().unwrap();
        assert_eq!(
            (oldest.page, cache.oldest_due()),
            (5, Some(at(31))),
            "writing again is no news"
        );
        cache.start_writeback(oldest.frame);
        cache.check();
        assert_eq!(cache.oldest_dirty().unwrap().page, 3);
        assert_eq!(cache.next_dirty(FILE, 0).unwrap().0, 3, "by place it is the first, too");
        assert_eq!(cache.dirty_counts(), (2, 1));
        cache.end_writeback(oldest.frame);
        cache.check();
        assert_eq!(cache.dirty_counts(), (2, 0));
    }

    #[test]
    fn a_page_dirtied_on_its_way_is_dirty_when_it_arrives() {
        let mut cache = PageCache::new(8);
        let frame = write(&mut cache, 5, at(1), at(31));
        cache.start_writeback(frame);
        assert_eq!(cache.file_dirty(FILE), (0, None));
        write(&mut cache, 5, at(2), at(32));
        assert_eq!(cache.file_dirty(FILE), (0, Some(at(2))), "not to be sent before it arrives");
        assert!(cache.oldest_dirty().is_none());
        cache.end_writeback(frame);
        cache.check();
        assert_eq!(cache.file_dirty(FILE), (1, Some(at(2))));
        assert_eq!(cache.old_dirty(at(32)).unwrap().page, 5);
        assert!(cache.old_dirty(at(31)).is_none());
    }

    #[test]
    fn pages_that_are_sent_and_dirtied_over_and_over_keep_their_order() {
        let mut cache = PageCache::new(8);
        write(&mut cache, 7, at(0), at(30));
        for round in 0..5_000 {
            let frame = write(&mut cache, round % 3, at(1), at(31));
            cache.start_writeback(frame);
            cache.end_writeback(frame);
        }
        write(&mut cache, 1, at(2), at(32));
        assert!(cache.dirty.queue.len() < 2_000, "void entries are swept");
        let mut order = Vec::new();
        while let Some(oldest) = cache.oldest_dirty() {
            order.push(oldest.page);
            cache.start_writeback(oldest.frame);
        }
        assert_eq!(order, [7, 1]);
    }

    #[test]
    fn a_cut_in_the_midst_of_a_folio_takes_the_pages_of_its_range_alone() {
        // A folio that reached out of the range stayed as a whole, so bytes that a TRIM had
        // replaced on the device were still read from memory, and written back over its zeroes.
        let mut cache = PageCache::new(8);
        assert!(cache.add(FILE, Folio { first: 0, order: 2, marked: true }));
        for page in 0..4 {
            let hit = cache.lookup(FILE, page).unwrap();
            cache.end_read(hit.frame);
        }
        for page in [1, 2] {
            let frame = cache.lookup(FILE, page).unwrap().frame;
            cache.mark_dirty(frame, at(1), at(31));
        }
        let (in_use, cancelled) = cache.cut(FILE, (2, 3));
        cache.check();
        assert_eq!((in_use.is_none(), cancelled), (true, 1));
        let there: Vec<PageIndex> =
            (0..4).filter(|page| cache.lookup(FILE, *page).is_some()).collect();
        assert_eq!((there, cache.dirty_counts()), (alloc::vec![0, 1, 3], (1, 0)));
    }

    #[test]
    fn a_sweep_takes_no_due_for_a_number() {
        let mut cache = PageCache::new(8);
        // The front of the queue is never void, so numbers begin with zero and pass the due.
        write(&mut cache, 7, at(0), at(0));
        for _ in 0..3_000 {
            let frame = write(&mut cache, 0, at(0), at(1));
            assert!(cache.dirty_entries().all(|entry| entry.due <= 100), "a due of 1 s");
            cache.start_writeback(frame);
            cache.end_writeback(frame);
        }
    }

    #[test]
    fn a_shorter_age_finds_younger_pages_behind_older_ones() {
        let mut cache = PageCache::new(8);
        write(&mut cache, 1, at(0), at(30));
        write(&mut cache, 2, at(1), at(6));
        assert_eq!(cache.oldest_due(), Some(at(6)));
        assert_eq!(cache.old_dirty(at(6)).unwrap().page, 2);
        assert_eq!(cache.oldest_dirty().unwrap().page, 1);
    }

    #[test]
    fn dirty_pages_are_never_evicted_and_clean_ones_come_back_to_their_list() {
        let mut cache = PageCache::new(2);
        let first = write(&mut cache, 1, at(0), at(30));
        write(&mut cache, 2, at(0), at(30));
        assert!(cache.add_written(FILE, 3).is_none());
        cache.start_writeback(first);
        assert!(cache.add_written(FILE, 3).is_none());
        cache.end_writeback(first);
        assert!(cache.add_written(FILE, 3).is_some());
        cache.check();
    }

    #[test]
    fn a_cut_drops_all_but_what_is_in_use() {
        let mut cache = PageCache::new(8);
        let moving = write(&mut cache, 1, at(0), at(30));
        write(&mut cache, 2, at(0), at(30));
        cache.start_writeback(moving);
        assert_eq!(cache.cut(FILE, (0, PageIndex::MAX)), (Some(moving), 1));
        assert!(cache.lookup(FILE, 2).is_none());
        cache.end_writeback(moving);
        assert_eq!(cache.cut(FILE, (0, PageIndex::MAX)), (None, 0));
        assert_eq!((cache.page_use(FILE).resident, cache.dirty_counts()), (0, (0, 0)));
        cache.check();
    }

    #[test]
    fn pages_that_were_used_twice_are_active_after_their_way() {
        let mut cache = PageCache::new(8);
        let frame = write(&mut cache, 1, at(0), at(30));
        cache.touch(frame);
        assert_eq!(cache.frames[frame.index()].rank & ACTIVE, ACTIVE);
        cache.start_writeback(frame);
        cache.end_writeback(frame);
        cache.check();
    }
}
