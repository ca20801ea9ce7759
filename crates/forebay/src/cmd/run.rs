//! `forebay run`: a fio job through the same engine, on a real file.
//!
//! | --on | a job that reads | a job that writes |
//! | --- | --- | --- |
//! | a file, a block device | is read | is refused, or written under --allow-writes |
//! | a folder | a file without a name is made there | the same, and written |

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, Result, anyhow, bail};
use forebay_core::units::{FileId, PAGE_SIZE};
use forebay_host::backend::{Backend, FileBackend};
use forebay_host::failure::{Cause, Failure};
use forebay_host::files::{FileMap, MapError};
use forebay_host::run::{Outcome, RunError, Setup, WritebackSpecs, run as run_on};
use forebay_host::world::TaskPauses;
use forebay_report::messages::{self, Complaint};
use forebay_report::page::{self, Destination};
use forebay_report::units;
use forebay_sim::fio::{Compat, Job};
use forebay_sim::scenario::PolicySet;
use forebay_sim::tally::{RunTotals, WritebackTotals};
use forebay_sim::workload::job::{Access, Group, groups};
use forebay_sim::world::Pauses;

use crate::args::run::RunOn;
use crate::jobs::{self, CountedRun, JobSource, JobsProgress};
use crate::progress::Progress;
use crate::results::{Drawn, Results};
use crate::slots::{self, DISPATCH, ELEVATOR, Filled, PerSlot, READAHEAD};

/// What fills the slots if nothing was chosen: the policies of today's kernel.
const OWN: PerSlot<&str> =
    ["linux-6.18", "linux-6", "fixed", "linux-3.18", "none", "deferred", "two-lists"];

/// Runs the job once with each policy and prints one table, or an error and no results.
pub(crate) fn run(arguments: &RunOn) -> Result<u8> {
    let memory = units::bytes("--memory", &arguments.memory)?;
    let Some(source) = JobSource::of(arguments.job.as_deref(), &arguments.job_options) else {
        bail!("run takes a job file or --name")
    };
    let (parsed, name) = (source.read()?, source.name());
    let groups = groups_on(&parsed.jobs, &name, &arguments.on, arguments.allow_writes)?;
    let writes = parsed.jobs.iter().any(|job| job.mode.writes());
    let chosen = slots::of_run(&arguments.policies, OWN, writes)?;
    for group in &groups {
        check_buffers(&name, group)?;
    }
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let title = format!("{name} on {}", arguments.on.display());
    let drawn = destination.as_ref().map(|_| Drawn::default());
    let decides = |slot| (writes && slot != ELEVATOR) || slot == READAHEAD || slot == DISPATCH;
    let others = chosen.others(decides).filter(|_| writes);
    let note_of_writes = others.map(|others| format!("The other slots: {others}"));
    let mut results =
        Results { title, shown: chosen.shown, note_of_writes, drawn, ..Results::default() };
    let mut verified = 0;
    let shown = Progress::measured();
    let mut progress = JobsProgress::new(shown, "ran", chosen.runs.len(), groups.len());
    for Filled { policies, labels } in &chosen.runs {
        if let Some(why) = policies.contradiction(memory) {
            bail!(Complaint::new(why).hint("lower the background level or raise the limit"));
        }
        let mut counted = CountedRun::new(&mut progress);
        for group in &groups {
            verified += perform(arguments, policies, memory, group, writes, &mut counted)?;
        }
        let labels = std::array::from_fn(|slot| decides(slot).then(|| labels[slot].clone()));
        jobs::report(&counted.tally, &labels, &mut results);
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

/// The most bytes that reads in flight may request together: each is delivered to separate memory.
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
    writes: bool,
    counted: &mut CountedRun<'_>,
) -> Result<u64> {
    let path = arguments.on.display();
    let backend = Arc::new(open(&arguments.on, group, writes)?);
    let opened_bytes = backend.len();
    let mut files = place(backend, group, &path.to_string())?;
    for (file, bytes) in (0..).map(FileId).zip(group.sizes()) {
        files.begin_with(file, *bytes);
    }
    let setup = setup(arguments, policies, memory, writes);
    let compat: Compat = arguments.job_options.fio_compat.into();
    counted.begin(group);
    let outcome = run_on(
        &setup,
        files,
        |opener| group.tasks(compat, |file| opener.open(FileId(file))),
        |finished, _| counted.count(finished),
    );
    let outcome = outcome.map_err(|error| match error {
        RunError::Memory(_) => anyhow!("--memory: {error}"),
        RunError::Workers(_) | RunError::Threads(_) => anyhow!("--workers: {error}"),
        RunError::Reopen(_) => anyhow!("--verify: {error}"),
    })?;
    let pauses: Vec<Pauses> = outcome.pauses.iter().map(|task| pauses_of(*task)).collect();
    counted.tally.end(outcome.elapsed, &whole(&outcome, writes), &pauses, None);
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
    if !arguments.on.is_dir() {
        still_there(&arguments.on, opened_bytes)?;
    }
    Ok(verified)
}

/// The jobs in groups, if the path may be written where they write.
pub(crate) fn groups_on<'a>(
    jobs: &'a [Job],
    name: &str,
    on: &Path,
    allow_writes: bool,
) -> Result<Vec<Group<'a>>> {
    let may_write = allow_writes || on.is_dir();
    let access = if may_write { Access::Write } else { Access::Read };
    let groups = groups(jobs, name, access).map_err(|error| {
        let hint = match jobs.iter().any(|job| job.mode.writes()) && !may_write {
            true => "--allow-writes lets it overwrite the file; a folder gets a file of its own",
            false => "`forebay help job-files` lists what is understood",
        };
        Complaint::new(messages::without_line(&error.to_string())).hint(hint)
    })?;
    Ok(groups)
}

