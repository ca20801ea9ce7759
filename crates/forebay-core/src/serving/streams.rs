//! Which of a client's reads belong together.
//!
//! Source:     Forebay; tables of streams as in storage controllers.
//! Behaviour:  a read that begins near the end of an earlier one is part of a stream. A client has
//!             a few streams, each with its own readahead state; the one that was idle longest
//!             makes room. Reads that continue nothing are remembered apart, so that random reads
//!             neither take the streams' places nor cause readahead.
//! Differs:    the kernel keeps one state for each open file, which interleaved streams reset.
//! Not for:    streams with gaps, which look random.

/// Streams of one client that are followed at once.
pub(super) const STREAMS: usize = 8;

/// Reads that continued nothing, which a stream can begin at.
const LONE_READS: usize = 16;

/// What a client has read lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    /// Where the last lone reads ended, and the place of the oldest of them.
    lone: [u64; LONE_READS],
    oldest: usize,
    /// Reads so far.
    reads: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Where the next read is expected.
    next: u64,
    /// The number of its last read; zero for none.
    last: u64,
}

impl Streams {
    /// The stream that a read of `len` bytes from `offset` belongs to, if any.
    pub(super) fn place(&mut self, offset: u64, len: u64) -> Option<usize> {
        self.reads += 1;
        let end = offset.saturating_add(len);
        // Several reads in flight may come a little out of order.
        let slack = len.saturating_mul(8);
        let near = |stream: &Stream| stream.last > 0 && offset.abs_diff(stream.next) <= slack;
        if let Some(place) = self.streams.iter().position(near) {
            let stream = &mut self.streams[place];
            stream.next = stream.next.max(end);
            stream.last = self.reads;
            return Some(place);
        }
        let gap = len.saturating_mul(4);
        let follows = |ended: &u64| *ended > 0 && offset >= *ended && offset - *ended <= gap;
        if let Some(begin) = self.lone.iter().position(follows) {
            self.lone[begin] = 0;
            let idle = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.last);
            let (place, _) = idle?;
            self.streams[place] = Stream { next: end, last: self.reads };
            return Some(place);
        }
        self.lone[self.oldest] = end;
        self.oldest = (self.oldest + 1) % LONE_READS;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 128 << 10;

    #[test]
    fn a_stream_begins_with_its_second_read_and_keeps_its_place() {
        let mut streams = Streams::default();
        assert_eq!(streams.place(0, STEP), None);
        let place = streams.place(STEP, STEP).unwrap();
        for read in [3, 2, 4, 5, 7, 6, 8] {
            assert_eq!(streams.place(read * STEP, STEP), Some(place), "read {read}");
        }
    }

    #[test]
    fn interleaved_streams_have_places_of_their_own() {
        let mut streams = Streams::default();
        let mut places = [None; STREAMS];
        for read in 0..20 {
            for (number, place) in places.iter_mut().enumerate() {
                let found = streams.place(((number as u64) << 32) + read * STEP, STEP);
                assert!(read < 2 || found == *place, "stream {number}, read {read}");
                *place = found;
            }
        }
        let mut found: alloc::vec::Vec<_> = places.into_iter().flatten().collect();
        found.sort_unstable();
        assert_eq!(found, (0..STREAMS).collect::<alloc::vec::Vec<_>>());
    }

    #[test]
    fn random_reads_between_leave_a_stream_its_place() {
        let mut streams = Streams::default();
        let mut at = 1 << 40;
        streams.place(at, STEP);
        for round in 0..100_u64 {
            at += STEP;
            assert!(streams.place(at, STEP).is_some(), "round {round}");
            for read in 0..10 {
                let offset = (round * 10 + read) * 7_777_777 % (1 << 36);
                assert_eq!(streams.place(offset & !4095, 4096), None);
            }
        }
    }

    #[test]
    fn the_stream_that_was_idle_longest_makes_room() {
        let mut streams = Streams::default();
        for number in 0..=STREAMS as u64 {
            streams.place(number << 32, STEP);
            assert!(streams.place((number << 32) + STEP, STEP).is_some());
        }
        assert_eq!(streams.place(2 * STEP, STEP), None, "the first stream is forgotten");
        assert!(streams.place((1 << 32) + 2 * STEP, STEP).is_some());
    }
}
