//! The engine: control flow only, from inputs to outputs.
//!
//! A call is a cursor that advances page by page until it must wait; then it is parked at a page
//! boundary and looks at that page afresh when it resumes.
//!
//! ```text
//!             +--------- advance ---------+
//!   Call ---->| running                   |----> Reply
//!             +---+-------------------^---+
//!        page is on its way,          | Resume
//!        no memory, a pause           |
//!                 v                   |
//!              parked --Done: Wake--> woken
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::block::{BlockQueues, Given, QueueConfig};
use crate::bugs::SeededBug;
use crate::cache::PageCache;
use crate::dispatch::{self, Processor};
use crate::elevator;
pub use crate::frame::PageUse;
use crate::io::{Advice, Input, IoError, Op, Output, RequestKind};
use crate::packed::{Fill, Pages};
use crate::readahead::Readahead;
use crate::reclaim::Reclaim;
use crate::stats::Stats;
use crate::time::Instant;
use crate::units::{CallId, DeviceId, FileId, HandleId, PAGE_SIZE, PageIndex, pages_touched};
use crate::writeback::Levels;

mod call;
mod check;
mod cursor;
mod direct;
mod errors;
mod fill;
mod observe;
mod outputs;
mod packed;
mod read;
mod sync;
#[cfg(test)]
mod tests;
mod wait;
mod write;
mod writeback;

pub use writeback::Policies;

use cursor::{Cursor, FaultCall, ReadCall, SyncCall, Task};
use errors::Seen;
use outputs::Outputs;
use packed::{Ask, PackedFiles};
use wait::Wait;
use writeback::Writeback;

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
    /// Pages of memory that never become dirty.
    reserve: u64,
    bugs: SeededBug,
    cache: PageCache,
    block: BlockQueues,
    files: Vec<File>,
    handles: Vec<Option<Handle>>,
    /// Numbers of closed descriptions, which are used again.
    free_handles: Vec<HandleId>,
    calls: Vec<Cursor>,
    /// Calls that wait for a frame, the first to wait first.
    memory_waiters: VecDeque<CallId>,
    /// Turns among them given so far.
    memory_turns: u64,
    /// Calls that wait for a place for a read at a device.
    read_place_waiters: Vec<(DeviceId, CallId)>,
    packed: PackedFiles,
    writeback: Writeback,
    outputs: Outputs,
    stats: Stats,
    /// The last input has met pages in memory and changed nothing with a timer: no page was added,
    /// dirtied or removed, no call waits, and no policy except the throttle was called.
    unchanged: bool,
    /// The earliest timeout, as of the last input that changed anything.
    deadline: Option<Instant>,
    /// The deadline is not known: the engine was set up since.
    deadline_is_stale: bool,
}

/// A file as the engine sees it: a run of sectors, or packed in one that is.
#[derive(Clone, Copy, Debug)]
struct File {
    kind: FileKind,
    device: DeviceId,
    bytes: u64,
    /// The bytes that it may grow to.
    room: u64,
    sector: u64,
}

/// Where the pages of a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    /// The device.
    Plain,
    /// The device; packed files lie in it.
    Image,
    /// Blocks of an image. This is its place in the table of packed files.
    Packed(u32),
}

#[derive(Debug)]
struct Handle {
    file: FileId,
    readahead: Box<dyn Readahead>,
    /// What is decoded, and when, if the file is packed.
    fill: Option<Box<dyn Fill>>,
    sees_hits: bool,
    /// The write errors that were reported on it.
    seen: Seen,
}

impl Engine {
    /// An engine with empty page memory and neither devices nor files.
    pub fn new(config: Config) -> Self {
        assert!(config.frames > 0, "page memory holds at least one page");
        assert!(config.calls_max <= CALLS_MAX, "each call in flight can pin a page");
        let calls = core::iter::repeat_with(Cursor::default).take(config.calls_max as usize);
        Self {
            now: Instant::ZERO,
            reserve: 0,
            bugs: SeededBug::default(),
            cache: PageCache::new(config.frames),
            block: BlockQueues::default(),
            files: Vec::new(),
            handles: Vec::new(),
            free_handles: Vec::new(),
            calls: calls.collect(),
            memory_waiters: VecDeque::new(),
            memory_turns: 0,
            read_place_waiters: Vec::new(),
            packed: PackedFiles::default(),
            writeback: Writeback::new(config.frames, Policies::default(), Instant::ZERO),
            outputs: Outputs::default(),
            stats: Stats::default(),
            unchanged: false,
            deadline: None,
            deadline_is_stale: true,
        }
    }

