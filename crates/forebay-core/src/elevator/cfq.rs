//! The elevator `cfq`: each task in turn has the disk for a slice of time.
//!
//! Source:     Linux 2.6.21, block/cfq-iosched.c.
//! Behaviour:  each task has a queue for the requests that it waits for; asynchronous writes share
//!             one. The queues take turns, the one served longest ago first. A queue keeps the disk
//!             until the end of its slice, which begins with its first completion. If the queue is
//!             empty, the disk idles for it a while, unless its task thinks for longer than that,
//!             or seeks on a disk that orders requests itself. A bio joins only requests of its own
//!             queue. If there is only one queue, it is emptied into the dispatch list at once,
//!             where no other request overtakes its requests.
//! Differs:    all tasks have the default priority, 4 of the best-effort class: there is no ionice,
//!             no real-time and no idle class, and no request is metadata. That a task has exited
//!             is not known: its queue is idled for as any other. A queue that runs while the disk
//!             idles does not start the idling again, as from 2.6.22 on; 2.6.21 may idle without
//!             end. A second request at the same sector stays behind the first one, which the
//!             kernel would dispatch then. A bio's front is compared with all queues.
//! Not for:    devices without a head; arrays; a reader that pauses while a writer keeps 64
//!             requests queued: the writer is then the only queue, and the reader waits for all of
//!             its requests, 0.3 to 0.4 s at the 99th percentile on a disk.
//!
//! ```text
//!   first completion               idles        cut after 16 requests
//!          v                      |<---->|           v
//!   [a][a][a][a][a][a][a][a] [a]  [a]    | [w] x 16  | [b][b]....
//!          |<---- slice of A ---------->|              |<--- slice of B
//! ```
//!
//! Three rules of this version differ from its comments; the model follows the code. A new queue
//! goes before the last of the new queues at the front, and to the end if there is none. Time is
//! carried over only if a slice took too long, not if it was idled out. A queue may preempt another
//! only while the disk idles for the preempting queue, which then never happens.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::jiffies::{HZ, Jiffies};
use super::nearer::Head;
use super::roll::Roll;
use super::{DispatchList, Elevator, Kick, Policy, Queued};
use crate::policy::Parameter;
use crate::time::{Duration, Instant};
use crate::units::RequestId;
use queue::Queue;
use turns::Turns;

mod queue;
#[cfg(test)]
mod tests;
mod turns;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "cfq",
    summary: "Each task in turn gets the disk for a time slice.",
    source: "Linux 2.6.21, block/cfq-iosched.c",
    parameters: &[
        Parameter::new("quantum", 4, (1, 1_024), "requests dispatched at a time"),
        Parameter::new("fifo_expire_sync", 125, TIME, "ms after which a read is served first"),
        Parameter::new("fifo_expire_async", 250, TIME, "ms after which a write is served first"),
        Parameter::new("back_seek_max", 16 * 1_024, (0, 1 << 30), "KiB of a seek backward"),
        Parameter::new(
            "back_seek_penalty",
            2,
            (1, 1_024),
            "forward sectors that one backward sector costs",
        ),
        Parameter::new("slice_sync", 100, SLICE, "ms of a slice of a task"),
        Parameter::new("slice_async", 40, SLICE, "ms of a slice of asynchronous writes"),
        Parameter::new(
            "slice_async_rq",
            2,
            (1, 1_024),
            "an eighth of the requests of such a slice",
        ),
        Parameter::new("slice_idle", 8, TIME, "ms to idle for a task's next request; 0 never does"),
        HZ,
    ],
    build: |values| Box::new(Cfq::new(|name| values.of(name))),
};

/// Milliseconds that a time may take, and a slice.
const TIME: (u64, u64) = (0, 10_000);
const SLICE: (u64, u64) = (1, 10_000);

/// The priority of each task, of 0 to 7, where 0 is the highest.
const PRIORITY: u64 = 4;
const PRIORITIES: u64 = 8;

/// With more than this number of requests at once a device orders them itself.
const DEPTH_UNORDERED: u64 = 4;

