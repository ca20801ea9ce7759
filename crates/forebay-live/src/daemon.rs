//! The daemon: look, decide, write, prove, put back.
//!
//! Source:     Forebay.
//! Behaviour:  one look a second, four while something is being decided, and one in two or five
//!             seconds where nothing has happened for long and the kernel wakes us when something
//!             does. A look costs a sample of counters and the events since the last one; processes
//!             are read only if they caused events, and devices only if they wrote. All decisions
//!             come from [`crate::steer`], all writes go through [`Steering`]. Every action is one
//!             sentence.
//! Differs:    nothing.
//! Not for:    two at once: the journal's lock keeps the second one out.
//!
//! ```text
//!           +----------------------------- wait <-------------------------+
//!           v                                                             |
//!   sample, events --> what is asked --> windows --> limits --> foreign writes, exits
//!                                           |          |
//!                                           +----------+--> Steering, one sentence each
//! ```

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::control;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;

use crate::knob::{Event, Steering, sentences};
use crate::machine::Machine;
use crate::number::{DevNumber, FileKey};
use crate::pattern::{Counts, Patterns};
use crate::policy_file::PolicyFile;
use crate::scope::{Scope, Slot};
use crate::signal::Sample;
use crate::steer::defaults::StreamDefault;
use crate::steer::files::Files;
use crate::steer::groups::Groups;
use crate::steer::limits::Limits;
use crate::steer::temporary::Temporaries;
use crate::steer::users::{Asked, Users};
use crate::steer::waiters::Waiters;
use crate::steer::writers::Writers;
use crate::steer::{Change, Decision, Done, User};
use crate::trace::{Drained, What};
use crate::tree::Tree;

pub use debugfs::sees_writeback;
pub use notify::Notify;
pub use world::{Live, Wakes, Woken, World};

use limits::Writeback;
use trials::Trials;
use windows::Allowed;

