//! The daemon: look, decide, write, prove, put back.
//!
//! Source:     Forebay.
//! Behaviour:  one look a second, four while something is being decided. A look costs a sample of
//!             counters and the events since the last one; processes are read only if they caused
//!             events. All decisions come from [`crate::steer`], all writes go through
//!             [`Steering`]. Every action is one sentence.
//! Differs:    nothing.
//! Not for:    two at once: the journal's lock keeps the second one out.
//!
//! ```text
//!           +----------------------------- wait <-------------------------+
//!           v                                                             |
//!   sample, events --> who asks what --> windows --> limits --> foreign writes, exits
//!                                           |          |
//!                                           +----------+--> Steering, one sentence each
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use forebay_core::control;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;
use rustix::io::Errno;

use crate::knob::{
    Brief, Change as KnobChange, Event as KnobEvent, Knob, Refused, Steering, Value, WindowOf,
};
use crate::machine::{Device, Kind, Machine};
use crate::number::DevNumber;
use crate::pattern::{Pattern, Patterns};
use crate::policy_file::PolicyFile;
use crate::scope::{Scope, Slot};
use crate::signal::{BdiCounts, Sample};
use crate::steer::file::{Held, Unreachable};
use crate::steer::files::{Around, Files, Seen};
use crate::steer::limits::{self, Limits};
use crate::steer::users::{Asked, Users};
use crate::steer::{Change, Decision, Done, Limit, User};
use crate::trace::What;
use crate::tree::Tree;

pub use debugfs::sees_writeback;
pub use notify::Notify;
pub use world::{Live, Woken, World};

mod debugfs;
mod notify;
mod world;

/// A running daemon.
pub struct Daemon<'a> {
    scope: Scope,
    policy: PolicyFile,
    tree: Tree,
    /// None for a dry run.
    steering: Option<Steering>,
    say: &'a mut dyn FnMut(&str),
    machine: Machine,
    sample: Sample,
    last: Sample,
    patterns: Patterns,
    users: Users,
    files: Files,
    limits: Limits,
    /// Pauses of writers since the last look.
    pauses: BTreeMap<DevNumber, u64>,
    /// Sizes of files that were looked up.
    sizes: BTreeMap<User, Option<u64>>,
    /// Whether processes may be steered.
    allowed: BTreeMap<u32, bool>,
    /// What is said once.
    said: BTreeSet<String>,
    /// Whether something was mounted since the machine was read.
    is_stale: bool,
    /// Until when bursts do not wake us.
    rest: Instant,
    /// When the machine was last read because a device was not known.
    read: Instant,
}

impl<'a> Daemon<'a> {
    /// A daemon that has not looked yet; without `steering` it says what it would do.
    pub fn new(
        scope: Scope,
        policy: PolicyFile,
        tree: Tree,
        steering: Option<Steering>,
        say: &'a mut dyn FnMut(&str),
    ) -> Result<Self, forebay_core::policy::SpecError> {
        let controller = control::Spec::parse(&policy.controller)?;
        let files = Files::new(policy.bounds);
        let limits = Limits::new(controller, policy.limits);
        Ok(Self {
            scope,
            policy,
            tree,
            steering,
            say,
            machine: Machine::default(),
            sample: Sample::default(),
            last: Sample::default(),
            patterns: Patterns::default(),
            users: Users::new(),
            files,
            limits,
            pauses: BTreeMap::new(),
            sizes: BTreeMap::new(),
            allowed: BTreeMap::new(),
            said: BTreeSet::new(),
            is_stale: false,
            rest: Instant::ZERO,
            read: Instant::ZERO,
        })
    }

    /// Looks and steers until it is told to stop or `length` is over, then puts everything back.
    /// True if all of it is as it was.
    pub fn run(
        &mut self,
        world: &mut impl World,
        notify: &Notify,
        length: Option<Duration>,
    ) -> bool {
        let begun = world.now();
        self.machine = world.machine();
        let mut alive = begun;
        let rest = self.look(world);
        let mut due = world.now() + rest;
        // Whoever waits for this may begin to write at once, and the first limits stand.
        notify.ready(&format!("steering {}", self.scope));
        loop {
            let now = world.now();
            if let Some(every) = notify.alive
                && now.since(alive) >= every
            {
                notify.is_alive();
                alive = now;
            }
            let left = length.map(|length| length - now.since(begun));
            if left == Some(Duration::ZERO) {
                break;
            }
            if now >= due {
                // From its end on: looks that take longer than the interval still leave a wait
                // between them, which is where we are told to stop.
                let rest = self.look(world);
                due = world.now() + rest;
                continue;
            }
            let wakes = self.awaits_burst();
            let rest = (wakes && now < self.rest).then(|| self.rest.since(now));
            let others = [left, notify.alive, rest].into_iter().flatten();
            match world.wait(others.fold(due.since(now), Duration::min), wakes && rest.is_none()) {
                Woken::Time => {}
                Woken::Mounts => self.is_stale = true,
                Woken::Dirty => self.look_at_burst(world),
                Woken::Stop => break,
            }
        }
        notify.stopping();
        self.finish("forebay tune ends")
    }

