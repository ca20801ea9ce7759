//! The referee: the same experiment through the kernel and through the simulator, side by side.

use anyhow::Result;
use clap::Args;

use super::build;
use crate::process::say;

mod dispatch;
mod dyn_steps;
mod levels;
pub(super) mod limits;
mod machine;
mod windows;

/// What the referee compares.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Steps of random scripts for each rule of readahead.
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// The first script's seed; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Moments at which each load of writers begins, of which the means are compared.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    starts: u64,
}

impl Options {
    /// What CI compares.
    pub(super) fn ci() -> Self {
        Self { steps: 2_000, seed: 1, starts: 8 }
    }
}

/// Runs all comparisons. The exit code is 1 if kernel and simulator differ.
pub(super) fn run(options: &Options) -> Result<u8> {
    let lab = build::build()?;
    say(&format!("Linux {}, seed {}", lab.version, options.seed))?;
    let mut differences = windows::compare(&lab, options.seed, options.steps)?;
    differences += dispatch::compare(&lab)?;
    differences += dyn_steps::compare(&lab)?;
    differences += limits::compare(&lab)?;
    differences += levels::compare(&lab, options.starts)?;
    Ok(u8::from(differences > 0))
}
