//! The command line of Forebay.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::iter;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use forebay_report::program::{ERROR, NO, exit_code, print_instead};
use forebay_report::screen;

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

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    exit_code(answer(&words), |error| hints::of_chain(error, &words))
}

fn answer(words: &[OsString]) -> Result<u8> {
    if words.is_empty() {
        return Ok(cmd::first::run());
    }
    if let Some(text) = cmd::help::asked(words)? {
        screen::set_up(false);
        return cmd::help::print(&text);
    }
    let typed = typed_jobs::rewritten(words)?;
    match Arguments::try_parse_from(iter::once(OsString::from("forebay")).chain(typed)) {
        Ok(arguments) => arguments.output.run(|| run(&arguments.command)),
        Err(instead) => print_instead(&instead, |said| hints::of_usage(said, words)),
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