    /// One look; the time until the next one.
    pub fn look(&mut self, world: &mut impl World) -> Duration {
        if std::mem::take(&mut self.is_stale) {
            self.read_machine(world);
        }
        let now = world.now();
        std::mem::swap(&mut self.sample, &mut self.last);
        self.sample.bdis.clear();
        let limited: Vec<DevNumber> = if self.has(Slot::Writeback) {
            let devices = self.machine.devices.iter().filter(|device| self.may_limit(device));
            devices.map(|device| device.number).collect()
        } else {
            Vec::new()
        };
        if let Err(error) = world.sample(&limited, &mut self.sample) {
            self.say_once(format!("nothing is decided while the counters cannot be read: {error}"));
            return self.policy.interval;
        }
        self.forget(world, now);
        let asked = self.listen(world, now);
        if self.has(Slot::Readahead) {
            self.look_at_files(world, now, asked);
        }
        if self.has(Slot::Writeback) {
            self.look_at_devices(world, now);
        }
        self.pauses.clear();
        self.watch_foreign();
        let soon = self.files.followed(now).next().is_some();
        if soon { LOOK_SOON.min(self.policy.interval) } else { self.policy.interval }
    }

    /// Puts everything back; true if all of it is as it was.
    pub fn finish(&mut self, why: &str) -> bool {
        let Some(steering) = &mut self.steering else { return true };
        let events = steering.finish(why);
        let mut whole = true;
        for event in events {
            whole &= !event.is_failure();
            (self.say)(&event.to_string());
        }
        whole
    }

    fn has(&self, slot: Slot) -> bool {
        // Limits are computed in pages of 4 KiB.
        let fits = slot != Slot::Writeback || self.machine.page_size == PAGE_SIZE;
        fits && self.scope.has(slot) && self.policy.has(slot)
    }

    fn say_once(&mut self, what: String) {
        if self.said.len() < SAID_MAX && !self.said.contains(&what) {
            (self.say)(&what);
            self.said.insert(what);
        }
    }

    fn read_machine(&mut self, world: &mut impl World) {
        self.machine = world.machine();
        let machine = &self.machine;
        self.limits.keep(|number| machine.device_of(number).is_some());
    }

    /// Takes in what happened, and sums it up for each user in scope.
    fn listen(&mut self, world: &mut impl World, now: Instant) -> Vec<Asked> {
        let (patterns, pauses) = (&mut self.patterns, &mut self.pauses);
        let drained = world.drain(&mut |event| match &event.what {
            What::Readahead(_) => patterns.record(&event),
            What::Pause(pause) => *pauses.entry(pause.bdi).or_default() += 1,
            What::Bandwidth { .. } => {}
        });
        if let Err(error) = drained {
            self.say_once(format!("files are not seen while the trace cannot be read: {error}"));
            return Vec::new();
        }
        let mut all = Vec::new();
        for seen in self.patterns.settle(now) {
            all.extend(self.users.record(now, seen, |thread| world.process(thread)));
        }
        all.retain(|asked| asked.user.process != std::process::id());
        all
    }

    /// Processes that have ended take their windows with them.
    fn forget(&mut self, world: &mut impl World, now: Instant) {
        self.files.forget_idle(now);
        for process in self.files.processes() {
            if world.is_there(process) {
                continue;
            }
            self.files.exited(process);
            self.users.exited(process);
            self.sizes.retain(|user, _| user.process != process);
            self.allowed.remove(&process);
            if let Some(steering) = &mut self.steering {
                steering.forget_files(|file| file.pid == process);
            }
        }
    }

    fn look_at_files(&mut self, world: &mut impl World, now: Instant, asked: Vec<Asked>) {
        let followed: Vec<User> = self.files.followed(now).map(|(user, _)| user).collect();
        let seen: BTreeSet<User> = asked.iter().map(|asked| asked.user).collect();
        let quiet = followed.into_iter().filter(|user| !seen.contains(user)).map(|user| Asked {
            user,
            pattern: Pattern::Unclear,
            windows: 0,
            window: 0,
        });
        for asked in asked.into_iter().chain(quiet) {
            self.look_at_file(world, now, &asked);
        }
    }

