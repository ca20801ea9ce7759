//! What a file or device of this machine does, request by request, and what the processor's part of
//! a request costs.
//!
//! Requests go past the page cache, one at a time by `pread`, several by a ring or worker threads.
//! Prices are low quantiles of many short rounds: whatever else runs only adds.

use std::fs::File as StdFile;
use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

use crate::access::{Buffer, File, Mode, Options, Queue};
use crate::mapped::Mapped;
use crate::processor;

/// Requests of one length.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRequests<'a> {
    /// Where they begin, in the order in which they are made.
    pub offsets: &'a [u64],
    /// The length of each.
    pub bytes: usize,
    /// How many are in flight.
    pub depth: usize,
    /// Whether they write.
    pub write: bool,
    /// Whether each is followed by a flush, which is then timed.
    pub flush: bool,
    /// No further one begins after this time.
    pub limit: Duration,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct ProbeTimes {
    /// The nanoseconds of each, in the order in which they were made.
    pub latencies: Vec<u64>,
    /// From the first request to the end of the last.
    pub elapsed: Duration,
    /// Processor time of this process.
    pub cpu: Duration,
}

/// The probed file.
#[derive(Debug)]
pub struct ProbedFile {
    path: PathBuf,
    direct: File,
    len: u64,
    write: bool,
}

/// The processor's prices on this machine, each as sorted samples in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct HostPrices {
    /// A system call that does nothing.
    pub nothing: Vec<u64>,
    /// A read of 4 KiB from the page cache.
    pub cached_small: Vec<u64>,
    /// A read of 1 MiB from the page cache.
    pub cached_large: Vec<u64>,
    /// A copy of 1 MiB between buffers that lie in no cache.
    pub copy: Vec<u64>,
    /// What the processor spends on a read of 1 MiB at a random place through an empty page cache.
    pub cold_random: Vec<u64>,
    /// The same of one of many that follow each other, read ahead; none with a file that may be
    /// written.
    pub cold_stream: Vec<u64>,
    /// The processor time of a direct read of 4 KiB.
    pub direct_cpu: Vec<u64>,
    /// The touch of a page that is cached and not mapped.
    pub fault: Vec<u64>,
    /// Giving the processor away.
    pub switch: u64,
    /// A write of 4 KiB over a dirty page; none without a file that may be written.
    pub dirty_small: Vec<u64>,
    /// A write of 1 MiB over dirty pages.
    pub dirty_large: Vec<u64>,
    /// A write of 1 MiB to pages that are not cached.
    pub new_large: Vec<u64>,
}

impl ProbedFile {
    /// Opens a file or block device past the page cache.
    ///
    /// # Errors
    /// It cannot be opened, or its file system has no way past the page cache.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        let options = Options { mode: Mode::Uring, direct: true, write, ..Options::default() };
        let direct = File::open(path, options).map_err(io::Error::other)?;
        let mut file = StdFile::open(path)?;
        // The metadata of a block device have no length.
        let len = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(Self { path: path.to_owned(), direct, len, write })
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes requests and times them.
    ///
    /// # Errors
    /// A request failed or was short.
    pub fn request(&self, requests: &ProbeRequests<'_>) -> io::Result<ProbeTimes> {
        assert!(self.write || !requests.write, "a file that is only read is not written");
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let begin = Instant::now();
        let mut times = match requests.depth {
            0 | 1 => self.one_by_one(requests)?,
            _ => self.many(requests)?,
        };
        times.elapsed = begin.elapsed();
        times.cpu = between(cpu, clock_gettime(ClockId::ProcessCPUTime));
        Ok(times)
    }

    fn one_by_one(&self, requests: &ProbeRequests<'_>) -> io::Result<ProbeTimes> {
        let options =
            Options { mode: Mode::Inline, direct: true, write: self.write, ..Options::default() };
        let file = File::open(&self.path, options).map_err(io::Error::other)?;
        let mut buffer = filled(requests.bytes);
        let mut times = ProbeTimes::default();
        let begin = Instant::now();
        for &offset in requests.offsets {
            let mut issued = Instant::now();
            if issued - begin > requests.limit {
                break;
            }
            if requests.write {
                file.write_at(&buffer, offset).map_err(io::Error::other)?;
            } else {
                whole(file.read_at(&mut buffer, offset).map_err(io::Error::other)?, requests)?;
            }
            if requests.flush {
                issued = Instant::now();
                file.sync().map_err(io::Error::other)?;
            }
            times.latencies.push(nanos(issued.elapsed()));
        }
        Ok(times)
    }

