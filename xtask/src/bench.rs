//! The benchmarks, which are no tests: what they print depends on the machine and its neighbours.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::process::{cargo, say};

/// Measures the path in virtual time, then how long the paper's table takes.
pub(crate) fn run() -> Result<u8> {
    let path = cargo().args(["bench", "--package", "forebay-sim", "--bench", "path"]).status()?;
    ensure!(path.success(), "the benchmark of the path failed");
    let forebay = ["--release", "--package", "forebay"];
    ensure!(cargo().arg("build").args(forebay).status()?.success(), "forebay does not build");
    let started = Instant::now();
    let reproduce = ["--", "reproduce", "readahead", "--format", "json"];
    let table = cargo().args(["run", "--quiet"]).args(forebay).args(reproduce).output()?;
    ensure!(table.status.success(), "reproduce failed");
    say(&format!("reproduce readahead, 32 draws: {:.2} s", started.elapsed().as_secs_f64()))?;
    Ok(0)
}