/// The files of a group one behind the other.
pub(crate) fn place(backend: Arc<FileBackend>, group: &Group<'_>, path: &str) -> Result<FileMap> {
    let files = FileMap::shared(backend, group.rooms().iter().copied());
    files.map_err(|error| too_small(path, group, &error))
}

/// The file that the job runs on: an existing one, or a new one.
pub(crate) fn open(on: &Path, group: &Group<'_>, writes: bool) -> Result<FileBackend> {
    let path = on.display();
    if on.is_dir() {
        let bytes = needed(group);
        return FileBackend::create_in(on, bytes)
            .with_context(|| format!("cannot make a file of {bytes} bytes in '{path}'"));
    }
    if writes {
        return FileBackend::open_writable(on).map_err(|error| {
            let busy = error.kind() == io::ErrorKind::ResourceBusy;
            let error = anyhow::Error::from(error).context(format!("cannot write '{path}'"));
            match busy {
                true => Complaint::new(format!("{error:#}"))
                    .hint("a device that is mounted or otherwise in use is not overwritten")
                    .into(),
                false => error,
            }
        });
    }
    FileBackend::open(on).with_context(|| format!("cannot read '{path}'"))
}

fn setup(arguments: &RunOn, policies: &PolicySet, memory: u64, writes: bool) -> Setup {
    let mut setup = Setup::new(policies.readahead.clone(), memory);
    setup.verify = arguments.verify;
    setup.dispatch = policies.dispatch.clone();
    setup.workers = arguments.workers as usize;
    setup.writeback = writes.then(|| WritebackSpecs {
        flush: policies.flush.clone(),
        controller: policies.controller.clone(),
        throttle: policies.throttle.clone(),
        reclaim: policies.reclaim.clone(),
    });
    setup
}

fn whole(outcome: &Outcome, writes: bool) -> RunTotals {
    let writeback = WritebackTotals {
        durable: outcome.durable,
        idle_while_dirty: None,
        dirtied: outcome.at_exit.dirtied,
        residue: outcome.at_exit.residue,
        limit: outcome.limit_pages,
    };
    RunTotals {
        busy: outcome.device_busy,
        stats: outcome.stats,
        writeback: writes.then_some(writeback),
        processor: None,
    }
}

fn pauses_of(task: TaskPauses) -> Pauses {
    let TaskPauses { count, total, longest } = task;
    Pauses { count, total, longest }
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
        Cause::Short { .. }
        | Cause::Mismatch { .. }
        | Cause::Lost { .. }
        | Cause::Write { .. }
        | Cause::Sync { .. }
        | Cause::Unverified { .. } => true,
        Cause::Read { .. } | Cause::Truncated { .. } | Cause::Panicked { .. } => false,
    }
}

fn too_small(path: &str, group: &Group<'_>, error: &MapError) -> anyhow::Error {
    let MapError::BeyondEnd { bytes, .. } = error else { return anyhow!("'{path}': {error}") };
    let end = needed(group);
    Complaint::new(format!("the job needs {end} bytes of '{path}', which has {bytes}"))
        .hint("make size= smaller; a job's files follow each other")
        .into()
}

/// Where the last file of a group ends: files start with a page, as `FileMap::shared` puts them.
fn needed(group: &Group<'_>) -> u64 {
    group.rooms().iter().fold(0u64, |end, len| {
        end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX).saturating_add(*len)
    })
}
