//! Page memory under one policy, driven by hand.

use alloc::vec::Vec;

use super::Spec;
use crate::cache::PageCache;
use crate::readahead::Folio;
use crate::time::{Duration, Instant};
use crate::units::{FileId, FrameId, PageIndex};

pub(super) const FILE: FileId = FileId(0);

/// A page cache whose pages are read and written at once.
pub(super) struct Memory {
    pub(super) cache: PageCache,
    pub(super) now: Instant,
}

impl Memory {
    pub(super) fn new(policy: &str, frames: u32) -> Self {
        let spec = Spec::parse(policy).expect("the policy exists");
        Self { cache: PageCache::with_reclaim(frames, spec.build()), now: Instant::ZERO }
    }

    /// Reads a page: returns whether it was cached; none if there was no memory.
    pub(super) fn read(&mut self, page: PageIndex) -> Option<bool> {
        let found = self.cache.lookup(FILE, page);
        if found.is_none() {
            if !self.cache.add(FILE, Folio { first: page, order: 0, marked: false }) {
                return None;
            }
            self.cache.end_read(self.frame(page));
        }
        self.cache.touch(self.frame(page));
        self.cache.check();
        Some(found.is_some())
    }

    /// Reads pages one after another; there is memory for each.
    pub(super) fn read_each(&mut self, pages: impl IntoIterator<Item = PageIndex>) {
        for page in pages {
            assert!(self.read(page).is_some(), "there is memory for page {page}");
        }
    }

    /// Writes pages one after another; there is memory for each.
    pub(super) fn write_each(&mut self, pages: impl IntoIterator<Item = PageIndex>) {
        for page in pages {
            assert!(self.write(page), "there is memory for page {page}");
        }
    }

    /// Writes all of a page; returns whether there was memory.
    pub(super) fn write(&mut self, page: PageIndex) -> bool {
        match self.cache.lookup(FILE, page) {
            Some(hit) => self.cache.touch(hit.frame),
            None if self.cache.add_written(FILE, page).is_none() => return false,
            None => {}
        }
        let due = self.now + Duration::from_secs(30);
        self.cache.mark_dirty(self.frame(page), self.now, due);
        self.cache.check();
        true
    }

    /// A dirty page is sent and arrives.
    pub(super) fn clean(&mut self, page: PageIndex) {
        let frame = self.frame(page);
        self.cache.start_writeback(frame);
        self.cache.check();
        self.cache.end_writeback(frame);
        self.cache.check();
    }

    /// The pages that the background writer submits, in its order; each of them completes only
    /// afterwards.
    pub(super) fn background(&mut self) -> Vec<PageIndex> {
        let mut sent = Vec::new();
        while let Some(found) = self.cache.reclaim_background(self.now) {
            self.cache.start_writeback(found.frame);
            sent.push(found.page);
        }
        for page in &sent {
            self.cache.end_writeback(self.frame(*page));
        }
        self.cache.check();
        sent
    }

    pub(super) fn frame(&self, page: PageIndex) -> FrameId {
        self.cache.lookup(FILE, page).expect("the page is there").frame
    }

    /// Which of these pages are cached.
    pub(super) fn present(&self, pages: impl IntoIterator<Item = PageIndex>) -> Vec<PageIndex> {
        pages.into_iter().filter(|page| self.cache.lookup(FILE, *page).is_some()).collect()
    }
}
