//! Dirty pages on their way: what flush rule, throttle and controller see, and what they set going.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::errors::WriteErrors;
use super::{Engine, File};
use crate::block::{Bio, BlockQueues, DeviceCounters, Given};
use crate::cache::{Dirtied, PageCache};
use crate::control::{self, Controller, SAMPLE_INTERVAL, Sample, Traffic};
use crate::flush::{self, Demand, DirtyFile, DirtyPages, Flush, Sent, Written};
use crate::io::{IoError, RequestKind};
use crate::throttle::{self, DirtyView, Throttle};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId, FileId, FrameId, PageIndex, RequestId};
use crate::writeback::{Drain, Knobs, Levels};

/// Who decides about dirty pages.
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
    /// Fresh policies from what was typed.
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

/// All that the engine knows about dirty pages beside the page cache.
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
    next_sample: Option<Instant>,
    last_sample: Instant,
    samples: Vec<Sample>,
}

/// What a sender changes.
#[derive(Debug)]
struct State {
    knobs: Knobs,
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
    calls_wait: bool,
    pass_ended: bool,
    pages_walked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfDevice {
    levels: Levels,
    drain: Drain,
    sampled: DeviceCounters,
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

/// Who sends pages to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The flush rule, which makes room for calls.
    Rule,
    /// A call that waits for them.
    Call(CallId),
}

/// The dirty pages, lent to whoever sends some.
pub(super) struct Sender<'a> {
    now: Instant,
    who: Who,
    cache: &'a mut PageCache,
    block: &'a mut BlockQueues,
    files: &'a [File],
    state: &'a mut State,
}

impl Writeback {
    pub(super) fn new(total: u32, policies: Policies, now: Instant) -> Self {
        let mut writeback = Self {
            state: State {
                knobs: policies.flush.knobs(),
                background: 0,
                limit: 0,
                total: u64::from(total),
                all: Levels::default(),
                devices: Vec::new(),
                inodes: Vec::new(),
                changed: VecDeque::new(),
                memory_short: false,
                calls_wait: false,
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

    /// A flush has ended that began after so many arrivals of a file's metadata.
    pub(super) fn inode_flushed(&mut self, file: FileId, arrivals: u64) {
        let inode = &mut self.state.inodes[file.index()];
        inode.flushed = inode.flushed.max(arrivals);
    }

    /// Dirty pages of a file that has been cut are so no more.
    pub(super) fn forget_dirty(&mut self, device: DeviceId, pages: u64) {
        self.state.all.dirty -= pages;
        self.state.devices[device.index()].levels.dirty -= pages;
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

    /// When the flush rule or the controller wants to be called.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let rule = self.policies.flush.timeout();
        [rule, self.next_sample].into_iter().flatten().min()
    }
}

impl Engine {
    /// A page of a file has been written. Says whether it was clean.
    pub(super) fn mark_dirty(&mut self, file: FileId, frame: FrameId) -> bool {
        let state = &mut self.writeback.state;
        let due = self.now + state.knobs.expire;
        let moving = self.cache.is_moving(frame);
        // The metadata change with every write, also of a page that is dirty already.
        let inode = &mut state.inodes[file.index()];
        if inode.sector.is_some() && inode.changed.is_none() {
            inode.changed = Some(self.now);
            state.changed.push_back(file);
        }
        if !self.cache.mark_dirty(frame, self.now, due) {
            return false;
        }
        let device = self.files[file.index()].device;
        for levels in [&mut state.all, &mut state.devices[device.index()].levels] {
            levels.dirtied += 1;
            levels.dirty += u64::from(!moving);
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
            all: state.all,
            background: state.background,
            limit: state.limit,
            device,
            own: own.levels,
            drain: own.drain.pages_per_second(),
        };
        let pause = self.writeback.policies.throttle.on_dirtied(call, &view)?;
        // Whoever pauses waits for pages to be written.
        self.writeback.wanted = true;
        Some(pause)
    }

    /// Lets the flush rule run if anything has changed for it.
    pub(super) fn run_flush(&mut self) {
        if !core::mem::take(&mut self.writeback.wanted) {
            return;
        }
        self.writeback.state.memory_short = !self.memory_waiters.is_empty();
        self.writeback.state.calls_wait =
            !self.writeback.place_waiters.is_empty() || self.writeback.places_promised > 0;
        let (rule, mut sender) = self.rule_and_sender();
        rule.run(&mut sender);
        let stuck = sender.state.memory_short && sender.state.all.writeback == 0;
        if stuck {
            // Reclaim writes what it meets, whatever the rule thinks.
            const CLUSTER: u32 = 32;
            let mut left = CLUSTER;
            while left > 0 && sender.write_oldest() == Sent::Page {
                left -= 1;
            }
            sender.block.unplug_all(sender.now);
        }
        let nothing_left = sender.state.all.unsafe_pages() == 0;
        if core::mem::take(&mut self.writeback.state.pass_ended) || nothing_left {
            while let Some(call) = self.writeback.pass_waiters.pop() {
                self.wake(call, None);
            }
        }
        if let Some(at) = self.writeback.policies.flush.timeout() {
            assert!(at > self.now, "a rule that has run wants to run later");
        }
    }

    /// Time has passed.
    pub(super) fn writeback_timeout(&mut self) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        self.writeback.wanted |= due(self.writeback.policies.flush.timeout());
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
            RequestKind::Read => unreachable!("the caller looks at the kind"),
        }
        let waiters = &mut self.writeback.request_waiters;
        if let Some(place) = waiters.iter().position(|(id, _)| *id == request.id) {
            let (_, call) = waiters.swap_remove(place);
            self.calls[call.index()].error = result.err();
            self.wake(call, None);
        }
        let mut waiters = core::mem::take(&mut self.writeback.place_waiters);
        for call in waiters.drain(..) {
            self.calls[call.index()].promised = true;
            self.writeback.places_promised += 1;
            self.wake(call, None);
        }
        self.writeback.place_waiters = waiters;
        self.writeback.wanted = true;
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
        }
        let last = self.block.data_writes(request.device) == 0;
        own.drain.end(self.now, request.pages, last);
        self.wake_memory_waiters();
    }

