//! Checks the dependencies against `deny.toml`: licences, sources, versions, and known advisories.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{command, exit_code};
use crate::tool::DENY;

/// Checks; advisories need a database that is fetched, and are skipped without it.
pub(crate) fn run() -> Result<u8> {
    let program = DENY.path()?;
    let deny = || -> Command {
        let mut deny = command("timeout");
        // A fetch that hangs has failed.
        deny.arg(SECONDS).arg(&program);
        deny
    };
    let code = exit_code(deny().args([
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))?;
    if code != 0 {
        return Ok(code);
    }
    let fetched = deny().args(["fetch", "db"]).output().context("cannot run cargo-deny")?;
    if !fetched.status.success() {
        eprintln!(
            "deny: skip: what is known of the dependencies: the database of advisories cannot be \
             fetched; where it can: cargo deny check advisories"
        );
        return Ok(0);
    }
    exit_code(deny().args(["--offline", "check", "advisories"]))
}

/// Longer than a check takes, and any database that is there.
const SECONDS: &str = "60";
