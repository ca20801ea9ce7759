//! The queue of one device: merging, plug, elevator, places, counters.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::bio::{self, Bio};
use super::table::{Held, Table};
use super::{DeviceCounters, QueueConfig};
use crate::control::Traffic;
use crate::dispatch::{self, Dispatch, Handling};
use crate::elevator::{self, DispatchList, Elevator, Kick, Queued};
use crate::io::{Request, RequestKind};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId, PAGE_SECTORS, RequestId};

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) config: QueueConfig,
    device: DeviceId,
    pub(super) elevator: Box<dyn Elevator>,
    pub(super) dispatch: Box<dyn Dispatch>,
    list: DispatchList,
    /// Requests in the elevator and on the dispatch list.
    pub(super) waiting: u32,
    /// Requests in the elevator by the sector behind them, if bios are compared with all of them.
    ends: Vec<(u64, RequestId)>,
    /// The request in the elevator that was opened or has grown last.
    last: Option<RequestId>,
    /// The queue is plugged until then.
    pub(super) unplug_at: Option<Instant>,
    reads: u32,
    batch: Option<Batch>,
    /// Writes, metadata included.
    pub(super) writes: u32,
    /// Writes of pages, and these pages.
    pub(super) data_writes: u32,
    pub(super) write_pages: u64,
    pub(super) congested: bool,
    /// Requests at the device, and since when there has been one.
    pub(super) given: u32,
    busy_since: Instant,
    counters: DeviceCounters,
}

/// What a task may do that has filled the places of reads.
#[derive(Clone, Copy, Debug)]
struct Batch {
    task: CallId,
    until: Instant,
    /// Requests that it may open.
    left: u32,
}

/// The requests of a batch, and its time.
const BATCH: (u32, Duration) = (32, Duration::from_millis(20));

/// Where a bio joins a request.
#[derive(Clone, Copy, Debug)]
enum Joint {
    Back(RequestId),
    Front(RequestId),
}

impl Queue {
    pub(super) fn new(device: DeviceId, config: QueueConfig) -> Self {
        let QueueConfig { request_pages_max, congestion_on, congestion_off, .. } = config;
        assert!(request_pages_max > 0, "a request has at least one page");
        let congestion = 1..=congestion_on;
        assert!(congestion.contains(&congestion_off), "congestion ends at a lower length");
        let places = config.read_requests_max.min(config.write_requests_max);
        assert!(places > 0, "a device takes reads and writes");
        Self {
            config,
            device,
            elevator: elevator::Spec::parse("none").expect("the table has it").build(),
            dispatch: dispatch::Spec::parse("deferred").expect("the table has it").build(),
            list: DispatchList::default(),
            waiting: 0,
            ends: Vec::new(),
            last: None,
            unplug_at: None,
            reads: 0,
            batch: None,
            writes: 0,
            data_writes: 0,
            write_pages: 0,
            congested: false,
            given: 0,
            busy_since: Instant::ZERO,
            counters: DeviceCounters::default(),
        }
    }

    /// Lets a bio join requests that wait, as far as it fits; returns the rest.
    pub(super) fn merge(&mut self, table: &mut Table, bio: Bio) -> Bio {
        let Some(joint) = self.joint(table, &bio) else { return bio };
        if bio.is_writeback() {
            let fits = self.config.request_pages_max - self.at(table, joint).request.pages;
            self.write_pages += bio.pages().min(fits);
        }
        self.counters.merged += 1;
        match joint {
            Joint::Back(id) => self.grow_back(table, id, bio),
            Joint::Front(id) => {
                self.grow_front(table, id, &bio);
                bio.behind(bio.sectors)
            }
        }
    }

    /// Whether a bio would join a request.
    pub(super) fn joins(&self, table: &Table, bio: &Bio) -> bool {
        self.joint(table, bio).is_some()
    }

