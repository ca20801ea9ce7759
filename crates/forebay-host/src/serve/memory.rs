//! Page memory: the bytes behind the engine's frames, and buffers for devices.
//!
//! A device's bytes go through a separate buffer, so that no thread touches a frame without the
//! lock: a page under writeback can be written again, and the page is sent as it was at one moment.

use forebay_core::units::FrameId;

use crate::frames::{PAGE, Page};

/// All page memory, taken in chunks as frames are first filled.
#[derive(Debug, Default)]
pub(super) struct PageMemory {
    chunks: Vec<Vec<Page>>,
}

/// Frames of a chunk.
const CHUNK: usize = 256;

impl PageMemory {
    fn page(&mut self, frame: usize) -> &mut [u8; PAGE] {
        let (chunk, place) = (frame / CHUNK, frame % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let pages = &mut self.chunks[chunk];
        if pages.is_empty() {
            pages.resize(CHUNK, Page([0; PAGE]));
        }
        &mut pages[place].0
    }

    /// Calls `f` with the bytes from `start` of the page in `frame` on, and on through the frames
    /// behind, and with the place of each part among `len` bytes.
    fn each(
        &mut self,
        (frame, start): (FrameId, u64),
        len: usize,
        mut f: impl FnMut(&mut [u8], usize),
    ) {
        let (mut frame, mut start, mut at) = (frame.index(), start as usize, 0);
        while at < len {
            let count = (len - at).min(PAGE - start);
            f(&mut self.page(frame)[start..start + count], at);
            at += count;
            (frame, start) = (frame + 1, 0);
        }
    }

    /// Copies bytes out of frames.
    pub(super) fn copy_out(&mut self, from: (FrameId, u64), out: &mut [u8]) {
        self.each(from, out.len(), |page, at| out[at..at + page.len()].copy_from_slice(page));
    }

    /// Appends bytes of frames to a buffer.
    pub(super) fn append(&mut self, from: (FrameId, u64), len: usize, out: &mut Vec<u8>) {
        self.each(from, len, |page, _| out.extend_from_slice(page));
    }

    /// Copies bytes into frames.
    pub(super) fn copy_in(&mut self, to: (FrameId, u64), bytes: &[u8]) {
        self.each(to, bytes.len(), |page, at| {
            let count = page.len();
            page.copy_from_slice(&bytes[at..at + count]);
        });
    }

    /// Fills bytes of frames with zeroes.
    pub(super) fn zero(&mut self, at: (FrameId, u64), len: usize) {
        self.each(at, len, |page, _| page.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_go_on_through_frames_and_chunks() {
        let mut memory = PageMemory::default();
        let bytes: Vec<u8> = (0..3 * PAGE).map(|at| (at / 7) as u8).collect();
        let last = FrameId(CHUNK as u32 - 1);
        memory.copy_in((last, 5), &bytes);
        let mut out = vec![0; bytes.len()];
        memory.copy_out((last, 5), &mut out);
        assert!(out == bytes);
        memory.zero((FrameId(CHUNK as u32), 0), PAGE);
        out.clear();
        memory.append((last, 5), 2 * PAGE, &mut out);
        let head = PAGE - 5;
        assert!(out[..head] == bytes[..head]);
        assert!(out[head..head + PAGE].iter().all(|byte| *byte == 0));
        assert!(out[head + PAGE..] == bytes[head + PAGE..2 * PAGE]);
    }
}
