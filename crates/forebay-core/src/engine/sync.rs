//! Waiting until written data is durable: fsync, and the end of a durable write.
//!
//! ```text
//!   Write: send the range's dirty pages  ->  Arrive: wait for all that are on their way
//!     -> Inode: send changed metadata    ->  Flush: empty the device's cache  ->  reply
//! ```
//!
//! Each stage walks the pages once, in rising order, so a concurrent writer cannot delay it for
//! ever. A durable write submits its pages so that they need no flush; it flushes only if another
//! call submitted some of them before, or if the metadata have been written since the last flush.

use super::Engine;
use super::cursor::{Cursor, Stage, SyncCall, Task};
use super::wait::Wait;
use crate::bugs::Bug;
use crate::io::IoError;
use crate::units::{CallId, FileId, PageIndex, RequestId};

impl Engine {
    /// A call begins to wait for the data that it has written.
    pub(super) fn begin_sync(&mut self, call: CallId, sync: SyncCall) {
        self.calls[call.index()] = Cursor::new(Task::Sync(sync));
        self.advance(call, false);
    }

    pub(super) fn advance_sync(&mut self, call: CallId, mut sync: SyncCall) {
        let file = self.file_of(sync.handle);
        if let Some(error) = self.take_error(call) {
            // Errors of pages have been counted; a failed flush concerns only this call, and so
            // does giving up.
            if sync.stage == Stage::Flushed || error == IoError::NoSpace {
                self.end_sync(call, &sync, Err(error));
                return;
            }
        }
        let next = match sync.stage {
            Stage::Write => self.send_range(call, file, &mut sync),
            Stage::Arrive => self.await_range(call, file, &mut sync),
            Stage::Inode => self.send_inode(call, file, &mut sync),
            Stage::SendFlush => self.send_flush(call, file, &mut sync),
            Stage::Flushed => {
                self.writeback.inode_flushed(file, sync.arrivals);
                self.end_sync(call, &sync, Ok(()));
                return;
            }
        };
        match next {
            Next::Wait => self.calls[call.index()].task = Task::Sync(sync),
            Next::Stage => self.advance_sync(call, sync),
            Next::End => self.end_sync(call, &sync, Ok(())),
        }
    }

    /// Sends the dirty pages from where the call stands.
    fn send_range(&mut self, call: CallId, file: FileId, sync: &mut SyncCall) -> Next {
        let device = self.files[file.index()].device;
        while let Some((page, moves)) = self.cache.next_dirty(file, sync.at) {
            if page >= sync.end {
                break;
            }
            let waited = core::mem::take(&mut sync.waited) && page == sync.at;
            sync.at = page;
            if moves {
                // Writes submitted since the call began to wait contain everything that was dirty
                // when it began.
                if waited {
                    sync.at += 1;
                    continue;
                }
                sync.waited = true;
                self.wait_for_arrival(call, file, page);
                return Next::Wait;
            }
            if !self.block.takes_write(device) {
                self.block.unplug(self.now, device);
                self.calls[call.index()].wait = Wait::Place;
                self.writeback.place_waiters.push(call);
                return Next::Wait;
            }
            let most = (sync.end - page).min(self.block.request_pages_max(device));
            let sent = self.sender(call).send(file, page, most, sync.kind);
            sync.sent += sent;
            sync.at = page + sent;
        }
        self.block.unplug(self.now, device);
        (sync.stage, sync.at) = (Stage::Arrive, sync.first);
        Next::Stage
    }

    /// Waits for the pages under writeback, one after another.
    fn await_range(&mut self, call: CallId, file: FileId, sync: &mut SyncCall) -> Next {
        match self.cache.next_writeback(file, sync.at).filter(|page| *page < sync.end) {
            Some(page) => {
                sync.at = page + 1;
                self.wait_for_arrival(call, file, page);
                Next::Wait
            }
            None => {
                sync.stage = Stage::Inode;
                Next::Stage
            }
        }
    }

    /// Sends the file's metadata if it has changed.
    fn send_inode(&mut self, call: CallId, file: FileId, sync: &mut SyncCall) -> Next {
        let device = self.files[file.index()].device;
        if self.writeback.inode_is_moving(file) || !self.block.takes_write(device) {
            self.calls[call.index()].wait = Wait::Place;
            self.writeback.place_waiters.push(call);
            return Next::Wait;
        }
        sync.stage = Stage::SendFlush;
        let cached = self.writeback.inode_is_cached(file);
        match self.sender(call).send_inode(file) {
            None if !cached && sync.sent == sync.end - sync.first => Next::End,
            None => Next::Stage,
            Some(request) => {
                self.await_request(call, request);
                Next::Wait
            }
        }
    }

    /// Empties the device's cache.
    fn send_flush(&mut self, call: CallId, file: FileId, sync: &mut SyncCall) -> Next {
        sync.stage = Stage::Flushed;
        if self.bugs.is(Bug::FlushSkipsTheDevice) {
            return Next::Stage;
        }
        sync.arrivals = self.writeback.inode_arrivals(file);
        let request = self.sender(call).send_flush(file);
        self.stats.flushes += 1;
        self.await_request(call, request);
        Next::Wait
    }

    fn wait_for_arrival(&mut self, call: CallId, file: FileId, page: PageIndex) {
        let hit = self.cache.lookup(file, page);
        let frame = hit.expect("a page stays while it is on its way").frame;
        self.wait_for_page(call, file, frame);
    }

    fn await_request(&mut self, call: CallId, request: RequestId) {
        self.calls[call.index()].wait = Wait::Request;
        self.writeback.request_waiters.push((request, call));
    }

    /// Ends the call; an error of an earlier write that was not reported on its description comes
    /// first.
    fn end_sync(&mut self, call: CallId, sync: &SyncCall, result: Result<(), IoError>) {
        let file = self.file_of(sync.handle);
        let opened = self.handles[sync.handle.index()].as_mut().expect("a call names an open file");
        let failed = self.writeback.errors(file).check_and_advance(&mut opened.seen);
        let result = if failed { Err(IoError::Device) } else { result };
        self.end_call(call, result.map(|()| sync.reply));
    }
}

/// The step that follows a step of a stage.
enum Next {
    /// The call waits.
    Wait,
    /// The next stage begins.
    Stage,
    /// All is safe.
    End,
}