    fn look_at_file(&mut self, world: &mut impl World, now: Instant, asked: &Asked) {
        let user = asked.user;
        let Some(device) = self.device_of(world, now, user.file.dev) else { return };
        let (number, cuts) = (device.number, device.number.is_anonymous());
        let default = device.bdi.as_ref().map(|bdi| bdi.read_ahead_kb);
        if !self.scope.has_device(number) || !self.is_allowed(user.process) {
            return;
        }
        if asked.pattern == Pattern::RandomFaults && !self.sizes.contains_key(&user) {
            let held = world.held(&user);
            let size = held.as_ref().ok().and_then(|held| held.size);
            if self.sizes.len() >= SIZES_MAX {
                self.sizes.clear();
            }
            self.sizes.insert(user, size);
        }
        // Another user's window by our doing is not this one's.
        let of_event = (asked.window > 0).then_some(asked.window);
        let window = if self.files.is_shared(&user) { default } else { of_event };
        let seen = Seen {
            user,
            device: number,
            cuts,
            pattern: asked.pattern,
            windows: asked.windows,
            window,
            size: self.sizes.get(&user).copied().flatten(),
            progress: world.progress(user.process),
        };
        let around = self.around(number);
        if let Some(decision) = self.files.look(now, &seen, &around) {
            let done = self.perform(world, &decision);
            self.files.done(user, done);
        }
    }

    fn is_allowed(&mut self, process: u32) -> bool {
        let (scope, tree) = (&self.scope, &self.tree);
        if self.allowed.len() >= SIZES_MAX {
            self.allowed.clear();
        }
        *self.allowed.entry(process).or_insert_with(|| scope.has_process(process, tree))
    }

    /// The device of a file's file system; the machine is read again if it is not known, but not
    /// at every look.
    fn device_of(
        &mut self,
        world: &mut impl World,
        now: Instant,
        dev: DevNumber,
    ) -> Option<Device> {
        if self.machine.device_of(dev).is_none() && now.since(self.read) >= READ_MIN {
            self.read = now;
            self.read_machine(world);
        }
        self.machine.device_of(dev).cloned()
    }

    fn around(&self, number: DevNumber) -> Around {
        let read = |sample: &Sample| {
            let disk = sample.disks.iter().find(|disk| disk.number == number)?;
            Some(disk.reads.sectors.saturating_mul(512))
        };
        let bytes = read(&self.sample).zip(read(&self.last)).map_or(0, |(new, old)| {
            let millis = (self.sample.at.since(self.last.at).as_nanos() / 1_000_000).max(1);
            new.saturating_sub(old).saturating_mul(1_000) / millis
        });
        Around {
            bandwidth: bytes,
            available: self.sample.available,
            thrashes: self.sample.vm.refaults > self.last.vm.refaults,
        }
    }

    fn look_at_devices(&mut self, world: &mut impl World, now: Instant) {
        let wakes = world.wakes();
        let devices: Vec<Device> =
            self.machine.devices.iter().filter(|d| self.may_limit(d)).cloned().collect();
        for device in devices {
            let number = device.number;
            let vm = &self.sample.vm;
            let seen = limits::Seen {
                name: &device.name,
                eager: self.is_eager(&device),
                wakes,
                disk: self.sample.disks.iter().find(|disk| disk.number == number),
                bdi: self.sample.bdis.iter().find(|bdi| bdi.number == number),
                dirty: vm.dirty + vm.writeback,
                threshold: vm.dirty_threshold,
                total: self.sample.available / PAGE_SIZE,
                pauses: self.pauses.get(&number).copied().unwrap_or(0),
            };
            if let Some(decision) = self.limits.look(now, number, &seen) {
                let done = self.perform(world, &decision);
                self.limits.done(number, done);
            }
        }
    }

    /// Somebody has begun to write: looks for some milliseconds whether it becomes a burst.
    fn look_at_burst(&mut self, world: &mut impl World) {
        let awaited = self.machine.devices.iter().filter(|device| self.may_burst(device));
        let devices: Vec<DevNumber> = awaited.map(|device| device.number).collect();
        for _ in 0..BURST_LOOKS {
            let counts: Vec<_> = devices.iter().filter_map(|number| world.bdi(*number)).collect();
            let is_burst = |bdi: &BdiCounts| bdi.reclaimable + bdi.writeback >= limits::BURST_MIN;
            if counts.iter().any(is_burst) {
                self.sample.bdis.retain(|bdi| !devices.contains(&bdi.number));
                self.sample.bdis.extend(counts);
                let now = world.now();
                self.look_at_devices(world, now);
                break;
            }
            world.pause(BURST_LOOK);
        }
        self.rest = world.now() + BURST_REST;
    }

