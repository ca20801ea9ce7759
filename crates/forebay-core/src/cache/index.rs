//! From a file's page to its frame: a hash of chains through the frames.
//!
//! Pages that follow each other fall into buckets that follow each other, so a sequential walk
//! touches memory in order. The buckets are allocated once; nothing iterates over them.

use alloc::vec::Vec;

use super::{Frame, NONE};
use crate::units::PageIndex;

#[derive(Debug)]
pub(super) struct Index {
    /// The first frame of each chain; a power of two of them.
    buckets: Vec<u32>,
}

impl Index {
    /// An index for at most `frames` pages.
    pub(super) fn new(frames: u32) -> Self {
        Self { buckets: alloc::vec![NONE; (frames as usize).next_power_of_two()] }
    }

    /// Adds the page of a frame.
    pub(super) fn insert(&mut self, frames: &mut [Frame], frame: u32) {
        let slot = &mut frames[frame as usize];
        let bucket = self.bucket(slot.file, slot.page);
        slot.chain = core::mem::replace(&mut self.buckets[bucket], frame);
    }

    /// Takes the page of a frame out.
    pub(super) fn remove(&mut self, frames: &mut [Frame], frame: u32) {
        let slot = frames[frame as usize];
        let bucket = self.bucket(slot.file, slot.page);
        if self.buckets[bucket] == frame {
            self.buckets[bucket] = slot.chain;
            return;
        }
        let mut at = self.buckets[bucket];
        while frames[at as usize].chain != frame {
            at = frames[at as usize].chain;
        }
        frames[at as usize].chain = slot.chain;
    }

    /// The frame of a page.
    pub(super) fn find(&self, frames: &[Frame], file: u32, page: PageIndex) -> Option<u32> {
        let mut at = self.buckets[self.bucket(file, page)];
        while at != NONE {
            let slot = &frames[at as usize];
            if slot.page == page && slot.file == file {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }

    fn bucket(&self, file: u32, page: PageIndex) -> usize {
        // 2^64 divided by the golden ratio, which spreads the high bits of neighbouring keys.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        const RUN: u64 = 16;
        let key = (page / RUN) ^ (u64::from(file) << 40);
        let start = (key.wrapping_mul(SPREAD) >> 32) as usize;
        (start + (page % RUN) as usize) & (self.buckets.len() - 1)
    }
}
