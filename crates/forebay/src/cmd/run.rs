//! `forebay run`: a fio job through the same engine, on a real file.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, Result, anyhow, bail};
use forebay_core::units::{FileId, PAGE_SIZE};
use forebay_host::backend::{Backend, FileBackend};
use forebay_host::failure::{Cause, Failure};
use forebay_host::files::{FileMap, MapError};
use forebay_host::run::{RunError, Setup, run as run_on};
use forebay_sim::fio::Compat;
use forebay_sim::scenario::PolicySet;
use forebay_sim::workload::job::{Access, Group, groups};

use crate::args::RunOn;
use crate::choice;
use crate::jobs::{self, Ended, Tally};
use crate::messages::{self, Complaint};
use crate::page::{self, Destination};
use crate::results::{Drawn, Results, Run};
use crate::slots::{self, DISPATCH, Filled, PerSlot, READAHEAD};

/// What fills the slots if nothing was chosen: readahead and dispatch of today's kernel.
const OWN: [&str; 2] = ["linux-6.18", "deferred"];

/// Runs the job once with each policy and prints one table, or an error and no results.
pub(crate) fn run(arguments: &RunOn) -> Result<u8> {
    let runs = slots::of_reads(&arguments.policies, OWN)?;
    let memory = choice::bytes("--memory", &arguments.memory)?;
    let parsed = jobs::read(&arguments.job)?;
    let name = choice::name(&arguments.job);
    let groups = groups(&parsed.jobs, &name, Access::Read)?;
    for group in &groups {
        check_buffers(&name, group)?;
    }
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let title = format!("{name} on {}", arguments.on.display());
    let mut shown = PerSlot::default();
    (shown[READAHEAD], shown[DISPATCH]) = (true, true);
    let drawn = destination.as_ref().map(|_| Drawn::default());
    let mut results = Results { title, shown, drawn, ..Results::default() };
    let mut verified = 0;
    for Filled { policies, labels } in &runs {
        let mut tally = Tally::new();
        for group in &groups {
            verified += perform(arguments, policies, memory, group, &mut tally)?;
        }
        let decides = |slot| slot == READAHEAD || slot == DISPATCH;
        let labels = std::array::from_fn(|slot| decides(slot).then(|| labels[slot].clone()));
        tally.report(&labels, &mut results);
    }
    results.notes.push(format!(
        "forebay {}, real time, {} of page memory, {} workers{}",
        env!("CARGO_PKG_VERSION"),
        arguments.memory,
        arguments.workers,
        if arguments.verify { format!(", {verified} bytes verified") } else { String::new() },
    ));
    results.notes.push(
        "The kernel's own page cache lies below: drop it first to measure the device.".to_owned(),
    );
    let printed = results.print(arguments.output.format(), &mut io::stdout().lock());
    let page = || results.page(&page::this_machine(), &[]);
    page::beside(printed, destination.as_ref(), page)?;
    Ok(0)
}

/// The most that reads in flight may ask for together: each is delivered to memory of its own.
const BUFFER_BYTES_MAX: u64 = 1 << 32;

fn check_buffers(name: &str, group: &Group<'_>) -> Result<()> {
    let bytes = group.buffer_bytes();
    if bytes <= BUFFER_BYTES_MAX {
        return Ok(());
    }
    let what = format!("{name}: reads in flight ask for {bytes} bytes of memory together");
    bail!(
        Complaint::new(format!("{what}, at most {BUFFER_BYTES_MAX} are allowed"))
            .hint("make bs=, iodepth= or numjobs= smaller")
    );
}

/// Runs one group of jobs; returns the bytes that were verified.
fn perform(
    arguments: &RunOn,
    policies: &PolicySet,
    memory: u64,
    group: &Group<'_>,
    tally: &mut Tally,
) -> Result<u64> {
    let path = arguments.on.display();
    let backend =
        FileBackend::open(&arguments.on).with_context(|| format!("cannot read '{path}'"))?;
    let opened_bytes = backend.len();
    let files = FileMap::shared(Arc::new(backend), group.sizes().iter().copied());
    let files = files.map_err(|error| too_small(&path.to_string(), group, &error))?;
    let mut setup = Setup::new(policies.readahead.clone(), memory);
    setup.verify = arguments.verify;
    setup.dispatch = policies.dispatch.clone();
    setup.workers = arguments.workers as usize;
    let compat: Compat = arguments.job_options.fio_compat.into();
    tally.begin(group);
    let outcome = run_on(
        &setup,
        files,
        |opener| group.tasks(compat, |file| opener.open(FileId(file))),
        |finished, _| tally.count(finished),
    );
    let outcome = outcome.map_err(|error| match error {
        RunError::Memory(_) => anyhow!("--memory: {error}"),
        RunError::Workers(_) | RunError::Threads(_) => anyhow!("--workers: {error}"),
        RunError::Reopen(_) => anyhow!("--verify: {error}"),
    })?;
    let (busy, stats) = (outcome.device_busy, outcome.stats);
    let run = Run { busy, stats, writeback: None, processor: None };
    tally.end(&Ended { elapsed: outcome.elapsed, run, pauses: &[], pause_lengths: None });
    let verified = outcome.verified_bytes;
    match outcome.first_error {
        Some(failure) if outcome.errors > 0 || is_ours(&failure) => {
            bail!("'{path}': {failure}");
        }
        Some(failure) => {
            messages::note(&format!("'{path}': {failure}; no caller waited for it"));
        }
        None => {}
    }
    still_there(&arguments.on, opened_bytes)?;
    Ok(verified)
}

/// Whether the file is still what the run began with: pages that were read before it was cut or
/// removed would hide that it was.
fn still_there(path: &Path, opened: u64) -> Result<()> {
    let found = fs::metadata(path)
        .with_context(|| format!("'{}' vanished during the run", path.display()))?;
    if found.is_file() && found.len() < opened {
        let (path, left) = (path.display(), found.len());
        bail!("'{path}' was cut short during the run: {left} of {opened} bytes are left");
    }
    Ok(())
}

/// Whether the failure is a wrong answer to a call, not a page that was read ahead.
fn is_ours(failure: &Failure) -> bool {
    match failure.cause {
        Cause::Short { .. } | Cause::Mismatch { .. } | Cause::Unverified { .. } => true,
        Cause::Read { .. } | Cause::Truncated { .. } | Cause::Panicked { .. } => false,
    }
}

fn too_small(path: &str, group: &Group<'_>, error: &MapError) -> anyhow::Error {
    let MapError::BeyondEnd { bytes, .. } = error else { return anyhow!("'{path}': {error}") };
    // Files start with a page, as `FileMap::shared` puts them.
    let end = group.sizes().iter().fold(0u64, |end, len| {
        end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX).saturating_add(*len)
    });
    Complaint::new(format!("the job needs {end} bytes of '{path}', which has {bytes}"))
        .hint("make size= smaller; a job's files lie one behind the other")
        .into()
}
