//! What is said, and what follows where a knob could not be set or is no longer ours.

use std::io;

use rustix::io::Errno;

use super::Daemon;
use crate::knob::{Event as KnobEvent, Knob, Refused};
use crate::number::DevNumber;
use crate::steer::Done;

impl Daemon<'_> {
    pub(super) fn say_once(&mut self, what: String) {
        if self.said.len() < SAID_MAX && !self.said.contains(&what) {
            (self.say)(&what);
            self.said.insert(what);
        }
    }

    pub(super) fn refused(&mut self, refused: &Refused) -> Done {
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
            | Refused::NoTurn { .. }
            | Refused::Journal { .. }
            | Refused::Other { .. } => {}
        }
        self.say_once(format!("nothing was changed: {refused}"));
        // A full disk may have room again, and a borrowed window is given back; all else stays.
        let passes = matches!(refused, Refused::Journal { .. } | Refused::NoTurn { .. });
        if passes { Done::Later } else { Done::Refused }
    }

    /// Knobs that another program has written are left alone, and with them what belongs to them.
    pub(super) fn watch_foreign(&mut self) {
        let Some(steering) = &mut self.steering else { return };
        for event in steering.watch_foreign() {
            self.let_go(&event);
        }
    }

    fn let_go(&mut self, event: &KnobEvent) {
        (self.say)(&event.to_string());
        let (of, done, why) = match event {
            KnobEvent::Foreign { of, .. } => {
                let why = "the other half of its dirty limit was written by another program";
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

    pub(super) fn name(&self, number: DevNumber) -> String {
        let device = self.machine.device_of(number);
        device.map_or_else(|| number.to_string(), |device| device.name.clone())
    }
}

/// Whether an error says that a device or its knobs are no longer there.
fn is_gone(error: &io::Error) -> bool {
    let errors = [Errno::NOENT, Errno::NODEV, Errno::NXIO];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

/// Different sentences that are said once.
const SAID_MAX: usize = 512;
