//! A store that is full: its writes wait and are tried again, and writers are refused.

use super::{DiskOp, DiskPath};
use crate::bugs::Bug;
use crate::io::{self, IoError};
use crate::time::{Duration, Instant};
use crate::units::CallId;

impl DiskPath {
    /// Has a request give up that changes a full store and waits for room in memory or for its
    /// pages to arrive; says whether there was one.
    pub(super) fn step_full(&mut self) -> bool {
        let goes_on = self.bugs.is(Bug::FullStoreIsIgnored);
        if goes_on || !self.exports.iter().any(|export| export.is_full) {
            return false;
        }
        for number in 0..self.requests.len() {
            let Some(request) = &self.requests[number].active else { continue };
            let is_full = self.exports[request.export as usize].is_full;
            let changes = matches!(request.op, DiskOp::Write { .. } | DiskOp::Zero { .. });
            let waits = is_full && changes && !request.is_gated;
            let call = CallId(number as u32);
            if waits && self.engine.give_up(call, IoError::NoSpace) {
                self.active_mut(number as u32).gave_up = true;
                if self.pauses.iter().any(|pause| pause.0.1 == call) {
                    self.pauses.retain(|pause| pause.0.1 != call);
                    self.resumes.push_back(call);
                }
                return true;
            }
        }
        false
    }

    /// A write found the store full.
    pub(super) fn stall(&mut self, now: Instant, place: usize, request: io::Request) {
        let export = &mut self.exports[place];
        export.stalled.push(request);
        export.is_full = true;
        self.engine.set_stalled(request.device, true);
        export.retry = Some(now + RETRY_INTERVAL);
        self.fail_flushes(place, IoError::NoSpace);
    }

    /// Tries the writes again that found the store full.
    pub(super) fn retry(&mut self, place: usize) {
        let export = &mut self.exports[place];
        export.retry = None;
        for request in export.stalled.drain(..) {
            self.outputs.push_back(super::DiskOutput::Submit(request));
        }
    }
}

/// From one attempt to write to a full store to the next.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
