//! The resumable read, and the page fault, which is a read of one page without a copy.

use super::Engine;
use crate::cache::Hit;
use crate::io::{Copy, IoError, Output};
use crate::readahead::{Access, AddressSpace, Fault, Found, Mapping, Readahead};
use crate::units::{CallId, FileId, FrameId, HandleId, PAGE_SIZE, PageIndex};

/// A call in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) wait: Wait,
    /// The next call that waits for the same page.
    pub(super) next_waiter: Option<CallId>,
    /// Why the page that the call waited for did not come.
    pub(super) error: Option<IoError>,
    task: Task,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// There is no call.
    #[default]
    Idle,
    Running,
    Page(FrameId),
    Memory,
    /// Woken but not resumed; the page it waited for is pinned.
    Woken(Option<FrameId>),
}

#[derive(Clone, Copy, Debug)]
enum Task {
    Read(Read),
    Fault(FaultCall),
}

#[derive(Clone, Copy, Debug)]
struct Read {
    handle: HandleId,
    start: u64,
    position: u64,
    /// The end inside the file.
    end: u64,
    /// The end as it was asked.
    asked_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct FaultCall {
    handle: HandleId,
    page: PageIndex,
    write: bool,
    mapping: Mapping,
}

impl Default for Task {
    fn default() -> Self {
        let handle = HandleId(u32::MAX);
        Self::Read(Read { handle, start: 0, position: 0, end: 0, asked_end: 0 })
    }
}

impl Cursor {
    /// A read of `len` bytes from `offset` of a file of `bytes`.
    pub(super) fn read(handle: HandleId, offset: u64, len: u64, bytes: u64) -> Self {
        let asked_end = offset.saturating_add(len);
        // Offsets beyond the end read nothing, wherever they lie.
        let end = asked_end.min(bytes).max(offset);
        Self::new(Task::Read(Read { handle, start: offset, position: offset, end, asked_end }))
    }

    /// A fault.
    pub(super) fn fault(handle: HandleId, page: PageIndex, write: bool, mapping: Mapping) -> Self {
        Self::new(Task::Fault(FaultCall { handle, page, write, mapping }))
    }

    /// Whether the id is free.
    pub(super) fn is_idle(&self) -> bool {
        self.wait == Wait::Idle
    }

    /// Whether this is a call in flight through `handle`.
    pub(super) fn uses(&self, handle: HandleId) -> bool {
        !self.is_idle() && self.handle() == handle
    }

    fn new(task: Task) -> Self {
        Self { wait: Wait::Running, task, ..Self::default() }
    }

    fn handle(&self) -> HandleId {
        match self.task {
            Task::Read(read) => read.handle,
            Task::Fault(fault) => fault.handle,
        }
    }
}

impl Engine {
    /// Moves a call on until it ends or must wait. A call that resumes comes back to a page that
    /// the policy has seen.
    pub(super) fn advance(&mut self, call: CallId, resumed: bool) {
        match self.calls[call.index()].task {
            Task::Read(read) => self.advance_read(call, read, resumed),
            Task::Fault(fault) => self.advance_fault(call, fault, resumed),
        }
    }

    fn advance_read(&mut self, call: CallId, mut read: Read, resumed: bool) {
        if let Some(error) = self.take_error(call, read.handle) {
            self.end_read_call(call, &read, Err(error));
            return;
        }
        let opened = self.opened(read.handle);
        let (file, sees_hits) = (opened.file, opened.sees_hits);
        let mut seen = resumed;
        let mut run: Option<Copy> = None;
        while read.position < read.end {
            let page = read.position / PAGE_SIZE;
            let near = run.map(|run| run.last_frame());
            let mut hit = self.cache.lookup_near(file, page, near);
            if !core::mem::replace(&mut seen, false) {
                hit = self.meet(&read, file, page, hit, sees_hits);
            }
            let hit = hit.or_else(|| self.read_alone(file, page));
            let Some(frame) = self.ready_frame(hit) else {
                self.calls[call.index()].task = Task::Read(read);
                self.push_copy(run);
                self.wait(call, file, hit);
                return;
            };
            let offset = read.position % PAGE_SIZE;
            let len = (PAGE_SIZE - offset).min(read.end - read.position);
            match &mut run {
                Some(run) if run.last_frame().0 + 1 == frame.0 => run.len += len,
                other => {
                    let (offset, buffer_offset) = (read.position, read.position - read.start);
                    let next = Copy { call, file, offset, frame, buffer_offset, len };
                    let before = other.replace(next);
                    self.push_copy(before);
                }
            }
            read.position += len;
        }
        self.push_copy(run);
        self.end_read_call(call, &read, Ok(()));
    }

    fn push_copy(&mut self, run: Option<Copy>) {
        if let Some(run) = run {
            self.outputs.push_back(Output::Copy(run));
        }
    }

