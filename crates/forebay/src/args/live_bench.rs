//! What can be typed after `bench live`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PageChoice;
use crate::table::FormatChoice;

/// Arguments of `bench live`.
#[derive(Debug, Args)]
pub(crate) struct BenchLive {
    /// Where mounts, the tuner's journal and logs lie, in a folder that goes away at the end
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// What is measured; without it everything
    #[arg(long, value_name = "SCENARIO", value_enum, value_delimiter = ',')]
    pub(crate) scenario: Vec<LiveScenario>,
    /// The ways to measure; without it all
    #[arg(long, value_name = "WAY", value_enum, value_delimiter = ',')]
    pub(crate) ways: Vec<LiveWay>,
    /// How often each way is run in each scenario
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    pub(crate) rounds: u32,
    /// One short round of each: shows that the rig works here, and says little of speed
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
    /// How devices are made slow
    #[arg(long, value_enum, default_value_t)]
    pub(crate) limits: LiveLimits,
    /// One more argument for `forebay tune`, beside its scope and its journal: `--tune=--interval`
    #[arg(long = "tune", value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(crate) tune: Vec<String>,
    /// Exit with 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// What goes on beside each other, and on which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LiveScenario {
    /// A mapped file touched in no order, 8 MiB of read-ahead, 3000 requests and 125 MiB a second
    A,
    /// The same beside a sequential reader that keeps a pace of 90 MB/s
    B,
    /// A sequential reader with 128 KiB of read-ahead: 150 requests and 160 MB a second, and a link
    /// of 300 MB/s and 2 ms
    C,
    /// A copy of 500 MB to a device of 20 MB/s, beside a process that makes a little durable
    D,
    /// Eight writers beside a reader and a light writer: 60 MB/s and 4 ms a seek, without
    /// throttling of writeback
    E,
    /// What must stay as it is: cached reads and reads past the page cache, fast device
    F,
}

/// What steers the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LiveWay {
    /// Nothing: the knobs as the scenario says
    Default,
    /// The benchmark: one knob set by hand, in several steps
    Fixed,
    /// `forebay tune`, for this device alone
    Forebay,
}

/// How devices are made slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveLimits {
    /// By limits of control groups for plain rates, if there are such; a disk that this program
    /// serves for all else
    #[default]
    Auto,
    /// By a disk that this program serves, always
    Served,
}

/// Arguments of `bench live-part`.
#[derive(Debug, Args)]
pub(crate) struct BenchLivePart {
    /// What is done
    #[arg(value_enum)]
    pub(crate) part: LivePart,
    /// The file, or a folder of the file system
    pub(crate) place: PathBuf,
    /// A control group that the process joins first
    #[arg(long, value_name = "DIR")]
    pub(crate) group: Option<PathBuf>,
    /// Names the order of places
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How much is written, in bytes
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes: u64,
    /// Bytes in a second
    #[arg(long)]
    pub(crate) pace: Option<u64>,
    /// Between two reads, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(crate) pause: u64,
    /// How long it goes on, in milliseconds, unless SIGTERM ends it
    #[arg(long, default_value_t = 600_000)]
    pub(crate) time: u64,
}

/// What one process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LivePart {
    /// Touches pages of a mapped file in no order
    Toucher,
    /// Reads a file from its begin on
    Stream,
    /// Reads pages that are in memory
    Cached,
    /// Reads single pages past the page cache
    Direct,
    /// Writes a file
    Writer,
    /// Writes a file and makes it durable
    Copy,
    /// Writes a little, often
    Light,
    /// Writes a little and makes it durable, again and again
    Bystander,
    /// Makes the whole file system durable
    Sync,
}

/// Arguments of `bench live-rig`.
#[derive(Debug, Args)]
pub(crate) struct BenchLiveRig {
    /// Where its folder is made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// What it is like
    #[arg(value_enum)]
    pub(crate) speed: LiveRigSpeed,
    /// Its size in bytes
    pub(crate) bytes: u64,
}

/// What a slow device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveRigSpeed {
    /// 3000 reads and 125 MiB of them in a second
    Volume,
    /// 300 MB/s and 2 ms
    Link,
    /// 20 MB/s of writes
    Stick,
    /// As memory
    Fast,
}
