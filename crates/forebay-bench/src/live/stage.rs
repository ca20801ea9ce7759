//! The scenarios: devices, the ways that take part, and durations.

use std::time::Duration;

use super::figure::Figure;
use super::knobs::Fix;
use super::rig::{Spec, Speed};
use super::throttle::Limits;
use crate::args::live::{LiveScenario as Scenario, LiveWay};
use crate::measure::live::Model;

/// A scenario on one of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Faults,
    FaultsBeside,
    StreamDisk,
    StreamLink,
    Copy,
    Writers,
    Untouched,
}

/// One line of the table in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) how: How,
}

/// How the device is tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Default,
    Fixed(Fix),
    Forebay,
    /// The same, and the kernel holds writes back for reads.
    ReadsFirst,
}

impl Stage {
    /// All of them, in the order of the table.
    pub(super) const ALL: [Self; 7] = [
        Self::Faults,
        Self::FaultsBeside,
        Self::StreamDisk,
        Self::StreamLink,
        Self::Copy,
        Self::Writers,
        Self::Untouched,
    ];

    /// The scenario that it belongs to.
    pub(super) fn scenario(self) -> Scenario {
        match self {
            Self::Faults => Scenario::A,
            Self::FaultsBeside => Scenario::B,
            Self::StreamDisk | Self::StreamLink => Scenario::C,
            Self::Copy => Scenario::D,
            Self::Writers => Scenario::E,
            Self::Untouched => Scenario::F,
        }
    }

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Faults => "a",
            Self::FaultsBeside => "b",
            Self::StreamDisk => "c disk",
            Self::StreamLink => "c link",
            Self::Copy => "d",
            Self::Writers => "e",
            Self::Untouched => "f",
        }
    }

    /// The device that it is measured on.
    pub(super) fn spec(self, is_quick: bool) -> Spec {
        let speed = match self {
            Self::Faults | Self::FaultsBeside => Speed::Limited(VOLUME),
            Self::StreamDisk => Speed::Limited(DISK),
            Self::StreamLink => Speed::Served(LINK),
            Self::Copy => Speed::Limited(STICK),
            Self::Writers => Speed::Served(SEEKING),
            Self::Untouched => Speed::Fast,
        };
        let (files, bytes): (&[(&str, u64)], u64) = match self {
            Self::Faults | Self::FaultsBeside if is_quick => {
                (&[(FILE, 256 * MIB), (STREAM, 64 * MIB)], 512 * MIB)
            }
            Self::Faults | Self::FaultsBeside => {
                (&[(FILE, 8192 * MIB), (STREAM, 1024 * MIB)], 9728 * MIB)
            }
            Self::StreamDisk | Self::StreamLink if is_quick => (&[(FILE, 512 * MIB)], 768 * MIB),
            Self::StreamDisk | Self::StreamLink => (&[(FILE, 2048 * MIB)], 2304 * MIB),
            Self::Copy => (&[], 1024 * MIB),
            Self::Writers => (&[(FILE, 256 * MIB)], 1280 * MIB),
            Self::Untouched => (&[(FILE, 64 * MIB)], 192 * MIB),
        };
        Spec { speed, bytes, files }
    }

    /// What readahead is set to for all files, in KiB; the kernel's own default if not.
    pub(super) fn read_ahead(self) -> Option<u64> {
        match self {
            Self::Faults | Self::FaultsBeside => Some(8192),
            Self::StreamDisk | Self::StreamLink => Some(128),
            Self::Copy | Self::Writers | Self::Untouched => None,
        }
    }

    /// Whether writeback is not throttled by the queue.
    pub(super) fn is_without_throttling(self) -> bool {
        self == Self::Writers
    }

    /// Whether something is written before the first round: of a device that has written nothing
    /// the kernel believes that it writes 100 MB/s.
    pub(super) fn writes(self) -> bool {
        match self {
            Self::Copy | Self::Writers => true,
            Self::Faults
            | Self::FaultsBeside
            | Self::StreamDisk
            | Self::StreamLink
            | Self::Untouched => false,
        }
    }

    /// The figure that represents the stage where there is space for one.
    pub(super) fn main_figure(self) -> Figure {
        match self {
            Self::Faults | Self::FaultsBeside => Figure::Touches,
            Self::StreamDisk | Self::StreamLink => Figure::Stream,
            Self::Copy => Figure::FsyncMax,
            Self::Writers => Figure::ReadP99,
            Self::Untouched => Figure::Cached,
        }
    }

    /// The number of rounds, of the requested number. A comparison to a hundredth is short and
    /// needs more rounds.
    pub(super) fn rounds(self, asked: u32, is_quick: bool) -> u32 {
        if self == Self::Untouched && !is_quick { asked * 4 } else { asked }
    }

    /// How long an endless program runs.
    pub(super) fn time(self, is_quick: bool) -> Duration {
        let millis = match self {
            _ if is_quick => 1_000,
            Self::Faults | Self::FaultsBeside => 6_000,
            Self::StreamDisk | Self::StreamLink => 5_000,
            Self::Copy | Self::Writers => 300_000,
            Self::Untouched => 1_000,
        };
        Duration::from_millis(millis)
    }

    /// When rates begin to count: the tuner has had time to act.
    pub(super) fn settle(self, is_quick: bool) -> Duration {
        if is_quick { Duration::from_millis(300) } else { SETTLE }
    }

    /// The contestants, of the requested ways.
    pub(super) fn ways(self, asked: &[LiveWay]) -> Vec<Way> {
        let is_asked = |way: LiveWay| asked.is_empty() || asked.contains(&way);
        let mut ways = Vec::new();
        if is_asked(LiveWay::Default) {
            ways.push(Way { name: DEFAULT.to_owned(), how: How::Default });
        }
        if is_asked(LiveWay::Fixed) {
            ways.extend(self.fixes().iter().map(|fix| Way::fixed(*fix)));
        }
        if is_asked(LiveWay::Forebay) {
            ways.push(Way { name: OURS.to_owned(), how: How::Forebay });
            if self == Self::Writers {
                ways.push(Way { name: READS_FIRST.to_owned(), how: How::ReadsFirst });
            }
        }
        ways
    }

    /// Whether a way runs once only: no target hangs on it, and it takes half a minute.
    pub(super) fn is_once(self, way: &Way) -> bool {
        matches!(way.how, How::Fixed(_)) && self.writes()
    }

    fn fixes(self) -> &'static [Fix] {
        match self {
            Self::Faults => {
                &[Fix::ReadAhead(16), Fix::ReadAhead(32), Fix::ReadAhead(64), Fix::ReadAhead(128)]
            }
            Self::FaultsBeside => &[Fix::ReadAhead(32)],
            Self::StreamDisk | Self::StreamLink => {
                &[Fix::ReadAhead(1024), Fix::ReadAhead(4096), Fix::ReadAhead(16384)]
            }
            Self::Copy => &[Fix::Cap(32)],
            Self::Writers => &[Fix::Cap(32), Fix::Cap(8)],
            Self::Untouched => &[],
        }
    }
}

