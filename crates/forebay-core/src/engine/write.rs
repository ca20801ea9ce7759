//! The resumable write, and the cut of a file to nothing.
//!
//! ```text
//!   page by page:  find it, or take a frame for it if it is written whole or lies behind the end,
//!                  or read it first -> copy -> dirty -> flush rule -> throttle: go on or pause
//! ```

use super::Engine;
use super::cursor::{Cursor, SyncCall, Task, WriteCall};
use super::wait::Wait;
use crate::cache::Hit;
use crate::flush::Demand;
use crate::io::{Copy, IoError, Output, RequestKind};
use crate::time::Duration;
use crate::units::{CallId, DeviceId, FileId, FrameId, HandleId, PAGE_SIZE, PageIndex};

/// What holds a writer up.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// Until a pass of the flush rule has ended.
    Pass,
    /// For a while; then the throttle is called again.
    Pause(Duration),
}

impl Engine {
    /// A write has been asked for.
    pub(super) fn begin_write(
        &mut self,
        call: CallId,
        (handle, offset, len): (HandleId, u64, u64),
        durable: bool,
    ) {
        let file = self.files[self.file_of(handle).index()];
        let end = offset.saturating_add(len).min(file.room).max(offset);
        let task = WriteCall { handle, start: offset, position: offset, end, durable, asks: false };
        self.calls[call.index()] = Cursor::new(Task::Write(task));
        if let Some(error) = self.read_only(self.file_of(handle)) {
            self.end_call(call, Err(error));
        } else if len == 0 {
            self.end_call(call, Ok(0));
        } else if offset > file.bytes {
            self.end_call(call, Err(IoError::BeyondEnd));
        } else if end == offset {
            self.end_call(call, Err(IoError::NoSpace));
        } else {
            self.advance_write(call, task);
        }
    }

    pub(super) fn advance_write(&mut self, call: CallId, mut write: WriteCall) {
        let file = self.file_of(write.handle);
        // The file may have been truncated in the meantime.
        let cut = write.position > self.files[file.index()].bytes;
        let error = self.take_error(call).or(cut.then_some(IoError::BeyondEnd));
        if let Some(error) = error {
            self.end_write(call, &write, Err(error));
            return;
        }
        if core::mem::take(&mut write.asks)
            && let Some(pause) = self.ask_throttle(call, file, false, true)
        {
            self.hold(call, write, Hold::Pause(pause));
            return;
        }
        let mut run: Option<Copy> = None;
        while write.position < write.end {
            let (page, offset) = (write.position / PAGE_SIZE, write.position % PAGE_SIZE);
            let len = (PAGE_SIZE - offset).min(write.end - write.position);
            let guess = run.map(|run| run.last_frame().next());
            let found = self.cache.lookup_at(file, page, guess);
            if self.reserve > 0 && !self.may_dirty(file, found) {
                self.calls[call.index()].task = Task::Write(write);
                self.push_copy(run);
                self.wait_for_memory(call);
                return;
            }
            let (hit, fresh) = match found {
                Some(hit) => (Some(hit), false),
                None if self.needs_no_read(file, write.position, len) => {
                    self.unchanged = false;
                    (self.cache.add_written(file, page), true)
                }
                None => (self.read_alone(call, file, page), false),
            };
            let frame = match hit {
                Some(hit) if fresh => Some(hit.frame),
                hit => self.ready_frame(hit),
            };
            if hit.is_some() {
                self.end_turn(call);
            }
            let Some(frame) = frame else {
                self.calls[call.index()].task = Task::Write(write);
                self.push_copy(run);
                self.wait(call, file, hit);
                return;
            };
            match &mut run {
                Some(run) if run.last_frame().0 + 1 == frame.0 => run.len += len,
                other => {
                    let (offset, buffer_offset) = (write.position, write.position - write.start);
                    let to_frames = true;
                    let next = Copy { call, to_frames, file, offset, frame, buffer_offset, len };
                    let before = other.replace(next);
                    self.push_copy(before);
                }
            }
            write.position += len;
            if let Some(hold) = self.dirtied(call, file, frame, write.position) {
                self.push_copy(run);
                self.hold(call, write, hold);
                return;
            }
        }
        self.push_copy(run);
        self.end_write(call, &write, Ok(()));
    }

    /// Whether a page may become dirty: some pages stay clean, and each device has its own share of
    /// the others, half of the equal share, so that a device that accepts no writes leaves memory
    /// to the others.
    fn may_dirty(&self, file: FileId, found: Option<Hit>) -> bool {
        if found.is_some_and(|hit| self.cache.is_unsafe(hit.frame)) {
            return true;
        }
        let most = u64::from(self.cache.capacity()) - self.reserve;
        let all = self.levels().unsafe_pages();
        let devices = u64::from(self.block.devices());
        let share = (most / (2 * devices)).max(1);
        if all + share * devices < most {
            return true;
        }
        let own = self.files[file.index()].device;
        let left =
            |device: DeviceId| share.saturating_sub(self.device_levels(device).unsafe_pages());
        let others = (0..self.block.devices()).map(DeviceId).filter(|device| *device != own);
        all < most && (left(own) > 0 || all + others.map(left).sum::<u64>() < most)
    }

