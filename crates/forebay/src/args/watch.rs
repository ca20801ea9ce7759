//! Arguments of `watch`.

use std::time::Duration;

use clap::Args;
use forebay_report::units::within;

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Print two samples one interval apart as tables, then exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one JSON object for each interval, a line each; with --once a single one
    #[arg(long)]
    pub(crate) json: bool,
    /// The interval between samples, 0.1 to 60 seconds
    #[arg(long, value_name = "DURATION", default_value = "1s",
          value_parser = within("100ms", "60s"))]
    pub(crate) interval: Duration,
    /// Serve the figures for Prometheus at this loopback address; without a terminal this is the
    /// only output
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["once", "json"])]
    pub(crate) prometheus: Option<String>,
    /// Do not trace: shows no files and no pauses, and writes nothing to the kernel
    #[arg(long)]
    pub(crate) no_trace: bool,
}
