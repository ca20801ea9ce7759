//! Which blocks of an object are fetched before they are read.
//!
//! A request for a block of an object costs a round trip, whatever its size. Two patterns of reads
//! tell what is read next:
//!
//! ```text
//!   a stream         |##|==|==|==|==|     the next blocks; the window doubles with each block
//!                                         that the reader reaches, up to a limit
//!
//!   a dense region   |##|==|##|==|==|==|==|==|
//!                                         the rest of eight blocks, of which reads that are no
//!                                         stream have touched two
//! ```
//!
//! A program that starts reads a part of most regions of its image. Each of its reads waits for the
//! one before it, so fetching a region at once saves the round trips of its other blocks. A reader
//! that jumps in an object much larger than what it reads meets no region twice.

use core::ops::Range;

use alloc::collections::VecDeque;

/// What was read of an object, and what follows from it.
#[derive(Clone, Debug)]
pub struct BlockAhead {
    streams: [Stream; STREAMS],
    /// The regions that were read last, the oldest first: number, and the blocks that were read as
    /// bits.
    regions: VecDeque<(u64, u8)>,
    /// Counts reads: which stream was used last.
    clock: u64,
    /// Blocks ahead of a stream at most.
    window_max: u64,
}

/// A reader that goes forward.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The block behind the last one that it read; none yet if 0.
    next: u64,
    /// How far ahead of it blocks were asked for.
    asked: u64,
    window: u64,
    used: u64,
}

impl BlockAhead {
    /// For a cache that has room for `window_max` blocks in front of each stream; taken as 1 to 16.
    pub fn new(window_max: u64) -> Self {
        Self {
            streams: [Stream::default(); STREAMS],
            regions: VecDeque::with_capacity(REGIONS),
            clock: 0,
            window_max: window_max.clamp(1, WINDOW_MAX),
        }
    }

    /// The blocks to fetch beside those that are read. They may be in memory, or behind the end.
    pub fn on_read(&mut self, blocks: &Range<u64>) -> Range<u64> {
        if blocks.is_empty() {
            return 0..0;
        }
        self.clock += 1;
        self.stream(blocks).or_else(|| self.region(blocks)).unwrap_or(0..0)
    }

    /// The blocks ahead of the stream that these belong to; none if there is no such stream.
    fn stream(&mut self, blocks: &Range<u64>) -> Option<Range<u64>> {
        let belongs = |stream: &&mut Stream| {
            stream.next > 0 && (blocks.start == stream.next || blocks.start + 1 == stream.next)
        };
        let Some(stream) = self.streams.iter_mut().find(belongs) else {
            let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used)?;
            let (next, asked) = (blocks.end, blocks.end);
            *oldest = Stream { next, asked, window: 0, used: self.clock };
            return None;
        };
        stream.used = self.clock;
        if blocks.end <= stream.next {
            return None;
        }
        stream.next = blocks.end;
        stream.window = (stream.window * 2).clamp(1, self.window_max);
        let from = stream.asked.max(blocks.end);
        stream.asked = (blocks.end + stream.window).max(from);
        Some(from..stream.asked)
    }

    /// The region of these blocks, once it is dense.
    fn region(&mut self, blocks: &Range<u64>) -> Option<Range<u64>> {
        let number = blocks.start / REGION;
        let known = self.regions.iter().position(|(other, _)| *other == number);
        let before = known.and_then(|place| self.regions.remove(place)).map_or(0, |(_, bits)| bits);
        let first = blocks.start % REGION;
        let len = (blocks.end - blocks.start).min(REGION - first);
        let read = (u8::MAX >> (REGION - len)) << first;
        let after = before | read;
        if self.regions.len() == REGIONS {
            self.regions.pop_front();
        }
        self.regions.push_back((number, after));
        // Neighbors are a stream, or a short file.
        let apart = |bits: u8| (bits & !(bits << 1)).count_ones();
        let became_dense = apart(before) < 2 && apart(after) >= 2;
        became_dense.then_some(number * REGION..(number + 1) * REGION)
    }
}

/// Blocks ahead of a stream at most.
const WINDOW_MAX: u64 = 16;
/// Streams that are followed.
const STREAMS: usize = 8;
/// Blocks of a region: the bits of a byte.
const REGION: u64 = 8;
/// Regions that are remembered.
const REGIONS: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// What is fetched for each of some blocks that are read one at a time.
    fn fetched(ahead: &mut BlockAhead, reads: &[u64]) -> Vec<Range<u64>> {
        reads.iter().map(|at| ahead.on_read(&(*at..at + 1))).collect()
    }

    #[test]
    fn the_window_of_a_stream_doubles_up_to_its_limit() {
        let mut ahead = BlockAhead::new(4);
        let found = fetched(&mut ahead, &[100, 101, 102, 103, 104]);
        assert_eq!(found, [0..0, 102..103, 103..105, 105..108, 108..109]);
        assert_eq!(BlockAhead::new(0).window_max, 1);
        assert_eq!(BlockAhead::new(99).window_max, WINDOW_MAX);
    }

    #[test]
    fn a_block_that_is_read_again_moves_no_window() {
        let mut ahead = BlockAhead::new(16);
        let found = fetched(&mut ahead, &[100, 100, 101, 101, 101, 102]);
        assert_eq!(found, [0..0, 0..0, 102..103, 0..0, 0..0, 103..105]);
    }

    #[test]
    fn streams_that_take_turns_have_windows_of_their_own() {
        let mut ahead = BlockAhead::new(16);
        let found = fetched(&mut ahead, &[100, 500, 101, 501, 102, 502]);
        assert_eq!(found, [0..0, 0..0, 102..103, 502..503, 103..105, 503..505]);
    }

    #[test]
    fn the_rest_of_a_region_is_fetched_once_when_two_places_of_it_were_read() {
        let mut ahead = BlockAhead::new(16);
        let found = fetched(&mut ahead, &[83, 800, 86, 81, 85]);
        assert_eq!(found, [0..0, 0..0, 80..88, 0..0, 0..0]);
    }

    #[test]
    fn neighbors_are_one_place() {
        let mut ahead = BlockAhead::new(16);
        assert_eq!(ahead.on_read(&(82..85)), 0..0);
        assert_eq!(ahead.on_read(&(81..82)), 0..0);
        assert_eq!(ahead.on_read(&(87..88)), 80..88);
    }

    #[test]
    fn a_read_over_the_end_of_a_region_counts_for_its_first_one() {
        let mut ahead = BlockAhead::new(16);
        assert_eq!(ahead.on_read(&(87..200)), 0..0);
        assert_eq!(ahead.on_read(&(80..81)), 80..88);
        assert_eq!(ahead.on_read(&(96..112)), 0..0);
        assert_eq!(ahead.on_read(&(5..5)), 0..0);
    }

    #[test]
    fn a_region_that_was_left_long_ago_is_forgotten() {
        let mut ahead = BlockAhead::new(16);
        let others: Vec<u64> = (1..=64).map(|region| region * 100).collect();
        assert!(ahead.on_read(&(0..1)).is_empty());
        assert!(fetched(&mut ahead, &others).iter().all(Range::is_empty));
        assert_eq!(fetched(&mut ahead, &[4, 2]), [0..0, 0..8]);
    }
}
