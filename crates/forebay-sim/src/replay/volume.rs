//! What requests to a volume came to, while they end and afterwards.

use forebay_core::time::{Duration, Instant};

use crate::span::Span;
use crate::stats::{Latencies, Summary};

/// What one volume was served.
#[derive(Clone, Debug, Default)]
pub struct VolumeOutcome {
    /// Its reads.
    pub reads: Summary,
    /// Its writes.
    pub writes: Summary,
    /// Its flushes.
    pub flushes: Summary,
    /// Its discards.
    pub discards: Summary,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// From its first request to the end of its last.
    pub elapsed: Duration,
}

/// The requests to a volume that have ended.
#[derive(Debug, Default)]
pub struct VolumeTotals {
    // Most volumes have no requests of some kinds.
    latencies: [Option<Box<Latencies>>; VolumeRequest::COUNT],
    bytes: u64,
    errors: u64,
    span: Span,
}

/// The kinds of requests to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeRequest {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was written is made durable.
    Flush,
    /// Bytes are needed no more.
    Discard,
}

impl VolumeRequest {
    const COUNT: usize = 4;

    fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

impl VolumeTotals {
    /// A request has ended, with the bytes that it was about or an error.
    pub fn count<E>(
        &mut self,
        request: VolumeRequest,
        (issued, done): (Instant, Instant),
        result: &Result<u64, E>,
    ) {
        let latencies = self.latencies[request as usize].get_or_insert_default();
        latencies.record(done.since(issued));
        match result {
            Ok(bytes) if request.moves_bytes() => self.bytes += bytes,
            Ok(_) => {}
            Err(_) => self.errors += 1,
        }
        self.span.extend(issued, done);
    }

    /// The requests to some volumes together.
    pub fn sum<'a>(volumes: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for one in volumes {
            for (sum, one) in all.latencies.iter_mut().zip(&one.latencies) {
                if let Some(one) = one {
                    sum.get_or_insert_default().merge(one);
                }
            }
            all.bytes += one.bytes;
            all.errors += one.errors;
            all.span.merge(one.span);
        }
        all
    }

    /// What they came to.
    pub fn outcome(&self) -> VolumeOutcome {
        let [reads, writes, flushes, discards] = self.latencies.each_ref().map(|latencies| {
            latencies.as_ref().map_or_else(Summary::default, |latencies| latencies.summary())
        });
        let (bytes, errors, elapsed) = (self.bytes, self.errors, self.span.length());
        VolumeOutcome { reads, writes, flushes, discards, bytes, errors, elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_add_up_and_only_reads_and_writes_move_bytes() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut one = VolumeTotals::default();
        one.count(VolumeRequest::Read, (at(5), at(7)), &Ok::<_, ()>(4096));
        one.count(VolumeRequest::Discard, (at(2), at(3)), &Ok::<_, ()>(1 << 20));
        let mut other = VolumeTotals::default();
        other.count(VolumeRequest::Write, (at(9), at(10)), &Ok::<_, ()>(512));
        other.count(VolumeRequest::Flush, (at(9), at(30)), &Err(()));
        let all = VolumeTotals::sum([&one, &other, &VolumeTotals::default()]).outcome();
        assert_eq!((all.bytes, all.errors), (4608, 1));
        let counts = [all.reads, all.writes, all.flushes, all.discards].map(|one| one.count);
        assert_eq!(counts, [1, 1, 1, 1]);
        assert_eq!(all.elapsed, Duration::from_millis(28));
        assert_eq!(one.outcome().elapsed, Duration::from_millis(5));
    }
}
