//! A path in a world that answers in random order, fails at random, and knows what each frame
//! must hold.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::*;
use crate::testing::Random;

/// The number of a request, and what came of it.
type Ended = (u32, Result<(), (usize, IoError)>);

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Raw(u64),
    Decoded(PackedBlock, u64),
}

/// What the world still has to answer.
#[derive(Clone, Copy, Debug)]
enum Work {
    Read(io::Request),
    Decode(Decode),
}

struct World {
    path: ImagePath,
    frames: BTreeMap<FrameId, Content>,
    work: Vec<Work>,
    /// The bytes that each request in flight has received.
    received: BTreeMap<u32, u64>,
    ended: Vec<Ended>,
    random: Random,
    /// In percent.
    failures: u64,
    /// The most that a block decodes to, whatever it says.
    length_max: u64,
}

impl World {
    fn new(seed: u64, frames: u32, failures: u64) -> Self {
        let config = PathConfig {
            frames,
            requests_max: REQUESTS,
            keeps_raw: seed.is_multiple_of(2),
            image_bytes: IMAGE_BYTES,
        };
        Self {
            path: ImagePath::new(&config),
            frames: BTreeMap::new(),
            work: Vec::new(),
            received: BTreeMap::new(),
            ended: Vec::new(),
            random: Random(seed),
            failures,
            length_max: u64::MAX,
        }
    }

    fn request(&mut self, number: u32, parts: &[Part]) {
        self.received.insert(number, 0);
        let kind = if number.is_multiple_of(2) { Use::Last } else { Use::Early };
        self.path.request(Instant::ZERO, number, parts, kind);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.path.poll_output() {
            match output {
                PathOutput::Read(request) => self.work.push(Work::Read(request)),
                PathOutput::Decode(decode) => {
                    let raw = self.path.raw_frames_of(&decode).collect::<Vec<_>>();
                    let pages = decode.raw.pages();
                    assert_eq!(raw.len() as u64, pages.len());
                    for (page, frame) in (pages.start..).zip(raw) {
                        assert_eq!(self.frames.get(&frame), Some(&Content::Raw(page)));
                    }
                    self.work.push(Work::Decode(decode));
                }
                PathOutput::Copy(copy) => self.copy(&copy),
                PathOutput::End(number, result) => self.ended.push((number, result)),
            }
        }
        self.path.check();
    }

    fn copy(&mut self, copy: &CopyOut) {
        let mut at = copy.at;
        let end = copy.at + copy.len;
        let mut frame = copy.frame;
        let mut start = copy.start;
        while at < end {
            let parts = &self.path.requests[copy.request as usize].parts;
            let part = parts.iter().find(|part| part.at <= at && at < part.at + part.len).unwrap();
            let (content, place) = match part.source {
                PartSource::Stored(offset) | PartSource::Ahead(offset) => {
                    let byte = offset + at - part.at;
                    (Content::Raw(byte / PAGE_SIZE), byte)
                }
                PartSource::Packed(block, inside) => {
                    let byte = u64::from(inside) + at - part.at;
                    (Content::Decoded(block, byte / PAGE_SIZE), byte)
                }
            };
            assert_eq!(self.frames.get(&frame), Some(&content));
            assert_eq!(place % PAGE_SIZE, start);
            let len = (PAGE_SIZE - start).min(end - at);
            *self.received.get_mut(&copy.request).unwrap() += len;
            at += len;
            start = 0;
            frame = FrameId(frame.0 + 1);
        }
    }

    /// Answers one thing; says whether there was one.
    fn step(&mut self) -> bool {
        if self.work.is_empty() {
            return false;
        }
        let place = self.random.below(self.work.len() as u64) as usize;
        let fails = self.random.below(100) < self.failures;
        match self.work.swap_remove(place) {
            Work::Read(request) => {
                let frames = self.path.frames_of(&request).collect::<Vec<_>>();
                for (page, frame) in (request.first..).zip(frames) {
                    self.frames.insert(frame, Content::Raw(page));
                }
                let result = if fails { Err(IoError::Device) } else { Ok(()) };
                self.path.read_done(Instant::ZERO, request.id, result, Duration::ZERO);
            }
            Work::Decode(decode) => {
                let (block, bytes) = self.path.block_of(&decode);
                assert!(bytes <= u64::from(block.decoded));
                let bytes = bytes.min(self.length_max);
                let filled = self.path.filled_by(&decode).collect::<Vec<_>>();
                for (page, frame) in filled {
                    self.frames.insert(frame, Content::Decoded(block, page));
                }
                let result = if fails { Err(IoError::Corrupt) } else { Ok(bytes) };
                self.path.decoded(Instant::ZERO, &decode, result);
            }
        }
        self.carry_out();
        true
    }

    fn finish(&mut self) {
        while self.step() {}
        assert!(self.path.is_quiet(), "all requests end");
    }

    /// A block of the image: a few raw pages, one to eight decoded ones.
    fn block(&mut self) -> PackedBlock {
        let number = self.random.below(BLOCKS);
        let start = number * 9000;
        let raw = RawBytes { start, end: start + 100 + number * 97 % 8000 };
        PackedBlock { raw, decoded: 1 + (number * 7919 % 32_768) as u32, variant: 0 }
    }

    fn parts(&mut self) -> Vec<Part> {
        let mut at = 0;
        (0..self.random.below(6))
            .map(|_| {
                let (source, len) = if self.random.below(4) == 0 {
                    let offset = self.random.below(IMAGE_BYTES - 20_000);
                    (PartSource::Stored(offset), 1 + self.random.below(20_000))
                } else {
                    let block = self.block();
                    let inside = self.random.below(u64::from(block.decoded));
                    let len = 1 + self.random.below(u64::from(block.decoded) - inside);
                    (PartSource::Packed(block, inside as u32), len)
                };
                let part = Part { at, len, source };
                at += len;
                part
            })
            .collect()
    }
}

