//! The elevator `anticipatory`: after a read, wait a moment for the next one of the same task.
//!
//! Source:     Linux 2.6.21, block/as-iosched.c; S. Iyer, P. Druschel, "Anticipatory scheduling: a
//!             disk scheduling framework to overcome deceptive idleness in synchronous I/O".
//! Behaviour:  synchronous and asynchronous requests are served in batches, in one sweep with
//!             short seeks back. After a synchronous request the disk is kept idle for
//!             its task, if that task usually comes back soon. What waits too long is served out of
//!             order, one request an interval. A batch of writes adapts to the time it should take.
//! Differs:    that a task has exited is not known: it is waited for as any other, and the
//!             statistics about exits are left out. A second request at the same sector stays
//!             behind the first one, which the kernel would dispatch then. The search for a front
//!             merge looks in both classes; the kernel takes the direction for the class and finds
//!             none. A batch of writes that had to wait for reads in flight takes its time from
//!             then on, as in later kernels; 2.6.21 counts from the reads' batch and may end it
//!             without a single write.
//! Not for:    devices without a head; arrays and disks that order requests themselves.
//!
//! ```text
//!   reads of A    r1 ====      r2 ====      (A thinks for less than antic_expire)
//!   disk             [r1][wait][r2][wait]..............[w][w][w]  [r]
//!                    |------ read_batch, 500 ms ------|- write_batch -|
//! ```

use alloc::boxed::Box;

use super::jiffies::{HZ, Jiffies};
use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::policy::{Parameter, Values};
use crate::time::{Duration, Instant};
use crate::units::RequestId;
use batch::Batch;
use class::Class;
use wait::Wait;

mod batch;
mod class;
#[cfg(test)]
mod tests;
mod wait;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "anticipatory",
    summary: "After a read, the disk idles briefly for the next read of the same task.",
    source: "Linux 2.6.21, block/as-iosched.c",
    parameters: &[
        Parameter::new("read_expire", 125, TIME, "ms after which a read is served out of order"),
        Parameter::new("write_expire", 250, TIME, "ms after which a write is served out of order"),
        Parameter::new("read_batch", 500, TIME, "ms of reads while writes wait"),
        Parameter::new("write_batch", 125, TIME, "ms of writes while reads wait"),
        Parameter::new(
            "antic_expire",
            ANTIC_DEFAULT,
            TIME,
            "ms to wait for a task's next read; 6 is a 150th of a second, 0 never waits",
        ),
        HZ,
    ],
    build: |values| Box::new(Anticipatory::new(values)),
};

/// Milliseconds that a time may take.
const TIME: (u64, u64) = (0, 10_000);

/// The kernel's HZ / 150 in whole milliseconds.
const ANTIC_DEFAULT: u64 = 6;

/// The classes of requests as indexes.
const ASYNC: usize = 0;
const SYNC: usize = 1;

#[derive(Debug)]
struct Anticipatory {
    jiffies: Jiffies,
    classes: [Class; 2],
    batch: Batch,
    wait: Wait,
    /// Requests that were moved to the dispatch list and are not done.
    dispatched: u64,
}

impl Anticipatory {
    fn new(values: &Values<'_>) -> Self {
        let jiffies = Jiffies { hz: values.of(HZ.name) };
        let time = |name| jiffies.of_millis(values.of(name));
        let antic_expire = match values.of("antic_expire") {
            ANTIC_DEFAULT => (jiffies.hz / 150).max(1),
            millis => jiffies.of_millis_or_one(millis),
        };
        Self {
            jiffies,
            classes: [Class::new(time("write_expire")), Class::new(time("read_expire"))],
            batch: Batch::new(time("write_batch"), time("read_batch")),
            wait: Wait::new(jiffies, antic_expire),
            dispatched: 0,
        }
    }

    fn class(&mut self, request: &Queued) -> &mut Class {
        &mut self.classes[usize::from(request.sync)]
    }

