//! What a device was seen to do: how long a request takes, and how many bytes it moves meanwhile.
//!
//! ```text
//!   time |            x large reads
//!        |        .
//!        |    .          slope: time of a byte
//!        | x             small reads
//!        +-------------- bytes
//!          ^ intercept: time of a request
//! ```
//!
//! Two moving averages, of small and of large reads, and the line through them. What was not seen
//! yet is that of a fast virtual disk.

use crate::time::Duration;

/// The time that a device takes for a request and for a byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceSpeed {
    small: Option<Average>,
    large: Option<Average>,
}

/// A moving average of reads.
#[derive(Clone, Copy, Debug)]
struct Average {
    bytes: u64,
    nanos: u64,
}

impl DeviceSpeed {
    /// A read that waited for the device took so long.
    pub fn on_read(&mut self, bytes: u64, took: Duration) {
        if bytes == 0 {
            return;
        }
        let class = if bytes < LARGE { &mut self.small } else { &mut self.large };
        let seen = Average { bytes: bytes.min(BYTES_MAX), nanos: took.0.min(NANOS_MAX) };
        let before = class.unwrap_or(seen);
        let mean = |before: u64, seen: u64| (before * (WEIGHT - 1) + seen) / WEIGHT;
        *class = Some(Average {
            bytes: mean(before.bytes, seen.bytes),
            nanos: mean(before.nanos, seen.nanos),
        });
    }

    /// The time of a request without its bytes; at least a microsecond.
    pub fn request(&self) -> Duration {
        let Some(small) = self.small else { return REQUEST };
        let bytes = self.per_mib().saturating_mul(small.bytes) >> 20;
        Duration(small.nanos.saturating_sub(bytes).max(1_000))
    }

    /// The time of so many bytes without the request.
    pub fn transfer(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(self.per_mib()) * u128::from(bytes)) >> 20;
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Nanoseconds of a MiB; at least one.
    fn per_mib(&self) -> u64 {
        let Some(large) = self.large else { return PER_MIB };
        let small = self.small.unwrap_or(Average { bytes: 0, nanos: REQUEST.0 });
        let bytes = large.bytes.saturating_sub(small.bytes).max(1);
        let nanos = large.nanos.saturating_sub(small.nanos);
        ((nanos << 20) / bytes).max(1)
    }
}

/// Bytes of a large read: it takes much longer than a request alone on most devices.
const LARGE: u64 = 32 << 10;

/// A new observation counts for one in so many.
const WEIGHT: u64 = 8;

/// No single observation counts for more than 4 s.
const NANOS_MAX: u64 = 4_000_000_000;

/// Nor for more than a GiB.
const BYTES_MAX: u64 = 1 << 30;

/// A request of a virtual disk on flash.
const REQUEST: Duration = Duration::from_micros(100);

/// Nanoseconds of a MiB at 1 GB/s.
const PER_MIB: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of a read on a device with this time for a request and for a byte.
    fn seen(request: u64, byte: u64) -> DeviceSpeed {
        let mut speed = DeviceSpeed::default();
        for _ in 0..100 {
            for bytes in [4096, 128 << 10] {
                speed.on_read(bytes, Duration(request + byte * bytes));
            }
        }
        speed
    }

    #[test]
    fn a_device_is_known_by_its_requests_and_its_bytes() {
        // A virtual disk, a device of 20 MB/s and 1000 requests a second, a disk with an arm.
        for (request, byte) in [(70_000, 1), (1_000_000, 50), (8_000_000, 7)] {
            let speed = seen(request, byte);
            let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 20 + 1;
            assert!(near(speed.request().0, request), "{request} {byte}: {speed:?}");
            assert!(near(speed.transfer(1 << 20).0, byte << 20), "{request} {byte}: {speed:?}");
        }
    }

    #[test]
    fn nothing_seen_is_a_fast_virtual_disk_and_any_numbers_are_survived() {
        let mut speed = DeviceSpeed::default();
        assert_eq!(speed.request(), REQUEST);
        assert_eq!(speed.transfer(1 << 20), Duration(PER_MIB));
        for bytes in [0, 1, u64::MAX, LARGE] {
            for nanos in [0, 1, u64::MAX] {
                speed.on_read(bytes, Duration(nanos));
                assert!(speed.request().0 >= 1_000);
                speed.transfer(u64::MAX);
            }
        }
    }
}
