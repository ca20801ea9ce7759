//! Samples of this machine.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;

use allocation_counter::measure;
use forebay_core::time::{Duration, Instant};
use forebay_live::daemon::{Daemon, Live, Notify, Wakes, Woken, World};
use forebay_live::knob::OpenFile;
use forebay_live::machine::Machine;
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::policy_file::PolicyFile;
use forebay_live::scope::Scope;
use forebay_live::signal::{BdiCounts, Sample, Sampler};
use forebay_live::steer::User;
use forebay_live::steer::file::{Held, Unreachable};
use forebay_live::steer::files::Progress;
use forebay_live::steer::temporary::{FileNow, WrittenFile};
use forebay_live::steer::writers::Written;
use forebay_live::trace::{DirtiedInode, Drained, Event, TraceError};
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

#[test]
fn a_look_at_a_machine_that_does_nothing_allocates_nothing() {
    let few = allocations_of(5);
    assert_eq!(allocations_of(25), few, "for a start and five looks, and for twenty more");
}

/// Allocations of a daemon that begins, looks so often at a recorded machine, and ends.
fn allocations_of(looks: u32) -> u64 {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/vm-6.18-virtio");
    let tree = Tree::recorded(&recorded).unwrap();
    let sampler = Sampler::of_levels(&tree).unwrap();
    let (stop, _end) = UnixStream::pair().unwrap();
    let live = Live::new(tree.clone(), sampler, None, None, stop.into());
    let mut world = Quick { live, now: Instant::ZERO, waits: looks };
    let mut say = |_: &str| {};
    let (scope, policy) = (Scope::default(), PolicyFile::default());
    let mut daemon = Daemon::new(scope, policy, tree, None, &mut say).unwrap();
    measure(|| assert!(daemon.run(&mut world, &Notify::default(), None))).count_total
}

/// A machine whose waits are over at once.
struct Quick {
    live: Live,
    now: Instant,
    waits: u32,
}

impl World for Quick {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn levels(&mut self, into: &mut Sample) -> Result<(), String> {
        self.live.levels(into)
    }

    fn rest(&mut self, into: &mut Sample) -> Result<(), String> {
        self.live.rest(into)
    }

    fn machine(&mut self) -> Machine {
        self.live.machine()
    }

    fn drain(&mut self, each: &mut dyn FnMut(Event)) -> Result<Drained, TraceError> {
        self.live.drain(each)
    }

    fn process(&mut self, thread: u32) -> Option<u32> {
        self.live.process(thread)
    }

    fn progress(&mut self, process: u32) -> Option<Progress> {
        self.live.progress(process)
    }

    fn is_open(&self, _: &OpenFile) -> bool {
        false
    }

    fn is_there(&mut self, process: u32) -> bool {
        self.live.is_there(process)
    }

    fn held(&mut self, user: &User) -> Result<Held, Unreachable> {
        self.live.held(user)
    }

    fn shares(&mut self, one: &User, other: &User) -> Option<bool> {
        self.live.shares(one, other)
    }

    fn free(&mut self, _: &Path) -> Option<u64> {
        None
    }

    fn dirtied(&mut self, each: &mut dyn FnMut(DirtiedInode)) {
        self.live.dirtied(each);
    }

    fn written_file(&mut self, user: &User) -> Option<WrittenFile> {
        self.live.written_file(user)
    }

    fn file_now(&mut self, user: &User, found: &WrittenFile) -> Option<FileNow> {
        self.live.file_now(user, found)
    }

    fn written(&mut self, _: u32, _: &dyn Fn(DevNumber) -> bool) -> Option<Written> {
        None
    }

    fn wait(&mut self, length: Duration, _: Wakes) -> Woken {
        self.now += length;
        self.waits -= 1;
        if self.waits == 0 { Woken::Stop } else { Woken::Time }
    }

    fn pause(&mut self, length: Duration) {
        self.now += length;
    }

    fn held_on(&mut self, pool: &User, but: &BTreeSet<FileKey>) -> Result<Held, Unreachable> {
        self.live.held_on(pool, but)
    }

    fn watched(&self) -> BTreeSet<DevNumber> {
        self.live.watched()
    }

    fn wakes(&self) -> bool {
        self.live.wakes()
    }

    fn bdi(&mut self, number: DevNumber) -> Option<BdiCounts> {
        self.live.bdi(number)
    }
}
