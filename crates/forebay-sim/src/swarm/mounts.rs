//! Random mounts, each named by one number: images, recordings, faults, deaths, unmounts.
//!
//! A seed decides everything: how the blocks of an image are packed and which are damaged, what
//! tasks ask and when, the fill rule and what reads ahead, how little memory there is, how the
//! device fails and delays, which tasks die, and when it is unmounted. All invariants are asserted
//! after every step, the contents of every answer and push are compared with the image, and both
//! runs of a seed must leave the same trace.

use forebay_core::packed::{Ahead, POLICIES, Pages, RawBytes, Spec};
use forebay_core::readahead;
use forebay_core::serving::{
    MountConfig, PackedBlock, Part, PartSource, PathConfig, ProgramPages, RecordedRead, Recording,
};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;

use super::draw::{random_device, random_prices};
use crate::device::{Fast, FastParameters};
use crate::mounted::{self, Disturbances, MountOutcome, MountSetup, PackedImage};
use crate::price::Prices;
use crate::rng::Rng;

/// Runs the mount of a seed twice.
///
/// # Panics
/// If the core breaks one of its promises, or the two runs differ.
pub fn run_mount(seed: u64) -> MountOutcome {
    let first = run_once(seed);
    let second = run_once(seed);
    if let Some(place) = first.trace.lines().zip(second.trace.lines()).position(|(a, b)| a != b) {
        panic!("two runs of one seed differ from line {} of their traces on", place + 1);
    }
    assert_eq!(first, second, "two runs of one seed are the same");
    first
}

fn run_once(seed: u64) -> MountOutcome {
    let rng = Rng::new(seed).fork("mounts", 0);
    let mut of_setup = rng.fork("setup", 0);
    let is_clean = of_setup.chance(250_000);
    let image = RandomImage::new(&mut rng.fork("image", 0), is_clean);
    let tasks = 1 + of_setup.below(6) as u32;
    let recording = recording(&mut rng.fork("recording", 0), &image, tasks);
    let mut disturbances = Disturbances { is_checked: true, ..Disturbances::default() };
    if !is_clean {
        let mut rng = rng.fork("disturbances", 0);
        let end = recording.reads.iter().map(|read| read.end.0).max().unwrap_or(1);
        let mut moment = || Instant(rng.below(end * 2));
        disturbances.deaths = vec![(0, moment()), (2, moment())];
        disturbances.unmount = Some(moment());
        let (dies, is_unmounted) = (rng.chance(400_000), rng.chance(400_000));
        if !dies {
            disturbances.deaths.clear();
        }
        disturbances.unmount = disturbances.unmount.filter(|_| is_unmounted);
    }
    let setup = setup(&mut of_setup, &image, is_clean);
    let outcome = mounted::run(setup, &image, &recording, &disturbances);
    let outcome = outcome.expect("the recording is of the image");
    if is_clean {
        assert_eq!(outcome.counts.errors, 0, "without faults nothing fails");
        assert_eq!(
            outcome.counts.touches,
            recording.reads.len() as u64,
            "each task comes to its end"
        );
    }
    outcome
}

fn setup(rng: &mut Rng, image: &RandomImage, is_clean: bool) -> MountSetup {
    let few = [64, 100, 400][rng.below(3) as usize];
    let frames = if is_clean { few } else { [8, 12, 40, few][rng.below(4) as usize] };
    let path = PathConfig {
        frames,
        requests_max: [24, 64, 512][rng.below(3) as usize],
        keeps_raw: rng.chance(300_000),
        image_bytes: image.bytes,
    };
    let policy = POLICIES[rng.below(POLICIES.len() as u64) as usize].name;
    let ahead = [Ahead::Kernel, Ahead::Both, Ahead::Ours][rng.below(3) as usize];
    let only_asked = rng.chance(100_000);
    let policy = Spec::parse(policy).expect("the table has it");
    let config = MountConfig { path, policy, ahead, only_asked };
    let fast = FastParameters {
        units: 1 + rng.below(4) as u32,
        delay_ns: 1_000 + rng.below(3_000_000),
        ..FastParameters::null()
    };
    let device = Box::new(Fast::new(fast, rng.next_u64()));
    let faulty = random_device(&mut rng.fork("device", 0));
    MountSetup {
        config,
        workers: 1 + rng.below(4) as usize,
        prices: Prices { cores: 1 + rng.below(4) as u32, ..random_prices(rng) },
        device: if is_clean { device } else { faulty },
        sector: rng.below(1 << 10) * 8,
        request_pages_max: 1 + rng.below(64),
        readahead: readahead::Spec::parse("linux-6.18").expect("the table has it"),
    }
}

