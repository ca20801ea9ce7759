//! Default windows of devices that were named: what streams did on them is looked at, and what was
//! decided is carried out.

use forebay_core::time::Instant;

use super::Daemon;
use crate::knob::{Change as KnobChange, Knob, Value};
use crate::number::DevNumber;
use crate::pattern::Pattern;
use crate::steer::defaults::{Step, StreamDefault, Streams};
use crate::steer::users::Asked;

impl Daemon<'_> {
    pub(super) fn look_at_defaults(&mut self, now: Instant, asked: &[Asked]) {
        // Every file that is opened next begins with it, so that no process may be left alone.
        if !self.policy.stream_default || self.scope.protected_process().is_some() {
            return;
        }
        let named: Vec<DevNumber> = self
            .machine
            .devices
            .iter()
            .filter(|it| self.scope.names_device(it.number) && self.scope.has_limit_of(it))
            .map(|it| it.number)
            .collect();
        for number in named {
            if self.lowered.contains(&number) {
                continue;
            }
            let streams = self.streams_on(number, asked);
            let is_tried = self.defaults.get(&number).is_some_and(StreamDefault::is_tried);
            if streams.file.is_none() && !streams.faults && !is_tried {
                continue;
            }
            let Some(steering) = &mut self.steering else { return };
            let Some(default) = steering.window(number) else { continue };
            let streams = Streams { default, ..streams };
            let of = self.defaults.entry(number).or_default();
            if let Some(step) = of.look(now, &streams, self.policy.bounds) {
                self.set_stream_default(now, number, step);
            }
        }
    }

    fn streams_on(&self, number: DevNumber, asked: &[Asked]) -> Streams {
        let mut streams =
            Streams { kept: self.files.kept_for_streams(number), ..Streams::default() };
        let is_on = |dev| self.machine.device_of(dev).is_some_and(|it| it.number == number);
        let random = |asked: &&Asked| asked.pattern == Pattern::RandomFaults;
        streams.faults = asked.iter().filter(random).any(|asked| is_on(asked.user.file.dev));
        // By file and not by process: a program that reads one short file has ended by now.
        for (file, counts) in self.files_read.iter().filter(|(file, _)| is_on(file.dev)) {
            // A short stream has too few events to be clear: its first window has no marker.
            if counts.marker > 0 && counts.marker.saturating_mul(2) >= counts.order {
                streams.file = Some(file.ino);
                streams.bytes += counts.brought.saturating_mul(self.machine.page_size);
            }
        }
        streams
    }

    fn set_stream_default(&mut self, now: Instant, number: DevNumber, step: Step) {
        let name = self.name(number);
        let Some(steering) = &mut self.steering else { return };
        let knob = Knob::ReadAheadKb(number);
        match step {
            Step::Set(to, why) => {
                let change = KnobChange { knob, to: Value::Number(to), why: why.clone() };
                match steering.set(&change, now) {
                    Ok(_) => (self.say)(&format!(
                        "default read-ahead of {name}: {to} KiB for files that are opened next, \
                         because {why}"
                    )),
                    Err(refused) => {
                        self.defaults.entry(number).or_default().refused(now);
                        self.refused(&refused);
                    }
                }
            }
            Step::Restore(why) => {
                if steering.restore(knob, &why).is_some() {
                    (self.say)(&format!("default read-ahead of {name}: {why}; reverted"));
                }
            }
            Step::Keep(told) => {
                (self.say)(&format!("default read-ahead of {name}: {told}; kept"));
            }
        }
    }
}
