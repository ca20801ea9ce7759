//! How much of what the devices complete is one device's: what splits a limit between them.
//!
//! ```text
//!   completed pages count 1      1/2     1/4     1/8
//!                      now |------|-------|-------|   every three seconds
//! ```

use alloc::vec::Vec;

use super::DirtyView;
use crate::time::{Duration, Instant};

/// After this time older counts weigh half.
const PERIOD: Duration = Duration::from_secs(3);

/// The completions of every device, ageing.
#[derive(Debug)]
pub(super) struct Shares {
    all: Events,
    devices: Vec<Events>,
}

/// A part of the completions as numerator and denominator; the denominator is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction(u64, u64);

/// Completions of one device or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    count: u64,
    period: u64,
    /// The counter of completions at the last look.
    seen: u64,
}

impl Shares {
    /// Nothing was completed; the sum begins with one, so that it never is zero.
    pub(super) fn new() -> Self {
        Self { all: Events { count: 1, ..Events::default() }, devices: Vec::new() }
    }

    /// Counts completed writes since the last sample; returns the share of the view's device.
    pub(super) fn observe(&mut self, view: &DirtyView) -> Fraction {
        let device = view.device.index();
        if self.devices.len() <= device {
            self.devices.resize(device + 1, Events::default());
        }
        self.all.observe(view.all.written, view.now);
        self.devices[device].observe(view.own.written, view.now);
        let (own, all) = (self.devices[device].count, self.all.count.max(1));
        Fraction(own.min(all), all)
    }
}

impl Events {
    fn observe(&mut self, written: u64, now: Instant) {
        let period = now.0 / PERIOD.as_nanos();
        let passed = u32::try_from(period.saturating_sub(self.period)).unwrap_or(u32::MAX);
        self.count = self.count.checked_shr(passed).unwrap_or(0);
        self.period = self.period.max(period);
        self.count = self.count.saturating_add(written.saturating_sub(self.seen));
        self.seen = self.seen.max(written);
    }
}

impl Fraction {
    /// This part of `pages`, rounded down.
    pub(super) fn of(self, pages: u64) -> u64 {
        (u128::from(pages) * u128::from(self.0) / u128::from(self.1)) as u64
    }

    /// The number of which `pages` are this part; as large as can be if the part is nothing.
    pub(super) fn whole(self, pages: u64) -> u64 {
        let whole = u128::from(pages) * u128::from(self.1) / u128::from(self.0.max(1));
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// Whether the device completed anything lately.
    pub(super) fn is_nothing(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::view;
    use super::*;
    use crate::units::DeviceId;

    fn completed(shares: &mut Shares, millis: u64, device: u32, own: u64, all: u64) -> u64 {
        let mut view = view(millis, 0);
        view.device = DeviceId(device);
        view.own.written = own;
        view.all.written = all;
        shares.observe(&view).of(1_000)
    }

    #[test]
    fn a_device_has_the_share_that_it_completes() {
        let mut shares = Shares::new();
        assert_eq!(completed(&mut shares, 0, 0, 0, 0), 0, "nothing is known of it");
        assert_eq!(completed(&mut shares, 10, 0, 3_000, 4_000), 749);
        assert_eq!(completed(&mut shares, 10, 1, 1_000, 4_000), 249);
    }

    #[test]
    fn old_completions_weigh_half_after_three_seconds() {
        let mut shares = Shares::new();
        completed(&mut shares, 0, 0, 4_000, 4_000);
        assert_eq!(completed(&mut shares, 3_000, 1, 2_000, 6_000), 500);
        assert_eq!(completed(&mut shares, 6_000, 0, 4_000, 9_000), 200);
    }
}
