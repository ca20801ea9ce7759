//! The block queues: bios in, requests out.
//!
//! Source:     Linux 2.6.21, block/ll_rw_blk.c (plug, merging, congestion, unplug at a wait), used
//!             for 2.6.7 too; without a plug, the direct submission of current multi-queue devices.
//! Behaviour:  a bio joins a request that it continues, or that continues it, up to the request
//!             limit. Otherwise it opens a new request. The first request in an empty queue plugs
//!             it. The plug ends when the number of waiting requests reaches its threshold, when
//!             its delay has passed, or when a call waits for a page. Then the driver takes
//!             requests in the elevator's order, up to the queue depth of the device, and one more
//!             whenever one completes. Reads and writes have a fixed number of request slots each.
//!             A caller allocates a slot first and waits if there is none. The caller that takes
//!             the last slot may send 32 more requests within 20 ms, up to half as many slots
//!             again. A request that the dispatch rule executes inline goes to the device at once,
//!             with no limit on their number, unless older requests wait; those go first. If the
//!             processor moves the data, the caller moves the data of all waiting requests, in the
//!             elevator's order, and then its own. A request that bypasses the page cache is a bio
//!             of sectors. It needs no slot, because it had one when it was recorded; a read, a
//!             discard and a durable write end the plug, and a flush passes by. A discard is never
//!             split and joins no request.
//! Differs:    slots are counted per device; Linux 2.2 and 2.4 share them among all devices. A call
//!             allocates a slot page by page, before readahead begins, and posix_fadvise never
//!             waits for one. All calls that wait for a read slot are woken at once. A bio that
//!             does not fit into a request completely fills it. Requests of two files do not merge.
//! Not for:    comparisons of request allocation under hundreds of readers.
//!
//! ```text
//!   bio --merge--> elevator --dispatch list--> at the device --end_request--> free
//!     \            [ r1 ][ r2 ]                 (a slot of the table each)
//!      +--- inline ---------------------------->
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::control::Traffic;
use crate::dispatch::{Dispatch, Handling, Medium, Processor};
use crate::elevator::Elevator;
use crate::io::{Request, RequestKind};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId, FrameId, PAGE_SECTORS, RequestId};

use queue::Queue;
use table::Table;

mod bio;
mod queue;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use bio::Bio;
pub(crate) use table::Owners;

/// Parameters of a device's queue.
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
    /// Reads that may wait or be at the device at once, at least one.
    pub read_requests_max: u32,
    /// Writes that may wait or be at the device at once, at least one.
    pub write_requests_max: u32,
    /// Requests that the driver gives to the device at once, whatever was given to it inline or by
    /// a caller that moves the data itself; zero for any number.
    pub depth: u32,
    /// Properties of the device.
    pub medium: Medium,
}

/// When a plugged queue lets its requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plug {
    /// The number of requests at which the plug ends.
    pub requests: u32,
    /// So long after the first.
    pub delay: Duration,
}

impl Default for QueueConfig {
    /// Linux 2.6: a plug of 4 requests or 3 ms, 128 KiB a request, congested from 113 of 128 read
    /// requests until fewer than 103, 128 reads and 128 writes; a device without a depth limit.
    fn default() -> Self {
        Self {
            plug: Some(Plug { requests: 4, delay: Duration::from_millis(3) }),
            request_pages_max: 32,
            congestion_on: 113,
            congestion_off: 103,
            read_requests_max: 128,
            write_requests_max: 128,
            depth: 0,
            medium: Medium::default(),
        }
    }
}

/// The queues of all devices and their requests.
#[derive(Debug, Default)]
pub(crate) struct BlockQueues {
    queues: Vec<Queue>,
    table: Table,
    /// Requests that have been let go, in order.
    ready: VecDeque<Request>,
    /// The processor that inputs are handled on.
    pub(crate) processor: Processor,
    /// Reads that were made of bios.
    pub(crate) reads_opened: u64,
}

/// A request at its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) request: Request,
    /// The frame of its first page, if it is known.
    pub(crate) frame: Option<FrameId>,
    /// The calls that bypass the page cache and have a part in it.
    pub(crate) owners: Option<Owners>,
}