    /// Puts policies in charge of dirty pages; without a call, those of
    /// [`Policies::default`] are. Nothing is dirty yet.
    pub fn set_policies(&mut self, policies: Policies) {
        assert!(self.levels() == Levels::default(), "policies come before the first write");
        self.writeback.set_policies(policies, self.now);
        self.deadline_is_stale = true;
    }

    /// Puts a policy in charge of reclaim; without a call, that of the default
    /// [`Spec`](crate::reclaim::Spec) is. Memory is empty.
    pub fn set_reclaim(&mut self, reclaim: Box<dyn Reclaim>) {
        assert!(self.cache.len() == 0, "reclaim is set before the first page");
        self.cache = PageCache::with_reclaim(self.cache.capacity(), reclaim);
        self.deadline_is_stale = true;
    }

    /// What finds pages begins small, which makes lookups faster where memory is never full, and
    /// grows with pauses, which virtual time does not see. Memory is empty, and has its reclaim.
    pub fn let_index_grow(&mut self) {
        assert!(self.cache.len() == 0, "the index is chosen before the first page");
        self.cache.let_index_grow();
    }

    /// Keeps `pages` pages of memory clean, so that reads continue while a device accepts no
    /// writes, and gives each device its share of the others. A call evicts any idle page before it
    /// waits. Reclaim is set before.
    pub fn set_reserve(&mut self, pages: u64) {
        assert!(pages < u64::from(self.cache.capacity()), "some pages can become dirty");
        self.reserve = pages;
        self.cache.set_evicts_any();
    }

    /// Adds a device.
    pub fn add_device(&mut self, queue: QueueConfig) -> DeviceId {
        self.writeback.add_device();
        self.block.add(queue)
    }

    /// Puts an elevator and a rule of dispatch in charge of a device, before its first request;
    /// without a call it has no elevator, and requests are deferred.
    pub fn set_rules(
        &mut self,
        device: DeviceId,
        elevator: &elevator::Spec,
        dispatch: &dispatch::Spec,
    ) {
        self.block.set_rules(device, elevator.build(), dispatch.build());
        self.deadline_is_stale = true;
    }

    /// Adds a file of `bytes` that lies in one piece from `sector` on and cannot grow.
    pub fn add_file(&mut self, device: DeviceId, bytes: u64, sector: u64) -> FileId {
        self.add_growing_file(device, bytes, bytes, sector)
    }

    /// Adds a file of `bytes` that may grow to `room` bytes.
    pub fn add_growing_file(
        &mut self,
        device: DeviceId,
        bytes: u64,
        room: u64,
        sector: u64,
    ) -> FileId {
        assert!(bytes <= room, "a file lies in its room");
        self.files.push(File { kind: FileKind::Plain, device, bytes, room, sector });
        self.writeback.add_file();
        FileId(self.files.len() as u32 - 1)
    }

    /// A file of whole pages has grown.
    ///
    /// # Panics
    /// If it had a part of a page, or shrinks.
    pub fn grow(&mut self, file: FileId, bytes: u64) {
        let file = &mut self.files[file.index()];
        assert!(file.bytes.is_multiple_of(PAGE_SIZE), "a page that is there has all its bytes");
        assert!(file.bytes <= bytes, "a file that grows is longer afterwards");
        (file.bytes, file.room) = (bytes, file.room.max(bytes));
    }

    /// Gives a file metadata that change with every write and lie on the page from `sector` on.
    pub fn set_inode(&mut self, file: FileId, sector: u64) {
        self.writeback.set_inode(file, sector);
    }

