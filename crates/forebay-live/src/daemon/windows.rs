//! Windows of open files: requests are observed, and decisions carried out.
//!
//! ```text
//!   requests, progress ----> Files --> decision --> descriptors --> Steering, one sentence
//!                                 ^                         |
//!                                 |                         +-- none: the default, if allowed
//!                                 +---------- how it went --+
//! ```

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::time::{Duration, Instant};

use super::{Daemon, World};
use crate::knob::{
    Brief, Change as KnobChange, Event as KnobEvent, Knob, Value, WindowOf, sentences,
};
use crate::machine::Device;
use crate::number::DevNumber;
use crate::pattern::Pattern;
use crate::signal::Sample;
use crate::steer::file::{Held, Unreachable};
use crate::steer::files::{Around, Progress, Seen};
use crate::steer::groups::GroupMove;
use crate::steer::users::Asked;
use crate::steer::{Decision, Done, User};

/// Whether a process may be steered, as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    is_allowed: bool,
    /// When it started: tells it from another of the same number.
    started: u64,
    /// When that was last compared.
    at: Instant,
}

impl Daemon<'_> {
    pub(super) fn look_at_files(
        &mut self,
        world: &mut impl World,
        now: Instant,
        asked: Vec<Asked>,
    ) {
        let mut permitted = Vec::new();
        for asked in asked.into_iter().chain(self.users.pooled()) {
            if asked.user.process != std::process::id() && self.permits(world, now, asked.user) {
                permitted.push(asked);
            }
        }
        let mut brought: BTreeMap<u32, u64> = BTreeMap::new();
        for asked in &permitted {
            *brought.entry(asked.user.process).or_default() += asked.brought;
        }
        self.note_streams(now, &permitted);
        self.look_at_defaults(now, &permitted);
        let apart = self.without_pooled(world, permitted);
        let mut shares = |one: &User, other: &User| world.shares(one, other);
        let asked = self.groups.merge(&apart, &self.files, &mut shares);
        self.move_between_groups(world);
        let followed: Vec<User> = self.files.followed(now).map(|(user, _)| user).collect();
        let seen: BTreeSet<User> = asked.iter().map(|asked| asked.user).collect();
        let quiet = followed.into_iter().filter(|user| !seen.contains(user)).map(|user| Asked {
            user,
            pattern: Pattern::Unclear,
            windows: 0,
            window: 0,
            brought: 0,
        });
        for asked in asked.into_iter().chain(quiet) {
            self.look_at_file(world, now, &asked, &brought);
        }
    }

    /// Descriptions that are steered with others from now on get their window, and those that are
    /// not any more get back their own.
    fn move_between_groups(&mut self, world: &mut impl World) {
        for moved in self.groups.moves() {
            if let GroupMove::Left { user, leader, led: true } = moved {
                self.files.hand_over(user, leader);
            }
            let (GroupMove::Joined { user, leader } | GroupMove::Left { user, leader, .. }) = moved;
            let [own, present] = [self.files.own_window(&leader), self.files.window(&leader)]
                .map(Option::unwrap_or_default);
            if own == present {
                continue;
            }
            match moved {
                GroupMove::Joined { .. } => {
                    self.give(world, &user, present, own, "as in the other processes that read it");
                }
                GroupMove::Left { .. } => {
                    self.give(world, &user, own, own, "it is read in another way");
                }
            }
        }
    }

    /// Whether a user may be steered: its device and its process.
    fn permits(&mut self, world: &mut impl World, now: Instant, user: User) -> bool {
        let Some(device) = self.device_of(world, now, user.file.dev) else { return false };
        if !self.scope.has_device(device.number) || self.is_denied(user.process, now) {
            return false;
        }
        // One that has ended is told of at the next look.
        let Some(progress) = world.progress(user.process) else { return false };
        self.is_allowed(user.process, progress.started, now)
    }

    /// What is left to be judged one by one: files of a pool are judged with it, and those that
    /// were opened since get its window.
    fn without_pooled(&mut self, world: &mut impl World, asked: Vec<Asked>) -> Vec<Asked> {
        let mut apart = Vec::new();
        for mut asked in asked {
            let user = asked.user;
            let pool = User::pool(user.file.dev, user.process);
            let [own, present] = [self.files.own_window(&pool), self.files.window(&pool)]
                .map(Option::unwrap_or_default);
            if user.is_pool() {
                let is_clear = asked.pattern == Pattern::RandomFaults;
                let goes_back = asked.pattern == Pattern::Stream && present < own;
                if !(is_clear || goes_back) {
                    asked.pattern = Pattern::Unclear;
                }
                let wanted = self.files.knows(&pool) || is_clear;
                if wanted && !self.files.has_trial(user.file.dev, user.process) {
                    apart.push(asked);
                }
                continue;
            }
            if !self.files.knows(&pool) || self.files.is_steered(&user) {
                apart.push(asked);
                continue;
            }
            match asked.pattern {
                Pattern::RandomFaults | Pattern::Unclear => {
                    if asked.window > 0 && present > 0 && asked.window != present {
                        self.give(world, &user, present, own, "as the process's other files");
                    }
                }
                Pattern::Stream | Pattern::RandomReads { .. } | Pattern::ShortRuns { .. } => {
                    if asked.window > 0 && asked.window == present && present != own {
                        self.give(world, &user, own, own, "it is read in another way");
                        asked.window = own;
                    }
                    apart.push(asked);
                }
            }
        }
        apart
    }

    /// Notes where streams are read. A default that was made smaller for other files goes back at
    /// once: the next stream begins with it.
    fn note_streams(&mut self, now: Instant, asked: &[Asked]) {
        for asked in asked.iter().filter(|asked| asked.pattern == Pattern::Stream) {
            let Some(found) = self.machine.device_of(asked.user.file.dev) else { continue };
            let number = found.number;
            self.streams.insert(number, now);
            let Some(steering) = &mut self.steering else { continue };
            let knob = Knob::ReadAheadKb(number);
            if !self.lowered.remove(&number) {
                continue;
            }
            if let Some(event) = steering.restore(knob, "a file on it is read as a stream") {
                (self.say)(&event.to_string());
            }
        }
    }

    fn has_streams(&self, device: DevNumber) -> bool {
        let now = self.sample.at;
        self.streams.get(&device).is_some_and(|at| now.since(*at) < STREAMS)
    }

    /// Gives a file the window of its pool, or back the one that it was opened with.
    fn give(&mut self, world: &mut impl World, user: &User, to: u64, before_kb: u64, why: &str) {
        let Some(device) = self.machine.device_of(user.file.dev).map(|device| device.number) else {
            return;
        };
        let Ok(held) = world.held(user) else { return };
        let name = self.file_name(world, user);
        let Some(steering) = &mut self.steering else { return };
        let files: Vec<WindowOf> =
            held.descriptors.iter().map(|file| WindowOf { file: *file, before_kb }).collect();
        let brief = Brief { bdi: device, kb: to, why: why.to_owned(), name };
        if let Err(refused) = steering.set_windows(&brief, &files) {
            self.refused(&refused);
        }
    }

    /// `brought` has the bytes that were brought in for each process.
    fn look_at_file(
        &mut self,
        world: &mut impl World,
        now: Instant,
        asked: &Asked,
        brought: &BTreeMap<u32, u64>,
    ) {
        let user = asked.user;
        let Some(device) = self.device_of(world, now, user.file.dev) else { return };
        let (number, cuts) = (device.number, device.number.is_anonymous());
        let Some(progress) = self.progress(world, user) else { return };
        if asked.windows == 0 && self.files.is_tried(&user) && self.is_closed(world, &user) {
            // What its process does now is no measure of the step.
            self.files.done(user, Done::Gone);
            return;
        }
        if asked.pattern == Pattern::RandomFaults && !self.sizes.contains_key(&user) {
            let held = self.held(world, &user);
            let size = held.as_ref().ok().and_then(|held| held.size);
            if self.sizes.len() >= SIZES_MAX {
                self.sizes.clear();
            }
            self.sizes.insert(user, size);
        }
        // Another user's window by our doing is not this one's.
        let of_event = (asked.window > 0).then_some(asked.window);
        let is_its = !self.files.is_shared(&user);
        let window = match &mut self.steering {
            Some(steering) if !is_its => steering.window(number),
            Some(_) | None => of_event,
        };
        let processes = self.groups.processes(user);
        let seen = Seen {
            user,
            device: number,
            cuts,
            pattern: asked.pattern,
            windows: asked.windows,
            window,
            is_its,
            size: self.sizes.get(&user).copied().flatten(),
            progress: Some(progress),
            brought: processes.iter().filter_map(|process| brought.get(process)).sum(),
            threads: progress.threads.max(processes.len() as u64),
        };
        let around = self.around(number);
        let decision = self.files.look(now, &seen, &around);
        if let Some(outcome) = self.files.outcome(&user) {
            let name = self.file_name(world, &user);
            self.trials.record(&name, &outcome);
            let told = format!("{name}: {}", outcome.told);
            if let Some(steering) = &self.steering {
                steering.record_outcome(&format!("{}/{}", user.file.dev, user.file.ino), &told);
            }
            (self.say)(&told);
        }
        if let Some(decision) = decision {
            let done = self.perform(world, &decision);
            self.files.done(user, done);
        }
    }

    /// Whether no process of a group has the file open any more.
    fn is_closed(&mut self, world: &mut impl World, user: &User) -> bool {
        matches!(self.held(world, user), Err(Unreachable::Exited(_) | Unreachable::None(_)))
    }

    /// What the processes of a group got so far.
    fn progress(&mut self, world: &mut impl World, user: User) -> Option<Progress> {
        let processes = self.groups.processes(user).into_iter();
        let now: Vec<_> =
            processes.filter_map(|process| Some((process, world.progress(process)?))).collect();
        self.groups.progress(user, &now, &self.files)
    }

    /// The descriptors of a group, or of a pool.
    fn held(&mut self, world: &mut impl World, user: &User) -> Result<Held, Unreachable> {
        if user.is_pool() {
            let but: BTreeSet<_> = self.files.steered(user.file.dev, user.process).collect();
            return world.held_on(user, &but);
        }
        let mut all: Option<Held> = None;
        let mut amiss = None;
        for process in self.groups.processes(*user) {
            match (world.held(&User { process, ..*user }), &mut all) {
                (Ok(held), Some(all)) => all.descriptors.extend(held.descriptors),
                (Ok(held), None) => all = Some(held),
                (Err(error), _) => amiss = Some(error),
            }
        }
        all.ok_or(amiss.unwrap_or(Unreachable::None(*user)))
    }

    /// A file by its path and its process by its command, as far as they are to be had.
    fn file_name(&mut self, world: &mut impl World, user: &User) -> String {
        let device = self.machine.device_of(user.file.dev).map(|device| device.number);
        let name = self.name(device.unwrap_or(user.file.dev));
        if let Some(known) = self.names.get(user) {
            return known.clone();
        }
        let path = self.held(world, user).ok().and_then(|held| {
            let first = held.descriptors.first()?;
            let path = self.tree.link(&format!("/proc/{}/fd/{}", first.pid, first.fd)).ok()?;
            Some((path.to_string_lossy().into_owned(), held.descriptors.len()))
        });
        let comm = self.tree.text(&format!("/proc/{}/comm", user.process)).unwrap_or_default();
        let others = match self.groups.processes(*user).len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let process = format!("{} {}{others}", comm.trim(), user.process);
        let shown = match path {
            Some((path, count)) if user.is_pool() => {
                format!("{path} and others, {count} descriptors on {name} ({})", process.trim())
            }
            Some((path, _)) => format!("{path} on {name} ({})", process.trim()),
            None => format!("{} on {name} ({})", user.file, process.trim()),
        };
        if self.names.len() >= SIZES_MAX {
            self.names.clear();
        }
        self.names.insert(*user, shown.clone());
        shown
    }

    /// Whether a number was that of a process out of scope a moment ago. Those are many, and hardly
    /// ever another's so soon.
    fn is_denied(&self, process: u32, now: Instant) -> bool {
        let known = self.allowed.get(&process);
        known.is_some_and(|known| !known.is_allowed && now.since(known.at) < DENIED)
    }

    fn is_allowed(&mut self, process: u32, started: u64, now: Instant) -> bool {
        match self.allowed.get_mut(&process) {
            Some(known) if known.started == started => {
                known.at = now;
                return known.is_allowed;
            }
            // The number is another process's by now, which has windows of its own.
            Some(_) => self.exited(process),
            None => {}
        }
        if self.allowed.len() >= SIZES_MAX {
            self.allowed.clear();
        }
        let is_allowed = self.scope.has_process(process, &self.tree);
        self.allowed.insert(process, Allowed { is_allowed, started, at: now });
        is_allowed
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
            self.read_machine(world, now);
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

    pub(super) fn set_window(
        &mut self,
        world: &mut impl World,
        decision: &Decision,
        user: &User,
        device: DevNumber,
        to: u64,
    ) -> Done {
        if let Some(leader) = self.shared_with(world, user) {
            self.groups.follow(*user, leader);
            return Done::Gone;
        }
        let held = match self.held(world, user) {
            Ok(held) => held,
            Err(error) => {
                let gone = matches!(error, Unreachable::Exited(_) | Unreachable::None(_));
                if !gone {
                    let is_closed = matches!(error, Unreachable::Closed(_));
                    let hint = if is_closed && !self.policy.device_default { CLOSED } else { "" };
                    let name = self.file_name(world, user);
                    self.say_once(format!("{name}: {error}{hint}"));
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
        // The number of a file that was removed may be another's by now.
        self.names.remove(user);
        if self.steering.is_none() {
            let name = self.file_name(world, user);
            self.would(&format!(
                "set the read-ahead of {name} to {to} KiB, because {reason}; expected: {expected}"
            ));
            return Done::Refused;
        }
        let name = self.file_name(world, user);
        let Some(steering) = &mut self.steering else { return Done::Refused };
        let before_kb = self.files.own_window(user).unwrap_or(to);
        let files: Vec<WindowOf> =
            held.descriptors.iter().map(|file| WindowOf { file: *file, before_kb }).collect();
        let brief = Brief { bdi: device, kb: to, why: reason.clone(), name: name.clone() };
        let told = match steering.set_windows(&brief, &files) {
            Ok(told) => told,
            Err(refused) => return self.refused(&refused),
        };
        if told.iter().any(Result::is_ok) {
            return Done::Applied;
        }
        let mut done = Done::Gone;
        for error in told.into_iter().filter_map(Result::err).filter(|error| !error.is_gone()) {
            self.say_once(format!("the read-ahead of {name} was not set: {error}"));
            done = Done::Refused;
        }
        done
    }

    /// Another user that holds a description of this one by now, as by `SCM_RIGHTS`; none for a
    /// user whose window has been moved already, which the other one follows.
    fn shared_with(&self, world: &mut impl World, user: &User) -> Option<User> {
        if self.files.window(user) != self.files.own_window(user) {
            return None;
        }
        let others = self.files.users_of(user.file).filter(|other| other != user);
        others.take(SHARED_MAX).find(|other| world.shares(user, other) == Some(true))
    }

    /// A process that has left the scope, or whose number is another's now, has its own windows.
    fn leave(&mut self, process: u32, held: &Held) -> Done {
        if let Some(known) = self.allowed.get_mut(&process) {
            known.is_allowed = false;
        }
        let Some(steering) = &mut self.steering else { return Done::Refused };
        let events = held.descriptors.iter().filter_map(|file| steering.restore_file(file));
        let events: Vec<KnobEvent> = events.collect();
        sentences(&events).iter().for_each(|what| (self.say)(what));
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
        // All files opened later get it, so that no process may have been singled out.
        let found = self.machine.device_of(device);
        let may = found.is_some_and(|device| self.scope.has_limit_of(device));
        if !self.policy.device_default || !may || !matches!(error, Unreachable::Closed(_)) {
            return Done::Refused;
        }
        let name = self.name(device);
        if let Some(protected) = self.scope.protected_process() {
            let what = "would get it with the next file that it opens";
            self.say_once(format!(
                "the default window of {name} stays as it is: {protected} is protected, and {what}"
            ));
            return Done::Refused;
        }
        if self.has_streams(device) {
            self.say_once(format!(
                "the default read-ahead of {name} stays as it is: files on it are read as streams, \
                 and the next ones would be slower"
            ));
            return Done::Later;
        }
        let to = to.max(DEFAULT_MIN);
        let reason = &decision.reason;
        let what = format!("default read-ahead of {name} to {to} KiB, because {reason}");
        let Some(steering) = &mut self.steering else {
            self.has_wished = true;
            self.say_once(format!("would set the {what}"));
            return Done::Refused;
        };
        let knob = Knob::ReadAheadKb(device);
        let change = KnobChange { knob, to: Value::Number(to), why: reason.clone() };
        match steering.set(&change, self.sample.at) {
            Ok(_) => {
                self.lowered.insert(device);
                (self.say)(&format!("set the {what}"));
                Done::Refused
            }
            Err(refused) => self.refused(&refused),
        }
    }
}

/// What helps where a file is out of reach.
const CLOSED: &str = "; what helps is to keep the descriptor open, or to start the program again \
                      with `device_default = true` in the policy file";

/// The kernel's own default: a stream that is opened next begins with it anywhere else, too.
const DEFAULT_MIN: u64 = 128;

/// A device that had a stream this long ago may have another.
const STREAMS: Duration = Duration::from_secs(60);

/// The machine is read again for an unknown device at most this often.
const READ_MIN: Duration = Duration::from_secs(5);

/// A process out of scope is not looked at for so long.
const DENIED: Duration = Duration::from_secs(10);

/// Users of a file that one of them is compared with before its window is moved.
const SHARED_MAX: usize = 16;

/// Files whose size, and processes whose right is remembered.
const SIZES_MAX: usize = 1_024;
