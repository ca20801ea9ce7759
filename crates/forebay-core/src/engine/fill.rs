//! From an absent page to a bio: pages that a policy adds, and pages that are read singly.

use super::{Engine, File};
use crate::block::{Bio, BlockQueues};
use crate::cache::{Hit, PageCache};
use crate::io::RequestKind;
use crate::readahead::{AddressSpace, Folio, Readahead};
use crate::time::Instant;
use crate::units::{CallId, FileId, HandleId, PAGE_SECTORS, PAGE_SIZE, PageIndex};

/// One file's pages, lent to a policy.
pub(super) struct FileSpace<'a> {
    now: Instant,
    id: FileId,
    file: File,
    cache: &'a mut PageCache,
    block: &'a mut BlockQueues,
    /// The call, and the page that it waits for.
    task: CallId,
    wanted: Option<PageIndex>,
    /// Pages added and not yet submitted, `[start, end)`.
    run: (PageIndex, PageIndex),
    /// Pages added.
    added: u64,
}

impl Engine {
    /// Lends the pages of an open file to its policy, on behalf of a call that may wait for one of
    /// them.
    pub(super) fn with_space(
        &mut self,
        handle: HandleId,
        (task, wanted): (CallId, Option<PageIndex>),
        act: impl FnOnce(&mut dyn Readahead, &mut dyn AddressSpace),
    ) {
        self.unchanged = false;
        if self.is_packed(self.file_of(handle)) {
            if self.reads_ahead(handle) {
                self.with_packed_space(handle, act);
            }
            return;
        }
        let opened = self.handles[handle.index()].as_mut().expect("a call names an open file");
        let mut space = FileSpace {
            now: self.now,
            id: opened.file,
            file: self.files[opened.file.index()],
            cache: &mut self.cache,
            block: &mut self.block,
            task,
            wanted,
            run: (0, 0),
            added: 0,
        };
        act(&mut *opened.readahead, &mut space);
        space.submit();
        self.stats.windows.record(space.added);
    }

    /// Reads one absent page that a call needs now; nothing if there is no memory for it.
    pub(super) fn read_alone(&mut self, call: CallId, id: FileId, page: PageIndex) -> Option<Hit> {
        self.unchanged = false;
        if !self.cache.add(id, Folio { first: page, order: 0, marked: false }) {
            return None;
        }
        self.stats.pages_alone += 1;
        let file = self.files[id.index()];
        let hit = self.cache.lookup(id, page);
        let frame = hit.map(|hit| hit.frame);
        let bio = file.bio(RequestKind::Read, id, page, 1);
        let bio = Bio { frame, task: Some(call), ahead: false, ..bio };
        self.block.submit_bio(self.now, file.device, bio);
        hit
    }
}

impl File {
    /// Its pages, a partial last one included.
    pub(super) fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_SIZE)
    }

    /// A run of its pages that no call waits for.
    pub(super) fn bio(&self, kind: RequestKind, file: FileId, first: PageIndex, pages: u64) -> Bio {
        let (sector, sectors) = (self.sector + first * PAGE_SECTORS, pages * PAGE_SECTORS);
        Bio { kind, frame: None, file, first, sector, sectors, task: None, ahead: true }
    }
}

impl AddressSpace for FileSpace<'_> {
    fn file_pages(&self) -> u64 {
        self.file.pages()
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        self.cache.folio(self.id, page)
    }

    fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool {
        if !self.cache.add(self.id, Folio { first, order, marked }) {
            return false;
        }
        if self.run.1 != first {
            self.submit();
            self.run.0 = first;
        }
        self.run.1 = first + (1 << order);
        self.added += 1 << order;
        true
    }

    fn submit(&mut self) {
        let (start, end) = core::mem::take(&mut self.run);
        if start < end {
            let ahead = !self.wanted.is_some_and(|page| (start..end).contains(&page));
            let bio = self.file.bio(RequestKind::Read, self.id, start, end - start);
            let bio = Bio { task: Some(self.task), ahead, ..bio };
            self.block.submit_bio(self.now, self.file.device, bio);
        }
    }

    fn clear_marker(&mut self, page: PageIndex) {
        self.cache.clear_marker(self.id, page);
    }

    fn congested(&self) -> bool {
        self.block.congested(self.file.device)
    }

    fn available_pages(&self) -> u64 {
        self.cache.available()
    }

    fn contains(&self, page: PageIndex) -> bool {
        self.cache.lookup(self.id, page).is_some()
    }
}
