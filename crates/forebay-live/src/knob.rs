//! The knobs that may ever be written, and what goes for each of them.
//!
//! Source:     the kernel's documentation of `sysfs-class-bdi`, `sysfs-block` and `sysctl/vm`, and
//!             `mm/backing-dev.c` and `mm/page-writeback.c` of Linux 6.12.
//! Behaviour:  a knob has a place, a unit, bounds that are stricter than the kernel's, and a rule
//!             by which it goes back. Only [`Steering`] writes any, after it has put the old value
//!             on record.
//! Differs:    `max_bytes` is never written: the kernel keeps the share of the limit in force, so
//!             the bytes drift. The share itself (`max_ratio_fine`) goes back exactly.
//! Not for:    elevators, write caches, queue depths. They drain queues, lose settings or data.
//!
//! ```text
//!   /sys/class/bdi/7:0/   read_ahead_kb   strict_limit   max_ratio_fine (or max_ratio)
//!   /sys/dev/block/7:0/   queue/wbt_lat_usec                              asked for by name
//!   /proc/sys/vm/         dirty_bytes | dirty_ratio   one knob, two files  asked for by name
//!                         dirty_background_bytes | dirty_background_ratio
//!                         dirty_expire_centisecs
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::number::DevNumber;

pub use event::{Event, Of};
pub use files::{FileGone, Held, OpenFile, started};
pub use identity::Identity;
pub use kernel::Kernel;
pub use sentences::{Descriptors, sentences};
pub use steering::{
    Applied, Began, Brief, Change, Refused, StartError, Steering, Terms, WindowOf, boot,
};
pub use turn::{NoTurn, Patience, Turn};
pub use turns::turn;

pub(crate) use access::{is_absent, stands, write_knob};
pub(crate) use brief::{Moment, Way, brief};
pub(crate) use turns::Turns;

mod access;
mod brief;
mod closing;
mod event;
mod files;
mod identify;
mod identity;
mod kernel;
mod sentences;
mod steering;
mod turn;
mod turns;

/// A knob of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knob {
    /// Largest readahead window of a backing device, latched by each file when it is opened.
    ReadAheadKb(DevNumber),
    /// Whether a backing device's share of the dirty limit binds below the global limits too.
    StrictLimit(DevNumber),
    /// A backing device's greatest share of the dirty limit; since Linux 6.2.
    MaxRatioFine(DevNumber),
    /// The same in percent, for kernels that have nothing finer.
    MaxRatio(DevNumber),
    /// Read latency that writeback throttling of a block device aims at.
    WbtLatUsec(DevNumber),
    /// The level of dirty memory at which writers pause: bytes or a percentage.
    DirtyLimit,
    /// The level of dirty memory above which flusher threads write: bytes or a percentage.
    DirtyBackground,
    /// The age at which a dirty inode is written.
    DirtyExpire,
}

/// What a knob stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// The number in its file, in the knob's unit.
    Number(u64),
    /// For a level of dirty memory: percent of the memory that can be dirty.
    Ratio(u64),
    /// For a level of dirty memory: bytes.
    Bytes(u64),
}

/// What goes for all knobs of one kind.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The kernel's name of it; both names for a knob with two files.
    pub name: &'static str,
    /// What it is, in a sentence's words.
    pub meaning: &'static str,
    /// The unit of [`Value::Number`].
    pub unit: &'static str,
    /// Numbers that we write; the kernel accepts more.
    pub numbers: RangeInclusive<u64>,
    /// What can go wrong when it is written.
    pub hazard: &'static str,
    /// How it goes back.
    pub restore: &'static str,
    /// Whether the user must have asked for it by name.
    pub asked: bool,
    /// What the kernel may round down to, in the unit.
    pub granule: u64,
    /// The place among all knobs when they go back: low first.
    pub rank: u8,
}

impl Knob {
    /// The backing device that it belongs to; none for the whole machine's.
    pub const fn device(self) -> Option<DevNumber> {
        match self {
            Self::ReadAheadKb(device)
            | Self::StrictLimit(device)
            | Self::MaxRatioFine(device)
            | Self::MaxRatio(device)
            | Self::WbtLatUsec(device) => Some(device),
            Self::DirtyLimit | Self::DirtyBackground | Self::DirtyExpire => None,
        }
    }

