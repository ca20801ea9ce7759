//! What happens: one sample of the kernel's counters.
//!
//! Counters grow from boot on; a rate is the difference of two samples.
//!
//! ```text
//!   text of a file ---> pressure, vmstat, meminfo, diskstats, bdi    pure: text in, values out
//!   open files -------> Sampler                                      one buffer, no allocation
//! ```

use forebay_core::time::Instant;

use crate::number::DevNumber;

pub mod bdi;
pub mod diskstats;
pub mod meminfo;
pub mod pressure;
pub mod sampler;
pub mod text;
pub mod vmstat;

pub use sampler::{Sampler, Unsampled};
pub use text::{Malformed, Text};

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When it was taken, by the monotonic clock.
    pub at: Instant,
    /// `/proc/pressure/io`; none without pressure stall information.
    pub io_pressure: Option<Pressure>,
    /// `/proc/vmstat`.
    pub vm: VmCounts,
    /// Bytes of page cache, from `/proc/meminfo`.
    pub cached: u64,
    /// Bytes that could be had without swapping, from the same file.
    pub available: u64,
    /// `/proc/diskstats`, whole devices only, in its order.
    pub disks: Vec<DiskCounts>,
    /// `bdi/MAJ:MIN/stats` of debugfs, where it may be read.
    pub bdis: Vec<BdiCounts>,
}

/// Stall of tasks that wait for a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Time in which some task stood still, in us since boot.
    pub some_us: u64,
    /// Time in which all did, in us since boot.
    pub full_us: u64,
    /// Share of the last 10 s in which some task stood still, in hundredths of a percent.
    pub some_avg10: u32,
    /// The same for all tasks.
    pub full_avg10: u32,
}

/// What is used of `/proc/vmstat`; levels in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmCounts {
    /// Dirty pages.
    pub dirty: u64,
    /// Pages on their way to a device.
    pub writeback: u64,
    /// The limit in force.
    pub dirty_threshold: u64,
    /// The background level in force.
    pub dirty_background_threshold: u64,
    /// Pages that became dirty so far.
    pub dirtied: u64,
    /// Pages written so far.
    pub written: u64,
    /// Faults that waited for a device so far.
    pub major_faults: u64,
    /// Pages that came back soon after they had been evicted, so far.
    pub refaults: u64,
    /// KiB that block devices were asked to read so far; 0 where events are not counted.
    pub kib_in: u64,
    /// KiB that they were asked to write so far.
    pub kib_out: u64,
}

/// What a whole block device did so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Its number.
    pub number: DevNumber,
    /// Its name.
    pub name: String,
    /// Completed reads.
    pub reads: DiskTraffic,
    /// Completed writes.
    pub writes: DiskTraffic,
    /// Requests that are at the device or wait for it.
    pub in_flight: u64,
    /// Time with at least one request, in ms.
    pub busy_ms: u64,
    /// Sum over time of the requests in flight, in ms.
    pub queue_ms: u64,
}

impl Clone for DiskCounts {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), ..*self }
    }

    /// Into the memory of the name that was there.
    fn clone_from(&mut self, other: &Self) {
        let mut name = std::mem::take(&mut self.name);
        name.clone_from(&other.name);
        *self = Self { name, ..*other };
    }
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTraffic {
    /// Requests.
    pub requests: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Sum of the requests' times, in ms.
    pub time_ms: u64,
}

/// Writeback of one backing device; levels in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdiCounts {
    /// Its number.
    pub number: DevNumber,
    /// Dirty and not yet on its way.
    pub reclaimable: u64,
    /// On its way.
    pub writeback: u64,
    /// Its own limit in force.
    pub threshold: u64,
    /// Bytes that became dirty so far.
    pub dirtied: u64,
    /// Bytes written so far.
    pub written: u64,
    /// The kernel's estimate of its write bandwidth, in bytes a second.
    pub bandwidth: u64,
}