/// A task that seeks farther than this on the average is seeky: 64 MiB.
const SEEKY: u64 = 128 * 1_024;

/// How long a seeky task is idled for, in ms.
const SEEKY_IDLE: u64 = 2;

/// The queue of asynchronous writes; tasks have the slots from one on.
const ASYNC: usize = 0;

#[derive(Debug)]
struct Cfq {
    jiffies: Jiffies,
    quantum: u64,
    /// Jiffies until a request expires, of asynchronous writes and of tasks.
    expire: [u64; 2],
    /// Jiffies of a slice, of the same.
    slice: [u64; 2],
    slice_async_rq: u64,
    /// Jiffies to idle.
    idle: u64,
    head: Head,
    roll: Roll,
    queues: Vec<Queue>,
    turns: Turns,
    /// The queue that has the disk, and how many requests it has dispatched in its slice.
    active: Option<usize>,
    spent: u64,
    /// When the idling ends.
    idle_until: Option<u64>,
    /// Requests that the driver has.
    in_driver: u64,
    /// Whether the device has ever had so many requests that it orders them itself.
    orders: bool,
}

impl Cfq {
    fn new(value: impl Fn(&str) -> u64) -> Self {
        let jiffies = Jiffies { hz: value(HZ.name) };
        let time = |name| jiffies.of_millis(value(name));
        let some_time = |name| jiffies.of_millis_or_one(value(name));
        let head = Head {
            at: 0,
            back_max: value("back_seek_max") * 2,
            back_penalty: value("back_seek_penalty"),
        };
        Self {
            jiffies,
            quantum: value("quantum"),
            expire: [time("fifo_expire_async"), time("fifo_expire_sync")],
            slice: [some_time("slice_async"), some_time("slice_sync")],
            slice_async_rq: value("slice_async_rq"),
            idle: some_time("slice_idle"),
            head,
            roll: Roll::default(),
            queues: alloc::vec![Queue::new(false, 0)],
            turns: Turns::default(),
            active: None,
            spent: 0,
            idle_until: None,
            in_driver: 0,
            orders: false,
        }
    }

    /// The queue of a request, and the one of its task.
    fn enter(&mut self, now: u64, request: &Queued) -> usize {
        let task = self.roll.enter_asker(request);
        let place = task.map_or(ASYNC, |task| task + 1);
        while self.queues.len() <= place {
            self.queues.push(Queue::new(true, now));
        }
        if request.sync { place } else { ASYNC }
    }

    fn is_active(&self, place: usize) -> bool {
        self.active == Some(place)
    }

    /// Ends the slice of the queue that has the disk. An overrun is carried over if it is known.
    fn end_slice(&mut self, now: u64, preempted: bool, saves: bool) {
        let Some(place) = self.active.take() else { return };
        self.idle_until = None;
        self.spent = 0;
        self.queues[place].end_slice(now, saves);
        self.turns.file(&self.queues, place, preempted);
    }

    /// Ends the idling if its time is over, and returns whether a queue waits for that.
    fn settle(&mut self, now: u64) -> bool {
        let Some(until) = self.idle_until.filter(|until| *until <= now) else { return false };
        self.idle_until = None;
        let is_over = self.active.is_none_or(|place| self.queues[place].is_over(until));
        if is_over || !self.turns.is_empty() {
            self.end_slice(until, false, false);
        }
        !self.turns.is_empty()
    }

    /// Idles for the queue that has the disk, which is empty, and returns whether it does.
    fn idle(&mut self, now: u64) -> bool {
        let Some(place) = self.active.filter(|_| self.idle > 0 && self.spent > 0) else {
            return false;
        };
        let queue = &mut self.queues[place];
        if !queue.idles {
            return false;
        }
        queue.must_dispatch = true;
        queue.is_awaited = true;
        let seek = &queue.habits.seek;
        let seeky = seek.is_known() && seek.mean() > SEEKY;
        let short = (SEEKY_IDLE * self.jiffies.hz).div_ceil(1_000);
        self.idle_until = Some(now + if seeky { short.min(self.idle) } else { self.idle });
        true
    }

