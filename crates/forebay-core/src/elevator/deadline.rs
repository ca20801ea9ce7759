//! The elevator `deadline`: sorted batches, and no request waits for ever.
//!
//! Source:     Linux 2.6.21, block/deadline-iosched.c.
//! Behaviour:  reads and writes are sorted apart. A batch goes upwards in one direction from
//!             request to request, as long as each begins where the last one ended and fewer than
//!             `fifo_batch` have gone. Then a direction is chosen, reads first, but writes after
//!             `writes_starved` choices of reads: its oldest request if that has expired, else the
//!             one behind the last if the direction is the same, else its lowest.
//! Differs:    the kernel sends a request on at once when another one arrives that begins at the
//!             same sector in the same direction; here both wait, the earlier one first. A time is
//!             rounded down to jiffies, as the kernel's defaults are; values written to its sysfs
//!             files are rounded up.
//! Not for:    synchronous readers that think between reads: each switch to another one costs a
//!             seek.
//!
//! ```text
//!   reads    16 ........ 48 ........ 80        every gap ends the batch, and each choice of reads
//!   writes 8                                   brings the write nearer: R16 R48 W8 R80
//! ```

use alloc::boxed::Box;

use super::directions::{
    Directions, FIFO_BATCH, FRONT_MERGES, READ_EXPIRE, WRITE_EXPIRE, WRITES_STARVED,
};
use super::jiffies::{HZ, Jiffies};
use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::policy::Values;
use crate::time::{Duration, Instant};
use crate::units::RequestId;

#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "deadline",
    summary: "Sorted batches of one direction; a request that expires goes first.",
    source: "Linux 2.6.21, block/deadline-iosched.c",
    parameters: &[READ_EXPIRE, WRITE_EXPIRE, FIFO_BATCH, WRITES_STARVED, FRONT_MERGES, HZ],
    build: |values| Box::new(Deadline::new(values)),
};

#[derive(Debug)]
struct Deadline {
    waiting: Directions,
    /// Jiffies until a read and a write expires.
    read_expire: u64,
    write_expire: u64,
    jiffies: Jiffies,
    /// The request behind the last one, in its direction, when that left.
    next: Option<Queued>,
    /// The end of the last one.
    last_sector: u64,
    /// The length of the batch, and more than a batch may have where it has a gap.
    batching: u64,
}

impl Elevator for Deadline {
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick {
        let expire = if request.write { self.write_expire } else { self.read_expire };
        let at = self.jiffies.at(now).saturating_add(expire);
        self.waiting.insert(request, at);
        Kick::Later
    }

    fn dispatch(&mut self, now: Instant, list: &mut DispatchList) {
        let Some(request) = self.choose(now) else { return };
        self.batching = self.batching.saturating_add(1);
        self.next = self.waiting.line(request.write).sorted.successor(&request).copied();
        self.last_sector = request.end();
        self.waiting.remove(&request);
        list.add_tail(&request);
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        self.waiting.grown(before, after);
        self.refresh(after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        if self.next.is_some_and(|next| next.id == gone.id) {
            self.next = self.waiting.line(gone.write).sorted.successor(gone).copied();
        }
        self.waiting.joined(before, kept, gone);
        self.refresh(kept);
    }

    fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        self.waiting.starts_at(sector, write)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        // It expires when the jiffy that follows the last one of its time begins.
        let expire = self.jiffies.length(self.read_expire.max(self.write_expire) + 1);
        self.waiting.waits_at_most(expire, others, service)
    }
}

impl Deadline {
    fn new(values: &Values<'_>) -> Self {
        let jiffies = Jiffies { hz: values.of("hz") };
        Self {
            waiting: Directions::new(values),
            read_expire: jiffies.of_millis(values.of("read_expire")),
            write_expire: jiffies.of_millis(values.of("write_expire")),
            jiffies,
            next: None,
            last_sector: 0,
            batching: 0,
        }
    }

    fn choose(&mut self, now: Instant) -> Option<Queued> {
        if let Some(next) = self.next {
            if self.last_sector != next.sector {
                self.batching = self.batching.saturating_add(self.waiting.batch);
            }
            if self.batching < self.waiting.batch {
                return Some(next);
            }
        }
        let write = self.waiting.choose()?;
        let line = self.waiting.line(write);
        let head = line.fifo.head().filter(|head| head.at < self.jiffies.at(now));
        if let Some(expired) = head {
            let request = expired.request;
            self.batching = 0;
            return Some(request);
        }
        if let Some(next) = self.next.filter(|next| next.write == write) {
            // The batch is over and stays so: each further request is chosen anew.
            return Some(next);
        }
        let lowest = line.sorted.lowest().copied();
        self.batching = 0;
        lowest
    }

    fn refresh(&mut self, changed: &Queued) {
        if let Some(next) = self.next.as_mut().filter(|next| next.id == changed.id) {
            *next = *changed;
        }
    }
}
