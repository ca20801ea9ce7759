//! What requests cost: latencies of each export and kind of request, and counters of each client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use forebay_nbd::{Command, Request};

/// Kinds of requests, in the order of their histograms.
pub const REQUEST_KINDS: [&str; 7] =
    ["read", "write", "flush", "trim", "write-zeroes", "cache", "block-status"];

/// The place of a command in [`REQUEST_KINDS`].
const fn place(command: Command) -> usize {
    match command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Flush => 2,
        Command::Trim => 3,
        Command::WriteZeroes => 4,
        Command::Cache => 5,
        Command::BlockStatus | Command::Unknown => 6,
    }
}

/// The name of a request's kind.
pub(super) const fn kind_name(command: Command) -> &'static str {
    match command {
        Command::Unknown => "unknown command",
        Command::Read
        | Command::Write
        | Command::Flush
        | Command::Trim
        | Command::WriteZeroes
        | Command::Cache
        | Command::BlockStatus => REQUEST_KINDS[place(command)],
    }
}

/// The latencies of an export's requests, by kind.
#[derive(Debug, Default)]
pub(super) struct ExportMeter([Histogram; REQUEST_KINDS.len()]);

impl ExportMeter {
    pub(super) fn record(&self, command: Command, nanos: u64) {
        self.0[place(command)].record(nanos);
    }

    pub(super) fn latencies(&self) -> [LatencyReport; REQUEST_KINDS.len()] {
        std::array::from_fn(|kind| self.0[kind].report())
    }
}

/// Latencies from 1.024 us on in buckets of a quarter of a power of two.
///
/// ```text
///   bucket   0          1           2           ...
///   ns       0..1024    1024..1280  1280..1536  ...   and all from 17.2 s on in the last
/// ```
#[derive(Debug)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), nanos: AtomicU64::new(0) }
    }
}

impl Histogram {
    fn record(&self, nanos: u64) {
        self.buckets[bucket(nanos)].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    fn report(&self) -> LatencyReport {
        let counts = self.buckets.each_ref().map(|count| count.load(Relaxed));
        LatencyReport { counts, total: Duration::from_nanos(self.nanos.load(Relaxed)) }
    }
}

fn bucket(nanos: u64) -> usize {
    let Some(octave) = nanos.checked_ilog2().and_then(|log| log.checked_sub(FIRST_LOG)) else {
        return 0;
    };
    let quarter = (nanos >> (octave + FIRST_LOG - 2)) & 3;
    (1 + 4 * octave as usize + quarter as usize).min(BUCKETS - 1)
}

/// The first latency behind a bucket.
fn bound(bucket: usize) -> Duration {
    let (octave, quarter) = ((bucket / 4) as u32, (bucket % 4) as u64);
    Duration::from_nanos((4 + quarter) << (octave + FIRST_LOG - 2))
}

/// Log2 of the first bucket's end in nanoseconds.
const FIRST_LOG: u32 = 10;
/// Powers of two that are distinguished.
const OCTAVES: usize = 24;
/// One below them, and one above.
const BUCKETS: usize = 4 * OCTAVES + 2;

/// Latencies of one kind of request so far.
#[derive(Clone, Debug)]
pub struct LatencyReport {
    counts: [u64; BUCKETS],
    /// Their sum.
    pub total: Duration,
}

impl LatencyReport {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that `permille` thousandths of them did not reach, at most a quarter too long; none
    /// if there were none, or if it is longer than 17 s.
    pub fn permille(&self, permille: u64) -> Option<Duration> {
        let wanted = (self.count() * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.filter(|bucket| *bucket < BUCKETS - 1).map(bound)
    }

    /// The end of the last bucket but one: longer latencies are only counted.
    pub fn longest() -> Duration {
        bound(BUCKETS - 2)
    }

    /// How many were shorter than each power of two from 1.024 us to 17.2 s, rising.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut seen = 0;
        self.counts.iter().enumerate().take(BUCKETS - 1).filter_map(move |(bucket, count)| {
            seen += count;
            bucket.is_multiple_of(4).then(|| (bound(bucket), seen))
        })
    }
}

/// What a client has asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Executed requests.
    pub requests: u64,
    /// Bytes of READs among them that succeeded.
    pub read_bytes: u64,
    /// Bytes of WRITEs among them that succeeded.
    pub written_bytes: u64,
    /// Requests that waited: for a store, for memory, for other requests.
    pub waited: u64,
    /// How long these took together.
    pub wait: Duration,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were refused without being executed.
    pub refused: u64,
}

impl ClientCounters {
    /// A request has ended.
    pub(super) fn record(&mut self, request: &Request, waited: Option<u64>, is_ok: bool) {
        self.requests += 1;
        match request.command {
            Command::Read if is_ok => self.read_bytes += request.length,
            Command::Write if is_ok => self.written_bytes += request.length,
            Command::Read | Command::Write => {}
            Command::Flush
            | Command::Trim
            | Command::WriteZeroes
            | Command::Cache
            | Command::BlockStatus
            | Command::Unknown => {}
        }
        if let Some(nanos) = waited {
            self.waited += 1;
            self.wait += Duration::from_nanos(nanos);
        }
        self.failed += u64::from(!is_ok);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_in_the_bucket_whose_bounds_enclose_it() {
        for nanos in (0..40_000).chain((16..63).flat_map(|log| [(1 << log) - 1, 1 << log])) {
            let (place, length) = (bucket(nanos), Duration::from_nanos(nanos));
            assert!(place == BUCKETS - 1 || length < bound(place), "{nanos}");
            assert!(place == 0 || length >= bound(place - 1), "{nanos}");
        }
    }

    #[test]
    fn bytes_of_requests_that_failed_are_not_counted() {
        let mut counters = ClientCounters::default();
        for (command, is_ok) in
            [(Command::Read, true), (Command::Write, false), (Command::Read, false)]
        {
            let (cookie, offset, length) = (0, 0, 4096);
            let [fua, no_hole, one_extent] = [false; 3];
            let request = Request { cookie, command, offset, length, fua, no_hole, one_extent };
            counters.record(&request, None, is_ok);
        }
        assert_eq!((counters.requests, counters.failed), (3, 2));
        assert_eq!((counters.read_bytes, counters.written_bytes), (4096, 0));
    }

    #[test]
    fn a_percentile_is_at_most_a_quarter_too_long() {
        let histogram = Histogram::default();
        assert_eq!(histogram.report().permille(500), None);
        for micros in 1..=1000 {
            histogram.record(micros * 1000);
        }
        let report = histogram.report();
        assert_eq!((report.count(), report.total), (1000, Duration::from_micros(500_500)));
        for permille in [1, 10, 500, 990, 999, 1000] {
            let (exact, told) = (permille as f64, report.permille(permille).unwrap());
            let told = told.as_nanos() as f64 / 1000.0;
            assert!(told >= exact && told <= exact * 1.26, "{permille}: {told}");
        }
        let bounds: Vec<_> = report.cumulative().collect();
        assert_eq!(bounds.len(), OCTAVES + 1);
        assert_eq!(bounds[0], (Duration::from_nanos(1024), 1));
        assert_eq!(bounds[24], (Duration::from_nanos(1 << 34), 1000));
        assert_eq!(LatencyReport::longest(), Duration::from_nanos(1 << 34));
        histogram.record(18_000_000_000);
        assert_eq!(histogram.report().permille(1000), None, "longer than all bounds");
    }
}
