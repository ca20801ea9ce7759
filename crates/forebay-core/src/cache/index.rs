//! From a file's page to its frame: a hash of chains through the frames.
//!
//! Pages that follow each other fall into buckets that follow each other, so a sequential walk
//! touches memory in order. The buckets are allocated once; nothing iterates over them.

use alloc::vec::Vec;

use super::{Frame, NONE};
use crate::units::PageIndex;

/// As many buckets as 256 GiB of page memory have frames; with more frames, chains become longer.
const BUCKETS_MAX: u32 = 1 << 26;

#[derive(Debug)]
pub(super) struct Index {
    /// The first frame of each chain plus one, or zero; a power of two of them. Zeros come from the
    /// system as they are touched, so unused memory costs nothing.
    buckets: Vec<u32>,
}

impl Index {
    /// An index for at most `frames` pages.
    pub(super) fn new(frames: u32) -> Self {
        Self { buckets: alloc::vec![0; frames.min(BUCKETS_MAX).next_power_of_two() as usize] }
    }

    /// Adds the page of a frame.
    pub(super) fn insert(&mut self, frames: &mut [Frame], frame: u32) {
        let slot = &mut frames[frame as usize];
        let bucket = self.bucket(slot.file, slot.page);
        slot.chain = self.buckets[bucket].wrapping_sub(1);
        self.buckets[bucket] = frame + 1;
    }

    /// Takes the page of a frame out.
    pub(super) fn remove(&mut self, frames: &mut [Frame], frame: u32) {
        let slot = frames[frame as usize];
        let bucket = self.bucket(slot.file, slot.page);
        let mut at = self.buckets[bucket] - 1;
        if at == frame {
            self.buckets[bucket] = slot.chain.wrapping_add(1);
            return;
        }
        while frames[at as usize].chain != frame {
            at = frames[at as usize].chain;
        }
        frames[at as usize].chain = slot.chain;
    }

    /// The frame of a page.
    pub(super) fn find(&self, frames: &[Frame], file: u32, page: PageIndex) -> Option<u32> {
        let mut at = self.buckets[self.bucket(file, page)].wrapping_sub(1);
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
