//! An open file: one access at a time.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use forebay_core::dispatch::{Class, Handling};
use rustix::fs::{Advice, OFlags};

use super::judge::{Guess, Hits, Judge};
use super::medium::{Alignment, Device};
use super::{AccessError, Buffer, Finish, Mode, Options, Order, WORKERS_MAX, Workers, plain};
use crate::processor;
use crate::uring::{self, Outcome};

/// A file whose bytes are read and written at any place, by any thread.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
    hits: Hits,
    /// Decides in the adaptive mode, from the first access on that has to be waited for.
    judge: OnceLock<Mutex<Judge>>,
    /// Started by the first access that needs it.
    worker: OnceLock<Workers>,
}

/// What threads share of a file.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) file: fs::File,
    path: PathBuf,
    pub(super) options: Options,
    alignment: Alignment,
    note: Option<String>,
}

/// An access that has ended.
#[derive(Debug)]
pub struct Completion {
    /// What the caller gave it.
    pub token: u64,
    /// The number of bytes: fewer than asked for only where the file ends.
    pub result: Result<usize, AccessError>,
    /// The caller's buffer; of a read, its first bytes are the file's.
    pub buffer: Buffer,
}

impl File {
    /// Opens an existing file or block device.
    ///
    /// # Errors
    /// The file is not there, or cannot be read, written or read past the page cache.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, AccessError> {
        let path = path.as_ref().to_owned();
        let flags = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
        let opened = fs::OpenOptions::new()
            .read(true)
            .write(options.write)
            .custom_flags(flags.bits().cast_signed())
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                let how = match (options.direct, options.write) {
                    (false, false) => "",
                    (false, true) => " for writing",
                    (true, false) => " past the page cache",
                    (true, true) => " for writing past the page cache",
                };
                return Err(AccessError::Open { path, how, error });
            }
        };
        let note = if options.mode.uses_ring() { missing_ring(options) } else { None };
        let uring = options.uring && note.is_none();
        if options.random {
            // It is advice; where it cannot be given, reads bring more than they need.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        }
        let (options, alignment) = (Options { uring, ..options }, Alignment::of(&file));
        let inner = Arc::new(Inner { file, path, options, alignment, note });
        Ok(Self { inner, hits: Hits::new(), judge: OnceLock::new(), worker: OnceLock::new() })
    }

    /// Reads from `offset` on until `bytes` are full or the file has ended; returns how many there
    /// are.
    ///
    /// # Errors
    /// The kernel failed the read, or it is not aligned on a file opened past the page cache.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, AccessError> {
        let (inner, len) = (&*self.inner, bytes.len());
        inner.check(false, bytes, offset)?;
        let read = match self.way() {
            Mode::Inline => inner.read(bytes, offset, 0),
            Mode::Uring => self.read_by_ring(bytes, offset, Duration::ZERO).0,
            Mode::Spin => self.read_by_ring(bytes, offset, Duration::MAX).0,
            Mode::Adaptive => self.read_adaptively(bytes, offset),
            Mode::Deferred => return self.read_deferred(bytes, offset),
        };
        read.map_err(|error| AccessError::Read { offset, len, error })
    }

    /// Writes all bytes from `offset` on.
    ///
    /// # Errors
    /// The kernel failed the write, the file is open read-only, or the write is not aligned on a
    /// file opened for direct I/O.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), AccessError> {
        let inner = &*self.inner;
        inner.check(true, bytes, offset)?;
        let class = Class { write: true, bytes: bytes.len() as u64, ahead: false };
        let spin = match self.way() {
            Mode::Deferred => return self.write_deferred(bytes, offset),
            Mode::Uring => Duration::ZERO,
            Mode::Spin => Duration::MAX,
            // The thread that brings bytes copies them to the page cache, the sooner the better.
            Mode::Adaptive if inner.options.direct && inner.options.uring => {
                let (begin, how) = self.judge().choose(&class);
                let spin = limit(how);
                let written = self.write_by_ring(bytes, offset, spin);
                self.judge().learn(begin, offset, &class, how);
                return written;
            }
            Mode::Adaptive | Mode::Inline => return inner.write(bytes, offset, 0),
        };
        self.write_by_ring(bytes, offset, spin)
    }

    /// Returns when everything that was written is safe.
    ///
    /// # Errors
    /// The kernel failed a write since the last time.
    pub fn sync(&self) -> Result<(), AccessError> {
        self.inner.file.sync_data().map_err(AccessError::Sync)
    }

    /// How accesses are executed.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.options.mode
    }

    /// One line that reports a difference from the request: io_uring is missing, and what replaces
    /// it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.inner.note.as_deref()
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// How accesses are executed: the mode, or its replacement without a ring.
    fn way(&self) -> Mode {
        let Options { mode, uring, .. } = self.inner.options;
        let is_replaced = !uring && matches!(mode, Mode::Uring | Mode::Spin);
        if is_replaced { Mode::Deferred } else { mode }
    }

    fn read_adaptively(&self, bytes: &mut [u8], offset: u64) -> Outcome {
        let inner = &*self.inner;
        if !inner.options.direct {
            match self.hits.guess(bytes.len()) {
                Guess::Hit => return inner.read(bytes, offset, 0),
                Guess::HitToSee => {
                    let begin = Instant::now();
                    let read = inner.read(bytes, offset, 0);
                    let hit = Hits::is_hit(bytes.len(), begin.elapsed());
                    self.hits.learn(bytes.len(), hit);
                    return read;
                }
                Guess::Miss | Guess::MissToSee => {}
            }
        }
        let class = Class { write: false, bytes: bytes.len() as u64, ahead: false };
        let (begin, how) = self.judge().choose(&class);
        let spin = limit(how);
        let (read, hit) = if spin.is_zero() || !inner.options.uring {
            let read = inner.read(bytes, offset, 0);
            (read, Hits::is_hit(bytes.len(), begin.elapsed()))
        } else {
            self.read_by_ring(bytes, offset, spin)
        };
        let hit = hit && !inner.options.direct;
        self.hits.learn(bytes.len(), hit);
        if !hit {
            self.judge().learn(begin, offset, &class, how);
        }
        read
    }

    /// Also returns whether all was there at once.
    fn read_by_ring(&self, bytes: &mut [u8], offset: u64, spin: Duration) -> (Outcome, bool) {
        let inner = &*self.inner;
        uring::with_own(|ring| {
            // Another thread than the one that opened the file may have none.
            let Ok(ring) = ring else { return (inner.read(bytes, offset, 0), false) };
            let (read, at_once) = ring.read_now(inner.file.as_fd(), bytes, offset, spin);
            (inner.go_on_reading(read, bytes, offset), at_once)
        })
    }

    fn write_by_ring(&self, bytes: &[u8], offset: u64, spin: Duration) -> Result<(), AccessError> {
        let inner = &*self.inner;
        uring::with_own(|ring| {
            let Ok(ring) = ring else { return inner.write(bytes, offset, 0) };
            let (written, _) = ring.write_now(inner.file.as_fd(), bytes, offset, spin);
            inner.go_on_writing(written, bytes, offset)
        })
    }

    /// A worker cannot see the caller's bytes, so they are copied.
    fn read_deferred(&self, bytes: &mut [u8], offset: u64) -> Result<usize, AccessError> {
        let order = Order { write: false, offset, buffer: Buffer::new(bytes.len()), token: 0 };
        let done = self.defer(order)?;
        let read = done.result?;
        bytes[..read].copy_from_slice(&done.buffer[..read]);
        Ok(read)
    }

    fn write_deferred(&self, bytes: &[u8], offset: u64) -> Result<(), AccessError> {
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        let order = Order { write: true, offset, buffer, token: 0 };
        self.defer(order)?.result.map(drop)
    }

    fn defer(&self, order: Order) -> Result<Completion, AccessError> {
        if self.worker.get().is_none() {
            let worker = self.inner.workers(1)?;
            // Of two threads that are first, one wins; the other's worker ends at once.
            let _ = self.worker.set(worker);
        }
        let (answer, done) = bounded(1);
        self.worker.get().expect("there is a worker").send(order, &answer);
        Ok(done.recv().expect("a worker answers every order").into())
    }

    /// The rule is only arithmetic: after a panic in it, it stands as well as before.
    fn judge(&self) -> impl std::ops::DerefMut<Target = Judge> + '_ {
        let new = || Mutex::new(Judge::new(Device::of(&self.inner.file)));
        self.judge.get_or_init(new).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Starts a worker thread for each of `accesses` concurrent accesses.
    pub(super) fn workers(self: &Arc<Self>, accesses: usize) -> Result<Workers, AccessError> {
        let file = Arc::clone(self);
        let work = move |order: &mut Order| file.serve(order);
        let look = processor::costs().idle;
        Workers::start(accesses.min(WORKERS_MAX), look, work).map_err(AccessError::Thread)
    }

    /// Carries an order out on the spot.
    pub(super) fn carry_out(&self, mut order: Order) -> Completion {
        let result = self.serve(&mut order);
        Completion { token: order.token, result, buffer: order.buffer }
    }

    fn serve(&self, order: &mut Order) -> Result<usize, AccessError> {
        let (offset, len) = (order.offset, order.buffer.len());
        if order.write {
            return self.write(&order.buffer, offset, 0).map(|()| len);
        }
        let read = self.read(&mut order.buffer, offset, 0);
        read.map_err(|error| AccessError::Read { offset, len, error })
    }

    /// Ends an order that the ring has executed, or a part of it.
    pub(super) fn end(&self, mut order: Order, outcome: Outcome) -> Completion {
        let (offset, len) = (order.offset, order.buffer.len());
        let result = if order.write {
            self.go_on_writing(outcome, &order.buffer, offset).map(|()| len)
        } else {
            let read = self.go_on_reading(outcome, &mut order.buffer, offset);
            read.map_err(|error| AccessError::Read { offset, len, error })
        };
        Completion { token: order.token, result, buffer: order.buffer }
    }

    /// Checks an access before it begins.
    pub(super) fn check(&self, write: bool, bytes: &[u8], offset: u64) -> Result<(), AccessError> {
        let len = bytes.len();
        if write && !self.options.write {
            return Err(AccessError::ReadOnly { offset });
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(AccessError::Beyond { offset, len });
        }
        if !self.options.direct {
            return Ok(());
        }
        let Alignment { memory, offset: unit } = self.alignment;
        let address = bytes.as_ptr().addr() as u64;
        let parts =
            [("offset", offset, unit), ("length", len as u64, unit), ("address", address, memory)];
        for (what, value, align) in parts {
            if !value.is_multiple_of(align) {
                return Err(AccessError::Unaligned { what, value, align });
            }
        }
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], offset: u64, done: usize) -> Outcome {
        plain::read(&self.file, bytes, offset, done, self.unit())
    }

    fn write(&self, bytes: &[u8], offset: u64, done: usize) -> Result<(), AccessError> {
        plain::write(&self.file, bytes, offset, done).map_err(|(written, error)| {
            AccessError::Write { offset, len: bytes.len(), written, error }
        })
    }

    fn go_on_reading(&self, read: Outcome, bytes: &mut [u8], offset: u64) -> Outcome {
        match read {
            Ok(0) => Ok(0),
            Ok(done) if done == bytes.len() => Ok(done),
            Ok(done) => self.read(bytes, offset, done),
            Err(error) if is_passing(&error) => self.read(bytes, offset, 0),
            Err(error) => Err(error),
        }
    }

    fn go_on_writing(
        &self,
        written: Outcome,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), AccessError> {
        match written {
            Ok(done) => self.write(bytes, offset, done),
            Err(error) if is_passing(&error) => self.write(bytes, offset, 0),
            Err(error) => Err(AccessError::Write { offset, len: bytes.len(), written: 0, error }),
        }
    }

    fn unit(&self) -> u64 {
        if self.options.direct { self.alignment.offset } else { 1 }
    }
}

