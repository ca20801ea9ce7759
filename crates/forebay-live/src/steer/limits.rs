//! One dirty limit for each device, in seconds of what it was seen to write.
//!
//! Source:     The controllers of the core decide, the same that the simulator runs. That a share
//!             is stored, and what a strict limit is, is `mm/page-writeback.c` and
//!             `mm/backing-dev.c`.
//! Behaviour:  a device has a limit while other requests wait for its writeback (`waiters`), or
//!             if it can be pulled out; otherwise its writers are left alone. The limit is set when
//!             a MiB is dirty, which wakes us, because half a gigabyte gets dirty in less time than
//!             passes between two looks; where nothing can wake us it stands before. What belongs
//!             to temporary files (`temporary`), or is written where much was dropped of late, has
//!             room for five seconds of the drain first. A device that
//!             was not named and whose drain is not known gets a larger limit first, for the
//!             fraction of a second in which it is seen whether it keeps up. A limit below what is
//!             dirty would stop the writers, so that it comes down with the dirty pages, and after
//!             half a minute with what the device writes. What came in under the first limit,
//!             before the drain was known, stops them for three seconds at most. The share is
//!             computed anew when the global limit moves. The limit goes when nothing waits any
//!             more, when pages are dropped before they are written (temporary files), when the
//!             device turns out fast or writes nothing for long, or when the limit has starved it.
//! Differs:    nothing.
//! Not for:    kernels before 6.2, which have no strict limit.
//!
//! ```text
//!   bytes  0 ......... 3/4 limit ..... limit            staged:  limit --.
//!   dirty    no pause  |  pauses pace   |  stop          dirty  ----.__   `--.__  wanted
//! ```

use std::collections::BTreeMap;

use forebay_core::control::{Controller, Sample, Spec, Traffic};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;
use forebay_core::writeback::{Drain, Knobs};

use super::temporary::SparedBytes;
use super::waiters::Wait;
use super::{Change, Decision, Done, Limit};
use crate::number::DevNumber;
use crate::signal::{BdiCounts, DiskCounts, DiskTraffic};

use dropped::Dropped;
use rates::Rates;
use words::mib;

mod dropped;
mod rates;
#[cfg(test)]
mod tests;
mod words;

/// What was seen of a device.
#[derive(Clone, Debug, Default)]
pub struct Seen<'a> {
    /// The device's name, for sentences.
    pub name: &'a str,
    /// Whether it was named, so that a limit is right before its drain is known.
    pub named: bool,
    /// Whether it can be pulled out: what is dirty then is lost.
    pub removable: bool,
    /// What waits for its writeback.
    pub waits: Option<Wait>,
    /// Whether we are woken when a file on it becomes dirty, so that its limit need not stand
    /// before.
    pub wakes: bool,
    /// Its requests so far; none without a disk.
    pub disk: Option<&'a DiskCounts>,
    /// Its writeback so far; none without debugfs.
    pub bdi: Option<&'a BdiCounts>,
    /// Pages of the whole machine that are dirty or on their way.
    pub dirty: u64,
    /// The global limit in pages.
    pub threshold: u64,
    /// Pages that could be dirty.
    pub total: u64,
    /// Pauses of its writers since the last look.
    pub pauses: u64,
    /// Free bytes of the file system on it, if they were asked for.
    pub free: Option<u64>,
    /// Bytes of files that its paused writers write again and again.
    pub rewritten: u64,
    /// What temporary files on it may keep dirty.
    pub spared: SparedBytes,
}

/// Settings of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least limit in bytes.
    pub floor: u64,
    /// A device is slow if the global limit is more than this many seconds of its drain.
    pub slow_seconds: u64,
    /// How long a device that does not wake us writes nothing before its limit goes.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { floor: 16 << 20, slow_seconds: 5, idle: Duration::from_secs(600) }
    }
}

