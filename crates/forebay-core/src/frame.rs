//! A frame of page memory: which page it holds and in what state; and the index that finds it.

use crate::units::{FileId, PageIndex};

mod index;

pub(crate) use index::Index;

/// No frame in a link.
pub(crate) const NONE: u32 = u32::MAX;

/// No call: one more than the largest id.
pub(crate) const NO_CALL: u16 = u16::MAX;

/// Frames that are reserved at once: 16 GiB of page memory in 128 MiB of address space.
pub(crate) const RESERVED_MAX: u32 = 1 << 22;

/// Pages of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageUse {
    /// In the cache, up to date or not.
    pub resident: u64,
    /// Brought into the cache by reads of the device, those that failed not counted.
    pub read: u64,
    /// Of those, accessed at least once.
    pub used: u64,
}

/// State of one frame; meaningful only while it holds a page.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub(crate) page: PageIndex,
    pub(crate) file: u32,
    /// For a dirty page, the number of its entry in the queue; for a page under writeback, its next
    /// due time. For a page of a packed file, the operation that fills it, or whether it counts as
    /// unused.
    pub(crate) mark: u32,
    /// The links belong to reclaim.
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// The first call that waits for the page; the rest hang on the calls.
    pub(crate) waiters: u16,
    /// Woken calls that have not resumed yet; the page stays for them.
    pub(crate) pins: u16,
    pub(crate) flags: u8,
    /// Log2 of the pages of the folio that this page belongs to.
    pub(crate) order: u8,
    /// What reclaim notes about the page.
    pub(crate) rank: u8,
}

/// The frame holds a page.
pub(crate) const PRESENT: u8 = 1;
/// The page is being read.
pub(crate) const READING: u8 = 1 << 1;
/// The folio triggers the next window; kept on its first page.
pub(crate) const MARKED: u8 = 1 << 2;
/// Reclaim has noted that further accesses change nothing.
pub(crate) const SETTLED: u8 = 1 << 3;
/// The page has been accessed.
pub(crate) const USED: u8 = 1 << 4;
/// The page differs from the device.
pub(crate) const DIRTY: u8 = 1 << 5;
/// The page is under writeback.
pub(crate) const WRITEBACK: u8 = 1 << 6;

impl Frame {
    /// Whether the page is being read, written or waited for, or is dirty.
    pub(crate) fn is_busy(&self) -> bool {
        self.flags & (READING | DIRTY | WRITEBACK) != 0 || self.pins > 0
    }

    /// Whether the frame holds a page.
    pub fn is_present(&self) -> bool {
        self.flags & PRESENT != 0
    }

    /// Whether the page differs from its device, under writeback or not.
    pub(crate) fn is_unsafe(&self) -> bool {
        self.flags & (DIRTY | WRITEBACK) != 0
    }

    /// Whether no call waits for the page or holds it.
    pub(crate) fn is_let_go(&self) -> bool {
        self.pins == 0 && self.waiters == NO_CALL
    }
}

/// The frame of a page.
pub(crate) fn frame_of(
    frames: &[Frame],
    index: &Index,
    file: FileId,
    page: PageIndex,
) -> Option<u32> {
    index.find(file.0, page, |frame| {
        let slot = &frames[frame as usize];
        slot.page == page && slot.file == file.0
    })
}

/// The frame of the first page of the folio of a page.
pub(crate) fn head_of(frames: &[Frame], index: &Index, slot: &Frame) -> u32 {
    let first = slot.page >> slot.order << slot.order;
    let head = frame_of(frames, index, FileId(slot.file), first);
    head.expect("a folio is present as a whole")
}
