//! The engine: control flow only, from inputs to outputs.
//!
//! A call is a cursor that advances page by page until it must wait; then it is parked at a page
//! boundary and looks at that page afresh when it resumes.
//!
//! ```text
//!             +--------- advance ---------+
//!   Call ---->| running                   |----> Reply
//!             +---+-------------------^---+
//!        page is being read           | Resume
//!        or no memory                 |
//!                 v                   |
//!              parked --Done: Wake--> woken
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::block::{BlockQueues, QueueConfig};
use crate::cache::PageCache;
use crate::io::{Advice, Input, IoError, Op, Output, Request};
use crate::readahead::Readahead;
use crate::stats::Stats;
use crate::time::Instant;
use crate::units::{CallId, DeviceId, FileId, FrameId, HandleId, PAGE_SIZE, pages_touched};

mod check;
mod fill;
mod read;
#[cfg(test)]
mod tests;

use read::{Cursor, Wait};

/// What an engine is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Page memory in pages, at least one.
    pub frames: u32,
    /// Calls that may be in flight at once, at most [`CALLS_MAX`]; their ids lie below this number.
    pub calls_max: u32,
}

/// The most calls that may be in flight at once: a page counts those it stays for in 16 bits.
pub const CALLS_MAX: u32 = u16::MAX as u32;

/// The I/O path.
#[derive(Debug)]
pub struct Engine {
    now: Instant,
    cache: PageCache,
    block: BlockQueues,
    files: Vec<File>,
    handles: Vec<Option<Handle>>,
    calls: Vec<Cursor>,
    /// Calls that wait for a frame, the first to wait first.
    memory_waiters: VecDeque<CallId>,
    outputs: VecDeque<Output>,
    stats: Stats,
}

/// A file as the engine sees it: a run of sectors.
#[derive(Clone, Copy, Debug)]
struct File {
    device: DeviceId,
    bytes: u64,
    sector: u64,
}

#[derive(Debug)]
struct Handle {
    file: FileId,
    readahead: Box<dyn Readahead>,
    sees_hits: bool,
}