    /// Opens a request.
    pub(super) fn insert(&mut self, now: Instant, table: &mut Table, bio: &Bio) -> RequestId {
        let id = table.add(self.device, bio, Handling::Deferred);
        self.count(now, bio);
        let held = table.get_mut(id);
        held.queued = true;
        let queued = held.as_queued();
        if self.elevator.merges_with_all() {
            self.ends_insert(queued.end(), id);
        }
        self.last = Some(id);
        let was_empty = self.waiting == 0;
        self.waiting += 1;
        let kick = self.elevator.insert(now, &queued);
        if let (Some(plug), true) = (self.config.plug, was_empty) {
            self.unplug_at.get_or_insert(now + plug.delay);
        }
        if kick == Kick::Now {
            self.unplug_at = None;
        }
        id
    }

    /// Whether the driver may take requests: enough of them wait, or nothing holds them back.
    pub(super) fn may_run(&self) -> bool {
        match (self.config.plug, self.unplug_at) {
            (Some(plug), Some(_)) => self.waiting >= plug.requests,
            _ => true,
        }
    }

    /// The driver takes requests from the elevator as long as the device has room.
    pub(super) fn run(&mut self, now: Instant, table: &mut Table, ready: &mut VecDeque<Request>) {
        self.unplug_at = None;
        while self.has_room()
            && let Some(id) = self.take(now)
        {
            self.give(now, table, id, ready);
        }
    }

    /// Takes all requests that wait, as many as the elevator dispatches.
    pub(super) fn drain(
        &mut self,
        now: Instant,
        table: &mut Table,
        ready: &mut VecDeque<Request>,
        handling: Handling,
    ) {
        self.unplug_at = None;
        while let Some(id) = self.take(now) {
            table.get_mut(id).request.handling = handling;
            self.give(now, table, id, ready);
        }
    }

    /// The next request by the elevator's order, if there is one and the elevator does not idle.
    fn take(&mut self, now: Instant) -> Option<RequestId> {
        if self.waiting == 0 {
            return None;
        }
        if self.list.is_empty() {
            self.elevator.dispatch(now, &mut self.list);
            self.forget_dispatched();
        }
        let queued = self.list.pop()?;
        self.elevator.started(now, &queued);
        self.waiting -= 1;
        Some(queued.id)
    }

    /// Hands a request to the device.
    pub(super) fn give(
        &mut self,
        now: Instant,
        table: &mut Table,
        id: RequestId,
        ready: &mut VecDeque<Request>,
    ) {
        if self.given == 0 {
            self.busy_since = now;
        }
        self.given += 1;
        let held = table.get_mut(id);
        held.given = Some(now);
        self.counters.submitted += 1;
        if held.request.kind != RequestKind::Discard {
            self.counters.submitted_sectors += held.request.sectors;
        }
        self.counters.inline += u64::from(held.request.handling != Handling::Deferred);
        ready.push_back(held.request);
    }

