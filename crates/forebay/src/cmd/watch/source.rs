//! Where views come from: samples, events and processes of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time;

use anyhow::{Context, Result};
use forebay_core::time::Instant;
use forebay_live::machine::Machine;
use forebay_live::pattern::Patterns;
use forebay_live::process::Process;
use forebay_live::signal::{Sample, Sampler};
use forebay_live::trace::{Scope, TraceError, Tracer};
use forebay_live::tree::Tree;
use forebay_live::view::{Period, ProcessCounts, ProcessSeen, View, Writers};
use rustix::time::{ClockId, clock_gettime};

use super::names::Names;
use super::panes::ProcessFiles;

/// The running machine, watched.
#[derive(Debug)]
pub(super) struct Source {
    tree: Tree,
    machine: Machine,
    read_at: time::Instant,
    sampler: Sampler,
    before: Sample,
    after: Sample,
    tracer: Option<Tracer>,
    patterns: Patterns,
    writers: Writers,
    names: Names,
    processes: BTreeMap<u32, Process>,
    lost: u64,
    gaps: Vec<String>,
}

impl Source {
    /// Begins to watch; with a private trace instance if requested and possible.
    pub(super) fn new(with_trace: bool) -> Result<Self> {
        let tree = Tree::machine();
        let sampler = Sampler::new(&tree)?;
        let mut gaps = Vec::new();
        let tracer = if with_trace { tracer(&mut gaps) } else { None };
        if !with_trace {
            gaps.push("no events: files and pauses are not shown (--no-trace)".to_owned());
        }
        let mut source = Self {
            machine: Machine::read(&tree),
            tree,
            read_at: time::Instant::now(),
            sampler,
            before: Sample::default(),
            after: Sample::default(),
            tracer,
            patterns: Patterns::new(),
            writers: Writers::default(),
            names: Names::default(),
            processes: BTreeMap::new(),
            lost: 0,
            gaps,
        };
        source.sampler.take(now(), &mut source.before).context("cannot take a sample")?;
        source.see_processes(&BTreeSet::new());
        Ok(source)
    }

    /// Takes events out of the trace buffer, so that none is lost.
    pub(super) fn collect(&mut self) -> Result<()> {
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let (patterns, writers) = (&mut self.patterns, &mut self.writers);
        let drained = tracer.drain(&mut |event| {
            patterns.record(&event);
            writers.record(&event);
        });
        match drained {
            Ok(drained) => self.lost = self.lost.saturating_add(drained.lost),
            Err(error) => {
                self.gaps.push(format!("events are no longer seen: {error}"));
                self.tracer = None;
            }
        }
        Ok(())
    }

    /// Ends a period and begins the next.
    pub(super) fn view(&mut self) -> Result<View> {
        self.collect()?;
        let at = now();
        self.sampler.take(at, &mut self.after).context("cannot take a sample")?;
        self.follow_machine();
        let files = self.patterns.settle(at).to_vec();
        let writers = self.writers.pauses().map(|(thread, _, _)| thread);
        self.names.look_up(&self.tree, &files, writers);
        let owners = self.names.owners();
        let threads = files.iter().flat_map(|file| file.threads.iter().map(|it| it.thread));
        let threads = threads.chain(self.writers.pauses().map(|(thread, _, _)| thread));
        let wanted = threads.filter_map(|thread| owners.get(&thread).copied()).collect();
        let seen = self.see_processes(&wanted);
        let gaps: Vec<String> = self.gaps.iter().chain(self.sampler.gaps()).cloned().collect();
        let view = View::of(&Period {
            machine: &self.machine,
            before: &self.before,
            after: &self.after,
            files: &files,
            writers: &self.writers,
            processes: &seen,
            owners: self.names.owners(),
            paths: self.names.paths(),
            sizes: self.names.sizes(),
            lost: mem::take(&mut self.lost),
            sees_files: self.tracer.is_some(),
            gaps: &gaps,
        });
        self.writers.next_period();
        mem::swap(&mut self.before, &mut self.after);
        Ok(view)
    }

    /// The files that a process has open or mapped.
    pub(super) fn files_of(&self, process: u32) -> ProcessFiles {
        let folder = format!("/proc/{process}");
        let files = match self.tree.names(&format!("{folder}/fd")) {
            Ok(_) => Ok(Process::files(&self.tree, process)),
            Err(_) if self.tree.names(&folder).is_err() => Err("it has ended"),
            Err(_) => Err("not visible: another user's process (it takes root)"),
        };
        ProcessFiles { process, files }
    }

    /// Reads the machine anew when a device came or went, and now and then for knobs and mounts.
    fn follow_machine(&mut self) {
        let numbers =
            |sample: &Sample| -> Vec<_> { sample.disks.iter().map(|disk| disk.number).collect() };
        let is_old = self.read_at.elapsed() > MACHINE_KEPT;
        if is_old || numbers(&self.before) != numbers(&self.after) {
            self.machine = Machine::read(&self.tree);
            self.sampler.refresh();
            self.read_at = time::Instant::now();
        } else {
            self.machine.refresh_windows(&self.tree);
        }
    }

    /// Counters of processes: with a trace of those that it named, otherwise of all.
    fn see_processes(&mut self, wanted: &BTreeSet<u32>) -> Vec<ProcessSeen> {
        let found: Vec<Process> = if self.tracer.is_some() {
            let wanted = wanted.iter().take(PROCESSES_MAX);
            wanted.filter_map(|pid| Process::read(&self.tree, *pid)).collect()
        } else {
            Process::all(&self.tree)
        };
        let page = self.machine.page_size;
        let mut seen = Vec::new();
        let mut kept = BTreeMap::new();
        for process in found {
            let then = self.processes.remove(&process.pid);
            let then = then.filter(|then| then.started == process.started);
            let counters = then.and_then(|then| counts(&then, &process, page));
            seen.push(ProcessSeen { pid: process.pid, name: process.name.clone(), counters });
            kept.insert(process.pid, process);
        }
        self.processes = kept;
        seen
    }
}

fn counts(then: &Process, now: &Process, page_size: u64) -> Option<ProcessCounts> {
    let reads = now.reads_since(Some(then), page_size)?;
    let written = now.io?.write_bytes.saturating_sub(then.io?.write_bytes);
    let (brought, used, faults) = (reads.brought, reads.used, reads.faults);
    Some(ProcessCounts { brought, used, written, faults })
}

/// A tracer, or why there is none.
fn tracer(gaps: &mut Vec<String>) -> Option<Tracer> {
    match Tracer::new(&Scope::default()) {
        Ok(tracer) => {
            if !tracer.absent().is_empty() {
                let absent = tracer.absent().join(", ");
                gaps.push(format!("this kernel does not have {absent}: counts are incomplete"));
            }
            Some(tracer)
        }
        Err(error) => {
            let hint = if error.is_denied() { "; root may" } else { "" };
            let kept = match &error {
                TraceError::NoEvents => "processes are judged by their counters",
                TraceError::NoTracefs(_)
                | TraceError::File { .. }
                | TraceError::Format { .. }
                | TraceError::ScopeTooWide { .. }
                | TraceError::BigEndian => "no files and no pauses are shown",
            };
            gaps.push(format!("no events: {error}{hint}; {kept}"));
            None
        }
    }
}

/// The moment, by the clock that events have too.
fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
    Instant(u64::try_from(nanos).unwrap_or(0))
}

/// How long mounts and knobs of the machine are cached: they change now and then.
const MACHINE_KEPT: time::Duration = time::Duration::from_secs(60);

/// Processes whose counters are read in a period.
const PROCESSES_MAX: usize = 256;
