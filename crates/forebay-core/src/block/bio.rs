//! A bio: what the page cache asks of a device in one piece.

use crate::dispatch::{Class, Handling};
use crate::io::{NO_FILE, Request, RequestKind};
use crate::units::{
    CallId, DeviceId, FileId, FrameId, PAGE_SECTORS, PageIndex, RequestId, SECTOR_SIZE,
};

/// A contiguous run of one file's pages to be read or written, or a run of sectors that bypasses
/// the page cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
    pub(crate) kind: RequestKind,
    /// The frame of the first page, if the caller knows it.
    pub(crate) frame: Option<FrameId>,
    pub(crate) file: FileId,
    pub(crate) first: PageIndex,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    /// The task that asks; none for what the flusher sends.
    pub(crate) task: Option<CallId>,
    /// No task waits for any of its pages.
    pub(crate) ahead: bool,
}

impl Bio {
    /// The request that it is when it joins no other.
    pub(super) fn request(&self, id: RequestId, device: DeviceId, handling: Handling) -> Request {
        let Self { kind, file, first, sector, sectors, task, .. } = *self;
        let pages = self.pages();
        Request { id, device, file, first, pages, sector, sectors, kind, handling, task }
    }

    /// The number of pages, a last one in part included.
    pub(crate) fn pages(&self) -> u64 {
        self.sectors.div_ceil(PAGE_SECTORS)
    }

    /// Whether it writes pages of the page cache.
    pub(super) fn is_writeback(&self) -> bool {
        self.kind.is_data_write() && self.file != NO_FILE
    }

    /// What a rule of dispatch sees of it; nothing of metadata, flushes and discards, which are
    /// queued.
    pub(super) fn class(&self) -> Option<Class> {
        class(self.kind, self.sectors, self.ahead)
    }

    /// The first sector behind it.
    pub(super) fn end(&self) -> u64 {
        self.sector + self.sectors
    }

    /// The part after the first `sectors`.
    pub(super) fn behind(self, sectors: u64) -> Self {
        Self {
            first: self.first + sectors / PAGE_SECTORS,
            sector: self.sector + sectors,
            sectors: self.sectors - sectors,
            frame: None,
            ..self
        }
    }
}

/// What a rule of dispatch sees of a request.
pub(super) fn class(kind: RequestKind, sectors: u64, ahead: bool) -> Option<Class> {
    let write = match kind {
        RequestKind::Read => false,
        RequestKind::Write | RequestKind::DurableWrite => true,
        RequestKind::Inode | RequestKind::Flush | RequestKind::Discard => return None,
    };
    Some(Class { write, bytes: sectors * SECTOR_SIZE, ahead })
}
