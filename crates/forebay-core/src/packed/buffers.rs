//! The two buffers that cramfs reads an image through.
//!
//! Source:     Linux 2.6.21, fs/cramfs/inode.c (the function `cramfs_read`).
//! Behaviour:  raw bytes that one of the buffers covers are taken from there. Otherwise the four
//!             pages of the image from their first page on go into the buffer that was not filled
//!             last. So pointer words and data far from them push each other out.
//! Differs:    the kernel starts the reads of the four pages together and waits for them one by
//!             one; here each is read when its turn comes. A page that cannot be read ends the
//!             buffer in front of it; the kernel puts zeros there.
//! Not for:    blocks of which more than four pages of the image hold a part.
//!
//! ```text
//!   image    |   |   |###|###|##@|   |      @ the bytes that are wanted
//!   buffer           [ 0   1   2   3 ]      from the page of the first of them
//! ```

use super::{Pages, RawBytes};
use crate::units::{PAGE_SIZE, PageIndex};

/// Pages of a buffer.
pub(crate) const BUFFER_PAGES: u64 = 4;

/// The two buffers of an image, empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffers {
    held: [Pages; 2],
    next: usize,
    /// The pages of the image that go into the next buffer, and where the one is that comes next.
    filling: Option<(Pages, PageIndex)>,
}

impl Buffers {
    /// Whether some bytes fit into a buffer at all.
    pub(crate) const fn take(bytes: RawBytes) -> bool {
        bytes.start % PAGE_SIZE + bytes.len() <= BUFFER_PAGES * PAGE_SIZE
    }

    /// The buffer that has all of some bytes.
    pub(crate) fn covering(&self, bytes: RawBytes) -> Option<usize> {
        self.held.iter().position(|held| held.covers(bytes.pages()))
    }

    /// The page of the image that has to go into the next buffer now so that it will have `bytes`,
    /// and which of the buffer's pages that is; nothing if all are there. The image ends after
    /// `pages` pages.
    pub(crate) fn missing(&mut self, bytes: RawBytes, pages: u64) -> Option<(PageIndex, u64)> {
        let (run, at) = self.filling.unwrap_or_else(|| {
            let first = bytes.start / PAGE_SIZE;
            let end = first.saturating_add(BUFFER_PAGES).min(pages);
            self.held[self.next] = Pages::none(first);
            (Pages::new(first, end), first)
        });
        self.filling = Some((run, at));
        (at < run.end).then(|| (at, at - run.start))
    }

    /// The page that was missing is in the buffer.
    pub(crate) fn add(&mut self) {
        if let Some((_, at)) = &mut self.filling {
            *at += 1;
        }
    }

    /// The page that was missing cannot be had: the buffer ends in front of it.
    pub(crate) fn cut(&mut self) {
        if let Some((run, at)) = &mut self.filling {
            run.end = *at;
        }
    }

    /// The next buffer is filled, as far as it can be; returns which one it is.
    pub(crate) fn close(&mut self) -> usize {
        let filled = self.next;
        if let Some((run, _)) = self.filling.take() {
            self.held[filled] = run;
            self.next = 1 - filled;
        }
        filled
    }

    /// The started work is abandoned.
    pub(crate) fn abandon(&mut self) {
        self.filling = None;
    }

    /// The buffer that is being filled, or will be next.
    pub(crate) const fn next(&self) -> usize {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn bytes(start: u64, len: u64) -> RawBytes {
        RawBytes { start, end: start + len }
    }

    /// Has bytes in a buffer; returns the pages of the image that were needed for it.
    fn fetch(buffers: &mut Buffers, wanted: RawBytes, pages: u64) -> Vec<u64> {
        let mut needed = Vec::new();
        if buffers.covering(wanted).is_some() {
            return needed;
        }
        while let Some((page, place)) = buffers.missing(wanted, pages) {
            assert_eq!(place, needed.len() as u64);
            needed.push(page);
            buffers.add();
        }
        let filled = buffers.close();
        assert_eq!(buffers.covering(wanted), Some(filled));
        needed
    }

    #[test]
    fn four_pages_come_from_the_first_byte_on() {
        let mut buffers = Buffers::default();
        assert_eq!(fetch(&mut buffers, bytes(5 * PAGE_SIZE + 100, 2000), 100), [5, 6, 7, 8]);
        assert_eq!(fetch(&mut buffers, bytes(8 * PAGE_SIZE, PAGE_SIZE), 100), [0; 0]);
        assert_eq!(fetch(&mut buffers, bytes(9 * PAGE_SIZE - 1, 2), 100), [8, 9, 10, 11]);
    }

    #[test]
    fn the_buffer_that_was_filled_last_stays() {
        let mut buffers = Buffers::default();
        let (pointers, data, more) = (bytes(0, 8), bytes(40_000, 100), bytes(80_000, 100));
        assert_eq!(fetch(&mut buffers, pointers, 100).len(), 4);
        assert_eq!(fetch(&mut buffers, data, 100).len(), 4);
        assert_eq!(fetch(&mut buffers, more, 100).len(), 4, "instead of the pointers");
        assert_eq!(fetch(&mut buffers, data, 100).len(), 0);
        assert_eq!(fetch(&mut buffers, pointers, 100).len(), 4);
        assert_eq!(fetch(&mut buffers, more, 100).len(), 0);
    }

    #[test]
    fn the_image_ends_a_buffer() {
        let mut buffers = Buffers::default();
        assert_eq!(fetch(&mut buffers, bytes(9 * PAGE_SIZE, 10), 11), [9, 10]);
    }

    #[test]
    fn a_page_that_cannot_be_read_ends_a_buffer() {
        let mut buffers = Buffers::default();
        let wanted = bytes(0, 10);
        assert_eq!(buffers.missing(wanted, 9), Some((0, 0)));
        buffers.add();
        assert_eq!(buffers.missing(wanted, 9), Some((1, 1)));
        buffers.cut();
        assert_eq!(buffers.missing(wanted, 9), None);
        buffers.close();
        assert_eq!(buffers.covering(wanted), Some(0));
        assert_eq!(buffers.covering(bytes(PAGE_SIZE, 10)), None);
    }
}
