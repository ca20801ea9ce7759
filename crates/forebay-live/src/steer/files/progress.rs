//! What processes got so far, by their own counters.

/// What a process got so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// Faults that waited for a device.
    pub major_faults: u64,
    /// Faults that found their page.
    pub minor_faults: u64,
    /// Bytes that it read, cached or not, or that were read for it, whichever is more.
    pub bytes: u64,
    /// Bytes that it asked for by calls, cached or not.
    pub asked: u64,
    /// Threads that it has at the moment.
    pub threads: u64,
}

impl Progress {
    /// Adds what was got between two moments of a process, and its threads.
    pub(in crate::steer) fn grow(&mut self, now: &Self, then: &Self) {
        let Self { started, major_faults, minor_faults, bytes, asked, threads } = self;
        (*started, *threads) = (now.started, *threads + now.threads);
        for (sum, now, then) in [
            (major_faults, now.major_faults, then.major_faults),
            (minor_faults, now.minor_faults, then.minor_faults),
            (bytes, now.bytes, then.bytes),
            (asked, now.asked, then.asked),
        ] {
            *sum = sum.saturating_add(now.saturating_sub(then));
        }
    }
}
