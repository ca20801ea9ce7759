//! The path behind served disks: requests of clients, one page cache, write-back.
//!
//! An export is a file of the [`Engine`] on a device of its own. A client is a set of open
//! descriptions: one for each stream that it reads, one for its other reads, and one on
//! which failed writes are reported.
//!
//! ```text
//!   request --> gate --> engine --> Submit, Zero, Copy ---> world
//!      ^         |         ^  |                               |
//!      |      waits for    |  |                               |
//!      |      zeroing      '--+------- done, zeroed <---------'
//!      '---- End <------------'
//! ```
//!
//! * A write ends when its bytes are in the cache. A flush ends when all writes that had ended
//!   before are on disk; flushes that come while one is under way share the next one.
//! * Zeroes bypass the cache: whole pages are written if they are dirty, and dropped, the device is
//!   zeroed, and pages that were read meanwhile are dropped again. No other request touches the
//!   range in between. A FLUSH beside it thus covers what was there, and nothing is lost if the
//!   device fails.
//! * A store that is full keeps the write waiting and its pages in memory. Writers and flushes get
//!   `NoSpace`, also those that wait already, until a later attempt succeeds; nothing that was
//!   acknowledged is lost.
//!
//! A world carries the outputs out in their order, and answers each [`DiskOutput::Submit`] and each
//! [`DiskOutput::Zero`] once. A `Submit` of a write may come again for the same request: the first
//! answer was `NoSpace`.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::block::QueueConfig;
use crate::bugs::{Bug, SeededBug};
use crate::engine::{self, Engine, Policies};
use crate::io::{self, Advice, Input, IoError, Op, RequestKind};
use crate::readahead::{self, Access, AddressSpace, Fault, Readahead};
use crate::reclaim;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId, FileId, FrameId, HandleId, PAGE_SIZE};

mod flush;
mod full;
mod gate;
mod levels;
#[cfg(test)]
mod tests;
mod zero;

use super::streams::{STREAMS, Streams};
use flush::SharedFlush;
pub use levels::ExportLevels;
use zero::ZeroStage;

/// What a path is made with.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Page memory, in pages.
    pub frames: u32,
    /// Requests that may be in flight at once; their numbers lie below this one.
    pub requests_max: u32,
    /// Exports at most.
    pub exports_max: u32,
    /// The readahead of each stream. A folio is split into pages when one of them is written.
    pub readahead: readahead::Spec,
    /// Which pages leave when memory is short.
    pub reclaim: reclaim::Spec,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Bytes are read.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Bytes are written.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// They are on disk when the request ends.
        durable: bool,
    },
    /// All that has ended before is on disk when the request ends.
    Flush,
    /// Bytes read as zeroes from now on.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The store may give up the space.
        hole: bool,
        /// The zeroes are on disk when the request ends.
        durable: bool,
    },
    /// Bytes will be read soon.
    Prefetch {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

/// What comes out of the path, to be carried out in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOutput {
    /// A device has work; answered by [`DiskPath::done`].
    Submit(io::Request),
    /// A device zeroes bytes, whole pages of them; answered by [`DiskPath::zeroed`].
    Zero(ZeroRange),
    /// Bytes go between page memory and a request's buffer.
    Copy(DiskCopy),
    /// A request has ended.
    End(u32, Result<(), IoError>),
}

/// Bytes that a device zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroRange {
    /// The request.
    pub request: u32,
    /// The export.
    pub export: u32,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
    /// The store may give up the space.
    pub hole: bool,
}

/// A run of bytes between page memory and a request's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCopy {
    /// The request.
    pub request: u32,
    /// Whether they go to the frames.
    pub to_frames: bool,
    /// They are zeroes, and the request has no buffer for them.
    pub zeroes: bool,
    /// The frame of the first byte; the following pages lie in the following frames.
    pub frame: FrameId,
    /// The first byte's place in its page.
    pub start: u64,
    /// The first byte's place in the request's buffer.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The path behind served disks.
#[derive(Debug)]
pub struct DiskPath {
    engine: Engine,
    readahead: readahead::Spec,
    exports: Vec<Export>,
    exports_max: usize,
    clients: Vec<Option<Client>>,
    requests: Vec<Request>,
    /// Requests so far.
    sequence: u64,
    /// Requests that wait until zeroing has ended, in the order of their coming.
    gated: VecDeque<u32>,
    /// Requests in flight that zero.
    zeroing: u32,
    /// Requests among them that can go on.
    zero_ready: VecDeque<u32>,
    resumes: VecDeque<CallId>,
    /// Writers that pause, by the end of their pauses.
    pauses: BinaryHeap<Reverse<(Instant, CallId)>>,
    outputs: VecDeque<DiskOutput>,
    bugs: SeededBug,
}

