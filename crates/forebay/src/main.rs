//! The command line of Forebay.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use args::{Arguments, Command};

mod args;
mod choice;
mod cmd;
mod jobs;
mod messages;
mod over_time;
mod page;
mod results;
mod slots;
mod table;
mod whole;

/// The answer is no.
const NO: u8 = 1;
/// Something went wrong.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command),
        Err(instead) => print_instead(&instead),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let message = messages::of_chain(&error);
            // Nobody may be listening; the exit code says it all the same.
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(ERROR)
        }
    }
}

fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Reproduce(arguments) => cmd::reproduce::run(arguments),
        Command::Policies(arguments) => cmd::policies::run(arguments),
        Command::Machines(arguments) => cmd::machines::run(arguments),
        Command::Plan(arguments) => cmd::plan::run(arguments),
        Command::Simulate(arguments) => cmd::simulate::run(arguments),
        Command::Bench(arguments) => cmd::bench::run(arguments),
        Command::Image(arguments) => cmd::image::run(arguments),
        Command::Run(arguments) => cmd::run::run(arguments),
        Command::Tune(arguments) => cmd::tune::run(arguments),
        Command::Mount(arguments) => cmd::mount::run(arguments),
        Command::Watch(arguments) => cmd::watch::run(arguments),
        Command::Advise(arguments) => cmd::advise::run(arguments),
    }
}

/// Prints what there is to print in place of a run: help, the version, or what was mistyped.
fn print_instead(instead: &clap::Error) -> Result<u8> {
    if instead.use_stderr() {
        // Nobody may be listening; the exit code says it all the same.
        let _ = instead.print();
        return Ok(ERROR);
    }
    instead.print().context("cannot write the help")?;
    Ok(0)
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|error| error.kind() == ErrorKind::BrokenPipe)
}