    /// The request whose turn it is, if the disk is not to wait.
    fn select(&mut self, now: u64) -> Option<Queued> {
        let [writes, reads] = self.classes.each_ref().map(|class| !class.is_empty());
        let class = &mut self.classes[usize::from(self.batch.is_sync())];
        if !(reads && writes && self.batch.has_expired(now)) {
            let next = class.next();
            if self.batch.is_sync() && self.wait.is_enabled() {
                if let Some(expired) = class.take_expired(now) {
                    return Some(expired);
                }
                if self.wait.is_worthwhile(now, next.as_ref(), class.head_at()) {
                    self.wait.begin();
                    return None;
                }
            }
            if next.is_some() {
                if reads && !writes {
                    self.batch.prolong(now);
                }
                return class.take_expired(now).or(next);
            }
        }
        if reads && !(writes && self.batch.is_sync()) {
            self.batch.turn_to_reads();
            self.classes[SYNC].oldest(now)
        } else {
            self.batch.turn_to_writes();
            let class = &mut self.classes[ASYNC];
            class.take_expired(now).or(class.next())
        }
    }
}

impl Elevator for Anticipatory {
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick {
        let now = self.jiffies.at(now);
        let timed_out = self.wait.settle(now) && !self.is_empty();
        self.wait.queued(now, request);
        self.class(request).insert(now, request);
        let head_at = self.classes[SYNC].head_at();
        let stopped = self.wait.is_waiting() && self.wait.is_broken_by(now, Some(request), head_at);
        if stopped {
            self.wait.stop();
        }
        if stopped || timed_out { Kick::Now } else { Kick::Later }
    }

    fn dispatch(&mut self, now: Instant, list: &mut DispatchList) {
        let now = self.jiffies.at(now);
        self.wait.settle(now);
        let [writes, reads] = self.classes.each_ref().map(|class| !class.is_empty());
        self.batch.look(reads, writes);
        if !(reads || writes) || self.wait.is_waiting() || self.batch.is_changing() {
            return;
        }
        let Some(request) = self.select(now) else { return };
        if self.batch.is_changing() {
            if self.dispatched > 0 {
                return;
            }
            self.batch.begin(now);
        }
        self.class(&request).dispatch(&request);
        if !request.sync {
            self.batch.count_write();
        }
        self.wait.moved(&request);
        self.dispatched += 1;
        list.sort(&request);
    }

    fn started(&mut self, _now: Instant, request: &Queued) {
        self.wait.started(request);
    }

    fn completed(&mut self, now: Instant, request: &Queued) -> Kick {
        let now = self.jiffies.at(now);
        let timed_out = self.wait.settle(now) && !self.is_empty();
        let turned = self.batch.is_changing() && self.dispatched == 1;
        if turned {
            self.batch.begin(now);
        }
        self.dispatched = self.dispatched.saturating_sub(1);
        self.batch.completed(now, request.sync);
        self.wait.completed(now, request);
        if turned || timed_out { Kick::Now } else { Kick::Later }
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        // A request stays in its class, and its task's, whichever bio lengthens it.
        let after = Queued { sync: before.sync, task: before.task, ..*after };
        self.class(before).grown(before, &after);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        let kept = Queued { sync: before.sync, task: before.task, ..*kept };
        self.wait.left(gone);
        if before.sync == gone.sync {
            self.class(before).joined(before, &kept, gone);
        } else {
            self.class(gone).remove(gone);
            self.class(before).grown(before, &kept);
        }
    }

    fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        self.classes.iter().find_map(|class| class.starts_at(sector, write))
    }

    fn timeout(&self) -> Option<Instant> {
        let at = self.wait.timeout().filter(|_| !self.is_empty())?;
        Some(self.jiffies.begin(at))
    }

    fn is_empty(&self) -> bool {
        self.classes.iter().all(Class::is_empty)
    }

    /// ```text
    ///   step    a request and the anticipation behind it
    ///   cycle   reads until their batch has expired, then writes until theirs has
    ///   wait    expire | head, cycle | head, cycle | ...        the request is one of the heads
    /// ```
    ///
    /// When it has expired, so have those of its class that came before it, and the oldest goes
    /// whenever expired requests are looked for. That is once an interval, and later by a cycle at
    /// most, because it is done only while the class has its batch, which has at least one request.
    /// A batch begins when the requests of the previous batch are done, takes its time, and ends at
    /// the next check of the clock: with the jiffies lost in rounding, six steps and four jiffies a
    /// cycle.
    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        let step = service + self.jiffies.length(self.wait.expire());
        let expire = self.classes.iter().map(Class::expire).fold(0, u64::max);
        let cycle = self.jiffies.length(self.batch.times() + expire + 4) + step.times(6);
        self.jiffies.length(expire + 1) + cycle.times(others.saturating_add(1))
    }
}
