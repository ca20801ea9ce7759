//! Reads and writes apart, each in both orders, as the elevators with deadlines keep them.
//!
//! ```text
//!              sorted             fifo
//!   reads      16 .. 48 .. 80     80 . 16 . 48      preferred
//!   writes     8                  8                 after `writes_starved` choices of reads
//! ```

use super::Queued;
use super::sorted::{Fifo, Sorted};
use crate::policy::{Parameter, Values};
use crate::time::Duration;
use crate::units::RequestId;

/// When a read goes first.
pub(super) const READ_EXPIRE: Parameter =
    Parameter::new("read_expire", 500, (0, EXPIRE_MAX), "ms until a read expires");

/// When a write goes first.
pub(super) const WRITE_EXPIRE: Parameter =
    Parameter::new("write_expire", 5_000, (0, EXPIRE_MAX), "ms until a write expires");

/// How long one direction is kept.
pub(super) const FIFO_BATCH: Parameter =
    Parameter::new("fifo_batch", 16, (0, 4_096), "requests of one batch at most");

/// How often reads go first.
pub(super) const WRITES_STARVED: Parameter = Parameter::new(
    "writes_starved",
    2,
    (0, 4_096),
    "times that reads are chosen while a write waits; 0 lets reads starve behind writes",
);

/// Whether bios are looked for that end where a request begins.
pub(super) const FRONT_MERGES: Parameter =
    Parameter::new("front_merges", 1, (0, 1), "whether a bio may join a request at its front");

/// The greatest time until a request expires, in ms: an hour.
const EXPIRE_MAX: u64 = 3_600_000;

/// The requests of one direction.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) sorted: Sorted,
    pub(super) fifo: Fifo,
}

/// The requests of both.
#[derive(Debug)]
pub(super) struct Directions {
    reads: Line,
    writes: Line,
    /// Requests of one batch at most.
    pub(super) batch: u64,
    writes_starved: u64,
    front_merges: bool,
    /// How often reads were chosen since writes were, with writes waiting.
    starved: u64,
}

impl Directions {
    /// No request waits.
    pub(super) fn new(values: &Values<'_>) -> Self {
        Self {
            reads: Line::default(),
            writes: Line::default(),
            batch: values.of("fifo_batch"),
            writes_starved: values.of("writes_starved"),
            front_merges: values.on("front_merges"),
            starved: 0,
        }
    }

    /// A request begins to wait, and expires `at` some moment.
    pub(super) fn insert(&mut self, request: &Queued, at: u64) {
        let line = self.line_mut(request.write);
        line.sorted.insert(request);
        line.fifo.insert(request, at);
    }

    /// A request waits no more.
    pub(super) fn remove(&mut self, request: &Queued) {
        let line = self.line_mut(request.write);
        line.sorted.remove(request);
        line.fifo.remove(request);
    }

    /// A request that waits has grown.
    pub(super) fn grown(&mut self, before: &Queued, after: &Queued) {
        let line = self.line_mut(before.write);
        line.sorted.replace(before, after);
        line.fifo.replace(after);
    }

    /// A request that waits has taken in another one.
    pub(super) fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        let line = self.line_mut(before.write);
        line.sorted.remove(gone);
        line.sorted.replace(before, kept);
        line.fifo.join(kept, gone);
    }

    /// Chooses a direction for the next batch: whether it writes.
    pub(super) fn choose(&mut self) -> Option<bool> {
        let (reads, writes) = (!self.reads.sorted.is_empty(), !self.writes.sorted.is_empty());
        if reads && !writes {
            return Some(false);
        }
        if reads && self.starved < self.writes_starved {
            self.starved += 1;
            return Some(false);
        }
        if !writes {
            return None;
        }
        self.starved = 0;
        Some(true)
    }

    /// The requests of a direction.
    pub(super) fn line(&self, write: bool) -> &Line {
        if write { &self.writes } else { &self.reads }
    }

    /// The request that begins at a sector, unless front merges are off.
    pub(super) fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        match self.front_merges {
            true => self.line(write).sorted.starts_at(sector, write),
            false => None,
        }
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.reads.sorted.is_empty() && self.writes.sorted.is_empty()
    }

    /// How long a request waits at most if it expires within `expire`.
    ///
    /// Once it has expired, each choice of its direction takes the head of the fifo. `others`
    /// requests at most are ahead of it there, so the choice behind them takes it:
    ///
    /// ```text
    ///   the batch that runs | ahead | ... | ahead | the request
    ///                       ^       ^     ^       ^ before each, `writes_starved` batches of the
    ///                                               other direction if it writes, one if it reads
    /// ```
    ///
    /// That is `others + 1` batches, the one that runs included, and `others + 1` times the batches
    /// of the other direction, each of `fifo_batch` requests at most. The one at the device counts
    /// among those of the batch that runs. Without any choice of reads in between, as long as
    /// writes come, a read waits for ever.
    pub(super) fn waits_at_most(
        &self,
        expire: Duration,
        others: u64,
        service: Duration,
    ) -> Duration {
        if self.writes_starved == 0 {
            return Duration(u64::MAX);
        }
        let batches = others.saturating_add(1).saturating_mul(self.writes_starved + 1);
        expire + service.times(batches.saturating_mul(self.batch.max(1)))
    }

    fn line_mut(&mut self, write: bool) -> &mut Line {
        if write { &mut self.writes } else { &mut self.reads }
    }
}
