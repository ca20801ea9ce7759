//! Samples of this machine.

use allocation_counter::measure;
use forebay_core::time::Instant;
use forebay_live::machine::Machine;
use forebay_live::signal::{Sample, Sampler};
use forebay_live::tree::Tree;

#[test]
fn a_steady_state_allocates_nothing() {
    let mut sampler = Sampler::new(&Tree::machine()).unwrap();
    let mut sample = Sample::default();
    for round in 0..3 {
        sampler.take(Instant(round), &mut sample).unwrap();
    }
    let counted = measure(|| sampler.take(Instant(9), &mut sample).unwrap());
    assert_eq!((counted.count_total, sample.at), (0, Instant(9)));
}

#[test]
fn this_machine_is_read_without_gaps_in_what_every_machine_has() {
    let tree = Tree::machine();
    let machine = Machine::read(&tree);
    assert!(!machine.kernel.is_empty() && machine.memory > 0);
    assert!(machine.dirty_threshold.is_some_and(|bytes| bytes > 0));
    assert!(machine.mounts.iter().any(|mount| mount.point.as_os_str() == "/"));
    let mut sample = Sample::default();
    Sampler::new(&tree).unwrap().take(Instant(1), &mut sample).unwrap();
    assert!(sample.vm.dirty_threshold > 0);
    for disk in &sample.disks {
        // Loop devices come and go with other tests.
        let known = machine.devices.iter().any(|device| device.number == disk.number);
        assert!(known || disk.name.starts_with("loop"), "{}", disk.name);
    }
}
