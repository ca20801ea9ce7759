//! The project's own commands.

use std::process::ExitCode;

use clap::Parser;

mod fidelity;

#[derive(Debug, Parser)]
#[command(about = "The project's own commands")]
enum Command {
    Fidelity(fidelity::Options),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Fidelity(options) => fidelity::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