    /// Whether what a write leaves of a page is nothing, or behind the end of the file.
    fn needs_no_read(&self, file: FileId, position: u64, len: u64) -> bool {
        let bytes = self.files[file.index()].bytes;
        let page_start = position - position % PAGE_SIZE;
        let covers = position == page_start && (len == PAGE_SIZE || position + len >= bytes);
        page_start >= bytes || covers
    }

    /// A page has been written, up to byte `end` of its file: what delays its writer.
    fn dirtied(&mut self, call: CallId, file: FileId, frame: FrameId, end: u64) -> Option<Hold> {
        let bytes = &mut self.files[file.index()].bytes;
        // The write fills one page, up to `end`.
        let allocated = (end - 1) / PAGE_SIZE >= bytes.div_ceil(PAGE_SIZE);
        *bytes = (*bytes).max(end);
        if self.reserve > 0 {
            // It may stay dirty for long: the rest of its folio can be evicted in the meantime.
            self.cache.split(frame.0);
        }
        let newly = self.mark_dirty(file, frame, allocated);
        self.stats.pages_written += 1;
        if newly && self.ask_flush(file) == Demand::RunAndWait {
            return Some(Hold::Pass);
        }
        self.ask_throttle(call, file, newly, false).map(Hold::Pause)
    }

    /// Parks a write.
    fn hold(&mut self, call: CallId, write: WriteCall, hold: Hold) {
        self.unchanged = false;
        let cursor = &mut self.calls[call.index()];
        match hold {
            Hold::Pass => {
                cursor.task = Task::Write(write);
                cursor.wait = Wait::Pass;
                self.writeback.pass_waiters.push(call);
            }
            Hold::Pause(length) => {
                cursor.task = Task::Write(WriteCall { asks: true, ..write });
                cursor.wait = Wait::Pause;
                self.outputs.push(Output::Pause(call, length));
            }
        }
    }

    /// Ends a write: bytes written before an error make a short write, as in write(2).
    fn end_write(&mut self, call: CallId, write: &WriteCall, result: Result<(), IoError>) {
        let written = write.position - write.start;
        match result {
            Err(error) if written == 0 => self.end_call(call, Err(error)),
            // It gives up: its caller does not wait for a durable part of it.
            Err(IoError::NoSpace) => self.end_call(call, Ok(written)),
            Ok(()) | Err(_) if write.durable => {
                self.unchanged = false;
                let first = write.start / PAGE_SIZE;
                let end = write.position.div_ceil(PAGE_SIZE);
                let sync = SyncCall::range(write.handle, (first, end), written);
                self.begin_sync(call, sync);
            }
            Ok(()) | Err(_) => self.end_call(call, Ok(written)),
        }
    }

    /// Cuts a file to nothing as soon as none of its pages is in use.
    pub(super) fn advance_truncate(&mut self, call: CallId, handle: HandleId) {
        let file = self.file_of(handle);
        self.files[file.index()].bytes = 0;
        if self.drop_all(call, file, (0, PageIndex::MAX)) {
            self.end_call(call, Ok(0));
        }
    }

    /// Writes the dirty pages of a range, and drops all of its pages as soon as none is in use.
    pub(super) fn advance_discard(
        &mut self,
        call: CallId,
        handle: HandleId,
        (first, end): (PageIndex, PageIndex),
    ) {
        let file = self.file_of(handle);
        let device = self.files[file.index()].device;
        if self.calls[call.index()].error == Some(IoError::NoSpace) {
            self.end_call(call, Err(IoError::NoSpace));
            return;
        }
        let mut at = first;
        while let Some((page, moves)) = self.cache.next_dirty(file, at).filter(|next| next.0 < end)
        {
            at = page + 1;
            if moves {
                continue;
            }
            if !self.block.takes_write(device) {
                self.block.unplug(self.now, device);
                self.calls[call.index()].wait = Wait::Place;
                self.writeback.place_waiters.push(call);
                return;
            }
            let most = (end - page).min(self.block.request_pages_max(device));
            at = page + self.sender(call).send(file, page, most, RequestKind::Write);
        }
        self.block.unplug(self.now, device);
        let moving = self.cache.next_writeback(file, first).filter(|page| *page < end);
        if let Some(hit) = moving.and_then(|page| self.cache.lookup(file, page)) {
            self.take_error(call);
            self.wait_for_page(call, file, hit.frame);
        } else if self.drop_all(call, file, (first, end)) {
            self.end_call(call, Ok(0));
        }
    }

    /// Drops pages, dirty ones without being written; parks the call if one is in use.
    fn drop_all(&mut self, call: CallId, file: FileId, range: (PageIndex, PageIndex)) -> bool {
        // The call that read or wrote the page gets the error, not this one.
        self.take_error(call);
        let (in_use, dropped) = self.cache.cut(file, range);
        self.writeback.forget_dirty(self.files[file.index()].device, dropped);
        self.stats.pages_cancelled += dropped;
        self.wake_memory_waiters();
        match in_use {
            None => return true,
            Some(frame) if self.cache.is_moving(frame) => self.wait_for_page(call, file, frame),
            // A call that was woken holds the page; it lets go when it resumes.
            Some(_) => self.wait_for_memory(call),
        }
        false
    }
}
