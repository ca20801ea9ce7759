//! Raw bytes of the image. The kernel's page cache holds them; past it they are read in bulk, kept
//! in chunks, each read once however many ask.
//!
//! ```text
//!   wanted            |-----------------------|
//!   chunks      | ready | absent | absent | being read | absent |
//!                         \____ one read ___/   waited for
//! ```
//!
//! A chunk is an aligned piece of the image file. Tree and blocks are read through here alike.
//! Through the page cache the file is open twice: for long runs, which the kernel reads ahead of,
//! and for places in no order, where it reads what it is asked for.
//!
//! The thread that takes requests must not wait for a device. Whatever it asks for at
//! [`Pace::Quick`] is in memory, or is [`Absent`].

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_image::{Error, Source};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags};

use super::clock::{Clock, lock};
use super::decode::Pace;
use super::flights::{Claim, Flights, Turn, Waited};
use super::stats::Stats;
use crate::access::Buffer;

/// The image file and what is in memory of it.
#[derive(Debug)]
pub(super) struct Raw {
    file: File,
    /// The same, for places in no order.
    random: File,
    /// Where the image begins in the file.
    base: u64,
    /// What the image may be as long as; reads beyond what is there fail.
    len: u64,
    /// What the file itself had when it was opened.
    file_len: u64,
    direct: bool,
    /// What is kept of a file that is read past the page cache.
    chunks: Clock<u64, Arc<Chunk>>,
    flights: Flights<u64, Landed>,
    /// Regions that the kernel was asked to read.
    advised: Mutex<HashSet<u64>>,
    stats: Arc<Stats>,
}

/// An image file that is open.
#[derive(Debug)]
pub(super) struct Opened {
    /// For long runs.
    pub(super) file: File,
    /// For places in no order.
    pub(super) random: File,
    /// Past the page cache.
    pub(super) direct: bool,
}

/// Bytes of the image that are not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Absent(pub(super) Range<u64>);

/// A piece of the file; shorter only at its end.
#[derive(Debug)]
struct Chunk {
    bytes: Buffer,
    len: usize,
}

type Landed = Result<Arc<Chunk>, ErrorKind>;

type ChunkClaim<'a> = Claim<'a, u64, Landed>;

impl Raw {
    /// Over an open file; `budget` is in bytes.
    pub(super) fn new(opened: Opened, place: Range<u64>, budget: u64, stats: Arc<Stats>) -> Self {
        let Opened { file, random, direct } = opened;
        // A file system that has no use for advice reads as it likes.
        let _ = fadvise(&random, 0, None, Advice::Random);
        Self {
            file,
            random,
            base: place.start,
            len: place.end.saturating_sub(place.start),
            file_len: place.end,
            direct,
            chunks: Clock::new(if direct { budget } else { 0 }, SHARDS),
            flights: Flights::new(),
            advised: Mutex::default(),
            stats,
        }
    }

    /// The same file, as if it were `len` bytes long.
    pub(super) fn with_len(self, len: u64) -> Self {
        Self { len, ..self }
    }

    /// Bytes in memory of ours.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// Where reads are counted.
    pub(super) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Whether what is read is kept here, and not by the kernel.
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether all bytes of a range are in memory of ours.
    fn is_ready(&self, range: &Range<u64>) -> bool {
        self.numbers(range).all(|number| self.chunks.has(&number))
    }

    /// Copies a range of the image if that takes no device. Says whether it did.
    pub(super) fn copy_if_near(&self, range: &Range<u64>, target: &mut [u8]) -> bool {
        if self.direct {
            let ready = self.is_ready(range) && self.copy(range, target).is_ok();
            self.stats.raw_hits.add(u64::from(ready));
            return ready;
        }
        if range.end > self.len {
            return false;
        }
        let offset = self.base.saturating_add(range.start);
        let wanted = target.len();
        let mut target = [IoSliceMut::new(target)];
        let near = rustix::io::preadv2(&self.random, &mut target, offset, ReadWriteFlags::NOWAIT);
        let near = near == Ok(wanted);
        if near {
            self.stats.raw_near.add(1);
        } else {
            // What was read there once has been dropped, or is on its way.
            lock(&self.advised).remove(&(offset / REGION));
        }
        near
    }

