//! Arguments of `forebay run`.

use std::path::PathBuf;

use clap::Args;
use forebay_report::page::PageChoice;
use forebay_report::table::FormatChoice;

use super::{JobOptions, PolicyChoice};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunOn {
    /// The fio job file; `-` reads standard input
    #[arg(required_unless_present = "typed_jobs")]
    pub(crate) job: Option<PathBuf>,
    /// The file or block device that the job runs on, which contains the files of the job one after
    /// another; or a folder, in which an unnamed file of the needed size is created and removed
    /// afterwards
    #[arg(long, value_name = "PATH")]
    pub(crate) on: PathBuf,
    /// Allow the job to overwrite the path of --on, except a block device that is mounted or
    /// otherwise in use; a file that is created in a folder does not need this option
    #[arg(long)]
    pub(crate) allow_writes: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyChoice,
    /// Page memory of the engine, in bytes or with a unit: k, M, G, T
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) memory: String,
    /// Worker threads for deferred requests
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) workers: u32,
    /// Compare every byte that is read with a plain read of the file, or with the data written
    /// there before; at the end compare the file with all written data. The time for this counts
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) job_options: JobOptions,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}