    fn many(&self, requests: &ProbeRequests<'_>) -> io::Result<ProbeTimes> {
        let mut queue = Queue::new(&self.direct, requests.depth).map_err(io::Error::other)?;
        if requests.write && requests.bytes >= LARGE {
            // The kernel writes streams from large folios.
            let buffers = (0..requests.depth).map(|_| Buffer::in_huge_pages(requests.bytes));
            buffers.for_each(|buffer| queue.recycle(buffer));
        }
        let mut issued = Vec::with_capacity(requests.offsets.len());
        let mut latencies = vec![0; requests.offsets.len()];
        let begin = Instant::now();
        let mut offsets = requests.offsets.iter();
        loop {
            while queue.in_flight() < requests.depth && begin.elapsed() < requests.limit {
                let Some(&offset) = offsets.next() else { break };
                let buffer = queue.buffer(requests.bytes);
                let token = issued.len() as u64;
                issued.push(Instant::now());
                let added = match requests.write {
                    true => queue.write(offset, buffer, token),
                    false => queue.read(offset, buffer, token),
                };
                added.map_err(|refused| io::Error::other(refused.to_string()))?;
            }
            let Some(done) = queue.wait() else { break };
            let token = done.token as usize;
            latencies[token] = nanos(issued[token].elapsed());
            whole(done.result.map_err(io::Error::other)?, requests)?;
            queue.recycle(done.buffer);
        }
        latencies.truncate(issued.len());
        Ok(ProbeTimes { latencies, ..ProbeTimes::default() })
    }

    /// Measures the processor's prices with this file. Its first bytes are dropped from the page
    /// cache and read again; they are written back as they were if the file may be written.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn prices(&self) -> io::Result<HostPrices> {
        let file = StdFile::options().read(true).write(self.write).open(&self.path)?;
        fadvise(&file, 0, None, Advice::Random)?;
        let mut prices = HostPrices {
            nothing: rounds(2_000, || {
                black_box(rustix::process::getppid());
                Ok(())
            })?,
            ..HostPrices::default()
        };
        self.price_of_cold(&file, &mut prices)?;
        let region = self.len.min(REGION);
        let (mut small, mut large) = (vec![0; 4_096], vec![0; LARGE]);
        for at in (0..region).step_by(LARGE) {
            let read = file.read_at(&mut large, at)?;
            black_box(read);
        }
        let places = region / 4_096;
        let mut place = 0;
        prices.cached_small = rounds(2_000, || {
            place = (place + 7_919) % places;
            file.read_exact_at(&mut small, place * 4_096)
        })?;
        prices.cached_large = rounds(100, || {
            place = (place + 1) % (region / LARGE as u64);
            file.read_exact_at(&mut large, place * LARGE as u64)
        })?;
        let source = vec![1_u8; 64 << 20];
        let mut part = 0;
        prices.copy = rounds(100, || {
            part = (part + 17) % 64;
            large.copy_from_slice(&source[part << 20..(part + 1) << 20]);
            black_box(&large);
            Ok(())
        })?;
        prices.fault = faults(&file, region)?;
        prices.switch = nanos(processor::costs().contended) / 2;
        if self.write {
            price_of_writes(&file, region as usize, &mut prices)?;
        }
        Ok(prices)
    }

    /// Processor time of long reads through an empty page cache, and of small ones past it.
    fn price_of_cold(&self, file: &StdFile, prices: &mut HostPrices) -> io::Result<()> {
        let options = Options { mode: Mode::Inline, direct: true, ..Options::default() };
        let direct = File::open(&self.path, options).map_err(io::Error::other)?;
        let spent = |from| nanos(between(from, clock_gettime(ClockId::ThreadCPUTime)));
        let mut small = Buffer::new(4_096);
        let mut large = vec![0; LARGE];
        let places = (self.len / LARGE as u64).max(1);
        let begin = Instant::now();
        let mut place = 1;
        for round in 0..COLD {
            if begin.elapsed() > COLD_TIME {
                break;
            }
            place = (place * 2_654_435_761 + 1) % places;
            let offset = place * LARGE as u64;
            let before = clock_gettime(ClockId::ThreadCPUTime);
            direct.read_at(&mut small, offset).map_err(io::Error::other)?;
            prices.direct_cpu.push(spent(before));
            if round % 8 == 0 {
                fadvise(file, offset, NonZeroU64::new(LARGE as u64), Advice::DontNeed)?;
                let before = clock_gettime(ClockId::ThreadCPUTime);
                file.read_exact_at(&mut large, offset)?;
                prices.cold_random.push(spent(before));
            }
        }
        // Writes say the same without a request in the way. Some calls build windows of readahead
        // for many others, so the mean counts.
        let stream = self.len.min(STREAM);
        let streams = if self.write { 0 } else { STREAMS.min(self.len / stream) };
        for number in 0..streams {
            let from = number * stream;
            fadvise(file, from, NonZeroU64::new(stream), Advice::DontNeed)?;
            // Its readahead has seen nothing random.
            let fresh = StdFile::open(&self.path)?;
            let before = clock_gettime(ClockId::ThreadCPUTime);
            for offset in (from..from + stream).step_by(LARGE) {
                let read = fresh.read_at(&mut large, offset)?;
                black_box(read);
            }
            prices.cold_stream.push(spent(before) / (stream / LARGE as u64).max(1));
        }
        prices.cold_random.sort_unstable();
        prices.cold_stream.sort_unstable();
        prices.direct_cpu.sort_unstable();
        Ok(())
    }
}

