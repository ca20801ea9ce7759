//! The page cache: which page is in which frame, and in what state.
//!
//! ```text
//!   absent --add--> reading --end_read--> up to date --evict--> absent
//!      |               '--fail_read--> absent  | ^
//!      |                            mark_dirty | | end_writeback
//!      |                                       v |
//!      '--add_written--> up to date          dirty --start_writeback--> on its way
//! ```
//!
//! A frame is 32 bytes of bookkeeping, at most four slots of the index and a slot in the free list,
//! 68 bytes in all. Their address space is reserved once, up to a limit. Beyond it the space grows
//! with the used frames, so the configured memory may be larger than the host's. Pages of a folio
//! each have a frame and store its order; they are added and evicted together.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::frame::{
    Frame, Index, MARKED, NO_CALL, NONE, PRESENT, PageUse, READING, RESERVED_MAX, SETTLED, USED,
    WRITEBACK, frame_of, head_of,
};
use crate::readahead::Folio;
use crate::reclaim::{self, Origin, Reclaim};
use crate::units::{CallId, FileId, FrameId, PageIndex};

mod dirty;
mod room;

pub(crate) use dirty::Dirtied;
use dirty::DirtyPages;

/// The bounded page memory and everything known about it.
#[derive(Debug)]
pub(crate) struct PageCache {
    /// The frames that were ever used.
    frames: Vec<Frame>,
    frames_max: u32,
    index: Index,
    /// Chooses the pages to evict when memory is short.
    reclaim: Box<dyn Reclaim>,
    /// Frames that reclaim keeps free.
    low: u64,
    /// A call evicts any idle page before it waits.
    evicts_any: bool,
    /// The frame that was evicted last to this end.
    hand: u32,
    waits_for_pass: bool,
    /// Reclaim's background writer has woken since it was last asked.
    reclaim_woke: bool,
    /// Used frames that hold no page any more, the next to be used last.
    free: Vec<u32>,
    /// Frames whose page is being read.
    reading: u32,
    dirty: DirtyPages,
    pub(crate) counters: Counters,
    /// Pages of each file, up to the last that has or had any.
    files: Vec<PageUse>,
}

/// What happened to pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Pages added to the cache.
    pub(crate) added: u64,
    /// Folios that were added to be read.
    pub(crate) folios: u64,
    /// Added pages that became up to date.
    pub(crate) read: u64,
    /// Added pages that were accessed at least once.
    pub(crate) used: u64,
    /// Pages evicted to make room.
    pub(crate) evicted: u64,
    /// Frames that reclaim has looked at one after another, on behalf of callers.
    pub(crate) scanned: u64,
    /// The same by its background writer.
    pub(crate) scanned_behind: u64,
}

/// A page that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) frame: FrameId,
    pub(crate) reading: bool,
}

impl PageCache {
    /// Page memory of `frames` pages.
    pub(crate) fn new(frames: u32) -> Self {
        Self::with_reclaim(frames, reclaim::Spec::default().build())
    }

    /// The index begins small and grows. Memory is empty.
    pub(crate) fn let_index_grow(&mut self) {
        self.index = Index::growing(self.frames_max);
    }

    /// Page memory of `frames` pages under a reclaim policy.
    pub(crate) fn with_reclaim(frames: u32, mut reclaim: Box<dyn Reclaim>) -> Self {
        reclaim.begin(frames);
        let low = reclaim.low();
        Self {
            frames: Vec::with_capacity(frames.min(RESERVED_MAX) as usize),
            frames_max: frames,
            index: Index::new(frames),
            waits_for_pass: reclaim.waits_for_pass(),
            reclaim,
            low,
            evicts_any: false,
            hand: 0,
            reclaim_woke: false,
            free: Vec::new(),
            reading: 0,
            dirty: DirtyPages::default(),
            counters: Counters::default(),
            files: Vec::new(),
        }
    }

    /// From now on a call evicts any idle page before it waits for memory, whatever the reclaim
    /// policy thinks.
    pub(crate) fn set_evicts_any(&mut self) {
        self.evicts_any = true;
    }

    /// Adds the absent pages of a folio, all being read. Returns whether there was memory.
    pub(crate) fn add(&mut self, file: FileId, folio: Folio) -> bool {
        if !self.reserve(folio.pages(), Origin::Read) {
            return false;
        }
        for page in folio.first..folio.first + folio.pages() {
            let marked = if folio.marked && page == folio.first { MARKED } else { 0 };
            self.place((file, page), READING | marked, folio.order, Origin::Read);
        }
        self.reading += folio.pages() as u32;
        self.counters.added += folio.pages();
        self.counters.folios += 1;
        true
    }