    /// The dirty pages, for a call that waits for some.
    pub(super) fn sender(&mut self, call: CallId) -> Sender<'_> {
        Sender { who: Who::Call(call), ..self.rule_and_sender().1 }
    }

    /// The flush rule, and the dirty pages for it.
    fn rule_and_sender(&mut self) -> (&mut dyn Flush, Sender<'_>) {
        let sender = Sender {
            now: self.now,
            who: Who::Rule,
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
    fn set_knobs(&mut self, knobs: Knobs) {
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

impl Who {
    /// Who asks for what is sent, and whether nobody waits for it.
    fn asks(self) -> (Option<CallId>, bool) {
        match self {
            Self::Rule => (None, true),
            Self::Call(call) => (Some(call), false),
        }
    }
}

impl Sender<'_> {
    /// Sends the dirty pages of a file that follow each other from `first` on, up to `most`;
    /// returns how many.
    pub(super) fn send(
        &mut self,
        file: FileId,
        first: PageIndex,
        most: u64,
        kind: RequestKind,
    ) -> u64 {
        let pages = self.cache.dirty_run(file, first, most);
        let (mut guess, mut frame) = (None, None);
        for page in first..first + pages {
            let hit = self.cache.lookup_at(file, page, guess).expect("a dirty page is there");
            self.cache.start_writeback(hit.frame);
            guess = Some(hit.frame.next());
            frame = frame.or(Some(hit.frame));
        }
        let place = &self.files[file.index()];
        let own = &mut self.state.devices[place.device.index()];
        for levels in [&mut self.state.all, &mut own.levels] {
            levels.dirty -= pages;
            levels.writeback += pages;
        }
        own.drain.begin(self.now);
        let (task, ahead) = self.who.asks();
        let bio = Bio { frame, task, ahead, ..place.bio(kind, file, first, pages) };
        self.block.submit_bio(self.now, place.device, bio);
        pages
    }

    /// Sends a file's metadata if they have changed.
    pub(super) fn send_inode(&mut self, file: FileId) -> Option<RequestId> {
        let inode = &mut self.state.inodes[file.index()];
        inode.changed.take()?;
        inode.moving = true;
        let sector = inode.sector.expect("only a file with metadata changes them");
        self.state.changed.retain(|changed| *changed != file);
        let place = &self.files[file.index()];
        let bio = place.bio(RequestKind::Inode, file, 0, 1);
        let bio = Bio { sector, ..bio };
        Some(self.block.submit_alone(self.now, place.device, bio))
    }

    /// Has a file's device empty its cache.
    pub(super) fn send_flush(&mut self, file: FileId) -> RequestId {
        let place = &self.files[file.index()];
        let bio = place.bio(RequestKind::Flush, file, 0, 0);
        self.block.submit_alone(self.now, place.device, bio)
    }

    /// Pages that a device takes now, if it takes any.
    fn room(&self, device: DeviceId) -> Option<u64> {
        let calls_first = self.who == Who::Rule && self.state.calls_wait;
        if calls_first || !self.block.takes_write(device) {
            return None;
        }
        let request = self.block.request_pages_max(device);
        let Some(in_flight) = self.state.knobs.in_flight else { return Some(request) };
        let in_flight = in_flight.max(1);
        let left = in_flight.saturating_sub(self.block.write_pages(device));
        // Small rests are left until they have become a request worth the device's while.
        let least = (in_flight / 2).clamp(1, request);
        (left >= least).then_some(left.min(request))
    }

    /// Whether as many pages are at a device as the knobs allow.
    fn is_in_flight(&self, device: DeviceId) -> bool {
        let most = self.state.knobs.in_flight;
        most.is_some_and(|most| self.block.write_pages(device) >= most.max(1))
    }

    /// A device takes no more: nothing that it has room for is held back from it.
    fn full(&mut self, device: DeviceId) -> Sent {
        self.block.unplug(self.now, device);
        Sent::Full
    }

    fn write_one(&mut self, found: Option<Dirtied>) -> Sent {
        let Some(Dirtied { file, page, .. }) = found else { return Sent::Nothing };
        let place = &self.files[file.index()];
        let device = place.device;
        // What joins a request that is held back takes no place of its own.
        let joins = self.block.joins(device, &place.bio(RequestKind::Write, file, page, 1));
        let full = if joins { self.is_in_flight(device) } else { self.room(device).is_none() };
        if full {
            return self.full(device);
        }
        self.send(file, page, 1, RequestKind::Write);
        Sent::Page
    }
}

impl DirtyPages for Sender<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn knobs(&self) -> &Knobs {
        &self.state.knobs
    }

    fn total(&self) -> u64 {
        self.state.total
    }

    fn all(&self) -> Levels {
        self.state.all
    }

    fn device(&self, device: DeviceId) -> Levels {
        self.state.devices[device.index()].levels
    }

    fn drain(&self, device: DeviceId) -> Option<u64> {
        self.state.devices[device.index()].drain.pages_per_second()
    }

    fn memory_is_short(&self) -> bool {
        self.state.memory_short
    }

    fn file(&self, file: FileId) -> DirtyFile {
        let (dirty, since) = self.cache.file_dirty(file);
        DirtyFile { device: self.files[file.index()].device, dirty, since }
    }

    fn oldest_due(&self) -> Option<Instant> {
        self.cache.oldest_due()
    }

    fn write_oldest(&mut self) -> Sent {
        let found = self.cache.oldest_dirty();
        self.write_one(found)
    }

    fn write_due(&mut self) -> Sent {
        let found = self.cache.old_dirty(self.now);
        self.write_one(found)
    }

    fn write_file(&mut self, file: FileId, from: PageIndex, most: u64) -> Written {
        let device = self.files[file.index()].device;
        let (mut pages, mut next) = (0, from);
        let end = loop {
            if pages == most {
                break Sent::Page;
            }
            // What was dirtied again on its way waits for its arrival.
            let mut found = self.cache.next_dirty(file, next);
            while let Some((page, true)) = found {
                found = self.cache.next_dirty(file, page + 1);
            }
            let Some((page, _)) = found else { break Sent::Nothing };
            let Some(room) = self.room(device) else { break self.full(device) };
            let sent = self.send(file, page, room.min(most - pages), RequestKind::Write);
            (pages, next) = (pages + sent, page + sent);
        };
        Written { pages, next, end }
    }

    fn write_inodes(&mut self, changed: Instant) -> Sent {
        let state = &*self.state;
        let inode = |file: &FileId| &state.inodes[file.index()];
        let old = |file: &&FileId| inode(file).changed.is_some_and(|since| since <= changed);
        let mut files = state.changed.iter().filter(old);
        let Some(&file) = files.clone().find(|file| !inode(file).moving) else {
            // Metadata that changed on their way are written when they have arrived.
            return if files.next().is_some() { Sent::Full } else { Sent::Nothing };
        };
        let device = self.files[file.index()].device;
        if self.room(device).is_none() {
            return self.full(device);
        }
        self.send_inode(file);
        Sent::Page
    }

    fn count_walk(&mut self) {
        self.state.pages_walked += self.state.all.unsafe_pages();
    }

    fn end_pass(&mut self) {
        self.block.unplug_all(self.now);
        self.state.pass_ended = true;
    }
}
