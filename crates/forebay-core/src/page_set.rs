//! A set of a file's pages that knows their order: bits, and a summary of which words have any.
//!
//! ```text
//!   chunk of 32768 pages     summary  8 words   one bit per word below
//!                            bits   512 words   one bit per page
//! ```
//!
//! A chunk is made when its first page comes and kept; the set allocates nothing else.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::units::PageIndex;

/// Pages of one chunk as a power of two.
const CHUNK_BITS: u32 = 15;
const WORDS: usize = 1 << (CHUNK_BITS - 6);

/// Pages of one file.
#[derive(Debug, Default)]
pub(crate) struct PageSet {
    chunks: Vec<Option<Box<Chunk>>>,
    len: u64,
}

#[derive(Debug)]
struct Chunk {
    summary: [u64; WORDS / 64],
    bits: [u64; WORDS],
}

impl PageSet {
    /// The number of pages.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a page that is not in the set.
    pub(crate) fn insert(&mut self, page: PageIndex) {
        let number = (page >> CHUNK_BITS) as usize;
        if self.chunks.len() <= number {
            self.chunks.resize_with(number + 1, || None);
        }
        let chunk = self.chunks[number].get_or_insert_with(Chunk::empty);
        let (word, bit) = place(page);
        assert!(chunk.bits[word] & bit == 0, "a page is added once");
        chunk.bits[word] |= bit;
        chunk.summary[word / 64] |= 1 << (word % 64);
        self.len += 1;
    }

    /// Takes a page out that is in the set.
    pub(crate) fn remove(&mut self, page: PageIndex) {
        let chunk = self.chunks[(page >> CHUNK_BITS) as usize].as_mut();
        let chunk = chunk.expect("a page that is taken out was added");
        let (word, bit) = place(page);
        assert!(chunk.bits[word] & bit != 0, "a page that is taken out was added");
        chunk.bits[word] &= !bit;
        if chunk.bits[word] == 0 {
            chunk.summary[word / 64] &= !(1 << (word % 64));
        }
        self.len -= 1;
    }

    /// Whether a page is in the set.
    pub(crate) fn contains(&self, page: PageIndex) -> bool {
        let (word, bit) = place(page);
        let chunk = self.chunks.get((page >> CHUNK_BITS) as usize).and_then(Option::as_ref);
        chunk.is_some_and(|chunk| chunk.bits[word] & bit != 0)
    }

    /// The first page of the set from `from` on.
    pub(crate) fn next(&self, from: PageIndex) -> Option<PageIndex> {
        if self.len == 0 {
            return None;
        }
        let first = (from >> CHUNK_BITS) as usize;
        for (number, chunk) in self.chunks.iter().enumerate().skip(first) {
            let start = if number == first { from & ((1 << CHUNK_BITS) - 1) } else { 0 };
            if let Some(found) = chunk.as_ref().and_then(|chunk| chunk.next(start as usize)) {
                return Some(((number as u64) << CHUNK_BITS) + found as u64);
            }
        }
        None
    }
}

impl Chunk {
    fn empty() -> Box<Self> {
        Box::new(Self { summary: [0; WORDS / 64], bits: [0; WORDS] })
    }

    /// The first page from `start` on, both counted in the chunk.
    fn next(&self, start: usize) -> Option<usize> {
        let word = start / 64;
        let rest = self.bits[word] >> (start % 64);
        if rest != 0 {
            return Some(start + rest.trailing_zeros() as usize);
        }
        let after = word + 1;
        let mut group = after / 64;
        // Words up to and with `word` have been looked at.
        let mut mask = u64::MAX << (after % 64);
        while group < self.summary.len() {
            let words = self.summary[group] & mask;
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                return Some(word * 64 + self.bits[word].trailing_zeros() as usize);
            }
            group += 1;
            mask = u64::MAX;
        }
        None
    }
}

/// The word of a page in its chunk, and its bit in the word.
fn place(page: PageIndex) -> (usize, u64) {
    let in_chunk = page & ((1 << CHUNK_BITS) - 1);
    ((in_chunk / 64) as usize, 1 << (in_chunk % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        let (mut set, mut model) = (PageSet::default(), BTreeSet::new());
        let mut state = 1_u64;
        for round in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            // Near the borders of words and chunks, and far away.
            let page = [63, 64, 4_095, 4_096, 32_767, 32_768, 65_536, 400_000]
                [(state >> 33) as usize % 8]
                + (state >> 40) % 70;
            if model.insert(page) {
                set.insert(page);
            } else {
                model.remove(&page);
                set.remove(page);
            }
            let from = (state >> 20) % 401_000;
            assert_eq!(set.next(from), model.range(from..).next().copied(), "round {round}");
            assert_eq!(set.contains(from), model.contains(&from));
            assert_eq!(set.len(), model.len() as u64);
        }
    }

    #[test]
    fn the_last_word_of_a_chunk_has_a_successor_in_the_next() {
        let mut set = PageSet::default();
        set.insert(32_768);
        assert_eq!(set.next(32_767), Some(32_768));
        assert_eq!(set.next(32_769), None);
        assert_eq!(set.next(u64::MAX), None);
    }
}
