//! Writeback: the views of flush rule, throttle and controller, and the writes that they start.
//!
//! ```text
//!   a written page -> mark_dirty -> ask_flush, ask_throttle     of the policies
//!   run_flush      -> the rule   -> Sender -> block queues      (sender.rs)
//!   end_write_request            -> levels, drain, waiters, errors
//!   each second    -> sample     -> the controller -> knobs
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Engine;
use super::errors::WriteErrors;
use crate::block::{DeviceCounters, Given};
use crate::bugs::Bug;
use crate::control::{self, Controller, SAMPLE_INTERVAL, Sample, Traffic};
use crate::flush::{self, Demand, DirtyPages, Flush, Sent};
use crate::io::{IoError, RequestKind};
use crate::throttle::{self, DirtyView, Throttle};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId, FileId, FrameId, RequestId};
use crate::writeback::{Drain, Knobs, Levels};

use sender::{SendOrigin, Sender};

mod sender;

/// The policies that decide about dirty pages.
#[derive(Debug)]
pub struct Policies {
    /// When and how much is written.
    pub flush: Box<dyn Flush>,
    /// How the flush rule's knobs follow the load.
    pub controller: Box<dyn Controller>,
    /// How long writers wait.
    pub throttle: Box<dyn Throttle>,
}

impl Policies {
    /// Builds new policies from their specifications.
    pub fn build(
        flush: &flush::Spec,
        controller: &control::Spec,
        throttle: &throttle::Spec,
    ) -> Self {
        Self { flush: flush.build(), controller: controller.build(), throttle: throttle.build() }
    }
}

impl Default for Policies {
    /// Writeback as Linux 6 has it, with writers that never pause.
    fn default() -> Self {
        let none = "the table has it";
        Self::build(
            &flush::Spec::parse("linux-6").expect(none),
            &control::Spec::parse("fixed").expect(none),
            &throttle::Spec::parse("off").expect(none),
        )
    }
}

/// The engine's state of dirty pages, besides the page cache.
#[derive(Debug)]
pub(super) struct Writeback {
    policies: Policies,
    state: State,
    /// The flush rule shall run before the input has been handled.
    pub(super) wanted: bool,
    pub(super) pass_waiters: Vec<CallId>,
    pub(super) place_waiters: Vec<CallId>,
    /// Calls that were woken because there is a place, and have not resumed.
    pub(super) places_promised: u32,
    pub(super) request_waiters: Vec<(RequestId, CallId)>,
    errors: Vec<WriteErrors>,
    /// Pages that had been written when a pass last woke the callers without memory.
    written_at_wake: u64,
    /// How far the flush rule has got ahead since reclaim began to wait for a device: in pages, or
    /// in turns. Reclaim goes first until this is 0.
    rule_leads_by: u64,
    next_sample: Option<Instant>,
    last_sample: Instant,
    samples: Vec<Sample>,
}

/// What a sender changes.
#[derive(Debug)]
struct State {
    knobs: Knobs,
    /// How often they have been set.
    knobs_set: u64,
    /// The levels of the knobs in pages.
    background: u64,
    limit: u64,
    total: u64,
    all: Levels,
    devices: Vec<OfDevice>,
    inodes: Vec<Inode>,
    /// Files whose metadata have changed, the first to change first.
    changed: VecDeque<FileId>,
    memory_short: bool,
    pass_ended: bool,
    pages_walked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfDevice {
    levels: Levels,
    drain: Drain,
    sampled: DeviceCounters,
    /// Calls wait for a place for a write, and come before the flush rule.
    calls_wait: bool,
    /// It takes no writes for now: its pages slow no writer of another device down.
    is_stalled: bool,
}

/// A file's metadata.
#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    /// Where they lie, if the file has any.
    sector: Option<u64>,
    changed: Option<Instant>,
    moving: bool,
    /// How often they have arrived at the device, and how many of these times a flush has covered.
    arrived: u64,
    flushed: u64,
}