#[derive(Debug)]
struct Export {
    device: DeviceId,
    file: FileId,
    bytes: u64,
    /// Through which pages are synced.
    handle: HandleId,
    flush: SharedFlush,
    /// Writes that found the store full, and when they are tried again.
    stalled: Vec<io::Request>,
    retry: Option<Instant>,
    is_full: bool,
}

#[derive(Debug)]
struct Client {
    export: u32,
    streams: Streams,
    handles: [HandleId; STREAMS],
    /// For reads that belong to no stream, for writes, and for reports of errors.
    alone: HandleId,
    in_flight: u32,
}

/// A request in flight, or a free place for one.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    active: Option<ActiveRequest>,
}

#[derive(Clone, Copy, Debug)]
struct ActiveRequest {
    client: u32,
    export: u32,
    op: DiskOp,
    /// Its place in the order of coming.
    sequence: u64,
    is_gated: bool,
    /// It was given up because the store is full.
    gave_up: bool,
    /// Write errors of the export when it began.
    errors: u64,
    zero: ZeroStage,
    /// How far a zeroing request has come.
    at: u64,
}

impl DiskPath {
    /// A path with an empty cache and no exports.
    ///
    /// # Panics
    /// If there are fewer than two frames, or the requests do not fit [`engine::CALLS_MAX`].
    pub fn new(config: &DiskConfig, policies: Policies) -> Self {
        let calls_max = config.requests_max + config.exports_max;
        let mut engine = Engine::new(engine::Config { frames: config.frames, calls_max });
        engine.set_policies(policies);
        engine.set_reclaim(config.reclaim.build());
        engine.set_reserve(u64::from(config.frames / 8).clamp(1, RESERVE_MAX));
        Self {
            engine,
            readahead: config.readahead.clone(),
            exports: Vec::new(),
            exports_max: config.exports_max as usize,
            clients: Vec::new(),
            requests: alloc::vec![Request::default(); config.requests_max as usize],
            sequence: 0,
            gated: VecDeque::new(),
            zeroing: 0,
            zero_ready: VecDeque::new(),
            resumes: VecDeque::new(),
            pauses: BinaryHeap::new(),
            outputs: VecDeque::new(),
            bugs: SeededBug::default(),
        }
    }

    /// Seeds a bug, before the first export.
    #[cfg(feature = "seeded-bugs")]
    pub fn seed_bug(&mut self, bug: Bug) {
        self.bugs = SeededBug::seed(Some(bug));
        self.engine.seed_bug(self.bugs);
    }

    /// Adds an export of so many bytes; exports are numbered in their order.
    ///
    /// # Panics
    /// If there are as many as the path was made for.
    pub fn add_export(&mut self, bytes: u64) -> u32 {
        assert!(self.exports.len() < self.exports_max, "the path was made for fewer exports");
        let queue = QueueConfig {
            plug: None,
            request_pages_max: REQUEST_PAGES_MAX,
            congestion_on: u32::MAX,
            congestion_off: u32::MAX,
            read_requests_max: u32::MAX,
            write_requests_max: WRITES_MAX,
            ..QueueConfig::default()
        };
        let device = self.engine.add_device(queue);
        let file = self.engine.add_file(device, bytes, 0);
        let handle = self.engine.open(file, Box::new(RequestOnly));
        // What is reported on it is still to be reported to clients.
        if !self.bugs.is(Bug::InternalReportCounts) {
            self.engine.set_internal(handle);
        }
        self.exports.push(Export {
            device,
            file,
            bytes,
            handle,
            flush: SharedFlush::default(),
            stalled: Vec::new(),
            retry: None,
            is_full: false,
        });
        self.exports.len() as u32 - 1
    }

    /// A client begins to use an export.
    pub fn open(&mut self, export: u32) -> u32 {
        let mut file = self.exports[export as usize].file;
        if self.bugs.is(Bug::StreamsMixExports) {
            file = self.exports[0].file;
        }
        let readahead = &self.readahead;
        let engine = &mut self.engine;
        let handles = core::array::from_fn(|_| engine.open(file, readahead.build()));
        let alone = engine.open(self.exports[export as usize].file, Box::new(RequestOnly));
        let client = Client { export, streams: Streams::default(), handles, alone, in_flight: 0 };
        let free = self.clients.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.clients[place] = Some(client);
        place as u32
    }

