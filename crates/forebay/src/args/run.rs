//! What is typed behind `forebay run`.

use std::path::PathBuf;

use clap::Args;

use super::{JobOptions, PageChoice, PolicyChoice};
use crate::table::FormatChoice;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunOn {
    /// The fio job file; `-` reads standard input
    pub(crate) job: PathBuf,
    /// The file or block device that the job runs on; its files lie one behind the other there. In
    /// a folder a file without a name is made, as long as the job needs, which is gone afterwards
    #[arg(long, value_name = "PATH")]
    pub(crate) on: PathBuf,
    /// Lets the job overwrite what --on names. A block device that is mounted or otherwise in use
    /// is refused. A file that is made in a folder needs no such word
    #[arg(long)]
    pub(crate) allow_writes: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyChoice,
    /// Page memory of the engine, in bytes or with a unit: k, M, G, T
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) memory: String,
    /// Worker threads for requests that are deferred
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) workers: u32,
    /// Compare every byte that is read with what a plain read of the file gives, or with what was
    /// written there before; at the end compare the file with all that was written. The time
    /// for it counts
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) job_options: JobOptions,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}
