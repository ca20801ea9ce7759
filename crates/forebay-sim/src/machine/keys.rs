//! The numbers that a machine file holds: one line each, with dimension and limits.

use super::DeviceKind;

/// What a number measures; it decides which units may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A length of time; kept in nanoseconds.
    Time,
    /// Bytes a second.
    Rate,
    /// Bytes.
    Size,
    /// A kernel setting in KiB.
    Kib,
    /// A part of a whole; kept in parts per million.
    Share,
    /// A number of things.
    Count,
    /// 0 or 1.
    Flag,
}

/// One number of a machine.
#[derive(Debug)]
pub(super) struct Key {
    /// Its table and its name in the table, with a dot between.
    pub(super) name: &'static str,
    pub(super) dimension: Dimension,
    /// The least value that is possible at all, in the base unit.
    pub(super) least: u64,
    /// The greatest value that is possible at all, in the base unit.
    pub(super) most: u64,
    /// The only kind of device that has it; none if every machine has it.
    pub(super) device: Option<DeviceKind>,
}

impl Dimension {
    /// The unit that values are kept and listed in.
    pub const fn base(self) -> &'static str {
        self.units()[0].0
    }

    /// Every unit that may be written, and its size in the base unit, which comes first.
    pub const fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            Self::Rate => &[
                ("bytes/s", 1.0),
                ("MB/s", 1e6),
                ("GB/s", 1e9),
                ("MiB/s", 1_048_576.0),
                ("GiB/s", 1_073_741_824.0),
            ],
            Self::Size => &[
                ("bytes", 1.0),
                ("KiB", 1_024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
                ("GB", 1e9),
                ("TB", 1e12),
            ],
            Self::Kib => &[("KiB", 1.0), ("MiB", 1_024.0)],
            Self::Share => &[("ppm", 1.0), ("percent", 1e4), ("ratio", 1e6)],
            Self::Count => &[("count", 1.0)],
            Self::Flag => &[("flag", 1.0)],
        }
    }
}

const fn key(name: &'static str, dimension: Dimension, least: u64, most: u64) -> Key {
    Key { name, dimension, least, most, device: None }
}

const fn hdd(name: &'static str, dimension: Dimension, least: u64, most: u64) -> Key {
    Key { name, dimension, least, most, device: Some(DeviceKind::Hdd) }
}

const fn fast(name: &'static str, dimension: Dimension, least: u64, most: u64) -> Key {
    Key { name, dimension, least, most, device: Some(DeviceKind::Fast) }
}

/// Every number that a machine may have.
pub(super) static KEYS: &[Key] = &[
    key("memory.page_cache", Dimension::Size, 1 << 20, PETA),
    key("cpu.cores", Dimension::Count, 1, 1_024),
    // A call takes time: a job that runs for a time would otherwise never end.
    key("cpu.syscall", Dimension::Time, 1, SECOND),
    key("cpu.page_lookup", Dimension::Time, 0, SECOND),
    key("cpu.page_alloc", Dimension::Time, 0, SECOND),
    key("cpu.copy_rate", Dimension::Rate, 1_000, PETA),
    key("cpu.context_switch", Dimension::Time, 0, SECOND),
    key("cpu.interrupt", Dimension::Time, 0, SECOND),
    key("cpu.request_submit", Dimension::Time, 0, SECOND),
    key("kernel.read_ahead_kb", Dimension::Kib, 0, 1 << 22),
    key("kernel.max_sectors_kb", Dimension::Kib, 4, 1 << 22),
    key("kernel.large_folios", Dimension::Flag, 0, 1),
    key("kernel.plug_requests", Dimension::Count, 0, 1_024),
    key("kernel.plug_delay", Dimension::Time, 0, SECOND),
    key("layout.span", Dimension::Share, 1, 1_000_000),
    key("layout.start", Dimension::Share, 0, 1_000_000),
    key("device.capacity", Dimension::Size, 1 << 20, PETA),
    hdd("device.rate_outer", Dimension::Rate, 1_000, PETA),
    hdd("device.inner_share", Dimension::Share, 1, 1_000_000),
    hdd("device.interface_rate", Dimension::Rate, 1_000, PETA),
    hdd("device.command", Dimension::Time, 0, SECOND),
    hdd("device.seek_min", Dimension::Time, 0, SECOND),
    hdd("device.seek_third", Dimension::Time, 0, SECOND),
    hdd("device.seek_full", Dimension::Time, 0, SECOND),
    hdd("device.rotation", Dimension::Time, 0, SECOND),
    hdd("device.segment", Dimension::Size, 0, 1 << 32),
    hdd("device.write_cache", Dimension::Size, 0, 1 << 32),
    fast("device.units", Dimension::Count, 1, crate::device::fast::UNITS_MAX as u64),
    fast("device.delay", Dimension::Time, 0, 60 * SECOND),
    fast("device.unit_rate", Dimension::Rate, 1_000, PETA),
    fast("device.link_rate", Dimension::Rate, 1_000, PETA),
    fast("device.stripe", Dimension::Size, 4_096, 1 << 32),
    key("device.jitter", Dimension::Share, 0, 2_000_000),
];

/// Pairs of times of which the first must not be longer than the second.
pub(super) static ORDERED: &[(&str, &str)] =
    &[("device.seek_min", "device.seek_third"), ("device.seek_third", "device.seek_full")];

/// Keys that hold a text: what may be written, or nothing if any text may.
pub(super) static TEXTS: &[(&str, &[&str])] = &[
    ("summary", &[]),
    ("kernel.readahead", &[]),
    ("layout.placement", PLACEMENTS),
    ("device.type", &["hdd", "fast"]),
];

/// How files may be placed.
pub(super) const PLACEMENTS: &[&str] = &["contiguous", "scattered"];

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// 10^15: a petabyte, or a petabyte a second. Doubles are exact up to nine times that.
const PETA: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_unit_has_size_one() {
        for key in KEYS {
            assert_eq!(key.dimension.units()[0], (key.dimension.base(), 1.0));
            assert!(key.least < key.most && key.most < 1 << 53, "{}", key.name);
        }
    }

    #[test]
    fn no_key_stands_twice() {
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.extend(TEXTS.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