impl Engine {
    /// An engine with empty page memory and neither devices nor files.
    pub fn new(config: Config) -> Self {
        assert!(config.frames > 0, "page memory holds at least one page");
        assert!(config.calls_max <= CALLS_MAX, "each call in flight can pin a page");
        let calls = core::iter::repeat_with(Cursor::default).take(config.calls_max as usize);
        Self {
            now: Instant::ZERO,
            cache: PageCache::new(config.frames),
            block: BlockQueues::default(),
            files: Vec::new(),
            handles: Vec::new(),
            calls: calls.collect(),
            memory_waiters: VecDeque::new(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Adds a device.
    pub fn add_device(&mut self, queue: QueueConfig) -> DeviceId {
        self.block.add(queue)
    }

    /// Adds a file of `bytes` that lies in one piece from `sector` on.
    pub fn add_file(&mut self, device: DeviceId, bytes: u64, sector: u64) -> FileId {
        self.files.push(File { device, bytes, sector });
        FileId(self.files.len() as u32 - 1)
    }

    /// Opens a file: a fresh description with its own readahead state.
    pub fn open(&mut self, file: FileId, readahead: Box<dyn Readahead>) -> HandleId {
        assert!(file.index() < self.files.len(), "a file is added before it is opened");
        let sees_hits = readahead.sees_hits();
        self.handles.push(Some(Handle { file, readahead, sees_hits }));
        HandleId(self.handles.len() as u32 - 1)
    }

    /// Closes an open file that no call in flight uses.
    pub fn close(&mut self, handle: HandleId) {
        let idle = self.calls.iter().all(|call| !call.uses(handle));
        assert!(idle, "a file is closed after its calls have ended");
        self.handles[handle.index()] = None;
    }

    /// Takes one input. All outputs of the one before must have been polled.
    pub fn handle(&mut self, now: Instant, input: Input) {
        assert!(now >= self.now, "time does not go back");
        assert!(self.outputs.is_empty(), "outputs are carried out before the next input");
        self.now = now;
        match input {
            Input::Call(call, op) => self.call(call, op),
            Input::Resume(call) => self.resume(call),
            Input::Done(request, result) => {
                let request = self.block.end_request(request);
                self.end_request(request, result);
            }
            Input::Timeout => self.block.unplug_due(now),
        }
        self.push_ready();
    }

    /// The next output, in the order in which they are to be carried out.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the engine wants [`Input::Timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.block.timeout()
    }

    /// The time of the last input.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The frames that a request in flight fills, in the order of its pages.
    pub fn frames_of(&self, request: &Request) -> impl Iterator<Item = FrameId> + '_ {
        let Request { file, first, pages, .. } = *request;
        let mut near = None;
        (first..first + pages).map(move |page| {
            let hit = self.cache.lookup_near(file, page, near);
            let frame = hit.expect("a page stays while it is being read").frame;
            near = Some(frame);
            frame
        })
    }

    /// Whether a page is in the cache, up to date or not.
    pub fn is_resident(&self, file: FileId, page: u64) -> bool {
        self.cache.lookup(file, page).is_some()
    }

    /// Pages of a file in the cache, up to date or not; walks all of memory.
    pub fn resident_pages(&self, file: FileId) -> u64 {
        self.cache.resident(file)
    }

    /// The file of an open description.
    pub fn file_of(&self, handle: HandleId) -> FileId {
        self.opened(handle).file
    }

    /// The bytes of a file.
    pub fn file_bytes(&self, file: FileId) -> u64 {
        self.files[file.index()].bytes
    }

    /// Pages added to the cache so far, whatever became of their reading.
    pub fn pages_added(&self) -> u64 {
        self.cache.counters.added
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        let pages = self.cache.counters;
        Stats {
            pages_read: pages.read,
            pages_used: pages.used,
            pages_evicted: pages.evicted,
            requests: self.block.submitted,
            request_pages: self.block.submitted_pages,
            ..self.stats
        }
    }

    fn call(&mut self, call: CallId, op: Op) {
        assert!(call.index() < self.calls.len(), "call ids lie below the configured maximum");
        assert!(self.calls[call.index()].is_idle(), "an id names one call at a time");
        match op {
            Op::Read { handle, offset, len } => {
                let bytes = self.files[self.file_of(handle).index()].bytes;
                self.calls[call.index()] = Cursor::read(handle, offset, len, bytes);
                self.advance(call, false);
            }
            Op::Fault { handle, page, write, mapping } => {
                self.calls[call.index()] = Cursor::fault(handle, page, write, mapping);
                self.advance(call, false);
            }
            Op::Advise { handle, advice, offset, len } => {
                self.advise(handle, advice, offset, len);
                self.outputs.push_back(Output::Reply(call, Ok(0)));
            }
            Op::Write { len, .. } => self.outputs.push_back(Output::Reply(call, Ok(len))),
            Op::Sync { .. } | Op::Truncate { .. } => {
                self.outputs.push_back(Output::Reply(call, Ok(0)));
            }
        }
    }

    fn resume(&mut self, call: CallId) {
        match core::mem::replace(&mut self.calls[call.index()].wait, Wait::Running) {
            Wait::Woken(Some(frame)) => {
                self.cache.unpin(frame);
                self.wake_memory_waiters();
            }
            Wait::Woken(None) => {}
            Wait::Idle | Wait::Running | Wait::Page(_) | Wait::Memory => {
                panic!("a call resumes once after each wake")
            }
        }
        self.advance(call, true);
    }

    fn end_request(&mut self, request: Request, result: Result<(), IoError>) {
        let mut near = None;
        for page in request.first..request.first + request.pages {
            let hit = self.cache.lookup_near(request.file, page, near);
            let frame = hit.expect("a page stays while it is being read").frame;
            near = Some(frame);
            let mut waiter = self.cache.take_waiters(frame);
            if result.is_ok() {
                self.cache.end_read(frame);
            }
            while let Some(call) = waiter {
                let cursor = &mut self.calls[call.index()];
                assert_eq!(cursor.wait, Wait::Page(frame), "a waiter waits for this page");
                waiter = cursor.next_waiter.take();
                // One bad page fails its whole request: readers of a page that came with others ask
                // for it again, and hear of an error only when it failed alone. A reader that
                // resumes brings no others, so this ends when nobody else's window holds the page.
                cursor.error = result.err().filter(|_| request.pages == 1);
                cursor.wait = Wait::Woken(result.is_ok().then_some(frame));
                if result.is_ok() {
                    self.cache.pin(frame);
                }
                self.outputs.push_back(Output::Wake(call));
            }
            if result.is_err() {
                self.cache.fail_read(frame);
            }
        }
        self.wake_memory_waiters();
    }

    fn advise(&mut self, handle: HandleId, advice: Advice, offset: u64, len: u64) {
        let file = self.file_of(handle);
        let bytes = self.files[file.index()].bytes;
        let end = if len == 0 { bytes } else { offset.saturating_add(len).min(bytes) };
        match advice {
            Advice::Pattern(pattern) => {
                let opened = self.opened_mut(handle);
                opened.readahead.on_pattern(pattern);
                opened.sees_hits = opened.readahead.sees_hits();
            }
            Advice::WillNeed if offset < end => {
                let (first, count) = pages_touched(offset, end - offset);
                self.with_space(handle, |readahead, space| {
                    readahead.on_will_need(first, count, space);
                });
            }
            Advice::NoReuse if offset < end => {
                let (first, count) = pages_touched(offset, end - offset);
                self.with_space(handle, |readahead, space| {
                    readahead.on_no_reuse(first, count, space);
                });
            }
            Advice::DontNeed if offset < end => {
                let first = offset.div_ceil(PAGE_SIZE);
                let whole = if end == bytes { end.div_ceil(PAGE_SIZE) } else { end / PAGE_SIZE };
                if self.cache.invalidate(file, first, whole) > 0 {
                    self.wake_memory_waiters();
                }
            }
            Advice::WillNeed | Advice::DontNeed | Advice::NoReuse => {}
        }
    }

    /// Whoever waits for memory looks again.
    fn wake_memory_waiters(&mut self) {
        while let Some(call) = self.memory_waiters.pop_front() {
            self.calls[call.index()].wait = Wait::Woken(None);
            self.outputs.push_back(Output::Wake(call));
        }
    }

    /// Turns requests that were let go into outputs.
    fn push_ready(&mut self) {
        while let Some(request) = self.block.pop_ready() {
            self.outputs.push_back(Output::Submit(request));
        }
    }

    fn opened(&self, handle: HandleId) -> &Handle {
        self.handles[handle.index()].as_ref().expect("a call names an open file")
    }

    fn opened_mut(&mut self, handle: HandleId) -> &mut Handle {
        self.handles[handle.index()].as_mut().expect("a call names an open file")
    }
}