    /// Begins to read a range that somebody is about to wait for.
    pub(super) fn hasten(&self, range: &Range<u64>) {
        let len = NonZero::new(range.end.saturating_sub(range.start));
        if let (false, Some(len)) = (self.direct, len) {
            // If it cannot, whoever waits reads it.
            let offset = self.base.saturating_add(range.start);
            let _ = fadvise(&self.random, offset, Some(len), Advice::WillNeed);
        }
    }

    /// Brings a range in without a use for it yet: all of it in one read.
    pub(super) fn fetch(&self, range: &Range<u64>) {
        if self.direct { self.prefetch(range) } else { self.hasten(range) }
    }

    /// Has the kernel read the regions around a range into its memory, which nobody waits for.
    /// `is_wanted` is asked before each. Past the page cache the range is brought in.
    pub(super) fn advise(&self, range: &Range<u64>, is_wanted: impl Fn() -> bool) {
        if self.direct {
            return self.prefetch(range);
        }
        let first = self.base.saturating_add(range.start);
        let last = self.base.saturating_add(range.end.saturating_sub(1));
        for region in first / REGION..=last / REGION {
            if self.is_advised(region) {
                continue;
            }
            let start = region * REGION;
            if !is_wanted() || start >= self.file_len {
                return;
            }
            self.stats.raw_advised.add(REGION);
            let _ = fadvise(&self.file, start, NonZero::new(REGION), Advice::WillNeed);
        }
    }

    /// Whether the kernel was asked to read a region; if not, it counts as asked.
    fn is_advised(&self, region: u64) -> bool {
        let mut advised = lock(&self.advised);
        if advised.len() >= ADVISED_MAX {
            // Asking again costs little.
            advised.clear();
        }
        !advised.insert(region)
    }

    /// Copies a range of the image. Adjacent bytes of many blocks are `long`.
    pub(super) fn copy_run(&self, range: &Range<u64>, target: &mut [u8]) -> io::Result<()> {
        if self.direct { self.copy(range, target) } else { self.pread(&self.file, range, target) }
    }

