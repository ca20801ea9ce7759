//! Whether requests wait for a device's writeback, which is what a dirty limit is for.
//!
//! Source:     Forebay.
//! Behaviour:  two calls of fsync within ten seconds say that more will follow: the next one waits
//!             for whatever is dirty by then, so a limit has to stand before the burst. Reads
//!             count once they wait: two looks in a row with a mean of a tenth of a second while
//!             the device writes. Both hold for half a minute.
//! Differs:    nothing.
//! Not for:    file systems that trace no fsync with their device (btrfs, FAT).

use forebay_core::time::{Duration, Instant};

/// What waits for one device.
#[derive(Debug, Default)]
pub struct Waiters {
    /// The last sync.
    sync: Option<Instant>,
    /// Looks in a row in which reads waited.
    slow_reads: u32,
    waits: Option<(Instant, Wait)>,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Calls of fsync.
    Syncs,
    /// Reads, so many milliseconds each.
    Reads {
        /// The mean of a look.
        ms: u64,
    },
}

/// Reads of a device between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTime {
    /// Completed requests.
    pub requests: u64,
    /// The sum of their times in ms.
    pub time_ms: u64,
    /// Whether the device wrote meanwhile.
    pub beside_writes: bool,
}

impl Waiters {
    /// So many calls of fsync since the last call.
    pub fn record_syncs(&mut self, now: Instant, count: u64) {
        if count == 0 {
            return;
        }
        let follows = self.sync.is_some_and(|last| now.since(last) < SYNCS_WITHIN);
        if count > 1 || follows {
            self.waits = Some((now, Wait::Syncs));
        }
        self.sync = Some(now);
    }

    /// What reads did since the last look. With `any`, reads count however long they take.
    pub fn record_reads(&mut self, now: Instant, reads: ReadTime, any: bool) {
        let Some(ms) = reads.time_ms.checked_div(reads.requests) else { return };
        let is_slow = reads.beside_writes && ms >= READ_SLOW_MS;
        self.slow_reads = if is_slow { self.slow_reads + 1 } else { 0 };
        if any || self.slow_reads >= READ_LOOKS {
            self.waits = Some((now, Wait::Reads { ms }));
        }
    }

    /// What waits, or is about to.
    pub fn waits(&self, now: Instant) -> Option<Wait> {
        self.waits.filter(|(at, _)| now.since(*at) < WAITS).map(|(_, wait)| wait)
    }
}

impl std::fmt::Display for Wait {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syncs => write!(out, "fsync calls wait for what is dirty"),
            Self::Reads { ms } => write!(out, "reads beside writeback take {ms} ms"),
        }
    }
}

/// A single fsync, as of an editor that saves a file, is no reason to slow all writers.
const SYNCS_WITHIN: Duration = Duration::from_secs(10);

/// Ten times what a seek takes.
const READ_SLOW_MS: u64 = 100;

/// Looks in a row that tell writeback from a single slow read.
const READ_LOOKS: u32 = 2;

/// How long after the last one more are expected.
const WAITS: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn two_syncs_are_followed_by_more_and_one_is_not() {
        let mut waiters = Waiters::default();
        waiters.record_syncs(at(0), 1);
        assert_eq!(waiters.waits(at(0)), None);
        waiters.record_syncs(at(11_000), 1);
        assert_eq!(waiters.waits(at(11_000)), None, "too long ago");
        waiters.record_syncs(at(12_000), 0);
        waiters.record_syncs(at(20_000), 1);
        assert_eq!(waiters.waits(at(49_999)), Some(Wait::Syncs));
        assert_eq!(waiters.waits(at(50_000)), None, "half a minute later");
        waiters.record_syncs(at(90_000), 2);
        assert_eq!(waiters.waits(at(90_000)), Some(Wait::Syncs));
    }

    #[test]
    fn reads_count_once_they_wait_beside_writes() {
        let slow = ReadTime { requests: 10, time_ms: 1_500, beside_writes: true };
        let alone = ReadTime { beside_writes: false, ..slow };
        let quick = ReadTime { time_ms: 100, ..slow };
        for (looks, expected) in [
            ([slow, slow], Some(Wait::Reads { ms: 150 })),
            ([alone, alone], None),
            ([slow, quick], None),
            ([quick, slow], None),
        ] {
            let mut waiters = Waiters::default();
            for (second, reads) in looks.into_iter().enumerate() {
                waiters.record_reads(at(1_000 * second as u64), reads, false);
            }
            assert_eq!(waiters.waits(at(1_000)), expected, "{looks:?}");
        }
        let mut waiters = Waiters::default();
        waiters.record_reads(at(0), ReadTime::default(), true);
        assert_eq!(waiters.waits(at(0)), None, "none at all");
        waiters.record_reads(at(0), quick, true);
        assert_eq!(waiters.waits(at(0)), Some(Wait::Reads { ms: 10 }), "reads are to come first");
    }
}