    /// What goes for it.
    pub const fn rule(self) -> &'static Rule {
        match self {
            Self::ReadAheadKb(_) => &READ_AHEAD_KB,
            Self::StrictLimit(_) => &STRICT_LIMIT,
            Self::MaxRatioFine(_) => &MAX_RATIO_FINE,
            Self::MaxRatio(_) => &MAX_RATIO,
            Self::WbtLatUsec(_) => &WBT_LAT_USEC,
            Self::DirtyLimit => &DIRTY_LIMIT,
            Self::DirtyBackground => &DIRTY_BACKGROUND,
            Self::DirtyExpire => &DIRTY_EXPIRE,
        }
    }

    /// The file that is written to have this value.
    pub fn path(self, value: Value) -> String {
        let bdi = |device: DevNumber, name| format!("/sys/class/bdi/{device}/{name}");
        let vm = |name| format!("/proc/sys/vm/{name}");
        match (self, value) {
            (Self::ReadAheadKb(device), _) => bdi(device, "read_ahead_kb"),
            (Self::StrictLimit(device), _) => bdi(device, "strict_limit"),
            (Self::MaxRatioFine(device), _) => bdi(device, "max_ratio_fine"),
            (Self::MaxRatio(device), _) => bdi(device, "max_ratio"),
            (Self::WbtLatUsec(device), _) => {
                format!("/sys/dev/block/{device}/queue/wbt_lat_usec")
            }
            (Self::DirtyLimit, Value::Bytes(_)) => vm("dirty_bytes"),
            (Self::DirtyLimit, _) => vm("dirty_ratio"),
            (Self::DirtyBackground, Value::Bytes(_)) => vm("dirty_background_bytes"),
            (Self::DirtyBackground, _) => vm("dirty_background_ratio"),
            (Self::DirtyExpire, _) => vm("dirty_expire_centisecs"),
        }
    }

    /// Why a value is not one that we write.
    pub fn unfit(self, to: Value) -> Option<String> {
        let rule = self.rule();
        let (given, range) = match (self, to) {
            (Self::DirtyLimit, Value::Bytes(bytes)) => (bytes, DIRTY_LIMIT_BYTES),
            (Self::DirtyBackground, Value::Bytes(bytes)) => (bytes, DIRTY_BACKGROUND_BYTES),
            (Self::DirtyLimit | Self::DirtyBackground, Value::Ratio(percent)) => (percent, 1..=90),
            (_, Value::Number(number)) if *rule.numbers.end() > 0 => (number, rule.numbers.clone()),
            (_, Value::Number(_) | Value::Ratio(_) | Value::Bytes(_)) => {
                return Some(format!("{} does not come as {}", rule.name, to.kind()));
            }
        };
        let shown = |number| self.show(to.with(number));
        let (least, most) = (*range.start(), *range.end());
        (!range.contains(&given)).then(|| {
            format!("{} is not between {} and {}", shown(given), shown(least), shown(most))
        })
    }

    /// The value with its unit.
    pub fn show(self, value: Value) -> String {
        match value {
            Value::Number(number) => format!("{number}{}", self.rule().unit),
            Value::Ratio(percent) => format!("{percent} %"),
            Value::Bytes(bytes) => format!("{bytes} bytes"),
        }
    }

    /// The nearest value below that the kernel keeps as it is: whole pages for a window, and one
    /// at least.
    pub(crate) fn kept(self, to: Value) -> Value {
        match (self, to) {
            (Self::ReadAheadKb(_), Value::Number(kb)) => {
                let page_kb = (rustix::param::page_size() as u64 / 1024).max(1);
                Value::Number((kb / page_kb * page_kb).max(page_kb))
            }
            (_, Value::Number(_) | Value::Ratio(_) | Value::Bytes(_)) => to,
        }
    }

    /// Whether `found` is what the kernel makes of `asked`.
    pub(crate) fn is_made_of(self, found: Value, asked: Value) -> bool {
        let (Some(made), Some(of)) = (found.number(), asked.number()) else {
            return found == asked;
        };
        of.checked_sub(made).is_some_and(|less| less < self.rule().granule)
    }

    /// Whether it is borrowed at times, so that it is written and judged in a turn alone.
    pub(crate) const fn is_borrowed(self) -> bool {
        matches!(self, Self::ReadAheadKb(_))
    }

    /// What is written where, one after the other, to have `to`.
    ///
    /// While bytes are in force the percentage reads 0, and the kernel changes over only if the
    /// percentage changes: a percentage of 0 comes back by way of 1.
    pub(crate) fn writes(self, to: Value) -> Vec<(String, u64)> {
        let path = self.path(to);
        match (self, to) {
            (Self::DirtyLimit, Value::Ratio(0)) => vec![(path.clone(), 1), (path, 0)],
            (_, Value::Number(number) | Value::Ratio(number) | Value::Bytes(number)) => {
                vec![(path, number)]
            }
        }
    }

    /// Whether `found` is half of what [`Self::writes`] does to have `to`.
    pub(crate) fn is_half_way(self, found: Value, to: Value) -> bool {
        matches!((self, found, to), (Self::DirtyLimit, Value::Ratio(1), Value::Ratio(0)))
    }

    /// All knobs of a backing device.
    pub const fn of_device(device: DevNumber) -> [Self; 5] {
        [
            Self::WbtLatUsec(device),
            Self::MaxRatioFine(device),
            Self::MaxRatio(device),
            Self::StrictLimit(device),
            Self::ReadAheadKb(device),
        ]
    }

    /// All knobs of the whole machine.
    pub const fn of_machine() -> [Self; 3] {
        [Self::DirtyLimit, Self::DirtyBackground, Self::DirtyExpire]
    }

    const fn key(self) -> &'static str {
        match self {
            Self::ReadAheadKb(_) => "read_ahead_kb",
            Self::StrictLimit(_) => "strict_limit",
            Self::MaxRatioFine(_) => "max_ratio_fine",
            Self::MaxRatio(_) => "max_ratio",
            Self::WbtLatUsec(_) => "wbt_lat_usec",
            Self::DirtyLimit => "dirty_limit",
            Self::DirtyBackground => "dirty_background",
            Self::DirtyExpire => "dirty_expire_centisecs",
        }
    }
}

