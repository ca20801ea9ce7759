//! The I/O path behind the mount: the server of the core, its page memory, and the work that it
//! gives out.
//!
//! ```text
//!   begin(parts) --lock--> server --outputs--> copies, near reads      done in place
//!                            ^                 decodes, far reads --> jobs, without the lock
//!                            '------ finish(done) ----------------------'
//! ```
//!
//! A thread that begins a request gets the jobs that came of it, and carries them out or has
//! another thread do so. Whichever thread finishes the last of them gets the request back.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use forebay_core::io::{self, Decode, IoError};
use forebay_core::packed::RawBytes;
use forebay_core::serving::work::QUICK_BYTES;
use forebay_core::serving::{
    ImagePath, MountConfig, MountRules, PackedBlock, Part, PathOutput, Use,
};
use forebay_core::time::{self, Duration};
use forebay_core::units::{FrameId, PAGE_SIZE};
use forebay_image::{Block, Coding, Image};

use super::fault::ImageFault;
use super::file::ImageFile;
use super::stats::PathStats;
use crate::frames::{Bytes, Frames, PAGE, PageBytes};
use crate::lock::{Condvar, Mutex, MutexGuard, lock, wait};
use crate::processor::nanos;

/// The path. `T` is what a request is for.
#[derive(Debug)]
pub(crate) struct PathDriver<T> {
    state: Mutex<State<T>>,
    /// Has a lock of its own: a decision takes a moment, and does not wait until bytes are moved.
    rules: Mutex<MountRules>,
    /// Rings when a request ends that a thread waits for, and when a number is free again.
    bell: Condvar,
    image: Arc<dyn Image>,
    file: Arc<ImageFile>,
    stats: Arc<PathStats>,
    origin: Instant,
}

#[derive(Debug)]
struct State<T> {
    path: ImagePath,
    frames: Frames<Bytes>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Requests that came while every number was taken, the first to come first.
    waiting: VecDeque<WaitingRequest<T>>,
    /// Threads that wait for a number themselves.
    threads_waiting: usize,
    /// What was said about blocks and pages that failed lately, by where they begin.
    faults: VecDeque<ImageFault>,
    /// Jobs whose memory is used again.
    spare: Vec<DecodeMemory>,
    /// No worker is left that would carry jobs out.
    is_closed: bool,
}

/// A request in flight, or a free place for one.
#[derive(Debug)]
struct Slot<T> {
    buffer: Vec<u8>,
    /// The bytes of the image that its parts are made of.
    raw: RawBytes,
    then: Then<T>,
    /// A device was waited for.
    waited: bool,
}

/// A request without a number.
#[derive(Debug)]
struct WaitingRequest<T> {
    parts: Vec<Part>,
    buffer: Vec<u8>,
    what: T,
}

/// What becomes of a request when it ends.
#[derive(Debug)]
enum Then<T> {
    /// Nothing.
    Drop,
    /// A thread waits for it.
    Wait(Option<Result<(), ImageFault>>),
    /// It goes to whichever thread finishes it.
    Hand(T),
}

/// What came of some inputs.
#[derive(Debug)]
pub(crate) struct Round<T> {
    /// Requests that have ended.
    pub(crate) ended: Vec<EndedRequest<T>>,
    /// What has to be done without the lock.
    pub(crate) jobs: Vec<PathJob>,
}

/// A request that has ended.
#[derive(Debug)]
pub(crate) struct EndedRequest<T> {
    pub(crate) what: T,
    pub(crate) bytes: Vec<u8>,
    pub(crate) result: Result<(), ImageFault>,
    /// The bytes of the image that it is made of.
    pub(crate) raw: RawBytes,
    /// A device was waited for.
    pub(crate) waited: bool,
}

