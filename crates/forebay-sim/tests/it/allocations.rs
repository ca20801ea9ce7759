//! The hot path allocates nothing: ten times the pages cost no further allocation.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use allocation_counter::measure;
use forebay_core::io::Op;
use forebay_core::readahead::{POLICIES, Spec};
use forebay_core::units::{HandleId, MIB, PAGE_SIZE};
use forebay_core::workload::Finished;
use forebay_sim::machine::Machine;
use forebay_sim::rng::Rng;
use forebay_sim::scenario::{NewFile, PolicySet, Scenario};
use forebay_sim::workload::reads::Calls;

/// Allocations of a run of so many reads of 16 pages, set-up included.
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
