//! What is typed behind `forebay probe`.

use std::path::PathBuf;

use clap::Args;

use crate::table::FormatChoice;

/// Arguments of `probe`.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// A file or block device of 64 MiB or more, which is only read
    #[arg(value_name = "FILE|DEVICE")]
    pub(crate) path: PathBuf,
    /// Where the machine file is written
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// A file on the same device that is overwritten, to measure writes and flushes. If it is not
    /// there, one of 128 MiB is made, and removed at the end. It may be what is read, too
    #[arg(long, value_name = "FILE")]
    pub(crate) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatChoice,
}