/// Work for a thread.
#[derive(Debug)]
pub(crate) enum PathJob {
    /// Pages of the image are read; a device may be waited for.
    Read {
        request: io::Request,
        frames: Vec<FrameId>,
        pages: Vec<Box<Bytes>>,
        begun: time::Instant,
    },
    /// A block is decoded.
    Decode(Box<DecodeJob>),
}

/// A block that is decoded.
#[derive(Debug)]
pub(crate) struct DecodeJob {
    decode: Decode,
    block: PackedBlock,
    /// The bytes of it that are wanted.
    upto: u64,
    /// The bytes that it came to.
    valid: u64,
    raw: Vec<u8>,
    pages: Vec<(u64, FrameId, Box<Bytes>)>,
}

/// What a job keeps its raw bytes and its pages in.
type DecodeMemory = (Vec<u8>, Vec<(u64, FrameId, Box<Bytes>)>);

/// A job that was carried out.
#[derive(Debug)]
pub(crate) struct DoneJob {
    job: PathJob,
    result: Result<(), ImageFault>,
    /// A device was waited for.
    waited: bool,
}

impl<T> Default for Round<T> {
    fn default() -> Self {
        Self { ended: Vec::new(), jobs: Vec::new() }
    }
}

impl<T> Round<T> {
    /// Whether a device has to be waited for.
    pub(crate) fn waits_for_device(&self) -> bool {
        self.jobs.iter().any(|job| matches!(job, PathJob::Read { .. }))
    }
}

impl<T> PathDriver<T> {
    /// A path over an image.
    pub(crate) fn new(
        image: &Arc<dyn Image>,
        file: &Arc<ImageFile>,
        config: &MountConfig,
        stats: &Arc<PathStats>,
    ) -> Self {
        let slot = || Slot {
            buffer: Vec::new(),
            raw: RawBytes::default(),
            then: Then::Drop,
            waited: false,
        };
        let state = State {
            path: ImagePath::new(&config.path),
            frames: Frames::new(config.path.frames),
            slots: std::iter::repeat_with(slot).take(config.path.requests_max as usize).collect(),
            free: (0..config.path.requests_max).rev().collect(),
            waiting: VecDeque::new(),
            threads_waiting: 0,
            faults: VecDeque::new(),
            spare: Vec::new(),
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            rules: Mutex::new(MountRules::new(config)),
            bell: Condvar::new(),
            image: Arc::clone(image),
            file: Arc::clone(file),
            stats: Arc::clone(stats),
            origin: Instant::now(),
        }
    }

    /// Begins a request, which fills `buffer` and then goes to the thread that finishes it. If too
    /// many are in flight, it begins when another one has ended.
    pub(crate) fn begin(&self, parts: &[Part], buffer: Vec<u8>, what: T) -> Round<T> {
        let mut state = self.lock();
        let Some(number) = state.free.pop() else {
            let parts = parts.to_vec();
            state.waiting.push_back(WaitingRequest { parts, buffer, what });
            return Round::default();
        };
        let round = self.start(&mut state, number, parts, buffer, (Then::Hand(what), Use::Last));
        drop(state);
        self.read_what_is_near(round)
    }

    /// Reads, carries the jobs out, and waits for those of others. Says whether a device was
    /// waited for. `finish` is given what else comes of it.
    pub(crate) fn read(
        &self,
        parts: &[Part],
        buffer: Vec<u8>,
        mut finish: impl FnMut(Vec<EndedRequest<T>>),
    ) -> (Vec<u8>, Result<bool, ImageFault>) {
        let mut state = self.lock();
        let number = loop {
            match state.free.pop() {
                Some(number) => break number,
                None if state.is_closed => return (buffer, Err(has_ended())),
                None => {
                    state.threads_waiting += 1;
                    state = self.wait(state);
                    state.threads_waiting -= 1;
                }
            }
        };
        let mut round =
            self.start(&mut state, number, parts, buffer, (Then::Wait(None), Use::Last));
        drop(state);
        round = self.read_what_is_near(round);
        self.carry_out_all(round, &mut finish);
        let mut state = self.lock();
        loop {
            let mut round = Round::default();
            if let Some((buffer, result)) = self.take_over(&mut state, number, &mut round) {
                drop(state);
                self.carry_out_all(round, &mut finish);
                return (buffer, result);
            }
            if state.is_closed {
                state.slots[number as usize].then = Then::Drop;
                return (Vec::new(), Err(has_ended()));
            }
            state = self.wait(state);
        }
    }