impl fmt::Display for Knob {
    /// `7:0/read_ahead_kb`, `dirty_limit`: a name that reads back.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device() {
            Some(device) => write!(out, "{device}/{}", self.key()),
            None => out.write_str(self.key()),
        }
    }
}

/// Not the name of a knob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the name of a knob")]
pub struct NotAKnob(pub String);

impl FromStr for Knob {
    type Err = NotAKnob;

    fn from_str(text: &str) -> Result<Self, NotAKnob> {
        let wrong = || NotAKnob(text.to_owned());
        let known = match text.split_once('/') {
            Some((device, _)) => Self::of_device(device.parse().map_err(|_| wrong())?).to_vec(),
            None => Self::of_machine().to_vec(),
        };
        known.into_iter().find(|knob| knob.to_string() == text).ok_or_else(wrong)
    }
}

impl Value {
    const fn kind(self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Ratio(_) => "a percentage",
            Self::Bytes(_) => "bytes",
        }
    }

    const fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Ratio(_) | Self::Bytes(_) => None,
        }
    }

    const fn with(self, number: u64) -> Self {
        match self {
            Self::Number(_) => Self::Number(number),
            Self::Ratio(_) => Self::Ratio(number),
            Self::Bytes(_) => Self::Bytes(number),
        }
    }
}

impl fmt::Display for Value {
    /// `128`, `20%`, `1048576B`: reads back.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Ratio(percent) => write!(out, "{percent}%"),
            Self::Bytes(bytes) => write!(out, "{bytes}B"),
        }
    }
}

impl FromStr for Value {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(percent) = text.strip_suffix('%') {
            return percent.parse().map(Self::Ratio);
        }
        match text.strip_suffix('B') {
            Some(bytes) => bytes.parse().map(Self::Bytes),
            None => text.parse().map(Self::Number),
        }
    }
}

/// The smallest readahead window that is ever written, in KiB: below one page each page becomes a
/// request of its own, and reads lose a factor of ten.
pub const WINDOW_KB_MIN: u64 = 16;

/// The largest readahead window that is ever written, in KiB: twice what fills a network link of
/// 300 MB/s behind 2 ms.
pub const WINDOW_KB_MAX: u64 = 32 << 10;

/// The least room for dirty data that a device's share may leave it, in bytes: with less, mapped
/// writes crawl.
pub const SHARE_BYTES_MIN: u64 = 4 << 20;

const READ_AHEAD_KB: Rule = Rule {
    name: "read_ahead_kb",
    meaning: "the readahead window",
    unit: " KiB",
    numbers: WINDOW_KB_MIN..=WINDOW_KB_MAX,
    hazard: "0 makes a request of each page; the kernel raises it when limits of the queue change; \
             files that are open keep what they have",
    restore: "the old value, after all other knobs",
    asked: false,
    // The kernel keeps whole pages, of 64 KiB at most.
    granule: 64,
    rank: 7,
};

const STRICT_LIMIT: Rule = Rule {
    name: "strict_limit",
    meaning: "whether the share of the dirty limit always binds",
    unit: "",
    numbers: 0..=1,
    hazard: "with a tiny share, writes through mappings crawl",
    restore: "the old value, after the share",
    asked: false,
    granule: 1,
    rank: 3,
};

const MAX_RATIO_FINE: Rule = Rule {
    name: "max_ratio_fine",
    meaning: "the share of the dirty limit",
    unit: " ppm",
    numbers: 1..=1_000_000,
    hazard: "it is a share of a limit that moves, so the bytes move with it",
    restore: "the old value, which is exact",
    asked: false,
    granule: 1,
    rank: 2,
};

