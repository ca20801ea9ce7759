//! Requests in flight: to worker threads and back, or executed at once.

use std::array;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use forebay_core::dispatch::Handling;
use forebay_core::io::{Request, RequestKind};
use forebay_core::units::{FrameId, PAGE_SIZE};

use crate::backend::Backend;
use crate::failure::Cause;
use crate::files::FileMap;
use crate::frames::{PAGE, Page};
use crate::workers::{self, Workers};

/// The largest number of worker threads.
pub const WORKERS_MAX: usize = 256;

/// A request with the pages that it fills, or with a copy of the bytes that it writes.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) lists: Lists,
}

/// Memory of a job, used again by later ones.
#[derive(Default)]
pub(crate) struct Lists {
    /// Of a read: the frames, and the pages that are lent from them.
    pub(crate) frames: Vec<FrameId>,
    pub(crate) pages: Vec<Box<Page>>,
    /// Of a write: what its pages held when it was submitted.
    pub(crate) bytes: Vec<u8>,
}

/// An executed job.
pub(crate) struct Finish {
    pub(crate) job: Job,
    pub(crate) result: Result<(), Cause>,
    /// How long its execution took.
    pub(crate) took: Duration,
}

type Done = workers::Finish<Job, Result<(), Cause>>;

/// Queues of jobs to the workers and back. There are no more jobs than frames, so the queues need
/// no limit.
pub(crate) struct Dispatcher {
    files: Arc<FileMap>,
    pool: Option<Pool>,
    arrived: VecDeque<Finish>,
    busy: Busy,
    /// Empty lists of finished jobs, used again by later ones.
    spare: Vec<Lists>,
}

/// Workers, and where their jobs come back.
struct Pool {
    workers: Workers<Job, Result<(), Cause>>,
    answer: Sender<Done>,
    done: Receiver<Done>,
}

/// The union of the times in which jobs are under way.
#[derive(Default)]
struct Busy {
    jobs: usize,
    since: Option<Instant>,
    last: Option<Instant>,
    total: Duration,
}

impl Dispatcher {
    /// Starts the worker threads, if there are to be any.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(files: Arc<FileMap>, workers: Option<usize>) -> io::Result<Self> {
        let pool = workers.map(|count| Pool::start(&files, count)).transpose()?;
        let (arrived, busy, spare) = (VecDeque::new(), Busy::default(), Vec::new());
        Ok(Self { files, pool, arrived, busy, spare })
    }

    /// Empty lists for the next job.
    pub(crate) fn lists(&mut self) -> Lists {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes emptied lists back.
    pub(crate) fn recycle(&mut self, mut lists: Lists) {
        assert!(lists.frames.is_empty() && lists.pages.is_empty(), "pages return to their frames");
        lists.bytes.clear();
        self.spare.push(lists);
    }

    /// Submits a job, or executes it at once. A blocking read cannot be cancelled, so a limit on
    /// its inline time has no effect.
    pub(crate) fn submit(&mut self, job: Job) {
        // Returned jobs are counted first, so that a pause in between is no busy time.
        self.collect();
        self.busy.begin(Instant::now());
        match (&self.pool, job.request.handling) {
            (Some(pool), Handling::Deferred) => pool.workers.send(job, &pool.answer),
            (None, _) | (_, Handling::Inline(_)) => {
                let done = workers::carry_out(job, |job| job.carry_out(&self.files));
                self.arrive(done);
            }
        }
    }

    /// The next job that has come back, if one has.
    pub(crate) fn poll(&mut self) -> Option<Finish> {
        if self.arrived.is_empty() {
            self.collect();
        }
        self.arrived.pop_front()
    }

    /// Waits until a job has come back or until `until`.
    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        let Some(pool) = self.pool.as_ref().filter(|_| self.busy.jobs > 0) else {
            let until = until.expect("a wait is for a request or for a moment");
            thread::sleep(until.saturating_duration_since(Instant::now()));
            return;
        };
        let received = match until {
            Some(until) => pool.done.recv_deadline(until),
            None => pool.done.recv().map_err(Into::into),
        };
        match received {
            Ok(done) => self.arrive(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender of answers is kept here"),
        }
    }

    /// Whether every job has come back and was polled.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.jobs == 0 && self.arrived.is_empty()
    }

    /// For how long at least one job was under way.
    pub(crate) fn busy(&self) -> Duration {
        self.busy.total
    }

    fn collect(&mut self) {
        while let Some(done) = self.pool.as_ref().and_then(|pool| pool.done.try_recv().ok()) {
            self.arrive(done);
        }
    }

    fn arrive(&mut self, done: Done) {
        self.busy.end(done.at);
        // A panic costs this request; its pages are filled afresh before any use.
        let result = done.result.unwrap_or_else(|panicked| {
            let message = panicked.message;
            Err(Cause::Panicked { message })
        });
        self.arrived.push_back(Finish { job: done.job, result, took: done.took });
    }
}

