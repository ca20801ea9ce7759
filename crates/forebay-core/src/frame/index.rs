//! From a file's page to its frame: a hash table with open addressing.
//!
//! ```text
//!   slot:  | hash of file and page, 32 bits | frame + 1, 32 bits |      0: empty
//! ```
//!
//! Consecutive pages lie in consecutive slots, so a sequential walk touches memory in order. The
//! hash in the slot avoids most lookups of frames of other pages, and gives the preferred slot of
//! an entry when one before it is removed. Half of the slots stay empty.

use alloc::vec::Vec;

use super::RESERVED_MAX;
use crate::units::PageIndex;

/// Where the pages in frames are found; also the evicted pages that a policy remembers.
#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two of them, at least twice as many as are used. Zeros come from the system as
    /// they are touched, so unused memory costs nothing.
    slots: Vec<u64>,
    used: usize,
}

impl Index {
    /// An index for `frames` pages; beyond a limit it grows with the pages that it holds.
    pub(crate) fn new(frames: u32) -> Self {
        Self::of(frames.min(RESERVED_MAX))
    }

    /// An index that begins small and grows with the pages that it holds. It is copied whenever it
    /// grows, tens of milliseconds for some millions of pages.
    pub(crate) fn growing(frames: u32) -> Self {
        Self::of(frames.min(FIRST_MAX))
    }

    fn of(pages: u32) -> Self {
        let slots = 2 * pages.next_power_of_two() as usize;
        Self { slots: alloc::vec![0; slots], used: 0 }
    }

    /// Adds the page of a frame.
    pub(crate) fn insert(&mut self, file: u32, page: PageIndex, frame: u32) {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        self.used += 1;
        self.put(entry(hash(file, page), frame));
    }

    /// Takes the page of a frame out.
    pub(crate) fn remove(&mut self, file: u32, page: PageIndex, frame: u32) {
        let wanted = entry(hash(file, page), frame);
        let mut gap = self.home(wanted);
        while self.slots[gap] != wanted {
            assert!(self.slots[gap] != 0, "what is taken out was put in");
            gap = self.behind(gap);
        }
        self.used -= 1;
        // Entries behind the gap move into it unless they would come to lie before their homes.
        let mut at = self.behind(gap);
        while self.slots[at] != 0 {
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(self.slots[at])) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = self.behind(at);
        }
        self.slots[gap] = 0;
    }

    /// The number that was inserted for a page and that `holds` it.
    #[inline]
    pub(crate) fn find(
        &self,
        file: u32,
        page: PageIndex,
        holds: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let wanted = hash(file, page);
        let mut at = self.home(entry(wanted, 0));
        loop {
            let found = self.slots[at];
            if found == 0 {
                return None;
            }
            if (found >> 32) as u32 == wanted {
                let frame = found as u32 - 1;
                if holds(frame) {
                    return Some(frame);
                }
            }
            at = self.behind(at);
        }
    }

    fn grow(&mut self) {
        let slots = 2 * self.slots.len();
        let before = core::mem::replace(&mut self.slots, alloc::vec![0; slots]);
        before.into_iter().filter(|entry| *entry != 0).for_each(|entry| self.put(entry));
    }

    fn put(&mut self, entry: u64) {
        let mut at = self.home(entry);
        while self.slots[at] != 0 {
            at = self.behind(at);
        }
        self.slots[at] = entry;
    }

    /// The preferred slot of an entry.
    fn home(&self, entry: u64) -> usize {
        (entry >> 32) as usize & (self.slots.len() - 1)
    }

    fn behind(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

/// Pages that a growing index holds at first: 1 MiB of slots, which a processor's cache holds. A
/// lookup in slots that are spread over more memory than the pages need waits for memory each time.
const FIRST_MAX: u32 = 1 << 16;

fn entry(hash: u32, frame: u32) -> u64 {
    (u64::from(hash) << 32) | u64::from(frame + 1)
}

fn hash(file: u32, page: PageIndex) -> u32 {
    // 2^64 divided by the golden ratio, which spreads the high bits of neighbouring keys.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    const RUN: u64 = 16;
    let key = (page / RUN) ^ (u64::from(file) << 40);
    ((key.wrapping_mul(SPREAD) >> 32) as u32).wrapping_add((page % RUN) as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_agrees_with_an_ordered_map_however_small_it_began() {
        let mut index = Index::new(4);
        let (mut frames, mut model) = (Vec::new(), BTreeMap::new());
        let mut state = 1_u64;
        for _ in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            let (file, page) = ((state >> 60) as u32 % 3, (state >> 33) % 900);
            if let Some(old) = model.remove(&(file, page)) {
                index.remove(file, page, old);
            } else {
                frames.push((file, page));
                let new = frames.len() as u32 - 1;
                index.insert(file, page, new);
                model.insert((file, page), new);
            }
            let (file, page) = ((state >> 50) as u32 % 3, (state >> 20) % 900);
            let found = index.find(file, page, |frame| frames[frame as usize] == (file, page));
            assert_eq!(found, model.get(&(file, page)).copied());
        }
    }
}
