//! The project's own commands: `cargo xtask COMMAND`.
//!
//! A command is one variant of [`Task`] and one file with a `run` that returns the exit code:
//! 0 done, 1 the answer is no, 2 an error. `test` hands the code of `cargo test` through.

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod ci;
mod deny;
mod docs;
mod fidelity;
mod fuzz;
mod kernel;
mod markdown;
mod package;
mod process;
mod python;
mod swarm;
mod test;
mod tidy;
mod tool;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", about = "The project's own commands")]
struct Typed {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every check that a change must pass, up to the first that fails
    Ci,
    /// Install what the tests need where that is allowed, then run them all
    Test(test::Arguments),
    /// Measure the path's throughput and the time that a reproduction takes, or real programs
    Bench(bench::Arguments),
    /// Check licences, sources and versions of the dependencies, and known advisories
    Deny,
    /// Build the book from the documents, and check its links
    Docs,
    /// Compare the running kernel's readahead with the policy that models it, page by page
    Fidelity(fidelity::Options),
    /// Mutate images towards what an image parser does not survive
    Fuzz(fuzz::Arguments),
    /// Build Linux with the papers' mechanisms, and run it in virtual time
    Kernel(kernel::Arguments),
    /// Build the Debian package and its bill of materials; try its life on this machine
    Package(package::Arguments),
    /// Run random scenarios against the engine, each twice
    Swarm(swarm::Arguments),
    /// Check the style that rustc, clippy and rustfmt do not
    Tidy,
}

fn main() -> ExitCode {
    match run(&Typed::parse().task) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// A reader that has seen enough is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(task: &Task) -> Result<u8> {
    match task {
        Task::Ci => ci::run(),
        Task::Test(arguments) => test::run(arguments),
        Task::Bench(arguments) => bench::run(arguments),
        Task::Deny => deny::run(),
        Task::Docs => docs::run(),
        Task::Fidelity(options) => fidelity::run(options),
        Task::Fuzz(arguments) => fuzz::run(arguments),
        Task::Kernel(arguments) => kernel::run(arguments),
        Task::Package(arguments) => package::run(arguments),
        Task::Swarm(arguments) => swarm::run(arguments),
        Task::Tidy => tidy::run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Typed::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_goes_to_cargo_test() {
        let typed = Typed::parse_from(["xtask", "test", "--", "name", "--", "--nocapture"]);
        let Task::Test(arguments) = typed.task else { panic!("parsed as another command") };
        assert_eq!(arguments.cargo_test, ["name", "--", "--nocapture"]);
    }
}