    /// Carries jobs out, and what they lead to.
    fn carry_out_all(&self, mut round: Round<T>, finish: &mut impl FnMut(Vec<EndedRequest<T>>)) {
        while !round.jobs.is_empty() {
            let done: Vec<DoneJob> =
                round.jobs.into_iter().map(|job| self.carry_out(job)).collect();
            finish(round.ended);
            round = self.finish(done);
        }
        finish(round.ended);
    }

    /// Reads what is in memory; nothing if it would take a device or a large block.
    pub(crate) fn read_near(&self, parts: &[Part], buffer: Vec<u8>) -> (Round<T>, Option<Vec<u8>>) {
        let mut state = self.lock();
        let Some(number) = state.free.pop() else {
            return (Round::default(), None);
        };
        let mut round =
            self.start(&mut state, number, parts, buffer, (Then::Wait(None), Use::Early));
        drop(state);
        round = self.read_what_is_near(round);
        while !round.jobs.is_empty() && round.jobs.iter().all(PathJob::is_quick) {
            let done: Vec<DoneJob> =
                round.jobs.into_iter().map(|job| self.carry_out(job)).collect();
            let before = round.ended;
            round = self.finish(done);
            round.ended.splice(..0, before);
        }
        let mut state = self.lock();
        let over = self.take_over(&mut state, number, &mut round);
        if over.is_none() {
            state.slots[number as usize].then = Then::Drop;
        }
        drop(state);
        (round, over.and_then(|(buffer, result)| result.ok().map(|_| buffer)))
    }

    /// Carries a job out. It needs no lock.
    pub(crate) fn carry_out(&self, mut job: PathJob) -> DoneJob {
        let begin = Instant::now();
        let result = match &mut job {
            PathJob::Read { request, pages, .. } => {
                self.file.read(request.first, pages).map_err(|error| {
                    let offset = request.first * PAGE_SIZE;
                    let what = format!("byte {offset} of the image cannot be read: {error}");
                    ImageFault { offset, what }
                })
            }
            // A codec that breaks down costs its block.
            PathJob::Decode(job) => catch_unwind(AssertUnwindSafe(|| self.decode(job)))
                .unwrap_or_else(|_| Err(failed(&job.block, "decoding broke down"))),
        };
        if let (PathJob::Decode(job), Ok(())) = (&job, &result) {
            self.stats.decode_nanos.add(nanos(begin.elapsed()));
            self.stats.blocks_decoded.add(1);
            self.stats.pages_decoded.add(job.upto.div_ceil(PAGE_SIZE));
        }
        let waited = matches!(job, PathJob::Read { .. });
        DoneJob { job, result, waited }
    }

    /// Begins to read what a job waits for; says whether it is one that waits for a device.
    pub(crate) fn send_for(&self, job: &PathJob) -> bool {
        let PathJob::Read { request, .. } = job else { return false };
        let RawBytes { start, end } = bytes_of(request);
        self.file.will_need(&(start..end));
        !self.file.is_direct()
    }

    /// Carries a read out if its bytes have come into memory.
    pub(crate) fn carry_out_near(&self, job: &mut PathJob) -> Option<DoneJob> {
        let PathJob::Read { request, frames, pages, begun } = job else { return None };
        if !self.file.read_near(request.first, pages) {
            return None;
        }
        let (frames, pages) = (std::mem::take(frames), std::mem::take(pages));
        let job = PathJob::Read { request: *request, frames, pages, begun: *begun };
        Some(DoneJob { job, result: Ok(()), waited: true })
    }