    /// The queue that dispatches next, if any.
    fn select(&mut self, now: u64) -> Option<usize> {
        if let Some(place) = self.active {
            let queue = &self.queues[place];
            if queue.must_dispatch || !queue.is_over(now) {
                if !queue.is_empty() {
                    return Some(place);
                }
                if queue.is_fresh || queue.dispatched > 0 {
                    return None;
                }
                if queue.sync && (self.idle_until.is_some() || self.idle(now)) {
                    return None;
                }
            }
            self.end_slice(now, false, false);
        }
        self.active = self.turns.first();
        if let Some(place) = self.active {
            self.queues[place].begin_turn();
        }
        self.active
    }

    /// Dispatches some requests of a queue.
    fn dispatch_some(&mut self, now: u64, place: usize, list: &mut DispatchList) {
        for _ in 0..self.quantum {
            let queue = &mut self.queues[place];
            let Some(request) = queue.take(now, &self.head) else { break };
            queue.dispatched += 1;
            self.spent += 1;
            list.sort(&request);
            self.head.at = list.tail().map_or(self.head.at, Queued::end);
        }
        let queue = &self.queues[place];
        if queue.is_empty() {
            self.turns.remove(place);
        }
        let cut = async_requests(self.slice_async_rq, PRIORITY);
        if self.turns.len() > 1 && !queue.sync && self.spent >= cut {
            self.end_slice(now, false, false);
        }
    }

    /// Looks at how a task thinks and seeks.
    fn learn(&mut self, now: u64, place: usize, request: &Queued) {
        let queue = &mut self.queues[place];
        queue.learn(now, request, 2 * self.idle);
        let habits = &queue.habits;
        if self.idle == 0 || self.orders && habits.seek.mean() > SEEKY {
            queue.idles = false;
        } else if habits.think.is_known() {
            queue.idles = habits.think.mean() <= self.idle;
        }
    }

    /// Gives the disk to a queue at once.
    fn preempt(&mut self, now: u64, place: usize) {
        self.end_slice(now, true, true);
        self.turns.put_first(place);
        self.queues[place].begin_turn();
        self.queues[place].must_dispatch = true;
    }
}

impl Elevator for Cfq {
    fn insert(&mut self, now: Instant, request: &Queued) -> Kick {
        let now = self.jiffies.at(now);
        let mut kick = self.settle(now);
        let place = self.enter(now, request);
        let expire = self.expire[usize::from(request.sync)];
        self.queues[place].insert(request, now + expire, &self.head);
        if !self.turns.has(place) {
            self.turns.file_new(&self.queues, place);
        }
        if !request.sync {
            // A task that writes behind does not read on at once.
            let own = request.task.map(|task| self.roll.enter(Some(task)) + 1);
            if own.is_some_and(|own| self.is_active(own)) && self.idle_until.is_some() {
                self.end_slice(now, false, false);
                kick = true;
            }
            return if kick { Kick::Now } else { Kick::Later };
        }
        self.learn(now, place, request);
        if self.is_active(place) {
            if self.queues[place].is_awaited {
                self.queues[place].must_dispatch = true;
                self.idle_until = None;
                kick = true;
            }
        } else if let Some(active) = self.active
            && preempts(self.queues[place].is_awaited, self.queues[active].sync)
        {
            self.preempt(now, place);
            kick = true;
        }
        if kick { Kick::Now } else { Kick::Later }
    }

    fn dispatch(&mut self, now: Instant, list: &mut DispatchList) {
        let now = self.jiffies.at(now);
        self.settle(now);
        if self.turns.is_empty() {
            return;
        }
        let mut previous = None;
        while let Some(place) = self.select(now) {
            if self.turns.len() > 1 {
                let waits = self.in_driver > 0 && self.queues[place].idles;
                if waits || previous == Some(place) {
                    break;
                }
            }
            let queue = &mut self.queues[place];
            queue.must_dispatch = false;
            queue.is_awaited = false;
            self.idle_until = None;
            self.dispatch_some(now, place, list);
            previous = Some(place);
        }
    }

