//! Statistics of a trace: operations, sizes, sequentiality, arrival, reuse.

use crate::record::{Layer, Op, Record};
use crate::reuse::ReuseDistances;

/// Counts by powers of two: bucket n counts values of at least 2^(n-1) and below 2^n; zero comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets(pub [u64; 65]);

/// Requests of one file or device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStatistics {
    /// Requests that move data.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The byte after the last requested one.
    pub end: u64,
    /// Where the request before it ended.
    last_end: Option<u64>,
}

/// Statistics of a trace.
pub struct Statistics {
    /// Requests by operation, in the order of [`Op::ALL`].
    pub ops: [u64; 9],
    /// Bytes read, written and discarded.
    pub read_bytes: u64,
    /// See `read_bytes`.
    pub written_bytes: u64,
    /// See `read_bytes`.
    pub discarded_bytes: u64,
    /// Sizes of reads and writes, in bytes.
    pub read_sizes: Buckets,
    /// See `read_sizes`.
    pub write_sizes: Buckets,
    /// How many powers of two divide both offset and length of a request: how it is aligned.
    pub alignment: Buckets,
    /// Requests that begin where the one before them of the same volume ended.
    pub sequential: u64,
    /// Time between requests, in nanoseconds.
    pub gaps: Buckets,
    /// The time of the latest request.
    pub span: u64,
    /// Requests in the fullest second.
    pub second_max: u64,
    /// How long requests took, in nanoseconds, if the trace has it.
    pub took: Buckets,
    /// Each file or device, by number.
    pub volumes: Vec<VolumeStatistics>,
    /// Pages of 4 KiB that requests touched.
    pub page_touches: u64,
    /// How far apart uses of a page were.
    pub reuse: Option<ReuseDistances>,
    /// Offsets are numbers of objects, not addresses.
    has_objects: bool,
    last_time: Option<u64>,
    second: (u64, u64),
}

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Pages of one request whose reuse is looked at.
const PAGES_MAX: u64 = 1 << 16;

impl Default for Buckets {
    fn default() -> Self {
        Self([0; 65])
    }
}

impl Buckets {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.0[(64 - value.leading_zeros()) as usize] += 1;
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Buckets that have something: the least value of each, and how many.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let least = |bucket: usize| if bucket == 0 { 0 } else { 1 << (bucket - 1) };
        let filled = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(move |(bucket, count)| (least(bucket), *count))
    }

    /// The least value of the bucket in which a share of all values is reached.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.filled().find_map(|(least, count)| {
            seen += count;
            (seen >= wanted).then_some(least)
        })
    }
}

impl Statistics {
    /// Nothing yet, of a trace from this layer; reuse distances take most of the time, and are left
    /// out if not wanted.
    pub fn new(layer: Layer, with_reuse: bool) -> Self {
        Self {
            ops: [0; 9],
            read_bytes: 0,
            written_bytes: 0,
            discarded_bytes: 0,
            read_sizes: Buckets::default(),
            write_sizes: Buckets::default(),
            alignment: Buckets::default(),
            sequential: 0,
            gaps: Buckets::default(),
            span: 0,
            second_max: 0,
            took: Buckets::default(),
            volumes: Vec::new(),
            page_touches: 0,
            reuse: with_reuse.then(ReuseDistances::default),
            has_objects: layer == Layer::Object,
            last_time: None,
            second: (0, 0),
        }
    }

    /// Counts a request.
    pub fn add(&mut self, record: &Record) {
        let Record { time, op, object, offset, len, took, .. } = *record;
        self.ops[op as usize] += 1;
        if let Some(last) = self.last_time {
            self.gaps.add(time.saturating_sub(last));
        }
        self.last_time = Some(time);
        self.span = self.span.max(time);
        let second = time / 1_000_000_000;
        if second != self.second.0 {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        self.second_max = self.second_max.max(self.second.1);
        if let Some(took) = took {
            self.took.add(took);
        }
        let volume = object as usize;
        if self.volumes.len() <= volume {
            self.volumes.resize(volume + 1, VolumeStatistics::default());
        }
        if !op.moves_data() {
            return;
        }
        match op {
            Op::Read => {
                self.read_bytes = self.read_bytes.saturating_add(len);
                self.read_sizes.add(len);
            }
            Op::Write => {
                self.written_bytes = self.written_bytes.saturating_add(len);
                self.write_sizes.add(len);
            }
            Op::Discard
            | Op::Sync
            | Op::DataSync
            | Op::Flush
            | Op::Open
            | Op::Close
            | Op::Truncate => self.discarded_bytes = self.discarded_bytes.saturating_add(len),
        }
        let aligned = offset | len;
        self.alignment.add(aligned & aligned.wrapping_neg());
        let end = offset.saturating_add(len);
        let volume = &mut self.volumes[volume];
        self.sequential += u64::from(volume.last_end == Some(offset));
        volume.last_end = Some(end);
        volume.requests += 1;
        volume.bytes = volume.bytes.saturating_add(len);
        volume.end = volume.end.max(end);
        let (first, last) = if self.has_objects {
            (offset, offset)
        } else {
            (offset / PAGE, end.saturating_sub(1) / PAGE)
        };
        self.page_touches = self.page_touches.saturating_add(last - first + 1);
        if let (Some(reuse), true) = (&mut self.reuse, op != Op::Discard) {
            for page in first..=last.min(first.saturating_add(PAGES_MAX - 1)) {
                reuse.touch(object, page);
            }
        }
    }

    /// Requests of one operation.
    pub fn of(&self, op: Op) -> u64 {
        self.ops[op as usize]
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// Requests that move data.
    pub fn data_requests(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.requests).sum()
    }
}
