//! Backends that fail, lie, panic or shrink.

use std::sync::Arc;

use forebay_core::io::IoError;
use forebay_core::units::{FileId, PAGE_SIZE};
use forebay_core::workload::Step;
use forebay_host::backend::{Backend, Delay, FailAfter, FailAt, FileBackend, MemBackend};
use forebay_host::failure::Cause;
use forebay_host::files::FileMap;
use forebay_host::run::run;

use crate::support::*;

#[test]
fn failing_reads_reach_their_callers_and_later_ones_pass() {
    let bytes = contents(1, 16 * 4096);
    let pages: Vec<_> = (0..16).map(|page| (page * PAGE_SIZE, PAGE_SIZE)).collect();
    for dispatch in DISPATCHES {
        for passing in 0..16 {
            let backend = FailAfter::new(MemBackend::new(bytes.clone()), passing, 3);
            let setup = setup("off", 2, dispatch);
            let (outcome, answers) = read_ranges(&setup, Arc::new(backend), &pages);
            for (page, (result, _)) in (0..).zip(answers) {
                let fails = (passing..passing + 3).contains(&page);
                assert_eq!(result, if fails { Err(IoError::Device) } else { Ok(PAGE_SIZE) });
            }
            assert_eq!(outcome.errors, (16 - passing).min(3));
            let offset = passing * PAGE_SIZE;
            let cause = format!("reading 4096 bytes failed: read {passing} fails on purpose");
            let expected = format!("file 0 at byte {offset}: {cause}");
            assert_eq!(outcome.first_error.unwrap().to_string(), expected);
        }
    }
}

#[test]
fn a_device_that_dies_lets_every_task_end() {
    let bytes = contents(2, 400_000);
    for frames in [2, 8, 64] {
        for_every_setup(frames, |setup| {
            let backend = FailAfter::new(MemBackend::new(bytes.clone()), 5, u64::MAX);
            let files = FileMap::one_each([Arc::new(backend) as _]);
            let outcome = run(
                setup,
                files,
                |opener| {
                    let task = |number: u64| {
                        let handle = opener.open(FileId(0));
                        let mut rng = Rng(number);
                        let call = |_| read(handle, rng.below(400_000), rng.below(30_000));
                        script((0..50).map(call).collect::<Vec<_>>())
                    };
                    (0..4).map(task).collect()
                },
                |_, bytes_delivered| assert!(bytes_delivered.len() <= 30_000),
            )
            .unwrap();
            assert_eq!(outcome.calls, 200);
            assert!(outcome.errors > 0 && outcome.verified_bytes == outcome.bytes);
            assert!(matches!(outcome.first_error.unwrap().cause, Cause::Read { .. }));
        });
    }
}

#[test]
fn a_bad_spot_harms_only_its_readers() {
    let bytes = contents(3, 400 * 4096);
    for_every_setup(64, |setup| {
        let bad = 200 * PAGE_SIZE + 7;
        let backend = FailAt::new(MemBackend::new(bytes.clone()), bad..bad + 1);
        let spot = (200 * PAGE_SIZE, PAGE_SIZE);
        let ranges = [(0, 9_000), spot, (399 * PAGE_SIZE, 9_000), spot, (0, 9_000)];
        let backend = Delay::new(backend, std::time::Duration::ZERO);
        let (outcome, answers) = read_ranges(setup, Arc::new(backend), &ranges);
        let results: Vec<_> = answers.iter().map(|(result, _)| *result).collect();
        let failed = Err(IoError::Device);
        assert_eq!(results, [Ok(9_000), failed, Ok(PAGE_SIZE), failed, Ok(9_000)]);
        assert_eq!((outcome.errors, outcome.stats.errors), (2, 2));
    });
}

#[test]
fn a_read_ends_in_front_of_a_bad_page() {
    let bytes = contents(4, 40_000);
    for dispatch in DISPATCHES {
        let backend = FailAt::new(MemBackend::new(bytes.clone()), 20_000..20_001);
        let setup = setup("off", 8, dispatch);
        let (outcome, answers) = read_ranges(&setup, Arc::new(backend), &[(100, 39_000)]);
        assert_eq!(answers, [(Ok(16_284), bytes[100..16_384].to_vec())]);
        assert!(matches!(outcome.first_error.unwrap().cause, Cause::Read { .. }));
    }
}

#[test]
fn a_panic_in_a_backend_is_an_error_and_no_hang() {
    let bytes = contents(5, 100_000);
    for_every_setup(8, |setup| {
        let read = |truth: &dyn Backend, buffer: &mut [u8], offset: u64| {
            assert!(offset < 40_960, "no such place");
            truth.read_at(buffer, offset)
        };
        let backend = Arc::new(Odd { truth: mem(&bytes), read });
        let (outcome, answers) = read_ranges(setup, backend, &[(90_000, 1), (0, 1), (99_999, 1)]);
        let results: Vec<_> = answers.iter().map(|(result, _)| *result).collect();
        assert_eq!(results[0], Err(IoError::Device));
        assert_eq!(results[2], Err(IoError::Device));
        let message = outcome.first_error.unwrap().to_string();
        assert!(message.ends_with("the backend panicked: no such place"), "{message}");
    });
}