const MAX_RATIO: Rule = Rule {
    name: "max_ratio",
    meaning: "the share of the dirty limit",
    unit: " %",
    numbers: 1..=100,
    hazard: "writing it rounds the finer share, so it is written only where there is none",
    restore: "the old value",
    asked: false,
    granule: 1,
    rank: 1,
};

const WBT_LAT_USEC: Rule = Rule {
    name: "wbt_lat_usec",
    meaning: "the read latency that writeback throttling aims at",
    unit: " us",
    numbers: 0..=1_000_000,
    hazard: "any write makes the kernel take it for set by hand until the device is attached anew",
    restore: "the old value; that the kernel chose it cannot come back",
    asked: true,
    granule: 1,
    rank: 0,
};

const DIRTY_LIMIT: Rule = Rule {
    name: "dirty_bytes or dirty_ratio",
    meaning: "the limit of dirty memory",
    unit: "",
    numbers: 0..=0,
    hazard: "shared by all devices; lowered below what is dirty, it stops every writer until the \
             surplus is written",
    restore: "through the file that was in force: bytes, or the percentage, 0 by way of 1",
    asked: true,
    granule: 1,
    rank: 4,
};

const DIRTY_BACKGROUND: Rule = Rule {
    name: "dirty_background_bytes or dirty_background_ratio",
    meaning: "the level of dirty memory at which writing begins",
    unit: "",
    numbers: 0..=0,
    hazard: "at or above the limit, half the limit counts",
    restore: "through the file that was in force, after the limit",
    asked: true,
    granule: 1,
    rank: 5,
};

const DIRTY_EXPIRE: Rule = Rule {
    name: "dirty_expire_centisecs",
    meaning: "the age at which dirty data is written",
    unit: " cs",
    numbers: 500..=360_000,
    hazard: "shared by all devices",
    restore: "the old value",
    asked: true,
    granule: 1,
    rank: 6,
};

const DIRTY_LIMIT_BYTES: RangeInclusive<u64> = 64 << 20..=1 << 40;
const DIRTY_BACKGROUND_BYTES: RangeInclusive<u64> = 2 << 20..=1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: DevNumber = DevNumber { major: 7, minor: 0 };

    fn all() -> Vec<Knob> {
        Knob::of_device(LOOP).into_iter().chain(Knob::of_machine()).collect()
    }

    #[test]
    fn names_of_knobs_and_values_read_back() {
        for knob in all() {
            assert_eq!(knob.to_string().parse(), Ok(knob));
        }
        for value in [Value::Number(0), Value::Ratio(20), Value::Bytes(u64::MAX)] {
            assert_eq!(value.to_string().parse(), Ok(value));
        }
        for text in ["", "7:0", "7:0/", "x/read_ahead_kb", "read_ahead_kb", "7:0/dirty_limit"] {
            assert_eq!(text.parse::<Knob>(), Err(NotAKnob(text.to_owned())));
        }
    }

    #[test]
    fn a_window_is_never_closed_and_no_share_is_zero() {
        let window = Knob::ReadAheadKb(LOOP);
        let said = window.unfit(Value::Number(0)).unwrap();
        assert_eq!(said, "0 KiB is not between 16 KiB and 32768 KiB");
        assert_eq!(window.unfit(Value::Number(16)), None);
        assert!(Knob::MaxRatioFine(LOOP).unfit(Value::Number(0)).is_some());
        assert!(Knob::MaxRatio(LOOP).unfit(Value::Number(0)).is_some());
        assert!(Knob::DirtyLimit.unfit(Value::Ratio(0)).is_some());
        assert!(Knob::DirtyLimit.unfit(Value::Bytes(8192)).is_some());
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        assert_eq!(
            Knob::StrictLimit(LOOP).unfit(Value::Ratio(1)).unwrap(),
            "strict_limit does not come as a percentage"
        );
        assert_eq!(
            Knob::DirtyLimit.unfit(Value::Number(1)).unwrap(),
            "dirty_bytes or dirty_ratio does not come as a number"
        );
    }

    #[test]
    fn a_ratio_of_zero_comes_back_by_way_of_one() {
        let path = "/proc/sys/vm/dirty_ratio".to_owned();
        assert_eq!(Knob::DirtyLimit.writes(Value::Ratio(0)), [(path.clone(), 1), (path, 0)]);
        let path = "/proc/sys/vm/dirty_background_ratio".to_owned();
        assert_eq!(Knob::DirtyBackground.writes(Value::Ratio(0)), [(path, 0)]);
    }

    #[test]
    fn the_window_goes_back_last() {
        let mut knobs = all();
        knobs.sort_by_key(|knob| knob.rule().rank);
        assert_eq!(knobs.last(), Some(&Knob::ReadAheadKb(LOOP)));
        let ranks = knobs.windows(2).all(|two| two[0].rule().rank < two[1].rule().rank);
        assert!(ranks, "every rank is another");
    }
}
