//! A job of a store: a read, a write, a flush or zeroing, and the pages that it moves.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_core::io::{self as core_io, IoError, RequestKind};
use forebay_core::serving::ZeroRange;
use forebay_core::units::PAGE_SIZE;

use super::store::Store;
use crate::frames::{PAGE, Page};

/// Work for a device.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) export: usize,
    pub(super) buffer: Vec<Page>,
    /// Bytes of the buffer that lie in the export.
    pub(super) len: usize,
}

#[derive(Debug)]
pub(super) enum Work {
    Device(core_io::Request),
    Zero(ZeroRange),
}

/// What a store was asked for so far.
#[derive(Debug, Default)]
pub(super) struct StoreCounters {
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) failed_writes: AtomicU64,
    pub(super) flushes: AtomicU64,
    /// Writes that the last successful flush has covered.
    flushed_writes: AtomicU64,
}

impl StoreCounters {
    pub(super) fn count_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether the store has all that it was given on disk.
    pub(super) fn is_flushed(&self) -> bool {
        let (writes, failed) = (self.writes.load(Relaxed), self.failed_writes.load(Relaxed));
        failed == 0 && self.flushed_writes.load(Relaxed) == writes
    }
}

/// Why a job has failed.
#[derive(Debug)]
pub(super) struct JobError {
    pub(super) kind: IoError,
    /// What the store has reported.
    why: Option<io::Error>,
}

impl JobError {
    /// Why the source fails, if its store being full is not all of it.
    pub(super) fn fault(&self) -> Option<String> {
        let text = || self.why.as_ref().map_or_else(|| self.kind.to_string(), ToString::to_string);
        (self.kind != IoError::NoSpace).then(text)
    }
}

impl From<IoError> for JobError {
    fn from(kind: IoError) -> Self {
        Self { kind, why: None }
    }
}

impl From<io::Error> for JobError {
    fn from(error: io::Error) -> Self {
        use ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let found = error.kind();
        let kind = if matches!(found, StorageFull | QuotaExceeded | FileTooLarge) {
            IoError::NoSpace
        } else if found == ReadOnlyFilesystem {
            IoError::ReadOnly
        } else {
            IoError::Device
        };
        Self { kind, why: Some(error) }
    }
}

impl Job {
    pub(super) fn is_read(&self) -> bool {
        matches!(&self.work, Work::Device(request) if request.kind.is_read())
    }

    /// Where it begins in the export.
    pub(super) fn offset(&self) -> u64 {
        match &self.work {
            Work::Device(request) => request.first * PAGE_SIZE,
            Work::Zero(range) => range.offset,
        }
    }

    /// Lends its pages, to be [put back](Self::put_back).
    pub(super) fn take_buffer(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn put_back(&mut self, buffer: Vec<Page>) {
        self.buffer = buffer;
    }

    /// Carries it out. Of one that zeroes, returns whether the store can.
    pub(super) fn carry_out(
        &mut self,
        store: &dyn Store,
        counters: &StoreCounters,
    ) -> Result<bool, JobError> {
        let request = match self.work {
            Work::Device(request) => request,
            Work::Zero(range) => {
                counters.writes.fetch_add(1, Relaxed);
                let zeroed = store.zero(range.offset, range.len, range.hole);
                counters.failed_writes.fetch_add(u64::from(zeroed.is_err()), Relaxed);
                return Ok(zeroed?);
            }
        };
        match request.kind {
            RequestKind::Read => {
                self.read(store)?;
                counters.count_read(self.len);
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                counters.writes.fetch_add(1, Relaxed);
                let durable = request.kind == RequestKind::DurableWrite;
                let written = self.write(store, durable);
                counters.failed_writes.fetch_add(u64::from(written.is_err()), Relaxed);
                written?;
                counters.written_bytes.fetch_add(self.len as u64, Relaxed);
            }
            RequestKind::Flush => {
                counters.flushes.fetch_add(1, Relaxed);
                let covered = counters.writes.load(Relaxed);
                store.flush()?;
                counters.flushed_writes.fetch_max(covered, Relaxed);
            }
            RequestKind::Inode | RequestKind::Discard => {
                unreachable!("exports have no metadata of their own, and the disk zeroes by itself")
            }
        }
        Ok(true)
    }

    /// Ends a read that was carried out elsewhere. None if it has to be carried out again: it came
    /// short, or the file cannot be read that way.
    pub(super) fn end_read(&mut self, read: io::Result<usize>) -> Option<Result<bool, JobError>> {
        use ErrorKind::{Interrupted, InvalidInput, WouldBlock};
        match read {
            Ok(read) if read >= self.len => {
                self.zero_tail();
                Some(Ok(true))
            }
            Err(error) if !matches!(error.kind(), Interrupted | InvalidInput | WouldBlock) => {
                Some(Err(error.into()))
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn read(&mut self, store: &dyn Store) -> Result<(), JobError> {
        let (offset, mut done) = (self.offset(), 0);
        while done < self.len {
            // What came short goes on at a page's start.
            let whole = done / PAGE;
            let pages = &mut self.buffer[whole..];
            let mut slices: Vec<IoSliceMut<'_>> =
                pages.iter_mut().map(|page| IoSliceMut::new(&mut page.0)).collect();
            match store.read(&mut slices, offset + (whole * PAGE) as u64) {
                Ok(read) if whole * PAGE + read > done => done = whole * PAGE + read,
                // It was longer when it was opened.
                Ok(_) => return Err(IoError::Truncated.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.zero_tail();
        Ok(())
    }

    /// Zeroes what lies behind the end of the export.
    fn zero_tail(&mut self) {
        let tail = self.len % PAGE;
        if let (Some(last), true) = (self.buffer.last_mut(), tail > 0) {
            last.0[tail..].fill(0);
        }
    }

    fn write(&self, store: &dyn Store, durable: bool) -> Result<(), JobError> {
        let offset = self.offset();
        let (pages, tail) = (self.len / PAGE, self.len % PAGE);
        // The page that an export ends in is written by itself: it is no whole one.
        write_pages(store, &self.buffer[..pages], PAGE, (offset, durable))?;
        if tail > 0 {
            let at = offset + (pages * PAGE) as u64;
            write_pages(store, &self.buffer[pages..=pages], tail, (at, durable))?;
        }
        Ok(())
    }
}

/// Writes so many bytes of each page.
fn write_pages(
    store: &dyn Store,
    pages: &[Page],
    each: usize,
    (offset, durable): (u64, bool),
) -> Result<(), JobError> {
    let (len, mut done) = (pages.len() * each, 0);
    while done < len {
        let whole = done / PAGE;
        let slices: Vec<IoSlice<'_>> =
            pages[whole..].iter().map(|page| IoSlice::new(&page.0[..each])).collect();
        match store.write(&slices, offset + (whole * PAGE) as u64, durable) {
            Ok(written) if whole * PAGE + written > done => done = whole * PAGE + written,
            Ok(_) => return Err(IoError::NoSpace.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
