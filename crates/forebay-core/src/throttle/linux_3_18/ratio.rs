//! The position ratio: how much faster or slower than its rate limit a task may go.
//!
//! ```text
//!   ratio   2.0 |___                     cubic in the level of all pages, times a line in the
//!               |   \                    device's own: 1.0 where both are at their setpoint
//!           1.0 |    `--.--.
//!               |           \
//!           0.0 +---|--|-----|--- dirty
//!             freerun  setpoint limit
//! ```

/// 1.0 of a ratio, in bits.
pub(super) const SHIFT: u32 = 10;

/// 2.0, the most that the cubic curve gives.
const TWICE: u64 = 2 << SHIFT;

/// The minimum number of pages that a device with its own limit may hold.
const STRICT_MIN: u64 = 8;

/// The levels that a decision is made from, in pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// `dirty_ratio`, in pages.
    pub(super) thresh: u64,
    /// `dirty_background_ratio`, in pages, below `thresh`.
    pub(super) background: u64,
    /// The smoothed limit, not below `thresh`.
    pub(super) limit: u64,
}

/// One device's levels, in pages, and its bandwidth in pages a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// Its share of the threshold.
    pub(super) thresh: u64,
    /// Its dirty pages, those under writeback included.
    pub(super) dirty: u64,
    pub(super) bandwidth: u64,
    /// Whether only its share bounds it.
    pub(super) strict: bool,
}

impl Thresholds {
    /// The level up to which no task is held.
    pub(super) fn freerun(&self) -> u64 {
        self.thresh.midpoint(self.background)
    }

    /// The level that the rates aim for.
    pub(super) fn setpoint(&self) -> u64 {
        self.freerun().midpoint(self.limit)
    }

    /// The ratio with `dirty` pages in all, 1024 for 1.0.
    pub(super) fn position_ratio(&self, dirty: u64, device: &Levels) -> u64 {
        if dirty >= self.limit {
            return 0;
        }
        let ratio = cubic(self.setpoint(), dirty, self.limit);
        if device.strict {
            return self.strict(ratio, device);
        }
        let least = (self.limit - dirty) / 8;
        let thresh = u128::from(device.thresh.min(self.thresh).max(least));
        let share = (thresh << 16) / u128::from(self.thresh | 1);
        let setpoint = (u128::from(self.setpoint()) * share) >> 16;
        let range = u128::from(self.thresh).saturating_sub(thresh);
        let span = ((range + 8 * u128::from(device.bandwidth)) * share) >> 16;
        let intercept = setpoint + span;

        let dirty = u128::from(device.dirty);
        let mut ratio = u128::from(ratio);
        if dirty < intercept - span / 4 {
            ratio = ratio.saturating_mul(intercept - dirty) / ((intercept - setpoint) | 1);
        } else {
            ratio /= 4;
        }
        // A device that is about to run dry gets more, so that it stays busy.
        let reserve = thresh / 2;
        if dirty < reserve {
            ratio = if dirty > reserve / 8 {
                ratio.saturating_mul(reserve) / dirty
            } else {
                ratio.saturating_mul(8)
            };
        }
        u64::try_from(ratio).unwrap_or(u64::MAX)
    }

    fn strict(&self, ratio: u64, device: &Levels) -> u64 {
        if device.dirty < STRICT_MIN {
            return (2 * ratio).min(TWICE);
        }
        if device.dirty >= device.thresh {
            return 0;
        }
        let setpoint = device.thresh.midpoint(self.background_of(device));
        if setpoint == 0 || setpoint == device.thresh {
            return 0;
        }
        ratio.min(cubic(setpoint, device.dirty, device.thresh))
    }

    /// The device's part of the background level.
    pub(super) fn background_of(&self, device: &Levels) -> u64 {
        let part = u128::from(device.thresh) * u128::from(self.background);
        u64::try_from(part / u128::from(self.thresh.max(1))).unwrap_or(u64::MAX)
    }
}

/// The curve through 1.0 at `setpoint` and 0 at `limit`, kept from 0 to 2.0.
pub(super) fn cubic(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    // Beyond 1.0 to either side the cube is cut off, whatever it is.
    const FAR: i128 = 4 << SHIFT;
    let slope = i128::from(limit.saturating_sub(setpoint) | 1);
    let x = ((i128::from(setpoint) - i128::from(dirty)) << SHIFT) / slope;
    let x = x.clamp(-FAR, FAR) as i64;
    let cube = (((x * x) >> SHIFT) * x) >> SHIFT;
    (cube + (1 << SHIFT)).clamp(0, TWICE as i64) as u64
}