/// What a device and its queue have done so far, partly as `/proc/diskstats` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounters {
    pub(crate) reads: Traffic,
    pub(crate) writes: Traffic,
    /// How long at least one request was at the device.
    pub(crate) busy: Duration,
    /// Requests submitted to the device, those among them executed inline, and the sectors of all
    /// that move data.
    pub(crate) submitted: u64,
    pub(crate) inline: u64,
    pub(crate) submitted_sectors: u64,
    /// Bios that joined a request.
    pub(crate) merged: u64,
}

impl BlockQueues {
    /// Adds a device, with no elevator and deferred dispatch.
    pub(crate) fn add(&mut self, config: QueueConfig) -> DeviceId {
        let device = DeviceId(self.queues.len() as u32);
        self.queues.push(Queue::new(device, config));
        device
    }

    /// Puts an elevator and a rule of dispatch in charge of a device that has no requests.
    pub(crate) fn set_rules(
        &mut self,
        device: DeviceId,
        elevator: Box<dyn Elevator>,
        dispatch: Box<dyn Dispatch>,
    ) {
        let queue = &mut self.queues[device.index()];
        assert!(queue.waiting + queue.given == 0, "rules come before the first request");
        (queue.elevator, queue.dispatch) = (elevator, dispatch);
    }

    /// Takes a bio in, split at the request limit.
    pub(crate) fn submit_bio(&mut self, now: Instant, device: DeviceId, bio: Bio) {
        let limit = self.request_pages_max(device) * PAGE_SECTORS;
        let handling = self.handling(now, device, &bio);
        let queue = &mut self.queues[device.index()];
        let mut rest = match handling {
            Handling::Deferred => queue.merge(&mut self.table, bio),
            Handling::Inline(_) => bio,
        };
        while rest.sectors > 0 {
            let part = Bio { sectors: rest.sectors.min(limit), ..rest };
            match handling {
                Handling::Deferred => {
                    self.insert(now, device, &part);
                }
                Handling::Inline(_) => {
                    self.give_at_once(now, device, &part, handling);
                }
            }
            rest = rest.behind(part.sectors);
        }
    }

    /// Hands a request over that joins no other and is not split: metadata of a file, a flush, or a
    /// discard.
    pub(crate) fn submit_alone(&mut self, now: Instant, device: DeviceId, bio: Bio) -> RequestId {
        if bio.kind == RequestKind::Flush {
            return self.give_at_once(now, device, &bio, Handling::Deferred);
        }
        let id = self.insert(now, device, &bio);
        self.unplug(now, device);
        id
    }

    /// Lets the requests of a device go that a plug holds back.
    pub(crate) fn unplug(&mut self, now: Instant, device: DeviceId) {
        self.queues[device.index()].run(now, &mut self.table, &mut self.ready);
    }

    /// Lets the requests of all devices go that plugs hold back.
    pub(crate) fn unplug_all(&mut self, now: Instant) {
        for device in 0..self.devices() {
            self.unplug(now, DeviceId(device));
        }
    }

    /// Lets the requests go whose plug's delay has passed, or whose elevator idles no longer.
    pub(crate) fn unplug_due(&mut self, now: Instant) {
        for device in 0..self.devices() {
            if self.queues[device as usize].timeout().is_some_and(|at| at <= now) {
                self.unplug(now, DeviceId(device));
            }
        }
    }

    /// A request has completed, and the device worked on it for `took`, if that is known. Returns
    /// the request.
    pub(crate) fn end_request(
        &mut self,
        now: Instant,
        id: RequestId,
        took: Option<Duration>,
    ) -> Given {
        let held = self.table.remove(id);
        let device = held.request.device;
        if self.queues[device.index()].end(now, &held, took) {
            self.unplug(now, device);
        }
        Given { request: held.request, frame: held.frame, owners: held.owners }
    }

    /// Removes a call from those that had a part in a request; returns whether it has none left.
    pub(crate) fn pop_owner(&mut self, owners: &mut Option<Owners>) -> Option<(CallId, bool)> {
        self.table.pop_owner(owners)
    }

    /// How many calls that bypass the page cache have parts in requests.
    pub(crate) fn owning_calls(&self) -> usize {
        self.table.owning_calls()
    }

    /// The next request for a device.
    pub(crate) fn pop_ready(&mut self) -> Option<Request> {
        self.ready.pop_front()
    }

