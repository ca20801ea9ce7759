//! How a program of the project begins and ends: what goes to which stream, exit codes.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use clap::error::ErrorKind as UsageErrorKind;

use crate::messages::{self, Verbosity};
use crate::screen;

/// The answer is no.
pub const NO: u8 = 1;
/// Something went wrong.
pub const ERROR: u8 = 2;

/// How much is printed.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputChoice {
    /// Print whole lines and every column, even if they are wider than the terminal
    #[arg(long, global = true, display_order = 1000)]
    wide: bool,
    /// Print only errors on standard error, no notes and no progress
    #[arg(long, short, global = true, display_order = 1001, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print on standard error what was chosen by default and why, and how long it took
    #[arg(long, short, global = true, display_order = 1002)]
    verbose: bool,
}

impl OutputChoice {
    /// Sets up the screen and the messages, and runs a command.
    ///
    /// # Errors
    /// The command fails.
    pub fn run(self, command: impl FnOnce() -> Result<u8>) -> Result<u8> {
        screen::set_up(self.wide);
        messages::set_up(self.verbosity());
        let began = Instant::now();
        let answer = command();
        messages::detail(|| format!("took {:.3} s", began.elapsed().as_secs_f64()));
        answer
    }

    const fn verbosity(self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }
}

/// The exit code of an answer. An error is printed, in the words of `message`.
pub fn exit_code(answer: Result<u8>, message: impl FnOnce(&anyhow::Error) -> String) -> ExitCode {
    match answer {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit code still reports the error.
            let _ = writeln!(io::stderr(), "error: {}", message(&error));
            ExitCode::from(ERROR)
        }
    }
}

/// Prints the help, the version, or the error of a mistyped command line in the words of
/// `message`, instead of a run.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_instead(instead: &clap::Error, message: impl FnOnce(&str) -> String) -> Result<u8> {
    if instead.kind() == UsageErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Standard error may be closed; the exit code still reports the error.
        let _ = instead.print();
        return Ok(ERROR);
    }
    if instead.use_stderr() {
        let said = message(&instead.render().to_string());
        let _ = io::stderr().write_all(said.as_bytes());
        return Ok(ERROR);
    }
    instead.print().context("cannot write the help")?;
    Ok(0)
}

/// The exit code of an answer that was printed. A reader that closes the pipe early does not change
/// it.
///
/// # Errors
/// It could not be printed; the answer was yes, or there was another reason.
pub fn answered(code: u8, printed: Result<()>) -> Result<u8> {
    match printed {
        Err(error) if code == 0 || !is_broken_pipe(&error) => Err(error),
        Err(_) | Ok(()) => Ok(code),
    }
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == ErrorKind::BrokenPipe)
}
