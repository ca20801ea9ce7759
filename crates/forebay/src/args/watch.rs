//! What `watch` takes.

use std::time::Duration;

use clap::Args;

use super::duration::within;

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Two samples one interval apart, printed as tables, then the end
    #[arg(long)]
    pub(crate) once: bool,
    /// One JSON object an interval, a line each; with --once a single one
    #[arg(long)]
    pub(crate) json: bool,
    /// From sample to sample, 0.1 to 60 seconds
    #[arg(long, value_name = "DURATION", default_value = "1s",
          value_parser = within("100ms", "60s"))]
    pub(crate) interval: Duration,
    /// Serve the figures for Prometheus at this address, which must be a loopback one; without a
    /// terminal nothing else is done
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["once", "json"])]
    pub(crate) prometheus: Option<String>,
    /// Do not trace: no files, no pauses, and nothing at all is written to the kernel
    #[arg(long)]
    pub(crate) no_trace: bool,
}
