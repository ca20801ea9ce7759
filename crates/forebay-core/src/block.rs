//! The block queue: bios in, requests out.
//!
//! Source:     Linux 2.6.21, block/ll_rw_blk.c (plug, back merge, congestion), taken for 2.6.7 too;
//!             without a plug, the direct submission of today's multi-queue devices.
//! Behaviour:  a bio joins the last plugged request that it continues, up to the request limit, and
//!             otherwise opens a new one. Plugged requests go to the device when as many as the
//!             plug's threshold wait, when its delay has passed, or when somebody waits for a page.
//!             Writes have a number of places at the device; who writes looks for one first.
//! Differs:    no elevator: requests reach the device in the order of arrival. Places are counted
//!             per device; Linux 2.2 and 2.4 share them among all devices.
//! Not for:    comparisons of elevators.
//!
//! ```text
//!   bio --merge--> plugged requests --unplug--> in flight --end_request--> free
//!                  [ r1 ][ r2 ][ r3 ]           (a slot of the table each)
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::control::Traffic;
use crate::dispatch::Handling;
use crate::io::{Request, RequestKind};
use crate::time::{Duration, Instant};
use crate::units::{DeviceId, FileId, FrameId, PAGE_SECTORS, PageIndex, RequestId};

/// What a device's queue is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Holds requests back so that they can grow; none hands each bio over at once.
    pub plug: Option<Plug>,
    /// The largest request in pages, at least one.
    pub request_pages_max: u64,
    /// Requests at which the device counts as congested, at least as many as `congestion_off`.
    pub congestion_on: u32,
    /// Requests below which it no longer does, at least one.
    pub congestion_off: u32,
    /// Writes that may be at the device at once, at least one.
    pub write_requests_max: u32,
}

/// When a plugged queue lets its requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plug {
    /// At so many requests.
    pub requests: u32,
    /// So long after the first.
    pub delay: Duration,
}

impl Default for QueueConfig {
    /// Linux 2.6: a plug of 4 requests or 3 ms, 128 KiB a request, congested from 113 of 128
    /// read requests until fewer than 103, 128 writes.
    fn default() -> Self {
        Self {
            plug: Some(Plug { requests: 4, delay: Duration::from_millis(3) }),
            request_pages_max: 32,
            congestion_on: 113,
            congestion_off: 103,
            write_requests_max: 128,
        }
    }
}

/// A contiguous run of one file's pages that wants to be read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
    pub(crate) kind: RequestKind,
    /// The frame of the first page, if the caller knows it.
    pub(crate) frame: Option<FrameId>,
    pub(crate) file: FileId,
    pub(crate) first: PageIndex,
    pub(crate) pages: u64,
    pub(crate) sector: u64,
}

/// The queues of all devices and their requests.
#[derive(Debug, Default)]
pub(crate) struct BlockQueues {
    queues: Vec<Queue>,
    /// Requests by id; a free slot holds nothing.
    table: Vec<Option<Given>>,
    free: Vec<u32>,
    /// Requests that have been let go, in order.
    ready: VecDeque<Request>,
    pub(crate) submitted: u64,
    pub(crate) submitted_pages: u64,
}

/// A request at its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) request: Request,
    /// The frame of its first page, if it is known.
    pub(crate) frame: Option<FrameId>,
    since: Instant,
}

/// What a device has done so far, as `/proc/diskstats` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounters {
    pub(crate) reads: Traffic,
    pub(crate) writes: Traffic,
    /// How long at least one request was at the device.
    pub(crate) busy: Duration,
}

#[derive(Debug)]
struct Queue {
    config: QueueConfig,
    plugged: VecDeque<(Request, Option<FrameId>)>,
    unplug_at: Option<Instant>,
    /// Reads, plugged ones included.
    reads: u32,
    /// Writes, plugged ones included.
    writes: u32,
    /// Pages of these writes.
    write_pages: u64,
    congested: bool,
    /// Requests at the device, and since when there has been one.
    given: u32,
    busy_since: Instant,
    counters: DeviceCounters,
}

