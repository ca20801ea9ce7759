//! `forebay tune recommend`: which profile fits this machine, and what it sets.

use std::io::{self, Write};

use anyhow::Result;
use forebay_live::profile::{MachineSigns, recommend};
use serde_json::json;

use crate::NO;
use crate::args::tune::Recommend;

use super::tree;

/// Looks at what runs, and names a profile.
pub(super) fn run(arguments: &Recommend) -> Result<u8> {
    let tree = tree(&arguments.place)?;
    let mut out = io::stdout().lock();
    let found = recommend(&MachineSigns::read(&tree));
    if arguments.json {
        let object = match &found {
            Some((profile, why)) => {
                json!({"profile": profile.to_string(), "why": why, "policy": profile.text()})
            }
            None => json!({"profile": null}),
        };
        writeln!(out, "{object:#}")?;
        return Ok(if found.is_some() { 0 } else { NO });
    }
    let Some((profile, why)) = found else {
        writeln!(
            out,
            "no profile: no database, file server or desktop runs here, and the machine is not \
             virtual\n  forebay tune\ntunes it with the defaults"
        )?;
        return Ok(NO);
    };
    writeln!(out, "{profile}: {why}\n  forebay tune --profile {profile}\nsets\n")?;
    out.write_all(profile.text().as_bytes())?;
    Ok(0)
}
