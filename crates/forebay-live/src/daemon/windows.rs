//! Windows of open files: who asked what is looked at, and what was decided is carried out.
//!
//! ```text
//!   who asks what, progress --> Files --> decision --> descriptors --> Steering, one sentence
//!                                 ^                         |
//!                                 |                         +-- none: the default, if allowed
//!                                 +---------- how it went --+
//! ```

use std::collections::BTreeSet;

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
use crate::steer::files::{Around, Seen};
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
        if !self.scope.has_device(number) || self.is_denied(user.process, now) {
            return;
        }
        // One that has ended is told of at the next look.
        let Some(progress) = world.progress(user.process) else { return };
        if !self.is_allowed(user.process, progress.started, now) {
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
        let window = match &mut self.steering {
            Some(steering) if self.files.is_shared(&user) => steering.window(number),
            Some(_) | None => of_event,
        };
        let seen = Seen {
            user,
            device: number,
            cuts,
            pattern: asked.pattern,
            windows: asked.windows,
            window,
            size: self.sizes.get(&user).copied().flatten(),
            progress: Some(progress),
        };
        let around = self.around(number);
        if let Some(decision) = self.files.look(now, &seen, &around) {
            let done = self.perform(world, &decision);
            self.files.done(user, done);
        }
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
            self.would(&format!("set the {what}"));
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
        // Whoever opens a file next gets it, so that processes must not have been singled out.
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
        let reason = &decision.reason;
        let what = format!("window of what is opened next on {name} to {to} KiB, because {reason}");
        let Some(steering) = &mut self.steering else {
            self.has_wished = true;
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
}

/// The machine is read again for an unknown device at most this often.
const READ_MIN: Duration = Duration::from_secs(5);

/// A process out of scope is not looked at for so long.
const DENIED: Duration = Duration::from_secs(10);

/// Files whose size, and processes whose right is remembered.
const SIZES_MAX: usize = 1_024;