#[test]
fn a_wrong_byte_is_found_and_named_by_its_place() {
    let bytes = contents(6, 100_000);
    for_every_setup(64, |setup| {
        let read = |truth: &dyn Backend, buffer: &mut [u8], offset: u64| {
            let len = truth.read_at(buffer, offset)?;
            if (offset..offset + len as u64).contains(&70_001) {
                buffer[(70_001 - offset) as usize] ^= 0xff;
            }
            Ok(len)
        };
        let backend = Arc::new(Odd { truth: mem(&bytes), read });
        let (outcome, _) = read_ranges(setup, backend, &[(0, 70_001), (70_000, 2), (70_002, 9)]);
        assert_eq!((outcome.errors, outcome.verified_bytes), (1, 70_010));
        let (expected, found) = (bytes[70_001], bytes[70_001] ^ 0xff);
        assert_eq!(
            outcome.first_error.unwrap().to_string(),
            format!(
                "file 0 at byte 70001: a read delivered {found:#04x} instead of {expected:#04x}"
            )
        );
    });
}

#[test]
fn a_file_that_shrinks_under_the_run_fails_where_it_was_cut() {
    let bytes = contents(7, 1_000 * 4096);
    for_every_setup(8, |setup| {
        let file = file_of(&bytes);
        let backend = Arc::new(FileBackend::open(file.path()).unwrap());
        let mut results = Vec::new();
        let outcome = run(
            setup,
            FileMap::one_each([backend as _]),
            |opener| {
                let handle = opener.open(FileId(0));
                // Far apart, so that no readahead of one reaches the next.
                let mut pages = [0, 900, 500, 100, 0].into_iter();
                let file = file.as_file();
                let next = move |_| {
                    let Some(page) = pages.next() else { return Step::Exit };
                    if page == 900 {
                        file.set_len(500 * PAGE_SIZE + 5).unwrap();
                    }
                    read(handle, page * PAGE_SIZE, PAGE_SIZE)
                };
                vec![Box::new(Each(next))]
            },
            |finished, _| results.push(finished.result),
        )
        .unwrap();
        let (whole, cut) = (Ok(PAGE_SIZE), Err(IoError::Truncated));
        assert_eq!(results, [whole, cut, cut, whole, whole]);
        assert_eq!((outcome.errors, outcome.verified_bytes), (2, 3 * PAGE_SIZE));
        assert!(matches!(outcome.first_error.unwrap().cause, Cause::Truncated { .. }));
    });
}

#[test]
fn a_page_that_was_cut_off_is_an_error_that_names_it() {
    let bytes = contents(8, 100 * 4096);
    for dispatch in DISPATCHES {
        let file = file_of(&bytes);
        let backend = Arc::new(FileBackend::open(file.path()).unwrap());
        file.as_file().set_len(50 * PAGE_SIZE + 5).unwrap();
        let setup = setup("off", 2, dispatch);
        let pages = |page, pages| (page * PAGE_SIZE, pages * PAGE_SIZE);
        let ranges = [pages(50, 1), pages(90, 1), pages(49, 2), pages(10, 1)];
        let (outcome, answers) = read_ranges(&setup, backend, &ranges);
        let results: Vec<_> = answers.iter().map(|(result, _)| *result).collect();
        let cut = Err(IoError::Truncated);
        assert_eq!(results, [cut, cut, Ok(PAGE_SIZE), Ok(PAGE_SIZE)]);
        assert_eq!(
            outcome.first_error.unwrap().to_string(),
            "file 0 at byte 204800: the file was cut short: 5 of 4096 bytes are left there"
        );
    }
}

#[test]
fn what_cannot_be_read_a_second_time_is_not_verified() {
    let bytes = contents(9, 9_000);
    let read = |_: &dyn Backend, buffer: &mut [u8], _| {
        buffer.fill(1);
        Ok(buffer.len())
    };
    let short = Odd { truth: mem(&bytes[..5_000]), read };
    let backend = Arc::new(Longer(short));
    let setup = setup("off", 4, INLINE);
    let (outcome, _) = read_ranges(&setup, backend, &[(8_000, 10)]);
    assert_eq!((outcome.errors, outcome.verified_bytes), (1, 0));
    assert_eq!(
        outcome.first_error.unwrap().to_string(),
        "file 0 at byte 8000: nothing to compare with: unexpected end of file"
    );
}

/// Claims more bytes than its truth has.
struct Longer<B>(B);

impl<B: Backend> Backend for Longer<B> {
    fn len(&self) -> u64 {
        9_000
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn reopen(&self) -> std::io::Result<Arc<dyn Backend>> {
        self.0.reopen()
    }
}
