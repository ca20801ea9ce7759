//! Raw bytes of the image: read in bulk, kept in chunks, each read once however many ask.
//!
//! ```text
//!   wanted            |-----------------------|
//!   chunks      | ready | absent | absent | being read | absent |
//!                         \____ one read ___/   waited for
//! ```
//!
//! A chunk is an aligned piece of the image file, so that the same code reads through the page
//! cache and past it. Tree and blocks are read through here alike.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use forebay_image::Source;
use rustix::io::ReadWriteFlags;

use super::clock::{Clock, lock};
use super::stats::Stats;
use crate::access::Buffer;

/// The image file and what is in memory of it.
#[derive(Debug)]
pub(super) struct Raw {
    file: File,
    /// Where the image begins in the file.
    base: u64,
    /// What the image may be as long as; reads beyond what is there fail.
    len: u64,
    /// What the file itself had when it was opened.
    file_len: u64,
    direct: bool,
    chunks: Clock<u64, Arc<Chunk>>,
    flights: Mutex<HashMap<u64, Arc<Flight>>>,
    /// Regions that the kernel was asked to read.
    advised: Mutex<HashSet<u64>>,
    stats: Arc<Stats>,
}

/// A piece of the file; shorter only at its end.
#[derive(Debug)]
struct Chunk {
    bytes: Memory,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Plain(Vec<u8>),
    Aligned(Buffer),
}

/// A chunk that is being read.
#[derive(Debug, Default)]
struct Flight {
    landed: Mutex<Option<Landed>>,
    bell: Condvar,
}

type Landed = Result<Arc<Chunk>, ErrorKind>;

/// What the caller claimed; whoever waits is told even if the caller breaks down.
struct Claim<'a> {
    raw: &'a Raw,
    number: u64,
    flight: Arc<Flight>,
}

impl Raw {
    /// Over an open file; `budget` is in bytes.
    pub(super) fn new(
        file: File,
        place: Range<u64>,
        direct: bool,
        budget: u64,
        stats: Arc<Stats>,
    ) -> Self {
        let chunks = Clock::new(budget, SHARDS);
        let (base, len) = (place.start, place.end.saturating_sub(place.start));
        Self {
            file,
            file_len: place.end,
            base,
            len,
            direct,
            chunks,
            flights: Mutex::default(),
            advised: Mutex::default(),
            stats,
        }
    }

