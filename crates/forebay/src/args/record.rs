//! Arguments of `forebay record`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_report::units::within;

/// Arguments of `record`.
#[derive(Debug, Args)]
pub(crate) struct Record {
    /// A block device, with its partitions, or the number of a process, with its children
    #[arg(value_name = "DEVICE|PID")]
    pub(crate) of: String,
    /// The new file for the trace
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The duration; by default until SIGINT or SIGTERM
    #[arg(long, value_name = "DURATION", value_parser = within("10ms", "8760h"))]
    pub(crate) time: Option<Duration>,
}
