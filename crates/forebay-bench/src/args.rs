//! What was typed: one definition for parsing, help and errors.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_report::page::PageChoice;
use forebay_report::program::OutputChoice;
use forebay_report::table::FormatChoice;
use forebay_report::units::within;

pub(crate) mod live;

/// Benchmark read paths, mounts and tuning on this machine
///
/// Exit codes: 0 success; 1 a target was missed (`--check`); 2 an error.
#[derive(Debug, Parser)]
#[command(name = "forebay-bench", version, max_term_width = 100)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) benchmark: Benchmark,
    /// The `forebay` to measure; by default the one beside this program
    #[arg(long, value_name = "PATH", global = true, display_order = 999)]
    pub(crate) forebay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputChoice,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Benchmark {
    /// Reads of 4 KiB: inline, deferred, by io_uring and adaptive, compared with plain pread and
    /// tokio::fs
    ///
    /// Every path reads cached and cold pages, one and 32 at a time, with the processors idle and
    /// with a busy thread on each. The paths alternate in short rounds; figures are medians of
    /// rounds, ratios are medians over neighbouring rounds. The targets follow the table. The exit
    /// code is 0 whether they are met or missed.
    Dispatch(BenchDispatch),
    /// Programs, files and pages of mounted images: our mount, other servers and the kernel (root)
    ///
    /// Makes images of this machine's files, mounts each image in every available way, and does the
    /// same work in each mount, always with cold caches. The mounts alternate; figures are medians
    /// of rounds, ratios are medians over neighbouring rounds. The targets follow the table. The
    /// caches of the whole machine are dropped before each round. No knob is changed, and other
    /// processes do not see the mounts.
    Mount(BenchMount),
    /// One process of `forebay-bench mount`
    #[command(hide = true)]
    MountPart(BenchMountPart),
    /// The running kernel on slow devices: with default knobs, with fixed knobs, and tuned (root)
    ///
    /// Makes its own slow devices from files in memory, and runs programs on each device with each
    /// setting in turn. Figures are medians of rounds, ratios are medians over neighbouring rounds.
    /// The targets follow the table. Only knobs of these devices are written; at the end all other
    /// knobs are compared with their old values. Other processes do not see the mounts. The devices
    /// are removed from the kernel at the end, or at the start of the next run.
    Live(live::BenchLive),
    /// One process of `forebay-bench live`
    #[command(hide = true)]
    LivePart(live::BenchLivePart),
    /// A slow device for other programs
    #[command(hide = true)]
    LiveRig(live::BenchLiveRig),
}

/// Arguments of `forebay-bench dispatch`.
#[derive(Debug, Args)]
pub(crate) struct BenchDispatch {
    /// Where to read: a folder, in which a file of 128 MiB is created and removed, or a file or
    /// block device of 4 MiB or more, which is only read; by default the current folder
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// How long each path is measured in each cell
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = within("100ms", "1h")
    )]
    pub(crate) time_per_cell: Duration,
    /// Run one round each: shows that all paths work here, but says little about their speed
    #[arg(long, conflicts_with = "time_per_cell")]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// Arguments of `forebay-bench mount`.
#[derive(Debug, Args)]
pub(crate) struct BenchMount {
    /// The folder in which a temporary folder for images is created
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// Keep the images; the next run with the same --work, --tree and --size uses them
    #[arg(long)]
    pub(crate) keep: bool,
    /// The tree whose programs, modules and libraries the images hold
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    pub(crate) tree: PathBuf,
    /// All files of an image together, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) size: String,
    /// The workloads to run; by default all except pushes
    #[arg(long, value_name = "WORKLOAD", value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<MountWorkload>,
    #[command(flatten)]
    pub(crate) rounds: RoundsChoice,
}

/// How often everything is measured, and what becomes of the figures.
#[derive(Debug, Args)]
pub(crate) struct RoundsChoice {
    /// How often each way is measured
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    rounds: u32,
    /// Run one short round each: shows that everything works here, but says little about speed
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
    /// Exit with 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

impl RoundsChoice {
    /// How many rounds there are.
    pub(crate) fn count(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }
}

/// Workloads in a mounted image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum MountWorkload {
    /// Pages of a mapped file, touched at random
    Faults,
    /// The same, with the image read with direct I/O
    FaultsDirect,
    /// Pages of a mapped file on a device of 20 MB/s and 1,000 requests a second
    FaultsSlow,
    /// All pages of a mapped file, touched sequentially
    Mapped,
    /// 4 KiB of a file at a time, at random offsets
    Preads,
    /// The same by four processes
    #[value(name = "preads-4")]
    Preads4,
    /// 4 KiB at a time on a device of 20 MB/s and 1,000 requests a second
    PreadsSlow,
    /// A long file from beginning to end
    Sequential,
    /// Every file of the tree, by one process
    Tree,
    /// Every file of the tree, shared by four processes
    #[value(name = "tree-4")]
    Tree4,
    /// The start of a program that imports many modules
    Start,
    /// The same on a device of 20 MB/s and 1,000 requests a second: plain, replayed, and from an
    /// image that is sorted by the profile of a start
    StartSlow,
    /// A million pages pushed by our mount; only on request
    Pushes,
    /// Time of the codecs alone for the same blocks
    Codec,
}

/// Arguments of `forebay-bench mount-part`.
#[derive(Debug, Args)]
pub(crate) struct BenchMountPart {
    /// The workload
    #[arg(value_enum)]
    pub(crate) part: MountWorkload,
    /// The file, or the root of the tree
    pub(crate) place: PathBuf,
    /// Seed of the order of pages
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of pages
    #[arg(long, default_value_t = 256)]
    pub(crate) pages: usize,
    /// Number of this process
    #[arg(long, default_value_t = 0)]
    pub(crate) number: usize,
    /// The program and its arguments
    #[arg(last = true)]
    pub(crate) program: Vec<String>,
}
