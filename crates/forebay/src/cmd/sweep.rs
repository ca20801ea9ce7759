//! `forebay sweep`: one input under many settings, in chunks that any process can run.
//!
//! ```text
//!   plan ---> DIR/plan.json            every point, and chunks of those without a result
//!   run  ---> DIR/results/NAME.json    the rows of one chunk; renamed into place when complete
//!   status, merge, best <--------------- all results, by the names of points
//! ```
//!
//! A point is run as `forebay simulate` runs it, from the same words, so its row is the row that
//! the command prints.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint, shown};
use forebay_report::whole;
use serde_json::{Value, json};

use crate::args::sweep::{SweepEngine, SweepRun, SweepStatus, SweepSubmit, SweepWhat};

use plan::{Plan, RESULTS};
use results::PointResults;

mod arrays;
mod axes;
mod best;
mod columnar;
mod front;
mod make;
mod means;
mod merge;
mod page;
mod plan;
mod ranked;
mod results;

/// Runs a subcommand.
pub(crate) fn run(what: &SweepWhat) -> Result<u8> {
    match what {
        SweepWhat::Plan(arguments) => make::make(arguments),
        SweepWhat::Run(arguments) => run_chunk(arguments),
        SweepWhat::Submit(arguments) => submit(arguments),
        SweepWhat::Status(arguments) => status(arguments),
        SweepWhat::Merge(arguments) => merge::merge(arguments),
        SweepWhat::Best(arguments) => best::best(arguments),
    }
}

/// Runs the points of a chunk, unless it has a result.
fn run_chunk(arguments: &SweepRun) -> Result<u8> {
    let plan = Plan::read(&arguments.folder)?;
    let Some(chunk) = plan.chunks.get(arguments.chunk) else {
        let count = chunks(plan.chunks.len());
        let what = format!("--chunk {}: the plan has {count}", arguments.chunk);
        bail!(Complaint::new(what).hint("chunks are counted from zero"));
    };
    if plan.has_result(&arguments.folder, chunk) {
        say(&format!("chunk {} has its result", arguments.chunk))?;
        return Ok(0);
    }
    let mut rows = Vec::new();
    for place in chunk.clone() {
        let point = &plan.points[place];
        point.verify(&plan)?;
        let row = point.run().with_context(|| format!("point {}", point.name))?;
        rows.push(json!({"point": point.name, "row": row}));
    }
    let result = json!({"version": plan.version, "points": rows});
    let file = plan.result_file(&arguments.folder, chunk);
    fs::create_dir_all(arguments.folder.join(RESULTS))
        .context("cannot make the results' folder")?;
    whole::write(&file, format!("{result}\n").as_bytes())?;
    Ok(0)
}

/// Runs all chunks without a result, in separate processes.
fn submit(arguments: &SweepSubmit) -> Result<u8> {
    if arguments.scheduler.is_some() && arguments.on != SweepEngine::Dask {
        bail!(Complaint::new("--scheduler is of Dask").hint("--on dask"));
    }
    let plan = Plan::read(&arguments.folder)?;
    let missing = plan.missing(&arguments.folder);
    let program = env::current_exe().context("cannot find the program itself")?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.map_or(processors, |jobs| jobs as usize).min(missing.len().max(1));
    match arguments.on {
        SweepEngine::Local => run_here(&arguments.folder, &program, &missing, jobs),
        SweepEngine::Dask => run_by_python(arguments, &program, &missing, jobs, &DASK),
        SweepEngine::Hyperqueue if !arrays::HYPERQUEUE.is_installed() => {
            run_by_python(arguments, &program, &missing, jobs, &HYPERQUEUE)
        }
        SweepEngine::Hyperqueue => {
            arrays::submit(arguments, &program, &missing, &arrays::HYPERQUEUE)
        }
        SweepEngine::Slurm => arrays::submit(arguments, &program, &missing, &arrays::SLURM),
    }
}

/// Runs chunks in processes of this machine.
fn run_here(folder: &Path, program: &Path, missing: &[usize], jobs: usize) -> Result<u8> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let progress = messages::progress(missing.len() as u64, "chunks");
    let work = || {
        while let Some(chunk) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = run_process(program, folder, *chunk) {
                failed.lock().expect("no worker panics").push((*chunk, why));
            }
            progress.inc(1);
        }
    };
    thread::scope(|scope| {
        (0..jobs).for_each(|_| drop(scope.spawn(work)));
    });
    progress.finish_and_clear();
    let mut failed = failed.into_inner().expect("no worker panics");
    failed.sort();
    for (chunk, why) in &failed {
        messages::complain(&format!("chunk {chunk}: {why}"));
    }
    say_run(missing.len(), failed.len())?;
    Ok(if failed.is_empty() { 0 } else { crate::NO })
}

