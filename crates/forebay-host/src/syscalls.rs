//! Tasks executed by the kernel itself: each a thread, each call a system call.
//!
//! ```text
//!   task   Call(Read)     Call(Write)    Call(Sync)   Call(Fault)      Call(Advise)
//!   thread pread          pwrite         fdatasync    touch of a map   posix_fadvise
//! ```
//!
//! A machine in virtual time predicts this run: page cache, readahead and writeback are the
//! kernel's own. Every handle is a separate file description with its own readahead.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{self, Instant as Clock};

use forebay_core::io::{Advice, IoError, Op};
use forebay_core::readahead::{MapAdvice, Mapping, Pattern};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use rustix::fs::{Advice as FileAdvice, fadvise};
use thiserror::Error;

use crate::files::Place;
use crate::mapped::Mapped;
use crate::pattern;
use crate::processor::nanos;
use crate::world::READ_BYTES_MAX;

/// A file, or a part of one, as one task has it open.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    place: Place,
    /// Made by the first touch.
    map: OnceLock<Mapped>,
}

/// The results of the tasks.
#[derive(Debug)]
pub struct KernelOutcome {
    /// Every call that ended, task by task.
    pub finished: Vec<Finished>,
    /// From the first task's first step to the last task's exit.
    pub elapsed: Duration,
    /// The same, until all that was written was on disk.
    pub durable: Duration,
}

/// Why tasks could not be executed.
#[derive(Debug, Error)]
pub enum KernelError {
    /// A call failed.
    #[error("{what} at byte {offset} failed: {error}")]
    Call {
        /// The operation.
        what: &'static str,
        /// The place in the whole file.
        offset: u64,
        /// The reported error.
        error: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A task asked for what the kernel has no call for.
    #[error("a task asks for what no system call does: {0:?}")]
    Unsupported(Op),
}

impl OpenFile {
    /// Opens the bytes of a place anew.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, place: Place, write: bool) -> io::Result<Self> {
        let file = File::options().read(true).write(write).open(path)?;
        Ok(Self { file, place, map: OnceLock::new() })
    }

    /// Touches a page through the map.
    fn touch(&self, page: u64, mapping: Mapping) -> io::Result<()> {
        let map = match self.map.get() {
            Some(map) => map,
            None => {
                let map = Mapped::new(&self.file)?;
                if let Some(advice) = said_of_map(mapping.advice) {
                    map.advise(advice)?;
                }
                self.map.get_or_init(|| map)
            }
        };
        map.touch(self.place.base + page * PAGE_SIZE);
        Ok(())
    }
}

/// Runs the tasks to their ends, each on a thread; `files` are the handles by their numbers.
///
/// Dirty pages are written first, so that a task that drops pages drops all of its own.
///
/// # Errors
/// The first call that failed.
pub fn run(
    files: Vec<OpenFile>,
    tasks: Vec<Box<dyn Workload + Send>>,
) -> Result<KernelOutcome, KernelError> {
    let files = Arc::new(files);
    sync_all(&files)?;
    let begin = Clock::now();
    let mut threads = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        let files = Arc::clone(&files);
        let id = CallId(number as u32);
        let named = thread::Builder::new().name(format!("task-{number}"));
        let thread = named.spawn(move || Runner::new(id, &files, begin).run(task));
        threads.push(thread.map_err(KernelError::Thread)?);
    }
    let mut finished = Vec::new();
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(calls)) => finished.extend(calls),
            Ok(Err(error)) => failed = failed.or(Some(error)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let elapsed = Duration(nanos(begin.elapsed()));
    sync_all(&files)?;
    Ok(KernelOutcome { finished, elapsed, durable: Duration(nanos(begin.elapsed())) })
}

fn sync_all(files: &[OpenFile]) -> Result<(), KernelError> {
    let failed = |error| KernelError::Call { what: "a sync", offset: 0, error };
    files.iter().try_for_each(|file| file.file.sync_data().map_err(failed))
}

/// One task on its thread.
struct Runner<'a> {
    id: CallId,
    files: &'a [OpenFile],
    begin: Clock,
    buffer: Vec<u8>,
}

impl<'a> Runner<'a> {
    fn new(id: CallId, files: &'a [OpenFile], begin: Clock) -> Self {
        Self { id, files, begin, buffer: Vec::new() }
    }

    fn now(&self) -> Instant {
        Instant(nanos(self.begin.elapsed()))
    }

