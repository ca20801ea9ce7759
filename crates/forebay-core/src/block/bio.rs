//! A bio: what the page cache asks of a device in one piece.

use crate::dispatch::{Class, Handling};
use crate::io::{Request, RequestKind};
use crate::units::{
    CallId, DeviceId, FileId, FrameId, PAGE_SECTORS, PAGE_SIZE, PageIndex, RequestId,
};

/// A contiguous run of one file's pages that wants to be read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
    pub(crate) kind: RequestKind,
    /// The frame of the first page, if the caller knows it.
    pub(crate) frame: Option<FrameId>,
    pub(crate) file: FileId,
    pub(crate) first: PageIndex,
    pub(crate) pages: u64,
    pub(crate) sector: u64,
    /// Who asks; nobody for what the flusher sends.
    pub(crate) task: Option<CallId>,
    /// Nobody waits for any of its pages.
    pub(crate) ahead: bool,
}

impl Bio {
    /// The request that it is when it joins no other.
    pub(super) fn request(&self, id: RequestId, device: DeviceId, handling: Handling) -> Request {
        let Self { kind, file, first, pages, sector, task, .. } = *self;
        Request { id, device, file, first, pages, sector, kind, handling, task }
    }

    /// What a rule of dispatch sees of it; nothing of metadata and flushes, which are queued.
    pub(super) fn class(&self) -> Option<Class> {
        class(self.kind, self.pages, self.ahead)
    }

    /// The first page behind it.
    pub(super) fn end(&self) -> PageIndex {
        self.first + self.pages
    }

    /// What is left behind the first `pages`.
    pub(super) fn behind(self, pages: u64) -> Self {
        Self {
            first: self.first + pages,
            pages: self.pages - pages,
            sector: self.sector + pages * PAGE_SECTORS,
            frame: None,
            ..self
        }
    }
}

/// What a rule of dispatch sees of a request.
pub(super) fn class(kind: RequestKind, pages: u64, ahead: bool) -> Option<Class> {
    let write = match kind {
        RequestKind::Read => false,
        RequestKind::Write | RequestKind::DurableWrite => true,
        RequestKind::Inode | RequestKind::Flush => return None,
    };
    Some(Class { write, bytes: pages * PAGE_SIZE, ahead })
}
