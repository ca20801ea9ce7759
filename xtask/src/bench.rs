//! The benchmarks, which are no tests: their output depends on the machine and its load.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use crate::process::{cargo, exit_code, say, target};

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
    /// Compare ways to read a file
    #[command(disable_help_flag = true)]
    Dispatch(Forwarded),
    /// Compare mounted images: `forebay mount`, other servers and the kernel (root)
    #[command(disable_help_flag = true)]
    Mount(Forwarded),
    /// Compare the kernel on slow devices: default, one knob by hand, `forebay tune` (root)
    #[command(disable_help_flag = true)]
    Live(Forwarded),
    /// Measure programs of others on slow devices: default, `forebay tune`, best fixed setting
    Real(real::Arguments),
    /// Probe three devices and run ten jobs on each: compare predicted and measured values (root)
    Probe(probe::Arguments),
    /// Compare `forebay serve` with nbdkit and qemu-nbd
    Serve(serve::Arguments),
}

/// Arguments of a benchmark of `forebay-bench`.
#[derive(Debug, Args)]
struct Forwarded {
    /// Arguments of the benchmark; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    match &arguments.what {
        Some(What::Dispatch(forwarded)) => forwarded.run("dispatch"),
        Some(What::Mount(forwarded)) => forwarded.run("mount"),
        Some(What::Live(forwarded)) => forwarded.run("live"),
        Some(What::Real(arguments)) => real::run(arguments),
        Some(What::Serve(arguments)) => serve::run(arguments),
        Some(What::Probe(arguments)) => probe::run(arguments),
        None => path(),
    }
}

impl Forwarded {
    /// Builds `forebay-bench`, with the `forebay` that it measures beside it, and runs it here.
    fn run(&self, benchmark: &str) -> Result<u8> {
        let program = release(&["forebay-bench", "forebay"])?.join("forebay-bench");
        let mut run = Command::new(program);
        exit_code(run.arg(benchmark).args(&self.arguments))
    }
}

/// Release builds of packages of the workspace; returns the folder of their programs.
fn release(packages: &[&str]) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release"]);
    for package in packages {
        build.args(["--package", package]);
    }
    ensure!(build.status()?.success(), "{} does not build", packages.join(", "));
    Ok(target().join("release"))
}

/// What measures on slow devices.
#[derive(Debug)]
struct Programs {
    /// The measured one.
    forebay: PathBuf,
    /// The one that makes the devices.
    bench: PathBuf,
}

impl Programs {
    /// Release builds; of `forebay` only if none is named.
    fn build(named: Option<&Path>) -> Result<Self> {
        let forebay = match named {
            Some(named) => named.canonicalize().context("no such program")?,
            None => release(&["forebay"])?.join("forebay"),
        };
        let bench = release(&["forebay-bench"])?.join("forebay-bench");
        Ok(Self { forebay, bench })
    }
}

/// Measures the path in virtual time, traces, then how long the paper's table takes.
fn path() -> Result<u8> {
    let benches = [("forebay-sim", "path"), ("forebay-sim", "replay"), ("forebay-trace", "parse")];
    for (package, bench) in benches {
        let run = cargo().args(["bench", "--package", package, "--bench", bench]).status()?;
        ensure!(run.success(), "the benchmark {bench} of {package} failed");
    }
    let forebay = release(&["forebay"])?.join("forebay");
    let started = Instant::now();
    let reproduce = ["reproduce", "readahead", "--format", "json"];
    let table = Command::new(forebay).args(reproduce).output()?;
    ensure!(table.status.success(), "reproduce failed");
    say(&format!("reproduce readahead, 32 draws: {:.2} s", started.elapsed().as_secs_f64()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn flags_behind_a_benchmark_are_its_own() {
        let typed = Typed::parse_from(["bench", "mount", "--help", "--only", "faults"]);
        let Some(What::Mount(forwarded)) = typed.arguments.what else { panic!("another one") };
        assert_eq!(forwarded.arguments, ["--help", "--only", "faults"]);
    }
}
