//! `forebay plan`: which pages a policy brings in, step by step.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use forebay_core::readahead::Settings;
use forebay_core::units::{KIB, PAGE_SIZE};
use forebay_sim::plan::{Player, Step, parse_script};

use crate::args::Plan;
use crate::choice;
use crate::messages::Complaint;

/// Performs the script and prints a line for each step; nothing if the script has an error.
pub(crate) fn run(arguments: &Plan) -> Result<u8> {
    let ra_pages = arguments.ra_kb.map(pages).transpose()?;
    let settings = Settings { ra_pages, ..Settings::default() };
    let spec = choice::slot_spec(&arguments.policy)?.with(settings);
    let file_bytes = choice::bytes("--file-size", &arguments.file_size)?;
    let path = arguments.script.as_deref().unwrap_or(Path::new("-"));
    let name =
        if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let script = parse_script(&choice::read(path)?).map_err(|error| anyhow!("{name}: {error}"))?;
    let file_pages = file_bytes.div_ceil(PAGE_SIZE);
    let beyond =
        script.iter().find(|step| matches!(step, Step::Touch { page } if *page >= file_pages));
    if let Some(step) = beyond {
        bail!(
            Complaint::new(format!("{name}: '{step}' lies beyond the file's {file_pages} pages"))
                .hint("--file-size makes the file larger")
        );
    }
    let mut player = Player::new(file_bytes, || spec.build());
    let mut out = io::stdout().lock();
    for step in script {
        let line = player.step(step).line(step);
        writeln!(out, "{line}").context("cannot write the plan")?;
    }
    Ok(0)
}

/// Whole pages of a limit in KiB, rounded down as the kernel does.
fn pages(kib: u64) -> Result<u64> {
    let bytes = kib.checked_mul(KIB).filter(|bytes| i64::try_from(*bytes).is_ok());
    let bytes = bytes.with_context(|| format!("--ra-kb takes a number of KiB, not '{kib}'"))?;
    Ok(bytes / PAGE_SIZE)
}
