//! The hand of the clock, and the frames that a caller's scan would change.
//!
//! ```text
//!   frame      511 510 ... 0 | 1023 1022 ... 512 | ...      in the order of the hand
//! ```
//!
//! A scan that must not write does nothing at a page that is dirty and not referenced, so it goes
//! from one of the others to the next. The frames in between count as seen.

use crate::page_set::PageSet;

/// Frames of the largest free block, whose last one is handed out first.
const BLOCK: u32 = 512;

/// The hand.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Where it stands, in the order of physical frames.
    at: u32,
    /// Frames of pages that are clean or referenced, and some others, in the order of the hand.
    open: PageSet,
}

impl Hand {
    /// The frame behind the hand, which moves on; `frames` were ever used.
    pub(super) fn advance(&mut self, frames: u32) -> u32 {
        self.at = behind(self.at, frames);
        let block = self.at / BLOCK * BLOCK;
        // Frames are numbered as they were first handed out: from the ends of blocks.
        let last = (block + BLOCK).min(frames) - 1;
        last - (self.at - block)
    }

    /// Moves on to the next open frame and returns it and how many frames were seen with it; or,
    /// without a frame, by `most` frames, at least one and at most all.
    pub(super) fn advance_to_open(&mut self, frames: u32, most: u64) -> (u64, Option<u32>) {
        let from = behind(self.at, frames);
        let found = self.open.next(place(from, frames)).map(|found| (found, 0));
        let around = || self.open.next(0).map(|found| (found, u64::from(frames)));
        if let Some((found, round)) = found.or_else(around) {
            let at = found as u32 - gap(found as u32, frames);
            let seen = u64::from(at) + round - u64::from(from) + 1;
            if seen <= most {
                self.at = at;
                return (seen, Some(frame_at(found)));
            }
        }
        self.at = ((u64::from(from) + most - 1) % u64::from(frames)) as u32;
        (most, None)
    }

    /// A caller's scan would change something at the frame.
    pub(super) fn open(&mut self, frame: u32) {
        if !self.is_open(frame) {
            self.open.insert(place_of(frame));
        }
    }

    /// It would not, or the frame is free.
    pub(super) fn close(&mut self, frame: u32) {
        if self.is_open(frame) {
            self.open.remove(place_of(frame));
        }
    }

    pub(super) fn is_open(&self, frame: u32) -> bool {
        self.open.contains(place_of(frame))
    }

    /// Takes out one of the open frames.
    pub(super) fn pop_open(&mut self) -> Option<u32> {
        let first = self.open.next(0)?;
        self.open.remove(first);
        Some(frame_at(first))
    }
}

/// The position behind one.
fn behind(at: u32, frames: u32) -> u32 {
    if at + 1 >= frames { 0 } else { at + 1 }
}

/// Where a frame lies in the order of the hand if its block is full.
fn place_of(frame: u32) -> u64 {
    u64::from(frame ^ (BLOCK - 1))
}

fn frame_at(place: u64) -> u32 {
    place as u32 ^ (BLOCK - 1)
}

/// The place of the hand's position `at`.
fn place(at: u32, frames: u32) -> u64 {
    u64::from(at + gap(at, frames))
}

/// By how much places of the last block, of which frames are missing, lie behind positions.
fn gap(at: u32, frames: u32) -> u32 {
    let in_last = at / BLOCK == frames / BLOCK;
    if in_last { BLOCK - frames % BLOCK } else { 0 }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn going_to_open_frames_is_going_frame_by_frame() {
        let mut state = 1_u64;
        for round in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            let frames = [1, 2, 511, 512, 513, 1_024, 1_500][(state >> 40) as usize % 7];
            let at = (state >> 33) as u32 % frames;
            let (mut hand, mut model) = (Hand::default(), Hand::default());
            (hand.at, model.at) = (at, at);
            let chosen = (state >> 50) as u32 % 900;
            let open: Vec<u32> = (0..frames).filter(|frame| frame % 900 == chosen).collect();
            open.iter().for_each(|frame| hand.open(*frame));
            let most = 1 + (state >> 20) % u64::from(frames);
            let mut seen = 0;
            let found = loop {
                if seen == most {
                    break None;
                }
                seen += 1;
                let frame = model.advance(frames);
                if open.contains(&frame) {
                    break Some(frame);
                }
            };
            assert_eq!(hand.advance_to_open(frames, most), (seen, found), "round {round}");
            assert_eq!(hand.at, model.at);
        }
    }
}
