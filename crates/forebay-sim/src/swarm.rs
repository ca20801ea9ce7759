//! Random scenarios, each named by one number, that try to break the path.
//!
//! A seed decides everything: how little memory there is, how many tasks, which policies, how the
//! device fails and delays, when the power fails, what the tasks ask and which kinds of calls
//! dominate. The scenario runs inside a [`Checked`] world, twice, and both runs must leave the same
//! trace to the byte.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_core::drive::drive;
use forebay_core::engine::{Config, Engine};
use forebay_core::units::{FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::Workload;

use crate::checked::{Checked, Counts, Placed, Watched};
use crate::device::Device;
use crate::rng::Rng;
use crate::scenario::SyncAll;
use crate::world::{Corruption, SimWorld};
use draw::{
    random_device, random_policies, random_policy, random_prices, random_queue, random_reclaim,
    random_rules, random_size,
};
use packed::{Fills, random_packed, with_decoding};
use task::{File, RandomTask, Sizes};

#[cfg(feature = "seeded-bugs")]
pub use disks::run_disks_with;
pub use disks::{BrokenRule, DiskCounts, run_disks};
pub use mounts::run_mount;

mod disks;
mod draw;
mod mounts;
mod packed;
mod task;

/// What one scenario came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarmed {
    /// The counters.
    pub counts: Counts,
    /// Calls that ended well.
    pub calls: u64,
    /// Calls that ended with an error.
    pub errors: u64,
    /// Pages evicted for want of memory.
    pub evicted: u64,
    /// Pages of packed files that were decoded.
    pub decoded: u64,
    /// Pages that an idle core has decoded.
    pub idle: u64,
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
    scenario(seed, true)
}

/// Runs the scenario of a seed, with packed files in it or without.
fn scenario(seed: u64, with_images: bool) -> Swarmed {
    let mut rng = Rng::new(seed);
    let memory = [2, 3, 4, 5, 16, 64, 300][rng.below(7) as usize];
    let task_count = 1 + rng.below(6) as u32;
    let writes = rng.chance(800_000);
    let finale = rng.chance(500_000);
    let mut engine = Engine::new(Config { frames: memory, calls_max: task_count + 1 });
    engine.set_policies(random_policies(&mut rng));
    engine.set_reclaim(random_reclaim(&mut rng.fork("reclaim", 0)).build());
    let (devices, mut files) = random_files(&mut engine, &mut rng);
    let mut of_images = rng.fork("images", 0);
    let plain = files.len() as u64;
    let (packed, fills) = match with_images {
        true => random_packed(&mut engine, &mut files, &mut of_images),
        false => (Vec::new(), Fills::default()),
    };
    let sizes: Sizes = Rc::new(RefCell::new(files.iter().map(|file| file.bytes).collect()));
    let mut handles = Vec::new();
    let mut tasks: Vec<Box<dyn Workload>> = Vec::new();
    for number in 0..task_count {
        let of_task = (0..1 + rng.below(2)).map(|_| {
            let file = FileId(rng.below(plain) as u32);
            let behind = files.len() as u64 - plain;
            let file = match behind > 0 && of_images.chance(600_000) {
                true => FileId((plain + of_images.below(behind)) as u32),
                false => file,
            };
            let shared = handles.iter().find(|(_, other)| *other == file).map(|(one, _)| *one);
            let handle = match shared.filter(|_| rng.chance(200_000)) {
                Some(handle) => handle,
                None => {
                    let readahead = random_policy(&mut rng).build();
                    match packed.iter().any(|one| one.file == file) {
                        true => engine.open_packed(file, readahead, fills.draw(&mut of_images)),
                        false => engine.open(file, readahead),
                    }
                }
            };
            if !handles.contains(&(handle, file)) {
                handles.push((handle, file));
            }
            let fixed = packed.iter().any(|one| one.file == file || one.image == file);
            File { handle, file, room: files[file.index()].room, fixed }
        });
        let of_task = of_task.collect();
        let rng = rng.fork("task", u64::from(number));
        tasks.push(Box::new(RandomTask::new(of_task, Rc::clone(&sizes), writes, rng)));
    }
    let (mut calls, mut errors) = (0, 0);
    let mut count = |finished: &forebay_core::workload::Finished| match finished.result {
        Ok(_) => calls += 1,
        Err(_) => errors += 1,
    };
    let syncs: Vec<HandleId> = handles.iter().map(|(handle, _)| *handle).collect();
    let prices = with_decoding(random_prices(&mut rng), &mut of_images);
    let world = SimWorld::new(&engine, prices, devices, tasks, &mut count);
    let last: Vec<Box<dyn Workload>> = if finale { vec![Box::new(SyncAll(syncs))] } else { vec![] };
    let cut_ppm = [0, 1_000, 20_000][rng.below(3) as usize];
    let watched = Watched { frames: memory, files, packed, handles, cut_ppm, seed };
    let ppm = [0, 0, 200_000][of_images.below(3) as usize];
    let world = world.with_finale(last).with_corruption(Corruption { ppm, seed });
    let mut world = Checked::new(world, watched);
    drive(&mut engine, &mut world);
    let (inner, counts, trace) = world.into_parts();
    inner.assert_all_exited();
    drop(inner);
    let stats = engine.stats();
    let (evicted, decoded) = (stats.pages_evicted, stats.pages_decoded);
    let idle = stats.pages_unpacked_idle;
    Swarmed { counts, calls, errors, evicted, decoded, idle, trace }
}