impl Writeback {
    pub(super) fn new(total: u32, policies: Policies, now: Instant) -> Self {
        let mut writeback = Self {
            state: State {
                knobs: policies.flush.knobs(),
                knobs_set: 0,
                background: 0,
                limit: 0,
                total: u64::from(total),
                all: Levels::default(),
                devices: Vec::new(),
                inodes: Vec::new(),
                changed: VecDeque::new(),
                memory_short: false,
                pass_ended: false,
                pages_walked: 0,
            },
            policies,
            wanted: false,
            pass_waiters: Vec::new(),
            place_waiters: Vec::new(),
            places_promised: 0,
            request_waiters: Vec::new(),
            errors: Vec::new(),
            written_at_wake: 0,
            rule_leads_by: 0,
            next_sample: None,
            last_sample: now,
            samples: Vec::new(),
        };
        writeback.begin(now);
        writeback
    }

    /// Puts other policies in charge.
    pub(super) fn set_policies(&mut self, policies: Policies, now: Instant) {
        self.policies = policies;
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        let knobs = self.policies.controller.begin(self.policies.flush.knobs(), self.state.total);
        self.state.set_knobs(knobs);
        self.last_sample = now;
        let observes = self.policies.controller.observes();
        self.next_sample = observes.then_some(now + SAMPLE_INTERVAL);
    }

    pub(super) fn add_device(&mut self) {
        self.state.devices.push(OfDevice::default());
    }

    pub(super) fn add_file(&mut self) {
        self.errors.push(WriteErrors::default());
        self.state.inodes.push(Inode::default());
    }

    pub(super) fn set_inode(&mut self, file: FileId, sector: u64) {
        self.state.inodes[file.index()].sector = Some(sector);
    }

    pub(super) fn errors(&mut self, file: FileId) -> &mut WriteErrors {
        &mut self.errors[file.index()]
    }

    pub(super) fn error_count(&self, file: FileId) -> u64 {
        self.errors[file.index()].count()
    }

    pub(super) fn inode_is_moving(&self, file: FileId) -> bool {
        self.state.inodes[file.index()].moving
    }

    /// How often a file's metadata have arrived at the device.
    pub(super) fn inode_arrivals(&self, file: FileId) -> u64 {
        self.state.inodes[file.index()].arrived
    }

    /// Whether a file's metadata may lie in the device's cache.
    pub(super) fn inode_is_cached(&self, file: FileId) -> bool {
        let inode = &self.state.inodes[file.index()];
        inode.arrived > inode.flushed
    }

    /// A flush has completed that began after `arrivals` completed writes of a file's metadata.
    pub(super) fn inode_flushed(&mut self, file: FileId, arrivals: u64) {
        let inode = &mut self.state.inodes[file.index()];
        inode.flushed = inode.flushed.max(arrivals);
    }

    /// Dirty pages of a file that has been cut are so no more.
    pub(super) fn forget_dirty(&mut self, device: DeviceId, pages: u64) {
        self.state.all.dirty -= pages;
        self.state.devices[device.index()].levels.dirty -= pages;
    }

    pub(super) fn set_stalled(&mut self, device: DeviceId, is_stalled: bool) {
        self.state.devices[device.index()].is_stalled = is_stalled;
    }

    pub(super) fn levels(&self) -> Levels {
        self.state.all
    }

    pub(super) fn device_levels(&self, device: DeviceId) -> Levels {
        self.state.devices[device.index()].levels
    }

    pub(super) fn drain(&self, device: DeviceId) -> Option<u64> {
        self.state.devices[device.index()].drain.pages_per_second()
    }

    pub(super) fn pages_walked(&self) -> u64 {
        self.state.pages_walked
    }

    pub(super) fn knobs(&self) -> &Knobs {
        &self.state.knobs
    }

