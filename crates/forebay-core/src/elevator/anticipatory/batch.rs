//! Batches: runs of requests of one class.
//!
//! ```text
//!   last read done   first write   last write done    first read done
//!        |  changing     |---- writes ----|  changing       |--- read_batch --->
//!                        |<----- what a batch of writes took ----->|
//! ```

/// Which class is served and for how long.
#[derive(Debug)]
pub(super) struct Batch {
    /// Whether it is a batch of synchronous requests.
    sync: bool,
    /// It has been decided to serve the other class, but requests of the old one are in flight.
    changing: bool,
    /// It is a batch of reads of which none is done: its time has not begun.
    new: bool,
    /// The jiffy after which it has expired.
    ends: u64,
    write_time: u64,
    read_time: u64,
    /// How many writes a batch has, and how many the current one has left.
    writes: u64,
    writes_left: u64,
    /// The batch of writes could not be measured, because nothing waited for its end.
    idled: bool,
}

impl Batch {
    /// A batch of reads, in jiffies. The number of writes begins with one for ten jiffies.
    pub(super) fn new(write_time: u64, read_time: u64) -> Self {
        Self {
            sync: true,
            changing: false,
            new: false,
            ends: read_time,
            write_time,
            read_time,
            writes: (write_time / 10).max(2),
            writes_left: 0,
            idled: false,
        }
    }

    /// Whether synchronous requests are served.
    pub(super) fn is_sync(&self) -> bool {
        self.sync
    }

    /// The times of both batches together, in jiffies.
    pub(super) fn times(&self) -> u64 {
        self.write_time + self.read_time
    }

    /// Whether it begins when the requests of the previous batch are done.
    pub(super) fn is_changing(&self) -> bool {
        self.changing
    }

    /// Whether it has had its time or its writes.
    pub(super) fn has_expired(&self, now: u64) -> bool {
        let over = now > self.ends || !self.sync && self.writes_left == 0;
        !self.changing && !self.new && over
    }

    /// The queue runs while these wait.
    pub(super) fn look(&mut self, reads: bool, writes: bool) {
        if !self.sync && !reads && (self.writes_left == 0 || !writes) {
            self.idled = true;
        }
    }

    /// Nothing but reads wait: their batch begins anew with each.
    pub(super) fn prolong(&mut self, now: u64) {
        self.ends = now + self.read_time;
    }

    /// The next batch is one of reads.
    pub(super) fn turn_to_reads(&mut self) {
        self.changing |= !self.sync;
        self.sync = true;
    }

    /// The next batch is one of writes.
    pub(super) fn turn_to_writes(&mut self) {
        if self.sync {
            self.changing = true;
            self.new = false;
        }
        self.sync = false;
        self.writes_left = self.writes;
        self.idled = false;
    }

    /// The old batch's requests are done.
    pub(super) fn begin(&mut self, now: u64) {
        self.changing = false;
        if self.sync {
            self.new = true;
        } else {
            self.ends = now + self.write_time;
        }
    }

    /// A write is dispatched.
    pub(super) fn count_write(&mut self) {
        self.writes_left = self.writes_left.saturating_sub(1);
    }

    /// A request has completed. The first of a batch of reads shows the time of the writes before
    /// it, which may have been in the device's cache until then.
    pub(super) fn completed(&mut self, now: u64, sync: bool) {
        if !self.new || self.sync != sync {
            return;
        }
        self.new = false;
        let began = self.ends.saturating_sub(self.write_time);
        self.adapt(now.saturating_sub(began));
        self.ends = now + self.read_time;
    }

    /// A batch of writes took `took` jiffies.
    fn adapt(&mut self, took: u64) {
        let target = self.write_time;
        let thrice = |time: u64| time.saturating_mul(3);
        if took > target && !self.idled {
            self.writes = if took > thrice(target) { self.writes / 2 } else { self.writes - 1 };
        } else if took < target && self.writes_left == 0 {
            let more = if target > thrice(took) { self.writes } else { 1 };
            self.writes = self.writes.saturating_add(more);
        }
        self.writes = self.writes.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many writes the next batch has after one of 12 in 125 jiffies.
    fn after(took: u64, writes_left: u64, idled: bool) -> u64 {
        let batch = Batch { writes_left, idled, ..Batch::new(125, 500) };
        let mut batch = Batch { sync: false, changing: false, ..batch };
        assert_eq!(batch.writes, 12);
        batch.begin(1_000);
        batch.turn_to_reads();
        batch.begin(1_000 + took);
        batch.completed(1_000 + took, true);
        assert_eq!(batch.ends, 1_000 + took + 500);
        batch.writes
    }

    #[test]
    fn a_batch_of_writes_halves_when_it_took_three_times_its_time() {
        assert_eq!((after(376, 0, false), after(375, 0, false)), (6, 11));
        assert_eq!((after(126, 5, false), after(125, 0, false)), (11, 12));
    }

    #[test]
    fn a_batch_of_writes_doubles_when_it_took_a_third_of_its_time() {
        assert_eq!((after(41, 0, false), after(42, 0, false)), (24, 13));
        assert_eq!(after(41, 1, false), 12, "not all of it was used");
    }

    #[test]
    fn a_batch_of_writes_that_idled_is_not_found_slow() {
        assert_eq!((after(376, 0, true), after(41, 0, true)), (12, 24));
    }

    #[test]
    fn a_batch_has_one_write_at_least() {
        let mut batch = Batch::new(1, 500);
        assert_eq!(batch.writes, 2);
        for _ in 0..4 {
            batch.adapt(1_000);
        }
        assert_eq!(batch.writes, 1);
    }
}