    /// Has jobs' results go on, and what the kernel has in memory is read.
    pub(crate) fn finish(&self, done: Vec<DoneJob>) -> Round<T> {
        self.read_what_is_near(self.settle(done))
    }

    /// Carries out the reads of what the kernel has in memory, and all that these lead to.
    fn read_what_is_near(&self, mut round: Round<T>) -> Round<T> {
        let mut seen = 0;
        loop {
            let near = |job: &mut PathJob| match job {
                PathJob::Read { request, pages, .. } => self.file.read_near(request.first, pages),
                PathJob::Decode(_) => false,
            };
            let done: Vec<DoneJob> =
                round.jobs.extract_if(seen.., near).map(DoneJob::near).collect();
            if done.is_empty() {
                return round;
            }
            seen = round.jobs.len();
            let Round { ended, jobs } = self.settle(done);
            round.ended.extend(ended);
            round.jobs.extend(jobs);
        }
    }

    fn settle(&self, done: Vec<DoneJob>) -> Round<T> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut round = Round::default();
        for DoneJob { job, result, waited } in done {
            // Requests that have waited may begin behind each of them.
            let now = self.now();
            if let Err(fault) = &result {
                state.faults.truncate(FAULTS_MAX - 1);
                state.faults.push_front(fault.clone());
            }
            match job {
                PathJob::Read { request, frames, pages, begun } => {
                    for (frame, page) in frames.into_iter().zip(pages) {
                        state.frames.give_back(frame, page);
                    }
                    let took = if waited { now.since(begun) } else { Duration::ZERO };
                    if waited {
                        if let Some(number) = state.path.asker(&request) {
                            state.slots[number as usize].waited = true;
                        }
                        if result.is_ok() {
                            lock(&self.rules).device_read(bytes_of(&request), took);
                        }
                    }
                    let result = result.map_err(|_| IoError::Device);
                    state.path.read_done(now, request.id, result, took);
                }
                PathJob::Decode(mut job) => {
                    for (_, frame, page) in job.pages.drain(..) {
                        state.frames.give_back(frame, page);
                    }
                    let result = result.map(|()| job.valid).map_err(|_| IoError::Corrupt);
                    state.path.decoded(now, &job.decode, result);
                    if state.spare.len() < SPARE_MAX && job.raw.capacity() <= SPARE_BYTES {
                        let DecodeJob { raw, pages, .. } = *job;
                        state.spare.push((raw, pages));
                    }
                }
            }
            self.take_outputs(state, &mut round);
        }
        round
    }

    /// The workers end: no thread waits for their jobs any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_all();
    }

    /// Pages in memory, raw and decoded.
    pub(crate) fn resident_pages(&self) -> u64 {
        self.lock().path.resident_pages()
    }

    /// Asks the rules something, at this moment.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut MountRules, time::Instant) -> R) -> R {
        let mut rules = lock(&self.rules);
        let now = self.now();
        ask(&mut rules, now)
    }

    fn start(
        &self,
        state: &mut State<T>,
        number: u32,
        parts: &[Part],
        buffer: Vec<u8>,
        (then, kind): (Then<T>, Use),
    ) -> Round<T> {
        state.set_up(self.now(), number, parts, buffer, (then, kind));
        let mut round = Round::default();
        self.take_outputs(state, &mut round);
        round
    }

    /// Takes what came of an input, and begins requests that have waited for a number.
    fn take_outputs(&self, state: &mut State<T>, round: &mut Round<T>) {
        loop {
            self.take_outputs_of_one(state, round);
            // A number that a thread waits for is left to it.
            if state.free.len() <= state.threads_waiting {
                return;
            }
            let Some(WaitingRequest { parts, buffer, what }) = state.waiting.pop_front() else {
                return;
            };
            let number = state.free.pop().expect("more are free than threads wait for");
            state.set_up(self.now(), number, &parts, buffer, (Then::Hand(what), Use::Last));
        }
    }

    fn take_outputs_of_one(&self, state: &mut State<T>, round: &mut Round<T>) {
        while let Some(output) = state.path.poll_output() {
            match output {
                PathOutput::Copy(copy) => {
                    let buffer = &mut state.slots[copy.request as usize].buffer;
                    let target = &mut buffer[index(copy.at)..index(copy.at + copy.len)];
                    state.frames.copy_out(copy.frame, index(copy.start), target);
                }
                PathOutput::Read(request) => round.jobs.push(state.read_job(request, self.now())),
                PathOutput::Decode(decode) => {
                    round.jobs.push(PathJob::Decode(state.decode_job(decode)));
                }
                PathOutput::End(number, result) => self.end(state, number, result, round),
            }
        }
    }

    fn end(
        &self,
        state: &mut State<T>,
        number: u32,
        result: Result<(), (usize, IoError)>,
        round: &mut Round<T>,
    ) {
        let result = result.map_err(|(part, error)| state.fault(number, part, error));
        let slot = &mut state.slots[number as usize];
        match std::mem::replace(&mut slot.then, Then::Drop) {
            Then::Wait(_) => {
                slot.then = Then::Wait(Some(result));
                self.bell.notify_all();
                return;
            }
            Then::Hand(what) => {
                let (bytes, waited) = (std::mem::take(&mut slot.buffer), slot.waited);
                round.ended.push(EndedRequest { what, bytes, result, raw: slot.raw, waited });
            }
            Then::Drop => slot.buffer = Vec::new(),
        }
        if state.free.is_empty() {
            self.bell.notify_all();
        }
        state.free.push(number);
    }

    /// Takes a request that a thread waits for, if it has ended; another one may begin then.
    fn take_over(
        &self,
        state: &mut State<T>,
        number: u32,
        round: &mut Round<T>,
    ) -> Option<(Vec<u8>, Result<bool, ImageFault>)> {
        let slot = &mut state.slots[number as usize];
        let Then::Wait(over) = &mut slot.then else { return None };
        let result = over.take()?;
        slot.then = Then::Drop;
        let (buffer, waited) = (std::mem::take(&mut slot.buffer), slot.waited);
        state.free.push(number);
        self.bell.notify_all();
        self.take_outputs(state, round);
        Some((buffer, result.map(|()| waited)))
    }

    fn decode(&self, job: &mut DecodeJob) -> Result<(), ImageFault> {
        let PackedBlock { raw, decoded, variant } = job.block;
        let block = Block {
            plain: 0..u64::from(decoded),
            raw: raw.start..raw.end,
            coding: Coding::Packed,
            decoded,
            inside: 0,
            variant,
        };
        let upto = index(job.upto);
        let decode = |content: &mut [u8]| {
            let valid = self.image.decode(&block, &job.raw, upto, content)?.min(upto);
            content[valid..upto].fill(0);
            Ok::<u64, ImageFault>(valid as u64)
        };
        // What is no larger than a page is decoded where it stays.
        if let ([(0, _, page)], true) = (&mut job.pages[..], decoded as usize <= PAGE) {
            job.valid = decode(&mut page.bytes_mut()[..decoded as usize])?;
        } else {
            SCRATCH.with_borrow_mut(|scratch| {
                if scratch.len() < decoded as usize {
                    scratch.resize(decoded as usize, 0);
                }
                job.valid = decode(&mut scratch[..decoded as usize])?;
                for (place, _, page) in &mut job.pages {
                    let content = &scratch[index(*place * PAGE_SIZE)..decoded as usize];
                    let len = content.len().min(PAGE);
                    page.bytes_mut()[..len].copy_from_slice(&content[..len]);
                }
                if scratch.len() > SCRATCH_KEPT {
                    *scratch = Vec::new();
                }
                Ok::<(), ImageFault>(())
            })?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        wait(&self.bell, state)
    }

    fn now(&self) -> time::Instant {
        time::Instant(nanos(self.origin.elapsed()))
    }
}