    /// A client has gone; its requests have ended.
    ///
    /// # Panics
    /// If a request of it is in flight.
    pub fn close(&mut self, client: u32) {
        let client = self.clients[client as usize].take().expect("a client leaves once");
        if self.bugs.is(Bug::LeavingForgetsFlushes) {
            self.exports[client.export as usize].flush.forget_waiting();
        }
        assert_eq!(client.in_flight, 0, "a client leaves after its requests have ended");
        for handle in client.handles.into_iter().chain([client.alone]) {
            self.engine.close(handle);
        }
    }

    /// Begins a request, whose bytes lie in the export. Its number names no other one in flight.
    ///
    /// # Panics
    /// If the number is in use or too large.
    pub fn request(&mut self, now: Instant, number: u32, client: u32, op: DiskOp) {
        assert!(self.requests[number as usize].active.is_none(), "a number names one request");
        let of = self.clients[client as usize].as_mut().expect("a client asks while it is there");
        of.in_flight += 1;
        let export = of.export;
        self.sequence += 1;
        let mut request = ActiveRequest {
            client,
            export,
            op,
            sequence: self.sequence,
            is_gated: false,
            gave_up: false,
            errors: 0,
            zero: ZeroStage::Head,
            at: 0,
        };
        let zeroes = matches!(op, DiskOp::Zero { .. });
        self.zeroing += u32::from(zeroes);
        if self.zeroing > 0 && self.is_held_up(&request) {
            request.is_gated = true;
            self.gated.push_back(number);
        }
        let is_gated = request.is_gated;
        self.requests[number as usize].active = Some(request);
        if !is_gated {
            self.begin(now, number);
        }
        self.settle(now);
    }

    /// A device has done what was submitted, after the world worked on it for so long.
    pub fn done(
        &mut self,
        now: Instant,
        request: &io::Request,
        mut result: Result<(), IoError>,
        took: Duration,
    ) {
        if self.bugs.is(Bug::ErrorIsSwallowed) && request.kind.is_data_write() {
            result =
                result.or_else(|error| if error == IoError::Device { Ok(()) } else { Err(error) });
        }
        let place = self.exports.iter().position(|export| export.device == request.device);
        let place = place.expect("a request is of an export's device");
        if request.kind.is_data_write() && result == Err(IoError::NoSpace) {
            self.stall(now, place, *request);
        } else {
            if request.kind == RequestKind::Flush && result.is_err() {
                // What had arrived may be lost: each client has to hear of it.
                self.engine.fail_writes(request.file);
            }
            let export = &mut self.exports[place];
            let writes = request.kind.is_data_write();
            if writes && result.is_ok() && export.stalled.is_empty() {
                export.is_full = false;
                self.engine.set_stalled(request.device, false);
            }
            self.engine.handle(now, Input::Done(request.id, result, Some(took)));
        }
        self.settle(now);
    }

    /// A device has zeroed what it was asked to, or says by `false` that it cannot: the zeroes are
    /// written then.
    pub fn zeroed(&mut self, now: Instant, number: u32, result: Result<bool, IoError>) {
        self.end_piece(number, result);
        self.settle(now);
    }