    pub(super) fn knobs_set(&self) -> u64 {
        self.state.knobs_set
    }

    /// The timeout of the flush rule or the controller.
    pub(super) fn timeout(&self) -> Option<Instant> {
        Instant::earlier(self.policies.flush.timeout(), self.next_sample)
    }
}

impl Engine {
    /// A page of a file has been written, which `allocated` it or not. Returns whether it was
    /// clean.
    pub(super) fn mark_dirty(&mut self, file: FileId, frame: FrameId, allocated: bool) -> bool {
        let state = &mut self.writeback.state;
        let expire = state.knobs.expire;
        let new = state.knobs.expire_new.filter(|_| allocated).unwrap_or(expire);
        let due = self.now + expire.min(new);
        let moving = self.cache.is_moving(frame);
        // The metadata change with every write, also of a page that is dirty already.
        let inode = &mut state.inodes[file.index()];
        if inode.sector.is_some() && inode.changed.is_none() {
            inode.changed = Some(self.now);
            state.changed.push_back(file);
            self.unchanged = false;
        }
        let is_forgotten = self.bugs.is(Bug::WriteIsNotMarked) && frame.0.is_multiple_of(4);
        if is_forgotten || !self.cache.mark_dirty(frame, self.now, due) {
            return false;
        }
        self.unchanged = false;
        let device = self.files[file.index()].device;
        for levels in [&mut state.all, &mut state.devices[device.index()].levels] {
            levels.dirtied += 1;
            levels.dirty += u64::from(!moving);
            levels.redirtied += u64::from(moving);
        }
        self.stats.unsafe_pages_max = self.stats.unsafe_pages_max.max(state.all.unsafe_pages());
        true
    }

    /// Shows a page that became dirty to the flush rule.
    pub(super) fn ask_flush(&mut self, file: FileId) -> Demand {
        let (rule, sender) = self.rule_and_sender();
        let demand = rule.on_dirtied(file, &sender);
        self.writeback.wanted |= demand != Demand::Nothing;
        demand
    }

    /// Asks how long a writer pauses.
    pub(super) fn ask_throttle(
        &mut self,
        call: CallId,
        file: FileId,
        newly: bool,
        again: bool,
    ) -> Option<Duration> {
        let device = self.files[file.index()].device;
        let state = &self.writeback.state;
        let own = &state.devices[device.index()];
        let view = DirtyView {
            now: self.now,
            newly,
            again,
            all: state.levels_but_stalled(device),
            background: state.background,
            limit: state.limit,
            device,
            own: own.levels,
            drain: own.drain.pages_per_second(),
        };
        let pause = self.writeback.policies.throttle.on_dirtied(call, &view)?;
        // A writer that pauses waits for pages to be written.
        self.writeback.wanted = true;
        Some(pause)
    }