impl Pool {
    fn start(files: &Arc<FileMap>, count: usize) -> io::Result<Self> {
        assert!(count <= WORKERS_MAX, "there are no more workers than that");
        let files = Arc::clone(files);
        let workers =
            Workers::start(count, Duration::ZERO, move |job: &mut Job| job.carry_out(&files))?;
        let (answer, done) = unbounded();
        Ok(Self { workers, answer, done })
    }
}

impl Busy {
    fn begin(&mut self, now: Instant) {
        self.jobs += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, at: Instant) {
        self.jobs -= 1;
        let last = self.last.map_or(at, |last| last.max(at));
        self.last = Some(last);
        if self.jobs == 0 {
            let since = self.since.take().expect("what ends has begun");
            self.total += last.saturating_duration_since(since);
        }
    }
}

impl Job {
    fn carry_out(&mut self, files: &FileMap) -> Result<(), Cause> {
        let device = files.backends()[self.request.device.index()].as_ref();
        let sync = || device.sync().map_err(|error| Cause::Sync { error });
        match self.request.kind {
            RequestKind::Read => self.fill(files),
            RequestKind::Write => self.write(files),
            RequestKind::DurableWrite => self.write(files).and_then(|()| sync()),
            RequestKind::Flush => sync(),
            RequestKind::Inode | RequestKind::Discard => {
                unreachable!("no file of this world has an inode of its own or discards")
            }
        }
    }

    /// Writes the bytes.
    fn write(&self, files: &FileMap) -> Result<(), Cause> {
        let backend = files.backend(self.request.file);
        let base = files.place(self.request.file).base + self.request.first * PAGE_SIZE;
        let len = self.lists.bytes.len() as u64;
        let mut rest = &self.lists.bytes[..];
        while !rest.is_empty() {
            let error = match backend.write_at(rest, base + len - rest.len() as u64) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = &rest[written..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(Cause::Write { len, error });
        }
        Ok(())
    }

    /// Reads the pages; behind the end of the file they hold zeroes.
    fn fill(&mut self, files: &FileMap) -> Result<(), Cause> {
        let place = files.place(self.request.file);
        let start = self.request.first * PAGE_SIZE;
        let len = (self.request.pages * PAGE_SIZE).min(place.len - start);
        let source = Source { backend: files.backend(self.request.file), base: place.base + start };
        let mut filled = 0;
        while filled < len {
            match source.read(&mut self.lists.pages, filled, len) {
                Ok(0) => return Err(Cause::Truncated { len, found: filled }),
                Ok(read) => filled += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Cause::Read { len, error }),
            }
        }
        let tail = (len % PAGE_SIZE) as usize;
        if let (Some(last), true) = (self.lists.pages.last_mut(), tail > 0) {
            last.0[tail..].fill(0);
        }
        Ok(())
    }
}

/// The bytes of one request.
struct Source<'a> {
    backend: &'a dyn Backend,
    base: u64,
}