/// All devices that were seen.
#[derive(Debug)]
pub struct Limits {
    spec: Spec,
    settings: Settings,
    devices: BTreeMap<DevNumber, Device>,
}

impl Limits {
    /// No devices yet.
    pub fn new(spec: Spec, settings: Settings) -> Self {
        Self { spec, settings, devices: BTreeMap::new() }
    }

    /// A look at a device at `now`. Looks that come sooner than a controller expects are left out.
    pub fn look(&mut self, now: Instant, number: DevNumber, seen: &Seen<'_>) -> Option<Decision> {
        if seen.threshold == 0 || seen.total == 0 {
            return None;
        }
        let spec = &self.spec;
        let device =
            self.devices.entry(number).or_insert_with(|| Device::new(spec, now, number, seen));
        device.look(now, seen, &self.settings)
    }

    /// How the decision about a device went.
    pub fn done(&mut self, number: DevNumber, done: Done) {
        let Some(device) = self.devices.get_mut(&number) else { return };
        match done {
            Done::Applied => device.present = device.asked,
            // It is asked again at the next look.
            Done::Later => {}
            Done::Refused | Done::Foreign => device.stage = Stage::Left,
            Done::Gone => {
                self.devices.remove(&number);
            }
        }
    }

    /// The drain of a device in bytes a second, once it was measured.
    pub fn drain(&self, number: DevNumber) -> Option<u64> {
        let device = self.devices.get(&number)?;
        device.drain.pages_per_second().map(|pages| pages.saturating_mul(PAGE_SIZE))
    }

    /// Bytes of the limit in force.
    pub fn present(&self, number: DevNumber) -> Option<u64> {
        self.devices.get(&number)?.present.map(|limit| limit.bytes)
    }

    /// Whether the limit of a device is on its way down.
    pub fn is_on_way(&self, number: DevNumber) -> bool {
        self.devices.get(&number).is_some_and(|device| device.descent.is_some())
    }

    /// Whether a device is to be looked at soon: it is being tried with its first limit, or its
    /// writers are held, perhaps for nothing.
    pub fn is_probing(&self) -> bool {
        let mut devices = self.devices.values();
        let holds = |device: &Device| device.last.pauses > 0 && !device.dropped.is_calm();
        devices.any(|it| it.present.is_some() && (it.probe.last.is_some() || holds(it)))
    }

    /// Whether much of what became dirty on a device was dropped of late.
    pub fn drops(&self, number: DevNumber) -> bool {
        self.devices.get(&number).is_some_and(|device| device.dropped.is_much())
    }

    /// Whether a device is known to need no limit, so that its bursts need not wake us.
    pub fn keeps_up(&self, number: DevNumber, threshold: u64, settings: &Settings) -> bool {
        let Some(device) = self.devices.get(&number) else { return false };
        let slow = |drain: u64| threshold > drain.saturating_mul(settings.slow_seconds);
        match device.drain.pages_per_second() {
            Some(drain) => !slow(drain),
            None => device.probe.passed.is_some(),
        }
    }

    /// Whether a device has no limit and may still get one.
    pub fn awaits_burst(&self, number: DevNumber) -> bool {
        self.devices.get(&number).is_none_or(|device| device.stage == Stage::Watched)
    }

    /// Devices that are no longer there.
    pub fn keep(&mut self, there: impl Fn(DevNumber) -> bool) {
        self.devices.retain(|number, _| there(*number));
    }
}

#[derive(Debug)]
struct Device {
    number: DevNumber,
    controller: Box<dyn Controller>,
    knobs: Knobs,
    drain: Drain,
    last: Last,
    stage: Stage,
    present: Option<Limit>,
    asked: Option<Limit>,
    /// When it last wrote.
    wrote: Instant,
    /// The limit grows by this factor, because a smaller one starved the device.
    relief: u64,
    starved: u32,
    /// Looks in which a limit on its way down did not come down.
    stuck: u32,
    /// Since when a limit is on its way down, and the bytes that it had when its time was over.
    descent: Option<(Instant, Option<u64>)>,
    dropped: Dropped,
    rates: Rates,
    probe: Probe,
    /// Whether no more was dirty when the limit began than temporary files may have.
    begins_low: bool,
}