    /// Opens a file: a fresh description with its own readahead state. A packed file is filled as
    /// cramfs fills it, unless it is [opened](Self::open_packed) with another rule.
    pub fn open(&mut self, file: FileId, readahead: Box<dyn Readahead>) -> HandleId {
        assert!(file.index() < self.files.len(), "a file is added before it is opened");
        let sees_hits = readahead.sees_hits();
        let seen = self.writeback.errors(file).sample();
        let fill = self.plain_fill(file);
        let handle = Some(Handle { file, readahead, fill, sees_hits, seen });
        if let Some(free) = self.free_handles.pop() {
            self.handles[free.index()] = handle;
            return free;
        }
        self.handles.push(handle);
        HandleId(self.handles.len() as u32 - 1)
    }

    /// Makes a description internal: a write error that was reported only on internal ones is still
    /// reported on the next description that is opened.
    pub fn set_internal(&mut self, handle: HandleId) {
        self.opened_mut(handle).seen.set_internal();
    }

    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn seed_bug(&mut self, bugs: SeededBug) {
        self.bugs = bugs;
        if bugs.is(crate::bugs::Bug::NoReserve) {
            self.reserve = 0;
        }
    }

    /// A device takes no writes for now, or takes them again. While it does not, its dirty pages
    /// slow no writer of another device down.
    pub fn set_stalled(&mut self, device: DeviceId, is_stalled: bool) {
        self.writeback.set_stalled(device, is_stalled);
    }

    /// Closes an open file that no call in flight uses.
    pub fn close(&mut self, handle: HandleId) {
        let idle = self.calls.iter().all(|call| !call.uses(handle));
        assert!(idle, "a file is closed after its calls have ended");
        let closed = self.handles[handle.index()].take();
        assert!(closed.is_some(), "a description is closed once");
        self.free_handles.push(handle);
    }

    /// Write errors of a file so far.
    pub fn write_errors(&self, file: FileId) -> u64 {
        self.writeback.error_count(file)
    }

    /// A flush failed, so writes of this file that had ended well may be lost.
    pub fn fail_writes(&mut self, file: FileId) {
        self.writeback.errors(file).set();
    }

    /// Whether there is a write error that was not reported on a description; it counts as reported
    /// now.
    pub fn take_write_error(&mut self, handle: HandleId) -> bool {
        let opened =
            self.handles[handle.index()].as_mut().expect("an error is reported while open");
        self.writeback.errors(opened.file).check_and_advance(&mut opened.seen)
    }

    /// The first page of a file from `from` on that differs from the device or is under writeback.
    pub fn next_unsafe_page(&self, file: FileId, from: PageIndex) -> Option<PageIndex> {
        let dirty = self.cache.next_dirty(file, from).map(|(page, _)| page);
        let moving = self.cache.next_writeback(file, from);
        [dirty, moving].into_iter().flatten().min()
    }

    /// Sets the state of the processor that handles the next input. By default the engine assumes
    /// that switching is free and the processor idle.
    pub fn set_processor(&mut self, processor: Processor) {
        self.block.processor = processor;
    }

    /// Takes one input. All outputs of the one before must have been polled.
    pub fn handle(&mut self, now: Instant, input: Input) {
        assert!(now >= self.now, "time does not go back");
        assert!(self.outputs.is_empty(), "outputs are carried out before the next input");
        self.now = now;
        self.unchanged = matches!(input, Input::Call(_, Op::Read { .. } | Op::Write { .. }));
        match input {
            Input::Call(call, op) => self.call(call, op),
            Input::Resume(call) => self.resume(call),
            Input::Done(request, result, took) => {
                let given = self.block.end_request(now, request, took);
                if given.request.is_direct() {
                    self.end_direct_request(&given, result);
                } else if given.request.kind.is_read() {
                    self.end_read_request(&given, result);
                    self.wake_read_place_waiters(given.request.device);
                } else {
                    self.end_write_request(&given, result);
                }
            }
            Input::Decoded(decode, result) => self.decoded(decode, result),
            Input::Idle => self.idle(),
            Input::Timeout => {
                self.block.unplug_due(now);
                self.writeback_timeout();
            }
        }
        if self.unchanged {
            return;
        }
        self.run_flush();
        self.push_ready();
        self.look_at_offers();
        (self.deadline, self.deadline_is_stale) = (self.next_deadline(), false);
    }

