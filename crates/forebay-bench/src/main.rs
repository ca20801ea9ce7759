//! Benchmarks of read paths, mounts and tuning on this machine.
//!
//! ```text
//!   dispatch    ways to read a file                          in this process
//!   mount --+-- mount-part, a process for each reader
//!           '-- forebay mount, other servers, the kernel
//!   live ---+-- live-part, a process for each load           on slow devices of its own
//!           '-- forebay tune
//!   live-rig    one such device, for other programs
//! ```
#![deny(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use forebay_report::hints;
use forebay_report::program::{exit_code, print_instead};

use args::{BenchArguments, Benchmark};

mod args;
mod dispatch;
mod live;
mod measure;
mod mount;
mod page;
mod process;
mod verdict;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    exit_code(answer(&words), |error| {
        hints::of_chain(error, None, &BenchArguments::command(), &words)
    })
}

fn answer(words: &[OsString]) -> Result<u8> {
    match BenchArguments::try_parse() {
        Ok(arguments) => arguments.output.run(|| run(&arguments)),
        Err(instead) => print_instead(&instead, |said| {
            hints::of_usage(said, None, &BenchArguments::command(), words)
        }),
    }
}

fn run(arguments: &BenchArguments) -> Result<u8> {
    let forebay = arguments.forebay.as_deref();
    match &arguments.benchmark {
        Benchmark::Dispatch(arguments) => dispatch::run(arguments),
        Benchmark::Mount(arguments) => mount::run(arguments, forebay),
        Benchmark::MountPart(arguments) => mount::run_part(arguments),
        Benchmark::Live(arguments) => live::run(arguments, forebay),
        Benchmark::LivePart(arguments) => live::run_part(arguments),
        Benchmark::LiveRig(arguments) => live::lent::run(arguments, forebay),
    }
}

// Where the documentation says what each benchmark measures.
const DISPATCH: &str = "Dispatch on this machine";
const MOUNT: &str = "Mounted images on this machine";
const LIVE: &str = "The running kernel on slow devices";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        BenchArguments::command().debug_assert();
    }
}