impl BlockQueues {
    /// Adds a device.
    pub(crate) fn add(&mut self, config: QueueConfig) -> DeviceId {
        let QueueConfig { request_pages_max, congestion_on, congestion_off, .. } = config;
        assert!(request_pages_max > 0, "a request has at least one page");
        let congestion = 1..=congestion_on;
        assert!(congestion.contains(&congestion_off), "congestion ends at a lower length");
        assert!(config.write_requests_max > 0, "a device takes writes");
        self.queues.push(Queue {
            config,
            plugged: VecDeque::new(),
            unplug_at: None,
            reads: 0,
            writes: 0,
            write_pages: 0,
            congested: false,
            given: 0,
            busy_since: Instant::ZERO,
            counters: DeviceCounters::default(),
        });
        DeviceId(self.queues.len() as u32 - 1)
    }

    /// Takes a bio in, split at the request limit; returns how many requests it opened.
    pub(crate) fn submit_bio(&mut self, now: Instant, device: DeviceId, bio: Bio) -> u32 {
        let limit = self.queues[device.index()].config.request_pages_max;
        let mut rest = self.merge(device, bio, limit);
        let mut opened = 0;
        while rest.pages > 0 {
            let part = Bio { pages: rest.pages.min(limit), ..rest };
            self.insert(now, device, part);
            rest = rest.behind(part.pages);
            opened += 1;
        }
        opened
    }

    /// Hands a request over that joins no other: metadata of a file, or a flush.
    pub(crate) fn submit_alone(&mut self, now: Instant, device: DeviceId, bio: Bio) -> RequestId {
        let id = self.new_id();
        self.queues[device.index()].count(&bio);
        self.give(now, bio.request(id, device), None);
        id
    }

    /// Lets the plugged requests of a device go.
    pub(crate) fn unplug(&mut self, now: Instant, device: DeviceId) {
        self.queues[device.index()].unplug_at = None;
        while let Some((request, frame)) = self.queues[device.index()].plugged.pop_front() {
            self.give(now, request, frame);
        }
    }

    /// Lets the plugged requests of all devices go.
    pub(crate) fn unplug_all(&mut self, now: Instant) {
        for device in 0..self.queues.len() as u32 {
            self.unplug(now, DeviceId(device));
        }
    }

    /// Lets the requests go whose delay has passed.
    pub(crate) fn unplug_due(&mut self, now: Instant) {
        for device in 0..self.queues.len() {
            if self.queues[device].unplug_at.is_some_and(|at| at <= now) {
                self.unplug(now, DeviceId(device as u32));
            }
        }
    }

    /// A request is done; returns what it was.
    pub(crate) fn end_request(&mut self, now: Instant, id: RequestId) -> Given {
        let slot =
            self.table.get_mut(id.index()).expect("a request is done after it was submitted");
        let given = slot.take().expect("a request is done once");
        self.free.push(id.0);
        let queue = &mut self.queues[given.request.device.index()];
        queue.end(now, &given.request, now.since(given.since));
        given
    }

    /// The next request for a device.
    pub(crate) fn pop_ready(&mut self) -> Option<Request> {
        self.ready.pop_front()
    }

