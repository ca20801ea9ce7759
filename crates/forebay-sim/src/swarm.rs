//! Random scenarios, each named by one number, that try to break the path.
//!
//! A seed decides everything: how little memory there is, how many tasks, which policies, how the
//! device fails and delays, what the tasks ask and which kinds of calls dominate. The scenario runs
//! inside a [`Checked`] world, twice, and both runs must leave the same trace to the byte.

use forebay_core::block::{Plug, QueueConfig};
use forebay_core::drive::drive;
use forebay_core::engine::{Config, Engine};
use forebay_core::io::{Advice, Op};
use forebay_core::readahead::{MapAdvice, Mapping, POLICIES, Pattern, Settings, Spec};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use crate::checked::Checked;
use crate::device::{Device, Fast, FastParameters, FaultPlan, Faulty};
use crate::price::Prices;
use crate::rng::Rng;
use crate::world::SimWorld;

/// What one scenario came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarmed {
    /// Inputs that the engine handled.
    pub inputs: u64,
    /// Calls that ended well.
    pub calls: u64,
    /// Calls that ended with an error.
    pub errors: u64,
    /// Pages evicted for want of memory.
    pub evicted: u64,
    /// Every input and output with its time, one a line.
    pub trace: String,
}

/// Runs the scenario of a seed twice.
///
/// # Panics
/// If the path breaks one of its promises, or the two runs differ.
pub fn run(seed: u64) -> Swarmed {
    let first = run_once(seed);
    let second = run_once(seed);
    if let Some(place) = first.trace.lines().zip(second.trace.lines()).position(|(a, b)| a != b) {
        panic!("two runs of one seed differ from line {} of their traces on", place + 1);
    }
    assert_eq!(first, second, "two runs of one seed are the same");
    first
}

fn run_once(seed: u64) -> Swarmed {
    let mut rng = Rng::new(seed);
    let memory = [2, 3, 5, 16, 64, 300][rng.below(6) as usize];
    let task_count = 1 + rng.below(6) as u32;
    let mut engine = Engine::new(Config { frames: memory, calls_max: task_count });
    let mut devices = Vec::new();
    let mut files = Vec::new();
    for number in 0..1 + rng.below(2) {
        let device = engine.add_device(random_queue(&mut rng));
        devices.push(random_device(&mut rng.fork("device", number)));
        for place in 0..1 + rng.below(3) {
            files.push(engine.add_file(device, random_size(&mut rng), place << 20));
        }
    }
    let mut tasks: Vec<Box<dyn Workload>> = Vec::new();
    for number in 0..task_count {
        let handles = (0..1 + rng.below(2)).map(|_| {
            let file = files[rng.below(files.len() as u64) as usize];
            (engine.open(file, random_policy(&mut rng).build()), engine.file_bytes(file))
        });
        let handles = handles.collect();
        let rng = rng.fork("task", u64::from(number));
        tasks.push(Box::new(RandomTask::new(handles, rng)));
    }
    let (mut calls, mut errors) = (0, 0);
    let mut count = |finished: &forebay_core::workload::Finished| match finished.result {
        Ok(_) => calls += 1,
        Err(_) => errors += 1,
    };
    let world = SimWorld::new(&engine, random_prices(&mut rng), devices, tasks, &mut count);
    let mut world = Checked::new(world);
    drive(&mut engine, &mut world);
    let inputs = world.inputs();
    let (inner, trace) = world.into_parts();
    inner.assert_all_exited();
    drop(inner);
    Swarmed { inputs, calls, errors, evicted: engine.stats().pages_evicted, trace }
}

fn random_queue(rng: &mut Rng) -> QueueConfig {
    let plug =
        Plug { requests: 1 + rng.below(5) as u32, delay: Duration::from_micros(rng.below(5_000)) };
    let congestion_off = 1 + rng.below(8) as u32;
    QueueConfig {
        plug: rng.chance(500_000).then_some(plug),
        request_pages_max: 1 + rng.below(40),
        congestion_on: congestion_off + rng.below(8) as u32,
        congestion_off,
        write_requests_max: 1 + rng.below(12) as u32,
    }
}

fn random_device(rng: &mut Rng) -> Box<dyn Device> {
    let parameters = FastParameters {
        units: 1 + rng.below(4) as u32,
        delay_ns: 1_000 + rng.below(2_000_000),
        jitter_sigma_ppm: rng.below(400_000),
        ..FastParameters::null()
    };
    let fast = Box::new(Fast::new(parameters, rng.next_u64()));
    if rng.chance(500_000) {
        return fast;
    }
    let plan = FaultPlan {
        fail_ppm: [0, 10_000, 300_000][rng.below(3) as usize],
        late_ppm: [0, 100_000][rng.below(2) as usize],
        late_by: Duration::from_millis(7),
        ..FaultPlan::default()
    };
    Box::new(Faulty::new(fast, plan, rng.next_u64()))
}

fn random_size(rng: &mut Rng) -> u64 {
    let pages = [0, 1, 7, 64, 700][rng.below(5) as usize];
    (pages * PAGE_SIZE + [0, 1, 2048, 4095][rng.below(4) as usize]).max(1)
}