    /// The earliest timeout of a queue.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.queues.iter().map(Queue::timeout).fold(None, Instant::earlier)
    }

    /// Whether a device has a place for a read of a call.
    pub(crate) fn takes_read(&self, now: Instant, device: DeviceId, call: CallId) -> bool {
        self.queues[device.index()].takes_read(now, Some(call))
    }

    /// Whether a device has a place for another read.
    pub(crate) fn takes_reads(&self, now: Instant, device: DeviceId) -> bool {
        self.queues[device.index()].takes_read(now, None)
    }

    /// Whether a device has a place for a write.
    pub(crate) fn takes_write(&self, device: DeviceId) -> bool {
        let queue = &self.queues[device.index()];
        queue.writes < queue.config.write_requests_max
    }

    /// Whether a bio would join a request, which has room for more.
    pub(crate) fn joins(&self, device: DeviceId, bio: &Bio) -> bool {
        self.queues[device.index()].joins(&self.table, bio)
    }

    /// Writes of pages that wait or are at a device.
    pub(crate) fn data_writes(&self, device: DeviceId) -> u32 {
        self.queues[device.index()].data_writes
    }

    /// The pages of these writes.
    pub(crate) fn write_pages(&self, device: DeviceId) -> u64 {
        self.queues[device.index()].write_pages
    }

    /// The largest request of a device in pages.
    pub(crate) fn request_pages_max(&self, device: DeviceId) -> u64 {
        self.queues[device.index()].config.request_pages_max
    }

    /// What a device has done up to now.
    pub(crate) fn counters(&self, now: Instant, device: DeviceId) -> DeviceCounters {
        self.queues[device.index()].counters(now)
    }

    /// Whether a device refuses readahead for now.
    pub(crate) fn congested(&self, device: DeviceId) -> bool {
        self.queues[device.index()].congested
    }

    /// Pages of the cache in requests that wait or are at devices, of those that `counts` says.
    pub(crate) fn pages(&self, counts: impl Fn(RequestKind) -> bool) -> u64 {
        let cached = self.table.iter().filter(|held| !held.request.is_direct());
        let counted = cached.filter(|held| counts(held.request.kind));
        counted.map(|held| held.request.pages).sum()
    }

    /// How many devices there are.
    pub(crate) fn devices(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Classes of requests that are treated as slow on devices marked as fast.
    pub(crate) fn slow_classes(&self) -> u32 {
        self.queues.iter().map(|queue| queue.dispatch.slow_classes()).sum()
    }

    /// Whether no device has a request.
    pub(crate) fn devices_are_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.given == 0)
    }

    /// Whether no request waits or is at a device.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.given + queue.waiting == 0)
    }

    /// Which task runs while a bio is executed. Waiting requests go to the device before a bio that
    /// is executed inline; they are inline as well if the processor moves the data. If they cannot
    /// go, the bio waits with them.
    fn handling(&mut self, now: Instant, device: DeviceId, bio: &Bio) -> Handling {
        let queue = &mut self.queues[device.index()];
        let Some(class) = bio.class() else { return Handling::Deferred };
        let chosen = queue.dispatch.choose(now, &class, queue.config.medium, self.processor);
        if chosen == Handling::Deferred {
            return chosen;
        }
        if queue.config.medium.programmed {
            // The caller that moves the data of one request moves those of earlier ones too.
            queue.drain(now, &mut self.table, &mut self.ready, chosen);
        } else if queue.waiting > 0 {
            queue.run(now, &mut self.table, &mut self.ready);
        }
        if queue.waiting > 0 { Handling::Deferred } else { chosen }
    }

    fn insert(&mut self, now: Instant, device: DeviceId, bio: &Bio) -> RequestId {
        self.reads_opened += u64::from(bio.kind.is_read());
        let queue = &mut self.queues[device.index()];
        let id = queue.insert(now, &mut self.table, bio);
        if queue.may_run() {
            queue.run(now, &mut self.table, &mut self.ready);
        }
        id
    }

    fn give_at_once(
        &mut self,
        now: Instant,
        device: DeviceId,
        bio: &Bio,
        handling: Handling,
    ) -> RequestId {
        self.reads_opened += u64::from(bio.kind.is_read());
        let id = self.table.add(device, bio, handling);
        let queue = &mut self.queues[device.index()];
        queue.count(now, bio);
        queue.give(now, &mut self.table, id, &mut self.ready);
        id
    }
}
