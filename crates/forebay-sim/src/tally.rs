//! The calls of a run summed up by job, and the figures of the run as a whole.
//!
//! ```text
//!   begin(group)   which job each task belongs to
//!   count(call)    latency, bytes, errors and time of its job
//!   end(...)       time and pauses of the group's tasks; figures of the run
//! ```

use std::mem;

use forebay_core::io::{Op, RequestKind};
use forebay_core::stats::Stats;
use forebay_core::time::Duration;
use forebay_core::units::PAGE_SIZE;
use forebay_core::workload::Finished;

use crate::scenario::Outcome;
use crate::span::Span;
use crate::stats::{Latencies, Summary};
use crate::workload::job::Group;
use crate::world::{Pauses, Record};

/// All jobs of a run, in the order in which they began.
#[derive(Debug, Default)]
pub struct Tally {
    jobs: Vec<(String, JobTotals)>,
    /// The tasks of the present group: the place of the job, and when the task had calls.
    tasks: Vec<(usize, Span)>,
    /// The groups together.
    elapsed: Duration,
    totals: RunTotals,
    pause_lengths: LatencySet,
}

/// The calls of one job.
#[derive(Debug, Default)]
pub struct JobTotals {
    /// Latencies of reads and faults, of writes, and of syncs.
    pub latencies: [LatencySet; 3],
    /// The pauses of its tasks.
    pub pauses: Pauses,
    /// Bytes read, written and touched.
    pub bytes: u64,
    /// Calls that failed.
    pub errors: u64,
    /// From its first call to the end of its last, summed over its groups.
    pub elapsed: Duration,
    /// The same for each of its tasks, summed.
    pub alive: Duration,
    span: Span,
}

/// Latencies, which take memory only if there are some.
#[derive(Debug, Default)]
pub struct LatencySet(Option<Box<Latencies>>);

/// The figures of a run that belong to no job.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTotals {
    /// How long the device was busy.
    pub busy: Duration,
    /// What the engine counted.
    pub stats: Stats,
    /// Of a run whose files may be written.
    pub writeback: Option<WritebackTotals>,
    /// Known in virtual time alone.
    pub processor: Option<ProcessorTotals>,
}

/// The cost of a run on the processors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessorTotals {
    /// How long cores were busy, summed over them.
    pub busy: Duration,
    /// How often tasks gave their cores away.
    pub voluntary: u64,
    /// How often cores were taken from them.
    pub involuntary: u64,
}

/// How the writes of a run reached the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct WritebackTotals {
    /// From the start until everything written was on disk.
    pub durable: Duration,
    /// How long pages were dirty while the device had no request; known in virtual time alone.
    pub idle_while_dirty: Option<Duration>,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages that were not on the device when the last task ended.
    pub residue: u64,
    /// The highest level above which writers waited, in pages.
    pub limit: u64,
}

impl Tally {
    /// The next group is about to run.
    pub fn begin(&mut self, group: &Group<'_>) {
        self.tasks.clear();
        for name in group.names() {
            let known = self.jobs.iter().position(|(known, _)| known == name);
            let job = known.unwrap_or_else(|| {
                self.jobs.push((name.to_owned(), JobTotals::default()));
                self.jobs.len() - 1
            });
            self.tasks.push((job, Span::default()));
        }
    }

    /// A call has ended. Returns whether it is counted: advice takes no time worth counting, and
    /// the sync after the last task belongs to no job.
    pub fn count(&mut self, finished: &Finished) -> bool {
        let Some((job, alive)) = self.tasks.get_mut(finished.task.index()) else { return false };
        let kind = match finished.op {
            Op::Read { .. } | Op::Fault { .. } => 0,
            Op::Write { .. } => 1,
            Op::Sync { .. } => 2,
            Op::Direct { kind, .. } => match kind {
                RequestKind::Read => 0,
                RequestKind::Write | RequestKind::DurableWrite => 1,
                RequestKind::Flush | RequestKind::Inode => 2,
                RequestKind::Discard => return false,
            },
            Op::Truncate { .. } | Op::Discard { .. } | Op::Advise { .. } => return false,
        };
        let totals = &mut self.jobs[*job].1;
        totals.latencies[kind].all().record(finished.latency());
        for span in [&mut totals.span, alive] {
            span.extend(finished.issued, finished.done);
        }
        match (finished.result, finished.op) {
            // A sync transfers no bytes itself.
            (Ok(_), Op::Sync { .. }) => {}
            // A touch of a mapped page gives the caller the page.
            (Ok(_), Op::Fault { .. }) => totals.bytes += PAGE_SIZE,
            (Ok(bytes), _) => totals.bytes += bytes,
            (Err(_), _) => totals.errors += 1,
        }
        true
    }

