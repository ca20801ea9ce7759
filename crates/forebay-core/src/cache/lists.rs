//! The active and inactive lists, linked through the frames.
//!
//! Dirty pages and those on their way to the device cannot leave, so reclaim does not meet them:
//! they are on no list and come back to the front of theirs.

use super::{ACTIVE, DIRTY, Frame, NONE, WRITEBACK};

/// Both lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Clean pages accessed at least twice.
    pub(super) active: List,
    /// Other clean pages, the oldest at the back.
    pub(super) inactive: List,
}

/// A doubly linked list of frames.
#[derive(Debug)]
pub(super) struct List {
    front: u32,
    pub(super) back: u32,
    pub(super) len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { front: NONE, back: NONE, len: 0 }
    }
}

impl List {
    pub(super) fn push_front(&mut self, frames: &mut [Frame], frame: u32) {
        frames[frame as usize].prev = NONE;
        frames[frame as usize].next = self.front;
        match self.front {
            NONE => self.back = frame,
            front => frames[front as usize].prev = frame,
        }
        self.front = frame;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, frames: &mut [Frame], frame: u32) {
        let Frame { prev, next, .. } = frames[frame as usize];
        match prev {
            NONE => self.front = next,
            _ => frames[prev as usize].next = next,
        }
        match next {
            NONE => self.back = prev,
            _ => frames[next as usize].prev = prev,
        }
        self.len -= 1;
    }
}

impl Lists {
    /// The list of a page with these flags, if it is clean.
    pub(super) fn of(&mut self, flags: u8) -> &mut List {
        if flags & ACTIVE == 0 { &mut self.inactive } else { &mut self.active }
    }

    /// States the invariants of the lists; returns how many pages are on them.
    pub(super) fn check(&self, frames: &[Frame]) -> usize {
        let lists = [
            (&self.active, WRITEBACK | DIRTY | ACTIVE, ACTIVE),
            (&self.inactive, WRITEBACK | DIRTY | ACTIVE, 0),
        ];
        for (list, mask, flag) in lists {
            let mut at = list.front;
            let (mut before, mut seen) = (NONE, 0);
            while at != NONE {
                let slot = &frames[at as usize];
                assert_eq!(slot.prev, before, "links lead back to where they came from");
                assert_eq!(slot.flags & mask, flag, "a page knows its list");
                (before, at, seen) = (at, slot.next, seen + 1);
            }
            assert_eq!((before, seen), (list.back, list.len), "a list knows its end and length");
        }
        lists.iter().map(|(list, ..)| list.len as usize).sum()
    }
}
