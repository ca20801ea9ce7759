//! What is refused before anything is touched.

use forebay_core::time::Instant;

use super::{Refused, Steering};
use crate::knob::{Identity, Kernel, Knob, SHARE_BYTES_MIN, Value};

impl Steering {
    /// What can be said without looking at the knob.
    pub(super) fn permit(&self, knob: Knob, to: Value, now: Instant) -> Result<(), Refused> {
        if let Some(why) = knob.unfit(to) {
            return Err(Refused::Unfit { knob, why });
        }
        let asked = if knob.device().is_some() { self.terms.wbt } else { self.terms.machine };
        if knob.rule().asked && !asked {
            return Err(Refused::NotAsked(knob));
        }
        let last = self.changed.get(&knob);
        if last.is_some_and(|last| now.since(*last) < self.terms.period) {
            return Err(Refused::TooSoon(knob));
        }
        Ok(())
    }

    pub(super) fn permit_for(&self, knob: Knob, identity: &Identity) -> Result<(), Refused> {
        let released = self.journal.state().released.get(&knob);
        if released.is_some_and(|whose| whose.is_same(identity)) {
            return Err(Refused::Released(knob));
        }
        match knob {
            Knob::MaxRatio(device) => {
                let finer = Knob::MaxRatioFine(device).read(self.kernel.as_ref());
                if finer.is_ok() { Err(Refused::Coarse(knob)) } else { Ok(()) }
            }
            Knob::ReadAheadKb(_)
            | Knob::StrictLimit(_)
            | Knob::MaxRatioFine(_)
            | Knob::WbtLatUsec(_)
            | Knob::DirtyLimit
            | Knob::DirtyBackground
            | Knob::DirtyExpire => Ok(()),
        }
    }

    /// A share must leave room for some dirty data under the limit in force.
    pub(super) fn permit_share(&self, knob: Knob, to: Value) -> Result<(), Refused> {
        let parts = match (knob, to) {
            (Knob::MaxRatioFine(_), Value::Number(ppm)) => ppm,
            (Knob::MaxRatio(_), Value::Number(percent)) => percent * 10_000,
            (_, Value::Number(_) | Value::Ratio(_) | Value::Bytes(_)) => return Ok(()),
        };
        let Some(limit) = level(self.kernel.as_ref(), "nr_dirty_threshold") else {
            return Ok(());
        };
        let room = u128::from(limit) * u128::from(parts) / 1_000_000;
        if room >= u128::from(SHARE_BYTES_MIN.min(limit)) {
            return Ok(());
        }
        let why = format!("{} of {limit} bytes is less than {SHARE_BYTES_MIN}", knob.show(to));
        Err(Refused::Unfit { knob, why })
    }

    /// The kernel stops every writer of every device while more is dirty than half-way between
    /// background and limit of a limit that was just lowered. So the background is lowered before,
    /// and the limit once the surplus is written.
    pub(super) fn permit_limit(&self, knob: Knob, to: Value) -> Result<(), Refused> {
        let (Knob::DirtyLimit, Value::Bytes(limit)) = (knob, to) else { return Ok(()) };
        let level = |name| level(self.kernel.as_ref(), name).unwrap_or(0);
        let background = level("nr_dirty_background_threshold").min(limit / 2);
        let free = background.midpoint(limit);
        let dirty = level("nr_dirty") + level("nr_writeback");
        if dirty < free {
            return Ok(());
        }
        let why = format!(
            "{} would stop every writer while {dirty} bytes are unwritten; the background level \
             goes first",
            knob.show(to)
        );
        Err(Refused::Unfit { knob, why })
    }
}

/// A level of `/proc/vmstat`, in bytes.
fn level(kernel: &dyn Kernel, name: &str) -> Option<u64> {
    let text = kernel.text("/proc/vmstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let pages: u64 = lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}