    /// Adds an absent page whose bytes the caller is about to give. Nothing if there is no memory.
    pub(crate) fn add_written(&mut self, file: FileId, page: PageIndex) -> Option<Hit> {
        if !self.reserve(1, Origin::Write) {
            return None;
        }
        self.counters.added += 1;
        let frame = self.place((file, page), USED, 0, Origin::Write);
        Some(self.hit(frame))
    }

    /// Adds an absent page that will be filled from memory, by what the mark says. Nothing if there
    /// is no memory.
    pub(crate) fn claim(
        &mut self,
        file: FileId,
        page: PageIndex,
        (marked, mark): (bool, u32),
    ) -> Option<FrameId> {
        if !self.add(file, Folio { first: page, order: 0, marked }) {
            return None;
        }
        let frame = self.find(file, page).expect("it has been added");
        self.frames[frame as usize].mark = mark;
        Some(FrameId(frame))
    }

    /// The mark of a page of a packed file.
    pub(crate) fn mark(&self, frame: FrameId) -> u32 {
        self.frames[frame.index()].mark
    }

    /// Sets the mark of a page of a packed file.
    pub(crate) fn set_mark(&mut self, frame: FrameId, mark: u32) {
        self.frames[frame.index()].mark = mark;
    }

    /// A page is up to date.
    pub(crate) fn end_read(&mut self, frame: FrameId) {
        self.stop_reading(frame);
        self.counters.read += 1;
        let file = self.frames[frame.index()].file as usize;
        self.files[file].read += 1;
    }

    fn stop_reading(&mut self, frame: FrameId) {
        let slot = &mut self.frames[frame.index()];
        assert!(slot.flags & READING != 0, "only what is being read can end its read");
        slot.flags &= !READING;
        self.reading -= 1;
    }

    /// A page could not be read: it is absent again. The rest of its folio become single pages.
    pub(crate) fn fail_read(&mut self, frame: FrameId) {
        self.stop_reading(frame);
        assert!(self.frames[frame.index()].waiters == NO_CALL, "waiters were told first");
        self.split(frame.0);
        self.drop_folio(frame.0);
    }

    /// An access by read, write or fault.
    #[inline]
    pub(crate) fn touch(&mut self, frame: FrameId) {
        let flags = self.frames[frame.index()].flags;
        if flags & (USED | SETTLED) == USED | SETTLED {
            return;
        }
        let first = flags & USED == 0;
        if first {
            self.counters.used += 1;
            let slot = &mut self.frames[frame.index()];
            slot.flags |= USED;
            self.files[slot.file as usize].used += 1;
        }
        let (reclaim, mut table) = self.parts();
        reclaim.on_accessed(frame.0, first, &mut table);
    }

    /// Finds a page that is up to date and not marked, and counts an access to it. The guess is
    /// that of [`lookup_at`](Self::lookup_at).
    #[inline]
    pub(crate) fn touch_ready(
        &mut self,
        file: FileId,
        page: PageIndex,
        guess: Option<FrameId>,
    ) -> Option<FrameId> {
        let guess = guess.filter(|guess| self.holds(*guess, file, page));
        let frame = guess.or_else(|| self.find(file, page).map(FrameId))?;
        if self.frames[frame.index()].flags & READING != 0 || self.is_marked(frame) {
            return None;
        }
        self.touch(frame);
        Some(frame)
    }

    /// Makes `call` the first waiter of a page and returns the one that was.
    pub(crate) fn push_waiter(&mut self, frame: FrameId, call: CallId) -> Option<CallId> {
        let first = core::mem::replace(&mut self.frames[frame.index()].waiters, waiter(call));
        (first != NO_CALL).then_some(CallId(first.into()))
    }

    /// Takes the chain of waiters from a page.
    pub(crate) fn take_waiters(&mut self, frame: FrameId) -> Option<CallId> {
        let first = core::mem::replace(&mut self.frames[frame.index()].waiters, NO_CALL);
        (first != NO_CALL).then_some(CallId(first.into()))
    }

    /// Keeps a page for a woken call.
    pub(crate) fn pin(&mut self, frame: FrameId) {
        self.frames[frame.index()].pins += 1;
    }

    /// Pins a page for a decode, which may take long: the rest of its folio can be evicted in the
    /// meantime.
    pub(crate) fn pin_alone(&mut self, frame: FrameId) {
        self.split(frame.0);
        self.pin(frame);
    }