    /// When the next plug's delay has passed.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.unplug_at).min()
    }

    /// Whether a device has a place for a write.
    pub(crate) fn takes_write(&self, device: DeviceId) -> bool {
        let queue = &self.queues[device.index()];
        queue.writes < queue.config.write_requests_max
    }

    /// Whether a bio continues the last plugged request of a device, which has room for more.
    pub(crate) fn joins(&self, device: DeviceId, bio: &Bio) -> bool {
        let queue = &self.queues[device.index()];
        queue
            .plugged
            .back()
            .is_some_and(|(last, _)| continues(last, bio, queue.config.request_pages_max))
    }

    /// Pages of the writes at a device, plugged ones included.
    pub(crate) fn write_pages(&self, device: DeviceId) -> u64 {
        self.queues[device.index()].write_pages
    }

    /// The largest request of a device in pages.
    pub(crate) fn request_pages_max(&self, device: DeviceId) -> u64 {
        self.queues[device.index()].config.request_pages_max
    }

    /// What a device has done up to now.
    pub(crate) fn counters(&self, now: Instant, device: DeviceId) -> DeviceCounters {
        let queue = &self.queues[device.index()];
        let mut counters = queue.counters;
        if queue.given > 0 {
            counters.busy += now.since(queue.busy_since);
        }
        counters
    }

    /// Whether a device refuses readahead for now.
    pub(crate) fn congested(&self, device: DeviceId) -> bool {
        self.queues[device.index()].congested
    }

    /// Pages in plugged requests and at devices, of those that `counts` says.
    pub(crate) fn pages(&self, counts: impl Fn(RequestKind) -> bool) -> u64 {
        let plugged = self.queues.iter().flat_map(|queue| &queue.plugged);
        let given = self.table.iter().flatten().map(|given| &given.request);
        plugged
            .map(|(request, _)| request)
            .chain(given)
            .filter(|one| counts(one.kind))
            .map(|one| one.pages)
            .sum()
    }

    /// How many devices there are.
    pub(crate) fn devices(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Whether no device has a request.
    pub(crate) fn devices_are_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.given == 0)
    }

    /// Whether no request is plugged or at a device.
    pub(crate) fn is_idle(&self) -> bool {
        self.devices_are_idle() && self.queues.iter().all(|queue| queue.plugged.is_empty())
    }

    /// Lengthens the last plugged request by as much of a bio as continues it and fits; returns the
    /// rest.
    fn merge(&mut self, device: DeviceId, bio: Bio, limit: u64) -> Bio {
        let Some((last, _)) = self.queues[device.index()].plugged.back_mut() else { return bio };
        if !continues(last, &bio, limit) {
            return bio;
        }
        let merged = bio.pages.min(limit - last.pages);
        last.pages += merged;
        if bio.kind.is_data_write() {
            self.queues[device.index()].write_pages += merged;
        }
        bio.behind(merged)
    }

    fn insert(&mut self, now: Instant, device: DeviceId, bio: Bio) {
        let id = self.new_id();
        let queue = &mut self.queues[device.index()];
        queue.plugged.push_back((bio.request(id, device), bio.frame));
        queue.count(&bio);
        match queue.config.plug {
            Some(plug) if (queue.plugged.len() as u32) < plug.requests => {
                queue.unplug_at.get_or_insert(now + plug.delay);
            }
            Some(_) | None => self.unplug(now, device),
        }
    }

    fn new_id(&mut self) -> RequestId {
        RequestId(self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() as u32 - 1
        }))
    }

    /// Lets a request go.
    fn give(&mut self, now: Instant, request: Request, frame: Option<FrameId>) {
        self.submitted += 1;
        self.submitted_pages += request.pages;
        let queue = &mut self.queues[request.device.index()];
        if queue.given == 0 {
            queue.busy_since = now;
        }
        queue.given += 1;
        self.table[request.id.index()] = Some(Given { request, frame, since: now });
        self.ready.push_back(request);
    }
}

/// Whether a bio goes on where a request ends that has room for more.
fn continues(last: &Request, bio: &Bio, limit: u64) -> bool {
    let behind = last.file == bio.file && last.first + last.pages == bio.first;
    behind && last.kind == bio.kind && last.pages < limit
}

impl Queue {
    /// A request has been made of a bio.
    fn count(&mut self, bio: &Bio) {
        match bio.kind {
            RequestKind::Read => {
                self.reads += 1;
                self.congested |= self.reads >= self.config.congestion_on;
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                self.writes += 1;
                self.write_pages += bio.pages;
            }
            RequestKind::Inode => self.writes += 1,
            RequestKind::Flush => {}
        }
    }

