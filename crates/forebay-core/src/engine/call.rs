//! A call moves on, waits and wakes.

use super::Engine;
use super::cursor::{Cursor, Task};
use super::wait::Wait;
use crate::cache::Hit;
use crate::io::{IoError, Output};
use crate::units::{CallId, DeviceId, FileId, FrameId};

impl Engine {
    /// Moves a call on until it ends or must wait. A call that resumes comes back to a page that
    /// the policy has seen.
    pub(super) fn advance(&mut self, call: CallId, resumed: bool) {
        if self.advance_job(call) {
            self.advance_task(call, resumed);
        }
    }

    /// The same for a call without a job.
    pub(super) fn advance_task(&mut self, call: CallId, resumed: bool) {
        match self.calls[call.index()].task {
            Task::Read(read) => self.advance_read(call, read, resumed),
            Task::Fault(fault) => self.advance_fault(call, fault, resumed),
            Task::Write(write) => self.advance_write(call, write),
            Task::Sync(sync) => self.advance_sync(call, sync),
            Task::Truncate(handle) => self.advance_truncate(call, handle),
            Task::Discard(handle, first, end) => {
                self.advance_discard(call, handle, (first, end));
            }
            Task::Direct(bytes) => {
                let result = self.take_error(call).map_or(Ok(bytes), Err);
                self.end_call(call, result);
            }
            Task::Advised(_) => {
                self.take_error(call);
                self.end_call(call, Ok(0));
            }
        }
    }

    /// Parks a call until its page is up to date, or until there is memory for it.
    pub(super) fn wait(&mut self, call: CallId, file: FileId, hit: Option<Hit>) {
        match hit {
            Some(hit) => self.wait_for_page(call, file, hit.frame),
            None => self.wait_for_memory(call),
        }
    }

    /// Parks a call until a page that moves has been read or has arrived.
    pub(super) fn wait_for_page(&mut self, call: CallId, file: FileId, frame: FrameId) {
        self.unchanged = false;
        let cursor = &mut self.calls[call.index()];
        cursor.wait = Wait::Page(frame);
        cursor.next_waiter = self.cache.push_waiter(frame, call);
        self.block.unplug(self.now, self.files[file.index()].device);
    }

    /// Parks a call until a device has a free read slot; returns whether its policy has seen the
    /// current page.
    pub(super) fn wait_for_read_place(&mut self, call: CallId, device: DeviceId, seen: bool) {
        self.unchanged = false;
        let cursor = &mut self.calls[call.index()];
        (cursor.wait, cursor.unseen) = (Wait::ReadPlace, !seen);
        self.read_place_waiters.push((device, call));
        self.block.unplug(self.now, device);
    }

    /// Has the calls that wait for a place for a read at a device look again.
    pub(super) fn wake_read_place_waiters(&mut self, device: DeviceId) {
        if self.read_place_waiters.is_empty() || !self.block.takes_reads(self.now, device) {
            return;
        }
        let mut waiters = core::mem::take(&mut self.read_place_waiters);
        for (_, call) in waiters.extract_if(.., |(of, _)| *of == device) {
            self.wake(call, None);
        }
        self.read_place_waiters = waiters;
    }

    /// Parks a call until memory has become free.
    pub(super) fn wait_for_memory(&mut self, call: CallId) {
        self.unchanged = false;
        let cursor = &mut self.calls[call.index()];
        cursor.wait = Wait::Memory;
        if cursor.turn == 0 {
            self.memory_turns += 1;
            cursor.turn = self.memory_turns;
        }
        // All look again when memory becomes free; the one that has waited longest looks first.
        let (turn, calls) = (cursor.turn, &self.calls);
        let place = self.memory_waiters.partition_point(|one| calls[one.index()].turn < turn);
        self.memory_waiters.insert(place, call);
        self.writeback.wanted = true;
        // The pages that fill the memory may still be held back by a plug.
        self.block.unplug_all(self.now);
    }

    /// A call has got memory: its next wait is a new one.
    pub(super) fn end_turn(&mut self, call: CallId) {
        self.calls[call.index()].turn = 0;
    }

    /// Makes a call that changes pages give up if the event it waits for may never happen: memory,
    /// a pass of the flush rule, writeback to a device that is full. It is woken, and ends with the
    /// error when it resumes; one that pauses may be resumed at once. Returns whether it gives up.
    pub fn give_up(&mut self, call: CallId, error: IoError) -> bool {
        let Cursor { wait, task, .. } = self.calls[call.index()];
        let is_durable = matches!(task, Task::Sync(sync) if sync.is_durable());
        match (wait, task) {
            (Wait::Memory, Task::Write(_)) => self.memory_waiters.retain(|one| *one != call),
            (Wait::Pass, Task::Write(_)) => {
                self.writeback.pass_waiters.retain(|one| *one != call);
            }
            (Wait::Place, task) if is_durable || matches!(task, Task::Discard(..)) => {
                self.writeback.place_waiters.retain(|one| *one != call);
            }
            (Wait::Page(frame), task)
                if self.cache.is_writeback(frame)
                    && (is_durable || matches!(task, Task::Discard(..))) =>
            {
                self.leave_page(call, frame);
            }
            (Wait::Pause, Task::Write(_)) => {
                self.calls[call.index()].error = Some(error);
                return true;
            }
            _ => return false,
        }
        self.calls[call.index()].error = Some(error);
        self.wake(call, None);
        true
    }

    /// Takes a call out of the chain of those that wait for a page.
    fn leave_page(&mut self, call: CallId, frame: FrameId) {
        let first = self.cache.take_waiters(frame);
        let after = self.calls[call.index()].next_waiter.take();
        let first = if first == Some(call) {
            after
        } else {
            let mut one = first.expect("a call that waits for a page is in its chain");
            while self.calls[one.index()].next_waiter != Some(call) {
                let next = self.calls[one.index()].next_waiter;
                one = next.expect("a call that waits for a page is in its chain");
            }
            self.calls[one.index()].next_waiter = after;
            first
        };
        if let Some(first) = first {
            self.cache.push_waiter(frame, first);
        }
    }

    /// The reason why what a call waited for did not come.
    pub(super) fn take_error(&mut self, call: CallId) -> Option<IoError> {
        self.calls[call.index()].error.take()
    }

    /// Wakes a call; the page that it waited for stays until it has resumed.
    pub(super) fn wake(&mut self, call: CallId, page: Option<FrameId>) {
        self.calls[call.index()].wait = Wait::Woken(page);
        self.outputs.push(Output::Wake(call));
    }

    /// Wakes the calls of a chain that wait for a page; `error` is the reason if it could not be
    /// read. A present page stays for them.
    pub(super) fn wake_page_waiters(
        &mut self,
        mut waiter: Option<CallId>,
        frame: FrameId,
        (there, error): (bool, Option<IoError>),
    ) {
        while let Some(call) = waiter {
            let cursor = &mut self.calls[call.index()];
            assert_eq!(cursor.wait, Wait::Page(frame), "a waiter waits for this page");
            waiter = cursor.next_waiter.take();
            cursor.error = error;
            if there {
                self.cache.pin(frame);
            }
            self.wake(call, there.then_some(frame));
        }
    }

    #[inline]
    pub(super) fn end_call(&mut self, call: CallId, result: Result<u64, IoError>) {
        self.calls[call.index()].wait = Wait::Idle;
        self.stats.errors += u64::from(result.is_err());
        // Work that this call has released is submitted before the caller is notified of its end.
        self.push_ready();
        self.outputs.push(Output::Reply(call, result));
    }
}
