//! The command line of Forebay.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Arguments, Command};

mod args;
mod choice;
mod cmd;
mod jobs;
mod messages;
mod table;

/// The answer is no.
const NO: u8 = 1;
/// Something went wrong.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
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
        Command::Run(arguments) => cmd::run::run(arguments),
    }
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|error| error.kind() == ErrorKind::BrokenPipe)
}
