//! A call in flight: what it does, how far it has come and what it waits for.

use super::packed::Job;
use super::wait::Wait;
use crate::io::{IoError, RequestKind};
use crate::readahead::Mapping;
use crate::units::{CallId, HandleId, PageIndex};

/// A call in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) wait: Wait,
    /// The next call that waits for the same page.
    pub(super) next_waiter: Option<CallId>,
    /// Why what the call waited for did not come.
    pub(super) error: Option<IoError>,
    /// It was woken because a device has a place for a write.
    pub(super) promised: bool,
    /// It waited for a place before its policy has seen the page.
    pub(super) unseen: bool,
    /// Its turn among those that wait for memory, kept until it has got some; zero for none.
    pub(super) turn: u64,
    /// The work for it before it looks at its page of a packed file again.
    pub(super) job: Option<Job>,
    pub(super) task: Task,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Read(ReadCall),
    Fault(FaultCall),
    Write(WriteCall),
    Sync(SyncCall),
    Truncate(HandleId),
    /// The pages from one to before another are dropped.
    Discard(HandleId, PageIndex, PageIndex),
    /// This many bytes, bypassing the page cache.
    Direct(u64),
    /// Advice that waits for pointer words, or for the pages that it reads.
    Advised(HandleId),
}

impl Default for Task {
    fn default() -> Self {
        Self::Truncate(HandleId(u32::MAX))
    }
}

impl Cursor {
    /// A call that has just come.
    pub(super) fn new(task: Task) -> Self {
        Self { wait: Wait::Running, task, ..Self::default() }
    }

    /// Whether the id is free.
    pub(super) fn is_idle(&self) -> bool {
        self.wait == Wait::Idle
    }

    /// Whether this is a call in flight through `handle`.
    pub(super) fn uses(&self, handle: HandleId) -> bool {
        !self.is_idle() && self.handle() == Some(handle)
    }

    pub(super) fn handle(&self) -> Option<HandleId> {
        Some(match self.task {
            Task::Read(read) => read.handle,
            Task::Fault(fault) => fault.handle,
            Task::Write(write) => write.handle,
            Task::Sync(sync) => sync.handle,
            Task::Truncate(handle) | Task::Discard(handle, ..) | Task::Advised(handle) => handle,
            Task::Direct(_) => return None,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCall {
    pub(super) handle: HandleId,
    pub(super) start: u64,
    pub(super) position: u64,
    /// The end inside the file.
    pub(super) end: u64,
    /// The requested end.
    pub(super) asked_end: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FaultCall {
    pub(super) handle: HandleId,
    pub(super) page: PageIndex,
    pub(super) write: bool,
    pub(super) mapping: Mapping,
}

impl ReadCall {
    /// A read of `len` bytes from `offset` of a file of `bytes`.
    pub(super) fn new(handle: HandleId, offset: u64, len: u64, bytes: u64) -> Self {
        let asked_end = offset.saturating_add(len);
        // Offsets beyond the end read nothing, wherever they lie.
        let end = asked_end.min(bytes).max(offset);
        Self { handle, start: offset, position: offset, end, asked_end }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WriteCall {
    pub(super) handle: HandleId,
    pub(super) start: u64,
    pub(super) position: u64,
    /// The end inside the file's room.
    pub(super) end: u64,
    pub(super) durable: bool,
    /// The task comes back from a pause and asks the throttle once more.
    pub(super) asks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SyncCall {
    pub(super) handle: HandleId,
    pub(super) first: PageIndex,
    pub(super) end: PageIndex,
    pub(super) kind: RequestKind,
    pub(super) stage: Stage,
    /// The page that the stage has come to.
    pub(super) at: PageIndex,
    /// The sync waited for the page at `at` while it was both dirty and under writeback.
    pub(super) waited: bool,
    /// Pages that this call has sent.
    pub(super) sent: u64,
    /// How often the file's metadata had arrived when the flush began.
    pub(super) arrivals: u64,
    /// What the caller hears if all goes well.
    pub(super) reply: u64,
}

/// What a sync has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Write,
    Arrive,
    Inode,
    SendFlush,
    Flushed,
}

impl SyncCall {
    /// All of a file.
    pub(super) fn whole(handle: HandleId) -> Self {
        Self { kind: RequestKind::Write, ..Self::range(handle, (0, PageIndex::MAX), 0) }
    }

    /// Whether it is the end of a durable write.
    pub(super) fn is_durable(&self) -> bool {
        self.kind == RequestKind::DurableWrite
    }

    /// The pages of a durable write of `reply` bytes.
    pub(super) fn range(
        handle: HandleId,
        (first, end): (PageIndex, PageIndex),
        reply: u64,
    ) -> Self {
        Self {
            handle,
            first,
            end,
            kind: RequestKind::DurableWrite,
            stage: Stage::Write,
            at: first,
            waited: false,
            sent: 0,
            arrivals: 0,
            reply,
        }
    }
}
