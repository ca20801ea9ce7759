//! Devices: when a request is done.
//!
//! A device is a clockwork: given the moment and an access it says when it starts and ends. It
//! serves requests in the order they are given, whatever order it then completes them in, and keeps
//! its own busy times; the moments given never go back. Wrappers stack: a [`Faulty`] device is a
//! device around another one.
//!
//! | file | what |
//! | --- | --- |
//! | [`hdd`] | one arm over one spindle: seek, rotation, zones, the drive's own prefetch |
//! | [`fast`] | k units side by side behind one link: NVMe, virtual disks, nothing at all |
//! | [`ssd`] | dies behind a SATA link: one-bit buffer, slower flash, garbage collection |
//! | [`onenand`] | flash behind two page buffers that the host's processor empties itself |
//! | [`raid0`] | stripes over members of any kind, behind one bus |
//! | [`faulty`] | a wrapper that fails or delays chosen requests |
//! | [`limited`] | a wrapper that holds requests back beyond a limit a second |

use std::fmt::Debug;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

pub use fast::{Fast, FastParameters};
pub use faulty::{FaultPlan, Faulty};
pub use hdd::{Hdd, HddParameters};
pub use limited::{Limit, Limited, Limits};
pub use onenand::{OneNand, OneNandParameters};
pub use raid0::{Raid0, Raid0Parameters};
pub use ssd::{Ssd, SsdParameters};

pub mod fast;
pub mod faulty;
pub mod hdd;
pub mod limited;
pub mod onenand;
pub mod raid0;
pub mod ssd;

/// Something that serves requests.
pub trait Device: Debug + Send {
    /// Takes one request at `now`, which is never before the `now` of the previous call.
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion;

    /// Whether the host's processor moves the data word by word, in a thread of the driver.
    fn programmed(&self) -> bool {
        false
    }
}

/// One request at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// The first sector.
    pub sector: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// What to do with them.
    pub command: Command,
}

/// Commands to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Data come from the device.
    Read,
    /// Data go to the device; it may keep them in a cache that loses them with the power.
    Write,
    /// Data go to the device and are safe when it is done (force unit access).
    DurableWrite,
    /// All writes that are done become safe; the access has no sectors.
    Flush,
    /// The sectors are needed no more: a command without data.
    Discard,
}

/// When a request starts and ends, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When the device begins to work on it.
    pub start: Instant,
    /// When the device is done with it.
    pub done: Instant,
    /// What the transfer takes of the host's processor between start and end; nothing if the device
    /// moves the data itself.
    pub cpu: Duration,
    /// Whether the data were moved.
    pub outcome: Outcome,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The data were moved.
    Success,
    /// The device reported an error.
    Failure,
}

impl Completion {
    /// The data were moved, and the host's processor had no part in it.
    pub const fn success(start: Instant, done: Instant) -> Self {
        Self { start, done, cpu: Duration::ZERO, outcome: Outcome::Success }
    }
}

impl DeviceAccess {
    /// A read of `sectors` from `sector`.
    pub const fn read(sector: u64, sectors: u64) -> Self {
        Self { sector, sectors, command: Command::Read }
    }

    /// A write of `sectors` from `sector`.
    pub const fn write(sector: u64, sectors: u64) -> Self {
        Self { sector, sectors, command: Command::Write }
    }

    /// A write of `sectors` from `sector` that is safe when it is done.
    pub const fn durable_write(sector: u64, sectors: u64) -> Self {
        Self { sector, sectors, command: Command::DurableWrite }
    }

    /// A flush of all writes that are done.
    pub const fn flush() -> Self {
        Self { sector: 0, sectors: 0, command: Command::Flush }
    }

    /// A discard of `sectors` from `sector`.
    pub const fn discard(sector: u64, sectors: u64) -> Self {
        Self { sector, sectors, command: Command::Discard }
    }

    /// The first sector behind the access.
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors)
    }

    /// The number of bytes.
    pub const fn bytes(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR_SIZE)
    }
}

/// The time that `bytes` take at `bytes_per_s`, rounded to the nearest nanosecond.
///
/// At the greatest rate that an integer holds, anything below 9 GB takes no time at all.
pub fn transfer_time(bytes: u64, bytes_per_s: u64) -> Duration {
    let rate = bytes_per_s.max(1);
    // Most fit into 64 bits, whose division takes a fraction of the time.
    const NANOS: u64 = NANOS_PER_S as u64;
    let narrow = bytes.checked_mul(NANOS).and_then(|scaled| scaled.checked_add(rate / 2));
    if let Some(scaled) = narrow {
        return Duration(scaled / rate);
    }
    let rate = u128::from(rate);
    let nanos = (u128::from(bytes) * NANOS_PER_S + rate / 2) / rate;
    Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The bytes that `time` suffices for at `bytes_per_s`, rounded down.
pub fn bytes_in(time: Duration, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(time.as_nanos()) * u128::from(bytes_per_s) / NANOS_PER_S;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Nanoseconds of a second.
const NANOS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_times_round_to_the_nearest_nanosecond() {
        assert_eq!(transfer_time(4096, 40_000_000), Duration(102_400));
        assert_eq!(transfer_time(2, 3_000_000_000), Duration(1));
        assert_eq!(transfer_time(1, 3_000_000_000), Duration(0));
        assert_eq!(transfer_time(1 << 40, u64::MAX), Duration(60));
        assert_eq!(transfer_time(8 << 20, u64::MAX), Duration(0));
        // On both sides of what fits into 64 bits.
        assert_eq!(transfer_time(18_446_744_073, 3), Duration(6_148_914_691_000_000_000));
        assert_eq!(transfer_time(18_446_744_074, 3), Duration(6_148_914_691_333_333_333));
        assert_eq!(bytes_in(Duration(102_400), 40_000_000), 4096);
        assert_eq!(bytes_in(Duration(u64::MAX), u64::MAX), u64::MAX);
    }
}
