//! What `watch` takes.

use clap::Args;

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Two samples one interval apart, printed as tables, then the end
    #[arg(long)]
    pub(crate) once: bool,
    /// One JSON object an interval, a line each; with --once a single one
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds from sample to sample, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: f64,
    /// Serve the figures for Prometheus at this address, which must be a loopback one; without a
    /// terminal nothing else is done
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["once", "json"])]
    pub(crate) prometheus: Option<String>,
    /// Do not trace: no files, no pauses, and nothing at all is written to the kernel
    #[arg(long)]
    pub(crate) no_trace: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("takes seconds from 0.1 to 60".to_owned()),
    }
}