    /// Copies a range of the image.
    pub(super) fn copy(&self, range: &Range<u64>, target: &mut [u8]) -> io::Result<()> {
        if !self.direct {
            return self.pread(&self.random, range, target);
        }
        self.prefetch(range);
        let mut done = 0;
        for number in self.numbers(range) {
            let chunk = self.chunk(number)?;
            let from = index((self.base + range.start + done as u64) - number * CHUNK);
            let len = (index(CHUNK) - from).min(target.len() - done);
            let Some(bytes) = chunk.bytes[..chunk.len].get(from..from + len) else {
                return Err(ErrorKind::UnexpectedEof.into());
            };
            target[done..done + len].copy_from_slice(bytes);
            done += len;
        }
        if done == target.len() { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn pread(&self, file: &File, range: &Range<u64>, target: &mut [u8]) -> io::Result<()> {
        if range.end > self.len || range.end - range.start != target.len() as u64 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let begin = Instant::now();
        file.read_exact_at(target, self.base.saturating_add(range.start))?;
        self.count(target.len(), begin);
        Ok(())
    }

    fn count(&self, bytes: usize, begin: Instant) {
        self.stats.raw_operations.add(1);
        self.stats.raw_bytes.add(bytes as u64);
        self.stats.raw_nanos.add(crate::processor::nanos(begin.elapsed()));
    }

    /// Brings chunks in, in as few and as large reads as there are gaps, and does not wait for
    /// what others are reading. A failed read leaves its bytes absent.
    fn prefetch(&self, range: &Range<u64>) {
        let mut claims: Vec<ChunkClaim<'_>> = Vec::new();
        for number in self.numbers(range) {
            let here = || self.chunks.has(&number).then_some(());
            if let Turn::Ours(claim) = self.flights.turn(number, true, here) {
                if claims.last().is_some_and(|last| last.key + 1 != number) {
                    self.carry_out(std::mem::take(&mut claims));
                }
                claims.push(claim);
            }
            if claims.len() == RUN_MAX {
                self.carry_out(std::mem::take(&mut claims));
            }
        }
        self.carry_out(claims);
    }

    /// A chunk: from memory, from another's read, or by a read of its own.
    fn chunk(&self, number: u64) -> io::Result<Arc<Chunk>> {
        let chunk = match self.flights.turn(number, true, || self.chunks.get(&number)) {
            Turn::There(chunk) => return Ok(chunk),
            Turn::Ours(claim) => {
                let read = self.read_alone(number);
                self.land(claim, read.clone());
                read
            }
            Turn::Wait(flight) => {
                self.stats.raw_waits.add(1);
                match flight.wait(None) {
                    Waited::Landed(landed) => landed,
                    Waited::Broken | Waited::NotYet => Err(ErrorKind::Other),
                }
            }
        };
        chunk.map_err(Into::into)
    }

    /// One read for adjacent chunks; if it fails, one for each, so that a bad place costs only
    /// its own chunk.
    fn carry_out(&self, claims: Vec<ChunkClaim<'_>>) {
        let Some(first) = claims.first() else { return };
        let mut memory: Vec<Buffer> = claims.iter().map(|_| Buffer::new(index(CHUNK))).collect();
        match self.read(&mut memory, first.key * CHUNK) {
            Ok(mut left) => {
                for (claim, bytes) in claims.into_iter().zip(memory) {
                    let len = left.min(index(CHUNK));
                    left -= len;
                    self.land(claim, Ok(Arc::new(Chunk { bytes, len })));
                }
            }
            Err(_) => {
                for claim in claims {
                    let alone = self.read_alone(claim.key);
                    self.land(claim, alone);
                }
            }
        }
    }

    fn land(&self, claim: ChunkClaim<'_>, landed: Landed) {
        if let Ok(chunk) = &landed {
            self.chunks.insert(claim.key, Arc::clone(chunk), CHUNK);
        }
        claim.land(|| landed);
    }

    fn read_alone(&self, number: u64) -> Landed {
        let mut memory = [Buffer::new(index(CHUNK))];
        let len = self.read(&mut memory, number * CHUNK).map_err(|error| error.kind())?;
        let [bytes] = memory;
        Ok(Arc::new(Chunk { bytes, len }))
    }

    /// Fills memory from a place of the file on; fewer bytes only at the file's end.
    fn read(&self, memory: &mut [Buffer], offset: u64) -> io::Result<usize> {
        let begin = Instant::now();
        let wanted = memory.len() * index(CHUNK);
        let mut slices: Vec<IoSliceMut<'_>> =
            memory.iter_mut().map(|memory| IoSliceMut::new(memory)).collect();
        let mut done = loop {
            match rustix::io::preadv(&self.file, &mut slices, offset) {
                Err(Errno::INTR) => {}
                read => break read?,
            }
        };
        while done < wanted && (done as u64).is_multiple_of(DIRECT) {
            let bytes = &mut memory[done / index(CHUNK)][done % index(CHUNK)..];
            match self.file.read_at(bytes, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Past the page cache a read may end before what cannot be read.
        if done < wanted && offset + (done as u64) < self.file_len {
            return Err(ErrorKind::Other.into());
        }
        self.count(done, begin);
        Ok(done)
    }

    fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.len).max(range.start);
        let (start, end) = (self.base.saturating_add(range.start), self.base.saturating_add(end));
        if start >= end { 0..0 } else { start / CHUNK..end.div_ceil(CHUNK) }
    }
}

impl Source for Raw {
    fn len(&self) -> u64 {
        self.len
    }

    /// What reads through this is the tree: all files come through [`Raw::copy`].
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.len);
        let range = offset..end.ok_or(ErrorKind::UnexpectedEof)?;
        if self.copy_if_near(&range, buffer) {
            return Ok(());
        }
        if QUICK.get() {
            return Err(io::Error::new(ErrorKind::WouldBlock, Absent(range)));
        }
        // Who reads some of the tree reads more of it.
        let around = offset / TREE * TREE;
        self.hasten(&(around..around.saturating_add(TREE)));
        self.copy(&range, buffer)
    }
}

/// Does something at a pace: what it reads of the tree is absent if it would have to wait for it.
pub(super) fn at_pace<T>(pace: Pace, what: impl FnOnce() -> T) -> T {
    /// Puts it back, also if what is done breaks down.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            QUICK.set(self.0);
        }
    }
    let _before = Before(QUICK.replace(pace == Pace::Quick));
    what()
}

/// Whether this thread does something quickly.
pub(super) fn is_quick() -> bool {
    QUICK.get()
}

/// What was absent, if that is what is wrong.
pub(super) fn absent(error: &Error) -> Option<Absent> {
    let Error::Read { source, .. } = error else { return None };
    source.get_ref()?.downcast_ref().cloned()
}

impl std::error::Error for Absent {}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {:?} of the image are not in memory", self.0)
    }
}

/// A number that is no larger than a chunk or a buffer.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

