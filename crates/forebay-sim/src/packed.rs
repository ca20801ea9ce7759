//! Packed files as the simulator has them: where blocks lie in an image, and nothing else.
//!
//! ```text
//!   image   [ metadata ][ pointers | block | block | ... ]   [ pointers | block | ... ]
//!                       a file                       others  the next one
//! ```
//!
//! Blocks of a file are adjacent, as in cramfs and squashfs. The length of each may be drawn: a
//! share of its decoded size that varies from block to block.

use forebay_core::packed::{Block, BlockMap, Coding, Pages, RawBytes};
use forebay_core::units::{PAGE_SIZE, PageIndex};

use crate::rng::{MILLION, Rng};

/// A packed file: blocks of equally many pages, the last one excepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    bytes: u64,
    block_pages: u64,
    /// Where the pointer words begin, four bytes each.
    pointers: u64,
    /// Where the blocks begin; then where the last one ends.
    starts: Vec<u64>,
}

/// Writes packed files into an image, one behind another.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    at: u64,
}

/// How long the blocks of a file are when they are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Their mean share of the decoded size.
    pub mean_ppm: u64,
    /// How far single pages stray from it, as a standard deviation.
    pub sigma_ppm: u64,
}

impl Writer {
    /// An image that begins with `metadata` bytes of metadata.
    pub const fn new(metadata: u64) -> Self {
        Self { at: metadata }
    }

    /// Skips bytes that are not modelled.
    pub const fn skip(&mut self, bytes: u64) {
        self.at += bytes;
    }

    /// The bytes of the image so far.
    pub const fn bytes(&self) -> u64 {
        self.at
    }

    /// A file of `bytes` in blocks of `block_pages` pages. `len` gives their lengths by number:
    /// none for a hole, the whole decoded size for a stored block.
    ///
    /// # Panics
    /// If a block has no page.
    pub fn add(&mut self, bytes: u64, block_pages: u64, mut len: impl FnMut(u64) -> u64) -> Blocks {
        assert!(block_pages > 0, "a block has pages");
        let pointers = self.at.next_multiple_of(4);
        let blocks = bytes.div_ceil(block_pages * PAGE_SIZE);
        let mut starts = vec![pointers + 4 * blocks];
        for block in 0..blocks {
            starts.push(starts[block as usize] + len(block));
        }
        self.at = starts[blocks as usize];
        Blocks { bytes, block_pages, pointers, starts }
    }
}

impl Ratio {
    /// The length of a packed block of `pages` pages. The share of each page is drawn separately,
    /// so that large blocks vary less; none is shorter than 20 bytes nor longer than zlib makes it.
    pub fn draw(self, pages: u64, rng: &mut Rng) -> u64 {
        (0..pages).map(|_| self.page(rng)).sum()
    }

    fn page(self, rng: &mut Rng) -> u64 {
        // Twelve numbers from 0 to 1 have a sum of 6 and a standard deviation of 1.
        let drawn: i64 = (0..12).map(|_| rng.below(MILLION) as i64).sum();
        let off = (drawn - 6 * MILLION as i64) * self.sigma_ppm as i64 / MILLION as i64;
        let share = (self.mean_ppm as i64 + off).max(0) as u64;
        (share * PAGE_SIZE / MILLION).clamp(20, 4_107)
    }
}

impl Blocks {
    /// The pages of a block.
    fn pages(&self, block: u64) -> Pages {
        let first = block * self.block_pages;
        let last = self.bytes.div_ceil(PAGE_SIZE);
        Pages::new(first, (first + self.block_pages).min(last))
    }
}

impl BlockMap for Blocks {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block(&self, page: PageIndex) -> Block {
        let number = page / self.block_pages;
        let [start, end] = [number, number + 1].map(|place| self.starts[place as usize]);
        let (pages, raw) = (self.pages(number), RawBytes { start, end });
        let plain = (self.bytes - pages.start * PAGE_SIZE).min(pages.len() * PAGE_SIZE);
        let coding = match raw.len() {
            0 => Coding::Hole,
            len if len == plain => Coding::Stored,
            _ => Coding::Packed,
        };
        Block { pages, raw, coding }
    }

    fn pointers(&self, pages: Pages) -> RawBytes {
        let last = self.starts.len() as u64 - 1;
        let word = |page: u64| self.pointers + 4 * (page / self.block_pages).min(last);
        // The start of a block is in the word before its own.
        let start = word(pages.start).saturating_sub(4).max(self.pointers);
        RawBytes { start, end: word(pages.end.saturating_sub(1)) + 4 }
    }

    fn two_buffers(&self) -> bool {
        self.block_pages == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_behind_their_pointers_without_gaps() {
        let mut writer = Writer::new(77);
        let file = writer.add(9 * PAGE_SIZE + 1, 4, |block| [3_000, 0, 8_193][block as usize]);
        assert_eq!(writer.bytes(), 80 + 12 + 3_000 + 8_193);
        let first = file.block(3);
        assert_eq!((first.pages, first.raw.start, first.raw.len()), (Pages::new(0, 4), 92, 3_000));
        assert_eq!(file.block(4).coding, Coding::Hole);
        let last = file.block(9);
        assert_eq!((last.pages, last.raw.start), (Pages::new(8, 10), 3_092));
        assert_eq!(last.coding, Coding::Packed, "a block longer than its content is packed");
        assert_eq!(file.pointers(Pages::new(0, 1)), RawBytes { start: 80, end: 84 });
        assert_eq!(file.pointers(Pages::new(4, 10)), RawBytes { start: 80, end: 92 });
    }

    #[test]
    fn packed_lengths_have_the_mean_that_was_asked_for() {
        let ratio = Ratio { mean_ppm: 390_000, sigma_ppm: 120_000 };
        let mut rng = Rng::new(1);
        let sum: u64 = (0..10_000).map(|_| ratio.draw(1, &mut rng)).sum();
        let mean = sum as f64 / 10_000.0 / PAGE_SIZE as f64;
        assert!((0.387..0.393).contains(&mean), "{mean}");
    }
}