    /// Shows a page of a read to the policy, as it was found and, if a marker came to light, once
    /// more; returns the page as it is afterwards.
    fn meet(
        &mut self,
        read: &Read,
        file: FileId,
        page: PageIndex,
        found: Option<Hit>,
        sees_hits: bool,
    ) -> Option<Hit> {
        self.count_access(found);
        let mut hit = found;
        match self.found(hit) {
            Found::Present if !sees_hits => return hit,
            Found::Absent | Found::Present => {
                self.show(read, page, hit);
                hit = self.cache.lookup(file, page);
            }
            Found::Marked => {}
        }
        if self.found(hit) == Found::Marked {
            self.show(read, page, hit);
        }
        hit
    }

    fn show(&mut self, read: &Read, page: PageIndex, hit: Option<Hit>) {
        let access = Access {
            page,
            remaining: read.asked_end.div_ceil(PAGE_SIZE) - page,
            first: page == read.start / PAGE_SIZE,
            found: self.found(hit),
        };
        self.lend_space(read.handle, hit, |readahead, space| readahead.on_read(&access, space));
    }

    /// As [`with_space`](Self::with_space), and a page that is there stays while the policy makes
    /// room for others.
    fn lend_space(
        &mut self,
        handle: HandleId,
        hit: Option<Hit>,
        act: impl FnOnce(&mut dyn Readahead, &mut dyn AddressSpace),
    ) {
        if let Some(hit) = hit {
            self.cache.pin(hit.frame);
        }
        self.with_space(handle, act);
        if let Some(hit) = hit {
            self.cache.unpin(hit.frame);
        }
    }

    fn count_access(&mut self, hit: Option<Hit>) {
        self.stats.accesses += 1;
        self.stats.hits += u64::from(hit.is_some_and(|hit| !hit.reading));
    }

    fn advance_fault(&mut self, call: CallId, fault: FaultCall, resumed: bool) {
        let FaultCall { handle, page, write, mapping } = fault;
        if let Some(error) = self.take_error(call, handle) {
            self.end_call(call, Err(error));
            return;
        }
        let file = self.opened(handle).file;
        if page >= self.files[file.index()].pages() {
            self.end_call(call, Err(IoError::BeyondEnd));
            return;
        }
        let mut hit = self.cache.lookup(file, page);
        if !resumed {
            self.count_access(hit);
            let fault = Fault { page, write, mapping, found: self.found(hit) };
            self.lend_space(handle, hit, |readahead, space| readahead.on_fault(&fault, space));
            hit = self.cache.lookup(file, page);
        }
        let hit = hit.or_else(|| self.read_alone(file, page));
        if self.ready_frame(hit).is_none() {
            self.wait(call, file, hit);
            return;
        }
        // Whoever resumes has waited.
        if resumed {
            self.stats.faults_major += 1;
        } else {
            self.stats.faults_minor += 1;
        }
        self.end_call(call, Ok(0));
    }

    fn found(&self, hit: Option<Hit>) -> Found {
        match hit {
            None => Found::Absent,
            Some(hit) if self.cache.is_marked(hit.frame) => Found::Marked,
            Some(_) => Found::Present,
        }
    }

    /// The frame of a page that is up to date.
    fn ready_frame(&mut self, hit: Option<Hit>) -> Option<FrameId> {
        let hit = hit.filter(|hit| !hit.reading)?;
        self.cache.touch(hit.frame);
        Some(hit.frame)
    }

    /// Parks a call until its page is up to date, or until there is memory for it.
    fn wait(&mut self, call: CallId, file: FileId, hit: Option<Hit>) {
        let cursor = &mut self.calls[call.index()];
        match hit {
            Some(hit) => {
                cursor.wait = Wait::Page(hit.frame);
                cursor.next_waiter = self.cache.push_waiter(hit.frame, call);
                self.block.unplug(self.files[file.index()].device);
            }
            None => {
                cursor.wait = Wait::Memory;
                self.memory_waiters.push_back(call);
                // The pages that fill the memory may still be held back by a plug.
                self.block.unplug_all();
            }
        }
    }

    fn take_error(&mut self, call: CallId, handle: HandleId) -> Option<IoError> {
        let error = self.calls[call.index()].error.take()?;
        self.opened_mut(handle).readahead.on_error();
        Some(error)
    }

    /// Ends a read: what was transferred before an error counts as a short read, as in read(2).
    fn end_read_call(&mut self, call: CallId, read: &Read, result: Result<(), IoError>) {
        let transferred = read.position - read.start;
        // A read that could give nothing leaves the file position of the last one.
        if read.end > read.start {
            self.opened_mut(read.handle).readahead.on_read_end(read.position);
        }
        let result = match result {
            Err(error) if transferred == 0 => Err(error),
            Ok(()) | Err(_) => Ok(transferred),
        };
        self.end_call(call, result);
    }

    fn end_call(&mut self, call: CallId, result: Result<u64, IoError>) {
        self.calls[call.index()].wait = Wait::Idle;
        self.stats.errors += u64::from(result.is_err());
        // What this call has let go is on its way before the caller hears of its end.
        self.push_ready();
        self.outputs.push_back(Output::Reply(call, result));
    }
}

impl Copy {
    /// The frame of the last byte.
    fn last_frame(&self) -> FrameId {
        FrameId(self.frame.0 + self.pages() as u32 - 1)
    }
}