    /// A request is done that was at the device for `time`.
    fn end(&mut self, now: Instant, request: &Request, time: Duration) {
        let done = |traffic: &mut Traffic| {
            traffic.requests += 1;
            traffic.sectors += request.pages * PAGE_SECTORS;
            traffic.time += time;
        };
        match request.kind {
            RequestKind::Read => {
                self.reads -= 1;
                if self.reads < self.config.congestion_off {
                    self.congested = false;
                }
                done(&mut self.counters.reads);
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                self.writes -= 1;
                self.write_pages -= request.pages;
                done(&mut self.counters.writes);
            }
            RequestKind::Inode => {
                self.writes -= 1;
                done(&mut self.counters.writes);
            }
            RequestKind::Flush => {}
        }
        self.given -= 1;
        if self.given == 0 {
            self.counters.busy += now.since(self.busy_since);
        }
    }
}

impl Bio {
    fn request(self, id: RequestId, device: DeviceId) -> Request {
        let Self { kind, file, first, pages, sector, .. } = self;
        let handling = Handling::Deferred;
        Request { id, device, file, first, pages, sector, kind, handling }
    }

    /// What is left behind the first `pages`.
    fn behind(self, pages: u64) -> Self {
        Self {
            first: self.first + pages,
            pages: self.pages - pages,
            sector: self.sector + pages * PAGE_SECTORS,
            frame: None,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn bio(first: PageIndex, pages: u64) -> Bio {
        Bio {
            kind: RequestKind::Read,
            frame: None,
            file: FileId(0),
            first,
            pages,
            sector: first * 8,
        }
    }

    fn ready(queues: &mut BlockQueues) -> Vec<(PageIndex, u64)> {
        core::iter::from_fn(|| queues.pop_ready())
            .map(|request| (request.first, request.pages))
            .collect()
    }

    #[test]
    fn three_requests_wait_and_the_fourth_lets_all_go() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig::default());
        for first in [100, 200, 300] {
            queues.submit_bio(Instant(5), device, bio(first, 1));
        }
        assert_eq!(ready(&mut queues), []);
        assert_eq!(queues.timeout(), Some(Instant(3_000_005)));
        queues.submit_bio(Instant(9), device, bio(301, 1));
        assert_eq!(ready(&mut queues), [], "a merge opens no request");
        queues.submit_bio(Instant(9), device, bio(400, 1));
        assert_eq!(ready(&mut queues), [(100, 1), (200, 1), (300, 2), (400, 1)]);
        assert_eq!(queues.timeout(), None);
    }

