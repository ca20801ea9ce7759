//! Runs that write: data that callers read, data on the backend at the end, and errors.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use forebay_core::io::Op;
use forebay_core::units::{FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};
use forebay_core::{control, flush, reclaim, throttle};
use forebay_host::backend::Backend;
use forebay_host::failure::Cause;
use forebay_host::files::{FileMap, Place};
use forebay_host::run::{Outcome, Setup, WritebackSpecs, run};

use crate::support::*;

/// A disk in memory that forgets or refuses the writes of some numbers.
#[derive(Clone, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    writes: Arc<AtomicU64>,
    syncs: Arc<AtomicU64>,
    forgets: Option<u64>,
    refuses: Option<u64>,
}

impl Disk {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(Mutex::new(bytes)), ..Self::default() }
    }

    fn held(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().expect("no test panics with it")
    }
}

impl Backend for Disk {
    fn len(&self) -> u64 {
        self.held().len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        mem(&self.held()[..]).read_at(buffer, offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(self.clone()))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let number = Some(self.writes.fetch_add(1, Ordering::Relaxed));
        if number == self.refuses {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Less than was given is no error.
        let len = bytes.len().min(5_000);
        if number != self.forgets {
            let at = offset as usize;
            self.held()[at..at + len].copy_from_slice(&bytes[..len]);
        }
        Ok(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn writing(setup: &Setup) -> Setup {
    let writeback = WritebackSpecs {
        flush: flush::Spec::parse("linux-6").expect("the table has it"),
        controller: control::Spec::parse("fixed").expect("the table has it"),
        throttle: throttle::Spec::parse("off").expect("the table has it"),
        reclaim: reclaim::Spec::parse("two-lists").expect("the table has it"),
    };
    Setup { writeback: Some(writeback), ..setup.clone() }
}

const HELD: u64 = 150_000;
const ROOM: u64 = 190_001;

/// Three tasks on a fixed file and one that grows behind it.
fn random_run(setup: &Setup, disk: &Disk, seed: u64) -> Outcome {
    let mut files = FileMap::new();
    let backend = files.add_backend(Arc::new(disk.clone()));
    files.add_file(Place { backend, base: 0, len: HELD }).expect("it fits");
    let growing = files.add_file(Place { backend, base: 38 * PAGE_SIZE, len: ROOM });
    let growing = growing.expect("it fits");
    files.begin_with(growing, 10_000);
    run(
        setup,
        files,
        |opener| {
            let mut task = |number| {
                let handles = [opener.open(FileId(0)), opener.open(growing)];
                random_calls(seed + number, handles, number == 0)
            };
            (0..3).map(&mut task).collect()
        },
        |finished, _| assert!(finished.result.is_ok(), "{finished:?}"),
    )
    .expect("a test's run begins")
}

fn random_calls(seed: u64, handles: [HandleId; 2], grows: bool) -> Box<dyn Workload> {
    let mut rng = Rng(seed);
    let mut end = 10_000;
    let mut call = move || {
        let (offset, len) = (rng.below(HELD), 1 + rng.below(9_000));
        let durable = rng.below(10) == 0;
        match rng.below(10) {
            0 => Op::Sync { handle: handles[rng.below(2) as usize] },
            1..4 if grows => {
                let write = Op::Write { handle: handles[1], offset: end, len, durable };
                end = (end + len).min(ROOM - 1);
                write
            }
            4 => Op::Read { handle: handles[1], offset: offset % 10_000, len },
            1..7 => Op::Write { handle: handles[0], offset, len: len.min(HELD - offset), durable },
            _ => Op::Read { handle: handles[0], offset, len },
        }
    };
    script((0..80).map(|_| Step::Call(call())).collect::<Vec<_>>())
}

/// A disk that answers reads only once it is told to.
#[derive(Clone)]
struct Gated {
    disk: Disk,
    is_open: Arc<AtomicBool>,
}

impl Backend for Gated {
    fn len(&self) -> u64 {
        self.disk.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        while !self.is_open.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.disk.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(self.clone()))
    }
}

/// The file ended inside of what the read asks for, and ends behind it when the read returns.
#[test]
fn a_read_is_not_short_because_its_file_grew_meanwhile() {
    let is_open = Arc::new(AtomicBool::new(false));
    let disk = Gated { disk: Disk::new(contents(1, 40_000)), is_open: Arc::clone(&is_open) };
    let mut files = FileMap::new();
    let backend = files.add_backend(Arc::new(disk));
    let file = files.add_file(Place { backend, base: 0, len: 40_000 }).expect("it fits");
    files.begin_with(file, 2 * PAGE_SIZE);
    let outcome = run(
        &writing(&setup("off", 64, ("deferred", 2))),
        files,
        |opener| {
            let [reads, writes] = [(); 2].map(|()| opener.open(file));
            let read = Op::Read { handle: reads, offset: 4_000, len: 8_000 };
            let (offset, len) = (2 * PAGE_SIZE, PAGE_SIZE);
            let write = Op::Write { handle: writes, offset, len, durable: false };
            [read, write].map(|op| script([Step::Call(op)])).into()
        },
        |finished, _| {
            if matches!(finished.op, Op::Write { .. }) {
                is_open.store(true, Ordering::Release);
            }
        },
    );
    let outcome = outcome.expect("a test's run begins");
    assert!(outcome.first_error.is_none(), "{:?}", outcome.first_error);
    assert_eq!((outcome.calls, outcome.errors), (2, 0));
}

#[test]
fn what_was_written_is_read_and_is_on_the_backend_at_the_end() {
    for (seed, frames) in [(1, 4), (2, 16), (3, 200)] {
        for_every_setup(frames, |setup| {
            let disk = Disk::new(contents(seed, 400_000));
            let outcome = random_run(&writing(setup), &disk, seed);
            let context = format!("seed {seed}, {frames} frames, {:?}", setup.readahead);
            assert!(outcome.first_error.is_none(), "{context}: {:?}", outcome.first_error);
            assert!(outcome.verified_bytes > outcome.bytes, "{context}: files are compared too");
            assert!(outcome.durable >= outcome.elapsed, "{context}");
            assert!(disk.syncs.load(Ordering::Relaxed) > 0, "{context}");
            // Behind the room of the last file nothing is touched.
            let behind = (38 * PAGE_SIZE + ROOM) as usize;
            let bytes = disk.held();
            assert!(bytes[behind..] == contents(seed, 400_000)[behind..], "{context}");
        });
    }
}

#[test]
fn a_write_that_the_backend_forgets_is_found() {
    let disk = Disk { forgets: Some(7), ..Disk::new(contents(4, 100_000)) };
    let outcome = run(
        &writing(&setup("off", 64, INLINE)),
        FileMap::one_each([Arc::new(disk) as Arc<dyn Backend>]),
        |opener| {
            let handle = opener.open(FileId(0));
            let write = |page| {
                let (offset, len) = (page * PAGE_SIZE, PAGE_SIZE);
                Step::Call(Op::Write { handle, offset, len, durable: true })
            };
            vec![script((0..16).map(write))]
        },
        |finished, _| assert!(finished.result.is_ok(), "{finished:?}"),
    )
    .expect("a test's run begins");
    let failure = outcome.first_error.expect("a write is missing");
    assert!(matches!(failure.cause, Cause::Lost { .. }), "{failure}");
    assert_eq!((failure.offset / PAGE_SIZE, outcome.errors), (7, 1));
}

#[test]
fn a_write_that_the_backend_refuses_fails_the_sync() {
    let disk = Disk { refuses: Some(0), ..Disk::new(contents(5, 400_000)) };
    let files = FileMap::one_each([Arc::new(disk) as Arc<dyn Backend>]);
    let mut syncs = Vec::new();
    let outcome = run(
        &writing(&setup("off", 64, INLINE)),
        files,
        |opener| {
            let handle = opener.open(FileId(0));
            let write = Op::Write { handle, offset: 0, len: 4_096, durable: false };
            vec![script([Step::Call(write), Step::Call(Op::Sync { handle })])]
        },
        |finished, _| syncs.push(finished.result.is_ok()),
    )
    .expect("a test's run begins");
    assert_eq!(syncs, [true, false]);
    let failure = outcome.first_error.expect("a write failed");
    assert!(matches!(failure.cause, Cause::Write { len: 4_096, .. }), "{failure}");
    // The sync of the task, and that of the end, whose description had not reported it.
    assert_eq!(outcome.errors, 2);
}

#[test]
fn a_run_without_writeback_policies_has_no_backend_written() {
    let disk = Disk::new(contents(6, 100_000));
    let (outcome, _) = read_ranges(&setup("off", 64, INLINE), Arc::new(disk.clone()), &[(0, 9)]);
    assert!(outcome.first_error.is_none());
    assert_eq!(disk.writes.load(Ordering::Relaxed) + disk.syncs.load(Ordering::Relaxed), 0);
}