/// Times of writes to the first `region` bytes, which have what they had before, durably, at the
/// end.
fn price_of_writes(file: &StdFile, region: usize, prices: &mut HostPrices) -> io::Result<()> {
    let mut kept = vec![0; region];
    file.read_exact_at(&mut kept, 0)?;
    file.write_all_at(&kept, 0)?;
    let mut place = 0;
    let mut next = |len: usize| {
        place = (place + 7_919) % (region / len);
        (place * len) as u64
    };
    prices.dirty_small = rounds(2_000, || file.write_all_at(&kept[..4_096], next(4_096)))?;
    // Writers of streams have one buffer, which stays in the processor's cache, and what they write
    // lies in large folios.
    for _ in 0..4 {
        file.sync_data()?;
        fadvise(file, 0, NonZeroU64::new(region as u64), Advice::DontNeed)?;
        for at in (0..region).step_by(LARGE) {
            let begin = Instant::now();
            file.write_all_at(&kept[..LARGE], at as u64)?;
            prices.new_large.push(nanos(begin.elapsed()));
        }
    }
    prices.new_large.sort_unstable();
    prices.dirty_large = rounds(100, || file.write_all_at(&kept[..LARGE], next(LARGE)))?;
    file.write_all_at(&kept, 0)?;
    file.sync_data()
}

/// The time of a touch, over random pages of cached maps. A touch maps neighbours too, so that
/// it is the mean that counts.
fn faults(file: &StdFile, region: u64) -> io::Result<Vec<u64>> {
    let pages = region / 4_096;
    let mut samples = Vec::new();
    for round in 0..16 {
        let map = Mapped::new(file)?;
        let begin = Instant::now();
        for page in 0..pages {
            map.touch((page * 7_919 + round) % pages * 4_096);
        }
        samples.push(nanos(begin.elapsed()) / pages.max(1));
    }
    samples.sort_unstable();
    Ok(samples)
}

/// Times of one thing that is done again and again, sorted; a sample is the mean of ten.
fn rounds(count: usize, mut what: impl FnMut() -> io::Result<()>) -> io::Result<Vec<u64>> {
    let begin = Instant::now();
    let mut samples = Vec::new();
    for _ in 0..count.div_ceil(10) {
        let round = Instant::now();
        for _ in 0..10 {
            what()?;
        }
        samples.push(nanos(round.elapsed()) / 10);
        if begin.elapsed() > ROUNDS_TIME {
            break;
        }
    }
    samples.sort_unstable();
    Ok(samples)
}

fn whole(moved: usize, requests: &ProbeRequests<'_>) -> io::Result<()> {
    if moved == requests.bytes {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("a request moved {moved} bytes")))
}

fn filled(len: usize) -> Buffer {
    let mut buffer = Buffer::new(len);
    crate::pattern::fill(&mut buffer, 0, 1);
    buffer
}

fn between(from: rustix::time::Timespec, to: rustix::time::Timespec) -> Duration {
    let of = |at: rustix::time::Timespec| {
        Duration::new(at.tv_sec.unsigned_abs(), at.tv_nsec.unsigned_abs() as u32)
    };
    of(to).saturating_sub(of(from))
}

fn nanos(duration: Duration) -> u64 {
    processor::nanos(duration)
}

/// Bytes that prices of the page cache are measured on.
const REGION: u64 = 16 << 20;

/// Bytes of a long read.
const LARGE: usize = 1 << 20;

/// Bytes of a stream that is read ahead, and how many streams there are.
const STREAM: u64 = 32 << 20;
const STREAMS: u64 = 4;

/// Cold reads, and how long they may take together.
const COLD: usize = 400;
const COLD_TIME: Duration = Duration::from_secs(2);

/// The longest that one price is measured.
const ROUNDS_TIME: Duration = Duration::from_millis(300);