/// Devices and what lies on them.
fn random_files(engine: &mut Engine, rng: &mut Rng) -> (Vec<Box<dyn Device>>, Vec<Placed>) {
    let mut devices = Vec::new();
    let mut files = Vec::new();
    for number in 0..1 + rng.below(2) {
        let device = engine.add_device(random_queue(rng));
        let (elevator, dispatch) = random_rules(rng);
        engine.set_rules(device, &elevator, &dispatch);
        devices.push(random_device(&mut rng.fork("device", number)));
        for place in 0..1 + rng.below(3) {
            let bytes = random_size(rng);
            let grows = [0, 1, 9 * PAGE_SIZE, 100 * PAGE_SIZE][rng.below(4) as usize];
            let inode = rng.chance(500_000).then_some((place << 20) + (1 << 19));
            let (sector, room) = (place << 20, bytes + grows);
            files.push(Placed { device, sector, bytes, room, inode });
            let file = engine.add_growing_file(device, bytes, room, sector);
            inode.into_iter().for_each(|sector| engine.set_inode(file, sector));
        }
    }
    (devices, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_dirtied_on_their_way_are_written_beside_a_writer_that_waits() {
        let swarmed = scenario(50_000_482, false);
        assert!(swarmed.calls > 0, "the scenario ends");
    }

    #[test]
    fn a_task_that_is_pushed_off_again_and_again_gets_on() {
        let swarmed = scenario(11_849, false);
        assert!(swarmed.calls > 0, "the scenario ends");
    }

    #[test]
    fn callers_without_memory_do_not_wake_each_other_while_a_request_is_in_flight() {
        for (seed, in_flight) in [(221, "a write"), (840, "a slow read"), (11_479, "a decode")] {
            let inputs = run_once(seed).counts.inputs;
            assert!(inputs < 100_000, "{in_flight}: {inputs} inputs");
        }
    }

    #[test]
    fn scenarios_keep_every_promise() {
        let swarmed: Vec<Swarmed> = (0..60).map(run).collect();
        let sum = |count: fn(&Swarmed) -> u64| swarmed.iter().map(count).sum::<u64>();
        assert!(sum(|one| one.calls) > 1_000, "calls end");
        assert!(sum(|one| one.errors) > 10, "errors happen");
        assert!(sum(|one| one.evicted) > 100, "memory is short");
        assert!(sum(|one| one.decoded) > 1_000, "files are packed");
        let idle = sum(|one| one.idle);
        assert!(idle > 20, "cores have nothing to do: {idle}");
        assert!(sum(|one| one.counts.syncs) > 100, "promises are made");
        assert!(sum(|one| one.counts.told) > 10, "failed writes are told");
        assert!(sum(|one| one.counts.lost) > 100, "failures of power lose something");
    }

    #[test]
    fn another_seed_is_another_scenario() {
        assert_ne!(run(1).trace, run(2).trace);
    }
}
