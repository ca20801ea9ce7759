//! Requests in flight to devices, and which runner has the core while a device works.
//!
//! ```text
//!                     device moves the data        processor moves the data
//!   deferred          Done by an event             the driver's thread serves it
//!   inline, by task   the task keeps its core until the device is done, or the limit is over
//!   inline, no task   the flusher does the same on its own time
//! ```
//!
//! A runner that serves a request on its core polls for its end: the tasks that wait for it are
//! runnable at once, without the price of an interrupt.

use forebay_core::dispatch::Handling;
use forebay_core::engine::Engine;
use forebay_core::io::{Decode, Gather, Input, IoError, Request, RequestKind};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, PAGE_SIZE};

use super::ended::Ended;
use super::kernel::Assigned;
use super::task::Stage;
use super::{SimWorld, What};
use crate::cpu::{CoreId, Runner, Stretch};
use crate::device::{Command, Completion, Device, DeviceAccess, Outcome};

/// A device and when it was in use.
pub(super) struct Attached {
    device: Box<dyn Device>,
    pub(super) programmed: bool,
    last_given: Instant,
    busy_until: Instant,
    pub(super) busy: Duration,
}

impl Attached {
    pub(super) fn new(device: Box<dyn Device>) -> Self {
        let (programmed, zero) = (device.programmed(), Instant::ZERO);
        Self { device, programmed, last_given: zero, busy_until: zero, busy: Duration::ZERO }
    }

    /// Serves a request; says too from when on the device is busy that was not before.
    fn service(&mut self, given: Instant, access: &DeviceAccess) -> (Completion, Instant) {
        // Two cores may run up costs side by side; the device gets their requests in order.
        self.last_given = self.last_given.max(given);
        let completion = self.device.service(self.last_given, access);
        let from = completion.start.max(self.busy_until);
        self.busy += completion.done.since(from);
        self.busy_until = self.busy_until.max(completion.done);
        (completion, from)
    }
}

