//! The requests of one task, and its slice.

use crate::elevator::Queued;
use crate::elevator::habits::Habits;
use crate::elevator::nearer::Head;
use crate::elevator::sorted::{Fifo, Sorted};
use crate::units::RequestId;

/// The synchronous requests of one task, or the asynchronous ones of all tasks.
#[derive(Debug)]
pub(super) struct Queue {
    /// Whether its requests are synchronous.
    pub(super) sync: bool,
    sorted: Sorted,
    fifo: Fifo,
    next: Option<Queued>,
    pub(super) habits: Habits,
    /// When a request was done last, or the task was first seen.
    ended: u64,
    /// The jiffy of the last completion, by which queues take turns.
    pub(super) served: Option<u64>,
    /// Requests on the dispatch list and at the device.
    pub(super) dispatched: u64,
    /// It has never had the disk.
    pub(super) is_new: bool,
    /// Whether the disk idles for it when it is empty.
    pub(super) idles: bool,
    /// The disk has idled for it since it dispatched last.
    pub(super) is_awaited: bool,
    /// Its next requests go although its slice is over.
    pub(super) must_dispatch: bool,
    /// It has the disk, but its slice has not begun.
    pub(super) is_fresh: bool,
    /// Whether it was looked for an expired request in this slice.
    looked: bool,
    /// The jiffy at which its slice is over.
    slice_end: i64,
    /// Jiffies by which the last slice was too long, negative.
    residual: i64,
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(sync: bool, now: u64) -> Self {
        Self {
            sync,
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            next: None,
            habits: Habits::default(),
            ended: now,
            served: None,
            dispatched: 0,
            is_new: true,
            idles: sync,
            is_awaited: false,
            must_dispatch: false,
            is_fresh: false,
            looked: false,
            slice_end: 0,
            residual: 0,
        }
    }

    /// A request begins to wait; it expires after a jiffy.
    pub(super) fn insert(&mut self, request: &Queued, expires: u64, head: &Head) {
        self.sorted.insert(request);
        self.fifo.insert(request, expires);
        self.next = head.choose(self.next, Some(*request));
    }

    /// Takes out the request that goes next: once a slice the oldest if it has expired, otherwise
    /// the nearest.
    pub(super) fn take(&mut self, now: u64, head: &Head) -> Option<Queued> {
        let oldest = self.fifo.head().filter(|oldest| !self.looked && now > oldest.at);
        let request = oldest.map(|oldest| oldest.request).or(self.next)?;
        self.looked = true;
        self.remove(&request, head);
        Some(request)
    }

    /// A request waits no more.
    pub(super) fn remove(&mut self, request: &Queued, head: &Head) {
        self.skip(request, head);
        self.sorted.remove(request);
        self.fifo.remove(request);
    }

    /// A request has grown.
    pub(super) fn grown(&mut self, before: &Queued, after: &Queued, head: &Head) {
        self.sorted.replace(before, after);
        self.fifo.replace(after);
        self.follow(before, after, head);
    }

    /// A request has taken in another.
    pub(super) fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued, head: &Head) {
        self.skip(gone, head);
        self.sorted.remove(gone);
        self.sorted.replace(before, kept);
        self.fifo.join(kept, gone);
        self.follow(before, kept, head);
    }

    /// Learns from a request the think time of the task, up to a number of jiffies, and its seeks.
    pub(super) fn learn(&mut self, now: u64, request: &Queued, think_max: u64) {
        self.habits.thought(now.saturating_sub(self.ended).min(think_max));
        let distance = self.habits.distance(request.sector);
        self.habits.sought(distance);
        self.habits.position = request.end();
    }

    /// It has the disk from now on.
    pub(super) fn begin_turn(&mut self) {
        self.looked = false;
        self.is_fresh = true;
    }

    /// Its first request is done: its slice begins, shorter by what the last one was too long.
    pub(super) fn begin_slice(&mut self, now: u64, slice: u64) {
        if self.is_fresh {
            self.is_fresh = false;
            self.slice_end = now as i64 + slice as i64 + self.residual;
            self.residual = 0;
        }
    }

    /// It has the disk no more.
    pub(super) fn end_slice(&mut self, now: u64, saves: bool) {
        self.must_dispatch = false;
        self.is_awaited = false;
        self.is_new = false;
        if saves && !self.is_fresh {
            self.residual = self.slice_end - now as i64;
        }
    }

    /// A request is done.
    pub(super) fn completed(&mut self, now: u64) {
        self.dispatched = self.dispatched.saturating_sub(1);
        self.served = Some(now);
        self.ended = now;
    }

    /// Whether its slice is over.
    pub(super) fn is_over(&self, now: u64) -> bool {
        !self.is_fresh && now as i64 >= self.slice_end
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// A request that begins at a sector and goes in a direction.
    pub(super) fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        self.sorted.starts_at(sector, write)
    }

    /// If it is this request's turn, it becomes the turn of its neighbour.
    fn skip(&mut self, request: &Queued, head: &Head) {
        if self.next.is_some_and(|next| next.id == request.id) {
            self.next = head.choose_neighbour(&self.sorted, request);
        }
    }

    /// One that has grown at its front may have become the nearest.
    fn follow(&mut self, before: &Queued, after: &Queued, head: &Head) {
        if self.next.is_some_and(|next| next.id == after.id) {
            self.next = Some(*after);
        } else if before.sector != after.sector {
            self.next = head.choose(self.next, Some(*after));
        }
    }
}
