//! Random calls deliver the bytes that are in the files.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::io::{Advice, Op};
use forebay_core::readahead::{Mapping, Pattern};
use forebay_core::units::{FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};
use forebay_host::backend::{Backend, FileBackend};
use forebay_host::files::{FileMap, Place};
use forebay_host::run::{Setup, run};

use crate::support::*;

const SEED: u64 = 20_240_607;
const TASKS: u32 = 3;
const CALLS: u32 = 60;

#[test]
fn random_calls_on_memory_deliver_its_bytes() {
    let plain = [contents(1, 300_000), contents(2, 40_001)];
    for frames in [2, 3, 8] {
        for_every_setup(frames, |setup| {
            let files = FileMap::one_each(plain.iter().map(|bytes| mem(bytes)));
            deliver_the_truth(setup, files, &plain);
        });
    }
}

#[test]
fn random_calls_on_files_deliver_their_bytes() {
    let plain = [contents(3, 300_000), contents(4, 40_001)];
    let temporary = plain.each_ref().map(|bytes| file_of(bytes));
    for frames in [2, 8, 64] {
        for_every_setup(frames, |setup| {
            let open = |file: &tempfile::NamedTempFile| {
                Arc::new(FileBackend::open(file.path()).unwrap()) as Arc<dyn Backend>
            };
            deliver_the_truth(setup, FileMap::one_each(temporary.iter().map(open)), &plain);
        });
    }
}

#[test]
fn files_on_one_path_deliver_their_own_bytes() {
    let whole = contents(5, 200_000);
    let plain = [whole[..70_001].to_vec(), whole[512 * 150..].to_vec()];
    let temporary = file_of(&whole);
    for_every_setup(8, |setup| {
        let mut files = FileMap::new();
        let backend = files.add_backend(Arc::new(FileBackend::open(temporary.path()).unwrap()));
        for (base, bytes) in [(0, &plain[0]), (512 * 150, &plain[1])] {
            files.add_file(Place { backend, base, len: bytes.len() as u64 }).unwrap();
        }
        deliver_the_truth(setup, files, &plain);
    });
}

#[test]
fn a_backend_that_dribbles_and_is_interrupted_delivers_all_its_bytes() {
    let plain = [contents(6, 50_000), contents(7, 5_000)];
    for_every_setup(8, |setup| {
        let dribble = |bytes: &Vec<u8>| {
            let reads = AtomicU64::new(0);
            let read = move |truth: &dyn Backend, buffer: &mut [u8], offset| {
                let number = reads.fetch_add(1, Ordering::Relaxed);
                if number.is_multiple_of(3) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let len = buffer.len().min(1 + (number * 700 % 5_000) as usize);
                truth.read_at(&mut buffer[..len], offset)
            };
            Arc::new(Odd { truth: mem(bytes), read }) as Arc<dyn Backend>
        };
        deliver_the_truth(setup, FileMap::one_each(plain.iter().map(dribble)), &plain);
    });
}

/// Every task opens both files; what reads deliver is compared with the plain contents here, and
/// with a second descriptor by the verifier.
fn deliver_the_truth(setup: &Setup, files: FileMap, plain: &[Vec<u8>; 2]) {
    let context = format!("seed {SEED}, {}, {:?}", setup.readahead, setup.dispatch);
    let delivered = Cell::new(0);
    let outcome = run(
        setup,
        files,
        |opener| {
            let mut task = |number| {
                let handles = [opener.open(FileId(0)), opener.open(FileId(1))];
                let lens = plain.each_ref().map(|bytes| bytes.len() as u64);
                random_calls(SEED + u64::from(number), handles, lens)
            };
            (0..TASKS).map(&mut task).collect()
        },
        |finished, bytes| {
            let Op::Read { handle, offset, len } = finished.op else { return };
            let plain = &plain[handle.index() % 2];
            let start = (offset as usize).min(plain.len());
            let end = (start + len as usize).min(plain.len());
            assert_eq!(finished.result, Ok((end - start) as u64), "{context}: {finished:?}");
            assert!(bytes == &plain[start..end], "{context}: {finished:?}");
            delivered.set(delivered.get() + bytes.len() as u64);
        },
    )
    .expect("a test's run begins");
    assert!(outcome.first_error.is_none(), "{context}: {:?}", outcome.first_error);
    assert_eq!((outcome.calls, outcome.errors), (u64::from(TASKS * CALLS), 0), "{context}");
    assert_eq!(outcome.bytes, delivered.get(), "{context}");
    assert_eq!(outcome.verified_bytes, delivered.get(), "{context}");
}

/// Streams and jumps, with some faults and advice in between.
fn random_calls(seed: u64, handles: [HandleId; 2], lens: [u64; 2]) -> Box<dyn Workload> {
    let mut rng = Rng(seed);
    let mut positions = [0; 2];
    let mut call = move || {
        let file = rng.below(2) as usize;
        let (handle, bytes) = (handles[file], lens[file]);
        let len = rng.below(20 * PAGE_SIZE);
        let offset = rng.below(bytes + 2 * PAGE_SIZE);
        match rng.below(20) {
            0 => {
                let page = offset % bytes / PAGE_SIZE;
                Op::Fault { handle, page, write: false, mapping: Mapping::WHOLE }
            }
            1 => Op::Advise { handle, advice: Advice::WillNeed, offset, len },
            2 => Op::Advise { handle, advice: Advice::DontNeed, offset, len },
            3 => {
                let patterns = [Pattern::Normal, Pattern::Sequential, Pattern::Random];
                let advice = Advice::Pattern(patterns[rng.below(3) as usize]);
                Op::Advise { handle, advice, offset: 0, len: 0 }
            }
            4..10 => Op::Read { handle, offset, len },
            _ => {
                let offset = positions[file];
                positions[file] = if offset < bytes { offset + len } else { 0 };
                Op::Read { handle, offset, len }
            }
        }
    };
    script((0..CALLS).map(|_| Step::Call(call())).collect::<Vec<_>>())
}