    /// The timeout of the queue.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.unplug_at {
            None if self.has_room() => self.elevator.timeout(),
            plugged => plugged,
        }
    }

    /// What the device has done up to now.
    pub(super) fn counters(&self, now: Instant) -> DeviceCounters {
        let mut counters = self.counters;
        if self.given > 0 {
            counters.busy += now.since(self.busy_since);
        }
        counters
    }

    /// A bio became a request.
    pub(super) fn count(&mut self, now: Instant, bio: &Bio) {
        match bio.kind {
            RequestKind::Read => {
                self.reads += 1;
                let most = self.config.read_requests_max;
                if self.reads == most {
                    let (left, time) = BATCH;
                    self.batch = bio.task.map(|task| Batch { task, until: now + time, left });
                } else if let Some(batch) = &mut self.batch
                    && self.reads > most
                {
                    batch.left = batch.left.saturating_sub(1);
                }
                self.congested |= self.reads >= self.config.congestion_on;
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                self.writes += 1;
                if bio.is_writeback() {
                    self.data_writes += 1;
                    self.write_pages += bio.pages();
                }
            }
            RequestKind::Inode | RequestKind::Discard => self.writes += 1,
            RequestKind::Flush => {}
        }
    }

    /// A request is done; whether the driver should take the next one.
    pub(super) fn end(&mut self, now: Instant, held: &Held, took: Option<Duration>) -> bool {
        let time = now.since(held.given.expect("a request is done after it was given"));
        let request = &held.request;
        let done = |traffic: &mut Traffic| {
            traffic.requests += 1;
            traffic.sectors += request.sectors;
            traffic.time += time;
        };
        match request.kind {
            RequestKind::Read => {
                self.end_read();
                done(&mut self.counters.reads);
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                self.writes -= 1;
                if !request.is_direct() {
                    self.data_writes -= 1;
                    self.write_pages -= request.pages;
                }
                done(&mut self.counters.writes);
            }
            RequestKind::Inode => {
                self.writes -= 1;
                done(&mut self.counters.writes);
            }
            RequestKind::Discard => self.writes -= 1,
            RequestKind::Flush => {}
        }
        self.given -= 1;
        if self.given == 0 {
            self.counters.busy += now.since(self.busy_since);
        }
        if let Some(class) = bio::class(request.kind, request.sectors, held.ahead) {
            self.dispatch.learn(now, &class, request.handling, took.unwrap_or(time));
        }
        let kick = held.queued && self.elevator.completed(now, &held.as_queued()) == Kick::Now;
        kick || self.unplug_at.is_none()
    }

    /// Whether there is a place for a read, for a task that may have filled the places itself.
    pub(super) fn takes_read(&self, now: Instant, task: Option<CallId>) -> bool {
        let most = self.config.read_requests_max;
        let batch = self.batch.filter(|batch| Some(batch.task) == task);
        let goes_on = batch.is_some_and(|batch| batch.left > 0 && now <= batch.until);
        self.reads < most || (goes_on && self.reads < most.saturating_add(most / 2))
    }

    fn end_read(&mut self) {
        self.reads -= 1;
        if self.reads < self.config.congestion_off {
            self.congested = false;
        }
    }

    /// Whether the driver may give the device one more.
    fn has_room(&self) -> bool {
        self.config.depth == 0 || self.given < self.config.depth
    }

    /// What the elevator has chosen takes no bio in any more.
    fn forget_dispatched(&mut self) {
        for queued in self.list.iter() {
            if self.last == Some(queued.id) {
                self.last = None;
            }
            if self.elevator.merges_with_all() {
                let place = self.ends.binary_search(&(queued.end(), queued.id));
                self.ends.remove(place.expect("a request that waits is found by its end"));
            }
        }
    }

    fn ends_insert(&mut self, end: u64, id: RequestId) {
        let place = self.ends.partition_point(|one| *one < (end, id));
        self.ends.insert(place, (end, id));
    }

    fn at<'a>(&self, table: &'a Table, joint: Joint) -> &'a Held {
        let (Joint::Back(id) | Joint::Front(id)) = joint;
        table.get(id)
    }

    /// Where a bio joins: the end or front of the latest request, else the end of any, else the
    /// front of any.
    fn joint(&self, table: &Table, bio: &Bio) -> Option<Joint> {
        bio.class()?;
        let all = self.elevator.merges_with_all();
        let back = |id: &RequestId| self.goes_behind(table, *id, bio);
        let front = |id: &RequestId| all && self.goes_before(table, *id, bio);
        let last = self.last;
        if let Some(id) = last.filter(back) {
            return Some(Joint::Back(id));
        }
        if let Some(id) = last.filter(front) {
            return Some(Joint::Front(id));
        }
        let found = self.ending_at(bio.sector).find(back).map(Joint::Back);
        let end = bio.end();
        let starts = || self.elevator.starts_at(end, bio.kind.is_data_write());
        found.or_else(|| starts().filter(front).map(Joint::Front))
    }

    /// The requests in the elevator that end at a sector.
    fn ending_at(&self, sector: u64) -> impl Iterator<Item = RequestId> + '_ {
        let first = self.ends.partition_point(|(end, _)| *end < sector);
        self.ends[first..].iter().take_while(move |(end, _)| *end == sector).map(|(_, id)| *id)
    }

    fn goes_behind(&self, table: &Table, id: RequestId, bio: &Bio) -> bool {
        let held = table.get(id);
        let Request { kind, file, pages, sector, sectors, .. } = held.request;
        let behind = kind == bio.kind && file == bio.file && sector + sectors == bio.sector;
        behind && pages < self.config.request_pages_max && self.may_merge(held, bio)
    }

    fn goes_before(&self, table: &Table, id: RequestId, bio: &Bio) -> bool {
        let held = table.get(id);
        let Request { kind, file, sector, sectors, .. } = held.request;
        let before = kind == bio.kind && file == bio.file && bio.end() == sector;
        before && sectors + bio.sectors <= self.sectors_max() && self.may_merge(held, bio)
    }

    fn may_merge(&self, held: &Held, bio: &Bio) -> bool {
        let mut as_bio = held.as_queued();
        (as_bio.sector, as_bio.sectors) = (bio.sector, bio.sectors);
        as_bio.task = bio.task;
        self.elevator.may_merge(&held.as_queued(), &as_bio)
    }

    fn grow_back(&mut self, table: &mut Table, id: RequestId, bio: Bio) -> Bio {
        let sectors_max = self.sectors_max();
        let held = table.get_mut(id);
        let before = held.as_queued();
        let merged = bio.sectors.min(sectors_max - held.request.sectors);
        grow(&mut held.request, merged);
        held.ahead &= bio.ahead;
        let after = held.as_queued();
        table.own(id, &bio);
        self.has_grown(&before, &after);
        let next = self.elevator.starts_at(after.end(), after.write);
        if let Some(next) = next.filter(|next| self.is_continued_by(table, id, *next)) {
            self.join(table, id, next);
        }
        bio.behind(merged)
    }

    fn grow_front(&mut self, table: &mut Table, id: RequestId, bio: &Bio) {
        let held = table.get_mut(id);
        let before = held.as_queued();
        let Bio { first, sector, frame, .. } = *bio;
        held.request = Request { first, sector, ..held.request };
        grow(&mut held.request, bio.sectors);
        held.frame = frame;
        held.ahead &= bio.ahead;
        let after = held.as_queued();
        table.own(id, bio);
        self.has_grown(&before, &after);
        let former = self.ending_at(sector).find(|former| self.is_continued_by(table, *former, id));
        if let Some(former) = former {
            self.join(table, former, id);
        }
    }

    fn has_grown(&mut self, before: &Queued, after: &Queued) {
        self.elevator.grown(before, after);
        self.move_end(before, after);
        self.last = Some(after.id);
    }

    fn move_end(&mut self, before: &Queued, after: &Queued) {
        if self.elevator.merges_with_all() && before.end() != after.end() {
            self.drop_end(before);
            self.ends_insert(after.end(), after.id);
        }
    }

    fn drop_end(&mut self, gone: &Queued) {
        let place = self.ends.binary_search(&(gone.end(), gone.id));
        self.ends.remove(place.expect("a request that waits is found by its end"));
    }

    /// Whether two requests that wait can be one.
    fn is_continued_by(&self, table: &Table, one: RequestId, next: RequestId) -> bool {
        let (held, next) = (table.get(one), table.get(next));
        let (a, b) = (&held.request, &next.request);
        let is_alike = a.kind == b.kind && a.file == b.file;
        let behind = is_alike && a.sector + a.sectors == b.sector;
        let fits = a.sectors + b.sectors <= self.sectors_max();
        behind && fits && self.elevator.may_merge(&held.as_queued(), &next.as_queued())
    }

    /// Makes two requests one.
    fn join(&mut self, table: &mut Table, one: RequestId, next: RequestId) {
        let gone = table.remove(next);
        let kept = table.get_mut(one);
        let before = kept.as_queued();
        grow(&mut kept.request, gone.request.sectors);
        kept.ahead &= gone.ahead;
        let after = kept.as_queued();
        let gone_queued = gone.as_queued();
        if let Some(owners) = gone.owners {
            table.chain(one, owners);
        }
        self.elevator.joined(&before, &after, &gone_queued);
        self.drop_end(&gone_queued);
        self.move_end(&before, &after);
        self.last = Some(one);
        self.waiting -= 1;
        if gone.request.kind.is_read() {
            self.end_read();
        } else {
            self.writes -= 1;
            self.data_writes -= u32::from(!gone.request.is_direct());
        }
    }

    /// The largest request in sectors.
    fn sectors_max(&self) -> u64 {
        self.config.request_pages_max * PAGE_SECTORS
    }
}

/// A request grows by `sectors`.
fn grow(request: &mut Request, sectors: u64) {
    request.sectors += sectors;
    request.pages = request.sectors.div_ceil(PAGE_SECTORS);
}
