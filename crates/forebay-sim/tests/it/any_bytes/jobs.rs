//! Any bytes as a job file of fio: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_sim::fio::{Action, Compat, Job, JobFile};

/// Reads the bytes as a job file, if they are a text, and makes the first requests of its jobs.
///
/// # Panics
/// If an error names no line of the text, a request lies outside its file, two streams of a job
/// differ, or memory grows beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = u32::try_from(1 + text.matches('\n').count()).unwrap_or(u32::MAX);
    let mut parsed = None;
    let used = measure(|| parsed = Some(JobFile::parse(text, "file.fio")));
    let most = MEMORY_MAX + 64 * text.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, text.len());
    match parsed.expect("it was read") {
        Ok(file) => {
            assert!(!file.jobs.is_empty(), "a file without jobs is refused");
            assert!(file.notes.iter().all(|note| (1..=lines).contains(&note.line)));
            file.jobs.iter().take(JOBS_MAX).for_each(run);
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "line {} of {lines}", error.line);
            assert!(error.to_string().starts_with("file.fio:"), "{error}");
        }
    }
}

fn run(job: &Job) {
    // Marks of a random map and states of files take memory by the size of the job.
    let blocks: u64 = job.files.iter().map(|file| file.room / 512).fold(0, u64::saturating_add);
    // At the end of a file a size may be drawn as often as the largest block has bytes.
    let draws = job.block_max();
    if job.files.len() > FILES_MAX || blocks > BLOCKS_MAX || draws > DRAWS_MAX {
        return;
    }
    for compat in [Compat::V3_34, Compat::V3_35] {
        let (mut stream, mut again) = (job.stream(compat), job.stream(compat));
        let mut now_us = 0;
        for _ in 0..STEPS_MAX {
            let action = stream.step(now_us);
            assert_eq!(action, again.step(now_us), "two streams of a job");
            match action {
                Action::Io(io) => {
                    let file = &job.files[io.file as usize];
                    let end = io.offset.checked_add(io.len);
                    let fits = end.is_some_and(|end| end <= file.room) && io.len > 0;
                    assert!(fits && io.len <= job.block_max(), "{io:?} in {file:?}");
                    assert!(if io.write { job.mode.writes() } else { job.mode.reads() }, "{io:?}");
                }
                Action::Sync(sync) => assert!((sync.file as usize) < job.files.len(), "{sync:?}"),
                Action::Wait(until_us) => {
                    assert!(until_us > now_us, "waits until {until_us} at {now_us}");
                    now_us = until_us;
                }
                Action::End => break,
            }
        }
        stream.stop();
        // Only the syncs of the end remain, a few for each file.
        let left = (0..STEPS_MAX).take_while(|_| stream.step(now_us) != Action::End).count();
        assert!(left < STEPS_MAX, "a stopped job ends");
    }
}

/// The most that jobs and their files may take, besides the text: 4096 jobs, 2^20 files, and three
/// times 128 MiB of their names.
const MEMORY_MAX: u64 = 1 << 30;

/// Jobs of a file that are run.
const JOBS_MAX: usize = 3;

/// Files of a job that is run.
const FILES_MAX: usize = 8;

/// Blocks of a job that is run: 64 MiB by sectors.
const BLOCKS_MAX: u64 = 1 << 17;

/// Bytes of the largest block of a job that is run.
const DRAWS_MAX: u64 = 1 << 17;

/// Requests of a job that are made.
const STEPS_MAX: usize = 300;