/// Files made of random blocks.
#[derive(Debug)]
struct RandomImage {
    bytes: u64,
    files: Vec<RandomFile>,
}

#[derive(Debug)]
struct RandomFile {
    bytes: u64,
    blocks: Vec<RandomBlock>,
    block_bytes: u64,
    program: Option<ProgramPages>,
}

/// A run of a file's bytes.
#[derive(Clone, Copy, Debug)]
enum RandomBlock {
    Hole,
    Stored(u64),
    /// A block, the start of its content in the decoded bytes, and whether it can be decoded.
    Packed(PackedBlock, u32, bool),
    /// Its place in the image is damaged.
    Lost,
}

impl RandomImage {
    fn new(rng: &mut Rng, is_clean: bool) -> Self {
        let mut image = Self { bytes: rng.below(9_000), files: Vec::new() };
        let damage = if is_clean { 0 } else { [0, 10_000, 200_000][rng.below(3) as usize] };
        for _ in 0..1 + rng.below(6) {
            let file = image.file(rng, damage);
            image.files.push(file);
        }
        image.bytes += rng.below(5_000);
        image
    }

    fn file(&mut self, rng: &mut Rng, damage: u64) -> RandomFile {
        let most = [5_000, 70_000, 900_000][rng.below(3) as usize];
        let bytes = 1 + rng.below(most);
        let block_bytes = PAGE_SIZE << rng.below(4);
        let count = bytes.div_ceil(block_bytes);
        let mut blocks = Vec::new();
        for number in 0..count {
            let plain = (bytes - number * block_bytes).min(block_bytes);
            blocks.push(self.block(rng, plain, damage));
        }
        let pages = bytes.div_ceil(PAGE_SIZE);
        let program = rng.chance(400_000).then(|| {
            let split = rng.below(pages + 1);
            let loaded = Vec::from([Pages::new(0, split.min(40))]);
            ProgramPages { loaded, code: Vec::from([Pages::new(split, pages)]) }
        });
        RandomFile { bytes, blocks, block_bytes, program }
    }

    fn block(&mut self, rng: &mut Rng, plain: u64, damage: u64) -> RandomBlock {
        if rng.chance(damage / 4) {
            return RandomBlock::Lost;
        }
        let start = self.bytes;
        match rng.below(8) {
            0 => RandomBlock::Hole,
            1 => {
                self.bytes += plain;
                RandomBlock::Stored(start)
            }
            kind => {
                // Some are a part of what a block decodes to.
                let inside = if kind == 2 { rng.below(5_000) } else { 0 };
                self.bytes += 1 + rng.below(plain);
                let raw = RawBytes { start, end: self.bytes };
                let (decoded, variant) = ((inside + plain) as u32, rng.below(3));
                let block = PackedBlock { raw, decoded, variant };
                RandomBlock::Packed(block, inside as u32, rng.chance(damage))
            }
        }
    }

    fn get(&self, file: u64) -> Option<&RandomFile> {
        self.files.get(usize::try_from(file).ok()?)
    }
}

impl PackedImage for RandomImage {
    fn file_bytes(&self, file: u64) -> Option<u64> {
        Some(self.get(file)?.bytes)
    }

