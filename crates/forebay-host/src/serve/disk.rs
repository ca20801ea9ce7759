//! The path of the core with its bytes: page memory, buffers, jobs for threads.
//!
//! ```text
//!   request --lock--> path --outputs--> copies                       done in place
//!                      ^                Submit, Zero --> jobs, carried out without the lock
//!                      '---- finish(done) ----------------------'
//! ```
//!
//! The thread that took a request drives the path itself. A request that is ended by it is answered
//! by this thread, in one go with others; whichever thread finishes a job answers what ended by it.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use forebay_core::engine::Policies;
use forebay_core::io::{self as core_io, IoError, RequestKind};
use forebay_core::serving::work::is_inline;
use forebay_core::serving::{
    DiskConfig, DiskCopy, DiskOp, DiskOutput, DiskPath, ExportLevels, ZeroRange,
};
use forebay_core::stats::Stats;
use forebay_core::time::{self, Duration};
use forebay_core::units::PAGE_SIZE;

use super::connection::Connection;
use super::memory::PageMemory;
use super::store::Store;
use crate::frames::{PAGE, Page};
use crate::processor::nanos;

/// The path, its stores, and the threads that wait for them.
#[derive(Debug)]
pub(super) struct Disk {
    state: Mutex<State>,
    /// Rings when a number is free again.
    free: Condvar,
    /// Signalled when the timeout of the path becomes earlier.
    clock: Condvar,
    exports: Vec<ServedStore>,
    origin: Instant,
}

/// A store with its threads.
#[derive(Debug)]
struct ServedStore {
    store: Arc<dyn Store>,
    reads: Sender<Job>,
    writes: Sender<Job>,
    jobs: (Receiver<Job>, Receiver<Job>),
    /// Jobs that have not been executed.
    under_way: AtomicU64,
    /// What the last read took, in nanoseconds.
    took: AtomicU64,
    counters: StoreCounters,
}

/// Requests to a store so far.
#[derive(Debug, Default)]
pub(super) struct StoreCounters {
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) flushes: AtomicU64,
}

#[derive(Debug)]
struct State {
    path: DiskPath,
    memory: PageMemory,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Buffers of jobs, which are used again.
    buffers: Vec<Vec<Page>>,
    /// When the clock will look.
    wakes: Option<time::Instant>,
    is_closed: bool,
}

/// A request in flight.
#[derive(Debug)]
struct Slot {
    owner: Owner,
    bytes: Vec<u8>,
    begun: time::Instant,
}

/// Where the end of a request is reported.
#[derive(Debug)]
pub(super) enum Owner {
    /// A client that is connected.
    Client(Arc<Connection>, forebay_nbd::Request),
    /// A function.
    Call(OnEnd),
}

/// Is called with a request's bytes when it has ended.
pub(super) struct OnEnd(pub(super) EndCall);

type EndCall = Box<dyn FnOnce(Vec<u8>, Result<(), IoError>) + Send>;

/// A request that has ended.
#[derive(Debug)]
pub(super) struct EndedRequest {
    pub(super) owner: Owner,
    pub(super) bytes: Vec<u8>,
    pub(super) result: Result<(), IoError>,
    /// When it was begun.
    pub(super) begun: time::Instant,
    /// It did not end at once.
    pub(super) waited: bool,
}

/// The results of some inputs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) ended: Vec<EndedRequest>,
    jobs: Vec<Job>,
}

/// Work for a device.
#[derive(Debug)]
struct Job {
    work: Work,
    export: usize,
    buffer: Vec<Page>,
    /// Bytes of the buffer that lie in the export.
    len: usize,
}

#[derive(Debug)]
enum Work {
    Device(core_io::Request),
    Zero(ZeroRange),
}

/// An executed job; for one that zeroes, whether the store can.
struct DoneJob {
    job: Job,
    result: Result<bool, IoError>,
    took: Duration,
}

