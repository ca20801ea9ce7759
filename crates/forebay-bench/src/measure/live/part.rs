//! The programs: what one process does on the device.
//!
//! | part | steps |
//! | --- | --- |
//! | toucher | random single pages of a mapped file |
//! | stream | reads of 128 KiB one behind the other, with a pace or without |
//! | cached | pages of a file that is in memory, a hundred a step |
//! | direct | random direct reads of 4 KiB, with a pause between them |
//! | writer | writes of 64 KiB until there are enough |
//! | copy | the same, and then an fsync |
//! | light | 4 KiB at the end of a file every 20 ms |
//! | bystander | 4 KiB and an fsync every 300 ms |
//! | sync | the file system made durable |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use forebay_host::access::Buffer;
use forebay_host::mapped::Mapped;
use rustix::fs::{Advice, OFlags, fadvise, syncfs};

use super::measured::{Measured, Sample};
use super::serve::now;
use crate::measure::READ;
use crate::measure::mount::Spent;

/// Loads of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LivePart {
    /// Touches pages of a mapped file at random
    Toucher,
    /// Reads a file sequentially
    Stream,
    /// Reads cached pages
    Cached,
    /// Reads single pages with direct I/O
    Direct,
    /// Writes a file
    Writer,
    /// Writes a file and syncs it
    Copy,
    /// Writes small amounts, often
    Light,
    /// Writes small amounts and syncs them, repeatedly
    Bystander,
    /// Syncs the whole file system
    Sync,
}

/// One process's share of the work.
#[derive(Clone, Debug)]
pub(crate) struct Work<'a> {
    /// The work.
    pub(crate) part: LivePart,
    /// The file.
    pub(crate) place: &'a Path,
    /// Seed of random orders.
    pub(crate) seed: u64,
    /// How much is written by [`LivePart::Writer`] and [`LivePart::Copy`], in bytes.
    pub(crate) bytes: u64,
    /// The rate of [`LivePart::Stream`] in bytes a second, for each read separately: a late read is
    /// not made up for. Without it, as fast as possible.
    pub(crate) pace: Option<u64>,
    /// The pause of [`LivePart::Direct`].
    pub(crate) pause: Duration,
    /// How long endless parts run, unless they are stopped.
    pub(crate) time: Duration,
}

/// Does the work, until its end, its time's end, or until it is stopped.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn perform(work: &Work<'_>, stop: &AtomicBool) -> io::Result<Measured> {
    let mut before = Spent::own()?;
    let begin = Instant::now();
    let mut steps = Steps { begin, time: work.time, stop, samples: Vec::new() };
    let mut measured = Measured { begin: now(), ..Measured::default() };
    measured.bytes = match work.part {
        LivePart::Toucher => toucher(work, &mut steps)?,
        LivePart::Stream => stream(work, &mut steps)?,
        LivePart::Cached => {
            // The first read is not part of the work.
            let file = File::open(work.place)?;
            read_through(&file)?;
            steps.begin = Instant::now();
            measured.begin = now();
            before = Spent::own()?;
            cached(work, &file, &mut steps)?
        }
        LivePart::Direct => direct(work, &mut steps)?,
        LivePart::Writer | LivePart::Copy => writer(work, &mut steps)?,
        LivePart::Light => light(work, &mut steps)?,
        LivePart::Bystander => bystander(work, &mut steps)?,
        LivePart::Sync => {
            syncfs(File::open(work.place)?)?;
            0
        }
    };
    measured.written = now();
    if work.part == LivePart::Copy {
        File::open(work.place)?.sync_all()?;
    }
    measured.end = now();
    measured.cpu = Spent::own()?.since(before).cpu.as_nanos() as u64;
    measured.samples = steps.samples;
    Ok(measured)
}

/// The recorded steps, and whether to continue.
struct Steps<'a> {
    begin: Instant,
    time: Duration,
    stop: &'a AtomicBool,
    samples: Vec<Sample>,
}

impl Steps<'_> {
    fn go_on(&self) -> bool {
        self.begin.elapsed() < self.time && !self.stop.load(Ordering::Relaxed)
    }

    fn step(&mut self, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let begin = Instant::now();
        act()?;
        let at = (begin - self.begin).as_nanos() as u64;
        self.samples.push(Sample { at, took: begin.elapsed().as_nanos() as u64 });
        Ok(())
    }

    /// Sleeps until the next of moments that lie so far apart.
    fn await_next(&self, period: Duration) {
        let period = period.as_nanos() as u64;
        let elapsed = self.begin.elapsed().as_nanos() as u64;
        let next = (elapsed / period + 1) * period;
        thread::sleep(Duration::from_nanos(next - elapsed));
    }
}

fn toucher(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let file = File::open(work.place)?;
    let (map, mut places) = (Mapped::new(&file)?, Places::new(&file, work.seed)?);
    while steps.go_on() {
        let offset = places.next();
        steps.step(|| {
            map.touch(offset);
            Ok(())
        })?;
    }
    Ok(READ as u64)
}

