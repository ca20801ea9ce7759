//! What a machine file holds: one line each, numbers with dimension and limits, and texts.

use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::policy::{Slot, Spec, SpecError};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_core::units::PAGE_SIZE;

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
    /// What every value is a multiple of, in the base unit.
    pub(super) step: u64,
    /// The kinds of device that have it; none if every machine has it.
    pub(super) devices: &'static [DeviceKind],
    /// What stands if a file leaves it out, in the base unit; a key without must be written.
    pub(super) default: Option<u64>,
}

/// Whether a text is a policy of some slot.
pub(super) type IsPolicy = fn(&str) -> Result<(), SpecError>;

/// One text of a machine.
#[derive(Debug)]
pub(super) struct Text {
    /// Its table and its name in the table, with a dot between.
    pub(super) name: &'static str,
    /// What may be written; nothing if any text may.
    pub(super) allowed: &'static [&'static str],
    /// What says whether it is a policy, if it has to be one.
    pub(super) policy: Option<IsPolicy>,
    /// Its description, for the error about another value.
    pub(super) what: &'static str,
    /// The kinds of device that have it; none if every machine has it.
    pub(super) devices: &'static [DeviceKind],
    /// What stands if a file leaves it out; a text without must be written.
    pub(super) default: Option<&'static str>,
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
    Key { name, dimension, least, most, step: 1, devices: &[], default: None }
}

impl Key {
    /// The same key, for these kinds of device only.
    const fn of(self, devices: &'static [DeviceKind]) -> Self {
        Self { devices, ..self }
    }

    /// The same key, in whole steps.
    const fn in_steps(self, step: u64) -> Self {
        Self { step, ..self }
    }

    /// The same key, which a file may leave out.
    const fn or(self, default: u64) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Whether a device of `kind` has it.
    pub(super) fn belongs_to(&self, kind: DeviceKind) -> bool {
        self.devices.is_empty() || self.devices.contains(&kind)
    }
}

/// A text that may be anything.
const fn text(name: &'static str, what: &'static str) -> Text {
    Text { name, allowed: &[], policy: None, what, devices: &[], default: None }
}

/// A text that is a policy of a slot.
const fn policy<T: Slot + ?Sized>(name: &'static str, what: &'static str) -> Text {
    Text { policy: Some(is_policy::<T>), ..text(name, what) }
}

fn is_policy<T: Slot + ?Sized>(written: &str) -> Result<(), SpecError> {
    Spec::<T>::parse(written).map(drop)
}

