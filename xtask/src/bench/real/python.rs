//! Small programs in Python, which has SQLite, LMDB and mappings as Debian packages them.

use anyhow::{Context, Result};

use super::rig::Rig;

/// The interpreter of the packages; others in `PATH` have not their modules.
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// Runs a program with arguments; the number in its last line.
pub(super) fn number(rig: &Rig<'_>, program: &str, arguments: &[&str]) -> Result<f64> {
    let mut words = vec![PYTHON, "-c", program];
    words.extend(arguments);
    last_number(&rig.run(&words)?)
}

/// The number in the last line of the output.
pub(super) fn last_number(said: &str) -> Result<f64> {
    let line = said.lines().next_back().context("nothing was printed")?;
    line.trim().parse().with_context(|| format!("'{line}' is no number"))
}
