//! Arguments of `forebay-bench live`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::RoundsChoice;
use crate::measure::live::LivePart;

/// Arguments of `forebay-bench live`.
#[derive(Debug, Args)]
pub(crate) struct BenchLive {
    /// The folder in which a temporary folder for mounts, the journal and logs is created
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// The scenarios to run; by default all
    #[arg(long, value_name = "SCENARIO", value_enum, value_delimiter = ',')]
    pub(crate) scenario: Vec<LiveScenario>,
    /// The settings to measure; by default all
    #[arg(long, value_name = "WAY", value_enum, value_delimiter = ',')]
    pub(crate) ways: Vec<LiveWay>,
    /// How devices are made slow
    #[arg(long, value_enum, default_value_t)]
    pub(crate) limits: LiveLimits,
    /// An additional argument for `forebay tune`, besides its scope and its journal:
    /// `--tune=--interval`
    #[arg(long = "tune", value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(crate) tune: Vec<String>,
    #[command(flatten)]
    pub(crate) rounds: RoundsChoice,
}

/// Scenarios: the programs that run concurrently, and their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LiveScenario {
    /// A mapped file touched at random, 8 MiB of read-ahead, 3000 requests and 125 MiB a second
    A,
    /// The same, concurrent with a sequential reader at a fixed rate of 90 MB/s
    B,
    /// A sequential reader with 128 KiB of read-ahead: 150 requests and 160 MB a second, and a link
    /// of 300 MB/s and 2 ms
    C,
    /// A copy of 500 MB to a device of 20 MB/s, concurrent with a process that syncs small writes
    D,
    /// Eight writers, concurrent with a reader and a light writer: 60 MB/s and 4 ms a seek, without
    /// writeback throttling
    E,
    /// Loads that tuning must not change: cached reads, direct reads, and a fast device
    F,
}

/// Settings of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LiveWay {
    /// No tuning: the knobs of the scenario
    Default,
    /// The baseline: one knob set by hand, in several steps
    Fixed,
    /// `forebay tune`, for this device only
    Forebay,
}

/// How devices are made slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveLimits {
    /// With limits of control groups for plain rates, where they exist, and otherwise with a disk
    /// that this program serves
    #[default]
    Auto,
    /// Always with a disk that this program serves
    Served,
}

/// Arguments of `forebay-bench live-part`.
#[derive(Debug, Args)]
pub(crate) struct BenchLivePart {
    /// The load
    #[arg(value_enum)]
    pub(crate) part: LivePart,
    /// The file, or a folder of the file system
    pub(crate) place: PathBuf,
    /// A control group that the process joins first
    #[arg(long, value_name = "DIR")]
    pub(crate) group: Option<PathBuf>,
    /// Seed of the order of offsets
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Bytes to write
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes: u64,
    /// Bytes per second
    #[arg(long)]
    pub(crate) pace: Option<u64>,
    /// Pause between two reads, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(crate) pause: u64,
    /// Duration in milliseconds, unless SIGTERM ends it earlier
    #[arg(long, default_value_t = 600_000)]
    pub(crate) time: u64,
}

/// Arguments of `forebay-bench live-rig`.
#[derive(Debug, Args)]
pub(crate) struct BenchLiveRig {
    /// The folder in which a temporary folder is created
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// The kind of device
    #[arg(value_enum)]
    pub(crate) speed: LiveRigSpeed,
    /// The size in bytes
    pub(crate) bytes: u64,
}

/// Kinds of slow devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveRigSpeed {
    /// 3000 reads and 125 MiB of reads per second
    Volume,
    /// 300 MB/s and 2 ms
    Link,
    /// 20 MB/s of writes
    Stick,
    /// As fast as memory
    Fast,
}