    fn started(&mut self, _now: Instant, _request: &Queued) {
        self.in_driver += 1;
        self.orders |= self.in_driver > DEPTH_UNORDERED;
    }

    fn completed(&mut self, now: Instant, request: &Queued) -> Kick {
        let now = self.jiffies.at(now);
        let mut kick = self.settle(now);
        let place = self.enter(now, request);
        self.in_driver = self.in_driver.saturating_sub(1);
        let queue = &mut self.queues[place];
        queue.completed(now);
        self.turns.file(&self.queues, place, false);
        if self.is_active(place) {
            let queue = &mut self.queues[place];
            let slice = slice(self.slice[usize::from(queue.sync)], PRIORITY);
            queue.begin_slice(now, slice);
            if queue.is_over(now) {
                self.end_slice(now, false, true);
            } else if request.sync && queue.is_empty() && !self.idle(now) {
                kick |= !self.turns.is_empty();
            }
        }
        if kick { Kick::Now } else { Kick::Later }
    }

    fn grown(&mut self, before: &Queued, after: &Queued) {
        let place = self.enter(0, before);
        // A request stays in its queue, whichever bio lengthens it.
        let after = Queued { sync: before.sync, task: before.task, ..*after };
        self.queues[place].grown(before, &after, &self.head);
    }

    fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        let (place, other) = (self.enter(0, before), self.enter(0, gone));
        let kept = Queued { sync: before.sync, task: before.task, ..*kept };
        if place == other {
            self.queues[place].joined(before, &kept, gone, &self.head);
            return;
        }
        self.queues[other].remove(gone, &self.head);
        if self.queues[other].is_empty() {
            self.turns.remove(other);
        }
        self.queues[place].grown(before, &kept, &self.head);
    }

    fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        self.queues.iter().find_map(|queue| queue.starts_at(sector, write))
    }

    fn may_merge(&self, waiting: &Queued, bio: &Queued) -> bool {
        waiting.sync == bio.sync && (!bio.sync || waiting.task == bio.task)
    }

    fn timeout(&self) -> Option<Instant> {
        let until = self.idle_until.filter(|_| !self.turns.is_empty())?;
        Some(self.jiffies.begin(until))
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// ```text
    ///   turn    its first request | slice | idles, perhaps twice | what it has dispatched
    ///   round   turn, turn, ... of those in turn, and of those that wait for the next round
    ///   wait    expire | round, head | round, head | ...        the request is one of the heads
    /// ```
    ///
    /// When it has expired, so have those of its queue that came before it, and the oldest goes
    /// first in each turn. No other queue passes a queue in turn, and a queue that waits becomes
    /// one in turn after those have had theirs: two turns of all other queues lie between two of
    /// its own. A turn checks its end after each request; what was dispatched before is done before
    /// the next.
    fn waits_at_most(&self, others: u64, service: Duration) -> Duration {
        let slice = self.slice.into_iter().map(|base| slice(base, PRIORITY)).fold(0, u64::max);
        let expire = self.expire.into_iter().fold(0, u64::max);
        let jiffies = self.jiffies.length(slice + 2 * self.idle + 1);
        let turn = jiffies + service.times(others.saturating_add(2));
        let round = turn.times(others.saturating_mul(2).saturating_add(1));
        self.jiffies.length(expire + 1) + round.times(others.saturating_add(2))
    }
}

/// The jiffies of a slice: a fifth more for each step of priority above the default, or less below.
fn slice(base: u64, priority: u64) -> u64 {
    base + base / 5 * PRIORITY - base / 5 * priority
}

/// The requests after which a slice of asynchronous writes is cut.
fn async_requests(base: u64, priority: u64) -> u64 {
    2 * (base + base * (PRIORITIES - 1 - priority))
}

/// Whether a request of a task takes the disk away from another queue: only from asynchronous
/// writes, and, as in 2.6.21, only if the disk idles for that task.
fn preempts(is_awaited: bool, active_sync: bool) -> bool {
    is_awaited && !active_sync
}
