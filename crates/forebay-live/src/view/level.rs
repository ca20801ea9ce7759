//! Levels of the whole machine: dirty memory and stall.

use forebay_core::time::Duration;

use super::{Period, Pressure, per_second};

/// Dirty memory of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirtyView {
    /// Bytes that are dirty.
    pub dirty: u64,
    /// Bytes on their way to devices.
    pub writeback: u64,
    /// Level above which flusher threads write, in bytes.
    pub background: u64,
    /// Level that writers must not pass, in bytes.
    pub limit: u64,
    /// Bytes that became dirty, a second.
    pub dirtied_rate: f64,
    /// Bytes that were written, a second.
    pub written_rate: f64,
    /// What devices take together, in bytes a second: the kernel's estimates for those that have
    /// dirty memory or were written to, else what was written while something was on its way;
    /// none if neither is known.
    pub bandwidth: Option<f64>,
}

impl DirtyView {
    pub(super) fn of(period: &Period<'_>, length: Duration) -> Self {
        let (before, after) = (&period.before.vm, &period.after.vm);
        let bytes = |pages: u64| pages.saturating_mul(period.machine.page_size);
        let rate = |then: u64, now: u64| per_second(bytes(now.saturating_sub(then)), length);
        let written_rate = rate(before.written, after.written);
        let is_writing = before.writeback > 0 && after.writeback > 0;
        let estimated = estimated(period);
        Self {
            dirty: bytes(after.dirty),
            writeback: bytes(after.writeback),
            background: bytes(after.dirty_background_threshold),
            limit: bytes(after.dirty_threshold),
            dirtied_rate: rate(before.dirtied, after.dirtied),
            written_rate,
            bandwidth: estimated
                .or_else(|| (is_writing && written_rate > 0.0).then_some(written_rate)),
        }
    }

    /// Seconds until a number of bytes is written at the bandwidth that is known.
    pub fn drain(&self, bytes: u64) -> Option<f64> {
        self.bandwidth.map(|bandwidth| bytes as f64 / bandwidth)
    }

    /// Bytes that are not on a device yet.
    pub fn unwritten(&self) -> u64 {
        self.dirty.saturating_add(self.writeback)
    }
}

/// The sum of the kernel's estimates for devices that have something to write.
fn estimated(period: &Period<'_>) -> Option<f64> {
    let mut sum = 0;
    for now in &period.after.bdis {
        let then = period.before.bdis.iter().find(|then| then.number == now.number);
        let written = now.written.saturating_sub(then.map_or(now.written, |then| then.written));
        if now.reclaimable + now.writeback + written > 0 {
            sum += period.writers.bandwidth(now.number).unwrap_or(now.bandwidth);
        }
    }
    (sum > 0).then_some(sum as f64)
}

/// Stall of tasks that wait for a device, as shares of the period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StallView {
    /// In which some task stood still, 0 to 1.
    pub some: f64,
    /// In which all did, 0 to 1.
    pub full: f64,
    /// The first over the last 10 s, as the kernel smooths it, 0 to 1.
    pub some_10s: f64,
    /// The second over the last 10 s.
    pub full_10s: f64,
}

impl StallView {
    pub(super) fn of(before: &Pressure, after: &Pressure, length: Duration) -> Self {
        let share =
            |then: u64, now: u64| (per_second(now.saturating_sub(then), length) / 1e6).min(1.0);
        Self {
            some: share(before.some_us, after.some_us),
            full: share(before.full_us, after.full_us),
            some_10s: f64::from(after.some_avg10) / 1e4,
            full_10s: f64::from(after.full_avg10) / 1e4,
        }
    }
}