    fn run(mut self, mut task: Box<dyn Workload + Send>) -> Result<Vec<Finished>, KernelError> {
        let mut finished = Vec::new();
        loop {
            match task.next(self.now()) {
                Step::Call(op) => {
                    self.prepare(op);
                    let issued = self.now();
                    let result = self.call(op)?;
                    let done = self.now();
                    finished.push(Finished { task: self.id, op, issued, done, result });
                }
                Step::Compute(length) => {
                    let end = self.now() + length;
                    while self.now() < end {
                        std::hint::spin_loop();
                    }
                }
                Step::Sleep(until) => {
                    let length = until.since(self.now().min(until));
                    thread::sleep(time::Duration::from_nanos(length.as_nanos()));
                }
                Step::Exit => return Ok(finished),
            }
        }
    }

    /// A caller has its buffer, and the bytes of a write, before it calls.
    fn prepare(&mut self, op: Op) {
        let (Op::Read { len, .. } | Op::Write { len, .. }) = op else { return };
        let len = len.min(READ_BYTES_MAX) as usize;
        let had = self.buffer.len();
        if had < len {
            self.buffer.resize(len, 0);
            pattern::fill(&mut self.buffer[had..], had as u64, 1);
        }
    }

    fn call(&mut self, op: Op) -> Result<Result<u64, IoError>, KernelError> {
        let result = match op {
            Op::Read { handle, offset, len } => {
                let (file, at, len) = self.part(handle, offset, len);
                let read = file.file.read_at(&mut self.buffer[..len], at);
                (read.map(|read| read as u64), "a read", at)
            }
            Op::Write { handle, offset, len, durable } => {
                let (file, at, len) = self.part(handle, offset, len);
                let wrote = file.file.write_all_at(&self.buffer[..len], at);
                let wrote =
                    wrote.and_then(|()| if durable { file.file.sync_data() } else { Ok(()) });
                (wrote.map(|()| len as u64), "a write", at)
            }
            Op::Sync { handle } => {
                let synced = self.files[handle.index()].file.sync_data();
                (synced.map(|()| 0), "a sync", 0)
            }
            Op::Fault { handle, page, write: false, mapping } => {
                let file = &self.files[handle.index()];
                let at = file.place.base + page * PAGE_SIZE;
                (file.touch(page, mapping).map(|()| 0), "a touch", at)
            }
            Op::Advise { handle, advice, offset, len } => {
                let OpenFile { file, place, .. } = &self.files[handle.index()];
                let at = place.base + offset;
                let advised = fadvise(file, at, NonZeroU64::new(len), said(advice));
                (advised.map(|()| 0).map_err(Into::into), "advice", at)
            }
            Op::Fault { .. } | Op::Truncate { .. } | Op::Discard { .. } | Op::Direct { .. } => {
                return Err(KernelError::Unsupported(op));
            }
        };
        match result {
            (Ok(moved), ..) => Ok(Ok(moved)),
            (Err(error), what, offset) => Err(KernelError::Call { what, offset, error }),
        }
    }

    /// The file of a handle, the place in it, and how much of a request lies inside.
    fn part(&self, handle: HandleId, offset: u64, len: u64) -> (&'a OpenFile, u64, usize) {
        let file = &self.files[handle.index()];
        let len = len.min(READ_BYTES_MAX).min(file.place.len.saturating_sub(offset));
        (file, file.place.base + offset, len as usize)
    }
}

fn said(advice: Advice) -> FileAdvice {
    match advice {
        Advice::Pattern(Pattern::Normal) => FileAdvice::Normal,
        Advice::Pattern(Pattern::Random) => FileAdvice::Random,
        Advice::Pattern(Pattern::Sequential) => FileAdvice::Sequential,
        Advice::WillNeed => FileAdvice::WillNeed,
        Advice::DontNeed => FileAdvice::DontNeed,
        Advice::NoReuse => FileAdvice::NoReuse,
    }
}

/// The advice for a mapping, in the kernel's terms.
fn said_of_map(advice: MapAdvice) -> Option<memmap2::Advice> {
    match advice {
        MapAdvice::Normal => None,
        MapAdvice::Sequential => Some(memmap2::Advice::Sequential),
        MapAdvice::Random => Some(memmap2::Advice::Random),
        MapAdvice::Huge => Some(memmap2::Advice::HugePage),
    }
}