    #[test]
    fn the_delay_lets_requests_go() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig::default());
        queues.submit_bio(Instant(0), device, bio(7, 1));
        queues.unplug_due(Instant(2_999_999));
        assert_eq!(ready(&mut queues), []);
        queues.unplug_due(Instant(3_000_000));
        assert_eq!(ready(&mut queues), [(7, 1)]);
    }

    #[test]
    fn a_large_bio_becomes_requests_of_the_limit() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
        queues.submit_bio(Instant(0), device, bio(0, 70));
        assert_eq!(ready(&mut queues), [(0, 32), (32, 32), (64, 6)]);
        assert_eq!(queues.pages(RequestKind::is_read), 70);
    }

    #[test]
    fn what_continues_the_last_plugged_request_joins_it_without_a_place() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig { write_requests_max: 1, ..QueueConfig::default() });
        let write = |first| Bio { kind: RequestKind::Write, ..bio(first, 1) };
        assert!(!queues.joins(device, &write(7)), "nothing is plugged");
        queues.submit_bio(Instant(0), device, write(7));
        assert!(!queues.takes_write(device));
        assert!(queues.joins(device, &write(8)) && !queues.joins(device, &write(9)));
        assert!(!queues.joins(device, &bio(8, 1)), "a read is no write");
        for first in 8..39 {
            assert!(queues.joins(device, &write(first)));
            queues.submit_bio(Instant(0), device, write(first));
        }
        assert!(!queues.joins(device, &write(39)), "32 pages are a whole request");
        queues.unplug(Instant(0), device);
        assert_eq!(ready(&mut queues), [(7, 32)]);
    }

    #[test]
    fn congestion_begins_and_ends_at_different_lengths() {
        let mut queues = BlockQueues::default();
        let config = QueueConfig {
            plug: None,
            congestion_on: 3,
            congestion_off: 2,
            ..QueueConfig::default()
        };
        let device = queues.add(config);
        for first in [0, 10, 20] {
            queues.submit_bio(Instant(0), device, bio(first, 1));
        }
        assert!(queues.congested(device));
        queues.end_request(Instant(0), RequestId(0));
        assert!(queues.congested(device), "two are not fewer than two");
        queues.end_request(Instant(0), RequestId(1));
        assert!(!queues.congested(device));
    }

    #[test]
    fn parts_of_a_bio_lie_where_its_pages_lie() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
        queues.submit_bio(Instant(0), device, bio(0, 70));
        let parts = core::iter::from_fn(|| queues.pop_ready());
        assert_eq!(parts.map(|part| part.sector).collect::<Vec<_>>(), [0, 256, 512]);
    }

    #[test]
    fn a_merge_stops_at_the_limit_and_at_another_file() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig::default());
        queues.submit_bio(Instant(0), device, bio(0, 30));
        queues.submit_bio(Instant(0), device, bio(30, 5));
        queues.submit_bio(Instant(7), device, Bio { file: FileId(1), ..bio(35, 1) });
        assert_eq!(queues.timeout(), Some(Instant(3_000_000)), "so long after the first");
        queues.unplug_all(Instant(0));
        assert_eq!(ready(&mut queues), [(0, 32), (32, 3), (35, 1)]);
    }

    #[test]
    fn writes_have_places_and_join_no_reads() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig { write_requests_max: 2, ..QueueConfig::default() });
        let write = |first, pages| Bio { kind: RequestKind::Write, ..bio(first, pages) };
        queues.submit_bio(Instant(0), device, bio(0, 4));
        queues.submit_bio(Instant(0), device, write(4, 4));
        queues.submit_bio(Instant(0), device, write(8, 4));
        assert!(queues.takes_write(device), "the second write has joined the first");
        assert_eq!(queues.write_pages(device), 8);
        queues.submit_bio(Instant(0), device, write(99, 1));
        assert!(!queues.takes_write(device));
        queues.unplug_all(Instant(0));
        assert_eq!(ready(&mut queues), [(0, 4), (4, 8), (99, 1)]);
        queues.end_request(Instant(9), RequestId(1));
        assert!(queues.takes_write(device));
        assert_eq!(queues.write_pages(device), 1);
    }

    #[test]
    fn a_device_is_busy_while_it_has_any_request() {
        let mut queues = BlockQueues::default();
        let device = queues.add(QueueConfig { plug: None, ..QueueConfig::default() });
        queues.submit_bio(Instant(10), device, bio(0, 2));
        let write = Bio { kind: RequestKind::Write, ..bio(50, 1) };
        queues.submit_bio(Instant(30), device, write);
        queues.end_request(Instant(40), RequestId(0));
        assert_eq!(queues.counters(Instant(45), device).busy, Duration(35));
        queues.end_request(Instant(50), RequestId(1));
        let counters = queues.counters(Instant(99), device);
        assert_eq!(counters.busy, Duration(40));
        let read = Traffic { requests: 1, sectors: 16, time: Duration(30) };
        let write = Traffic { requests: 1, sectors: 8, time: Duration(20) };
        assert_eq!((counters.reads, counters.writes), (read, write));
    }
}
