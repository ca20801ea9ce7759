//! One bit for each page of a file.

use alloc::vec::Vec;

use super::Pages;
use crate::units::PageIndex;

/// A flag of each page, clear at first. A page behind the last one has none.
#[derive(Debug)]
pub(crate) struct Flags {
    /// Up to the last one that was ever set.
    words: Vec<u64>,
    words_max: u64,
}

impl Flags {
    /// Flags of `pages` pages.
    pub(crate) fn new(pages: u64) -> Self {
        Self { words: Vec::new(), words_max: pages.div_ceil(BITS) }
    }

    /// Whether a page's flag is set.
    pub(crate) fn has(&self, page: PageIndex) -> bool {
        let word = usize::try_from(page / BITS).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word >> (page % BITS) & 1 == 1)
    }

    /// Sets a page's flag.
    pub(crate) fn set(&mut self, page: PageIndex) {
        let Ok(place) = usize::try_from(page / BITS) else { return };
        if page / BITS >= self.words_max {
            return;
        }
        if place >= self.words.len() {
            self.words.resize(place + 1, 0);
        }
        self.words[place] |= 1 << (page % BITS);
    }

    /// Clears a page's flag; returns whether it was set.
    pub(crate) fn clear(&mut self, page: PageIndex) -> bool {
        let was = self.has(page);
        if was {
            self.words[(page / BITS) as usize] &= !(1 << (page % BITS));
        }
        was
    }

    /// Clears the flags of a run of pages.
    pub(crate) fn clear_all(&mut self, pages: Pages) {
        let last = (self.words.len() as u64).saturating_mul(BITS);
        for page in pages.start..pages.end.min(last) {
            self.clear(page);
        }
    }
}

/// Flags in a word.
const BITS: u64 = u64::BITS as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_of_one_page() {
        let mut flags = Flags::new(130);
        for page in [0, 63, 64, 129] {
            flags.set(page);
            assert!(flags.has(page));
        }
        assert!(flags.clear(64) && !flags.clear(64));
        let set = (0..200).filter(|page| flags.has(*page)).collect::<Vec<_>>();
        assert_eq!(set, [0, 63, 129]);
        flags.clear_all(Pages::new(1, u64::MAX));
        assert!(flags.has(0) && !flags.has(129));
    }

    #[test]
    fn a_page_behind_the_last_one_has_no_flag() {
        let mut flags = Flags::new(3);
        flags.set(1 << 40);
        assert!(!flags.has(1 << 40) && !flags.clear(u64::MAX));
    }
}