    /// The woken call has resumed.
    pub(crate) fn unpin(&mut self, frame: FrameId) {
        self.frames[frame.index()].pins -= 1;
    }

    /// Takes the marker from the folio that holds `page`.
    pub(crate) fn clear_marker(&mut self, file: FileId, page: PageIndex) {
        if let Some(folio) = self.folio(file, page)
            && let Some(first) = self.find(file, folio.first)
        {
            self.frames[first as usize].flags &= !MARKED;
        }
    }

    /// Drops the idle pages of every folio that lies wholly inside a range; returns how many.
    pub(crate) fn invalidate(&mut self, file: FileId, first: PageIndex, end: PageIndex) -> u64 {
        let mut dropped = 0;
        if end.saturating_sub(first) > self.frames.len() as u64 {
            for frame in 0..self.frames.len() as u32 {
                let slot = self.frames[frame as usize];
                if slot.flags & PRESENT != 0 && slot.file == file.0 {
                    dropped += self.invalidate_one(frame, first, end);
                }
            }
        } else {
            for page in first..end {
                if let Some(frame) = self.find(file, page) {
                    dropped += self.invalidate_one(frame, first, end);
                }
            }
        }
        dropped
    }

    /// A page by file and index.
    pub(crate) fn lookup(&self, file: FileId, page: PageIndex) -> Option<Hit> {
        let frame = self.find(file, page)?;
        Some(self.hit(frame))
    }

    /// As [`lookup`](Self::lookup), with a guess at the frame: pages that came in order mostly lie
    /// in order.
    pub(crate) fn lookup_at(
        &self,
        file: FileId,
        page: PageIndex,
        guess: Option<FrameId>,
    ) -> Option<Hit> {
        match guess.filter(|guess| self.holds(*guess, file, page)) {
            Some(frame) => Some(self.hit(frame.0)),
            None => self.lookup(file, page),
        }
    }

    /// Whether a frame, if there is such a one, holds a page.
    fn holds(&self, frame: FrameId, file: FileId, page: PageIndex) -> bool {
        let holds = |slot: &Frame| slot.page == page && slot.file == file.0 && slot.is_present();
        self.frames.get(frame.index()).is_some_and(holds)
    }

    /// Whether the folio of a frame's page is marked.
    pub(crate) fn is_marked(&self, frame: FrameId) -> bool {
        match self.frames[frame.index()] {
            Frame { order: 0, flags, .. } => flags & MARKED != 0,
            Frame { .. } => self.folio_of(frame).marked,
        }
    }

    /// The folio of a frame's page and whether it is marked.
    pub(crate) fn folio_of(&self, frame: FrameId) -> Folio {
        let slot = &self.frames[frame.index()];
        let order = slot.order;
        if order == 0 {
            return Folio { first: slot.page, order, marked: slot.flags & MARKED != 0 };
        }
        let head = head_of(&self.frames, &self.index, slot);
        let first = self.frames[head as usize].page;
        Folio { first, order, marked: self.frames[head as usize].flags & MARKED != 0 }
    }

    /// The folio that holds a page.
    pub(crate) fn folio(&self, file: FileId, page: PageIndex) -> Option<Folio> {
        Some(self.folio_of(FrameId(self.find(file, page)?)))
    }

    /// Pages that are free, or could leave before pages that matter more.
    pub(crate) fn available(&self) -> u64 {
        self.free() + self.reclaim.evictable().saturating_sub(u64::from(self.reading))
    }

