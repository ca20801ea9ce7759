//! How many raw bytes are read around a miss before they are demanded.
//!
//! A device moves a large piece in the time of a few requests, so reading around a miss pays when
//! the next demands lie there, and costs all readers when they do not. Two things are learned:
//!
//! ```text
//!   locality   a demand is near if it lies beside one of the last demands of any task:
//!
//!              image  ....|====|..........|==|......................|===|.....
//!                             ^ near                 ^ far             ^ near
//!
//!              far, far, near, near, near, near, near, far, far
//!   score      0    0    1     2     3     4     5     3    1     one for each task, one for all
//!                                    |---- reads ahead ----|
//!
//!   use        of what was read ahead, the share that was demanded soon
//! ```
//!
//! A new task begins with what is known of all tasks, but one step short of reading ahead. So one
//! random reader among streams triggers no read-ahead, and many tasks with one random fault each
//! trigger none either.
//!
//! The next piece follows when a stream is in the second half of one. The first piece is short.
//! Each that pays makes the next one twice as long, up to what the device moves in the time of some
//! requests. If so little of a piece was demanded that single requests would have taken less,
//! pieces become shorter, and end; they are tried again when demands stay near, or when an earlier
//! piece pays after all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::DeviceSpeed;
use crate::packed::RawBytes;
use crate::time::{Duration, Instant};

/// Decides for one image what is read ahead.
#[derive(Debug)]
pub struct RawAhead {
    /// The last demands, the oldest first.
    recent: VecDeque<RawBytes>,
    tasks: Vec<Task>,
    /// Of all tasks together.
    score: u8,
    /// What was read ahead, the oldest first.
    pieces: VecDeque<Piece>,
    /// How often pieces are halved.
    halvings: u32,
    /// Bytes of near misses for which nothing was read ahead because earlier pieces did not pay.
    forgone: u64,
    speed: DeviceSpeed,
    /// Counts demands.
    demands: u64,
    /// The bytes of a demand, a moving average.
    demand_bytes: u64,
}

/// A demand for raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRead {
    /// The task that asked.
    pub task: u32,
    /// What it needed.
    pub needed: RawBytes,
    /// What lies in its window; reading ahead covers it.
    pub window: RawBytes,
    /// It waited for the device.
    pub is_miss: bool,
}

/// A task that reads the image.
#[derive(Clone, Copy, Debug)]
struct Task {
    number: u32,
    score: u8,
    used: u64,
}

/// Bytes that were read ahead.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: RawBytes,
    /// What the demand needed that it was read for.
    asked: u64,
    /// Of the rest, what was demanded since.
    demanded: u64,
    /// When it will be there.
    ready: Instant,
    /// The demand that it was read for.
    born: u64,
    is_judged: bool,
    /// It was judged not to have paid.
    has_failed: bool,
    /// Half of it was demanded, and nothing was read behind it yet.
    is_used: bool,
}

impl Default for RawAhead {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            recent: VecDeque::new(),
            tasks: Vec::new(),
            score: 0,
            pieces: VecDeque::new(),
            halvings: HALVINGS_MAX,
            forgone: 0,
            speed: DeviceSpeed::default(),
            demands: 0,
            demand_bytes: 0,
        }
    }
}

impl RawAhead {
    /// A read of raw bytes waited for the device for so long. If they had been read ahead, they
    /// were on their way or dropped, and the time says nothing about the device.
    pub fn on_device(&mut self, raw: RawBytes, took: Duration) {
        if self.pieces.iter().all(|piece| overlap(piece.bytes, raw) == 0) {
            self.speed.on_read(raw.len(), took);
        }
    }

    /// What the device was seen to do.
    pub fn speed(&self) -> &DeviceSpeed {
        &self.speed
    }