/// A text that is one of several.
const fn choice(name: &'static str, allowed: &'static [&'static str]) -> Text {
    Text { name, allowed, ..text(name, "") }
}

impl Text {
    /// The same text, for these kinds of device only.
    const fn of(self, devices: &'static [DeviceKind]) -> Self {
        Self { devices, ..self }
    }

    /// The same text, which a file may leave out.
    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Whether a device of `kind` has it.
    pub(super) fn belongs_to(&self, kind: DeviceKind) -> bool {
        self.devices.is_empty() || self.devices.contains(&kind)
    }

    /// Whether it may be `written`.
    pub(super) fn takes(&self, written: &str) -> bool {
        !written.trim().is_empty() && (self.allowed.is_empty() || self.allowed.contains(&written))
    }
}

/// Devices that are described as a disk, or as several of them.
const DISKS: &[DeviceKind] = &[DeviceKind::Hdd, DeviceKind::Raid0];
const SATA_OR_SCSI: &[DeviceKind] = &[DeviceKind::Hdd, DeviceKind::Raid0, DeviceKind::Ssd];
const COMMANDED: &[DeviceKind] =
    &[DeviceKind::Hdd, DeviceKind::Raid0, DeviceKind::Ssd, DeviceKind::OneNand];
const FLASH: &[DeviceKind] = &[DeviceKind::Fast, DeviceKind::Ssd];
const FAST: &[DeviceKind] = &[DeviceKind::Fast];
const SSD: &[DeviceKind] = &[DeviceKind::Ssd];
const RAID0: &[DeviceKind] = &[DeviceKind::Raid0];
const ONENAND: &[DeviceKind] = &[DeviceKind::OneNand];
const PROGRAMMED: &[DeviceKind] = &[DeviceKind::Ssd, DeviceKind::OneNand];

/// Every number that a machine may have. A key's place decides which coordinate of a draw it gets,
/// so a new key goes to the end.
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
    key("device.rate_outer", Dimension::Rate, 1_000, PETA).of(DISKS),
    key("device.inner_share", Dimension::Share, 1, 1_000_000).of(DISKS),
    key("device.interface_rate", Dimension::Rate, 1_000, PETA).of(SATA_OR_SCSI),
    key("device.command", Dimension::Time, 0, SECOND).of(COMMANDED),
    key("device.seek_min", Dimension::Time, 0, SECOND).of(DISKS),
    key("device.seek_third", Dimension::Time, 0, SECOND).of(DISKS),
    key("device.seek_full", Dimension::Time, 0, SECOND).of(DISKS),
    key("device.rotation", Dimension::Time, 0, SECOND).of(DISKS),
    key("device.segment", Dimension::Size, 0, 1 << 32).of(DISKS),
    key("device.write_cache", Dimension::Size, 0, 1 << 32).of(SATA_OR_SCSI),
    key("device.units", Dimension::Count, 1, crate::device::fast::UNITS_MAX as u64).of(FAST),
    key("device.delay", Dimension::Time, 0, 60 * SECOND).of(FAST),
    key("device.unit_rate", Dimension::Rate, 1_000, PETA).of(FAST),
    key("device.link_rate", Dimension::Rate, 1_000, PETA).of(FAST),
    key("device.stripe", Dimension::Size, 4_096, 1 << 32).of(FLASH),
    key("device.jitter", Dimension::Share, 0, 2_000_000),
    key("cpu.page_dirty", Dimension::Time, 0, SECOND),
    key("cpu.flush_page", Dimension::Time, 0, SECOND),
    key("cpu.flush_scan", Dimension::Time, 0, SECOND),
    key("cpu.frame_scan", Dimension::Time, 0, SECOND).or(0),
    key("kernel.write_requests", Dimension::Count, 1, 65_536),
    key("device.flush", Dimension::Time, 0, 60 * SECOND).of(FLASH),
    key("device.members", Dimension::Count, 1, MEMBERS_MAX).of(RAID0),
    key("device.stripe_unit", Dimension::Size, PAGE_SIZE, 1 << 30).of(RAID0).in_steps(PAGE_SIZE),
    key("device.bus_rate", Dimension::Rate, 1_000, PETA).of(RAID0),
    key("device.dies", Dimension::Count, 1, crate::device::ssd::DIES_MAX as u64).of(SSD),
    key("device.flash", Dimension::Size, 1 << 20, PETA).of(SSD),
    key("device.flash_rate", Dimension::Rate, 1_000, PETA).of(SSD),
    key("device.buffer", Dimension::Size, 0, PETA).of(SSD),
    key("device.buffer_rate", Dimension::Rate, 1_000, PETA).of(SSD),
    key("device.fold_rate", Dimension::Rate, 0, PETA).of(SSD),
    key("device.fold_after", Dimension::Time, 0, 3_600 * SECOND).of(SSD),
    key("device.live", Dimension::Size, 0, PETA).of(SSD),
    key("device.random_region", Dimension::Size, 0, PETA).of(SSD),
    key("device.efficiency", Dimension::Share, 1_000, 1_000_000).of(SSD),
    key("device.write_command", Dimension::Time, 0, SECOND).of(SSD),
    key("device.read", Dimension::Time, 0, SECOND).of(SSD),
    key("device.program", Dimension::Time, 0, SECOND).of(PROGRAMMED),
    // Only the array's machine has a program that was measured character by character.
    key("cpu.put_char", Dimension::Time, 0, SECOND).of(RAID0),
    key("cpu.get_char", Dimension::Time, 0, SECOND).of(RAID0),
    key("kernel.queue_depth", Dimension::Count, 0, 65_536).or(0),
    key("cpu.cache", Dimension::Size, 0, 1 << 32).or(0),
    key("cpu.footprint", Dimension::Size, 0, 1 << 32).or(0),
    key("cpu.refill", Dimension::Time, 0, SECOND).or(0),
    key("device.load", Dimension::Time, 0, SECOND).of(ONENAND),
    key("device.transfer", Dimension::Time, 0, SECOND).of(ONENAND),
    key("device.register", Dimension::Time, 0, SECOND).of(ONENAND),
    key("device.polls", Dimension::Flag, 0, 1).of(ONENAND),
    key("device.overlap", Dimension::Flag, 0, 1).of(ONENAND),
    key("device.tail", Dimension::Share, 0, 1_000_000).of(FAST).or(0),
    key("device.tail_delay", Dimension::Time, 0, 60 * SECOND).of(FAST).or(0),
    key("cpu.decode_page", Dimension::Time, 0, SECOND).or(0),
    key("cpu.decode_block", Dimension::Time, 0, SECOND).or(0),
    key("cpu.decode_cold", Dimension::Time, 0, SECOND).or(0),
    key("cpu.fault", Dimension::Time, 0, SECOND).or(0),
    key("device.write_delay", Dimension::Time, 0, 60 * SECOND).of(FAST).or(0),
    key("device.write_rate", Dimension::Rate, 1_000, PETA).of(FAST).or(PETA),
    key("device.write_buffer", Dimension::Size, 0, PETA).of(FAST).or(0),
    key("cpu.folio_alloc", Dimension::Time, 0, SECOND).or(0),
    key("cpu.write_call", Dimension::Time, 0, SECOND).or(0),
    key("device.limit_reads", Dimension::Count, 0, 1_000_000_000).or(0),
    key("device.limit_read_rate", Dimension::Rate, 0, PETA).or(0),
    key("device.limit_writes", Dimension::Count, 0, 1_000_000_000).or(0),
    key("device.limit_write_rate", Dimension::Rate, 0, PETA).or(0),
    key("device.limit_window", Dimension::Time, 1_000_000, 60 * SECOND).or(100_000_000),
];