    fn parts(&self, file: u64, offset: u64, len: u64) -> Option<Vec<Part>> {
        let RandomFile { blocks, block_bytes, .. } = self.get(file)?;
        let (mut parts, mut position, end) = (Vec::new(), offset, offset + len);
        while position < end {
            let number = position / block_bytes;
            let stop = ((number + 1) * block_bytes).min(end);
            let (at, len, inside) = (position - offset, stop - position, position % block_bytes);
            position = stop;
            let source = match *blocks.get(number as usize)? {
                RandomBlock::Hole => continue,
                RandomBlock::Stored(start) => PartSource::Stored(start + inside),
                RandomBlock::Packed(block, before, _) => {
                    PartSource::Packed(block, before + inside as u32)
                }
                RandomBlock::Lost => return None,
            };
            parts.push(Part { at, len, source });
        }
        Some(parts)
    }

    fn program(&self, file: u64) -> Option<ProgramPages> {
        self.get(file)?.program.clone()
    }

    fn decode_time(&self, _block: &PackedBlock, bytes: u64) -> Duration {
        Duration(bytes * 2)
    }

    fn is_damaged(&self, block: &PackedBlock) -> bool {
        let blocks = self.files.iter().flat_map(|file| &file.blocks);
        let mut damaged = blocks.filter_map(|one| match one {
            RandomBlock::Packed(block, _, true) => Some(block),
            RandomBlock::Packed(..)
            | RandomBlock::Hole
            | RandomBlock::Stored(_)
            | RandomBlock::Lost => None,
        });
        damaged.any(|one| one == block)
    }

    fn folders(&self) -> Vec<Vec<u64>> {
        Vec::from([(0..self.files.len() as u64).collect()])
    }
}

/// Requests of some tasks, each of which reads on, jumps, or begins a file.
fn recording(rng: &mut Rng, image: &RandomImage, tasks: u32) -> Recording {
    let mut recording = Recording::default();
    for task in 0..tasks {
        let mut rng = rng.fork("task", u64::from(task));
        let mut now = rng.below(3_000_000);
        let (mut node, mut offset) = (rng.below(image.files.len() as u64), 0);
        for _ in 0..rng.below(60) {
            match rng.below(6) {
                0 => (node, offset) = (rng.below(image.files.len() as u64), 0),
                1 | 2 => offset = rng.next_u64(),
                _ => {}
            }
            let bytes = image.file_bytes(node).expect("the image has it");
            offset = offset % bytes / PAGE_SIZE * PAGE_SIZE;
            let pages = [1, 1, 1, 4, 40][rng.below(5) as usize];
            let len = (pages * PAGE_SIZE).min(bytes - offset);
            let took = rng.below(400_000);
            let (begin, end) = (Instant(now), Instant(now + took));
            recording.reads.push(RecordedRead { begin, end, task: task + 100, node, offset, len });
            now += took + [0, rng.below(50_000), rng.below(2_000_000)][rng.below(3) as usize];
            offset += len;
        }
    }
    recording.reads.sort_by_key(|read| read.end);
    recording
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_mounts_keep_every_promise() {
        let outcomes: Vec<MountOutcome> = (0..30).map(run_mount).collect();
        let sum = |count: fn(&MountOutcome) -> u64| outcomes.iter().map(count).sum::<u64>();
        assert!(sum(|one| one.counts.touches) > 500, "tasks read");
        assert!(sum(|one| one.counts.hits) > 0, "pages are there");
        assert!(sum(|one| one.counts.errors) > 0, "blocks are damaged, devices fail");
        assert!(sum(|one| one.counts.refusals) > 0, "windows are refused");
        assert!(sum(|one| one.counts.pushes) > 0, "pages are pushed");
        assert!(sum(|one| one.counts.handed_over) > 0, "workers work");
    }

    #[test]
    fn pushes_cross_reads_and_wait_for_their_answers() {
        let crosses = |seed| run_once(seed).counts.pushes_crossed > 0;
        assert!((0..200).any(crosses), "no push met a READ in flight");
    }

    #[test]
    fn another_seed_is_another_mount() {
        assert_ne!(run_once(1).trace, run_once(2).trace);
    }
}
