//! A wrapper that holds requests back beyond a limit in requests and in bytes a second.
//!
//! Source:     block/blk-throttle.c of Linux 6.18, the `blkio` and `io.max` limits of a control
//!             group; volumes that are rented with such limits behave alike.
//! Behaviour:  time is cut into windows, which begin with the first request after idleness. What
//!             the limit allows in the windows that have begun may be used at once. A request
//!             beyond the limit in requests waits for the next window; one beyond the limit in
//!             bytes waits until its bytes have come together. Later ones wait behind it. What was
//!             not used is forgotten after two windows. Reads and writes have limits of their own;
//!             flushes and discards pass.
//! Differs:    a held request uses the device when it is made and ends later by the time that it
//!             is held, so that requests which are let go together do not wait for each other.
//!             Times are exact, where the kernel's end with a tick.
//! Not for:    budgets that are saved up for minutes, as those of burstable volumes.

use forebay_core::time::{Duration, Instant};

use super::{Command, Completion, Device, DeviceAccess, transfer_time};

/// How many requests of one direction may pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Requests a second; zero if any number may pass.
    pub requests_per_s: u64,
    /// Bytes a second; zero if any number may pass.
    pub bytes_per_s: u64,
}

/// How much may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of reads.
    pub reads: Limit,
    /// Of writes.
    pub writes: Limit,
    /// The time whose budget may be used at once, more than zero.
    pub window: Duration,
}

impl Limits {
    /// Whether they hold nothing back.
    pub fn are_none(&self) -> bool {
        self.reads == Limit::default() && self.writes == Limit::default()
    }

    /// `device` behind these limits; `device` itself if they are none.
    pub fn around(self, device: Box<dyn Device>) -> Box<dyn Device> {
        if self.are_none() { device } else { Box::new(Limited::new(device, self)) }
    }
}

/// A device with a limit around another device.
///
/// ```text
///   300 requests a window   |aaaa              |bbbb              |cc
///   the next one waits           a..............|b
/// ```
#[derive(Debug)]
pub struct Limited {
    inner: Box<dyn Device>,
    limits: Limits,
    reads: Budget,
    writes: Budget,
}

impl Limited {
    /// `inner` behind limits.
    pub fn new(inner: Box<dyn Device>, limits: Limits) -> Self {
        assert!(limits.window > Duration::ZERO, "a window has a length");
        Self { inner, limits, reads: Budget::default(), writes: Budget::default() }
    }
}

impl Device for Limited {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let mut completion = self.inner.service(now, access);
        let (budget, limit) = match access.command {
            Command::Read => (&mut self.reads, self.limits.reads),
            Command::Write | Command::DurableWrite => (&mut self.writes, self.limits.writes),
            Command::Flush | Command::Discard => return completion,
        };
        let held = budget.admit(now, access.bytes(), limit, self.limits.window).since(now);
        completion.start += held;
        completion.done += held;
        completion
    }

    fn programmed(&self) -> bool {
        self.inner.programmed()
    }
}

/// What was used of the windows of one direction. Use is counted in the nanoseconds in which the
/// limit allows as much.
#[derive(Debug, Default)]
struct Budget {
    /// Where the first window that counts begins.
    start: Instant,
    /// From when on the device counts as idle.
    idle: Instant,
    /// When the latest request was let go.
    latest: Instant,
    requests_ns: u64,
    bytes_ns: u64,
}

impl Budget {
    /// When a request of so many bytes is let go.
    fn admit(&mut self, now: Instant, bytes: u64, limit: Limit, window: Duration) -> Instant {
        let now = now.max(self.latest);
        let window = window.as_nanos();
        if now > self.idle {
            *self = Self { start: now, ..Self::default() };
        }
        self.forget(now, window);
        let time = |amount, per_s| match per_s {
            0 => 0,
            _ => transfer_time(amount, per_s).as_nanos(),
        };
        self.requests_ns = self.requests_ns.saturating_add(time(1, limit.requests_per_s));
        self.bytes_ns = self.bytes_ns.saturating_add(time(bytes, limit.bytes_per_s));
        let mut admitted = now;
        if limit.requests_per_s > 0 {
            let windows = self.requests_ns.div_ceil(window).max(1);
            admitted = admitted.max(self.start + Duration((windows - 1) * window));
        }
        let begun = (now.since(self.start).as_nanos() / window + 1) * window;
        if self.bytes_ns > begun {
            admitted = admitted.max(self.start + Duration(self.bytes_ns));
        }
        self.latest = admitted;
        self.idle = admitted + Duration(window);
        admitted
    }