thread_local! {
    /// Whether this thread must not wait for a device.
    static QUICK: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of a chunk: some ten blocks of 4 KiB, a quarter of a window. Smaller ones cost more
/// look-ups, larger ones bring in more of what nobody asked for.
const CHUNK: u64 = 16 << 10;

/// Bytes that one miss has the kernel read: on a device that takes 100 us for a request and moves
/// 1 GB/s, ten requests' worth.
const REGION: u64 = 1 << 20;

/// Bytes of the tree that are read where some are wanted.
const TREE: u64 = 128 << 10;

/// Regions that are remembered: 64 GiB.
const ADVISED_MAX: usize = 1 << 16;

/// Chunks in one read: 1 MiB.
const RUN_MAX: usize = 64;

/// What places past the page cache are multiples of at most, on any device we know.
const DIRECT: u64 = 4096;

const SHARDS: usize = 8;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Kept in chunks as if it were past the page cache, which any file allows.
    fn raw(len: usize, base: u64, budget: u64) -> (Raw, Vec<u8>) {
        opened(len, base, budget, true)
    }

    fn opened(len: usize, base: u64, budget: u64, direct: bool) -> (Raw, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let random = file.try_clone().unwrap();
        let place = base..len as u64;
        let raw = Raw::new(Opened { file, random, direct }, place, budget, Arc::default());
        (raw, bytes[index(base)..].to_vec())
    }

    #[test]
    fn any_range_reads_as_the_file_does() {
        for direct in [false, true] {
            let (raw, bytes) = opened(100_000, 777, 1 << 20, direct);
            for (start, len) in [(0, 1), (0, 99_223), (15_000, 2_000), (99_000, 223), (50_000, 0)] {
                let mut target = vec![0; len];
                raw.copy(&(start..start + len as u64), &mut target).unwrap();
                assert_eq!(target, bytes[index(start)..index(start) + len], "{start} {len}");
                target = vec![0; len];
                raw.copy_run(&(start..start + len as u64), &mut target).unwrap();
                assert_eq!(target, bytes[index(start)..index(start) + len], "{start} {len}");
            }
        }
    }

    #[test]
    fn a_window_is_one_read_and_is_read_once() {
        let (raw, _) = raw(1 << 20, 0, 1 << 21);
        raw.prefetch(&(100_000..300_000));
        assert_eq!(raw.stats.raw_operations.read(), 1);
        assert!(raw.is_ready(&(100_000..300_000)) && !raw.is_ready(&(0..1)));
        raw.prefetch(&(90_000..310_000));
        raw.prefetch(&(100_000..300_000));
        assert_eq!(raw.stats.raw_operations.read(), 2, "the gap at one end");
    }

    #[test]
    fn beyond_the_end_is_an_error_and_what_lies_before_it_is_there() {
        let (raw, bytes) = raw(20_000, 0, 1 << 20);
        let raw = raw.with_len(1 << 30);
        let mut target = [0; 100];
        assert!(raw.read_exact_at(&mut target, 19_950).is_err());
        assert!(raw.read_exact_at(&mut target, 1 << 25).is_err());
        assert!(raw.read_exact_at(&mut target, u64::MAX - 10).is_err());
        raw.read_exact_at(&mut target, 19_900).unwrap();
        assert_eq!(target, bytes[19_900..]);
    }

    #[test]
    fn whoever_must_be_quick_hears_what_is_absent() {
        let (raw, bytes) = raw(100_000, 0, 1 << 20);
        let read = |pace| {
            let mut target = [0; 10];
            at_pace(pace, || Source::fill(&raw, &mut target, 5_000)).map(|()| target)
        };
        let error = read(Pace::Quick).unwrap_err();
        assert_eq!(absent(&error), Some(Absent(5_000..5_010)));
        assert_eq!(read(Pace::Patient).unwrap(), bytes[5_000..5_010]);
        assert_eq!(read(Pace::Quick).unwrap(), bytes[5_000..5_010]);
        assert!(!QUICK.get());
    }

    #[test]
    fn many_readers_of_one_place_cause_one_read() {
        let (raw, bytes) = raw(1 << 20, 0, 1 << 21);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut target = vec![0; 10_000];
                    raw.copy(&(200_000..210_000), &mut target).unwrap();
                    assert_eq!(target, bytes[200_000..210_000]);
                });
            }
        });
        assert!(raw.stats.raw_operations.read() <= 2, "two chunks at most");
    }
}
