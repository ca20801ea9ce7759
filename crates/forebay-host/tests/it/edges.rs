//! Sizes and places at the edges, and setups that cannot run.

use std::io;
use std::sync::Arc;

use forebay_core::units::PAGE_SIZE;
use forebay_host::backend::{Backend, FileBackend};
use forebay_host::dispatch::WORKERS_MAX;
use forebay_host::files::FileMap;
use forebay_host::run::{Setup, run};

use crate::support::*;

#[test]
fn an_empty_file_reads_nothing() {
    let file = file_of(b"");
    for_every_setup(2, |setup| {
        let backend = Arc::new(FileBackend::open(file.path()).unwrap());
        assert!(backend.is_empty());
        let (outcome, answers) = read_ranges(setup, backend, &[(0, 1), (0, 0), (4096, 10_000)]);
        assert_eq!(answers, [(Ok(0), vec![]), (Ok(0), vec![]), (Ok(0), vec![])]);
        assert_eq!((outcome.stats.requests, outcome.errors), (0, 0));
    });
}

#[test]
fn odd_sizes_end_where_the_file_ends() {
    for size in [1, 511, 4095, 4096, 4097, 8193] {
        let bytes = contents(size, size as usize);
        let file = file_of(&bytes);
        for_every_setup(2, |setup| {
            let backend = Arc::new(FileBackend::open(file.path()).unwrap());
            let ranges = [(0, size), (0, size + 9_000), (size - 1, 1), (size - 1, 2), (size, 1)];
            let (outcome, answers) = read_ranges(setup, backend, &ranges);
            for ((offset, len), (result, delivered)) in ranges.into_iter().zip(answers) {
                let expected = &bytes[offset as usize..(offset + len).min(size) as usize];
                assert_eq!(result, Ok(expected.len() as u64));
                assert_eq!(delivered, expected);
            }
            assert!(outcome.first_error.is_none());
        });
    }
}

#[test]
fn one_frame_is_enough_to_read_a_file() {
    let bytes = contents(1, 30_000);
    for_every_setup(1, |setup| {
        let (_, answers) = read_ranges(setup, mem(&bytes), &[(0, 30_000), (5, 9_000)]);
        assert!(answers[0].1 == bytes && answers[1].1 == bytes[5..9_005]);
    });
}

#[test]
fn offsets_beyond_the_end_read_nothing_wherever_they_lie() {
    let bytes = contents(2, 10_000);
    for_every_setup(4, |setup| {
        let ranges = [(10_000, 1), (1 << 40, 4096), (u64::MAX, 1), (u64::MAX - 4095, u64::MAX)];
        let (outcome, answers) = read_ranges(setup, mem(&bytes), &ranges);
        assert!(answers.iter().all(|answer| *answer == (Ok(0), vec![])));
        assert_eq!(outcome.errors, 0);
    });
}

#[test]
fn a_length_beyond_all_bounds_ends_with_the_file() {
    let bytes = contents(3, 10_000);
    for_every_setup(4, |setup| {
        let (_, answers) = read_ranges(setup, mem(&bytes), &[(1, u64::MAX)]);
        assert_eq!(answers, [(Ok(9_999), bytes[1..].to_vec())]);
    });
}

#[test]
fn pages_beyond_four_billion_deliver_their_own_bytes() {
    let end = (1 << 62) + 77;
    for_every_setup(8, |setup| {
        let backend: Arc<dyn Backend> = Arc::new(Endless(end));
        let ranges = [(1 << 45, 9_000), (3, 9_000), ((1 << 61) - 5, 9_000), (end - 100, 200)];
        let (outcome, answers) = read_ranges(setup, backend, &ranges);
        for ((offset, len), (_, delivered)) in ranges.into_iter().zip(answers) {
            assert_eq!(delivered.len() as u64, len.min(end - offset));
            assert!((offset..).zip(delivered).all(|(at, byte)| byte == byte_at(at)));
        }
        assert!(outcome.first_error.is_none());
    });
}

#[test]
fn a_removed_file_is_read_to_its_end() {
    let bytes = contents(4, 50_000);
    let file = file_of(&bytes);
    let backend = Arc::new(FileBackend::open(file.path()).unwrap());
    drop(file);
    let unverified = Setup { verify: false, ..setup("fixed", 4, INLINE) };
    let (outcome, answers) = read_ranges(&unverified, Arc::clone(&backend) as _, &[(0, 50_000)]);
    assert!(answers[0].1 == bytes);
    assert_eq!(outcome.verified_bytes, 0);
    let verified = Setup { verify: true, ..unverified };
    let error = run(&verified, FileMap::one_each([backend as _]), |_| vec![], |_, _| {});
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("cannot open a file again to verify what is read: "), "{message}");
}

#[test]
fn what_is_neither_file_nor_device_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |path: &std::path::Path| FileBackend::open(path).unwrap_err();
    let what = "neither a regular file nor a block device";
    assert_eq!(refused(directory.path()).to_string(), what);
    assert_eq!(refused("/dev/null".as_ref()).to_string(), what);
    assert_eq!(refused(&directory.path().join("none")).kind(), io::ErrorKind::NotFound);
}

#[test]
fn setups_that_cannot_run_are_refused_in_words() {
    let refused =
        |setup: &Setup| run(setup, FileMap::new(), |_| vec![], |_, _| {}).unwrap_err().to_string();
    let inline = setup("off", 1, INLINE);
    let memory = |memory| refused(&Setup { memory, ..inline.clone() });
    let pages = "page memory holds from 1 to 4294967295 pages of 4096 bytes";
    assert_eq!(memory(PAGE_SIZE - 1), format!("{pages}, not 4095 bytes"));
    assert_eq!(memory(u64::MAX), format!("{pages}, not 18446744073709551615 bytes"));
    let workers = |workers| refused(&Setup { workers, ..inline.clone() });
    assert_eq!(workers(0), "deferred dispatch takes from 1 to 256 workers, not 0");
    assert_eq!(workers(257), "deferred dispatch takes from 1 to 256 workers, not 257");
}

#[test]
fn the_largest_number_of_workers_serves() {
    let bytes = contents(5, 100_000);
    let setup = setup("fixed", 64, ("deferred", WORKERS_MAX));
    let (_, answers) = read_ranges(&setup, mem(&bytes), &[(0, 100_000)]);
    assert!(answers[0].1 == bytes);
}

/// A file whose bytes are computed from their place.
struct Endless(u64);

impl Backend for Endless {
    fn len(&self) -> u64 {
        self.0
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = (buffer.len() as u64).min(self.0.saturating_sub(offset)) as usize;
        for (at, byte) in (offset..).zip(&mut buffer[..len]) {
            *byte = byte_at(at);
        }
        Ok(len)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self(self.0)))
    }
}