    /// A demand. Returns what is to be read ahead, if anything.
    pub fn on_read(&mut self, read: &RawRead, now: Instant) -> Option<RawBytes> {
        if read.needed.is_empty() {
            return None;
        }
        self.demands += 1;
        let bytes = read.needed.len().min(PIECE_MAX);
        self.demand_bytes = (self.demand_bytes * (WEIGHT - 1) + bytes) / WEIGHT;
        let is_near = self.recent.iter().any(|other| is_beside(*other, read.needed));
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(read.needed);
        let is_local = self.task_score(read.task, is_near) >= ENOUGH;
        self.score = moved(self.score, is_near);
        self.judge();
        let is_coming = self.meet_pieces(read, now);
        if !is_local {
            return None;
        }
        if !read.is_miss || is_coming {
            return self.follow(read.needed, now);
        }
        if self.halvings > HALVINGS_MAX {
            self.forgone += bytes;
            if self.forgone < FORGONE * self.piece_len() {
                return None;
            }
            self.forgone = 0;
        }
        Some(self.begin_piece(read, now))
    }

    /// The score of a task after a demand. The task that asked longest ago makes room.
    fn task_score(&mut self, number: u32, is_near: bool) -> u8 {
        let found = self.tasks.iter().position(|task| task.number == number);
        let place = found.unwrap_or_else(|| {
            if self.tasks.len() == TASKS_MAX {
                let oldest = self.tasks.iter().enumerate().min_by_key(|(_, task)| task.used);
                let place = oldest.map_or(0, |(place, _)| place);
                self.tasks.swap_remove(place);
            }
            self.tasks.push(Task { number, score: self.score.min(ENOUGH - 1), used: 0 });
            self.tasks.len() - 1
        });
        let task = &mut self.tasks[place];
        task.used = self.demands;
        task.score = moved(task.score, is_near);
        task.score
    }

    /// Counts a demand in the pieces where it lies. Says whether its bytes are on their way. A
    /// piece of which something is missing later was dropped, and may be read again.
    fn meet_pieces(&mut self, read: &RawRead, now: Instant) -> bool {
        let mut is_coming = false;
        for piece in &mut self.pieces {
            let common = overlap(piece.bytes, read.needed);
            if common == 0 {
                continue;
            }
            piece.demanded = piece.demanded.saturating_add(common);
            is_coming |= read.is_miss && now < piece.ready;
        }
        is_coming
    }

    /// Learns from pieces that are used or old enough, once from each; and once more from one that
    /// pays later.
    fn judge(&mut self) {
        for place in 0..self.pieces.len() {
            let piece = &self.pieces[place];
            let is_used = 2 * piece.demanded >= piece.bytes.len().saturating_sub(piece.asked);
            // A stream comes to its end after so many demands, from the one before it on.
            let passage = 2 * piece.bytes.len() / self.demand_bytes.max(1);
            let is_old = self.demands - piece.born >= JUDGED_AFTER.max(passage);
            if !piece.is_judged && (is_used || is_old) {
                self.learn(place, is_used);
            } else if piece.has_failed && (is_used || self.has_paid(piece)) {
                self.pieces[place].has_failed = false;
                self.halvings = self.halvings.saturating_sub(2);
            }
        }
    }

    fn learn(&mut self, place: usize, is_used: bool) {
        self.pieces[place].is_judged = true;
        self.pieces[place].is_used = is_used;
        let has_paid = is_used || self.has_paid(&self.pieces[place]);
        self.pieces[place].has_failed = !has_paid;
        self.halvings = if has_paid {
            self.halvings.saturating_sub(1)
        } else {
            (self.halvings + 1).min(HALVINGS_MAX + 1)
        };
    }

    /// Whether single requests for what was demanded of a piece would have taken longer than what
    /// was not demanded of it.
    fn has_paid(&self, piece: &Piece) -> bool {
        let rest = piece.bytes.len().saturating_sub(piece.asked);
        let requests = piece.demanded.min(rest) / self.demand_bytes.max(1);
        let saved = self.speed.request().times(requests);
        saved >= self.speed.transfer(rest.saturating_sub(piece.demanded))
    }

