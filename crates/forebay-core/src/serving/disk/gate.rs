//! Requests that wait because a range is being zeroed.
//!
//! Two requests for the same pages are in each other's way if one of them zeroes. The later one
//! waits until the earlier one has ended, so a page is never read from, or written to, a device
//! that is zeroing it.

use super::{ActiveRequest, DiskOp, DiskPath};
use crate::bugs::Bug;
use crate::time::Instant;
use crate::units::PAGE_SIZE;

impl DiskPath {
    /// Whether an earlier request is in the way.
    pub(super) fn is_held_up(&self, request: &ActiveRequest) -> bool {
        let Some((first, end, zeroes)) = request.op.pages() else { return false };
        if self.bugs.is(Bug::GateIsOpen) && !zeroes {
            return false;
        }
        self.requests.iter().filter_map(|other| other.active.as_ref()).any(|other| {
            let earlier = other.sequence < request.sequence && other.export == request.export;
            earlier
                && other.op.pages().is_some_and(|(other_first, other_end, other_zeroes)| {
                    (zeroes || other_zeroes) && first < other_end && other_first < end
                })
        })
    }

    /// Lets the first request go on that nothing holds up any more; says whether there was one.
    pub(super) fn step_gate(&mut self, now: Instant) -> bool {
        if self.bugs.is(Bug::GateStaysShut) {
            return false;
        }
        let free = |number: &u32| !self.is_held_up(self.active(*number));
        let Some(place) = self.gated.iter().position(free) else { return false };
        let number = self.gated.remove(place).expect("the place was found");
        self.active_mut(number).is_gated = false;
        self.begin(now, number);
        true
    }
}

impl DiskOp {
    /// The pages that it touches, from the first to before the second, and whether it zeroes.
    fn pages(&self) -> Option<(u64, u64, bool)> {
        let (offset, len, zeroes) = match *self {
            Self::Read { offset, len } | Self::Write { offset, len, .. } => (offset, len, false),
            Self::Zero { offset, len, .. } => (offset, len, true),
            // A prefetch that is dropped does no harm.
            Self::Flush | Self::Prefetch { .. } => return None,
        };
        Some((offset / PAGE_SIZE, (offset + len).div_ceil(PAGE_SIZE), zeroes))
    }
}
