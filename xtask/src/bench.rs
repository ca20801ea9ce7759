//! The benchmarks, which are no tests: their output depends on the machine and its load.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};

use crate::process::{cargo, say};

mod probe;
mod real;
mod serve;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure programs of others on slow devices: default, `forebay tune`, best fixed setting
    Real(real::Arguments),
    /// Probe three devices and run ten jobs on each: compare predicted and measured values (root)
    Probe(probe::Arguments),
    /// Compare `forebay serve` with nbdkit and qemu-nbd
    Serve(serve::Arguments),
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    match &arguments.what {
        Some(What::Real(arguments)) => real::run(arguments),
        Some(What::Serve(arguments)) => serve::run(arguments),
        Some(What::Probe(arguments)) => probe::run(arguments),
        None => path(),
    }
}

/// Measures the path in virtual time, traces, then how long the paper's table takes.
fn path() -> Result<u8> {
    let benches = [("forebay-sim", "path"), ("forebay-sim", "replay"), ("forebay-trace", "parse")];
    for (package, bench) in benches {
        let run = cargo().args(["bench", "--package", package, "--bench", bench]).status()?;
        ensure!(run.success(), "the benchmark {bench} of {package} failed");
    }
    let forebay = ["--release", "--package", "forebay"];
    ensure!(cargo().arg("build").args(forebay).status()?.success(), "forebay does not build");
    let started = Instant::now();
    let reproduce = ["--", "reproduce", "readahead", "--format", "json"];
    let table = cargo().args(["run", "--quiet"]).args(forebay).args(reproduce).output()?;
    ensure!(table.status.success(), "reproduce failed");
    say(&format!("reproduce readahead, 32 draws: {:.2} s", started.elapsed().as_secs_f64()))?;
    Ok(0)
}
