//! Arguments of `forebay probe`.

use std::path::PathBuf;

use clap::Args;
use forebay_report::table::FormatChoice;

/// Arguments of `probe`.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// A file or block device of 64 MiB or more, which is only read
    #[arg(value_name = "FILE|DEVICE")]
    pub(crate) path: PathBuf,
    /// The machine file to write; an older machine file is replaced
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// A file on the same device that is overwritten to measure writes and flushes; if it does not
    /// exist, a file of 128 MiB is created and removed at the end; it may be the file that is read
    #[arg(long, value_name = "FILE")]
    pub(crate) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatChoice,
}
