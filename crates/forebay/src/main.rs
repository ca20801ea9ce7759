//! The command line of Forebay.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::iter;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use clap::error::ErrorKind;
use forebay_report::{messages, screen};

use args::{Arguments, Command};

mod args;
mod choice;
mod cmd;
mod hints;
mod jobs;
mod objects;
mod over_time;
mod progress;
mod results;
mod slots;
mod traces;
mod typed_jobs;

/// The answer is no.
const NO: u8 = 1;
/// Something went wrong.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match answer(&words) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let message = hints::of_chain(&error, &words);
            // Standard error may be closed; the exit code still reports the error.
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(ERROR)
        }
    }
}

fn answer(words: &[OsString]) -> Result<u8> {
    if words.is_empty() {
        return Ok(cmd::first::run());
    }
    if let Some(text) = cmd::help::asked(words) {
        screen::set_up(false);
        return cmd::help::print(&text);
    }
    let typed = typed_jobs::rewritten(words)?;
    match Arguments::try_parse_from(iter::once(OsString::from("forebay")).chain(typed)) {
        Ok(arguments) => {
            screen::set_up(arguments.wide);
            messages::set_up(arguments.verbosity());
            let began = Instant::now();
            let answer = run(&arguments.command);
            messages::detail(|| format!("took {:.3} s", began.elapsed().as_secs_f64()));
            answer
        }
        Err(instead) => print_instead(&instead, words),
    }
}

fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Reproduce(arguments) => cmd::reproduce::run(arguments),
        Command::Policies(arguments) => cmd::policies::run(arguments),
        Command::Machines(arguments) => cmd::machines::run(arguments),
        Command::Plan(arguments) => cmd::plan::run(arguments),
        Command::Simulate(arguments) => cmd::simulate::run(arguments),
        Command::Sweep(arguments) => cmd::sweep::run(&arguments.what),
        Command::Record(arguments) => cmd::record::run(arguments),
        Command::Trace(arguments) => cmd::trace::run(&arguments.what),
        Command::Bench(arguments) => cmd::bench::run(arguments),
        Command::Image(arguments) => cmd::image::run(arguments),
        Command::Run(arguments) => cmd::run::run(arguments),
        Command::Probe(arguments) => cmd::probe::run(arguments),
        Command::Tune(arguments) => cmd::tune::run(arguments),
        Command::Mount(arguments) => cmd::mount::run(arguments),
        Command::Serve(arguments) => cmd::serve::run(arguments),
        Command::Overlay(arguments) => cmd::overlay::run(&arguments.what),
        Command::Unmount(arguments) => cmd::unmount::run(arguments),
        Command::Watch(arguments) => cmd::watch::run(arguments),
        Command::Advise(arguments) => cmd::advise::run(arguments),
        Command::Doctor(arguments) => cmd::doctor::run(arguments),
        Command::Completions(arguments) => cmd::generate::completions(arguments),
        Command::Man(arguments) => cmd::generate::man(arguments),
    }
}

/// Prints the help, the version, or the error of a mistyped command line, instead of a run.
fn print_instead(instead: &clap::Error, words: &[OsString]) -> Result<u8> {
    if instead.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Standard error may be closed; the exit code still reports the error.
        let _ = instead.print();
        return Ok(ERROR);
    }
    if instead.use_stderr() {
        let said = hints::of_usage(&instead.render().to_string(), words);
        let _ = io::stderr().write_all(said.as_bytes());
        return Ok(ERROR);
    }
    instead.print().context("cannot write the help")?;
    Ok(0)
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