    /// Lets the flush rule run if anything has changed for it.
    pub(super) fn run_flush(&mut self) {
        let woke = self.cache.take_reclaim_woke();
        if !core::mem::take(&mut self.writeback.wanted) && !woke {
            return;
        }
        self.writeback.state.memory_short = !self.memory_waiters.is_empty();
        self.note_place_waiters();
        let (lead, evicted) = (self.writeback.rule_leads_by, self.cache.counters.evicted);
        let in_flight = self.writeback.state.all.writeback;
        let (rule, mut sender) = self.rule_and_sender();
        let before = (lead > 0).then(|| sender.reclaim());
        let sent = sender.state.all.writeback;
        rule.run(&mut sender);
        let lead = lead + (sender.state.all.writeback - sent);
        let (pages, waits) = before.unwrap_or_else(|| sender.reclaim());
        let lead = match (waits, sender.cache.requests_by_work()) {
            (false, _) => 0,
            (true, true) => lead.saturating_sub(pages),
            (true, false) => u64::from(before.is_none()),
        };
        let moving = sender.state.devices.iter().filter(|device| !device.is_stalled);
        let moving = moving.map(|device| device.levels.writeback).sum::<u64>();
        let stuck = sender.state.memory_short && moving == 0;
        if stuck {
            // Reclaim writes the pages that it meets, whatever the rule decides.
            const CLUSTER: u32 = 32;
            let mut left = CLUSTER;
            while left > 0 && sender.write_oldest() == Sent::Page {
                left -= 1;
            }
            sender.block.unplug_all(sender.now);
        }
        let nothing_left = sender.state.all.unsafe_pages() == 0;
        self.writeback.rule_leads_by = lead;
        if self.cache.counters.evicted > evicted {
            self.wake_memory_waiters();
        }
        if core::mem::take(&mut self.writeback.state.pass_ended) || nothing_left {
            // A caller without memory finds some only if a pass sent pages or some have arrived.
            let Levels { writeback, written, .. } = self.writeback.state.all;
            let arrived = written > self.writeback.written_at_wake;
            if self.cache.waits_for_pass() && (writeback > in_flight || arrived) {
                self.writeback.written_at_wake = written;
                self.wake_memory_waiters();
            }
            while let Some(call) = self.writeback.pass_waiters.pop() {
                self.wake(call, None);
            }
        }
        if let Some(at) = self.writeback.policies.flush.timeout() {
            assert!(at > self.now, "a rule that has run wants to run later");
        }
    }

    /// Notes at which devices calls wait for a place for a write.
    fn note_place_waiters(&mut self) {
        let promised = self.writeback.places_promised > 0;
        for device in &mut self.writeback.state.devices {
            device.calls_wait = promised;
        }
        for call in &self.writeback.place_waiters {
            let device = self.calls[call.index()].handle().map(|handle| {
                let file = self.opened(handle).file;
                self.files[file.index()].device
            });
            if let Some(device) = device {
                self.writeback.state.devices[device.index()].calls_wait = true;
            }
        }
    }