impl SimWorld<'_> {
    /// The engine has a request for a device.
    pub(super) fn submit(&mut self, request: &Request) {
        let read = request.kind.is_read();
        let discard = request.kind == RequestKind::Discard;
        // A direct write is prepared by its task.
        let by_task = read || discard || (request.is_direct() && request.kind.is_data_write());
        // A read that waited for its turn was paid for when it began to wait.
        let price = if by_task && !read {
            self.prices.request_submit
        } else if !read {
            self.prices.request_submit + self.prices.flush_page.times(request.pages)
        } else if self.reads_charged < self.reads_opened {
            self.reads_charged += 1;
            self.prices.request_submit
        } else {
            Duration::ZERO
        };
        let payer = request.task.map_or(Runner::Flusher, Runner::Task);
        let limit = match request.handling {
            Handling::Deferred => None,
            Handling::Inline(limit) => Some(limit),
        };
        match (self.handling, limit) {
            (Some((_, task)), Some(limit)) => {
                self.cost += price;
                self.stage(task, Stage::Serve(*request, limit));
                return;
            }
            (None, Some(limit)) => {
                let at = self.now;
                self.flusher.debt += price;
                let assigned = Assigned { at, request: *request, limit, payer };
                self.flusher.add(assigned);
                return;
            }
            (Some(_) | None, None) => {}
        }
        *(if by_task { &mut self.cost } else { &mut self.flusher.debt }) += price;
        match self.handling {
            // A request before it ends at an unknown time.
            Some((_, task)) if self.has_script(task) => self.stage(task, Stage::Submit(*request)),
            Some(_) | None => self.send(request, self.now + self.cost, payer),
        }
    }

    /// A call sleeps for a while.
    pub(super) fn pause(&mut self, task: CallId, length: Duration) {
        self.record.count_pause(task.index(), length);
        if self.handling.is_some_and(|(_, handled)| handled == task) && self.has_script(task) {
            self.stage(task, Stage::Pause(length));
        } else {
            self.push_event(self.now + self.cost + length, What::Awaken(task));
        }
    }

    /// What the engine has done so far is paid for: pages that were added.
    #[inline]
    pub(super) fn charge_pages(&mut self, engine: &Engine) {
        let (added, raw) = (engine.pages_added(), engine.raw_pages_added());
        if added > self.pages_added {
            let (all, raw_ones) = (added - self.pages_added, raw - self.raw_pages_added);
            let alloc = self.prices.page_alloc;
            self.cost += alloc.times(all);
            let folios = engine.folios_added() - self.folios_added;
            self.cost += self.prices.folio_alloc.times(folios);
            self.folios_added += folios;
            if let Some((_, task)) = self.handling {
                let layers = &mut self.tasks[task.index()].layers;
                layers.file_system += alloc.times(raw_ones);
                layers.memory += alloc.times(all - raw_ones);
                layers.memory += self.prices.folio_alloc.times(folios);
            }
            (self.pages_added, self.raw_pages_added) = (added, raw);
        }
        self.reads_opened = engine.reads_opened();
    }

    /// Charges all work of an input, including reads that wait for their turn.
    pub(super) fn charge_rest(&mut self, engine: &Engine) {
        self.charge_pages(engine);
        let scanned = engine.frames_scanned().0;
        let new = scanned - std::mem::replace(&mut self.frames_scanned.0, scanned);
        self.cost += self.prices.frame_scan.times(new);
        let waiting = self.reads_opened - self.reads_charged;
        self.cost += self.prices.request_submit.times(waiting);
        self.reads_charged = self.reads_opened;
    }

    /// The engine has handled the input of a task: its cost is charged before the task continues.
    #[inline]
    pub(super) fn settle_input(&mut self) {
        let cost = std::mem::take(&mut self.cost);
        let Some((core, task)) = self.handling.take() else { return };
        if self.has_script(task) {
            self.tasks[task.index()].script.push_back(Stage::Work(cost));
            if !self.advance_script(core, task) {
                self.cpu.occupy(core, Duration::ZERO, self.now);
            }
        } else {
            self.cpu.occupy(core, cost, self.now);
        }
    }

    /// The next stage of what a task does on its core; false if there is none.
    pub(super) fn advance_script(&mut self, core: CoreId, task: CallId) -> bool {
        while let Some(stage) = self.tasks[task.index()].script.pop_front() {
            match stage {
                Stage::Work(Duration::ZERO) => {}
                Stage::Work(work) => {
                    self.cpu.occupy(core, work, self.now);
                    return true;
                }
                Stage::Serve(request, limit) => {
                    if self.serve_inline(core, task, &request, limit) {
                        return true;
                    }
                }
                Stage::Submit(request) => self.send(&request, self.now, Runner::Task(task)),
                Stage::Decode(decode, length, result) => {
                    self.tasks[task.index()].decoded = Some((decode, result));
                    self.cpu.occupy(core, length, self.now);
                    return true;
                }
                Stage::Pause(length) => self.push_event(self.now + length, What::Awaken(task)),
            }
        }
        false
    }

    /// The next input about a request that a runner has served on its core.
    pub(super) fn hear_of(&mut self, runner: Runner) -> Option<Input> {
        let ended = match runner {
            Runner::Task(task) => self.tasks[task.index()].ended.pop_front(),
            Runner::Flusher => self.flusher.ended.take(),
            Runner::Driver(device) => self.drivers[device.index()].ended.take(),
        }?;
        self.polled = Some(runner);
        Some(self.end_request(ended))
    }

    /// A request is done.
    pub(super) fn end_request(&mut self, ended: Ended) -> Input {
        self.record.count_moved(self.now, ended.sectors, ended.written);
        let result = if ended.success { Ok(()) } else { Err(IoError::Device) };
        Input::Done(ended.id, result, Some(ended.took))
    }

    /// A runner serves a request on its core for as long as it may. If the request has not
    /// completed by then, an event completes it.
    pub(super) fn serve(
        &mut self,
        core: CoreId,
        request: &Request,
        limit: Duration,
    ) -> Option<Ended> {
        let (completion, ended) = self.service(request, self.now);
        let took = completion.done.since(self.now);
        let stays = took <= limit || self.devices[request.device.index()].programmed;
        let stretch = if stays {
            Stretch { work: completion.cpu, not_before: completion.done }
        } else {
            self.push_event(completion.done, What::Done(ended));
            Stretch { work: completion.cpu.min(limit), not_before: self.now + limit }
        };
        self.cpu.occupy_until(core, stretch, self.now);
        stays.then_some(ended)
    }

    /// Gives a request to its device, or to the thread of the device's driver.
    pub(super) fn send(&mut self, request: &Request, at: Instant, payer: Runner) {
        let device = request.device;
        if self.devices[device.index()].programmed {
            let limit = Duration(u64::MAX);
            self.drivers[device.index()].add(Assigned { at, request: *request, limit, payer });
            self.push_event(at, What::Arrive(device));
        } else {
            let (completion, ended) = self.service(request, at);
            self.push_event(completion.done, What::Done(ended));
        }
    }

    /// A task serves a request on its core, those first that the driver's thread has not begun;
    /// false if it does something else before, or had to hand the request over.
    fn serve_inline(
        &mut self,
        core: CoreId,
        task: CallId,
        request: &Request,
        limit: Duration,
    ) -> bool {
        let driver = &mut self.drivers[request.device.index()];
        if driver.is_serving() {
            self.send(request, self.now, Runner::Task(task));
            return false;
        }
        let before = driver.take_requests();
        if !before.is_empty() {
            let script = &mut self.tasks[task.index()].script;
            script.push_front(Stage::Serve(*request, limit));
            let serve = |assigned: &Assigned| Stage::Serve(assigned.request, assigned.limit);
            before.iter().rev().for_each(|assigned| script.push_front(serve(assigned)));
            return false;
        }
        let ended = self.serve(core, request, limit);
        self.tasks[task.index()].ended.extend(ended);
        true
    }

    /// A page of an image goes into a buffer.
    pub(super) fn gather(&mut self, gather: &Gather) {
        let cost = self.prices.copy(1, PAGE_SIZE);
        self.cost += cost;
        self.tasks[gather.call.index()].layers.file_system += cost;
    }

    /// A block is decoded: by a call on its core, or by a core that has nothing to do.
    pub(super) fn decode(&mut self, decode: &Decode) {
        let result = match &self.corruption {
            Some(corruption) if corruption.hits(decode) => Err(IoError::Corrupt),
            Some(_) | None => Ok(()),
        };
        if let Some(task) = decode.call {
            let layers = &mut self.tasks[task.index()].layers;
            let cold = !std::mem::replace(&mut layers.warm, true);
            let length = self.prices.decode(decode, cold);
            layers.file_system += length;
            self.stage(task, Stage::Decode(decode.id, length, result));
            return;
        }
        let core = self.idle_on.take().expect("an idle core has asked for it");
        let length = std::mem::take(&mut self.cost) + self.prices.decode(decode, true);
        self.record.idle_decoding += length;
        self.cpu.reserve(core, self.now, length);
        self.push_event(self.now + length, What::Decoded(decode.id, result.is_ok()));
    }

    fn service(&mut self, request: &Request, given: Instant) -> (Completion, Ended) {
        let (sector, sectors) = (request.sector, request.sectors);
        let command = match request.kind {
            RequestKind::Read => Command::Read,
            RequestKind::Write | RequestKind::Inode => Command::Write,
            RequestKind::DurableWrite => Command::DurableWrite,
            RequestKind::Flush => Command::Flush,
            RequestKind::Discard => Command::Discard,
        };
        let access = DeviceAccess { sector, sectors, command };
        let (completion, from) = self.devices[request.device.index()].service(given, &access);
        self.record.count_busy(from, completion.done);
        let success = completion.outcome == Outcome::Success;
        let written = !request.kind.is_read();
        let sectors = if request.kind == RequestKind::Discard { 0 } else { sectors };
        let took = completion.done.since(given);
        (completion, Ended { id: request.id, success, sectors, written, took })
    }

    /// A task does something after all that its input has cost so far.
    fn stage(&mut self, task: CallId, stage: Stage) {
        let cost = std::mem::take(&mut self.cost);
        self.tasks[task.index()].script.extend([Stage::Work(cost), stage]);
    }

    #[inline]
    fn has_script(&self, task: CallId) -> bool {
        !self.tasks[task.index()].script.is_empty()
    }
}