impl Disk {
    /// A path over some stores, with an empty cache. Its threads are [started](Self::start) later.
    pub(super) fn new(
        config: &DiskConfig,
        policies: Policies,
        stores: Vec<Arc<dyn Store>>,
    ) -> Self {
        let mut path = DiskPath::new(config, policies);
        let export = |store: Arc<dyn Store>| {
            path.add_export(store.bytes());
            let ((reads, read), (writes, write)) = (unbounded(), unbounded());
            let (under_way, took) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
            let counters = StoreCounters::default();
            ServedStore { store, reads, writes, jobs: (read, write), under_way, took, counters }
        };
        let exports = stores.into_iter().map(export).collect();
        let state = State {
            path,
            memory: PageMemory::default(),
            slots: (0..config.requests_max).map(|_| None).collect(),
            free: (0..config.requests_max).rev().collect(),
            buffers: Vec::new(),
            wakes: None,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            free: Condvar::new(),
            clock: Condvar::new(),
            exports,
            origin: Instant::now(),
        }
    }

    /// Starts the clock and, for each store, `threads` readers and half as many writers.
    /// They end when the process does.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(self: &Arc<Self>, threads: usize) -> io::Result<()> {
        let named = |name: String| thread::Builder::new().name(name);
        for (number, export) in self.exports.iter().enumerate() {
            let (reads, writes) = &export.jobs;
            let kinds = [("read", reads, threads), ("write", writes, threads.div_ceil(2))];
            for (kind, jobs, count) in kinds {
                for _ in 0..count {
                    let (jobs, disk) = (jobs.clone(), Arc::clone(self));
                    named(format!("{kind}-{number}")).spawn(move || {
                        for job in jobs {
                            disk.carry_on(job);
                        }
                    })?;
                }
            }
        }
        let disk = Arc::clone(self);
        named("clock".to_owned()).spawn(move || disk.run_clock())?;
        Ok(())
    }

    /// A client begins to use an export.
    pub(super) fn open(&self, export: usize) -> u32 {
        self.lock().path.open(export as u32)
    }

    /// A client has gone; its requests have ended.
    pub(super) fn close(&self, client: u32) {
        self.lock().path.close(client);
    }

    /// Begins a request. `bytes` is the data to write, or memory for the data to read.
    pub(super) fn request(
        &self,
        client: u32,
        op: DiskOp,
        (owner, bytes): (Owner, Vec<u8>),
        outcome: &mut Outcome,
    ) {
        let mut state = self.lock();
        while state.free.is_empty() {
            // Those in flight are with threads that end them.
            drop(state);
            self.send_jobs(outcome);
            state = self.lock();
            if state.free.is_empty() {
                state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let number = state.free.pop().expect("there is one");
        let now = self.now();
        state.slots[number as usize] = Some(Slot { owner, bytes, begun: now });
        state.path.request(now, number, client, op);
        self.take_outputs(&mut state, outcome, true);
    }

    /// Executes started work: on other threads, or on this one if that is quicker and no other
    /// request waits for this thread.
    pub(super) fn dispatch(&self, outcome: &mut Outcome, is_last: bool) {
        if is_last && let [job] = &outcome.jobs[..] {
            let export = &self.exports[job.export];
            let took = Duration(export.took.load(Relaxed));
            if job.is_read() && is_inline(export.under_way.load(Relaxed), took) {
                let job = outcome.jobs.pop().expect("there is one");
                export.under_way.fetch_add(1, Relaxed);
                let done = self.carry_out(job);
                self.finish(done, outcome);
            }
        }
        self.send_jobs(outcome);
    }

    /// Brings all that was acknowledged to disk, through a client of each export, until a moment.
    ///
    /// # Errors
    /// The export, and what failed; nothing if there was not time enough.
    pub(super) fn flush_all(
        &self,
        clients: &[u32],
        until: Instant,
    ) -> Result<(), (usize, Option<IoError>)> {
        let ends: Vec<_> = clients.iter().map(|client| self.begin_flush(*client)).collect();
        let mut first = Ok(());
        for (export, end) in ends.into_iter().enumerate() {
            let result = match end.recv_deadline(until) {
                Ok(result) => result.map_err(Some),
                Err(RecvTimeoutError::Timeout) => Err(None),
                Err(RecvTimeoutError::Disconnected) => Err(Some(IoError::Device)),
            };
            first = first.and(result.map_err(|error| (export, error)));
        }
        first
    }

    fn begin_flush(&self, client: u32) -> Receiver<Result<(), IoError>> {
        let (sender, receiver) = unbounded();
        let mut outcome = Outcome::default();
        // A thread that has stopped waiting needs no answer.
        let end = OnEnd(Box::new(move |_, result| {
            let _ = sender.send(result);
        }));
        self.request(client, DiskOp::Flush, (Owner::Call(end), Vec::new()), &mut outcome);
        self.dispatch(&mut outcome, false);
        self.answer(outcome.ended);
        receiver
    }

    /// Runs of bytes that the store of an export may not have as they are.
    pub(super) fn unsafe_runs(
        &self,
        export: usize,
        (offset, len): (u64, u64),
        most: usize,
    ) -> Vec<(u64, u64)> {
        self.lock().path.unsafe_runs(export as u32, offset, len, most)
    }

    /// The store of an export.
    pub(super) fn store(&self, export: usize) -> &dyn Store {
        &*self.exports[export].store
    }

    /// Requests to the store of an export so far.
    pub(super) fn counters(&self, export: usize) -> &StoreCounters {
        &self.exports[export].counters
    }

    /// An export has grown.
    pub(super) fn grow(&self, export: usize, bytes: u64) {
        self.lock().path.grow(export as u32, bytes);
    }

    /// The counters of the engine, pages in memory, and the current state of each export.
    pub(super) fn look(&self) -> (Stats, u64, Vec<ExportLevels>) {
        let state = self.lock();
        (state.path.stats(), state.path.resident_pages(), state.path.export_levels())
    }

    /// The clock ends.
    pub(super) fn end(&self) {
        self.lock().is_closed = true;
        self.clock.notify_all();
    }

    /// Executes a job, and the work that follows.
    fn carry_on(&self, job: Job) {
        let done = self.carry_out(job);
        let mut outcome = Outcome::default();
        self.finish(done, &mut outcome);
        self.send_jobs(&mut outcome);
        self.answer(outcome.ended);
    }

    /// Tells the owners of requests that these have ended.
    pub(super) fn answer(&self, ended: Vec<EndedRequest>) {
        if ended.is_empty() {
            return;
        }
        let now = self.now();
        for EndedRequest { owner, bytes, result, begun, .. } in ended {
            match owner {
                Owner::Client(connection, request) => {
                    connection.answer_one(&request, bytes, result, now.since(begun));
                }
                Owner::Call(end) => (end.0)(bytes, result),
            }
        }
    }

    fn send_jobs(&self, outcome: &mut Outcome) {
        for job in outcome.jobs.drain(..) {
            let export = &self.exports[job.export];
            export.under_way.fetch_add(1, Relaxed);
            let threads = if job.is_read() { &export.reads } else { &export.writes };
            assert!(threads.send(job).is_ok(), "the other end is kept beside this one");
        }
    }

    /// Carries a job out. It needs no lock.
    fn carry_out(&self, mut job: Job) -> DoneJob {
        let begin = Instant::now();
        let export = &self.exports[job.export];
        // A store that breaks down costs its request.
        let carried = catch_unwind(AssertUnwindSafe(|| job.carry_out(export)));
        let result = carried.unwrap_or(Err(IoError::Device));
        let took = Duration(nanos(begin.elapsed()));
        if job.is_read() {
            export.took.store(took.0, Relaxed);
        }
        export.under_way.fetch_sub(1, Relaxed);
        DoneJob { job, result, took }
    }

    fn finish(&self, done: DoneJob, outcome: &mut Outcome) {
        let DoneJob { job, result, took } = done;
        let mut guard = self.lock();
        let (state, now) = (&mut *guard, self.now());
        match &job.work {
            Work::Device(request) => {
                if request.kind.is_read() && result.is_ok() {
                    for (frame, page) in state.path.frames_of(request).zip(&job.buffer) {
                        state.memory.copy_in((frame, 0), &page.0);
                    }
                }
                state.path.done(now, request, result.map(drop), took);
            }
            Work::Zero(range) => state.path.zeroed(now, range.request, result),
        }
        if state.buffers.len() < BUFFERS_KEPT {
            state.buffers.push(job.buffer);
        }
        self.take_outputs(state, outcome, false);
    }

    fn take_outputs(&self, state: &mut State, outcome: &mut Outcome, at_once: bool) {
        while let Some(output) = state.path.poll_output() {
            match output {
                DiskOutput::Copy(copy) => state.copy(&copy),
                DiskOutput::Submit(request) => outcome.jobs.push(state.device_job(request)),
                DiskOutput::Zero(range) => outcome.jobs.push(Job {
                    export: range.export as usize,
                    work: Work::Zero(range),
                    buffer: Vec::new(),
                    len: 0,
                }),
                DiskOutput::End(number, result) => {
                    let slot = state.slots[number as usize].take();
                    let Slot { owner, bytes, begun } = slot.expect("a request ends once");
                    let ended = EndedRequest { owner, bytes, result, begun, waited: !at_once };
                    outcome.ended.push(ended);
                    if state.free.is_empty() {
                        self.free.notify_all();
                    }
                    state.free.push(number);
                }
            }
        }
        let wanted = state.path.poll_timeout();
        if wanted.is_some_and(|at| state.wakes.is_none_or(|wakes| at < wakes)) {
            state.wakes = wanted;
            self.clock.notify_one();
        }
    }

    /// Calls the path at its timeouts.
    fn run_clock(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let now = self.now();
            state.wakes = state.path.poll_timeout();
            match state.wakes {
                Some(at) if at <= now => {
                    let mut outcome = Outcome::default();
                    state.path.timeout(now);
                    self.take_outputs(&mut state, &mut outcome, false);
                    drop(state);
                    self.send_jobs(&mut outcome);
                    self.answer(outcome.ended);
                    state = self.lock();
                }
                Some(at) => {
                    let length = std::time::Duration::from_nanos(at.since(now).0);
                    let waited = self.clock.wait_timeout(state, length);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    state = self.clock.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the path.
    pub(super) fn now(&self) -> time::Instant {
        time::Instant(nanos(self.origin.elapsed()))
    }
}

impl fmt::Debug for OnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnEnd").finish_non_exhaustive()
    }
}

impl State {
    fn copy(&mut self, copy: &DiskCopy) {
        let (at, len) = ((copy.frame, copy.start), copy.len as usize);
        if copy.zeroes {
            self.memory.zero(at, len);
            return;
        }
        let slot = self.slots[copy.request as usize].as_mut().expect("a request is in flight");
        if copy.to_frames {
            let start = copy.at as usize;
            self.memory.copy_in(at, &slot.bytes[start..start + len]);
        } else {
            assert_eq!(slot.bytes.len() as u64, copy.at, "bytes come in order");
            self.memory.append(at, len, &mut slot.bytes);
        }
    }

    fn device_job(&mut self, request: core_io::Request) -> Job {
        let (export, len) = self.path.place_of(&request);
        let mut buffer = Vec::new();
        if request.kind != RequestKind::Flush {
            buffer = self.buffers.pop().unwrap_or_default();
            buffer.resize(request.pages as usize, Page([0; PAGE]));
        }
        if request.kind.is_data_write() {
            for (frame, page) in self.path.frames_of(&request).zip(&mut buffer) {
                self.memory.copy_out((frame, 0), &mut page.0);
            }
        }
        Job { work: Work::Device(request), export: export as usize, buffer, len: len as usize }
    }
}

impl Job {
    fn is_read(&self) -> bool {
        matches!(&self.work, Work::Device(request) if request.kind.is_read())
    }

    fn carry_out(&mut self, export: &ServedStore) -> Result<bool, IoError> {
        let counters = &export.counters;
        let request = match self.work {
            Work::Device(request) => request,
            Work::Zero(range) => {
                counters.writes.fetch_add(1, Relaxed);
                return export.store.zero(range.offset, range.len, range.hole).map_err(io_error);
            }
        };
        match request.kind {
            RequestKind::Read => {
                counters.reads.fetch_add(1, Relaxed);
                counters.read_bytes.fetch_add(self.len as u64, Relaxed);
                self.read(&*export.store, request.first * PAGE_SIZE)?;
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                counters.writes.fetch_add(1, Relaxed);
                counters.written_bytes.fetch_add(self.len as u64, Relaxed);
                let durable = request.kind == RequestKind::DurableWrite;
                self.write(&*export.store, request.first * PAGE_SIZE, durable)?;
            }
            RequestKind::Flush => {
                counters.flushes.fetch_add(1, Relaxed);
                export.store.flush().map_err(io_error)?;
            }
            RequestKind::Inode => unreachable!("exports have no metadata of their own"),
        }
        Ok(true)
    }

    fn read(&mut self, store: &dyn Store, offset: u64) -> Result<(), IoError> {
        let mut done = 0;
        while done < self.len {
            // A short transfer continues at a page's start.
            let whole = done / PAGE;
            let pages = &mut self.buffer[whole..];
            let mut slices: Vec<IoSliceMut<'_>> =
                pages.iter_mut().map(|page| IoSliceMut::new(&mut page.0)).collect();
            match store.read(&mut slices, offset + (whole * PAGE) as u64) {
                Ok(read) if whole * PAGE + read > done => done = whole * PAGE + read,
                // It was longer when it was opened.
                Ok(_) => return Err(IoError::Truncated),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(error)),
            }
        }
        let tail = self.len % PAGE;
        if let (Some(last), true) = (self.buffer.last_mut(), tail > 0) {
            last.0[tail..].fill(0);
        }
        Ok(())
    }

    fn write(&self, store: &dyn Store, offset: u64, durable: bool) -> Result<(), IoError> {
        let (pages, tail) = (self.len / PAGE, self.len % PAGE);
        // The last page of an export is written separately: it is not a whole page.
        write_pages(store, &self.buffer[..pages], PAGE, (offset, durable))?;
        if tail > 0 {
            let at = offset + (pages * PAGE) as u64;
            write_pages(store, &self.buffer[pages..=pages], tail, (at, durable))?;
        }
        Ok(())
    }
}

/// Writes the given number of bytes of each page.
fn write_pages(
    store: &dyn Store,
    pages: &[Page],
    each: usize,
    (offset, durable): (u64, bool),
) -> Result<(), IoError> {
    let (len, mut done) = (pages.len() * each, 0);
    while done < len {
        let whole = done / PAGE;
        let slices: Vec<IoSlice<'_>> =
            pages[whole..].iter().map(|page| IoSlice::new(&page.0[..each])).collect();
        match store.write(&slices, offset + (whole * PAGE) as u64, durable) {
            Ok(written) if whole * PAGE + written > done => done = whole * PAGE + written,
            Ok(_) => return Err(IoError::NoSpace),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(io_error(error)),
        }
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn io_error(error: io::Error) -> IoError {
    use ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kind = error.kind();
    if matches!(kind, StorageFull | QuotaExceeded | FileTooLarge) {
        IoError::NoSpace
    } else if kind == ReadOnlyFilesystem {
        IoError::ReadOnly
    } else {
        IoError::Device
    }
}

/// Buffers that are kept for later jobs: 64 of 1 MiB.
const BUFFERS_KEPT: usize = 64;
