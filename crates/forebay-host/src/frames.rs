//! Page memory: the bytes behind the engine's frames.
//!
//! A frame's page is a box. While a request fills it, the box itself is with the request, so the
//! device's bytes land where they stay: no copy between a worker and the frames, and no lock.
//!
//! ```text
//!   frames   [#][#][ ][ ][#]      Submit: lend 2 and 3 ---> job (worker reads into the boxes)
//!                   ^  ^                                      |
//!                   +--+----------- Done: give back ----------+
//! ```

use std::slice;

use forebay_core::units::{FrameId, PAGE_SIZE};

use crate::uring::Lend;

/// Bytes of a page, as a size in memory.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;

/// The bytes of one page, aligned as a device requires.
#[repr(C, align(4096))]
#[derive(Clone, Debug)]
pub(crate) struct Page(pub(crate) [u8; PAGE]);

#[expect(unsafe_code, reason = "the kernel fills the pages as one run of bytes")]
// SAFETY: A vector does not move its pages when it is moved itself.
unsafe impl Lend for Vec<Page> {
    fn lend(&mut self) -> &mut [u8] {
        let len = self.len() * PAGE;
        // SAFETY: A page is an array of bytes as long as its alignment, so the pages of a vector
        // are a run of initialized bytes.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) }
    }
}

/// The bytes of one page, wherever they lie: the allocator needs two pages for an aligned one.
#[derive(Clone, Debug)]
pub(crate) struct Bytes([u8; PAGE]);

/// Memory of a page.
pub(crate) trait PageBytes {
    /// A page of zeros.
    fn new() -> Box<Self>;

    /// Its contents.
    fn bytes(&self) -> &[u8; PAGE];

    /// Its contents, for changes.
    fn bytes_mut(&mut self) -> &mut [u8; PAGE];
}

impl PageBytes for Page {
    fn new() -> Box<Self> {
        Box::new(Self([0; PAGE]))
    }

    fn bytes(&self) -> &[u8; PAGE] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        &mut self.0
    }
}

impl PageBytes for Bytes {
    fn new() -> Box<Self> {
        Box::new(Self([0; PAGE]))
    }

    fn bytes(&self) -> &[u8; PAGE] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        &mut self.0
    }
}

/// All page memory.
#[derive(Debug)]
pub(crate) struct Frames<P = Page> {
    /// The frames up to the last that was ever lent. A frame has no page while it is lent, and
    /// before it was lent for the first time.
    pages: Vec<Option<Box<P>>>,
    count: u32,
}

impl<P: PageBytes> Frames<P> {
    /// Page memory of `frames` frames; each is allocated when it is first filled.
    pub(crate) fn new(frames: u32) -> Self {
        Self { pages: Vec::new(), count: frames }
    }

    /// Takes a frame's page out, to be filled.
    pub(crate) fn lend(&mut self, frame: FrameId) -> Box<P> {
        assert!(frame.0 < self.count, "only a frame of page memory is lent");
        if frame.index() >= self.pages.len() {
            self.pages.resize_with(frame.index() + 1, || None);
        }
        self.pages[frame.index()].take().unwrap_or_else(P::new)
    }

    /// Puts a frame's page back.
    pub(crate) fn give_back(&mut self, frame: FrameId, page: Box<P>) {
        let before = self.pages[frame.index()].replace(page);
        assert!(before.is_none(), "a frame is lent to one request at a time");
    }

    /// Copies bytes into the page in `frame` from `start` on, and on through the frames behind.
    pub(crate) fn copy_in(&mut self, frame: FrameId, start: usize, bytes: &[u8]) {
        let (mut start, mut rest, mut frame) = (start, bytes, frame);
        while !rest.is_empty() {
            let mut page = self.lend(frame);
            let (now, later) = rest.split_at(rest.len().min(PAGE - start));
            page.bytes_mut()[start..start + now.len()].copy_from_slice(now);
            self.give_back(frame, page);
            (start, rest, frame) = (0, later, FrameId(frame.0 + 1));
        }
    }

    /// The bytes of the page in `frame`.
    pub(crate) fn page(&self, frame: FrameId) -> &[u8; PAGE] {
        let page = self.pages[frame.index()].as_ref();
        page.expect("a page that is sent is up to date").bytes()
    }

    /// Copies the bytes from `start` of the page in `frame` on, and on through the frames behind.
    pub(crate) fn copy_out(&self, frame: FrameId, start: usize, out: &mut [u8]) {
        let mut start = start;
        let mut rest = out;
        for slot in &self.pages[frame.index()..] {
            if rest.is_empty() {
                return;
            }
            let page = slot.as_ref().expect("a page is copied from when it is up to date");
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE - start));
            now.copy_from_slice(&page.bytes()[start..start + now.len()]);
            (start, rest) = (0, later);
        }
        assert!(rest.is_empty(), "a copy ends inside page memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_on_through_the_frames_behind() {
        let mut frames = Frames::<Page>::new(3);
        for frame in 0..3 {
            let mut page = frames.lend(FrameId(frame));
            page.0.fill(frame as u8);
            frames.give_back(FrameId(frame), page);
        }
        let mut out = vec![9; 2 + PAGE + 1];
        frames.copy_out(FrameId(0), PAGE - 2, &mut out);
        let expected = [vec![0; 2], vec![1; PAGE], vec![2; 1]].concat();
        assert_eq!(out, expected);
    }

    #[test]
    #[should_panic(expected = "up to date")]
    fn a_lent_page_is_not_copied_from() {
        let mut frames = Frames::<Page>::new(1);
        let _page = frames.lend(FrameId(0));
        frames.copy_out(FrameId(0), 0, &mut [0; 1]);
    }
}