impl<T> State<T> {
    /// Gives a request a number, and has the path begin it.
    fn set_up(
        &mut self,
        now: time::Instant,
        number: u32,
        parts: &[Part],
        buffer: Vec<u8>,
        (then, kind): (Then<T>, Use),
    ) {
        let raw = Part::raw_of_all(parts);
        self.slots[number as usize] = Slot { buffer, raw, then, waited: false };
        self.path.request(now, number, parts, kind);
    }

    fn read_job(&mut self, request: io::Request, begun: time::Instant) -> PathJob {
        let frames: Vec<FrameId> = self.path.frames_of(&request).collect();
        let pages = frames.iter().map(|frame| self.frames.lend(*frame)).collect();
        PathJob::Read { request, frames, pages, begun }
    }

    fn decode_job(&mut self, decode: Decode) -> Box<DecodeJob> {
        let (block, upto) = self.path.block_of(&decode);
        let (mut raw, mut pages) = self.spare.pop().unwrap_or_default();
        raw.resize(index(block.raw.len()), 0);
        let mut start = index(block.raw.start % PAGE_SIZE);
        let mut rest = &mut raw[..];
        let (path, frames) = (&self.path, &mut self.frames);
        for frame in path.raw_frames_of(&decode) {
            let (now, later) = rest.split_at_mut(rest.len().min(PAGE - start));
            frames.copy_out(frame, start, now);
            (start, rest) = (0, later);
        }
        let filled = path.filled_by(&decode);
        pages.extend(filled.map(|(place, frame)| (place, frame, frames.lend(frame))));
        Box::new(DecodeJob { decode, block, upto, valid: 0, raw, pages })
    }

