//! The block queue: bios in, requests out.
//!
//! Source:     Linux 2.6.21, block/ll_rw_blk.c (plug, back merge, congestion), taken for 2.6.7 too;
//!             without a plug, the direct submission of today's multi-queue devices.
//! Behaviour:  a bio joins the last plugged request that it continues, up to the request limit, and
//!             otherwise opens a new one. Plugged requests go to the device when as many as the
//!             plug's threshold wait, when its delay has passed, or when somebody waits for a page.
//! Differs:    one direction and no elevator: requests reach the device in the order of arrival.
//! Not for:    comparisons of elevators.
//!
//! ```text
//!   bio --merge--> plugged requests --unplug--> in flight --end_request--> free
//!                  [ r1 ][ r2 ][ r3 ]           (a slot of the table each)
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::io::Request;
use crate::time::{Duration, Instant};
use crate::units::{DeviceId, FileId, PageIndex, RequestId};

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
    /// requests until fewer than 103.
    fn default() -> Self {
        Self {
            plug: Some(Plug { requests: 4, delay: Duration::from_millis(3) }),
            request_pages_max: 32,
            congestion_on: 113,
            congestion_off: 103,
        }
    }
}

/// A contiguous run of one file's pages that wants to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bio {
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
    table: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Requests that have been let go, in order.
    ready: VecDeque<Request>,
    pub(crate) submitted: u64,
    pub(crate) submitted_pages: u64,
}

#[derive(Debug)]
struct Queue {
    config: QueueConfig,
    plugged: VecDeque<Request>,
    unplug_at: Option<Instant>,
    in_flight: u32,
    congested: bool,
}

impl BlockQueues {
    /// Adds a device.
    pub(crate) fn add(&mut self, config: QueueConfig) -> DeviceId {
        let QueueConfig { request_pages_max, congestion_on, congestion_off, .. } = config;
        assert!(request_pages_max > 0, "a request has at least one page");
        let congestion = 1..=congestion_on;
        assert!(congestion.contains(&congestion_off), "congestion ends at a lower length");
        self.queues.push(Queue {
            config,
            plugged: VecDeque::new(),
            unplug_at: None,
            in_flight: 0,
            congested: false,
        });
        DeviceId(self.queues.len() as u32 - 1)
    }

    /// Takes a bio in, split at the request limit.
    pub(crate) fn submit_bio(&mut self, now: Instant, device: DeviceId, bio: Bio) {
        let limit = self.queues[device.index()].config.request_pages_max;
        let mut rest = self.merge(device, bio, limit);
        while rest.pages > 0 {
            let part = Bio { pages: rest.pages.min(limit), ..rest };
            self.insert(now, device, part);
            rest = rest.behind(part.pages);
        }
    }

    /// Lets the plugged requests of a device go.
    pub(crate) fn unplug(&mut self, device: DeviceId) {
        let queue = &mut self.queues[device.index()];
        queue.unplug_at = None;
        while let Some(request) = queue.plugged.pop_front() {
            self.submitted += 1;
            self.submitted_pages += request.pages;
            self.table[request.id.index()] = Some(request);
            self.ready.push_back(request);
        }
    }

    /// Lets the plugged requests of all devices go.
    pub(crate) fn unplug_all(&mut self) {
        for device in 0..self.queues.len() as u32 {
            self.unplug(DeviceId(device));
        }
    }

    /// Lets the requests go whose delay has passed.
    pub(crate) fn unplug_due(&mut self, now: Instant) {
        for device in 0..self.queues.len() {
            if self.queues[device].unplug_at.is_some_and(|at| at <= now) {
                self.unplug(DeviceId(device as u32));
            }
        }
    }

    /// A request is done; returns what it was.
    pub(crate) fn end_request(&mut self, id: RequestId) -> Request {
        let slot =
            self.table.get_mut(id.index()).expect("a request is done after it was submitted");
        let request = slot.take().expect("a request is done once");
        self.free.push(id.0);
        let queue = &mut self.queues[request.device.index()];
        queue.in_flight -= 1;
        if queue.in_flight < queue.config.congestion_off {
            queue.congested = false;
        }
        request
    }

    /// The next request for a device.
    pub(crate) fn pop_ready(&mut self) -> Option<Request> {
        self.ready.pop_front()
    }

    /// When the next plug's delay has passed.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.unplug_at).min()
    }

    /// Whether a device refuses readahead for now.
    pub(crate) fn congested(&self, device: DeviceId) -> bool {
        self.queues[device.index()].congested
    }

    /// Pages in plugged requests and at devices.
    pub(crate) fn pages(&self) -> u64 {
        let plugged = self.queues.iter().flat_map(|queue| &queue.plugged);
        plugged.chain(self.table.iter().flatten()).map(|request| request.pages).sum()
    }

    /// Lengthens the last plugged request by as much of a bio as continues it and fits; returns the
    /// rest.
    fn merge(&mut self, device: DeviceId, bio: Bio, limit: u64) -> Bio {
        let Some(last) = self.queues[device.index()].plugged.back_mut() else { return bio };
        if last.file != bio.file || last.first + last.pages != bio.first || last.pages >= limit {
            return bio;
        }
        let merged = bio.pages.min(limit - last.pages);
        last.pages += merged;
        bio.behind(merged)
    }

    fn insert(&mut self, now: Instant, device: DeviceId, bio: Bio) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() as u32 - 1
        });
        let Bio { file, first, pages, sector } = bio;
        let queue = &mut self.queues[device.index()];
        queue.plugged.push_back(Request { id: RequestId(id), device, file, first, pages, sector });
        queue.in_flight += 1;
        queue.congested |= queue.in_flight >= queue.config.congestion_on;
        match queue.config.plug {
            Some(plug) if (queue.plugged.len() as u32) < plug.requests => {
                queue.unplug_at.get_or_insert(now + plug.delay);
            }
            Some(_) | None => self.unplug(device),
        }
    }
}

impl Bio {
    /// What is left behind the first `pages`.
    fn behind(self, pages: u64) -> Self {
        Self {
            first: self.first + pages,
            pages: self.pages - pages,
            sector: self.sector + pages * crate::units::PAGE_SECTORS,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn bio(first: PageIndex, pages: u64) -> Bio {
        Bio { file: FileId(0), first, pages, sector: first * 8 }
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
        assert_eq!(queues.pages(), 70);
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
        queues.end_request(RequestId(0));
        assert!(queues.congested(device), "two are not fewer than two");
        queues.end_request(RequestId(1));
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
        queues.unplug_all();
        assert_eq!(ready(&mut queues), [(0, 32), (32, 3), (35, 1)]);
    }
}
