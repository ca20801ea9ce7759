//! The hot path allocates nothing: ten times the pages cost no further allocation.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use allocation_counter::measure;
use forebay_core::io::Op;
use forebay_core::packed;
use forebay_core::readahead::{POLICIES, Spec};
use forebay_core::time::Duration;
use forebay_core::units::{HandleId, MIB, PAGE_SIZE};
use forebay_core::workload::Finished;
use forebay_sim::machine::Machine;
use forebay_sim::packed::Writer;
use forebay_sim::rng::Rng;
use forebay_sim::scenario::{NewFile, PolicySet, Scenario};
use forebay_sim::workload::faults::{Faults, Touch};
use forebay_sim::workload::reads::Calls;

/// Allocations of a run of `reads` reads of 16 pages, including set-up.
fn allocations(policy: &str, file_bytes: u64, reads: u64) -> u64 {
    let mut machine = Machine::builtin("vm-2026").unwrap();
    machine.set("memory.page_cache", "16MiB").unwrap();
    let spec = Spec::parse(policy).unwrap();
    let counted = measure(|| {
        let kernel = PolicySet::of(&machine.kernel()).unwrap();
        let policies = PolicySet { readahead: spec.clone(), ..kernel };
        let files = [NewFile::fixed(file_bytes)];
        let mut scenario = Scenario::new(&machine, &policies, 1, 1, &files).unwrap();
        let handle = scenario.open(0);
        let task = Calls(random_reads(handle, file_bytes, reads));
        let (outcome, _) = scenario.run(vec![Box::new(task)], &mut |_: &Finished| {});
        assert!(outcome.stats.accesses >= reads * 16);
    });
    counted.count_total
}

fn random_reads(handle: HandleId, bytes: u64, reads: u64) -> impl Iterator<Item = Op> {
    let len = 16 * PAGE_SIZE;
    let mut rng = Rng::new(3);
    (0..reads).map(move |_| {
        let offset = rng.below((bytes - len) / PAGE_SIZE) * PAGE_SIZE;
        Op::Read { handle, offset, len }
    })
}

/// Allocations of `faults` faults on a packed file, including set-up.
fn packed_allocations(fill: &str, block_pages: u64, faults: u64) -> u64 {
    let mut machine = Machine::builtin("vm-2026").unwrap();
    machine.set("memory.page_cache", "4MiB").unwrap();
    let policies = PolicySet::of(&machine.kernel()).unwrap();
    let fill = packed::Spec::parse(fill).unwrap();
    let pages = 4_000;
    let counted = measure(|| {
        let mut writer = Writer::new(PAGE_SIZE);
        let map = writer.add(pages * PAGE_SIZE, block_pages, |_| 1_700 * block_pages);
        let files = [NewFile::fixed(writer.bytes())];
        let mut scenario = Scenario::new(&machine, &policies, 1, 1, &files).unwrap();
        let file = scenario.add_packed(0, Box::new(map));
        let handle = scenario.open_packed(file, &fill);
        let mut rng = Rng::new(3);
        let mut page = 0;
        let touches = (0..faults).map(move |_| {
            page = if rng.chance(300_000) { rng.below(pages) } else { (page + 1) % pages };
            Touch::Page(handle, page)
        });
        let task = Faults::new(touches, Duration::from_micros(20));
        let (outcome, _) = scenario.run(vec![Box::new(task)], &mut |_: &Finished| {});
        assert!(outcome.stats.pages_unpacked > faults / 10);
    });
    counted.count_total
}

#[test]
fn more_faults_on_packed_files_make_no_more_allocations() {
    for policy in packed::POLICIES {
        for block_pages in [1, 8] {
            let few = packed_allocations(policy.name, block_pages, 2_000);
            let many = packed_allocations(policy.name, block_pages, 20_000);
            assert!(many <= few + 20, "{}, {block_pages} pages: {few}, {many}", policy.name);
        }
    }
}

#[test]
fn more_reads_make_no_more_allocations() {
    for policy in POLICIES {
        // All cached after a while; and most missed, with eviction.
        for file_bytes in [8 * MIB, 256 * MIB] {
            // Half a dozen queues and free lists grow by doubling, the longer run a little further.
            let slack = 20;
            let few = allocations(policy.name, file_bytes, 1_000);
            let many = allocations(policy.name, file_bytes, 10_000);
            assert!(many <= few + slack, "{} of {file_bytes}: {few}, {many}", policy.name);
        }
    }
}