/// What the number `name` measures.
pub(crate) fn dimension(name: &str) -> Option<Dimension> {
    KEYS.iter().find(|key| key.name == name).map(|key| key.dimension)
}

/// What every value of the number `name` is a multiple of.
pub(super) fn step(name: &str) -> u64 {
    KEYS.iter().find(|key| key.name == name).map_or(1, |key| key.step)
}

/// Pairs of numbers of which the first must not be greater than the second.
pub(super) static ORDERED: &[(&str, &str)] = &[
    ("device.seek_min", "device.seek_third"),
    ("device.seek_third", "device.seek_full"),
    ("device.random_region", "device.live"),
    ("device.live", "device.capacity"),
    ("device.capacity", "device.flash"),
    ("device.stripe_unit", "device.capacity"),
];

/// Every text that a machine may have, in the order of the listing.
pub(super) static TEXTS: &[Text] = &[
    text("summary", "a sentence"),
    policy::<dyn Readahead>("kernel.readahead", "a readahead policy"),
    policy::<dyn Flush>("kernel.flush", "a flush policy"),
    policy::<dyn Throttle>("kernel.throttle", "a throttle policy"),
    policy::<dyn Controller>("kernel.controller", "a controller"),
    policy::<dyn Reclaim>("kernel.reclaim", "a reclaim policy").or("two-lists"),
    policy::<dyn Elevator>("kernel.elevator", "an elevator").or("none"),
    policy::<dyn Dispatch>("kernel.dispatch", "a rule of dispatch").or("deferred"),
    choice("kernel.scheduler", SCHEDULERS).or("round-robin"),
    choice("layout.placement", PLACEMENTS),
    choice("device.type", KINDS),
    choice("device.medium", MEDIA).of(FAST).or("solid"),
];

/// The text `name`, if it is one.
pub(super) fn find_text(name: &str) -> Option<&'static Text> {
    TEXTS.iter().find(|text| text.name == name)
}

/// The types of device.
const KINDS: &[&str] = &["hdd", "fast", "ssd", "raid0", "onenand"];

/// What a fast device may be made of.
const MEDIA: &[&str] = &["solid", "remote"];

/// The schedulers.
const SCHEDULERS: &[&str] = &["round-robin", "o1", "fair"];

/// How files may be placed.
const PLACEMENTS: &[&str] = &["contiguous", "scattered"];

/// The most members of an array.
const MEMBERS_MAX: u64 = 64;

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
            assert!(key.least.is_multiple_of(key.step) && key.step > 0, "{}", key.name);
        }
    }

    #[test]
    fn no_key_stands_twice() {
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.extend(TEXTS.iter().map(|text| text.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_stands_for_a_key_that_is_left_out_is_possible() {
        for key in KEYS {
            let possible = |value: u64| {
                (key.least..=key.most).contains(&value) && value.is_multiple_of(key.step)
            };
            assert!(key.default.is_none_or(possible), "{}", key.name);
        }
        for text in TEXTS {
            assert!(text.default.is_none_or(|default| text.takes(default)), "{}", text.name);
        }
    }

    #[test]
    fn every_key_is_on_the_page_of_the_devices() {
        let page = include_str!("../../../../docs/devices.md");
        // The page has seek curves in one row: `device.seek_min`, `seek_third`, `seek_full`.
        let has = |name: &str| {
            let short = name.strip_prefix("device.").unwrap_or(name);
            page.contains(&format!("`{name}`")) || page.contains(&format!(", `{short}`"))
        };
        let keys = KEYS.iter().map(|key| key.name).chain(TEXTS.iter().map(|text| text.name));
        let missing: Vec<&str> = keys.filter(|name| !has(name)).collect();
        assert_eq!(missing, [""; 0]);
    }
}