    /// Forgets the windows before the last whole one, with what they allowed.
    fn forget(&mut self, now: Instant, window: u64) {
        let passed = now.since(self.start).as_nanos() / window;
        if passed < 2 {
            return;
        }
        let time = (passed - 1) * window;
        self.start += Duration(time);
        self.requests_ns = self.requests_ns.saturating_sub(time);
        self.bytes_ns = self.bytes_ns.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::units::SECTOR_SIZE;

    use super::super::fast::{Fast, FastParameters};
    use super::*;

    const MS: u64 = 1_000_000;

    fn limited(requests_per_s: u64, bytes_per_s: u64) -> Limited {
        let limit = Limit { requests_per_s, bytes_per_s };
        let limits = Limits { reads: limit, writes: limit, window: Duration::from_millis(100) };
        Limited::new(Box::new(Fast::new(FastParameters::null(), 0)), limits)
    }

    /// When each of `count` reads ends that are made at a time, in milliseconds.
    fn ends(device: &mut Limited, at_ms: u64, bytes: u64, count: usize) -> Vec<u64> {
        let access = DeviceAccess::read(0, bytes / SECTOR_SIZE);
        let at = Instant(at_ms * MS);
        (0..count).map(|_| device.service(at, &access).done.0 / MS).collect()
    }

    #[test]
    fn the_requests_of_a_window_pass_and_the_next_waits_for_the_next_window() {
        let mut device = limited(50, 0);
        assert_eq!(
            ends(&mut device, 7, 4_096, 12),
            [7, 7, 7, 7, 7, 107, 107, 107, 107, 107, 207, 207]
        );
        // A window that has begun may be used up.
        assert_eq!(ends(&mut device, 280, 4_096, 5), [280, 280, 280, 307, 307]);
    }

    #[test]
    fn bytes_that_a_window_does_not_allow_come_together_first() {
        // 40 KiB a window.
        let mut device = limited(0, 400 << 10);
        assert_eq!(ends(&mut device, 0, 16 << 10, 5), [0, 0, 120, 120, 120]);
        assert_eq!(ends(&mut device, 130, 16 << 10, 1), [240]);
        // One that is larger than a window's budget waits for its share of time.
        let mut device = limited(0, 400 << 10);
        assert_eq!(ends(&mut device, 0, 100 << 10, 2), [250, 500]);
    }

    #[test]
    fn a_request_waits_for_the_stricter_of_two_limits() {
        let mut device = limited(20, 400 << 10);
        assert_eq!(ends(&mut device, 0, 4_096, 3), [0, 0, 100]);
        assert_eq!(ends(&mut device, 0, 96 << 10, 1), [270]);
        assert_eq!(ends(&mut device, 0, 4_096, 3), [270, 270, 300]);
    }

    #[test]
    fn what_a_trickle_leaves_is_saved_for_two_windows() {
        let trickle = |device: &mut Limited, times: &[u64]| {
            times.iter().for_each(|time| assert_eq!(ends(device, *time, 4_096, 1), [*time]));
        };
        // Five requests a window.
        for (times, burst, passed) in [
            (&[0, 40][..], 90, 3),
            (&[0, 90, 180], 190, 7),
            (&[0, 90, 180, 270], 280, 9),
            (&[0, 90, 180, 270, 360, 450, 540], 580, 9),
            // The device was idle.
            (&[0, 90], 191, 5),
        ] {
            let mut device = limited(50, 0);
            trickle(&mut device, times);
            let ends = ends(&mut device, burst, 4_096, 20);
            let at_once = ends.iter().filter(|end| **end == burst).count();
            assert_eq!(at_once, passed, "{burst}");
        }
    }

    #[test]
    fn a_long_stream_has_the_rate_of_the_limit() {
        for (requests, bytes, size, expected) in
            [(3_000, 0, 4_096, 3_000), (3, 0, 4_096, 3), (0, 125 << 20, 1 << 20, 125)]
        {
            let mut device = limited(requests, bytes);
            let access = DeviceAccess::read(0, size / SECTOR_SIZE);
            let mut now = Instant::ZERO;
            for _ in 0..expected * 20 {
                now = device.service(now, &access).done;
            }
            let seconds = now.0 as f64 / 1e9;
            assert!((19.5..=20.1).contains(&seconds), "{seconds}");
        }
    }

    #[test]
    fn the_least_rate_holds_back_for_ages() {
        let mut device = limited(0, 1);
        let access = DeviceAccess::read(0, 1 << 32);
        for _ in 0..20 {
            assert!(device.service(Instant::ZERO, &access).done > Instant(u64::MAX / 10));
        }
    }

    #[test]
    fn writes_have_a_budget_of_their_own_and_flushes_need_none() {
        let mut device = limited(10, 0);
        ends(&mut device, 0, 4_096, 5);
        let mut done = |access| device.service(Instant(MS), &access).done.0 / MS;
        assert_eq!(done(DeviceAccess::write(0, 8)), 1);
        assert_eq!(done(DeviceAccess::write(0, 8)), 101);
        assert_eq!(done(DeviceAccess::flush()), 1);
        assert_eq!(done(DeviceAccess::discard(0, 8)), 1);
        // Of reads alone.
        let reads = Limit { requests_per_s: 10, bytes_per_s: 0 };
        let limits = Limits { reads, writes: Limit::default(), window: Duration::from_millis(100) };
        assert!(!limits.are_none() && Limits { reads: Limit::default(), ..limits }.are_none());
        device.limits = limits;
        assert_eq!(device.service(Instant(2 * MS), &DeviceAccess::write(0, 8)).done.0 / MS, 101);
        assert_eq!(device.service(Instant(300 * MS), &DeviceAccess::write(0, 8)).done.0 / MS, 300);
    }
}