    /// The same file, as if it were `len` bytes long.
    pub(super) fn with_len(self, len: u64) -> Self {
        Self { len, ..self }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// Whether all bytes of a range are in memory.
    pub(super) fn is_ready(&self, range: &Range<u64>) -> bool {
        self.numbers(range).all(|number| self.chunks.has(&number))
    }

    /// Brings a range in, in as few and as large reads as there are gaps, and does not wait for
    /// what others are reading. A failed read leaves its bytes absent.
    pub(super) fn prefetch(&self, range: &Range<u64>) {
        let mut claims: Vec<Claim<'_>> = Vec::new();
        for number in self.numbers(range) {
            if let Ok(claim) = self.claim(number) {
                if claims.last().is_some_and(|last| last.number + 1 != number) {
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

    /// Copies a range of the image if that takes no device: from memory here, or from the kernel's.
    /// Says whether it did.
    pub(super) fn copy_if_near(&self, range: &Range<u64>, target: &mut [u8]) -> bool {
        if self.is_ready(range) && self.copy(range, target).is_ok() {
            self.stats.raw_hits.add(1);
            return true;
        }
        if self.direct || range.end > self.len {
            return false;
        }
        let offset = self.base.saturating_add(range.start);
        let wanted = target.len();
        let mut target = [IoSliceMut::new(target)];
        let near = rustix::io::preadv2(&self.file, &mut target, offset, ReadWriteFlags::NOWAIT);
        let near = near == Ok(wanted);
        if near {
            self.stats.raw_near.add(1);
        } else {
            // What was read there once has been dropped, or is on its way.
            lock(&self.advised).remove(&(offset / REGION));
        }
        near
    }

    /// Has the kernel read large pieces of the image around a range into its own memory, without
    /// waiting for them. Says whether it can: past the page cache it cannot.
    pub(super) fn advise(&self, range: &Range<u64>) -> bool {
        if self.direct {
            return false;
        }
        let first = self.base.saturating_add(range.start) / REGION;
        let last = self.base.saturating_add(range.end.saturating_sub(1)) / REGION;
        (first..=last).all(|region| self.advise_region(region))
    }

    fn advise_region(&self, region: u64) -> bool {
        if !lock(&self.advised).insert(region) {
            return true;
        }
        let advice = rustix::fs::Advice::WillNeed;
        let begun = rustix::fs::fadvise(&self.file, region * REGION, NonZero::new(REGION), advice);
        if begun.is_err() {
            lock(&self.advised).remove(&region);
            return false;
        }
        self.stats.raw_advised.add(REGION);
        true
    }

    /// Copies a range of the image.
    pub(super) fn copy(&self, range: &Range<u64>, target: &mut [u8]) -> io::Result<()> {
        self.prefetch(range);
        let mut done = 0;
        for number in self.numbers(range) {
            let chunk = self.chunk(number)?;
            let from = index((self.base + range.start + done as u64) - number * CHUNK);
            let len = (index(CHUNK) - from).min(target.len() - done);
            let Some(bytes) = chunk.bytes().get(from..from + len) else {
                return Err(ErrorKind::UnexpectedEof.into());
            };
            target[done..done + len].copy_from_slice(bytes);
            done += len;
        }
        if done == target.len() { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// A chunk: from memory, from another's read, or by a read of its own.
    fn chunk(&self, number: u64) -> io::Result<Arc<Chunk>> {
        if let Some(chunk) = self.chunks.get(&number) {
            return Ok(chunk);
        }
        match self.claim(number) {
            Ok(claim) => {
                let flight = Arc::clone(&claim.flight);
                self.carry_out(vec![claim]);
                flight.wait()
            }
            Err(Some(flight)) => {
                self.stats.raw_waits.add(1);
                flight.wait()
            }
            Err(None) => self.chunks.get(&number).map_or_else(|| self.read_alone(number), Ok),
        }
        .map_err(Into::into)
    }

    /// The right to read a chunk; otherwise who reads it, or none if it is there.
    fn claim(&self, number: u64) -> Result<Claim<'_>, Option<Arc<Flight>>> {
        if self.chunks.has(&number) {
            return Err(None);
        }
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&number) {
            return Err(Some(Arc::clone(flight)));
        }
        // It may have landed between the two looks.
        if self.chunks.has(&number) {
            return Err(None);
        }
        let flight = Arc::new(Flight::default());
        flights.insert(number, Arc::clone(&flight));
        Ok(Claim { raw: self, number, flight })
    }

    /// One read for adjacent chunks; if it fails, one for each, so that a bad place costs only
    /// its own chunk.
    fn carry_out(&self, claims: Vec<Claim<'_>>) {
        let Some(first) = claims.first() else { return };
        let mut memory: Vec<Memory> = claims.iter().map(|_| self.memory()).collect();
        match self.read(&mut memory, first.number * CHUNK) {
            Ok(mut left) => {
                for (claim, bytes) in claims.into_iter().zip(memory) {
                    let len = left.min(index(CHUNK));
                    left -= len;
                    claim.land(Ok(Arc::new(Chunk { bytes, len })));
                }
            }
            Err(error) if claims.len() == 1 => {
                for claim in claims {
                    claim.land(Err(error.kind()));
                }
            }
            Err(_) => {
                for claim in claims {
                    let alone = self.read_alone(claim.number);
                    claim.land(alone);
                }
            }
        }
    }

    fn read_alone(&self, number: u64) -> Landed {
        let mut memory = [self.memory()];
        let len = self.read(&mut memory, number * CHUNK).map_err(|error| error.kind())?;
        let [bytes] = memory;
        Ok(Arc::new(Chunk { bytes, len }))
    }

    /// Fills memory from a place of the file on; fewer bytes only at the file's end.
    fn read(&self, memory: &mut [Memory], offset: u64) -> io::Result<usize> {
        let begin = Instant::now();
        let wanted = memory.len() * index(CHUNK);
        let mut slices: Vec<IoSliceMut<'_>> =
            memory.iter_mut().map(|memory| IoSliceMut::new(memory.bytes_mut())).collect();
        let mut done = loop {
            match rustix::io::preadv(&self.file, &mut slices, offset) {
                Err(rustix::io::Errno::INTR) => {}
                read => break read?,
            }
        };
        self.stats.raw_operations.add(1);
        while done < wanted && (!self.direct || (done as u64).is_multiple_of(DIRECT)) {
            let chunk = &mut memory[done / index(CHUNK)];
            let bytes = &mut chunk.bytes_mut()[done % index(CHUNK)..];
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
        self.stats.raw_bytes.add(done as u64);
        self.stats.raw_nanos.add(crate::processor::nanos(begin.elapsed()));
        Ok(done)
    }

    fn memory(&self) -> Memory {
        let len = index(CHUNK);
        if self.direct { Memory::Aligned(Buffer::new(len)) } else { Memory::Plain(vec![0; len]) }
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

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.len);
        self.copy(&(offset..end.ok_or(ErrorKind::UnexpectedEof)?), buffer)
    }
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Memory::Plain(bytes) => &bytes[..self.len],
            Memory::Aligned(bytes) => &bytes[..self.len],
        }
    }
}

impl Memory {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Aligned(bytes) => bytes,
        }
    }
}

impl Flight {
    fn wait(&self) -> Landed {
        let mut landed = lock(&self.landed);
        loop {
            if let Some(landed) = &*landed {
                return landed.clone();
            }
            landed = self.bell.wait(landed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Claim<'_> {
    fn land(self, landed: Landed) {
        if let Ok(chunk) = &landed {
            self.raw.chunks.insert(self.number, Arc::clone(chunk), CHUNK);
        }
        *lock(&self.flight.landed) = Some(landed);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(&self.raw.flights).remove(&self.number);
        lock(&self.flight.landed).get_or_insert(Err(ErrorKind::Other));
        self.flight.bell.notify_all();
    }
}

/// A number that is no larger than a chunk or a buffer.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes of a chunk: some ten blocks of 4 KiB, a quarter of a window. Smaller ones cost more
/// look-ups, larger ones bring in more of what nobody asked for.
const CHUNK: u64 = 16 << 10;

/// Bytes that one miss has the kernel read: on a device that takes 100 us for a request and moves
/// 1 GB/s, ten requests' worth.
const REGION: u64 = 1 << 20;

/// Chunks in one read: 1 MiB.
const RUN_MAX: usize = 64;

/// What places past the page cache are multiples of at most, on any device we know.
const DIRECT: u64 = 4096;

const SHARDS: usize = 8;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn raw(len: usize, base: u64, budget: u64) -> (Raw, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let place = base..len as u64;
        let raw = Raw::new(file, place, false, budget, Arc::default());
        (raw, bytes[index(base)..].to_vec())
    }

    #[test]
    fn any_range_reads_as_the_file_does() {
        let (raw, bytes) = raw(100_000, 777, 1 << 20);
        for (start, len) in [(0, 1), (0, 99_223), (15_000, 2_000), (99_000, 223), (50_000, 0)] {
            let mut target = vec![0; len];
            raw.copy(&(start..start + len as u64), &mut target).unwrap();
            assert_eq!(target, bytes[index(start)..index(start) + len], "{start} {len}");
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
