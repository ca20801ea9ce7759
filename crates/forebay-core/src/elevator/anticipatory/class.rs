//! The requests of one class: in the order of a sweep, and in the order of their coming.

use crate::elevator::Queued;
use crate::elevator::nearer::Head;
use crate::elevator::sorted::{Fifo, Sorted};
use crate::units::RequestId;

/// How far the head may seek back, in sectors: 512 MiB.
const BACK_MAX: u64 = 1_024 * 1_024;

/// What a seek back costs.
const BACK_PENALTY: u64 = 2;

/// The requests that wait in one class.
#[derive(Debug)]
pub(super) struct Class {
    sorted: Sorted,
    fifo: Fifo,
    next: Option<Queued>,
    head: Head,
    /// After how many jiffies a request has expired.
    expire: u64,
    /// When expired ones were last looked for.
    looked: Option<u64>,
}

impl Class {
    /// No request.
    pub(super) fn new(expire: u64) -> Self {
        let head = Head { at: 0, back_max: BACK_MAX, back_penalty: BACK_PENALTY };
        let (sorted, fifo) = (Sorted::default(), Fifo::default());
        Self { sorted, fifo, next: None, head, expire, looked: None }
    }

    /// A request begins to wait.
    pub(super) fn insert(&mut self, now: u64, request: &Queued) {
        self.sorted.insert(request);
        self.fifo.insert(request, now + self.expire);
        self.next = self.head.choose(Some(*request), self.next);
    }

    /// A request is served: the sweep continues after it.
    pub(super) fn dispatch(&mut self, request: &Queued) {
        self.head.at = request.end();
        self.next = self.head.choose_neighbour(&self.sorted, request);
        self.sorted.remove(request);
        self.fifo.remove(request);
    }

    /// A request is gone without having been served.
    pub(super) fn remove(&mut self, request: &Queued) {
        self.skip(request);
        self.sorted.remove(request);
        self.fifo.remove(request);
    }

    /// A request has grown.
    pub(super) fn grown(&mut self, before: &Queued, after: &Queued) {
        self.sorted.replace(before, after);
        self.fifo.replace(after);
        self.follow(after);
    }

    /// A request has taken in another.
    pub(super) fn joined(&mut self, before: &Queued, kept: &Queued, gone: &Queued) {
        self.skip(gone);
        self.sorted.remove(gone);
        self.sorted.replace(before, kept);
        self.fifo.join(kept, gone);
        self.follow(kept);
    }

    /// The oldest request if it has expired. It is looked for once an interval, so that a disk that
    /// cannot keep up does not seek for each one.
    pub(super) fn take_expired(&mut self, now: u64) -> Option<Queued> {
        if self.looked.is_some_and(|looked| now.saturating_sub(looked) < self.expire) {
            return None;
        }
        self.looked = Some(now);
        self.fifo.head().filter(|head| now > head.at).map(|head| head.request)
    }

    /// The oldest request, with which a batch begins.
    pub(super) fn oldest(&mut self, now: u64) -> Option<Queued> {
        self.looked = Some(now);
        self.fifo.head().map(|head| head.request)
    }

    /// The request that the sweep comes to next.
    pub(super) fn next(&self) -> Option<Queued> {
        self.next
    }

    /// After how many jiffies a request has expired.
    pub(super) fn expire(&self) -> u64 {
        self.expire
    }

    /// Where the sweep is.
    pub(super) fn head_at(&self) -> u64 {
        self.head.at
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
    fn skip(&mut self, request: &Queued) {
        if self.next.is_some_and(|next| next.id == request.id) {
            self.next = self.head.choose_neighbour(&self.sorted, request);
        }
    }

    fn follow(&mut self, after: &Queued) {
        if self.next.is_some_and(|next| next.id == after.id) {
            self.next = Some(*after);
        }
    }
}