fn random_policy(rng: &mut Rng) -> Spec {
    let policy = &POLICIES[rng.below(POLICIES.len() as u64) as usize];
    let settings = Settings {
        ra_pages: rng.chance(500_000).then(|| rng.below(130)),
        io_pages: rng.chance(500_000).then(|| 1 + rng.below(400)),
        large_folios: Some(rng.chance(500_000)),
    };
    Spec::parse(policy.name).expect("a policy of the table has a name").with(settings)
}

fn random_prices(rng: &mut Rng) -> Prices {
    let mut up_to = |nanos| Duration(rng.below(nanos));
    Prices {
        syscall: up_to(1_000),
        page_lookup: up_to(100),
        page_alloc: up_to(2_000),
        copy_picos_per_kib: 1_000_000,
        context_switch: up_to(20_000),
        interrupt: up_to(5_000),
        request_submit: up_to(10_000),
        page_dirty: up_to(1_000),
        flush_page: up_to(3_000),
        flush_scan: up_to(100),
        cores: 1 + rng.below(3) as u32,
    }
}

/// A task that asks for anything; how often it asks for what is drawn once for the task.
struct RandomTask {
    files: Vec<(HandleId, u64)>,
    rng: Rng,
    /// Relative frequency of each [`Kind`].
    weights: [u64; KINDS],
    left: u64,
    /// Where the sequential reader stands.
    position: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Random,
    Sequential,
    Fault,
    Advise,
    Compute,
    Sleep,
}

const KINDS: usize = 6;

impl RandomTask {
    fn new(files: Vec<(HandleId, u64)>, mut rng: Rng) -> Self {
        // Some kinds are off and others dominate, so corners are reached that a mixture misses.
        let weights = std::array::from_fn(|_| [0, 1, 10][rng.below(3) as usize]);
        let left = 20 + rng.below(100);
        Self { files, rng, weights, left, position: 0 }
    }

    fn kind(&mut self) -> Kind {
        const ALL: [Kind; KINDS] =
            [Kind::Random, Kind::Sequential, Kind::Fault, Kind::Advise, Kind::Compute, Kind::Sleep];
        let sum = self.weights.iter().sum::<u64>();
        if sum == 0 {
            return Kind::Random;
        }
        let mut drawn = self.rng.below(sum);
        for (kind, weight) in ALL.into_iter().zip(self.weights) {
            match drawn.checked_sub(weight) {
                None => return kind,
                Some(rest) => drawn = rest,
            }
        }
        unreachable!("the weights sum up to more than what was drawn")
    }

    fn read(&mut self) -> Op {
        let (handle, bytes) = self.file();
        let offset = self.rng.below(bytes + 10);
        let len = self.len();
        Op::Read { handle, offset, len }
    }

    fn read_on(&mut self) -> Op {
        let (handle, bytes) = self.files[0];
        let len = self.len();
        let offset = if self.position >= bytes { 0 } else { self.position };
        self.position = offset + len;
        Op::Read { handle, offset, len }
    }

    fn fault(&mut self) -> Op {
        let (handle, bytes) = self.file();
        let page = self.rng.below(bytes.div_ceil(PAGE_SIZE) + 1);
        let advice = [MapAdvice::Normal, MapAdvice::Sequential, MapAdvice::Random, MapAdvice::Huge]
            [self.rng.below(4) as usize];
        let executable = self.rng.chance(200_000);
        let first = page - self.rng.below(page + 1);
        let mapping = Mapping { first, end: page + 1 + self.rng.below(50), advice, executable };
        Op::Fault { handle, page, write: self.rng.chance(300_000), mapping }
    }

    fn advise(&mut self) -> Op {
        let (handle, bytes) = self.file();
        let advice = [
            Advice::Pattern(Pattern::Normal),
            Advice::Pattern(Pattern::Sequential),
            Advice::Pattern(Pattern::Random),
            Advice::WillNeed,
            Advice::DontNeed,
            Advice::NoReuse,
        ][self.rng.below(6) as usize];
        let offset = self.rng.below(bytes + 10);
        Op::Advise { handle, advice, offset, len: self.rng.below(bytes + 10) }
    }

    fn file(&mut self) -> (HandleId, u64) {
        self.files[self.rng.below(self.files.len() as u64) as usize]
    }

    fn len(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.below(3),
            1 => PAGE_SIZE,
            2 => self.rng.below(20 * PAGE_SIZE),
            _ => self.rng.below(300 * PAGE_SIZE),
        }
    }
}

impl Workload for RandomTask {
    fn next(&mut self, now: Instant) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        match self.kind() {
            Kind::Random => Step::Call(self.read()),
            Kind::Sequential => Step::Call(self.read_on()),
            Kind::Fault => Step::Call(self.fault()),
            Kind::Advise => Step::Call(self.advise()),
            Kind::Compute => Step::Compute(Duration(self.rng.below(300_000))),
            Kind::Sleep => Step::Sleep(now + Duration(self.rng.below(3_000_000))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_keep_every_promise() {
        let swarmed: Vec<Swarmed> = (0..60).map(run).collect();
        let sum = |count: fn(&Swarmed) -> u64| swarmed.iter().map(count).sum::<u64>();
        assert!(sum(|one| one.calls) > 1_000, "calls end");
        assert!(sum(|one| one.errors) > 10, "errors happen");
        assert!(sum(|one| one.evicted) > 100, "memory is short");
    }

    #[test]
    fn another_seed_is_another_scenario() {
        assert_ne!(run(1).trace, run(2).trace);
    }
}