    /// Time has passed; early or late is harmless.
    pub fn timeout(&mut self, now: Instant) {
        for place in 0..self.exports.len() {
            if self.exports[place].retry.is_some_and(|at| at <= now) {
                self.retry(place);
            }
        }
        while let Some(Reverse((_, call))) = self.pauses.peek().filter(|one| one.0.0 <= now) {
            self.resumes.push_back(*call);
            self.pauses.pop();
        }
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle(now, Input::Timeout);
        }
        self.settle(now);
    }

    /// When [`timeout`](Self::timeout) is to be called, if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let pause = self.pauses.peek().map(|pause| pause.0.0);
        let retry = self.exports.iter().filter_map(|export| export.retry).min();
        [self.engine.poll_timeout(), pause, retry].into_iter().flatten().min()
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<DiskOutput> {
        self.outputs.pop_front()
    }

    /// The frames of a request in flight, in the order of its pages.
    pub fn frames_of(&self, request: &io::Request) -> impl Iterator<Item = FrameId> + '_ {
        self.engine.frames_of(request)
    }

    /// The export of a request at a device, and the bytes of its pages that lie in the export.
    pub fn place_of(&self, request: &io::Request) -> (u32, u64) {
        let place = self.exports.iter().position(|export| export.device == request.device);
        let place = place.expect("a request is of an export's device");
        let start = request.first * PAGE_SIZE;
        let left = self.exports[place].bytes.saturating_sub(start);
        let mut len = (request.pages * PAGE_SIZE).min(left);
        if self.bugs.is(Bug::TailIsNotWritten) {
            len -= len % PAGE_SIZE;
        }
        (place as u32, len)
    }

    /// Runs of bytes in a range of an export that the store may not have as they are: in rising
    /// order, up to `most` of them. What lies behind the last of `most` is not told.
    pub fn unsafe_runs(&self, export: u32, offset: u64, len: u64, most: usize) -> Vec<(u64, u64)> {
        let file = self.exports[export as usize].file;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let (mut page, end) = (offset / PAGE_SIZE, offset + len);
        while let Some(found) = self.engine.next_unsafe_page(file, page) {
            let start = found * PAGE_SIZE;
            if start >= end {
                break;
            }
            let is_full = runs.len() == most;
            match runs.last_mut() {
                Some(last) if last.1 == start => last.1 += PAGE_SIZE,
                Some(_) if is_full => break,
                Some(_) | None => runs.push((start, start + PAGE_SIZE)),
            }
            page = found + 1;
        }
        runs
    }

    /// The client of a request in flight.
    pub fn client_of(&self, number: u32) -> u32 {
        self.active(number).client
    }

    /// What the engine counted.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Pages in memory.
    pub fn resident_pages(&self) -> u64 {
        self.engine.pages_in_memory()
    }

    /// Whether nothing is in flight. Pages may be dirty.
    pub fn is_quiet(&self) -> bool {
        self.engine.is_quiet() && self.requests.iter().all(|request| request.active.is_none())
    }

    /// Asserts all invariants.
    pub fn check(&self) {
        self.engine.check();
        assert!(self.resumes.is_empty(), "calls that were woken have resumed");
        let active = || self.requests.iter().filter_map(|request| request.active);
        let zeroing = active().filter(|one| matches!(one.op, DiskOp::Zero { .. })).count();
        assert_eq!(zeroing, self.zeroing as usize, "requests that zero are counted");
        let gated = active().filter(|one| one.is_gated).count();
        assert_eq!(gated, self.gated.len(), "each request that waits at the gate is queued");
        for request in active().filter(|one| one.is_gated) {
            let is_shut = self.bugs.is(Bug::GateStaysShut);
            assert!(is_shut || self.is_held_up(&request), "what waits at the gate has a reason");
        }
        for (number, client) in self.clients.iter().enumerate() {
            let Some(client) = client else { continue };
            let own = active().filter(|one| one.client as usize == number).count();
            assert_eq!(own, client.in_flight as usize, "requests of a client are counted");
        }
    }

    fn active(&self, number: u32) -> &ActiveRequest {
        self.requests[number as usize].active.as_ref().expect("a request is in flight")
    }

    fn active_mut(&mut self, number: u32) -> &mut ActiveRequest {
        self.requests[number as usize].active.as_mut().expect("a request is in flight")
    }

    /// Begins a request that nothing holds up.
    fn begin(&mut self, now: Instant, number: u32) {
        let ActiveRequest { client, export, op, .. } = *self.active(number);
        let export = &self.exports[export as usize];
        let errors = self.engine.write_errors(export.file);
        let is_full = export.is_full;
        let client = self.clients[client as usize].as_mut().expect("a client is there");
        let alone = client.alone;
        self.requests[number as usize].active.as_mut().expect("it was made").errors = errors;
        let call = match op {
            DiskOp::Read { offset, len } => {
                let stream = client.streams.place(offset, len);
                let handle = stream.map_or(alone, |stream| client.handles[stream]);
                Op::Read { handle, offset, len }
            }
            DiskOp::Write { .. } | DiskOp::Zero { hole: false, .. } if is_full => {
                return self.end(number, Err(IoError::NoSpace));
            }
            DiskOp::Write { offset, len, durable } => {
                // Errors of before are for flushes: they do not fail a write.
                let handle = export.handle;
                self.engine.take_write_error(handle);
                let durable = durable && !self.bugs.is(Bug::FuaIsForgotten);
                Op::Write { handle, offset, len, durable }
            }
            DiskOp::Prefetch { offset, len } => {
                let advice = Advice::WillNeed;
                Op::Advise { handle: alone, advice, offset, len }
            }
            DiskOp::Flush => return self.join_flush(number),
            DiskOp::Zero { offset, .. } => {
                self.active_mut(number).at = offset;
                return self.advance_zero(now, number);
            }
        };
        self.engine.handle(now, Input::Call(CallId(number), call));
    }

    /// Carries on until the engine and all requests wait for the world.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.take(now, output);
            }
            if let Some(call) = self.resumes.pop_front() {
                self.engine.handle(now, Input::Resume(call));
            } else if !self.step(now) {
                return;
            }
        }
    }

    /// Does one thing that has become possible; says whether there was one. The engine's outputs
    /// have been taken.
    fn step(&mut self, now: Instant) -> bool {
        self.step_full() || self.step_zero(now) || self.step_flush(now) || self.step_gate(now)
    }

    fn take(&mut self, now: Instant, output: io::Output) {
        match output {
            io::Output::Submit(request) => self.outputs.push_back(DiskOutput::Submit(request)),
            io::Output::Wake(call) => self.resumes.push_back(call),
            io::Output::Pause(call, length) => self.pauses.push(Reverse((now + length, call))),
            io::Output::Copy(copy) => {
                let request = copy.call.0;
                let is_cut = self.bugs.is(Bug::CopyIsCutShort) && copy.to_frames;
                let cut = if is_cut && copy.len >= PAGE_SIZE { 512 } else { 0 };
                let zeroes = matches!(self.active(request).op, DiskOp::Zero { .. });
                self.outputs.push_back(DiskOutput::Copy(DiskCopy {
                    request,
                    to_frames: copy.to_frames,
                    zeroes,
                    frame: copy.frame,
                    start: copy.offset % PAGE_SIZE,
                    at: copy.buffer_offset,
                    len: copy.len - cut,
                }));
            }
            io::Output::Reply(call, result) => self.end_call(call, result),
            io::Output::Gather(_) | io::Output::Decode(_) => unreachable!("no export is packed"),
        }
    }

    /// A call of the engine has ended.
    fn end_call(&mut self, call: CallId, result: Result<u64, IoError>) {
        let number = call.0;
        if call.index() >= self.requests.len() {
            self.end_sync(call.index() - self.requests.len(), result.err());
            return;
        }
        let ActiveRequest { op, export, errors, gave_up, .. } = *self.active(number);
        // A part of a write that gives up may be in the cache.
        let result = if gave_up { Err(IoError::NoSpace) } else { result };
        let result = match op {
            // What ends early has met an error behind what it gives.
            DiskOp::Read { len, .. } | DiskOp::Write { len, .. } => match result {
                Ok(moved) if moved < len => Err(IoError::Device),
                result => result.map(drop),
            },
            DiskOp::Zero { .. } => return self.note_zero(number, result),
            DiskOp::Flush | DiskOp::Prefetch { .. } => result.map(drop),
        };
        let file = self.exports[export as usize].file;
        let durable = matches!(op, DiskOp::Write { durable: true, .. });
        // Descriptions are shared, so its error may have been reported to another request.
        let failed = durable && self.engine.write_errors(file) > errors;
        self.end(number, if failed { Err(IoError::Device) } else { result });
    }

    /// Ends a request.
    fn end(&mut self, number: u32, result: Result<(), IoError>) {
        let request = self.requests[number as usize].active.take();
        let request = request.expect("a request ends once");
        self.zeroing -= u32::from(matches!(request.op, DiskOp::Zero { .. }));
        let client = self.clients[request.client as usize].as_mut();
        client.expect("a client stays until its requests have ended").in_flight -= 1;
        self.outputs.push_back(DiskOutput::End(number, result));
    }
}

/// Readahead of what continues nothing: a request's own pages, all of them at once.
#[derive(Debug)]
pub(super) struct RequestOnly;

impl Readahead for RequestOnly {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        let end = access.page.saturating_add(access.remaining).min(pages.file_pages());
        for page in access.page..end {
            if pages.folio(page).is_none() && !pages.add(page, 0, false) {
                break;
            }
        }
        pages.submit();
    }

    fn on_fault(&mut self, _fault: &Fault, _pages: &mut dyn AddressSpace) {}
}

/// Pages in a request to a device at most: 1 MiB.
const REQUEST_PAGES_MAX: u64 = 256;

/// Writes at a device at once. More would stand in front of reads without making it faster.
const WRITES_MAX: u32 = 16;

/// Pages that stay clean at most, so that reads go on beside a store that is full.
const RESERVE_MAX: u64 = 256;
