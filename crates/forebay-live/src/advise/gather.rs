//! Brings together what a judgement rests on: once, or over some seconds.
//!
//! ```text
//!   new ---> tick ---> tick ---> ... ---> finish
//!            a sample and all processes   what was done between the first tick and the last
//! ```
//!
//! Without a tick the counters are those since boot, and since each process began. Time is an
//! argument; the caller sleeps between ticks.

use std::collections::BTreeMap;

use forebay_core::time::Instant;

use super::{Activity, FileActivity, Seen, claim};
use crate::machine::Machine;
use crate::model::DeviceModel;
use crate::number::DevNumber;
use crate::process::Process;
use crate::signal::{Sample, Sampler, Unsampled};
use crate::tree::Tree;

/// What was seen so far.
#[derive(Debug)]
pub struct Gatherer {
    tree: Tree,
    machine: Machine,
    sampler: Option<Sampler>,
    sample: Sample,
    models: BTreeMap<DevNumber, DeviceModel>,
    /// Processes at the first tick.
    first: BTreeMap<u32, Process>,
    /// Processes as they were last seen, with those that are gone.
    last: BTreeMap<u32, Process>,
    begin: Option<Instant>,
    files: Vec<FileActivity>,
    gaps: Vec<String>,
}

impl Gatherer {
    /// Reads the machine and opens its counters.
    pub fn new(tree: &Tree) -> Self {
        let machine = Machine::read(tree);
        let mut gaps = machine.gaps.clone();
        let sampler = match Sampler::new(tree) {
            Ok(sampler) => Some(sampler),
            Err(error) => {
                // The machine's own reading may have said the same.
                let name = error.path.file_name().unwrap_or_default().to_string_lossy();
                if !gaps.iter().any(|gap| gap.contains(&*name)) {
                    gaps.push(error.to_string());
                }
                None
            }
        };
        Self {
            tree: tree.clone(),
            machine,
            sampler,
            sample: Sample::default(),
            models: BTreeMap::new(),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            begin: None,
            files: Vec::new(),
            gaps,
        }
    }

    /// Looks at all counters; the first look is what later ones are compared with.
    pub fn tick(&mut self, at: Instant) -> Result<(), Unsampled> {
        if let Some(sampler) = &mut self.sampler {
            sampler.take(at, &mut self.sample)?;
        }
        for disk in &self.sample.disks {
            self.models.entry(disk.number).or_default().observe(at, disk);
        }
        for bdi in &self.sample.bdis {
            let has_disk = self.sample.disks.iter().any(|disk| disk.number == bdi.number);
            if !has_disk {
                self.models.entry(bdi.number).or_default().observe_bdi(at, bdi);
            }
        }
        let processes = Process::all(&self.tree).into_iter().map(|it| (it.pid, it));
        if self.begin.is_none() {
            self.begin = Some(at);
            self.first = processes.collect();
        } else if self.last.len() < PROCESSES_MAX {
            self.last.extend(processes);
        }
        Ok(())
    }

    /// Adds what a trace says of single files; a judgement prefers it to guesses from mappings.
    pub fn traced(&mut self, files: impl IntoIterator<Item = FileActivity>) {
        self.files.extend(files);
    }

    /// What was seen.
    pub fn finish(mut self, at: Instant) -> Seen {
        if self.begin.is_none() {
            self.last = Process::all(&self.tree).into_iter().map(|it| (it.pid, it)).collect();
            self.glance();
        }
        let mut gaps = self.gaps;
        gaps.extend(self.sampler.iter().flat_map(Sampler::gaps).cloned());
        let hidden = self.last.values().filter(|process| process.io.is_none()).count();
        // Of processes that just ended root is shown nothing either.
        if hidden > 0 && self.tree.is_machine() && !rustix::process::geteuid().is_root() {
            gaps.push(format!(
                "{hidden} of {} processes do not show what they read (root sees all)",
                self.last.len()
            ));
        }
        let own = std::process::id();
        let foreign = self.last.values().filter(|it| !self.tree.is_machine() || it.pid != own);
        let activities = foreign
            .filter_map(|process| {
                let then = self.first.get(&process.pid);
                // A number that begins anew is another process, counted from its begin.
                let then = then.filter(|then| then.started == process.started);
                let reads = process.reads_since(then, self.machine.page_size)?;
                let files = if reads.faults >= FAULTS_MIN {
                    Process::files(&self.tree, process.pid)
                } else {
                    Vec::new()
                };
                Some(Activity { process: process.clone(), reads, files })
            })
            .collect();
        gaps.dedup();
        Seen {
            claims: claim::read(&self.tree),
            activities,
            files: self.files,
            models: self.models,
            bdis: self.sample.bdis,
            watched: self.begin.map_or(0, |begin| at.since(begin).as_nanos() / 1_000_000_000),
            machine: self.machine,
            gaps,
        }
    }

    /// One look at what stands in the counters; without rates it may fail.
    fn glance(&mut self) {
        let Some(sampler) = &mut self.sampler else { return };
        if let Err(error) = sampler.take(Instant::ZERO, &mut self.sample) {
            let said = error.to_string();
            // The machine's own reading of these files has said the same.
            if !self.gaps.contains(&said) {
                self.gaps.push(said);
            }
        }
    }
}

/// Fewer faults than this are not reported.
const FAULTS_MIN: u64 = 64;

/// Processes that are remembered while a machine is watched.
const PROCESSES_MAX: usize = 1 << 16;