    /// The piece behind one that a stream is about to leave.
    fn follow(&mut self, needed: RawBytes, now: Instant) -> Option<RawBytes> {
        let is_left = |piece: &Piece| {
            let middle = piece.bytes.start + piece.bytes.len() / 2;
            piece.is_used && overlap(piece.bytes, needed) > 0 && middle <= needed.end
        };
        let piece = self.pieces.iter_mut().find(|piece| is_left(piece))?;
        piece.is_used = false;
        let start = piece.bytes.end;
        let is_there = |piece: &Piece| piece.bytes.start <= start && start < piece.bytes.end;
        if self.pieces.iter().any(is_there) {
            return None;
        }
        let len = self.piece_len();
        let bytes = RawBytes { start, end: (start + 1).div_ceil(len).saturating_mul(len) };
        self.add_piece(bytes, needed, now);
        Some(bytes)
    }

    /// How long a piece is that begins now.
    fn piece_len(&self) -> u64 {
        let limit = self.speed.request().times(REQUESTS);
        let mut len = PIECE_MAX;
        while len > PIECE_MIN && self.speed.transfer(len) > limit {
            len /= 2;
        }
        let least = (DEMANDS_MIN * self.demand_bytes).next_power_of_two();
        (len >> self.halvings.min(HALVINGS_MAX)).max(least.clamp(PIECE_MIN, PIECE_MAX))
    }

    fn begin_piece(&mut self, read: &RawRead, now: Instant) -> RawBytes {
        let len = self.piece_len();
        let mut start = read.needed.start.min(read.window.start);
        let mut floor = 0;
        for piece in &self.pieces {
            // What is missing lies behind it.
            let is_partly = overlap(piece.bytes, read.needed) < read.needed.len();
            if is_partly && piece.bytes.start <= start && start < piece.bytes.end {
                (start, floor) = (piece.bytes.end, piece.bytes.end);
            }
        }
        // Aligned, so that pieces do not overlap; a window may lie in two.
        let end = read.needed.end.max(read.window.end);
        let end = end.clamp(start.saturating_add(1), start.saturating_add(WINDOW_MAX));
        let end = end.div_ceil(len).saturating_mul(len);
        let bytes = RawBytes { start: (start / len * len).max(floor), end };
        self.add_piece(bytes, read.needed, now);
        bytes
    }

    fn add_piece(&mut self, bytes: RawBytes, needed: RawBytes, now: Instant) {
        let took = self.speed.request() + self.speed.transfer(bytes.len());
        let asked = overlap(bytes, needed);
        if self.pieces.len() == PIECES_MAX {
            if !self.pieces[0].is_judged {
                self.learn(0, false);
            }
            self.pieces.pop_front();
        }
        let (ready, born) = (now + took, self.demands);
        let piece = Piece {
            bytes,
            asked,
            demanded: 0,
            ready,
            born,
            is_judged: false,
            has_failed: false,
            is_used: false,
        };
        self.pieces.push_back(piece);
    }
}

/// A score after a near or a far demand.
const fn moved(score: u8, is_near: bool) -> u8 {
    match (is_near, score) {
        (true, SCORE_MAX) => SCORE_MAX,
        (true, _) => score + 1,
        (false, _) => score.saturating_sub(FAR),
    }
}

/// Whether two demands lie beside each other.
const fn is_beside(one: RawBytes, other: RawBytes) -> bool {
    one.start <= other.end.saturating_add(NEAR) && other.start <= one.end.saturating_add(NEAR)
}

/// The bytes that two ranges share.
const fn overlap(one: RawBytes, other: RawBytes) -> u64 {
    let start = if one.start > other.start { one.start } else { other.start };
    let end = if one.end < other.end { one.end } else { other.end };
    end.saturating_sub(start)
}

/// Demands that the next one is compared with.
const RECENT_MAX: usize = 16;

/// Bytes between demands that lie beside each other. Of random demands in 32 MiB one in thirty has
/// one of the last 16 so near.
const NEAR: u64 = 32 << 10;

/// The score from which on misses are read around.
const ENOUGH: u8 = 3;

/// Three far demands in a row end reading ahead.
const SCORE_MAX: u8 = 8;

/// What a far demand takes from the score. A recorded start of a program of 80 modules brought in
/// 19.5 MB with 2 and 26.6 MB with 1, in the same time.
const FAR: u8 = 2;

/// Tasks that are told apart.
const TASKS_MAX: usize = 16;

