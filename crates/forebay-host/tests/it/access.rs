//! Files read and written by every mode hold what a model holds.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::thread;

use forebay_host::access::{Buffer, File, Mode, Options, Queue};
use tempfile::NamedTempFile;

use crate::support::{Rng, contents, file_of};

const SEED: u64 = 20_261_121;

/// What a place or a length is a multiple of past the page cache.
const UNIT: u64 = 4096;

/// Every mode with and without io_uring, through the page cache and past it.
pub(crate) fn ways() -> Vec<Options> {
    let mut ways = Vec::new();
    for mode in Mode::ALL {
        for (direct, uring) in [(false, true), (false, false), (true, true), (true, false)] {
            ways.push(Options { mode, direct, write: true, uring, ..Options::default() });
        }
    }
    ways
}

/// A folder on a disk: a file system in memory may not go past the page cache.
pub(crate) fn file_on_disk(bytes: &[u8]) -> NamedTempFile {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut file = NamedTempFile::new_in(folder).expect("a temporary file can be made");
    file.write_all(bytes).expect("a temporary file can be written");
    file
}

#[test]
fn random_calls_one_by_one_leave_what_the_model_holds() {
    for options in ways() {
        let mut model = contents(1, 40 * 4096);
        let temporary = file_on_disk(&model);
        let file = File::open(temporary.path(), options).unwrap();
        let mut rng = Rng(SEED);
        for call in 0..120 {
            let context = format!("seed {SEED}, call {call}, {options:?}");
            let (offset, len) = draw(&mut rng, model.len() as u64, options.direct);
            if rng.below(3) == 0 {
                let bytes = fresh(&mut rng, len);
                file.write_at(&bytes, offset).expect(&context);
                overwrite(&mut model, offset, &bytes);
            } else {
                let mut bytes = Buffer::new(len);
                let read = file.read_at(&mut bytes, offset).expect(&context);
                assert!(bytes[..read] == *held(&model, offset, len), "{context}");
            }
        }
        file.sync().unwrap();
        assert!(fs::read(temporary.path()).unwrap() == model, "{options:?}");
    }
}

#[test]
fn random_calls_at_depth_leave_what_the_model_holds() {
    for options in ways() {
        for depth in [1, 2, 7, 32] {
            let mut model = contents(2, 64 * 4096);
            let temporary = file_on_disk(&model);
            let file = File::open(temporary.path(), options).unwrap();
            let mut queue = Queue::new(&file, depth).unwrap();
            let mut rng = Rng(SEED + depth as u64);
            for batch in 0..10 {
                let context = format!("seed {SEED}, batch {batch}, depth {depth}, {options:?}");
                play(&mut queue, &mut model, &mut rng, options.direct, &context);
            }
            drop(queue);
            assert!(fs::read(temporary.path()).unwrap() == model, "{options:?}, depth {depth}");
        }
    }
}

/// Accesses in flight have no order, so those of a batch write to separate slices, and reads see
/// the state before the batch.
fn play(queue: &mut Queue, model: &mut Vec<u8>, rng: &mut Rng, direct: bool, context: &str) {
    let depth = queue.depth() as u64;
    let slice = model.len() as u64 / depth / UNIT * UNIT;
    let mut expected = Vec::new();
    for token in 0..depth {
        let (inside, len) = draw(rng, slice, direct);
        let offset = token * slice + inside;
        let len = len.min((slice - inside.min(slice)) as usize);
        if rng.below(2) == 0 {
            let bytes = fresh(rng, len);
            overwrite(model, offset, &bytes);
            queue.write(offset, bytes, token).expect(context);
            expected.push(None);
        } else {
            let buffer = queue.buffer(len);
            queue.read(offset, buffer, token).expect(context);
            expected.push(Some(held(model, offset, len).to_vec()));
        }
        assert_eq!(queue.in_flight() as u64, token + 1);
    }
    let mut seen = vec![false; expected.len()];
    while let Some(done) = queue.wait() {
        let token = done.token as usize;
        assert!(!std::mem::replace(&mut seen[token], true), "{context}: {token} ends once");
        let count = done.result.expect(context);
        if let Some(held) = &expected[token] {
            assert!(done.buffer[..count] == **held, "{context}: token {token}");
        }
        queue.recycle(done.buffer);
    }
    assert!(seen.into_iter().all(|seen| seen), "{context}");
}

#[test]
fn a_read_past_the_end_brings_what_is_there() {
    for options in ways().into_iter().filter(|options| !options.direct) {
        let plain = contents(3, 10_001);
        let temporary = file_on_disk(&plain);
        let file = File::open(temporary.path(), options).unwrap();
        let mut queue = Queue::new(&file, 3).unwrap();
        for (offset, expected) in [(9_000, 1_001), (10_000, 1), (10_001, 0), (1 << 40, 0)] {
            let mut bytes = vec![0; 5_000];
            assert_eq!(file.read_at(&mut bytes, offset).unwrap(), expected, "{options:?}");
            queue.read(offset, Buffer::new(5_000), offset).unwrap();
            let done = queue.wait().unwrap();
            assert_eq!((done.token, done.result.unwrap()), (offset, expected), "{options:?}");
            assert!(bytes == *done.buffer);
        }
    }
}