/// Whether a device that is not known keeps up with its writers.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// When its limit was set.
    since: Instant,
    /// When it was last looked at, and the bytes that had become dirty by then; none if it is not
    /// being tried.
    last: Option<(Instant, u64)>,
    /// Looks in a row in which it kept up.
    looks: u32,
    /// When it was found to keep up.
    passed: Option<Instant>,
}

/// Whether a device is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No reason for a limit so far.
    Watched,
    /// It has a limit, or shall have one.
    Limited,
    /// Never again.
    Left,
}

/// The counters of the last look.
#[derive(Debug)]
struct Last {
    at: Instant,
    disk: Option<Disk>,
    bdi: Option<BdiCounts>,
    pauses: u64,
}

/// What a disk had done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    busy_ms: u64,
    reads: DiskTraffic,
    writes: DiskTraffic,
}

impl Disk {
    fn of(counts: &DiskCounts) -> Self {
        Self { busy_ms: counts.busy_ms, reads: counts.reads, writes: counts.writes }
    }
}

impl Device {
    fn new(spec: &Spec, now: Instant, number: DevNumber, seen: &Seen<'_>) -> Self {
        let mut controller = spec.build();
        let knobs = controller.begin(Knobs::LINUX, seen.total);
        Self {
            number,
            controller,
            knobs,
            drain: Drain::default(),
            last: Last { at: Instant::ZERO, disk: None, bdi: None, pauses: 0 },
            stage: Stage::Watched,
            present: None,
            asked: None,
            wrote: now,
            relief: 1,
            starved: 0,
            stuck: 0,
            descent: None,
            dropped: Dropped::new(now),
            rates: Rates::default(),
            probe: Probe::default(),
            begins_low: false,
        }
    }