    /// Time has passed.
    pub(super) fn writeback_timeout(&mut self) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        self.writeback.wanted |= due(self.writeback.policies.flush.timeout());
        self.writeback.wanted |= due(self.cache.reclaim_timeout());
        if due(self.writeback.next_sample) {
            self.sample();
        }
    }

    /// A write of pages, metadata or a device's cache is done.
    pub(super) fn end_write_request(&mut self, given: &Given, result: Result<(), IoError>) {
        let request = &given.request;
        match request.kind {
            RequestKind::Write | RequestKind::DurableWrite => self.end_pages(given, result),
            RequestKind::Inode => {
                let inode = &mut self.writeback.state.inodes[request.file.index()];
                inode.moving = false;
                inode.arrived += 1;
                if result.is_err() {
                    self.writeback.errors(request.file).set();
                }
            }
            RequestKind::Flush => {}
            RequestKind::Read | RequestKind::Discard => {
                unreachable!("the caller looks at the kind")
            }
        }
        let waiters = &mut self.writeback.request_waiters;
        if let Some(place) = waiters.iter().position(|(id, _)| *id == request.id) {
            let (_, call) = waiters.swap_remove(place);
            self.calls[call.index()].error = result.err();
            self.wake(call, None);
        }
        self.wake_place_waiters();
        self.writeback.wanted = true;
    }

    /// A device has a place for a write: all that wait for one look again.
    pub(super) fn wake_place_waiters(&mut self) {
        let mut waiters = core::mem::take(&mut self.writeback.place_waiters);
        for call in waiters.drain(..) {
            self.calls[call.index()].promised = true;
            self.writeback.places_promised += 1;
            self.wake(call, None);
        }
        self.writeback.place_waiters = waiters;
    }

    fn end_pages(&mut self, given: &Given, result: Result<(), IoError>) {
        let request = &given.request;
        let mut guess = given.frame;
        let mut again = 0;
        for page in request.first..request.first + request.pages {
            let hit = self.cache.lookup_at(request.file, page, guess);
            let frame = hit.expect("a page stays while it is on its way").frame;
            guess = Some(frame.next());
            let waiter = self.cache.take_waiters(frame);
            again += u64::from(self.cache.end_writeback(frame));
            self.wake_page_waiters(waiter, frame, (true, None));
        }
        if result.is_err() {
            self.writeback.errors(request.file).set();
            self.stats.pages_lost += request.pages;
        } else {
            self.stats.pages_cleaned += request.pages;
        }
        let state = &mut self.writeback.state;
        let own = &mut state.devices[request.device.index()];
        for levels in [&mut state.all, &mut own.levels] {
            levels.writeback -= request.pages;
            levels.written += request.pages;
            levels.dirty += again;
            levels.redirtied -= again;
        }
        let last = self.block.data_writes(request.device) == 0;
        own.drain.end(self.now, request.pages, last);
        // With a reserve, pages of a device that accepts no writes may stay under writeback for
        // long.
        let at_once = self.reserve > 0 || !self.cache.waits_for_pass();
        if at_once || self.writeback.state.all.writeback == 0 {
            self.wake_memory_waiters();
        }
    }

    /// The dirty pages, for a call that waits for some.
    pub(super) fn sender(&mut self, call: CallId) -> Sender<'_> {
        Sender { origin: SendOrigin::Call(call), ..self.rule_and_sender().1 }
    }

    /// The flush rule, and the dirty pages for it.
    fn rule_and_sender(&mut self) -> (&mut dyn Flush, Sender<'_>) {
        let sender = Sender {
            now: self.now,
            origin: SendOrigin::Rule,
            cache: &mut self.cache,
            block: &mut self.block,
            files: &self.files,
            state: &mut self.writeback.state,
        };
        (&mut *self.writeback.policies.flush, sender)
    }

    /// Shows the controller what each device has done since the last time.
    fn sample(&mut self) {
        let writeback = &mut self.writeback;
        let elapsed = self.now.since(writeback.last_sample);
        let (dirty, total) = (writeback.state.all.unsafe_pages(), writeback.state.total);
        writeback.samples.clear();
        for (number, own) in writeback.state.devices.iter_mut().enumerate() {
            let counters = self.block.counters(self.now, DeviceId(number as u32));
            let before = core::mem::replace(&mut own.sampled, counters);
            writeback.samples.push(Sample {
                elapsed,
                busy: counters.busy - before.busy,
                reads: difference(counters.reads, before.reads),
                writes: difference(counters.writes, before.writes),
                drain: own.drain.pages_per_second(),
                dirty,
                total,
            });
        }
        let knobs =
            writeback.policies.controller.observe(&writeback.samples, writeback.state.knobs);
        writeback.wanted |= knobs != writeback.state.knobs;
        writeback.state.set_knobs(knobs);
        writeback.last_sample = self.now;
        writeback.next_sample = Some(self.now + SAMPLE_INTERVAL);
    }
}

impl State {
    /// The levels of all devices, without others than `own` that take no writes for now.
    fn levels_but_stalled(&self, own: DeviceId) -> Levels {
        let mut all = self.all;
        for (number, device) in self.devices.iter().enumerate() {
            if device.is_stalled && number != own.index() {
                all.dirty -= device.levels.dirty;
                all.writeback -= device.levels.writeback;
                all.redirtied -= device.levels.redirtied;
            }
        }
        all
    }

    fn set_knobs(&mut self, knobs: Knobs) {
        self.knobs_set += 1;
        self.knobs = knobs;
        self.background = knobs.background.pages(self.total);
        self.limit = knobs.limit.pages(self.total);
    }
}

fn difference(now: Traffic, before: Traffic) -> Traffic {
    Traffic {
        requests: now.requests - before.requests,
        sectors: now.sectors - before.sectors,
        time: now.time - before.time,
    }
}