    /// Whether a burst would be news: some device has no limit that would have one early.
    fn awaits_burst(&self) -> bool {
        let mut devices = self.machine.devices.iter();
        self.has(Slot::Writeback) && devices.any(|device| self.may_burst(device))
    }

    fn may_burst(&self, device: &Device) -> bool {
        let awaited = self.limits.awaits_burst(device.number);
        awaited && self.is_eager(device) && self.may_limit(device)
    }

    /// Whether a device has a limit before it is known to be slow.
    fn is_eager(&self, device: &Device) -> bool {
        self.scope.names_device(device.number) || device.removable || device.kind == Kind::Mmc
    }

    /// Whether a device is in scope and its kernel can hold its writers to a limit of its own.
    fn may_limit(&self, device: &Device) -> bool {
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

    fn perform(&mut self, world: &mut impl World, decision: &Decision) -> Done {
        match &decision.change {
            Change::Window { user, device, to, .. } => {
                self.set_window(world, decision, user, *device, *to)
            }
            Change::Limit { device, limit } => self.set_limit(decision, *device, *limit),
            Change::Release { device } => self.release(decision, *device),
        }
    }

    fn set_window(
        &mut self,
        world: &mut impl World,
        decision: &Decision,
        user: &User,
        device: DevNumber,
        to: u64,
    ) -> Done {
        let held = match world.held(user) {
            Ok(held) => held,
            Err(error) => {
                let gone = matches!(error, Unreachable::Exited(_) | Unreachable::None(_));
                if !gone {
                    self.say_once(format!("{error}"));
                }
                return if gone {
                    Done::Gone
                } else {
                    self.set_default(decision, device, to, &error)
                };
            }
        };
        if !self.scope.has_process(user.process, &self.tree) {
            return self.leave(user.process, &held);
        }
        let Decision { expected, reason, .. } = decision;
        let name = self.name(device);
        let what = format!(
            "window of {user} on {name} to {to} KiB, because {reason}; expected: \
                            {expected}"
        );
        let Some(steering) = &mut self.steering else {
            (self.say)(&format!("would set the {what}"));
            return Done::Refused;
        };
        let before_kb = self.files.own_window(user).unwrap_or(to);
        let files: Vec<WindowOf> =
            held.descriptors.iter().map(|file| WindowOf { file: *file, before_kb }).collect();
        let brief = Brief { bdi: device, kb: to, why: reason.clone() };
        let told = match steering.set_windows(&brief, &files) {
            Ok(told) => told,
            Err(refused) => return self.refused(&refused),
        };
        if told.iter().any(Result::is_ok) {
            (self.say)(&format!("set the {what}"));
            return Done::Applied;
        }
        let mut done = Done::Gone;
        for error in told.into_iter().filter_map(Result::err).filter(|error| !error.is_gone()) {
            self.say_once(format!("the window of {user} was not set: {error}"));
            done = Done::Refused;
        }
        done
    }

    /// A process that has left the scope, or whose number is another's now, has its own windows.
    fn leave(&mut self, process: u32, held: &Held) -> Done {
        self.allowed.insert(process, false);
        let Some(steering) = &mut self.steering else { return Done::Refused };
        for event in held.descriptors.iter().filter_map(|file| steering.restore_file(file)) {
            (self.say)(&event.to_string());
        }
        Done::Refused
    }

    /// What is opened next gets the window, where the policy file allows it.
    fn set_default(
        &mut self,
        decision: &Decision,
        device: DevNumber,
        to: u64,
        error: &Unreachable,
    ) -> Done {
        // Whoever opens a file next gets it, so that processes must not have been singled out.
        let found = self.machine.device_of(device);
        let may = found.is_some_and(|device| self.scope.has_limit_of(device));
        if !self.policy.device_default || !may || !matches!(error, Unreachable::Closed(_)) {
            return Done::Refused;
        }
        let name = self.name(device);
        let reason = &decision.reason;
        let what = format!("window of what is opened next on {name} to {to} KiB, because {reason}");
        let Some(steering) = &mut self.steering else {
            self.say_once(format!("would set the {what}"));
            return Done::Refused;
        };
        let knob = Knob::ReadAheadKb(device);
        let change = KnobChange { knob, to: Value::Number(to), why: reason.clone() };
        match steering.set(&change, self.sample.at) {
            Ok(_) => {
                (self.say)(&format!("set the {what}"));
                Done::Refused
            }
            Err(refused) => self.refused(&refused),
        }
    }

    fn set_limit(&mut self, decision: &Decision, device: DevNumber, limit: Limit) -> Done {
        let Decision { expected, reason, .. } = decision;
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
            (self.say)(&format!("would set the {what}"));
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
        (self.say)(&format!("set the {what}"));
        Done::Applied
    }

    fn release(&mut self, decision: &Decision, device: DevNumber) -> Done {
        let name = self.name(device);
        let what = format!("the dirty limit of {name}, because {}", decision.reason);
        let Some(steering) = &mut self.steering else {
            (self.say)(&format!("would take back {what}"));
            return Done::Refused;
        };
        let both = [Knob::MaxRatioFine(device), Knob::StrictLimit(device)];
        let restore = |knob| steering.restore(knob, &decision.reason);
        let events = both.into_iter().filter_map(restore);
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

    fn refused(&mut self, refused: &Refused) -> Done {
        match refused {
            Refused::TooSoon(_) => return Done::Later,
            Refused::Foreign(event) => {
                self.let_go(event);
                return Done::Foreign;
            }
            Refused::Released(_) => return Done::Foreign,
            Refused::Kernel { source, .. } if is_gone(source) => {
                self.is_stale = true;
                return Done::Gone;
            }
            Refused::Kernel { .. }
            | Refused::Unfit { .. }
            | Refused::NotAsked(_)
            | Refused::Coarse(_)
            | Refused::Journal { .. }
            | Refused::Other { .. } => {}
        }
        self.say_once(format!("nothing was changed: {refused}"));
        // A full disk may have room again; all else stays as it is.
        if matches!(refused, Refused::Journal { .. }) { Done::Later } else { Done::Refused }
    }

    /// Knobs that somebody else has written are left alone, and with them what belongs to them.
    fn watch_foreign(&mut self) {
        let Some(steering) = &mut self.steering else { return };
        for event in steering.watch_foreign() {
            self.let_go(&event);
        }
    }

    fn let_go(&mut self, event: &KnobEvent) {
        (self.say)(&event.to_string());
        let (of, done, why) = match event {
            KnobEvent::Foreign { of, .. } => {
                let why = "the other half of its dirty limit was written by somebody else";
                (of, Done::Foreign, why)
            }
            // What is there now is another device or medium, of which nothing is known yet.
            KnobEvent::Gone { of }
            | KnobEvent::Restored { of, .. }
            | KnobEvent::AsBefore { of, .. } => {
                self.is_stale = true;
                (of, Done::Gone, "the other half of its dirty limit went with its device")
            }
            KnobEvent::Set { .. }
            | KnobEvent::Reasserted { .. }
            | KnobEvent::Failed { .. }
            | KnobEvent::FileSet { .. }
            | KnobEvent::FileRestored { .. }
            | KnobEvent::FileGone { .. }
            | KnobEvent::FileFailed { .. } => return,
        };
        let Some(device) = of.knob.device() else { return };
        let both = [Knob::MaxRatioFine(device), Knob::StrictLimit(device)];
        if !both.contains(&of.knob) {
            return;
        }
        self.limits.done(device, done);
        let Some(steering) = &mut self.steering else { return };
        for event in both.into_iter().filter_map(|knob| steering.restore(knob, why)) {
            (self.say)(&event.to_string());
        }
    }

    fn name(&self, number: DevNumber) -> String {
        let device = self.machine.device_of(number);
        device.map_or_else(|| number.to_string(), |device| device.name.clone())
    }
}

/// Whether an error says that a device or its knobs are no longer there.
fn is_gone(error: &io::Error) -> bool {
    let errors = [Errno::NOENT, Errno::NODEV, Errno::NXIO];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// The time between two looks while something is being decided.
pub const LOOK_SOON: Duration = Duration::from_millis(250);

/// How often it is looked whether a burst comes of what has become dirty, and how soon again: a
/// writer makes a MiB dirty in less than a millisecond.
const BURST_LOOKS: u32 = 16;
const BURST_LOOK: Duration = Duration::from_millis(1);

/// After these looks nobody wakes us for so long: small files that are written one after another
/// shall not keep us awake.
const BURST_REST: Duration = Duration::from_millis(100);

/// The machine is read again for an unknown device at most this often.
const READ_MIN: Duration = Duration::from_secs(5);

/// Files whose size, and processes whose right is remembered.
const SIZES_MAX: usize = 1_024;

/// Different sentences that are said once.
const SAID_MAX: usize = 512;