/// An engine that has a package of Python.
struct Client {
    name: &'static str,
    package: &'static str,
    /// The client: a program of Python.
    script: &'static str,
}

const DASK: Client =
    Client { name: "Dask", package: "distributed", script: include_str!("sweep/dask.py") };
const HYPERQUEUE: Client =
    Client { name: "HyperQueue", package: "hyperqueue", script: include_str!("sweep/hq.py") };

/// Runs chunks on workers of an engine, which are started here if no scheduler is named.
fn run_by_python(
    arguments: &SweepSubmit,
    program: &Path,
    missing: &[usize],
    jobs: usize,
    client: &Client,
) -> Result<u8> {
    if missing.is_empty() {
        say_run(0, 0)?;
        return Ok(0);
    }
    let folder = fs::canonicalize(&arguments.folder).with_context(|| shown(&arguments.folder))?;
    let scheduler = arguments.scheduler.as_deref().unwrap_or("-");
    let mut python = Command::new(&arguments.python);
    python.args(["-c", client.script, scheduler, &jobs.to_string()]);
    python.arg(program).arg(folder).args(missing.iter().map(usize::to_string));
    python.stdin(Stdio::null()).stdout(Stdio::null());
    let status = python.status().with_context(|| format!("cannot start {}", arguments.python))?;
    let plan = Plan::read(&arguments.folder)?;
    let failed = plan.missing(&arguments.folder).len();
    if !status.success() && failed == missing.len() {
        let what = format!("no chunk was run on {}: {status}", client.name);
        let hint = match arguments.scheduler {
            Some(_) => "is the scheduler of --scheduler there, and may it be reached?".to_owned(),
            None => format!(
                "`pip install {}` installs it; --python names the Python that has it",
                client.package
            ),
        };
        bail!(Complaint::new(what).hint(hint));
    }
    say_run(missing.len(), failed)?;
    Ok(if failed == 0 { 0 } else { crate::NO })
}

/// Runs a chunk in a process, and says why it failed.
fn run_process(program: &Path, folder: &Path, chunk: usize) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["sweep", "run"]).arg(folder).args(["--chunk", &chunk.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().map_err(|error| format!("it did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find_map(|line| line.strip_prefix("error: "));
    Err(said.map_or_else(|| output.status.to_string(), str::to_owned))
}

/// Prints how far a sweep is.
fn status(arguments: &SweepStatus) -> Result<u8> {
    let plan = Plan::read(&arguments.folder)?;
    let results = PointResults::read(&arguments.folder, &plan)?;
    let done = plan.points.iter().filter(|point| results.of(&point.name).is_some()).count();
    let missing = plan.missing(&arguments.folder);
    let mut out = io::stdout().lock();
    if arguments.json {
        let object = json!({
            "points": plan.points.len(),
            "done": done,
            "chunks": plan.chunks.len(),
            "missing_chunks": missing,
        });
        writeln!(out, "{object:#}").context("cannot write the object")?;
        return Ok(0);
    }
    let (points, chunks) = (plan.points.len(), plan.chunks.len());
    let text = format!(
        "{done} of {points} points have results; {} of {chunks} chunks are missing\n",
        missing.len()
    );
    out.write_all(text.as_bytes()).context("cannot write the status")?;
    Ok(0)
}

/// Says how many chunks were run.
fn say_run(count: usize, failed: usize) -> Result<()> {
    say(&format!("{} run, {failed} failed", chunks(count)))
}

/// A number of chunks in words.
fn chunks(count: usize) -> String {
    if count == 1 { "1 chunk".to_owned() } else { format!("{count} chunks") }
}

/// Prints a line.
fn say(line: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{line}").context("cannot write to standard output")
}

/// A JSON file of a sweep.
fn read_json(path: &Path) -> Result<Value> {
    let name = shown(path);
    let text = fs::read_to_string(path).with_context(|| format!("cannot read '{name}'"))?;
    serde_json::from_str(&text).map_err(|error| {
        Complaint::new(format!("{name}: {error}"))
            .hint("is the folder one that `forebay sweep plan` has written?")
            .into()
    })
}
