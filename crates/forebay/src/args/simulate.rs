//! Arguments of `forebay simulate`.

use std::path::PathBuf;

use clap::Args;
use forebay_report::page::PageChoice;
use forebay_report::table::FormatChoice;

use super::trace::TraceReplay;
use super::{JobOptions, MountWindow, PolicyChoice};

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The fio job file, or traces of one format (see `forebay trace`), which are replayed together
    /// by their clock; `-` reads a job file from standard input
    #[arg(
        id = "job",
        required_unless_present_any = ["mount", "typed_jobs"],
        value_name = "JOB|TRACE"
    )]
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceReplay,
    #[command(flatten)]
    pub(crate) replay: MountReplay,
    #[command(flatten)]
    pub(crate) policies: PolicyChoice,
    /// The machine: a name (see `forebay machines`) or a TOML file. Traces take several: the
    /// volumes lie on devices of each in turn, and the rest of the machine is the first one's
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', default_value = "vm-2026")]
    pub(crate) machine: Vec<String>,
    /// Override a parameter of each machine: `device.delay=100us`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of the run: the device's jitter and the positions of files
    #[arg(long, default_value_t = 1, value_parser = super::seed)]
    pub(crate) seed: u64,
    /// Also run the job for real, with system calls on this file or block device, or on a new file
    /// in this folder, and print predicted and measured values side by side. Exit with 1 if
    /// throughput differs by more than 15 %, p50 by 25 %, or p99 by a factor of 2
    #[arg(long, value_name = "PATH", conflicts_with_all = ["mount", "compare", "html"])]
    pub(crate) check: Option<PathBuf>,
    /// With --check: allow the job to overwrite this path
    #[arg(long, requires = "check")]
    pub(crate) allow_writes: bool,
    #[command(flatten)]
    pub(crate) job_options: JobOptions,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// A recording that is replayed on a mounted image.
#[derive(Debug, Args)]
pub(crate) struct MountReplay {
    /// Replay a recording of `mount --record` on a mounted image, without root. Each --policy is a
    /// fill rule and gives a row. Record with `mount --policy off --window ours`, so that the mount
    /// receives a request for each touched page
    #[arg(
        long,
        value_name = "FILE",
        requires = "image",
        conflicts_with_all = [
            "job", "typed_jobs", "compare", "html", "trace_format", "layer", "open_loop",
            "closed_loop", "speed", "depth", "devices", "skip_bad", "only",
        ]
    )]
    pub(crate) mount: Option<PathBuf>,
    /// With --mount: the image that was recorded
    #[arg(long, value_name = "IMAGE", requires = "mount")]
    pub(crate) image: Option<PathBuf>,
    /// With --mount: the byte offset of the image in its file, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "BYTES", default_value = "0", requires = "mount")]
    pub(crate) image_offset: String,
    /// With --mount: which side reads ahead
    #[arg(long, value_enum, default_value_t, requires = "mount")]
    pub(crate) window: MountWindow,
    /// With --mount: memory for raw and decoded blocks, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "32M", requires = "mount")]
    pub(crate) cache: String,
    /// With --mount: worker threads for requests that would block
    #[arg(
        long,
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64),
        requires = "mount"
    )]
    pub(crate) threads: u32,
}