/// Pieces that are watched.
const PIECES_MAX: usize = 64;

/// Demands after which a piece is judged by what was demanded of it.
const JUDGED_AFTER: u64 = 64;

/// A piece takes as long as so many requests at most.
const REQUESTS: u64 = 32;

/// Bytes of the longest piece.
const PIECE_MAX: u64 = 1 << 20;

/// Bytes of the shortest piece: less is not worth a request.
const PIECE_MIN: u64 = 64 << 10;

/// Demands in the shortest piece: one that is hardly longer than what was needed saves no request.
const DEMANDS_MIN: u64 = 4;

/// Bytes of a window that count.
const WINDOW_MAX: u64 = 1 << 20;

/// Beyond so many halvings nothing is read ahead.
const HALVINGS_MAX: u32 = 4;

/// One piece is tried again after near misses of so many times its bytes: if it does not pay
/// either, it costs a tenth of what is read anyway.
const FORGONE: u64 = 10;

/// A demand counts for one in so many in the mean size.
const WEIGHT: u64 = 8;

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::testing::Random;

    /// An image that is asked by hand. What was read ahead is in memory from then on.
    struct Bench {
        ahead: RawAhead,
        pieces: Vec<RawBytes>,
        misses: u64,
        now: Instant,
    }

    impl Bench {
        /// Over a device with this time in microseconds for a request, in nanoseconds for a KiB.
        fn new(request: u64, kib: u64) -> Self {
            let mut ahead = RawAhead::default();
            for _ in 0..100 {
                for kibs in [4, 128] {
                    let raw = RawBytes { start: 0, end: kibs << 10 };
                    ahead.on_device(raw, Duration(request * 1_000 + kib * kibs));
                }
            }
            Self { ahead, pieces: Vec::new(), misses: 0, now: Instant::ZERO }
        }

        /// A virtual disk.
        fn fast() -> Self {
            Self::new(100, 1_000)
        }

        /// A demand for 3 KiB at a place; returns the KiB that are read ahead.
        fn read(&mut self, task: u32, start: u64) -> u64 {
            let needed = RawBytes { start, end: start + (3 << 10) };
            let window = RawBytes { start, end: start + (48 << 10) };
            let there: u64 = self.pieces.iter().map(|piece| overlap(*piece, needed)).sum();
            let is_miss = there < needed.len();
            self.misses += u64::from(is_miss);
            self.now += Duration::from_millis(10);
            let read = RawRead { task, needed, window, is_miss };
            let piece = self.ahead.on_read(&read, self.now);
            self.pieces.extend(piece);
            piece.map_or(0, RawBytes::len) >> 10
        }

        /// KiB that are read ahead for all of these places.
        fn sum(&mut self, places: impl IntoIterator<Item = (u32, u64)>) -> u64 {
            places.into_iter().map(|(task, place)| self.read(task, place)).sum()
        }
    }

    fn random(seed: u64, image: u64, count: usize) -> Vec<u64> {
        let mut random = Random(seed);
        (0..count).map(|_| random.below(image)).collect()
    }

    fn stream(from: u64, count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |step| from + step * (3 << 10))
    }

    #[test]
    fn a_stream_is_read_ahead_from_its_fourth_demand_on_in_pieces_that_grow_and_do_not_overlap() {
        let mut bench = Bench::fast();
        let found: Vec<u64> = stream(0, 700).map(|place| bench.read(1, place)).collect();
        assert_eq!(found[..4], [0, 0, 0, 64]);
        let starts: Vec<u64> = bench.pieces.iter().map(|piece| piece.start >> 10).collect();
        assert_eq!(starts, [0, 64, 128, 256, 512, 1024, 2048]);
        assert_eq!(found.iter().sum::<u64>(), 3072, "2 MiB and the next piece");
        assert_eq!(bench.misses, 4, "each further piece is there before the stream is");
    }

    #[test]
    fn random_demands_have_nothing_read_ahead() {
        // In a small image some lie beside each other by chance.
        for (image, most) in [(32 << 20, 1024), (1 << 30, 0), (1 << 40, 0)] {
            let (mut one, mut many) = (0, 0);
            for seed in 0..20 {
                let places = random(seed, image, 512);
                one += Bench::fast().sum(places.iter().map(|place| (1, *place)));
                many += Bench::fast().sum((0..).zip(places));
            }
            assert!(one <= most, "one task: {one} KiB in 20 runs, image of {image}");
            assert!(many <= most, "a task for each: {many} KiB in 20 runs, image of {image}");
        }
    }

    #[test]
    fn a_stream_that_becomes_random_stops_within_three_demands_and_streams_again_after_three() {
        let mut bench = Bench::fast();
        bench.sum(stream(0, 100).map(|place| (1, place)));
        let found: Vec<u64> =
            random(3, 1 << 40, 50).into_iter().map(|place| bench.read(1, place)).collect();
        assert!(found[..2].iter().all(|piece| *piece > 0), "it may be a jump");
        assert!(found[2..].iter().all(|piece| *piece == 0), "{found:?}");
        let found: Vec<u64> = stream(1 << 41, 10).map(|place| bench.read(1, place)).collect();
        assert!(found[..3] == [0, 0, 0] && found[3] > 0, "{found:?}");
    }

    #[test]
    fn a_random_reader_beside_a_stream_is_told_apart_and_so_are_new_tasks() {
        let mut bench = Bench::fast();
        let (mut of_stream, mut of_random) = (0, 0);
        for (place, far) in stream(0, 1400).zip(random(5, 1 << 40, 1400)) {
            of_stream += bench.read(1, place);
            of_random += bench.read(2, far);
        }
        assert_eq!((of_stream, of_random), (5120, 0));
        let new = bench.sum((100..).zip(random(6, 1 << 40, 200)));
        assert_eq!(new, 0, "tasks with one random demand each, while another one streams");
    }

    #[test]
    fn tasks_that_share_a_tree_are_one_stream() {
        let mut bench = Bench::fast();
        let places = stream(0, 1400).enumerate().map(|(step, place)| (step as u32 % 4, place));
        assert_eq!(bench.sum(places), 5120);
        let short =
            stream(1 << 40, 700).enumerate().map(|(step, place)| (100 + step as u32, place));
        assert!(Bench::fast().sum(short) >= 2048, "each task reads one file");
    }

    #[test]
    fn pieces_are_sized_by_the_device() {
        // Microseconds of a request, nanoseconds of a KiB; a virtual disk, 20 MB/s and 1000
        // requests a second, an arm, a link with a long way, memory.
        let rows = [
            (100, 1_000, 1024),
            (1_000, 51_200, 512),
            (8_000, 7_000, 1024),
            (5, 500, 256),
            (1, 500, 64),
        ];
        for (request, kib, expected) in rows {
            let mut bench = Bench::new(request, kib);
            let longest = stream(0, 2_000).map(|place| bench.read(1, place)).max();
            assert_eq!(longest, Some(expected), "{request} us, {kib} ns a KiB");
        }
    }

    #[test]
    fn pieces_of_which_little_is_demanded_become_shorter_and_end_and_are_tried_again() {
        // Eight demands beside each other, then far away, on a device of 33 MB/s.
        let mut bench = Bench::new(100, 30_000);
        let clusters = |seed| {
            let starts = random(seed, 1 << 40, 100);
            starts.into_iter().flat_map(|start| stream(start, 8).map(|place| (1, place)))
        };
        for seed in 0..4 {
            let before = bench.pieces.len();
            bench.sum(clusters(seed));
            let pieces = bench.pieces.len() - before;
            assert!((1..50).contains(&pieces), "{pieces} for 100 clusters");
        }
        let found = bench.sum(stream(1 << 41, 4_000).map(|place| (1, place)));
        assert!(found > 9_000, "of a stream of 12000 KiB: {found}");
    }

    #[test]
    fn a_read_of_what_was_read_ahead_says_nothing_about_the_device() {
        let mut bench = Bench::fast();
        bench.sum(stream(0, 10).map(|place| (1, place)));
        let (piece, request) = (bench.pieces[0], bench.ahead.speed().request());
        let after = RawBytes { start: piece.end, end: piece.end + 4096 };
        let before_end = RawBytes { start: piece.end - 1, end: piece.end + 4095 };
        for _ in 0..100 {
            bench.ahead.on_device(before_end, Duration::from_micros(1));
        }
        assert_eq!(bench.ahead.speed().request(), request);
        bench.ahead.on_device(after, Duration::from_micros(1));
        assert!(bench.ahead.speed().request() < request);
    }

    #[test]
    fn a_piece_that_pays_late_makes_up_for_its_judgement() {
        // Whole pieces are demanded, but after the demands by which they are judged.
        let mut bench = Bench::new(100, 30_000);
        let tops = (0..200).map(|step| (1, step * (3 + 31) * 1024));
        assert!(bench.sum(tops) > 0);
        assert!(bench.ahead.halvings > HALVINGS_MAX, "none of them paid in time");
        let pieces = bench.pieces.clone();
        let last = &pieces[pieces.len() - 3..];
        for piece in last {
            bench.sum(stream(piece.start, piece.len() / (3 << 10)).map(|place| (1, place)));
        }
        assert!(bench.ahead.halvings <= HALVINGS_MAX, "they paid: it reads ahead again");
    }

    #[test]
    fn after_pieces_that_did_not_pay_one_is_tried_for_each_ten_times_its_bytes() {
        // Near demands of which no two lie in one piece, on a device of 33 MB/s.
        let mut bench = Bench::new(100, 30_000);
        let places = (0..3_000).map(|step| (1, step * (3 + 31) * 1024));
        let found: Vec<u64> = places.map(|(task, place)| bench.read(task, place)).collect();
        let tries: Vec<usize> = (0..found.len()).filter(|step| found[*step] > 0).collect();
        let apart: Vec<usize> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // Ten pieces of 64 KiB are 213 demands of 3 KiB.
        let first = apart.iter().position(|apart| *apart > 200).expect("it gives up");
        assert!(first < 40, "it gives up when the first pieces are judged: {apart:?}");
        assert!(apart[first..].iter().all(|apart| (210..220).contains(apart)), "{apart:?}");
    }

    #[test]
    fn what_is_on_its_way_is_not_read_twice_and_what_was_dropped_is() {
        let mut ahead = RawAhead::default();
        let mut miss = |start: u64, now| {
            let needed = RawBytes { start, end: start + 4096 };
            ahead.on_read(&RawRead { task: 1, needed, window: needed, is_miss: true }, Instant(now))
        };
        for start in [0, 4096, 8192] {
            assert_eq!(miss(start, 0), None);
        }
        let all = Some(RawBytes { start: 0, end: PIECE_MIN });
        assert_eq!(miss(12_288, 0), all);
        assert_eq!(miss(16_384, 1_000), None, "on its way");
        assert_eq!(miss(20_480, 1_000_000_000), all, "it was there, and is not any more");
    }

    #[test]
    fn any_numbers_are_survived_within_the_limits_and_alike_twice() {
        let run = |seed| {
            let (mut random, mut ahead) = (Random(seed), RawAhead::default());
            let mut found = vec![];
            for _ in 0..3_000 {
                let mut any = || random.below(u64::MAX) >> random.below(64);
                let mut range = || {
                    let (one, other) = (any(), any());
                    RawBytes { start: one.min(other), end: one.max(other) }
                };
                let (needed, window) = (range(), range());
                let (task, now) = (random.below(40) as u32, Instant(random.below(1 << 62)));
                let read = RawRead { task, needed, window, is_miss: random.below(2) == 0 };
                ahead.on_device(window, Duration(random.below(u64::MAX)));
                found.push(ahead.on_read(&read, now));
                assert!(ahead.recent.len() <= RECENT_MAX && ahead.tasks.len() <= TASKS_MAX);
                assert!(ahead.pieces.len() <= PIECES_MAX);
                let longest = WINDOW_MAX + 2 * PIECE_MAX;
                assert!(found.iter().flatten().all(|piece| piece.len() <= longest));
            }
            found
        };
        for seed in 0..4 {
            assert_eq!(run(seed), run(seed));
        }
    }
}
