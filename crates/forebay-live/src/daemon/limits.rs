//! Dirty limits of devices: what they write is looked at, and what was decided is carried out.
//!
//! A look each second is late for a burst: half a gigabyte is dirty in less. So the kernel wakes us
//! when a process begins to write to a device that has a limit early, and it is looked at for some
//! milliseconds.

use std::collections::BTreeSet;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;

use super::{Daemon, World};
use crate::knob::{Change as KnobChange, Event as KnobEvent, Knob, Value};
use crate::machine::{Device, Kind};
use crate::number::DevNumber;
use crate::scope::Slot;
use crate::signal::{BdiCounts, DiskCounts, Sample};
use crate::steer::limits;
use crate::steer::waiters::ReadTime;
use crate::steer::{Decision, Done, Limit};

/// Writeback of a device as it was last read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writeback {
    counts: BdiCounts,
    /// Pages that had become dirty on the whole machine by then.
    dirtied: u64,
    /// Looks since then.
    looks: u32,
}

impl Daemon<'_> {
    /// Writeback of the devices that may have a limit; whether one of them did something. Of a
    /// device that wrote nothing, while hardly a page became dirty anywhere, it is as it was.
    pub(super) fn read_writeback(&mut self, world: &mut impl World) -> bool {
        self.sample.bdis.clear();
        let mut stirs = false;
        for place in 0..self.machine.devices.len() {
            let device = &self.machine.devices[place];
            if !self.may_limit(device) {
                continue;
            }
            let number = device.number;
            let wrote = self.has_written(number);
            stirs |= wrote;
            let dirtied = self.sample.vm.dirtied;
            let known = self.writeback.get_mut(&number).filter(|known| {
                let news = dirtied.saturating_sub(known.dirtied) >= limits::BURST_MIN / PAGE_SIZE;
                let is_known = !wrote && !news && known.looks < KNOWN_LOOKS;
                is_known && self.temporaries.is_empty(number)
            });
            if let Some(known) = known {
                known.looks += 1;
                self.sample.bdis.push(known.counts);
            } else if let Some(counts) = world.bdi(number) {
                self.writeback.insert(number, Writeback { counts, dirtied, looks: 0 });
                self.sample.bdis.push(counts);
            }
        }
        stirs
    }

    /// Whether a device may have written something since the last look.
    fn has_written(&self, number: DevNumber) -> bool {
        let of = |sample: &Sample| sample.disks.iter().position(|disk| disk.number == number);
        if self.pauses.contains_key(&number) {
            return true;
        }
        match (of(&self.sample), of(&self.last)) {
            (Some(new), Some(old)) => {
                let (new, old) = (&self.sample.disks[new], &self.last.disks[old]);
                new.writes != old.writes || new.in_flight > 0
            }
            // What has no disk is not counted by itself.
            (None, None) => self.sample.vm.written != self.last.vm.written,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Whether a process could write for long without waking us.
    pub(super) fn may_miss_writers(&self, world: &impl World) -> bool {
        let wakes = world.wakes();
        let mut devices = self.machine.devices.iter();
        let missed = |device: &Device| {
            self.may_limit(device) && !(wakes && self.watched.contains(&device.number))
        };
        self.has(Slot::Writeback) && devices.any(missed)
    }

    pub(super) fn look_at_devices(&mut self, world: &mut impl World, now: Instant, is_look: bool) {
        let wakes = world.wakes();
        self.spares = false;
        for place in 0..self.machine.devices.len() {
            let device = &self.machine.devices[place];
            if !self.may_limit(device) {
                continue;
            }
            let number = device.number;
            let rewritten = self.rewritten(world, now, number);
            let spared = self.spared(world, now, number);
            let device = &self.machine.devices[place];
            // What writers remove while they are held may have been written for nothing.
            let mount = self.machine.mounts_on(device).next();
            let is_held = self.limits.present(number).is_some();
            let free = mount.filter(|_| is_held).and_then(|mount| world.free(&mount.point));
            let disk = self.sample.disks.iter().find(|disk| disk.number == number);
            let before = self.last.disks.iter().find(|disk| disk.number == number);
            let waiters = self.waiters.entry(number).or_default();
            waiters.record_syncs(now, self.syncs.remove(&number).unwrap_or(0));
            if let Some(reads) = disk.zip(before).filter(|_| is_look).map(reads_between) {
                waiters.record_reads(now, reads, self.policy.read_latency > 0);
            }
            let seen = limits::Seen {
                name: &device.name,
                named: self.scope.names_device(number),
                removable: is_removable(device),
                waits: waiters.waits(now),
                wakes: wakes && self.watched.contains(&number),
                disk,
                bdi: self.sample.bdis.iter().find(|bdi| bdi.number == number),
                dirty: self.sample.vm.dirty + self.sample.vm.writeback,
                threshold: self.sample.vm.dirty_threshold,
                total: self.sample.available / PAGE_SIZE,
                pauses: self.pauses.get(&number).copied().unwrap_or(0),
                free,
                rewritten,
                spared,
            };
            let is_spared = seen.waits.is_some() && (spared.vanished || spared.bytes > 0);
            if let Some(decision) = self.limits.look(now, number, &seen) {
                let done = self.perform(world, &decision);
                self.limits.done(number, done);
            }
            self.spares |= is_spared && self.limits.awaits_burst(number);
        }
    }

    /// Bytes of the files that paused writers of a device write again and again.
    fn rewritten(&mut self, world: &mut impl World, now: Instant, number: DevNumber) -> u64 {
        let threads = self.paused.remove(&number).unwrap_or_default();
        let processes: BTreeSet<u32> =
            threads.into_iter().filter_map(|thread| world.process(thread)).collect();
        let machine = &self.machine;
        let is_on = |dev| machine.device_of(dev).is_some_and(|device| device.number == number);
        for process in processes {
            if let Some(written) = world.written(process, &is_on) {
                self.writers.entry(number).or_default().record(now, process, written);
            }
        }
        self.writers.get_mut(&number).map_or(0, |writers| writers.rewritten(now))
    }

    /// A process has begun to write: looks for some milliseconds whether it becomes a burst.
    pub(super) fn look_at_burst(&mut self, world: &mut impl World) {
        self.drain(world);
        let awaited = self.machine.devices.iter().filter(|device| self.may_burst(device));
        let devices: Vec<DevNumber> = awaited.map(|device| device.number).collect();
        for pause in BURST_PAUSES_MS {
            let counts: Vec<_> = devices.iter().filter_map(|number| world.bdi(*number)).collect();
            // After the level, which must not be newer than what is known of files.
            let now = world.now();
            self.note_dirtied(world, now);
            let is_burst = |bdi: &BdiCounts| bdi.reclaimable + bdi.writeback >= limits::BURST_MIN;
            if counts.iter().any(is_burst) {
                self.sample.bdis.retain(|bdi| !devices.contains(&bdi.number));
                self.sample.bdis.extend(counts);
                let now = world.now();
                self.look_at_devices(world, now, false);
                // A temporary file may still become too large.
                if !self.spares {
                    break;
                }
            }
            world.pause(Duration::from_millis(pause));
        }
        let now = world.now();
        // Where something waits, a burst within the rest would be let in.
        let is_guarded = devices.iter().any(|number| self.has_waiters(*number, now));
        self.rest = if is_guarded { now } else { now + BURST_REST };
    }

    /// Whether a burst would be news: some device has no limit that would have one early.
    pub(super) fn awaits_burst(&self) -> bool {
        let mut devices = self.machine.devices.iter();
        self.has(Slot::Writeback) && devices.any(|device| self.may_burst(device))
    }

    /// Whether something waits for what a device writes.
    pub(super) fn has_waiters(&self, number: DevNumber, now: Instant) -> bool {
        self.waiters.get(&number).is_some_and(|it| it.waits(now).is_some())
    }

    fn may_burst(&self, device: &Device) -> bool {
        let number = device.number;
        let waits = self.scope.names_device(number)
            || is_removable(device)
            || self.has_waiters(number, self.sample.at);
        let threshold = self.sample.vm.dirty_threshold;
        let keeps_up = || self.limits.keeps_up(number, threshold, &self.policy.limits);
        let awaited = self.limits.awaits_burst(number) && self.watched.contains(&number);
        waits && awaited && self.may_limit(device) && !keeps_up()
    }

    /// Whether a device is in scope and its kernel can hold its writers to a limit of its own.
    pub(super) fn may_limit(&self, device: &Device) -> bool {
        let named = self.scope.names_device(device.number);
        // Memory as a device has no drain, and file systems without a device have limits already.
        let fits = match device.kind {
            Kind::Memory | Kind::Other => false,
            Kind::Network | Kind::Fuse => named,
            // What is put into an empty device comes with a mount, and the machine is read again.
            Kind::Virtual | Kind::Nvme | Kind::Scsi | Kind::Mmc | Kind::Loop | Kind::Stacked => {
                named || device.size > 0
            }
        };
        let strict = device.bdi.as_ref().is_some_and(|bdi| bdi.strict_limit.is_some());
        fits && strict && self.scope.has_limit_of(device)
    }

    pub(super) fn set_limit(
        &mut self,
        decision: &Decision,
        device: DevNumber,
        limit: Limit,
    ) -> Done {
        let Decision { expected, reason, .. } = decision;
        let on_way = self.limits.is_on_way(device);
        let tenths = limit.bytes * 10 / (1 << 20);
        let what = format!(
            "dirty limit of {} to {}.{} MiB ({} ppm of the machine's), because {reason}; expected: \
             {expected}",
            self.name(device),
            tenths / 10,
            tenths % 10,
            limit.ppm
        );
        let Some(steering) = &mut self.steering else {
            self.would(&format!("set the {what}"));
            return Done::Refused;
        };
        let share = KnobChange {
            knob: Knob::MaxRatioFine(device),
            to: Value::Number(limit.ppm),
            why: reason.clone(),
        };
        if let Err(refused) = steering.set(&share, self.sample.at) {
            return self.refused(&refused);
        }
        let strict = Knob::StrictLimit(device);
        if !steering.state().entries.contains_key(&strict) {
            let change = KnobChange { knob: strict, to: Value::Number(1), why: reason.clone() };
            if let Err(refused) = steering.set(&change, self.sample.at) {
                steering.restore(share.knob, "its limit could not be made strict");
                return self.refused(&refused);
            }
        }
        // Each second of a long way down is no news.
        if !on_way || self.limits.present(device).is_none() {
            (self.say)(&format!("set the {what}"));
        }
        self.put_reads_first(device);
        Done::Applied
    }

    /// Has the kernel hold writeback back for reads, where the policy file asks for it and the
    /// kernel does not. A limit does its work without, so that a refusal is said and no more.
    fn put_reads_first(&mut self, device: DevNumber) {
        let (knob, us) = (Knob::WbtLatUsec(device), self.policy.read_latency);
        let found = self.machine.devices.iter().find(|found| found.number == device);
        let is_off = found.is_some_and(|found| {
            found.queue.as_ref().is_some_and(|queue| queue.wbt_lat_usec == Some(0))
        });
        let Some(steering) = &mut self.steering else { return };
        let state = steering.state();
        let is_left = state.entries.contains_key(&knob) || state.released.contains_key(&knob);
        if us == 0 || !is_off || is_left {
            return;
        }
        let change = KnobChange { knob, to: Value::Number(us), why: READS_FIRST.to_owned() };
        let name = self.name(device);
        let steering = self.steering.as_mut().expect("it was there");
        match steering.set(&change, self.sample.at) {
            Ok(_) => (self.say)(&format!(
                "set the read latency that writeback on {name} is held back for to {us} us, \
                 because {READS_FIRST}"
            )),
            Err(refused) => (self.say)(&refused.to_string()),
        }
    }

    pub(super) fn release(&mut self, decision: &Decision, device: DevNumber) -> Done {
        let name = self.name(device);
        let what = format!("the dirty limit of {name}, because {}", decision.reason);
        let Some(steering) = &mut self.steering else {
            self.would(&format!("take back {what}"));
            return Done::Refused;
        };
        let wbt = Knob::WbtLatUsec(device);
        let all = [wbt, Knob::MaxRatioFine(device), Knob::StrictLimit(device)];
        let restore = |knob| steering.restore(knob, &decision.reason);
        let events = all.into_iter().filter_map(restore);
        let is_back = |event: &KnobEvent| {
            matches!(event, KnobEvent::Restored { .. } | KnobEvent::AsBefore { .. })
        };
        let amiss: Vec<KnobEvent> = events.filter(|event| !is_back(event)).collect();
        if amiss.is_empty() {
            (self.say)(&format!("took back {what}"));
            return Done::Applied;
        }
        amiss.iter().for_each(|event| (self.say)(&event.to_string()));
        let gone = amiss.iter().all(|event| matches!(event, KnobEvent::Gone { .. }));
        if gone { Done::Gone } else { Done::Refused }
    }
}

/// Whether a device can be pulled out at any time.
fn is_removable(device: &Device) -> bool {
    device.removable || device.kind == Kind::Mmc
}

/// What reads of a disk did between two samples.
fn reads_between((new, old): (&DiskCounts, &DiskCounts)) -> ReadTime {
    let grown = |new: u64, old: u64| new.saturating_sub(old);
    ReadTime {
        requests: grown(new.reads.requests, old.reads.requests),
        time_ms: grown(new.reads.time_ms, old.reads.time_ms),
        beside_writes: new.writes.requests != old.writes.requests,
    }
}

/// Why writeback is held back: a limit bounds how much waits before a read, and not when.
const READS_FIRST: &str = "it has a limit, and reads are to come first";

/// What is known of a device's writeback is read again after so many looks: a file that is removed
/// takes dirty pages along, of which no counter tells.
const KNOWN_LOOKS: u32 = 10;

/// The times between looks whether a burst comes of what has become dirty, in ms: a writer makes a
/// MiB dirty in less than one, and one that calls fsync ten times a second begins anew each time.
const BURST_PAUSES_MS: [u64; 9] = [1, 1, 2, 4, 8, 16, 16, 16, 16];

/// After these looks no wake-up comes for so long: small files that are written one after another
/// shall not keep us awake.
const BURST_REST: Duration = Duration::from_millis(100);
