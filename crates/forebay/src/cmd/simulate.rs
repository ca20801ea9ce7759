//! `forebay simulate`: a fio job, a trace, or a recording of a mount, in virtual time.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use forebay_core::units::PAGE_SIZE;
use forebay_core::workload::Finished;
use forebay_report::messages::{self, Complaint};
use forebay_report::page::{self, Destination};
use forebay_sim::fio::Compat;
use forebay_sim::machine::Machine;
use forebay_sim::paper::Series;
use forebay_sim::scenario::{NewFile, PAST_CLOCK, PolicySet, Scenario};
use forebay_sim::workload::job::{Access, Group, groups};

use crate::args::simulate::Simulate;
use crate::args::trace::{EntryLayer, TraceReplay};
use crate::choice;
use crate::jobs::{self, CountedRun, JobSource, JobsProgress};
use crate::over_time;
use crate::progress::Progress;
use crate::results::{Drawn, Results};
use crate::slots;
use crate::traces;

mod check;
mod mounted;
mod traced;

/// Replays a recording, or runs a job or a trace and prints the results.
pub(crate) fn run(arguments: &Simulate) -> Result<u8> {
    if let Some(recording) = &arguments.replay.mount {
        return mounted::run(arguments, recording);
    }
    if let Some(on) = &arguments.check {
        return check::run(arguments, on);
    }
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let results = results(arguments, Progress::measured())?;
    let printed = results.print(arguments.output.format(), &mut io::stdout().lock());
    let facts = [
        ("time", "virtual".to_owned()),
        ("machine", results.machines.clone()),
        ("settings", arguments.set.join(", ")),
        ("seed", arguments.seed.to_string()),
    ];
    let sections = if is_trace(arguments) { &[] } else { SECTIONS };
    page::beside(printed, destination.as_ref(), || results.page(&facts, sections))?;
    Ok(0)
}

/// Whether the input is a trace.
fn is_trace(arguments: &Simulate) -> bool {
    let first = arguments.inputs.first();
    arguments.trace.trace_format.is_some() || first.is_some_and(|input| traces::is_trace(input))
}

/// Refuses options of traces with an input that is none.
fn refuse_options_of_traces(options: &TraceReplay, name: &str) -> Result<()> {
    if let Some(option) = options.for_traces_only() {
        let what = format!("{option} is for traces, and {name} is none");
        bail!(Complaint::new(what).hint("--trace-format says that a file is a trace"));
    }
    Ok(())
}

/// What a job or a trace comes to, once with each set of policies; `shown` shows how far it is.
pub(crate) fn results(arguments: &Simulate, shown: Progress) -> Result<Results> {
    if is_trace(arguments) {
        return traced::run(arguments, shown);
    }
    if let [first, _, ..] = &arguments.inputs[..] {
        let what = format!("several inputs are traces, and {} is none", choice::name(first));
        bail!(Complaint::new(what).hint("`forebay sweep` runs several job files"));
    }
    let input = arguments.inputs.first().map(PathBuf::as_path);
    let Some(source) = JobSource::of(input, &arguments.job_options) else {
        bail!("simulate takes a job file, a trace, --name or --mount")
    };
    refuse_options_of_traces(&arguments.trace, &source.name())?;
    run_job(arguments, source, shown)
}

/// Where the requests of an input enter the path, if it can be read: a job as a whole, a trace by
/// its first bytes.
pub(crate) fn entry_of(input: &Path, options: &TraceReplay) -> Result<EntryLayer> {
    if options.trace_format.is_some() || traces::is_trace(input) {
        return traced::entry_of(input, options);
    }
    let source = JobSource::File(input);
    refuse_options_of_traces(options, &source.name())?;
    source.check()?;
    Ok(EntryLayer::Cache)
}

/// Whether machine and policies of a run exist, and decide something for requests from there.
pub(crate) fn check(arguments: &Simulate, entry: EntryLayer) -> Result<()> {
    let (kernel, policies) = (arguments.one_machine()?.kernel(), &arguments.policies);
    match entry {
        EntryLayer::Block => slots::of_block_trace(policies, &kernel.elevator).map(drop),
        EntryLayer::Cache => slots::sets(policies, &kernel, str::to_owned).map(drop),
    }
}