impl From<Finish> for Completion {
    fn from(finish: Finish) -> Self {
        let Order { offset, buffer, token, .. } = finish.job;
        let result = finish.result.unwrap_or_else(|panicked| {
            let message = panicked.message;
            Err(AccessError::Panicked { offset, message })
        });
        Self { token, result, buffer }
    }
}

/// How long the rule lets a waiter poll for the end.
pub(super) fn limit(how: Handling) -> Duration {
    match how {
        Handling::Deferred => Duration::ZERO,
        Handling::Inline(limit) => Duration::from_nanos(limit.0),
    }
}

/// A signal, or a device without room for more at the moment: a call that sleeps gets through.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Why there is no ring for this thread, and what takes its place.
fn missing_ring(options: Options) -> Option<String> {
    let why = if options.uring {
        uring::with_own(|ring| ring.err().map(ToString::to_string))?
    } else {
        "switched off".to_owned()
    };
    Some(no_ring(options.mode, &why))
}

/// That there is no ring, why, and what takes its place.
pub(super) fn no_ring(mode: Mode, why: &str) -> String {
    let instead = match mode {
        Mode::Adaptive => "plain reads and worker threads take its place",
        Mode::Inline | Mode::Deferred | Mode::Uring | Mode::Spin => "worker threads take its place",
    };
    format!("io_uring cannot be used ({why}); {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::carry_out;

    #[test]
    fn a_worker_s_panic_is_the_result_of_its_access() {
        let order = Order { write: true, offset: 4096, buffer: Buffer::new(512), token: 7 };
        let finish: Finish = carry_out(order, |_| panic!("the dam broke"));
        let Completion { token, result, buffer } = finish.into();
        assert_eq!((token, buffer.len()), (7, 512), "the caller has its own back");
        let said = result.unwrap_err().to_string();
        assert_eq!(said, "the worker panicked that carried out the access at 4096: the dam broke");
    }
}