mod amiss;
mod debugfs;
mod defaults;
mod limits;
mod notify;
mod temporary;
mod trials;
mod windows;
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
    groups: Groups,
    trials: Trials,
    /// What happened to each file before the last look.
    files_read: Vec<(FileKey, Counts)>,
    /// Defaults of the devices that were named.
    defaults: BTreeMap<DevNumber, StreamDefault>,
    /// When a stream was last read on a device.
    streams: BTreeMap<DevNumber, Instant>,
    /// Devices whose default was made smaller.
    lowered: BTreeSet<DevNumber>,
    /// Files and their processes as they are shown; kept when these are gone.
    names: BTreeMap<User, String>,
    limits: Limits,
    /// Pauses of writers since the last look.
    pauses: BTreeMap<DevNumber, u64>,
    /// Threads that paused since then.
    paused: BTreeMap<DevNumber, BTreeSet<u32>>,
    /// What these write.
    writers: BTreeMap<DevNumber, Writers>,
    /// Files that became dirty, and which of them are likely to be removed before they are written.
    temporaries: Temporaries,
    /// Files that became dirty and were not found yet, and how often they are still looked for.
    unfound: BTreeMap<User, u32>,
    /// Whether a temporary file has made much dirty on a device that has no limit.
    spares: bool,
    /// Whether a look took in files that became dirty, which would have ended a wait.
    begins: bool,
    /// Calls of fsync since the last look, by backing device.
    syncs: BTreeMap<DevNumber, u64>,
    /// What waits for a device's writeback.
    waiters: BTreeMap<DevNumber, Waiters>,
    /// Devices whose files wake us when they become dirty.
    watched: BTreeSet<DevNumber>,
    /// Sizes of files that were looked up.
    sizes: BTreeMap<User, Option<u64>>,
    /// Whether processes may be steered.
    allowed: BTreeMap<u32, Allowed>,
    /// What is said once.
    said: BTreeSet<String>,
    /// Whether a dry run has named a change.
    has_wished: bool,
    /// Whether something was mounted since the machine was read.
    is_stale: bool,
    /// Until when bursts do not wake us.
    rest: Instant,
    /// When the machine was last read.
    read: Instant,
    /// When it was last looked which of the changed files were closed.
    compared: Instant,
    /// Writeback of devices as it was last read.
    writeback: BTreeMap<DevNumber, Writeback>,
    /// When something last happened that may have to be decided about.
    stirred: Instant,
    /// Looks since disks and memory were read.
    still: u32,
    /// Whether an event ends the wait for the next look.
    dozes: bool,
    /// Whether nothing happened before the last look.
    is_quiet: bool,
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
            groups: Groups::default(),
            trials: Trials::default(),
            files_read: Vec::new(),
            defaults: BTreeMap::new(),
            streams: BTreeMap::new(),
            lowered: BTreeSet::new(),
            names: BTreeMap::new(),
            limits,
            pauses: BTreeMap::new(),
            paused: BTreeMap::new(),
            writers: BTreeMap::new(),
            temporaries: Temporaries::default(),
            unfound: BTreeMap::new(),
            spares: false,
            begins: false,
            syncs: BTreeMap::new(),
            waiters: BTreeMap::new(),
            watched: BTreeSet::new(),
            sizes: BTreeMap::new(),
            allowed: BTreeMap::new(),
            said: BTreeSet::new(),
            has_wished: false,
            is_stale: false,
            rest: Instant::ZERO,
            read: Instant::ZERO,
            compared: Instant::ZERO,
            writeback: BTreeMap::new(),
            stirred: Instant::ZERO,
            still: 0,
            dozes: false,
            is_quiet: true,
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
        self.watched = world.watched();
        (self.read, self.stirred) = (begun, begun);
        let mut alive = begun;
        let rest = self.look(world);
        let mut due = world.now() + rest;
        // A program that waits for this may begin to write at once: the first limits are set.
        notify.ready(&format!("tuning {}", self.scope));
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
                if std::mem::take(&mut self.begins) && self.awaits_burst() {
                    self.look_at_burst(world);
                }
                due = world.now() + rest;
                continue;
            }
            let awaits = self.awaits_burst();
            let rest = (awaits && now < self.rest).then(|| self.rest.since(now));
            let spares = (self.spares && awaits).then_some(SPARED_LOOK);
            let others = [left, notify.alive, rest, spares].into_iter().flatten();
            let wakes = Wakes { dirty: awaits && rest.is_none(), events: self.dozes };
            match world.wait(others.fold(due.since(now), Duration::min), wakes) {
                Woken::Time if spares.is_some() => self.look_at_burst(world),
                Woken::Time => {}
                Woken::Mounts => self.is_stale = true,
                Woken::Dirty => {
                    self.stirred = world.now();
                    self.look_at_burst(world);
                }
                Woken::Events => due = world.now(),
                Woken::Stop => break,
            }
        }
        notify.stopping();
        self.finish("forebay tune ends")
    }

    /// One look; the time until the next one.
    pub fn look(&mut self, world: &mut impl World) -> Duration {
        let now = world.now();
        if self.is_stale && now.since(self.read) >= STALE_MIN {
            self.read_machine(world, now);
        }
        std::mem::swap(&mut self.sample, &mut self.last);
        if let Err(error) = self.take_sample(world) {
            self.say_once(format!("nothing is decided while the counters cannot be read: {error}"));
            // What has happened is not taken in, and would end each wait.
            self.dozes = false;
            return self.policy.interval;
        }
        self.forget(world, now);
        let asked = self.listen(world, now);
        if self.has(Slot::Readahead) {
            self.look_at_files(world, now, asked);
        }
        if self.has(Slot::Writeback) {
            if self.read_writeback(world) {
                self.stirred = now;
            }
            // After the level, which must not be newer than what is known of files.
            self.begins |= self.awaits_burst() && self.note_dirtied(world, now);
            self.look_at_devices(world, now, true);
        }
        self.pauses.clear();
        self.paused.clear();
        self.watch_foreign();
        self.rest(world, now)
    }

    /// Puts everything back; true if all of it is as it was.
    pub fn finish(&mut self, why: &str) -> bool {
        let Some(steering) = &mut self.steering else {
            if !self.has_wished {
                (self.say)("nothing would have been changed");
            }
            return true;
        };
        let events = steering.finish(why);
        sentences(&events).iter().for_each(|what| (self.say)(what));
        if let Some(told) = self.trials.sentence() {
            (self.say)(&told);
        }
        !events.iter().any(Event::is_failure)
    }

    /// Names a change that a dry run does not make.
    fn would(&mut self, what: &str) {
        self.has_wished = true;
        (self.say)(&format!("would {what}"));
    }

    fn has(&self, slot: Slot) -> bool {
        // Limits are computed in pages of 4 KiB.
        let fits = slot != Slot::Writeback || self.machine.page_size == PAGE_SIZE;
        fits && self.scope.has(slot) && self.policy.has(slot)
    }

    /// A sample. While no block device is asked anything, and none has anything under way, disks
    /// and memory are taken to be as they were.
    fn take_sample(&mut self, world: &mut impl World) -> Result<(), String> {
        let (sample, last) = (&mut self.sample, &self.last);
        world.levels(sample)?;
        let asked = |sample: &Sample| (sample.vm.kib_in, sample.vm.kib_out);
        let rests = last.disks.iter().all(|disk| disk.in_flight == 0);
        let is_still = asked(sample) == asked(last) && sample.vm.kib_out > 0 && rests;
        if is_still && sample.vm.writeback == 0 && self.still < STILL_LOOKS {
            self.still += 1;
            sample.disks.clone_from(&last.disks);
            (sample.available, sample.cached) = (last.available, last.cached);
            return Ok(());
        }
        self.still = 0;
        world.rest(sample)
    }

    /// The time until the next look.
    fn rest(&mut self, world: &impl World, now: Instant) -> Duration {
        let interval = self.policy.interval;
        self.dozes = false;
        let tries = self.defaults.values().any(StreamDefault::is_tried);
        let tries = tries && now.since(self.stirred) < CALM;
        if tries || self.files.followed(now).next().is_some() || self.limits.is_probing() {
            return LOOK_SOON.min(interval);
        }
        // A knob of ours that another program writes is released within an interval.
        let is_changed = self.steering.as_ref().is_some_and(|steering| steering.state().open() > 0);
        let calm = now.since(self.stirred);
        if calm < CALM || is_changed {
            // The first event after a look without any is the begin of something.
            self.dozes = self.is_quiet;
            return interval;
        }
        self.dozes = true;
        let long = calm >= CALM_LONG && !self.may_miss_writers(world);
        let (factor, most) = if long { (5, DOZE_LONG) } else { (2, DOZE) };
        Duration(interval.0.saturating_mul(factor)).min(most).max(interval)
    }

    fn read_machine(&mut self, world: &mut impl World, now: Instant) {
        (self.read, self.is_stale) = (now, false);
        self.machine = world.machine();
        let machine = &self.machine;
        self.limits.keep(|number| machine.device_of(number).is_some());
        self.waiters.retain(|number, _| machine.device_of(*number).is_some());
        self.writers.retain(|number, _| machine.device_of(*number).is_some());
        self.writeback.retain(|number, _| machine.device_of(*number).is_some());
    }

    /// Takes in what happened since the last call; none if the trace cannot be read.
    fn drain(&mut self, world: &mut impl World) -> Option<Drained> {
        let (patterns, pauses, syncs) = (&mut self.patterns, &mut self.pauses, &mut self.syncs);
        let (paused, machine) = (&mut self.paused, &self.machine);
        let drained = world.drain(&mut |event| match &event.what {
            What::Readahead(_) => patterns.record(&event),
            What::Pause(pause) => {
                *pauses.entry(pause.bdi).or_default() += 1;
                let paused = paused.entry(pause.bdi).or_default();
                if paused.len() < PAUSED_MAX {
                    paused.insert(event.pid);
                }
            }
            What::Sync { dev } => {
                if let Some(device) = machine.device_of(*dev) {
                    *syncs.entry(device.number).or_default() += 1;
                }
            }
            What::Bandwidth { .. } => {}
        });
        match drained {
            Ok(drained) => Some(drained),
            Err(error) => {
                let what = "files are not seen while the trace cannot be read";
                self.say_once(format!("{what}: {error}"));
                None
            }
        }
    }

    /// Takes in what happened, and sums it up for each user in scope.
    fn listen(&mut self, world: &mut impl World, now: Instant) -> Vec<Asked> {
        let Some(drained) = self.drain(world) else { return Vec::new() };
        self.is_quiet = drained == Drained::default();
        if !self.is_quiet {
            self.stirred = now;
        }
        let mut all = Vec::new();
        self.files_read.clear();
        for seen in self.patterns.settle(now) {
            self.files_read.push((seen.file, seen.counts));
            all.extend(self.users.record(now, seen, |thread| world.process(thread)));
        }
        all
    }

    /// Processes that have ended take their windows with them, and so do files that were closed.
    fn forget(&mut self, world: &mut impl World, now: Instant) {
        self.files.forget_idle(now);
        let users: Vec<User> = self.files.steered_users().collect();
        let processes = users.into_iter().flat_map(|user| self.groups.processes(user));
        let processes: BTreeSet<u32> = processes.collect();
        for process in processes {
            if !world.is_there(process) {
                self.exited(process);
            }
        }
        if let Some(steering) = &mut self.steering
            && now.since(self.compared) >= COMPARED
        {
            self.compared = now;
            steering.forget_files(|file| !world.is_open(file));
        }
    }

    fn exited(&mut self, process: u32) {
        for (from, to) in self.groups.exited(process) {
            self.files.hand_over(from, to);
            if let Some(name) = self.names.get(&from).cloned() {
                self.names.insert(to, name);
            }
        }
        self.files.exited(process);
        self.users.exited(process);
        self.sizes.retain(|user, _| user.process != process);
        self.allowed.remove(&process);
        if let Some(steering) = &mut self.steering {
            steering.forget_files(|file| file.pid == process);
        }
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
}

/// The time between two looks while something is being decided.
pub const LOOK_SOON: Duration = Duration::from_millis(250);

/// The time between two looks at a temporary file that grows: where it grows too far, its device
/// gets a limit.
const SPARED_LOOK: Duration = Duration::from_millis(50);

/// The time between two looks at the descriptors of the files that are changed: one call each.
const COMPARED: Duration = Duration::from_secs(5);

/// Threads that are looked at because they paused.
const PAUSED_MAX: usize = 16;

/// Where nothing has happened for so long, the next look waits for two intervals, or for five.
const CALM: Duration = Duration::from_secs(10);
const CALM_LONG: Duration = Duration::from_secs(60);

/// But for no longer than this.
const DOZE: Duration = Duration::from_secs(2);
const DOZE_LONG: Duration = Duration::from_secs(5);

/// Disks and memory are read after so many looks in any case.
const STILL_LOOKS: u32 = 10;

/// The machine is read again at most this often, however much is mounted: it costs milliseconds.
const STALE_MIN: Duration = Duration::from_secs(2);
