//! A list of frames, linked through the frames themselves.

use super::FrameTable;
use crate::frame::{Frame, NONE};

/// Frames that one reclaim isolates from the end of a list (SWAP_CLUSTER_MAX).
pub(super) const BATCH: u64 = 32;

/// A doubly linked list of frames.
#[derive(Debug)]
pub(super) struct List {
    front: u32,
    back: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { front: NONE, back: NONE, len: 0 }
    }
}

impl List {
    pub(super) fn push_front(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        let frames = &mut *table.frames;
        frames[frame as usize].prev = NONE;
        frames[frame as usize].next = self.front;
        match self.front {
            NONE => self.back = frame,
            front => frames[front as usize].prev = frame,
        }
        self.front = frame;
        self.len += 1;
    }

    pub(super) fn push_back(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        let frames = &mut *table.frames;
        frames[frame as usize].next = NONE;
        frames[frame as usize].prev = self.back;
        match self.back {
            NONE => self.front = frame,
            back => frames[back as usize].next = frame,
        }
        self.back = frame;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, frame: u32, table: &mut FrameTable<'_>) {
        let frames = &mut *table.frames;
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

    /// Moves the last frame to the front.
    pub(super) fn rotate(&mut self, table: &mut FrameTable<'_>) {
        let last = self.back;
        self.remove(last, table);
        self.push_front(last, table);
    }

    /// The last frame.
    pub(super) fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    /// How many of the last frames in a row are such as `holds` says; at most [`BATCH`].
    pub(super) fn count_from_back(
        &self,
        holds: impl Fn(u32) -> bool,
        table: &FrameTable<'_>,
    ) -> u64 {
        let (mut at, mut count) = (self.back, 0);
        while at != NONE && count < BATCH && holds(at) {
            (at, count) = (table.frames[at as usize].prev, count + 1);
        }
        count
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// States the list's invariants, and what `holds` for each frame on it; returns its length.
    pub(super) fn check(&self, frames: &[Frame], holds: impl Fn(&Frame) -> bool) -> usize {
        let (mut before, mut seen, mut at) = (NONE, 0, self.front);
        while at != NONE {
            let slot = &frames[at as usize];
            assert_eq!(slot.prev, before, "links lead back to where they came from");
            assert!(holds(slot), "a page knows its list: frame {at}");
            (before, at, seen) = (at, slot.next, seen + 1);
        }
        assert_eq!((before, seen), (self.back, self.len), "a list knows its end and length");
        seen as usize
    }
}