    fn look(&mut self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> Option<Decision> {
        let first = self.last.disk.is_none() && self.last.bdi.is_none();
        if self.stage == Stage::Left {
            return None;
        }
        if let Some(bdi) = seen.bdi {
            self.dropped.count(now, bdi, seen.free);
            self.rates.count(now, bdi.dirtied, self.present.is_some());
        }
        if self.present.is_some() && self.dropped.is_much() {
            // The next file of a temporary kind is written in less than a look.
            let why = self.is_over(now, seen, settings)?;
            return self.release(why);
        }
        if self.keeps_up(now, seen) {
            return self.release(format!("{} keeps up with its writers", seen.name));
        }
        if !first && now.since(self.last.at) < LOOK_MIN {
            // Too soon for a sample, but not for a burst that has just begun.
            let begins = self.stage == Stage::Watched && seen.wakes;
            if !(begins && self.is_due(now, seen, settings)) {
                return None;
            }
            self.wrote = now;
            return self.begin(now, seen, settings);
        }
        if !first {
            let sample = self.sample(now, seen);
            self.knobs = self.controller.observe(&[sample], self.knobs);
            self.judge(&sample, seen);
        }
        let (disk, bdi) = (seen.disk.map(Disk::of), seen.bdi.copied());
        self.last = Last { at: now, disk, bdi, pauses: seen.pauses };
        if self.stage == Stage::Watched {
            if !self.is_due(now, seen, settings) {
                return None;
            }
            return self.begin(now, seen, settings);
        }
        if let Some(why) = self.is_over(now, seen, settings) {
            return self.release(why);
        }
        self.limit(now, seen, settings)
    }

    /// The first limit.
    fn begin(&mut self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> Option<Decision> {
        self.stage = Stage::Limited;
        self.begins_low = self.dirty(seen) <= self.room();
        // What was dropped before has had its room.
        self.dropped.begin_anew();
        let is_known = seen.named || seen.removable || self.drain.pages_per_second().is_some();
        let last = seen.bdi.filter(|_| !is_known).map(|bdi| (now, bdi.dirtied));
        self.probe = Probe { since: now, last, looks: 0, ..self.probe };
        self.limit(now, seen, settings)
    }

    /// One second as the controller wants it.
    fn sample(&mut self, now: Instant, seen: &Seen<'_>) -> Sample {
        let elapsed = now.since(self.last.at);
        let (new, old) = match (seen.disk, self.last.disk) {
            (Some(new), Some(old)) => (Disk::of(new), old),
            (Some(_) | None, None) | (None, Some(_)) => (Disk::default(), Disk::default()),
        };
        let busy = Duration::from_millis(new.busy_ms.saturating_sub(old.busy_ms));
        let [reads, writes] = [(new.reads, old.reads), (new.writes, old.writes)].map(grown);
        let written = self.written(seen).unwrap_or(writes.sectors * SECTOR);
        if written > 0 {
            self.wrote = now;
        }
        if self.is_backlogged(seen, elapsed, busy, written) {
            self.drain.begin(self.last.at);
            self.drain.end(now, written / PAGE_SIZE, true);
        }
        Sample {
            elapsed,
            busy: busy.min(elapsed),
            reads,
            writes,
            drain: self.drain.pages_per_second(),
            dirty: self.dirty(seen) / PAGE_SIZE,
            total: seen.total,
        }
    }

    /// Unwritten bytes. Where they are not known by device they are at most what all devices have,
    /// and no more than the kernel lets them be under the limit in force.
    fn dirty(&self, seen: &Seen<'_>) -> u64 {
        seen.bdi.map_or_else(
            || {
                let most = self.present.map_or(u64::MAX, |limit| limit.bytes / 8 * 7);
                seen.dirty.saturating_mul(PAGE_SIZE).min(most)
            },
            unwritten,
        )
    }

    /// Bytes written since the last look, by the kernel's own count for the device.
    fn written(&self, seen: &Seen<'_>) -> Option<u64> {
        Some(seen.bdi?.written.saturating_sub(self.last.bdi?.written))
    }

    /// Whether the device had writes to do all the time, so that what it wrote is its drain. A
    /// device whose requests are held back above it is never busy; that pages were on their way at
    /// both ends says the same.
    fn is_backlogged(
        &self,
        seen: &Seen<'_>,
        elapsed: Duration,
        busy: Duration,
        written: u64,
    ) -> bool {
        if written < DRAIN_MIN {
            return false;
        }
        let is_busy = busy.as_nanos() / 4 * 5 >= elapsed.as_nanos();
        match (seen.bdi, self.last.bdi) {
            (Some(new), Some(old)) => {
                let under_way = new.writeback.min(old.writeback);
                let waits = unwritten(&old).min(unwritten(new)) >= written / 2;
                under_way > 0 && (is_busy || (under_way >= written / UNDER_WAY && waits))
            }
            // Writers that pause at both ends do so because there is more than enough to write.
            (Some(_) | None, None) | (None, Some(_)) => {
                is_busy || (seen.pauses > 0 && self.last.pauses > 0)
            }
        }
    }

    /// Whether a device that was not named, and has its first limit, writes faster than its
    /// writers do: twice in a row it is below the level at which the kernel paces them, although
    /// pages became dirty. While other devices write, that level is far below our limit: the
    /// kernel shares the machine's own limit out by what each device has written of late.
    fn keeps_up(&mut self, now: Instant, seen: &Seen<'_>) -> bool {
        let (Some(present), Some(bdi)) = (self.present, seen.bdi) else { return false };
        if self.drain.pages_per_second().is_some() || now.since(self.probe.since) >= PROBE_MAX {
            self.probe.last = None;
        }
        let Some(last) = &mut self.probe.last else { return false };
        if now.since(last.0) < PROBE_LOOK {
            return false;
        }
        let grew = bdi.dirtied.saturating_sub(last.1) >= BURST_MIN;
        *last = (now, bdi.dirtied);
        // A larger limit was set to what was dirty, which is no sign of the writers' pace.
        let level = present.bytes.min(PROBE_LIMIT).min(bdi.threshold);
        let is_below = unwritten(bdi) / 3 * 4 < level;
        self.probe.looks = if grew && is_below { self.probe.looks + 1 } else { 0 };
        if self.probe.looks < PROBE_LOOKS {
            return false;
        }
        self.probe = Probe { passed: Some(now), ..Probe::default() };
        true
    }

    /// Whether the limit has left the device without work while writers were paused.
    fn judge(&mut self, sample: &Sample, seen: &Seen<'_>) {
        let Some(bdi) = seen.bdi else { return };
        let idle = sample.busy.as_nanos() * 2 < sample.elapsed.as_nanos();
        let starved = self.present.is_some() && seen.pauses > 0 && bdi.writeback == 0 && idle;
        self.starved = if starved { self.starved + 1 } else { 0 };
        if self.starved >= STARVED_LOOKS {
            self.starved = 0;
            self.relief *= 2;
        }
    }

    /// The limit by the controller, in bytes.
    fn wanted(&self, seen: &Seen<'_>, settings: &Settings) -> u64 {
        let pages = self.knobs.limit.pages(seen.total);
        let is_known = seen.named || seen.removable || self.drain.pages_per_second().is_some();
        let floor = if is_known { settings.floor } else { settings.floor.max(PROBE_LIMIT) };
        let limit = pages.saturating_mul(PAGE_SIZE).max(floor).saturating_mul(self.relief);
        limit.saturating_add(self.for_rewritten(seen))
    }

    /// Room for what is written again and again, where all of it is dirty at most: writing it each
    /// time would be for nothing. Writeback begins at half of a limit, pauses at three quarters.
    fn for_rewritten(&self, seen: &Seen<'_>) -> u64 {
        let Some(drain) = self.drain.pages_per_second() else { return 0 };
        let most = drain.saturating_mul(PAGE_SIZE).saturating_mul(REWRITTEN_SECONDS);
        let room = seen.rewritten.saturating_mul(2);
        if seen.rewritten <= most { room } else { 0 }
    }

    /// Whether a device without a limit shall have one.
    fn is_due(&self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> bool {
        let waits = seen.removable || seen.waits.is_some();
        if !waits || self.is_idle(now, seen, settings) {
            return false;
        }
        let dirty = self.dirty(seen);
        let is_spared = is_temporary(dirty, seen.spared) || self.dropped.is_much();
        if (seen.wakes && dirty < BURST_MIN) || (is_spared && dirty < self.room()) {
            return false;
        }
        let is_slow = match self.drain.pages_per_second() {
            Some(drain) => seen.threshold > drain.saturating_mul(settings.slow_seconds),
            None if seen.named || seen.removable => true,
            // Without its counters it could not be told whether it keeps up.
            None => {
                let passed = self.probe.passed;
                seen.bdi.is_some() && passed.is_none_or(|at| now.since(at) >= settings.idle)
            }
        };
        is_slow && self.wanted(seen, settings) < seen.threshold.saturating_mul(PAGE_SIZE)
    }

    /// Bytes that may be dirty as long as they belong to files that are likely to be removed before
    /// they are written. If they are not removed, the next request waits for that much.
    fn room(&self) -> u64 {
        let drain = self.drain.pages_per_second().map(|pages| pages.saturating_mul(PAGE_SIZE));
        drain.map_or(ROOM, |drain| drain.saturating_mul(ROOM_SECONDS).max(ROOM_MIN))
    }

    /// Whether a device has been idle for so long that a limit is not worth standing: one whose
    /// next burst wakes us is as safe without.
    fn is_idle(&self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> bool {
        let idle = now.since(self.wrote);
        if seen.wakes {
            self.present.is_some() && self.dirty(seen) < BURST_MIN && idle >= REST
        } else {
            !seen.removable && idle >= settings.idle
        }
    }

    /// Why a limit goes.
    fn is_over(&self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> Option<String> {
        let name = seen.name;
        if self.relief > RELIEF_MAX {
            return Some(format!("{name} had nothing to write while its writers were paused"));
        }
        if self.wanted(seen, settings) >= seen.threshold.saturating_mul(PAGE_SIZE) {
            return Some(format!("the machine's own limit is below what {name} needs"));
        }
        if let Some(drain) = self.drain.pages_per_second()
            && seen.threshold.saturating_mul(5) < drain.saturating_mul(settings.slow_seconds * 4)
        {
            let rate = mib(drain.saturating_mul(PAGE_SIZE));
            return Some(format!("{name} is fast: it writes {rate} MiB/s"));
        }
        if self.dropped.is_much() {
            return Some(format!(
                "of {} MiB that became dirty on {name} {} were removed before they were written",
                self.dropped.dirtied() >> 20,
                self.dropped.dropped() >> 20
            ));
        }
        if !seen.removable && seen.waits.is_none() {
            return Some(format!("nothing waits for what {name} writes"));
        }
        let idle = now.since(self.wrote);
        self.is_idle(now, seen, settings).then(|| format!("{name} wrote nothing for {idle}"))
    }

    fn release(&mut self, reason: String) -> Option<Decision> {
        let failed = self.relief > RELIEF_MAX;
        self.stage = if failed { Stage::Left } else { Stage::Watched };
        (self.asked, self.descent, self.probe.last) = (None, None, None);
        self.present.take()?;
        let reason = match self.rates.take() {
            Some(told) => format!("{reason}; {told}"),
            None => reason,
        };
        let change = Change::Release { device: self.number };
        let expected = "its writers are held by the machine's own limits alone".to_owned();
        Some(Decision { change, expected, reason })
    }

    /// The limit as it shall be now, if it is another than that in force.
    fn limit(&mut self, now: Instant, seen: &Seen<'_>, settings: &Settings) -> Option<Decision> {
        let wanted = self.wanted(seen, settings);
        let bytes = self.staged(now, wanted, seen);
        let share = u128::from(bytes / PAGE_SIZE) * 1_000_000;
        let ppm = share.div_ceil(u128::from(seen.threshold)).clamp(1, 1_000_000) as u64;
        let limit = Limit { bytes, ppm };
        if self.present.is_some_and(|present| !moves(present.ppm, ppm)) {
            return None;
        }
        let (expected, reason) = self.words(seen, bytes, wanted);
        self.asked = Some(limit);
        Some(Decision { change: Change::Limit { device: self.number, limit }, expected, reason })
    }

    /// The limit on its way to `wanted`: at once if what is dirty came in under the first
    /// limit and is soon written; otherwise for half a minute never so far below what is dirty that
    /// writers stop, and then down by what the device writes, even if a writer keeps the level up.
    fn staged(&mut self, now: Instant, wanted: u64, seen: &Seen<'_>) -> u64 {
        let dirty = self.dirty(seen);
        let top = self.present.map_or(seen.threshold.saturating_mul(PAGE_SIZE), |now| now.bytes);
        // Pauses begin at three quarters of a limit.
        let gentle = dirty / 3 * 4;
        let drain = self.drain.pages_per_second().map(|pages| pages.saturating_mul(PAGE_SIZE));
        let stop = drain.map(|drain| drain.saturating_mul(STOP_SECONDS));
        let short = |stop| self.begins_low && dirty.saturating_sub(wanted) <= stop;
        let is_short = stop.is_some_and(short);
        if wanted >= top || gentle <= wanted || is_short {
            (self.stuck, self.descent) = (0, None);
            return wanted;
        }
        let stage = self.gentle(gentle, wanted, top, dirty);
        let (since, from) = self.descent.get_or_insert((now, None));
        let late = now.since(*since);
        if late < DESCENT {
            return stage;
        }
        let from = *from.get_or_insert(top);
        let millis = (late.as_nanos() - DESCENT.as_nanos()) / 1_000_000;
        let a_second = drain.unwrap_or(from / 60);
        stage.min(from.saturating_sub(a_second.saturating_mul(millis) / 1_000)).max(wanted)
    }

    /// The next stage with regard for writers.
    fn gentle(&mut self, gentle: u64, wanted: u64, top: u64, dirty: u64) -> u64 {
        if gentle < top {
            self.stuck = 0;
            return gentle.max(wanted);
        }
        // Writers keep the level up: the limit comes down on them slowly enough to let them go on.
        self.stuck += 1;
        if self.stuck > STUCK_LOOKS { (dirty + dirty / 14).max(wanted).min(top) } else { top }
    }
}

/// Whether what is dirty belongs to temporary files, but for some metadata.
fn is_temporary(dirty: u64, spared: SparedBytes) -> bool {
    let others = dirty.saturating_sub(spared.bytes);
    spared.vanished || (spared.bytes > 0 && others < OTHERS_MAX)
}

fn unwritten(bdi: &BdiCounts) -> u64 {
    bdi.reclaimable.saturating_add(bdi.writeback)
}

fn grown((new, old): (DiskTraffic, DiskTraffic)) -> Traffic {
    Traffic {
        requests: new.requests.saturating_sub(old.requests),
        sectors: new.sectors.saturating_sub(old.sectors),
        time: Duration::from_millis(new.time_ms.saturating_sub(old.time_ms)),
    }
}

/// Whether a share is off by more than a twentieth.
fn moves(present: u64, wanted: u64) -> bool {
    present.abs_diff(wanted).saturating_mul(20) > present
}

/// Controllers expect a sample a second; a little less than that is a second too.
const LOOK_MIN: Duration = Duration::from_millis(900);

/// Fewer bytes in a sample say nothing of a drain.
const DRAIN_MIN: u64 = 1 << 20;

/// Where a device is not busy by its own count, because its requests are held back above it, at
/// least this part of what it writes in a look is under way at both of its ends.
const UNDER_WAY: u64 = 8;

/// The first limit of a device that was not named: two seconds of a slow one, and enough for a fast
/// one to show that it keeps up.
const PROBE_LIMIT: u64 = 64 << 20;

/// What temporary files may keep dirty on a device whose drain is not known, in seconds of the
/// drain once it is known, and at least.
const ROOM: u64 = 128 << 20;
const ROOM_SECONDS: u64 = 5;
const ROOM_MIN: u64 = 64 << 20;

/// Blocks of metadata and small files that become dirty beside temporary ones.
const OTHERS_MAX: u64 = 4 << 20;

/// Looks that show it, and the time between two of them.
const PROBE_LOOKS: u32 = 2;
const PROBE_LOOK: Duration = Duration::from_millis(200);

/// After this time it is looked at as any other.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// Files that are rewritten are few if the device writes all of them in so many seconds.
const REWRITTEN_SECONDS: u64 = 10;

/// Less than this that is dirty is no burst: the times of files, a log's line.
pub const BURST_MIN: u64 = 1 << 20;

/// A device whose next burst wakes us keeps its limit for so long after its last write.
const REST: Duration = Duration::from_secs(30);

/// Looks in a row that prove a device starved.
const STARVED_LOOKS: u32 = 3;

/// A limit that starves a device even at four times its size goes.
const RELIEF_MAX: u64 = 4;

/// A limit comes down with regard for writers for so long.
const DESCENT: Duration = Duration::from_secs(30);

/// Writers that have filled a first limit may stop for so long, once.
const STOP_SECONDS: u64 = 3;

/// Looks for which a limit waits for the dirty level to fall by itself.
const STUCK_LOOKS: u32 = 3;

const SECTOR: u64 = 512;