impl Source<'_> {
    /// One scattered read into the bytes `[filled, len)` of the pages, or a part of them.
    fn read(&self, pages: &mut [Box<Page>], filled: u64, len: u64) -> io::Result<usize> {
        let mut slices: [IoSliceMut<'_>; SLICES] = array::from_fn(|_| IoSliceMut::new(&mut []));
        let (mut at, mut count) = (filled, 0);
        let first = (filled / PAGE_SIZE) as usize;
        for (slice, page) in slices.iter_mut().zip(&mut pages[first..]) {
            let start = (at % PAGE_SIZE) as usize;
            let size = ((PAGE - start) as u64).min(len - at);
            *slice = IoSliceMut::new(&mut page.0[start..start + size as usize]);
            at += size;
            count += 1;
        }
        let read = self.backend.read_vectored_at(&mut slices[..count], self.base + filled)?;
        assert!(read as u64 <= at - filled, "a backend reads no more than it was asked for");
        Ok(read)
    }
}

/// Pages that one system call fills: 256 KiB, beyond which its fixed cost does not matter, and a
/// list of 1 KiB on the stack.
const SLICES: usize = 64;

#[cfg(test)]
mod tests {
    use forebay_core::units::{DeviceId, FileId, RequestId};

    use super::*;
    use crate::backend::MemBackend;
    use crate::files::Place;

    #[test]
    fn the_last_page_holds_zeroes_behind_the_file_and_not_what_lies_there() {
        let mut files = FileMap::new();
        let backend = files.add_backend(Arc::new(MemBackend::new(vec![7; 3 * PAGE])));
        files.add_file(Place { backend, base: 512, len: PAGE_SIZE + 5 }).unwrap();
        let (id, device, file) = (RequestId(0), DeviceId(0), FileId(0));
        let (kind, handling) = (RequestKind::Read, Handling::Deferred);
        let request = Request {
            id,
            device,
            file,
            first: 0,
            pages: 2,
            sector: 1,
            sectors: 16,
            kind,
            handling,
            task: None,
        };
        let pages = vec![Box::new(Page([9; PAGE])); 2];
        let mut job = Job { request, lists: Lists { pages, ..Lists::default() } };
        assert!(job.fill(&files).is_ok());
        assert_eq!(job.lists.pages[0].0, [7; PAGE]);
        assert_eq!(job.lists.pages[1].0[..6], [7, 7, 7, 7, 7, 0]);
        assert!(job.lists.pages[1].0[6..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_request_longer_than_one_system_call_is_filled_to_its_end() {
        let bytes: Vec<u8> = (0..(2 * SLICES + 3) * PAGE).map(|at| (at / 1_000) as u8).collect();
        let files = FileMap::one_each([Arc::new(MemBackend::new(bytes.clone())) as _]);
        let (id, device, file) = (RequestId(0), DeviceId(0), FileId(0));
        let count = 2 * SLICES + 3;
        let (kind, handling) = (RequestKind::Read, Handling::Deferred);
        let request = Request {
            id,
            device,
            file,
            first: 0,
            pages: count as u64,
            sector: 0,
            sectors: count as u64 * 8,
            kind,
            handling,
            task: None,
        };
        let pages = vec![Box::new(Page([0; PAGE])); count];
        let mut job = Job { request, lists: Lists { pages, ..Lists::default() } };
        assert!(job.fill(&files).is_ok());
        let filled: Vec<u8> = job.lists.pages.iter().flat_map(|page| page.0).collect();
        assert!(filled == bytes);
    }

    #[test]
    fn overlapping_jobs_count_once_and_pauses_do_not_count() {
        let origin = Instant::now();
        let at = |micros| origin + Duration::from_micros(micros);
        let mut busy = Busy::default();
        busy.begin(at(0));
        busy.begin(at(10));
        busy.end(at(30));
        busy.end(at(20));
        busy.begin(at(100));
        busy.end(at(101));
        assert_eq!(busy.total, Duration::from_micros(31));
    }
}
