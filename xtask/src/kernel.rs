//! The kernel lab: Linux with the papers' mechanisms, as a process in virtual time.
//!
//! ```text
//!   apt: linux-source-6.12 ---> tree <--- kernel/patches (hooks), kernel/linux (our C files)
//!                                |
//!                     build (user-mode Linux) + init ---> console ---> tables
//! ```
//!
//! Nothing of Linux is in the repository. Source and build lie in a cache outside of it, which is
//! named by the source's version.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::process::say;

mod boot;
mod build;
mod hooks;
mod referee;
mod series;
mod source;
mod table;

/// What was typed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch the source, insert hooks and files, build; what is up to date is kept
    Build,
    /// Boot, run the experiments twice, compare the outputs, print the tables
    Run {
        /// Experiments by name [default: all]
        #[arg(value_name = "EXPERIMENT")]
        experiments: Vec<String>,
    },
    /// Write the patch series and check it with git am and checkpatch.pl --strict
    Patches {
        /// Where to [default: target/kernel/patches]
        #[arg(long)]
        to: Option<std::path::PathBuf>,
    },
    /// Run the same experiments through the kernel and the simulator, and compare
    Referee(referee::Options),
    /// What CI runs: build, run and the referee; skipped by name where it cannot be done in time
    Check,
}

/// Why CI leaves the lab out here, if so.
pub(crate) fn skip() -> Result<Option<String>> {
    build::skip()
}

/// Runs a command of the lab.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    match &arguments.command {
        Command::Build => {
            let lab = build::build()?;
            say(&format!("{} built: {}", lab.version, lab.program.display()))?;
            Ok(0)
        }
        Command::Run { experiments } => table::run(experiments),
        Command::Patches { to } => series::run(to.as_deref()),
        Command::Referee(options) => referee::run(options),
        Command::Check => check(),
    }
}

/// Builds if that is quick, runs everything once more, and lets the referee look.
fn check() -> Result<u8> {
    if let Some(reason) = build::skip()? {
        say(&format!("skipped: kernel lab: {reason}"))?;
        return Ok(0);
    }
    for step in [|| table::run(&[]), || series::run(None), || referee::run(&referee::Options::ci())]
    {
        let code = step()?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}
