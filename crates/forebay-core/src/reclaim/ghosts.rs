//! Records of evicted pages, in the order of their eviction.
//!
//! ```text
//!   oldest -> page 7, stamp 40 <-> page 2, stamp 41 <-> ... <- newest     vacant -> . -> .
//! ```
//!
//! All memory is reserved when the ghosts are made.

use alloc::vec::Vec;

use crate::frame::{Index, NONE};
use crate::units::PageIndex;

/// Evicted pages, at most a fixed number of them.
#[derive(Debug)]
pub(super) struct Ghosts {
    places: Vec<Ghost>,
    oldest: u32,
    newest: u32,
    /// The first place without a page; the others hang on it.
    vacant: u32,
    index: Index,
}

#[derive(Clone, Copy, Debug)]
struct Ghost {
    page: PageIndex,
    stamp: u64,
    file: u32,
    older: u32,
    newer: u32,
}

impl Ghosts {
    /// Room for `most` pages.
    pub(super) fn new(most: u32) -> Self {
        let vacant = |place: u32| Ghost {
            page: 0,
            stamp: 0,
            file: 0,
            older: NONE,
            newer: if place + 1 == most { NONE } else { place + 1 },
        };
        let first = if most == 0 { NONE } else { 0 };
        Self {
            places: (0..most).map(vacant).collect(),
            oldest: NONE,
            newest: NONE,
            vacant: first,
            index: Index::new(most),
        }
    }

    /// Remembers a page that is not remembered; the oldest is forgotten if there is no room.
    pub(super) fn push(&mut self, (file, page): (u32, PageIndex), stamp: u64) {
        if self.places.is_empty() {
            return;
        }
        if self.vacant == NONE {
            self.forget(self.oldest);
        }
        let place = self.vacant;
        self.vacant = self.places[place as usize].newer;
        let older = core::mem::replace(&mut self.newest, place);
        match older {
            NONE => self.oldest = place,
            _ => self.places[older as usize].newer = place,
        }
        self.places[place as usize] = Ghost { page, stamp, file, older, newer: NONE };
        self.index.insert(file, page, place);
    }

    /// Takes a page out; returns the stamp that it left with.
    pub(super) fn take(&mut self, (file, page): (u32, PageIndex)) -> Option<u64> {
        let places = &self.places;
        let place = self.index.find(file, page, |place| {
            let ghost = &places[place as usize];
            ghost.page == page && ghost.file == file
        })?;
        self.forget(place);
        Some(self.places[place as usize].stamp)
    }

    fn forget(&mut self, place: u32) {
        let Ghost { page, file, older, newer, .. } = self.places[place as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.places[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.places[newer as usize].older = older,
        }
        self.places[place as usize].newer = core::mem::replace(&mut self.vacant, place);
        self.index.remove(file, page, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_is_forgotten_first_and_those_taken_out_take_no_room() {
        let mut ghosts = Ghosts::new(2);
        ghosts.push((0, 1), 10);
        ghosts.push((0, 2), 11);
        ghosts.push((0, 3), 12);
        assert_eq!([1, 2, 3].map(|page| ghosts.take((0, page))), [None, Some(11), Some(12)]);
        ghosts.push((1, 7), 70);
        for round in 0..9 {
            ghosts.push((2, 0), round);
            assert_eq!(ghosts.take((2, 0)), Some(round));
        }
        assert_eq!(ghosts.take((1, 7)), Some(70));
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let mut ghosts = Ghosts::new(0);
        ghosts.push((0, 1), 10);
        assert_eq!(ghosts.take((0, 1)), None);
    }
}
