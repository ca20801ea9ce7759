//! `forebay bench`: benchmarks of read paths, mounts and tuning on this machine.

use anyhow::Result;

use crate::args::{Bench, BenchWhat};

mod dispatch;
pub(crate) mod live;
pub(crate) mod mount;
mod page;
pub(crate) mod process;
mod verdict;

/// Runs a benchmark.
pub(crate) fn run(arguments: &Bench) -> Result<u8> {
    match &arguments.what {
        BenchWhat::Dispatch(arguments) => dispatch::run(arguments),
        BenchWhat::Mount(arguments) => mount::run(arguments),
        BenchWhat::MountPart(arguments) => mount::run_part(arguments),
        BenchWhat::Live(arguments) => live::run(arguments),
        BenchWhat::LivePart(arguments) => live::run_part(arguments),
        BenchWhat::LiveRig(arguments) => live::lent::run(arguments),
    }
}

// Where the documentation says what each benchmark measures.
const DISPATCH: &str = "Dispatch on this machine";
const MOUNT: &str = "Mounted images on this machine";
const LIVE: &str = "The running kernel on slow devices";