impl Way {
    /// Whether our tuner runs.
    pub(super) fn is_ours(&self) -> bool {
        match self.how {
            How::Forebay | How::ReadsFirst => true,
            How::Default | How::Fixed(_) => false,
        }
    }

    fn fixed(fix: Fix) -> Self {
        let name = match fix {
            Fix::ReadAhead(kib) => format!("fixed {kib} KiB"),
            Fix::Cap(mib) => format!("fixed cap {mib} MiB"),
        };
        Self { name, how: How::Fixed(fix) }
    }
}

/// The untuned kernel.
pub(super) const DEFAULT: &str = "default";

/// Our tuner.
pub(super) const OURS: &str = "forebay";

/// Our tuner with a policy file that has reads come first.
pub(super) const READS_FIRST: &str = "forebay, reads first";

/// What that file says: the kernel's own aim for disks that do not turn.
pub(super) const READS_POLICY: &str = "[writeback]\nread_latency_us = 2000\n";

/// The file of most work.
pub(super) const FILE: &str = "file";

/// The file of a concurrent reader.
pub(super) const STREAM: &str = "stream";

/// The time that the targets give a tuner.
const SETTLE: Duration = Duration::from_secs(2);

const MIB: u64 = 1 << 20;

/// A volume as clouds sell it.
pub(super) const VOLUME: Limits = Limits { read_iops: 3_000, read_bps: 125 << 20, write_bps: 0 };

/// A disk by its rates: a request is as dear as a seek.
const DISK: Limits = Limits { read_iops: 150, read_bps: 160_000_000, write_bps: 0 };

/// A stick, or a card.
pub(super) const STICK: Limits = Limits { read_iops: 0, read_bps: 0, write_bps: 20_000_000 };

/// A file server on a network.
pub(super) const LINK: Model = Model {
    rate: 300_000_000,
    least: Duration::ZERO,
    seek: Duration::ZERO,
    latency: Duration::from_millis(2),
};

/// A disk with an arm.
const SEEKING: Model = Model {
    rate: 60_000_000,
    least: Duration::ZERO,
    seek: Duration::from_millis(4),
    latency: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_fit_on_their_device_with_room_for_what_is_written() {
        for stage in Stage::ALL {
            for is_quick in [false, true] {
                let spec = stage.spec(is_quick);
                let files: u64 = spec.files.iter().map(|(_, bytes)| bytes).sum();
                let written = if stage.writes() { 600 * MIB } else { 0 };
                assert!(files + written + 64 * MIB <= spec.bytes, "{stage:?}");
            }
        }
    }

    #[test]
    fn every_way_of_a_stage_has_a_name_of_its_own() {
        for stage in Stage::ALL {
            let mut names: Vec<String> = stage.ways(&[]).into_iter().map(|way| way.name).collect();
            assert!(names[0] == DEFAULT && names.contains(&OURS.to_owned()), "{stage:?}");
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{stage:?}");
        }
    }

    #[test]
    fn ways_that_are_not_asked_for_stay_away() {
        let names = |asked: &[LiveWay]| -> Vec<String> {
            Stage::FaultsBeside.ways(asked).into_iter().map(|way| way.name).collect()
        };
        assert_eq!(names(&[LiveWay::Fixed]), ["fixed 32 KiB"]);
        assert_eq!(names(&[LiveWay::Forebay, LiveWay::Default]), ["default", "forebay"]);
    }
}