/// Runs the job once with each set of policies.
fn run_job(arguments: &Simulate, source: JobSource<'_>, shown: Progress) -> Result<Results> {
    let machine = arguments.one_machine()?;
    let place = |key: &str| {
        let is_set = |set: &String| set.split_once('=').is_some_and(|(set, _)| set == key);
        if arguments.set.iter().any(is_set) {
            return format!("--set {key}");
        }
        format!("machine '{}', {key}", arguments.machine[0])
    };
    let chosen = slots::sets(&arguments.policies, &machine.kernel(), place)?;
    let (parsed, name) = (source.read()?, source.name());
    let groups = groups(&parsed.jobs, &name, Access::Direct).map_err(|error| {
        Complaint::new(messages::without_line(&error.to_string()))
            .hint("`forebay help job-files` lists what is understood")
    })?;
    let compat = arguments.job_options.fio_compat.into();
    let mut results = Results {
        title: format!("{name} on {}", machine.name()),
        machines: machine.name().to_owned(),
        shown: chosen.shown,
        note_of_writes: chosen.others(|_| true).map(|own| format!("The machine's own: {own}")),
        drawn: arguments.page.html.as_ref().map(|_| Drawn::default()),
        ..Results::default()
    };
    let mut progress = JobsProgress::new(shown, "simulated", chosen.runs.len(), groups.len());
    for filled in &chosen.runs {
        if let Some(why) = filled.policies.contradiction(machine.page_cache_bytes()) {
            bail!(Complaint::new(why).hint("lower the background level or raise the limit"));
        }
        let labels = filled.labels.clone().map(Some);
        let run = results.run_name(&labels);
        let (policies, seed) = (&filled.policies, arguments.seed);
        let mut counted = CountedRun::new(&mut progress);
        let kept = simulate(&groups, &machine, policies, seed, compat, &run, &mut counted)?;
        jobs::report(&counted.tally, &labels, &mut results);
        if let Some(drawn) = &mut results.drawn {
            drawn.keep(kept);
        }
    }
    results.notes.push(arguments.repeated(&[&machine]));
    Ok(results)
}

impl Simulate {
    /// The machines, at least one.
    fn machines(&self) -> Result<Vec<Machine>> {
        self.machine.iter().map(|name| choice::machine(name, &self.set)).collect()
    }

    /// The machine of anything but a trace.
    pub(super) fn one_machine(&self) -> Result<Machine> {
        let [name] = &self.machine[..] else {
            bail!(
                Complaint::new(
                    "several machines are for traces, whose volumes lie on their devices"
                )
                .hint("`forebay sweep` runs an input on each of several machines")
            );
        };
        choice::machine(name, &self.set)
    }

    /// The parameters that repeat the runs.
    fn repeated(&self, machines: &[&Machine]) -> String {
        format!(
            "forebay {}, virtual time, machine {}{}, seed {}",
            env!("CARGO_PKG_VERSION"),
            names(machines.iter().copied()),
            self.set.iter().map(|set| format!(" ({set})")).collect::<String>(),
            self.seed,
        )
    }
}

/// The names of machines.
fn names<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> String {
    let names: Vec<&str> = machines.into_iter().map(Machine::name).collect();
    names.join(", ")
}

/// The sections of the documentation about such runs.
const SECTIONS: &[(&str, &str)] = &[(DOCUMENTED, "What is exact"), (DOCUMENTED, "Traps")];

const DOCUMENTED: &str = include_str!("../../../../docs/job-files.md");

fn simulate(
    groups: &[Group<'_>],
    machine: &Machine,
    policies: &PolicySet,
    seed: u64,
    compat: Compat,
    run: &str,
    counted: &mut CountedRun<'_>,
) -> Result<Vec<Series>> {
    let (mut kept, mut begin) = (Vec::new(), 0.0);
    let frames = machine.page_cache_bytes() / PAGE_SIZE;
    for group in groups {
        counted.begin(group);
        let tasks = group.task_count();
        let sizes = group.sizes().iter().zip(group.rooms());
        // A file that grows changes its inode with every write.
        let file = |(bytes, room): (&u64, &u64)| NewFile {
            bytes: *bytes,
            room: *room,
            inode: bytes < room,
            device: 0,
        };
        let files: Vec<NewFile> = sizes.map(file).collect();
        let scenario = Scenario::new(machine, policies, seed, tasks, &files);
        let mut scenario = scenario.map_err(Complaint::from)?;
        let sectors = scenario.sectors();
        let tasks = group.tasks_on_device(compat, &sectors, |file| scenario.open(file));
        let mut count = |finished: &Finished| counted.count(finished);
        let (outcome, record) = scenario.run(tasks, &mut count);
        if outcome.is_cut() {
            let mut names: Vec<&str> = group.names().collect();
            names.dedup();
            let what = format!("{}: {PAST_CLOCK}", names.join(", "));
            bail!(Complaint::new(what).hint("rate, thinktime and runtime say how long it takes"));
        }
        over_time::append(&mut kept, over_time::of_run(run, &record, frames, begin));
        begin += outcome.durable.max(outcome.elapsed).as_nanos() as f64 / 1e9;
        counted.tally.end_scenario(&outcome, &record, frames);
    }
    Ok(kept)
}
