//! Measured for a device five times a second: its bandwidth, and the rate of one task.

use super::ratio::{Levels, SHIFT, Thresholds};

/// 100 MB/s in pages a second: what a device is believed to write before it has been seen.
pub(super) const INITIAL: u64 = 25_600;

/// The write bandwidth of a device in pages a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bandwidth {
    /// Averaged over three to six seconds.
    pub(super) last: u64,
    /// The same, without short peaks.
    pub(super) average: u64,
}

/// The rate of one of the tasks that write to a device, in pages a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateLimit {
    /// The rate, before the position ratio.
    pub(super) rate: u64,
    /// The rate at which writers and device would be in balance, as last seen.
    pub(super) balanced: u64,
}

/// What happened between two updates of a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elapsed {
    /// Pages of the device that became dirty.
    pub(super) dirtied: u64,
    /// The time in jiffies, not zero.
    pub(super) jiffies: u64,
}

impl Bandwidth {
    pub(super) fn update(&mut self, written: u64, elapsed: u64, hz: u64) {
        let period = (3 * hz).next_power_of_two();
        let pages = u128::from(written) * u128::from(hz);
        if elapsed > period {
            *self = Self { last: narrow(pages / u128::from(elapsed)), average: self.average };
            self.average = self.last;
            return;
        }
        let sum = pages + u128::from(self.last) * u128::from(period - elapsed);
        let (old, new) = (self.last, narrow(sum >> period.ilog2()));
        if self.average > old && old >= new {
            self.average -= (self.average - old) >> 3;
        }
        if self.average < old && old <= new {
            self.average += (old - self.average) >> 3;
        }
        self.last = new;
    }
}

impl RateLimit {
    /// Moves towards the bandwidth divided by the number of writers, in small steps.
    pub(super) fn update(
        &mut self,
        all: (&Thresholds, u64),
        device: &Levels,
        elapsed: Elapsed,
        hz: u64,
    ) {
        let (thresholds, mut dirty) = all;
        let dirtied = u128::from(elapsed.dirtied) * u128::from(hz) / u128::from(elapsed.jiffies);
        let ratio = thresholds.position_ratio(dirty, device);
        let task = scaled(self.rate, ratio).saturating_add(1);
        let balanced = u128::from(task) * u128::from(device.bandwidth) / (dirtied | 1);
        let balanced = narrow(balanced).min(device.bandwidth);

        let mut setpoint = thresholds.setpoint();
        if device.strict {
            dirty = device.dirty;
            setpoint = match device.dirty {
                0..8 => device.dirty + 1,
                8.. => device.thresh.midpoint(thresholds.background_of(device)),
            };
        }
        let gap = if dirty < setpoint {
            self.balanced.min(balanced).min(task).saturating_sub(self.rate)
        } else {
            self.rate.saturating_sub(self.balanced.max(balanced).max(task))
        };
        let damping = self.rate / gap.saturating_mul(2).saturating_add(1);
        let damping = u32::try_from(damping).unwrap_or(u32::MAX);
        let step = gap.checked_shr(damping).unwrap_or(0).div_ceil(8);
        self.rate = if self.rate < balanced {
            self.rate.saturating_add(step)
        } else {
            self.rate.saturating_sub(step)
        };
        self.rate = self.rate.max(1);
        self.balanced = balanced;
    }
}

/// `rate` times a position ratio.
pub(super) fn scaled(rate: u64, ratio: u64) -> u64 {
    narrow((u128::from(rate) * u128::from(ratio)) >> SHIFT)
}

/// The limit that follows the threshold: up at once, down by a 32nd of the way, and not below the
/// dirty pages.
pub(super) fn follow(limit: u64, thresh: u64, dirty: u64) -> u64 {
    if limit < thresh {
        return thresh;
    }
    limit - (limit.saturating_sub(thresh.max(dirty)) >> 5)
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