use crate::packed::RawBytes;

/// Random requests, several at once; returns what came of them.
fn run(seed: u64, frames: u32, failures: u64) -> Vec<Ended> {
    let mut world = World::new(seed, frames, failures);
    for _ in 0..300 {
        let number = world.random.below(u64::from(REQUESTS)) as u32;
        if !world.path.requests[number as usize].in_flight {
            let parts = world.parts();
            world.request(number, &parts);
        }
        for _ in 0..world.random.below(4) {
            world.step();
        }
        for (number, result) in world.ended.clone().into_iter().skip(world.received.len()) {
            assert!(failures > 0 || result.is_ok(), "request {number}: {result:?}");
        }
    }
    world.finish();
    if failures == 0 {
        assert!(world.ended.iter().all(|(_, result)| result.is_ok()));
    }
    world.ended
}

#[test]
fn random_requests_get_their_bytes_twice_the_same() {
    for seed in 0..40 {
        let frames = [8, 12, 40, 400][seed as usize % 4];
        assert_eq!(run(seed, frames, 0), run(seed, frames, 0), "seed {seed}");
    }
}

#[test]
fn what_fails_at_random_ends_all_the_same() {
    for seed in 0..40 {
        run(seed, [8, 12, 40, 400][seed as usize % 4], 20);
    }
}

#[test]
fn equal_blocks_are_decoded_once() {
    let mut world = World::new(1, 64, 0);
    let block = world.block();
    let part = |at| Part { at, len: 1, source: PartSource::Packed(block, 0) };
    world.request(0, &[part(0), part(1)]);
    world.request(1, &[part(0)]);
    world.finish();
    assert_eq!(world.path.stats().pages_decoded, 1);
    assert_eq!(world.received[&0] + world.received[&1], 3);
}

#[test]
fn a_block_is_decoded_up_to_the_page_and_the_second_time_whole() {
    let mut world = World::new(1, 64, 0);
    let raw = RawBytes { start: 0, end: 5000 };
    let block = PackedBlock { raw, decoded: 6 * 4096, variant: 0 };
    let part =
        |page: u32| Part { at: 0, len: 4096, source: PartSource::Packed(block, page * 4096) };
    for (page, decoded) in [(2, 3), (0, 3), (4, 9), (5, 9)] {
        world.request(0, &[part(page)]);
        world.finish();
        assert_eq!(world.path.stats().pages_decoded, decoded, "after page {page}");
    }
}

#[test]
fn a_small_block_leaves_memory_with_its_last_use() {
    let mut world = World::new(1, 64, 0);
    let raw = RawBytes { start: 0, end: 500 };
    let block = PackedBlock { raw, decoded: 4096, variant: 0 };
    let part = [Part { at: 0, len: 4096, source: PartSource::Packed(block, 0) }];
    for (number, decoded) in [(1, 1), (1, 1), (0, 1), (0, 2), (1, 3)] {
        world.request(number, &part);
        world.finish();
        assert_eq!(world.path.stats().pages_decoded, decoded);
    }
}

#[test]
fn parts_outside_of_the_image_or_of_their_block_are_errors() {
    let mut world = World::new(1, 64, 0);
    let outside = RawBytes { start: IMAGE_BYTES - 10, end: IMAGE_BYTES + 1 };
    let inside = RawBytes { start: 0, end: 100 };
    let packed =
        |raw, decoded, inside| PartSource::Packed(PackedBlock { raw, decoded, variant: 0 }, inside);
    for (source, error) in [
        (PartSource::Stored(IMAGE_BYTES), IoError::Truncated),
        (PartSource::Stored(u64::MAX), IoError::Truncated),
        (packed(outside, 4096, 0), IoError::Truncated),
        (packed(RawBytes::default(), 4096, 0), IoError::Truncated),
        (packed(inside, 4096, 4096), IoError::Corrupt),
        (packed(inside, u32::MAX, 0), IoError::Corrupt),
    ] {
        world.request(0, &[Part { at: 0, len: 1, source }]);
        assert_eq!(world.ended.pop(), Some((0, Err((0, error)))), "{source:?}");
    }
    world.finish();
}

#[test]
fn a_block_that_is_shorter_than_it_says_gives_what_it_has() {
    let mut world = World::new(1, 64, 0);
    world.length_max = 5000;
    let raw = RawBytes { start: 0, end: 5000 };
    let block = PackedBlock { raw, decoded: 131_072, variant: 0 };
    let part = |inside, len| Part { at: 0, len, source: PartSource::Packed(block, inside) };
    for (inside, len, result) in [
        (0, 5000, Ok(())),
        (4999, 1, Ok(())),
        (4999, 2, Err((0, IoError::Corrupt))),
        (9000, 1, Err((0, IoError::Corrupt))),
        (0, 5000, Ok(())),
    ] {
        world.request(0, &[part(inside, len)]);
        world.finish();
        assert_eq!(world.ended.pop(), Some((0, result)), "{len} bytes from {inside}");
    }
}

#[test]
fn more_parts_than_calls_wait_for_each_other() {
    let mut world = World::new(7, 100, 0);
    let block = world.block();
    let part = |at| Part { at, len: 1, source: PartSource::Packed(block, 0) };
    let parts: Vec<Part> = (0..u64::from(CALLS) * 2).map(part).collect();
    world.request(0, &parts);
    world.request(1, &parts);
    world.finish();
    assert_eq!(world.received[&0] + world.received[&1], 4 * u64::from(CALLS));
}

const REQUESTS: u32 = 6;
const BLOCKS: u64 = 60;
const IMAGE_BYTES: u64 = BLOCKS * 9000;
