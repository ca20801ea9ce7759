//! The elevator `mq-deadline`: today's elevator for disks.
//!
//! Source:     Linux 6.18, block/mq-deadline.c.
//! Behaviour:  reads and writes are sorted apart. A batch goes upwards in one direction, over gaps
//!             too, until `fifo_batch` requests have gone or none is above. Then a direction is
//!             chosen, reads first, but writes after `writes_starved` choices of reads: its oldest
//!             request if that has expired or none is above the direction's last one, else the next
//!             above. A fresh queue begins as in a batch of writes.
//! Differs:    one priority: no classes of I/O priority and no aging of the lower ones. No limit
//!             for asynchronous requests, and no zones. Times are counted in nanoseconds, the
//!             kernel's in jiffies.
//! Not for:    fast devices, which do not seek; comparisons of I/O priorities.
//!
//! ```text
//!   reads    16 ........ 48 ........ 80        a gap does not end the batch: the write waits until
//!   writes 8                                   it has all its requests or meets the end
//! ```

use alloc::boxed::Box;

use super::directions::{
    Directions, FIFO_BATCH, FRONT_MERGES, READ_EXPIRE, WRITE_EXPIRE, WRITES_STARVED,
};
use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::policy::Values;
use crate::time::{Duration, Instant};
use crate::units::RequestId;

#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "mq-deadline",
    summary: "Sorted batches that continue across gaps; an expired request begins a batch.",
    source: "Linux 6.18, block/mq-deadline.c",
    parameters: &[READ_EXPIRE, WRITE_EXPIRE, FIFO_BATCH, WRITES_STARVED, FRONT_MERGES],
    build: |values| Box::new(MqDeadline::new(values)),
};

#[derive(Debug)]
struct MqDeadline {
    waiting: Directions,
    read_expire: Duration,
    write_expire: Duration,
    /// Where the last read and the last write began.
    read_position: u64,
    write_position: u64,
    /// Whether the last batch wrote.
    writes: bool,
    /// Its length.
    batching: u64,
}

impl Elevator for MqDeadline {
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick {
        let expire = if request.write { self.write_expire } else { self.read_expire };
        self.waiting.insert(request, (now + expire).0);
        Kick::Later
    }

    fn dispatch(&mut self, now: Instant, list: &mut DispatchList) {
        let Some(request) = self.choose(now) else { return };
        self.batching += 1;
        if request.write {
            self.write_position = request.sector;
        } else {
            self.read_position = request.sector;
        }
        self.waiting.remove(&request);
        list.add_tail(&request);
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        self.waiting.grown(before, after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        self.waiting.joined(before, kept, gone);
    }

    fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        self.waiting.starts_at(sector, write)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        let expire = self.read_expire.max(self.write_expire);
        self.waiting.waits_at_most(expire, others, service)
    }
}

impl MqDeadline {
    fn new(values: &Values<'_>) -> Self {
        Self {
            waiting: Directions::new(values),
            read_expire: Duration::from_millis(values.of("read_expire")),
            write_expire: Duration::from_millis(values.of("write_expire")),
            read_position: 0,
            write_position: 0,
            writes: true,
            batching: 0,
        }
    }

    fn choose(&mut self, now: Instant) -> Option<Queued> {
        if self.batching < self.waiting.batch
            && let Some(next) = self.above(self.writes)
        {
            return Some(next);
        }
        let write = self.waiting.choose()?;
        let oldest = self.waiting.line(write).fifo.head()?;
        let chosen = match self.above(write) {
            Some(above) if oldest.at > now.0 => above,
            Some(_) | None => oldest.request,
        };
        self.writes = write;
        self.batching = 0;
        Some(chosen)
    }

    /// The first request at the last one of a direction or above it.
    fn above(&self, write: bool) -> Option<Queued> {
        let position = if write { self.write_position } else { self.read_position };
        self.waiting.line(write).sorted.at_or_after(position).copied()
    }
}
