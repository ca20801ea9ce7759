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
mod processors;
mod referee;
mod series;
mod source;
mod table;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch the source, insert hooks and files, build; parts that are up to date are kept
    Build,
    /// Boot, run the experiments twice, compare the outputs, print the tables
    Run {
        /// Experiments by name [default: all]
        #[arg(value_name = "EXPERIMENT")]
        experiments: Vec<String>,
    },
    /// Write the patch series and check it with git am and checkpatch.pl --strict
    Patches {
        /// A folder without patches to write them to [default: target/kernel/patches]
        #[arg(long)]
        to: Option<std::path::PathBuf>,
    },
    /// Run the same experiments through the kernel and the simulator, and compare
    Referee(referee::Options),
    /// What CI runs: build, run and the referee; skipped by name where it cannot be done in time
    Check,
}

/// Installs what the lab's build needs, where that is allowed. Why CI leaves the lab out, if so.
pub(crate) fn prepare() -> Result<Option<String>> {
    build::prepare()
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

/// Builds, runs everything twice, and lets the referee look. A source that cannot be fetched and a
/// build that takes too long are skipped by name: neither is a fault of the change.
fn check() -> Result<u8> {
    let skipped = match build::prepare()? {
        Some(reason) => Some(reason),
        None => match build::fetch() {
            Err(error) => Some(format!("{error:#}")),
            Ok(()) => match build::build_within(CHECK_SECONDS) {
                Err(error) if error.is::<build::Slow>() => Some(error.to_string()),
                built => built.map(|_| None)?,
            },
        },
    };
    if let Some(reason) = skipped {
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

/// What CI gives a build from nothing, by the wall clock; it takes about three minutes on two
/// processors.
const CHECK_SECONDS: u32 = 600;