#[test]
fn past_the_page_cache_the_end_of_the_file_need_not_be_aligned() {
    for options in ways().into_iter().filter(|options| options.direct) {
        let plain = contents(4, 2 * 4096 + 77);
        let temporary = file_on_disk(&plain);
        let file = File::open(temporary.path(), options).unwrap();
        let mut bytes = Buffer::new(4 * 4096);
        assert_eq!(file.read_at(&mut bytes, 4096).unwrap(), 4096 + 77, "{options:?}");
        assert!(bytes[..4096 + 77] == plain[4096..]);
        let mut queue = Queue::new(&file, 2).unwrap();
        queue.read(8192, bytes, 9).unwrap();
        let done = queue.wait().unwrap();
        assert!(done.buffer[..done.result.unwrap()] == plain[8192..], "{options:?}");
    }
}

#[test]
fn an_empty_file_and_an_empty_buffer_are_read() {
    for options in ways() {
        let empty = file_on_disk(&[]);
        let file = File::open(empty.path(), options).unwrap();
        assert_eq!(file.read_at(&mut Buffer::new(4096), 0).unwrap(), 0, "{options:?}");
        assert_eq!(file.read_at(&mut Buffer::new(0), 4096).unwrap(), 0, "{options:?}");
        let mut queue = Queue::new(&file, 1).unwrap();
        assert!(queue.wait().is_none(), "nothing is in flight");
        for len in [0, 4096] {
            queue.read(0, Buffer::new(len), 1).unwrap();
            assert_eq!(queue.wait().unwrap().result.unwrap(), 0, "{options:?}");
        }
    }
}

#[test]
fn two_queues_on_one_file_do_not_meet() {
    for options in ways() {
        let plain = contents(5, 64 * 4096);
        let temporary = file_on_disk(&plain);
        let file = File::open(temporary.path(), options).unwrap();
        let mut queues = [8, 8].map(|depth| Queue::new(&file, depth).unwrap());
        for page in 0..8 {
            for (number, queue) in queues.iter_mut().enumerate() {
                queue.read((2 * page + number as u64) * 4096, Buffer::new(4096), page).unwrap();
            }
        }
        for (number, queue) in queues.iter_mut().enumerate() {
            while let Some(done) = queue.wait() {
                let at = (2 * done.token as usize + number) * 4096;
                assert_eq!(done.result.unwrap(), 4096);
                assert!(*done.buffer == plain[at..at + 4096], "{options:?}");
            }
        }
    }
}

#[test]
fn a_file_is_read_by_many_threads() {
    for options in ways() {
        let plain = contents(6, 64 * 4096);
        let temporary = file_on_disk(&plain);
        let file = Arc::new(File::open(temporary.path(), options).unwrap());
        thread::scope(|scope| {
            for number in 0..4_u64 {
                let (file, plain) = (Arc::clone(&file), &plain);
                scope.spawn(move || {
                    let mut bytes = Buffer::new(4096);
                    for page in (number..64).step_by(3) {
                        assert_eq!(file.read_at(&mut bytes, page * 4096).unwrap(), 4096);
                        assert!(*bytes == plain[page as usize * 4096..][..4096], "{options:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn a_queue_that_is_dropped_has_written_what_was_in_flight() {
    for options in ways() {
        let temporary = file_on_disk(&[0; 32 * 4096]);
        let file = File::open(temporary.path(), options).unwrap();
        let bytes = contents(7, 32 * 4096);
        let mut queue = Queue::new(&file, 32).unwrap();
        drop(file);
        for page in 0..32 {
            let mut buffer = queue.buffer(4096);
            buffer.copy_from_slice(&bytes[page * 4096..][..4096]);
            queue.write(page as u64 * 4096, buffer, 0).unwrap();
        }
        drop(queue);
        assert!(fs::read(temporary.path()).unwrap() == bytes, "{options:?}");
    }
}

#[test]
fn places_that_are_said_to_be_random_are_read_all_the_same() {
    let temporary = file_of(&contents(8, 9_000));
    let options = Options { random: true, ..Options::default() };
    let file = File::open(temporary.path(), options).unwrap();
    assert_eq!(file.read_at(&mut [0; 100], 8_950).unwrap(), 50);
}

/// A place, mostly inside, and a length.
fn draw(rng: &mut Rng, size: u64, direct: bool) -> (u64, usize) {
    let (offset, len) = (rng.below(size), rng.below(5 * UNIT) as usize);
    if direct { (offset / UNIT * UNIT, len.next_multiple_of(UNIT as usize)) } else { (offset, len) }
}

fn fresh(rng: &mut Rng, len: usize) -> Buffer {
    let mut bytes = Buffer::new(len);
    let seed = rng.below(u64::MAX);
    bytes.copy_from_slice(&contents(seed, len));
    bytes
}

fn overwrite(model: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if bytes.is_empty() {
        return;
    }
    model.resize(model.len().max(end), 0);
    model[start..end].copy_from_slice(bytes);
}

fn held(model: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = (offset as usize).min(model.len());
    &model[start..(start + len).min(model.len())]
}
