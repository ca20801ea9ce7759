//! `forebay plan`: which pages a policy reads, step by step.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use forebay_core::units::{KIB, PAGE_SIZE};
use forebay_report::messages::Complaint;
use forebay_report::units;
use forebay_sim::plan::{Outcome, Player, Run, Step, parse_script, step_lines};
use serde_json::json;

use crate::args::Plan;
use crate::choice;
use crate::slots;

/// Performs the script and prints a line for each step; nothing if the script has an error.
pub(crate) fn run(arguments: &Plan) -> Result<u8> {
    let mut spec = slots::readahead_alone(&arguments.policy)?;
    if let Some(kib) = arguments.ra_kb {
        let what = match spec.gives("max") {
            Some(false) => None,
            Some(true) => Some("--ra-kb and max= both set the limit"),
            None => Some("--ra-kb: the policy has no limit"),
        };
        if let Some(what) = what {
            let hint = "`forebay policies readahead` lists the policies and what they take";
            return Err(Complaint::new(what).hint(hint).into());
        }
        spec = spec.or("max", kib * KIB / PAGE_SIZE).map_err(Complaint::from).context("--ra-kb")?;
    }
    let file_bytes = units::bytes("--file-size", &arguments.file_size)?;
    let path = arguments.script.as_deref().unwrap_or(Path::new(choice::STANDARD_INPUT));
    let name = choice::name(path);
    let text = choice::read(path)?;
    let script = parse_script(&text).map_err(|error| anyhow!("{name}: {error}"))?;
    for ((line, _), step) in step_lines(&text).zip(&script) {
        if let Some(complaint) = beyond_limits(step, file_bytes) {
            return Err(complaint).with_context(|| format!("{name}: line {line}"));
        }
    }
    let mut player = Player::new(file_bytes, || spec.build());
    let mut out = io::stdout().lock();
    if !arguments.json {
        let pages = file_bytes.div_ceil(PAGE_SIZE);
        let heading = format!("# {}, a file of {pages} pages", arguments.policy);
        let columns = "# step -> first page + pages read | pages in the cache";
        writeln!(out, "{heading}\n{columns}").context("cannot write the plan")?;
    }
    for step in script {
        let outcome = player.step(step);
        let line = if arguments.json { object(step, &outcome) } else { outcome.line(step) };
        writeln!(out, "{line}").context("cannot write the plan")?;
    }
    Ok(0)
}

/// A step as one line of JSON: the script's line, what was read, and what is in the cache.
fn object(step: Step, outcome: &Outcome) -> String {
    let run = |run: &Run| json!({"first_page": run.start, "pages": run.count});
    let read: Vec<_> = outcome.runs.iter().map(run).collect();
    json!({"step": step.to_string(), "read": read, "resident_pages": outcome.resident}).to_string()
}

/// The most that one step may read, because its pages are listed in memory.
const STEP_BYTES_MAX: u64 = 1 << 32;

/// What a well-formed step asks of this file and cannot have.
fn beyond_limits(step: &Step, file_bytes: u64) -> Option<Complaint> {
    match *step {
        Step::Read { offset, len }
            if len.min(file_bytes.saturating_sub(offset)) > STEP_BYTES_MAX =>
        {
            let what = format!("'{step}' reads more than {STEP_BYTES_MAX} bytes of the file");
            Some(Complaint::new(what).hint("several shorter reads may follow each other"))
        }
        Step::Touch { page } if page >= file_bytes.div_ceil(PAGE_SIZE) => {
            let pages = file_bytes.div_ceil(PAGE_SIZE);
            let what = format!("'{step}' lies beyond the file's {pages} pages");
            Some(Complaint::new(what).hint("--file-size makes the file larger"))
        }
        Step::Read { .. } | Step::Touch { .. } => None,
        Step::Advise(_) | Step::Open | Step::Drop => None,
    }
}