    /// The group has run for `elapsed`. `pauses` has those of its tasks, up to the last one that
    /// paused; `pause_lengths` those of all.
    pub fn end(
        &mut self,
        elapsed: Duration,
        totals: &RunTotals,
        pauses: &[Pauses],
        pause_lengths: Option<&Latencies>,
    ) {
        self.elapsed += elapsed;
        self.totals.add(totals);
        if let Some(lengths) = pause_lengths.filter(|lengths| lengths.count() > 0) {
            self.pause_lengths.all().merge(lengths);
        }
        for (_, totals) in &mut self.jobs {
            totals.elapsed += mem::take(&mut totals.span).length();
        }
        for (place, (job, alive)) in self.tasks.iter_mut().enumerate() {
            let totals = &mut self.jobs[*job].1;
            totals.alive += mem::take(alive).length();
            totals.pauses += pauses.get(place).copied().unwrap_or_default();
        }
    }

    /// The group has run in virtual time, in page memory of so many frames.
    pub fn end_scenario(&mut self, outcome: &Outcome, record: &Record, frames: u64) {
        let totals = RunTotals::of(outcome, record, frames);
        self.end(outcome.elapsed, &totals, &record.pauses, Some(&record.pause_lengths));
    }

    /// The jobs by name, in the order in which they began.
    pub fn jobs(&self) -> &[(String, JobTotals)] {
        &self.jobs
    }

    /// All jobs together.
    pub fn all(&self) -> JobTotals {
        let mut all = JobTotals::default();
        self.jobs.iter().for_each(|(_, totals)| all.merge(totals));
        all.elapsed = self.elapsed;
        all
    }

    /// The figures of the run.
    pub fn totals(&self) -> &RunTotals {
        &self.totals
    }

    /// The lengths of all pauses.
    pub fn pause_lengths(&self) -> Summary {
        self.pause_lengths.summary()
    }
}

impl JobTotals {
    fn merge(&mut self, other: &Self) {
        for (one, other) in self.latencies.iter_mut().zip(&other.latencies) {
            if let Some(other) = other.get() {
                one.all().merge(other);
            }
        }
        self.pauses += other.pauses;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.alive += other.alive;
    }
}

impl LatencySet {
    /// The latencies, if there are some.
    pub fn get(&self) -> Option<&Latencies> {
        self.0.as_deref()
    }

    /// Their percentiles.
    pub fn summary(&self) -> Summary {
        self.get().map_or_else(Summary::default, Latencies::summary)
    }

    fn all(&mut self) -> &mut Latencies {
        self.0.get_or_insert_default()
    }
}

impl RunTotals {
    /// Those of a group in virtual time, in page memory of so many frames.
    pub fn of(outcome: &Outcome, record: &Record, frames: u64) -> Self {
        let limits = record.knobs.iter().map(|(_, knobs)| knobs.limit.pages(frames));
        let writeback = WritebackTotals {
            durable: outcome.durable,
            idle_while_dirty: Some(outcome.idle_while_dirty),
            dirtied: record.at_exit.map_or(0, |end| end.levels.dirtied),
            residue: outcome.residue,
            limit: limits.max().unwrap_or(0),
        };
        let switches = record.tasks.iter().map(|task| task.switches);
        let processor = ProcessorTotals {
            busy: record.cpu_busy,
            voluntary: switches.clone().map(|one| one.voluntary).sum(),
            involuntary: switches.map(|one| one.involuntary).sum(),
        };
        let (busy, stats) = (outcome.device_busy, outcome.stats);
        Self { busy, stats, writeback: Some(writeback), processor: Some(processor) }
    }

    fn add(&mut self, next: &Self) {
        self.busy += next.busy;
        self.stats += next.stats;
        self.writeback = match (self.writeback, next.writeback) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        self.processor = match (self.processor, next.processor) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
    }
}

impl ProcessorTotals {
    fn and(self, next: Self) -> Self {
        Self {
            busy: self.busy + next.busy,
            voluntary: self.voluntary + next.voluntary,
            involuntary: self.involuntary + next.involuntary,
        }
    }
}

impl WritebackTotals {
    fn and(self, next: Self) -> Self {
        Self {
            durable: self.durable + next.durable,
            idle_while_dirty: self.idle_while_dirty.zip(next.idle_while_dirty).map(|(a, b)| a + b),
            dirtied: self.dirtied + next.dirtied,
            residue: self.residue + next.residue,
            limit: self.limit.max(next.limit),
        }
    }
}
