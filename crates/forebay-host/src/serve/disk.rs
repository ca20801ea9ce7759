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
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use forebay_core::engine::Policies;
use forebay_core::io::{self as core_io, IoError, RequestKind};
use forebay_core::serving::work::is_inline;
use forebay_core::serving::{DiskConfig, DiskCopy, DiskOp, DiskOutput, DiskPath, ExportLevels};
use forebay_core::stats::Stats;
use forebay_core::time::{self, Duration};

use super::client_io::{ClientIo, RingRead};
use super::connection::Connection;
use super::job::{Job, JobError, StoreCounters, Work};
use super::job_threads::{JobThreads, Unthreaded};
use super::memory::PageMemory;
use super::source_state::SourceState;
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
    started: OnceLock<Started>,
}

/// What threads need that are started later.
struct Started {
    disk: Weak<Disk>,
    /// Threads that read, for each store.
    threads: usize,
    log: DiskLog,
}

/// Is called with what happens to the store of an export.
pub(super) type DiskLog = Box<dyn Fn(usize, DiskEvent<'_>) + Send + Sync>;

/// What happens to a store.
#[derive(Debug)]
pub(super) enum DiskEvent<'a> {
    /// It fails from now on.
    Fails(&'a str),
    /// It no longer fails.
    Answers,
    /// No thread can be started for it, so its requests are carried out one after the other.
    Unthreaded(&'a io::Error),
}

/// A store with its threads.
#[derive(Debug)]
struct ServedStore {
    store: Arc<dyn Store>,
    reads: JobThreads<Job>,
    writes: JobThreads<Job>,
    source: SourceState,
    /// The lack of a thread was logged.
    is_unthreaded: AtomicBool,
    /// Jobs that have not been executed.
    under_way: AtomicU64,
    /// What the last read took, in nanoseconds.
    took: AtomicU64,
    counters: StoreCounters,
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

/// A job that was carried out; of one that zeroes, whether the store can.
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
            ServedStore {
                store,
                reads: JobThreads::new(),
                writes: JobThreads::new(),
                source: SourceState::default(),
                is_unthreaded: AtomicBool::new(false),
                under_way: AtomicU64::new(0),
                took: AtomicU64::new(u64::MAX),
                counters: StoreCounters::default(),
            }
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
            started: OnceLock::new(),
        }
    }

    /// Starts the clock. A store gets threads as it needs them: `threads` readers and half as many
    /// writers at most.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(self: &Arc<Self>, threads: usize, log: DiskLog) -> io::Result<()> {
        let started = Started { disk: Arc::downgrade(self), threads, log };
        assert!(self.started.set(started).is_ok(), "a disk is started once");
        for (number, export) in self.exports.iter().enumerate() {
            let disk = Arc::downgrade(self);
            export.store.watch(Box::new(move |state: Result<(), &str>| {
                let Some(disk) = disk.upgrade() else { return };
                let source = &disk.exports[number].source;
                match state {
                    Ok(()) if source.returns(Instant::now()) => {
                        (disk.started().log)(number, DiskEvent::Answers);
                    }
                    Ok(()) => {}
                    Err(fault) => disk.note_fault(number, fault),
                }
            }));
        }
        let disk = Arc::clone(self);
        thread::Builder::new().name("clock".to_owned()).spawn(move || disk.run_clock())?;
        Ok(())
    }

    fn started(&self) -> &Started {
        self.started.get().expect("requests come after the start")
    }

    /// A client begins to use an export.
    pub(super) fn open(&self, export: usize) -> u32 {
        self.lock().path.open(export as u32)
    }

    /// A client has gone; its requests have ended.
    pub(super) fn close(&self, client: u32) {
        self.lock().path.close(client);
    }

    /// Begins a request. `bytes` is what is written, or memory for what is read.
    ///
    /// If as many requests are in flight as there can be, it waits for one. `finish_own` finishes
    /// reads that only the caller's thread can, and says whether it had any.
    pub(super) fn request(
        &self,
        client: u32,
        op: DiskOp,
        (owner, bytes): (Owner, Vec<u8>),
        outcome: &mut Outcome,
        mut finish_own: impl FnMut(&mut Outcome) -> bool,
    ) {
        let mut state = self.lock();
        while state.free.is_empty() {
            drop(state);
            self.send_jobs(outcome);
            let had_own = finish_own(outcome);
            state = self.lock();
            // Those in flight are now with threads that end them.
            if state.free.is_empty() && !had_own {
                state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let number = state.free.pop().expect("there is one");
        let now = self.now();
        state.slots[number as usize] = Some(Slot { owner, bytes, begun: now });
        state.path.request(now, number, client, op);
        self.take_outputs(&mut state, outcome, true);
    }

    /// Does what was begun: by the ring of a connection's thread, by other threads, or in place if
    /// that is quicker and no other request waits for this thread.
    pub(super) fn dispatch(
        &self,
        outcome: &mut Outcome,
        is_last: bool,
        client: Option<&mut ClientIo>,
    ) {
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
        if let Some(client) = client {
            let jobs = mem::take(&mut outcome.jobs);
            let refused = jobs.into_iter().filter_map(|job| self.begin_read(client, job).err());
            outcome.jobs = refused.collect();
        }
        self.send_jobs(outcome);
    }

    /// Begins a read through the ring of a connection's thread, or returns the job.
    fn begin_read(&self, client: &mut ClientIo, job: Job) -> Result<(), Job> {
        let export = &self.exports[job.export];
        let Some(file) = export.store.direct_file().filter(|_| job.is_read()) else {
            return Err(job);
        };
        client.begin_read(file, job)?;
        export.under_way.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Waits for reads of a connection's ring, if it has some, and finishes them.
    pub(super) fn finish_reads(&self, client: &mut ClientIo, outcome: &mut Outcome) -> bool {
        let mut done = Vec::new();
        client.wait_for_reads(&mut done);
        let had_some = !done.is_empty();
        done.into_iter().for_each(|read| self.finish_read(read, outcome));
        had_some
    }

    /// Finishes a read of a ring.
    pub(super) fn finish_read(&self, read: RingRead, outcome: &mut Outcome) {
        let RingRead { mut job, result, took } = read;
        let Some(result) = job.end_read(result) else {
            let done = self.carry_out(job);
            return self.finish(done, outcome);
        };
        let (export, took) = (&self.exports[job.export], Duration(nanos(took)));
        if result.is_ok() {
            export.counters.count_read(job.len);
        }
        export.took.store(took.0, Relaxed);
        export.under_way.fetch_sub(1, Relaxed);
        let result = self.noted(job.export, result);
        self.finish(DoneJob { job, result, took }, outcome);
    }

    /// Brings all that was acknowledged to disk, through a client of each export, until a moment.
    /// Returns the exports for which that failed, and why; nothing if there was not time enough.
    pub(super) fn flush_all(
        &self,
        clients: &[u32],
        until: Instant,
    ) -> Vec<(usize, Option<IoError>)> {
        let ends: Vec<_> = clients.iter().map(|client| self.begin_flush(*client)).collect();
        let failed = ends.into_iter().enumerate().filter_map(|(export, end)| {
            let error = match end.recv_deadline(until) {
                Ok(result) => Some(result.err()?),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(IoError::Device),
            };
            Some((export, error))
        });
        failed.collect()
    }

    fn begin_flush(&self, client: u32) -> Receiver<Result<(), IoError>> {
        let (sender, receiver) = unbounded();
        let mut outcome = Outcome::default();
        // A thread that has stopped waiting needs no answer.
        let end = OnEnd(Box::new(move |_, result| {
            let _ = sender.send(result);
        }));
        self.request(client, DiskOp::Flush, (Owner::Call(end), Vec::new()), &mut outcome, |_| {
            false
        });
        self.dispatch(&mut outcome, false, None);
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

    /// Carries out jobs of a store until there are none for a while.
    fn work(&self, export: usize, is_read: bool) {
        let threads = self.exports[export].threads(is_read);
        while let Some(job) = threads.take() {
            let done = self.carry_out(job);
            threads.done();
            let mut outcome = Outcome::default();
            self.finish(done, &mut outcome);
            self.send_jobs(&mut outcome);
            self.answer(outcome.ended);
        }
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
        // What is carried out here may lead to more.
        while !outcome.jobs.is_empty() {
            for job in mem::take(&mut outcome.jobs) {
                self.send_job(job, outcome);
            }
        }
    }

    /// Hands a job to the threads of its store.
    fn send_job(&self, job: Job, outcome: &mut Outcome) {
        let (number, is_read) = (job.export, job.is_read());
        let Started { disk, threads, log } = self.started();
        let most = if is_read { *threads } else { threads.div_ceil(2) };
        let start = || {
            let Some(disk) = disk.upgrade() else { return Err(io::ErrorKind::NotFound.into()) };
            let name = format!("{}-{number}", if is_read { "read" } else { "write" });
            let work = move || disk.work(number, is_read);
            thread::Builder::new().name(name).spawn(work).map(drop)
        };
        let export = &self.exports[number];
        export.under_way.fetch_add(1, Relaxed);
        if let Err(Unthreaded { job, why }) = export.threads(is_read).push(job, most, start) {
            if !export.is_unthreaded.swap(true, Relaxed) {
                log(number, DiskEvent::Unthreaded(&why));
            }
            let done = self.carry_out(job);
            self.finish(done, outcome);
        }
    }

    /// Carries a job out. It needs no lock.
    fn carry_out(&self, mut job: Job) -> DoneJob {
        let begin = Instant::now();
        let export = &self.exports[job.export];
        // A store that breaks down costs its request.
        let carried =
            catch_unwind(AssertUnwindSafe(|| job.carry_out(&*export.store, &export.counters)));
        let carried = carried.unwrap_or(Err(IoError::Device.into()));
        let result = self.noted(job.export, carried);
        let took = Duration(nanos(begin.elapsed()));
        if job.is_read() {
            export.took.store(took.0, Relaxed);
        }
        export.under_way.fetch_sub(1, Relaxed);
        DoneJob { job, result, took }
    }

    /// Notes how the store of an export has answered.
    fn noted(&self, export: usize, result: Result<bool, JobError>) -> Result<bool, IoError> {
        match &result {
            Ok(_) if self.exports[export].source.answers(Instant::now) => {
                (self.started().log)(export, DiskEvent::Answers);
            }
            Ok(_) => {}
            Err(error) => {
                if let Some(fault) = error.fault() {
                    self.note_fault(export, &fault);
                }
            }
        }
        result.map_err(|error| error.kind)
    }

    fn note_fault(&self, export: usize, fault: &str) {
        if self.exports[export].source.fails(Instant::now()) {
            (self.started().log)(export, DiskEvent::Fails(fault));
        }
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

impl ServedStore {
    fn threads(&self, is_read: bool) -> &JobThreads<Job> {
        if is_read { &self.reads } else { &self.writes }
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("threads", &self.threads).finish_non_exhaustive()
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

/// Buffers that are kept for later jobs: 64 of 1 MiB.
const BUFFERS_KEPT: usize = 64;
