//! A readahead policy's view of a packed file: a deferred page is present, as in the kernel, whose
//! page cache holds it without contents.

use super::super::Engine;
use super::PackedFile;
use crate::block::BlockQueues;
use crate::cache::PageCache;
use crate::packed::Pages;
use crate::readahead::{AddressSpace, Folio, Readahead};
use crate::units::{DeviceId, FileId, HandleId, PageIndex};

/// The pages of a packed file, lent to a policy. Pages that it adds are deferred until the fill
/// rule has decided.
struct PackedSpace<'a> {
    id: FileId,
    pages: u64,
    device: DeviceId,
    cache: &'a mut PageCache,
    block: &'a BlockQueues,
    file: &'a mut PackedFile,
    added: Pages,
}

impl Engine {
    /// Lends the pages of an open packed file to its policy.
    pub(in super::super) fn with_packed_space(
        &mut self,
        handle: HandleId,
        act: impl FnOnce(&mut dyn Readahead, &mut dyn AddressSpace),
    ) {
        let id = self.file_of(handle);
        let place = self.packed_place(id).expect("the file is packed");
        let file = self.files[id.index()];
        let opened = self.handles[handle.index()].as_mut().expect("a call names an open file");
        let before = self.packed.asked.len();
        let mut space = PackedSpace {
            id,
            pages: file.pages(),
            device: file.device,
            cache: &mut self.cache,
            block: &self.block,
            file: &mut self.packed.files[place],
            added: self.packed.asked,
        };
        act(&mut *opened.readahead, &mut space);
        self.packed.asked = space.added;
        self.stats.windows.record(self.packed.asked.len() - before);
    }

    /// Whether the policy sees a page as present, and with a marker.
    pub(in super::super) fn deferred_marker(&self, file: FileId, page: PageIndex) -> Option<bool> {
        let packed = &self.packed.files[self.packed_place(file)?];
        packed.deferred.has(page).then(|| packed.marked.has(page))
    }
}

impl AddressSpace for PackedSpace<'_> {
    fn file_pages(&self) -> u64 {
        self.pages
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        let deferred = || {
            let marked = self.file.marked.has(page);
            self.file.deferred.has(page).then_some(Folio { first: page, order: 0, marked })
        };
        self.cache.folio(self.id, page).or_else(deferred)
    }

    fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool {
        let end = first.saturating_add(1 << order.min(63)).min(self.pages);
        let pages = Pages::new(first, end);
        if self.added.hull(pages).len() > self.available_pages().max(1) {
            return false;
        }
        for page in first..end {
            self.file.deferred.set(page);
            if marked && page == first {
                self.file.marked.set(page);
            }
        }
        self.added = self.added.hull(pages);
        true
    }

    fn submit(&mut self) {}

    fn clear_marker(&mut self, page: PageIndex) {
        self.cache.clear_marker(self.id, page);
        self.file.marked.clear(page);
    }

    fn congested(&self) -> bool {
        self.block.congested(self.device)
    }

    fn available_pages(&self) -> u64 {
        self.cache.available()
    }
}
