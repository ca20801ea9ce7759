//! What a reclaim policy sees and does of page memory.

use alloc::vec::Vec;

use crate::frame::{
    DIRTY, Frame, Index, MARKED, PRESENT, PageUse, READING, SETTLED, WRITEBACK, frame_of, head_of,
};
use crate::readahead::Folio;
use crate::units::{FileId, PageIndex};

/// All frames, lent to a reclaim policy.
#[derive(Debug)]
pub struct FrameTable<'a> {
    pub(crate) frames: &'a mut [Frame],
    pub(crate) index: &'a mut Index,
    pub(crate) free: &'a mut Vec<u32>,
    pub(crate) files: &'a mut [PageUse],
    pub(crate) frames_max: u32,
    pub(crate) evicted: &'a mut u64,
    pub(crate) scanned: &'a mut u64,
}

impl FrameTable<'_> {
    /// Notes that further accesses of a page change nothing, or that they do again.
    pub(super) fn settle(&mut self, frame: u32, settled: bool) {
        let flags = &mut self.frames[frame as usize].flags;
        *flags = if settled { *flags | SETTLED } else { *flags & !SETTLED };
    }

    /// The policy's own byte of a page; zero when it comes.
    pub(super) fn rank(&self, frame: u32) -> u8 {
        self.frames[frame as usize].rank
    }

    pub(super) fn set_rank(&mut self, frame: u32, rank: u8) {
        self.frames[frame as usize].rank = rank;
    }

    /// Whether a frame holds a page.
    pub fn is_present(&self, frame: u32) -> bool {
        self.frames[frame as usize].flags & PRESENT != 0
    }

    /// Whether a page differs from its device, under writeback or not.
    pub(super) fn is_unsafe(&self, frame: u32) -> bool {
        self.frames[frame as usize].is_unsafe()
    }

    /// Whether a page is dirty and not under writeback.
    pub(super) fn waits_for_write(&self, frame: u32) -> bool {
        self.frames[frame as usize].flags & (DIRTY | WRITEBACK) == DIRTY
    }

    /// Whether a page of the folio of a frame is being read, written or waited for, or is dirty.
    pub fn is_busy(&self, frame: u32) -> bool {
        is_busy(self.frames, self.index, frame)
    }

    /// The folio of a page.
    pub(super) fn folio_of(&self, frame: u32) -> Folio {
        let slot = &self.frames[frame as usize];
        let head = &self.frames[self.head(frame) as usize];
        Folio { first: head.page, order: slot.order, marked: head.flags & MARKED != 0 }
    }

    /// The frame of the first page of the folio of a page.
    pub(super) fn head(&self, frame: u32) -> u32 {
        let slot = &self.frames[frame as usize];
        if slot.order == 0 { frame } else { head_of(self.frames, self.index, slot) }
    }

    /// The file and index of a page.
    pub fn key(&self, frame: u32) -> (u32, PageIndex) {
        let slot = &self.frames[frame as usize];
        (slot.file, slot.page)
    }

    /// The frame of a page, if it is cached.
    pub fn frame_of(&self, file: u32, page: PageIndex) -> Option<u32> {
        frame_of(self.frames, self.index, FileId(file), page)
    }

    /// The frame of a cached page.
    pub(super) fn find(&self, file: u32, page: PageIndex) -> u32 {
        self.frame_of(file, page).expect("the page is there")
    }

    /// Frees the frame of an idle page, which the policy has taken from its lists.
    pub(super) fn discard(&mut self, frame: u32) {
        let slot = &mut self.frames[frame as usize];
        let state = slot.flags & (PRESENT | READING | DIRTY | WRITEBACK);
        assert!(state == PRESENT, "only an idle page can leave");
        assert!(slot.is_let_go(), "an evicted page has no waiters");
        (slot.flags, slot.order) = (0, 0);
        let (file, page) = (slot.file, slot.page);
        self.files[file as usize].resident -= 1;
        self.index.remove(file, page, frame);
        self.free.push(frame);
    }

    pub(super) fn count_evicted(&mut self, pages: u64) {
        *self.evicted += pages;
    }

    /// Counts frames that were looked at one after another, which takes time.
    pub(super) fn count_scanned(&mut self, frames: u64) {
        *self.scanned += frames;
    }

    /// Frames that were ever used; the others are free.
    pub fn used(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Frames without a page.
    pub fn free(&self) -> u64 {
        self.free.len() as u64 + (u64::from(self.frames_max) - self.frames.len() as u64)
    }
}

/// Whether a page of the folio of a frame is being read, written or waited for, or is dirty.
pub(crate) fn is_busy(frames: &[Frame], index: &Index, frame: u32) -> bool {
    let slot = &frames[frame as usize];
    if slot.order == 0 {
        return slot.is_busy();
    }
    let first = slot.page >> slot.order << slot.order;
    (first..first + (1 << slot.order)).any(|page| {
        let part = frame_of(frames, index, FileId(slot.file), page);
        frames[part.expect("a folio is present as a whole") as usize].is_busy()
    })
}
