//! Shared flushes: one at a time for each export, and all that come meanwhile get the next one.
//!
//! ```text
//!   flush a ----[ sync ]----> a ends
//!   flush b  ----^ too late   [ sync ]----> b and c end
//!   flush c     ----^
//! ```

use alloc::vec::Vec;

use super::{DiskOp, DiskPath};
use crate::bugs::Bug;
use crate::io::{Input, IoError, Op};
use crate::time::Instant;
use crate::units::CallId;

/// The flushes of one export.
#[derive(Debug, Default)]
pub(super) struct SharedFlush {
    is_running: bool,
    /// Requests that the running one is for.
    served: Vec<u32>,
    /// Requests that the next one is for.
    waiting: Vec<u32>,
}

impl SharedFlush {
    /// Forgets the requests that wait for the next flush, as a seeded bug does.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }
}

impl DiskPath {
    /// A request waits until all that was written before it is on disk.
    pub(super) fn join_flush(&mut self, number: u32) {
        let place = self.active(number).export as usize;
        let flush = &mut self.exports[place].flush;
        if flush.is_running && self.bugs.is(Bug::FlushJoinsTheRunningOne) {
            flush.served.push(number);
            return;
        }
        flush.waiting.push(number);
        if !self.exports[place].stalled.is_empty() {
            self.retry(place);
        }
    }

    /// Begins a flush that is waited for; says whether there was one.
    pub(super) fn step_flush(&mut self, now: Instant) -> bool {
        let mut flushes = self.exports.iter().map(|export| &export.flush);
        let place = flushes.position(|flush| !flush.is_running && !flush.waiting.is_empty());
        let Some(place) = place else { return false };
        let export = &mut self.exports[place];
        export.flush.is_running = true;
        core::mem::swap(&mut export.flush.served, &mut export.flush.waiting);
        let handle = export.handle;
        // The result is then about what fails from now on.
        self.engine.take_write_error(handle);
        let call = CallId((self.requests.len() + place) as u32);
        self.engine.handle(now, Input::Call(call, Op::Sync { handle }));
        true
    }

    /// The running flush has ended.
    pub(super) fn end_sync(&mut self, place: usize, error: Option<IoError>) {
        let mut served = core::mem::take(&mut self.exports[place].flush.served);
        for number in served.drain(..) {
            let is_new = self.takes_error(number);
            self.end(number, if is_new { Err(IoError::Device) } else { error.map_or(Ok(()), Err) });
        }
        let flush = &mut self.exports[place].flush;
        flush.served = served;
        flush.is_running = false;
    }

    /// All requests that wait for a flush fail; the one that runs goes on without any.
    pub(super) fn fail_flushes(&mut self, place: usize, error: IoError) {
        let flush = &mut self.exports[place].flush;
        let served = core::mem::take(&mut flush.served);
        let waiting = core::mem::take(&mut flush.waiting);
        for number in served.into_iter().chain(waiting) {
            self.end(number, Err(error));
        }
    }

    /// Whether writes have failed that a request has to report.
    fn takes_error(&mut self, number: u32) -> bool {
        let request = *self.active(number);
        let file = self.exports[request.export as usize].file;
        if request.op == DiskOp::Flush {
            let client = self.clients[request.client as usize].as_ref();
            let alone = client.expect("a client is there").alone;
            let is_new = self.engine.take_write_error(alone);
            if is_new && self.bugs.is(Bug::OneReportServesAll) {
                for client in self.clients.iter().flatten() {
                    self.engine.take_write_error(client.alone);
                }
            }
            return is_new;
        }
        self.engine.write_errors(file) > request.errors
    }
}