    /// What is wrong with a part.
    fn fault(&mut self, number: u32, part: usize, error: IoError) -> ImageFault {
        let raw = self.path.part(number, part).raw();
        let pages = raw.start / PAGE_SIZE * PAGE_SIZE..raw.end;
        let known = self.faults.iter().find(|fault| pages.contains(&fault.offset));
        known.cloned().unwrap_or_else(|| {
            failed(&PackedBlock { raw, decoded: 0, variant: 0 }, &error.to_string())
        })
    }
}

impl DoneJob {
    /// Of a read that took no device.
    fn near(job: PathJob) -> Self {
        Self { job, result: Ok(()), waited: false }
    }
}

impl PathJob {
    /// Whether it takes no longer than handing it to another thread.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Self::Read { .. } => false,
            Self::Decode(job) => job.upto <= QUICK_BYTES,
        }
    }
}

/// The bytes of the image that a read is about.
fn bytes_of(request: &io::Request) -> RawBytes {
    let start = request.first * PAGE_SIZE;
    RawBytes { start, end: start + request.pages * PAGE_SIZE }
}

fn has_ended() -> ImageFault {
    ImageFault { offset: 0, what: "the mount has ended".to_owned() }
}

fn failed(block: &PackedBlock, what: &str) -> ImageFault {
    let (offset, len) = (block.raw.start, block.raw.len());
    ImageFault {
        offset,
        what: format!("block at byte {offset} of the image ({len} bytes): {what}"),
    }
}

/// A number that is no larger than a block or a buffer.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

thread_local! {
    /// Where a thread decodes a block that goes to several pages.
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Bytes of it that a thread keeps.
const SCRATCH_KEPT: usize = 256 << 10;

/// Jobs whose memory is kept: two windows of small blocks.
const SPARE_MAX: usize = 128;

/// Raw bytes of a job whose memory is kept.
const SPARE_BYTES: usize = 16 << 10;

/// Faults whose words are kept until the requests that met them have ended.
const FAULTS_MAX: usize = 64;

#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