fn stream(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let file = File::open(work.place)?;
    let bytes = file.metadata()?.len();
    let period = work.pace.map(|pace| BLOCK as u64 * 1_000_000_000 / pace.max(1));
    let period = Duration::from_nanos(period.unwrap_or(0));
    let (mut block, mut offset) = (vec![0; BLOCK], 0);
    while steps.go_on() {
        if offset + BLOCK as u64 > bytes {
            // Pages that were read first would be cached.
            fadvise(&file, 0, None, Advice::DontNeed)?;
            offset = 0;
        }
        let begin = Instant::now();
        steps.step(|| file.read_exact_at(&mut block, offset))?;
        offset += BLOCK as u64;
        // A late read is not made up for, as in a program that processes its input.
        let rest = period.saturating_sub(begin.elapsed());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }
    Ok(BLOCK as u64)
}

fn cached(work: &Work<'_>, file: &File, steps: &mut Steps<'_>) -> io::Result<u64> {
    let mut places = Places::new(file, work.seed)?;
    let mut page = [0; READ];
    while steps.go_on() {
        steps.step(|| (0..BATCH).try_for_each(|_| file.read_exact_at(&mut page, places.next())))?;
    }
    Ok((BATCH * READ) as u64)
}

fn direct(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    let file = file.open(work.place)?;
    let (mut places, mut page) = (Places::new(&file, work.seed)?, Buffer::new(READ));
    while steps.go_on() {
        let offset = places.next();
        steps.step(|| file.read_exact_at(&mut page, offset))?;
        if !work.pause.is_zero() {
            thread::sleep(work.pause);
        }
    }
    Ok(READ as u64)
}

fn writer(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let file = File::create(work.place)?;
    let block = vec![b'w'; CHUNK];
    let mut offset = 0;
    while offset < work.bytes && !steps.stop.load(Ordering::Relaxed) {
        steps.step(|| file.write_all_at(&block, offset))?;
        offset += CHUNK as u64;
    }
    Ok(CHUNK as u64)
}

fn light(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let file = File::create(work.place)?;
    let mut offset = 0;
    while steps.go_on() {
        steps.step(|| file.write_all_at(&[b'l'; READ], offset))?;
        offset += READ as u64;
        steps.await_next(LIGHT);
    }
    Ok(READ as u64)
}

fn bystander(work: &Work<'_>, steps: &mut Steps<'_>) -> io::Result<u64> {
    let file = File::create(work.place)?;
    while steps.go_on() {
        steps.step(|| {
            file.write_all_at(&[b'b'; READ], 0)?;
            file.sync_all()
        })?;
        steps.await_next(BYSTANDER);
    }
    Ok(READ as u64)
}

/// Random pages of a file; some more than once.
struct Places {
    state: u64,
    pages: u64,
}

impl Places {
    fn new(file: &File, seed: u64) -> io::Result<Self> {
        let pages = file.metadata()?.len() / READ as u64;
        if pages == 0 {
            return Err(io::Error::other("the file has no whole page"));
        }
        Ok(Self { state: seed ^ 0x9e37_79b9_7f4a_7c15, pages })
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 20) % self.pages * READ as u64
    }
}

fn read_through(file: &File) -> io::Result<()> {
    let (mut block, mut offset) = (vec![0; BLOCK], 0);
    loop {
        match file.read_at(&mut block, offset)? {
            0 => return Ok(()),
            read => offset += read as u64,
        }
    }
}

/// What a stream reads at a time.
const BLOCK: usize = 128 << 10;

/// What a writer writes at a time.
const CHUNK: usize = 64 << 10;

/// Reads of cached pages in a step: together long compared with reading the clock, and short
/// compared with a time slice, so that most steps are not interrupted.
const BATCH: usize = 100;

/// Between two writes of a light writer.
const LIGHT: Duration = Duration::from_millis(20);

/// Between two writes of a bystander.
const BYSTANDER: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn work(part: LivePart, place: &Path) -> Work<'_> {
        Work {
            part,
            place,
            seed: 1,
            bytes: 3 * CHUNK as u64,
            pace: None,
            pause: Duration::ZERO,
            time: Duration::from_secs(3_600),
        }
    }

    #[test]
    fn a_worker_that_was_stopped_has_done_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, vec![0; 4 * READ]).unwrap();
        let stopped = AtomicBool::new(true);
        for part in [
            LivePart::Toucher,
            LivePart::Stream,
            LivePart::Cached,
            LivePart::Light,
            LivePart::Bystander,
        ] {
            let measured = perform(&work(part, &file), &stopped).unwrap();
            assert_eq!(measured.samples, [], "{part:?}");
            assert!(measured.begin <= measured.end);
            fs::write(&file, vec![0; 4 * READ]).unwrap();
        }
    }

    #[test]
    fn a_writer_writes_as_much_as_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for part in [LivePart::Writer, LivePart::Copy] {
            let file = folder.path().join("file");
            let measured = perform(&work(part, &file), &AtomicBool::new(false)).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().len(), 3 * CHUNK as u64);
            assert_eq!((measured.samples.len(), measured.bytes), (3, CHUNK as u64));
            assert!(measured.begin <= measured.written && measured.written <= measured.end);
        }
    }

    #[test]
    fn a_file_without_a_page_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"short").unwrap();
        let error = perform(&work(LivePart::Cached, &file), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.to_string(), "the file has no whole page");
    }

    #[test]
    fn places_are_pages_of_the_file_from_its_begin_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, vec![0; 10 * READ + 1]).unwrap();
        let mut places = Places::new(&File::open(&file).unwrap(), 3).unwrap();
        let mut found: Vec<u64> = (0..500).map(|_| places.next()).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, (0..10).map(|page| page * READ as u64).collect::<Vec<_>>());
    }
}