    /// The most pages that it holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.frames_max
    }

    /// Cached pages.
    pub(crate) fn len(&self) -> u64 {
        (self.frames.len() - self.free.len()) as u64
    }

    /// Pages of a file.
    pub(crate) fn page_use(&self, file: FileId) -> PageUse {
        self.files.get(file.index()).copied().unwrap_or_default()
    }

    /// Frames that hold no page.
    fn free(&self) -> u64 {
        self.free.len() as u64 + (u64::from(self.frames_max) - self.frames.len() as u64)
    }

    /// Puts a page into a free frame.
    fn take(&mut self, page: Frame) -> u32 {
        if let Some(frame) = self.free.pop() {
            self.frames[frame as usize] = page;
            return frame;
        }
        assert!(self.frames.len() < self.frames_max as usize, "the pages were reserved");
        self.frames.push(page);
        self.frames.len() as u32 - 1
    }

    fn hit(&self, frame: u32) -> Hit {
        Hit { frame: FrameId(frame), reading: self.frames[frame as usize].flags & READING != 0 }
    }

    /// Puts an absent page into a free frame.
    fn place(
        &mut self,
        (file, page): (FileId, PageIndex),
        flags: u8,
        order: u8,
        origin: Origin,
    ) -> u32 {
        let frame = self.take(Frame {
            page,
            file: file.0,
            mark: 0,
            prev: NONE,
            next: NONE,
            waiters: NO_CALL,
            pins: 0,
            flags: PRESENT | flags,
            order,
            rank: 0,
        });
        self.index.insert(file.0, page, frame);
        if self.files.len() <= file.index() {
            self.files.resize(file.index() + 1, PageUse::default());
        }
        self.files[file.index()].resident += 1;
        let (reclaim, mut table) = self.parts();
        reclaim.on_added(frame, origin, &mut table);
        frame
    }

    fn find(&self, file: FileId, page: PageIndex) -> Option<u32> {
        frame_of(&self.frames, &self.index, file, page)
    }

    fn invalidate_one(&mut self, frame: u32, first: PageIndex, end: PageIndex) -> u64 {
        let folio = self.folio_of(FrameId(frame));
        if folio.first < first || folio.first + folio.pages() > end || self.busy(frame) {
            return 0;
        }
        self.drop_folio(frame)
    }

    /// Makes single pages of the folio of a frame, which stay in the cache.
    pub(crate) fn split(&mut self, frame: u32) {
        if self.frames[frame as usize].order == 0 {
            return;
        }
        let folio = self.folio_of(FrameId(frame));
        let file = FileId(self.frames[frame as usize].file);
        for page in folio.first..folio.first + folio.pages() {
            let part = self.find(file, page).expect("a folio is present as a whole");
            self.frames[part as usize].order = 0;
        }
    }

    /// Removes all pages of the idle folio of a frame; returns how many.
    fn drop_folio(&mut self, frame: u32) -> u64 {
        let (reclaim, mut table) = self.parts();
        reclaim::remove_folio(reclaim, frame, false, &mut table)
    }

    /// States the invariants of the cache.
    pub(crate) fn check(&self) {
        let present = |frame: &&Frame| frame.flags & PRESENT != 0;
        let resident = self.frames.iter().filter(present).count();
        let reading = self.frames.iter().filter(|frame| frame.flags & READING != 0).count();
        assert_eq!(
            resident + self.free.len(),
            self.frames.len(),
            "a frame is free or holds a page"
        );
        assert_eq!(reading, self.reading as usize, "pages being read are counted");
        let mut by_file = alloc::vec![0; self.files.len()];
        for frame in self.frames.iter().filter(present) {
            by_file[frame.file as usize] += 1;
        }
        let counted = self.files.iter().map(|file| file.resident);
        assert!(counted.eq(by_file), "pages of each file are counted");
        for (number, frame) in self.frames.iter().enumerate().filter(|(_, frame)| present(frame)) {
            let found = self.find(FileId(frame.file), frame.page);
            assert_eq!(found, Some(number as u32), "the index finds each page in its frame");
            let folio = self.folio_of(FrameId(number as u32));
            for page in folio.first..folio.first + folio.pages() {
                let part = self.find(FileId(frame.file), page).expect("a folio is whole");
                assert_eq!(self.frames[part as usize].order, folio.order, "one order per folio");
            }
            let idle = frame.flags & (READING | WRITEBACK) == 0;
            assert!(
                !(idle && frame.waiters != NO_CALL),
                "a page that is up to date has no waiters"
            );
        }
        let listed = self.reclaim.check(&self.frames);
        let (dirty, writeback) = self.dirty_counts();
        let unlisted = if self.reclaim.lists_dirty() { 0 } else { dirty + writeback };
        assert_eq!(listed as u64 + unlisted, resident as u64, "each page is on one list");
        self.check_dirty();
    }

    /// The first call that waits for a page.
    pub(crate) fn first_waiter(&self, frame: FrameId) -> Option<CallId> {
        let first = self.frames[frame.index()].waiters;
        (first != NO_CALL).then_some(CallId(first.into()))
    }

    /// The number of frames that were ever used.
    pub(crate) fn frames(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Pages being read.
    pub(crate) fn reading(&self) -> u32 {
        self.reading
    }
}

/// A call in the link of a page.
fn waiter(call: CallId) -> u16 {
    u16::try_from(call.0).expect("fewer calls are in flight than 16 bits can name")
}

#[cfg(test)]
mod tests;