    /// Whether the last input has met pages in memory and changed nothing except the counts of
    /// calls: neither [`levels`](Self::levels) nor any other number of pages.
    pub fn is_unchanged(&self) -> bool {
        self.unchanged
    }

    /// The next output, in the order in which they are to be executed.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    /// When the engine needs [`Input::Timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.deadline_is_stale { self.next_deadline() } else { self.deadline }
    }

    /// When the first request that is held back is due, if one is.
    pub fn held_back_until(&self) -> Option<Instant> {
        self.block.timeout()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let requests = Instant::earlier(self.block.timeout(), self.writeback.timeout());
        Instant::earlier(requests, self.cache.reclaim_timeout())
    }

    /// Whether no call, no request and no decode is in flight. Pages may be dirty.
    pub fn is_quiet(&self) -> bool {
        let decodes = self.decodes().next().is_some();
        self.block.is_idle() && !decodes && self.calls.iter().all(Cursor::is_idle)
    }

    /// Whether no device has a request.
    pub fn devices_are_idle(&self) -> bool {
        self.block.devices_are_idle()
    }

    /// Clean pages of a file leave memory, as far as no call waits for them.
    pub fn drop_pages(&mut self, file: FileId, pages: Pages) {
        if self.cache.invalidate(file, pages.start, pages.end) > 0 {
            self.deadline_is_stale = true;
            self.wake_memory_waiters();
        }
    }

    fn call(&mut self, call: CallId, op: Op) {
        assert!(call.index() < self.calls.len(), "call ids lie below the configured maximum");
        assert!(self.calls[call.index()].is_idle(), "an id names one call at a time");
        match op {
            Op::Read { handle, offset, len } => {
                let bytes = self.files[self.file_of(handle).index()].bytes;
                self.begin_read(call, ReadCall::new(handle, offset, len, bytes));
            }
            Op::Write { handle, offset, len, durable } => {
                self.begin_write(call, (handle, offset, len), durable);
            }
            Op::Sync { handle } if self.read_only(self.file_of(handle)).is_some() => {
                self.outputs.push(Output::Reply(call, Ok(0)));
            }
            Op::Sync { handle } => self.begin(call, Task::Sync(SyncCall::whole(handle))),
            Op::Truncate { handle } => match self.read_only(self.file_of(handle)) {
                Some(error) => self.end_call(call, Err(error)),
                None => self.begin(call, Task::Truncate(handle)),
            },
            Op::Discard { handle, offset, len } => {
                let file = self.file_of(handle);
                match self.read_only(file) {
                    Some(error) => self.end_call(call, Err(error)),
                    None => {
                        let (first, end) = self.whole_pages(file, offset, len);
                        self.begin(call, Task::Discard(handle, first, end));
                    }
                }
            }
            Op::Direct { device, sector, sectors, kind, is_sync } => {
                self.begin_direct(call, device, (sector, sectors), kind);
                if is_sync || !matches!(kind, RequestKind::Write | RequestKind::Flush) {
                    self.block.unplug(self.now, device);
                }
            }
            Op::Fault { handle, page, write, mapping } => {
                self.begin(call, Task::Fault(FaultCall { handle, page, write, mapping }));
            }
            Op::Advise { handle, advice, offset, len } => {
                self.advise((call, handle), advice, offset, len);
                if self.owes_window() {
                    self.begin_advised(call, handle, offset / PAGE_SIZE);
                } else {
                    self.outputs.push(Output::Reply(call, Ok(0)));
                }
            }
        }
    }

    fn begin(&mut self, call: CallId, task: Task) {
        self.calls[call.index()] = Cursor::new(task);
        self.advance_task(call, false);
    }

    /// A packed file is read in advance before the call that advised it ends.
    fn begin_advised(&mut self, call: CallId, handle: HandleId, page: u64) {
        self.calls[call.index()] = Cursor::new(Task::Advised(handle));
        let file = self.file_of(handle);
        let ask = Ask { handle, file, page, end: page, copied: false, again: false };
        if self.bring_ahead(call, &ask) {
            self.advance(call, false);
        }
    }

    fn resume(&mut self, call: CallId) {
        if core::mem::take(&mut self.calls[call.index()].promised) {
            self.writeback.places_promised -= 1;
            self.writeback.wanted = true;
        }
        match core::mem::replace(&mut self.calls[call.index()].wait, Wait::Running) {
            Wait::Woken(Some(frame)) => {
                self.cache.unpin(frame);
                self.wake_memory_waiters();
            }
            Wait::Woken(None) | Wait::Pause => {}
            Wait::Idle
            | Wait::Running
            | Wait::Page(_)
            | Wait::Memory
            | Wait::Pass
            | Wait::ReadPlace
            | Wait::Place
            | Wait::Buffers
            | Wait::Holder
            | Wait::Decode
            | Wait::Direct
            | Wait::Request => panic!("a call resumes once after each wake and each pause"),
        }
        let seen = !core::mem::take(&mut self.calls[call.index()].unseen);
        self.advance(call, seen);
    }

    fn end_read_request(&mut self, given: &Given, result: Result<(), IoError>) {
        let request = &given.request;
        // One bad page fails its whole request: readers of a page that was read with others request
        // it again, and get an error only when it failed on its own. A reader that resumes reads no
        // others, so this ends when no other reader's window holds the page.
        let error = result.err().filter(|_| request.pages == 1);
        let mut guess = given.frame;
        for page in request.first..request.first + request.pages {
            let hit = self.cache.lookup_at(request.file, page, guess);
            let frame = hit.expect("a page stays while it is being read").frame;
            guess = Some(frame.next());
            let waiter = self.cache.take_waiters(frame);
            if result.is_ok() {
                self.cache.end_read(frame);
            }
            self.wake_page_waiters(waiter, frame, (result.is_ok(), error));
            if result.is_err() {
                self.cache.fail_read(frame);
            }
        }
        self.wake_memory_waiters();
    }

    fn advise(
        &mut self,
        (call, handle): (CallId, HandleId),
        advice: Advice,
        offset: u64,
        len: u64,
    ) {
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
                self.with_space(handle, (call, None), |readahead, space| {
                    readahead.on_will_need(first, count, space);
                });
            }
            Advice::NoReuse if offset < end => {
                let (first, count) = pages_touched(offset, end - offset);
                self.with_space(handle, (call, None), |readahead, space| {
                    readahead.on_no_reuse(first, count, space);
                });
            }
            Advice::DontNeed if offset < end => {
                let (first, whole) = self.whole_pages(file, offset, end - offset);
                self.forget_deferred(file, Pages::new(first, whole));
                if self.cache.invalidate(file, first, whole) > 0 {
                    self.wake_memory_waiters();
                }
            }
            Advice::WillNeed | Advice::DontNeed | Advice::NoReuse => {}
        }
    }

    /// The pages that lie in a range as a whole, from the first to before the second. The page that
    /// a file ends in is whole if the range reaches to the end.
    fn whole_pages(&self, file: FileId, offset: u64, len: u64) -> (PageIndex, PageIndex) {
        let bytes = self.files[file.index()].bytes;
        let end = offset.saturating_add(len).min(bytes);
        let whole = if end == bytes { end.div_ceil(PAGE_SIZE) } else { end / PAGE_SIZE };
        (offset.div_ceil(PAGE_SIZE), whole)
    }

    /// Has the calls that wait for memory look again.
    fn wake_memory_waiters(&mut self) {
        while let Some(call) = self.memory_waiters.pop_front() {
            self.wake(call, None);
        }
    }

    /// Turns requests that were let go into outputs.
    fn push_ready(&mut self) {
        while let Some(request) = self.block.pop_ready() {
            self.outputs.push(Output::Submit(request));
        }
    }

    fn opened(&self, handle: HandleId) -> &Handle {
        self.handles[handle.index()].as_ref().expect("a call names an open file")
    }

    fn opened_mut(&mut self, handle: HandleId) -> &mut Handle {
        self.handles[handle.index()].as_mut().expect("a call names an open file")
    }
}
