//! What `simulate` and `run` have in common: a job file in, a row for each of its jobs out.
//!
//! ```text
//!   JobsProgress                    all runs of a command
//!     CountedRun                    one run: a set of policies
//!       begin(group), count(call)   the groups of the run, one after another
//! ```

use std::path::Path;

use anyhow::{Result, bail};
use forebay_core::serving::Recording;
use forebay_core::time::Duration;
use forebay_core::workload::Finished;
use forebay_report::messages::{self, COMMAND_LINE, Complaint};
use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::stats::Summary;
use forebay_sim::tally::{JobTotals, LatencySet, Tally};
use forebay_sim::workload::job::{Amount, Group, GroupProgress};

use crate::args::{FioCompat, JobOptions};
use crate::choice;
use crate::progress::Progress;
use crate::results::{ALL, Results, Row};
use crate::slots::PerSlot;
use crate::traces;

/// Where jobs come from.
#[derive(Clone, Copy)]
pub(crate) enum JobSource<'a> {
    /// A job file, or standard input.
    File(&'a Path),
    /// The text that options of the command line were rewritten as.
    Typed(&'a str),
}

impl<'a> JobSource<'a> {
    /// The jobs that were typed, or those of a file.
    pub(crate) fn of(file: Option<&'a Path>, options: &'a JobOptions) -> Option<Self> {
        let typed = options.typed_jobs.as_deref().map(Self::Typed);
        typed.or_else(|| file.map(Self::File))
    }

    /// What messages call it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::File(path) => choice::name(path),
            Self::Typed(_) => COMMAND_LINE.to_owned(),
        }
    }

    /// Whether there are jobs that can be read.
    pub(crate) fn check(self) -> Result<()> {
        self.parse().map(drop)
    }

    fn parse(self) -> Result<JobFile> {
        let name = self.name();
        match self {
            Self::File(path) => {
                let text = choice::read(path)?;
                if Recording::is_one(&text) {
                    let what = format!("{name}: this is a recording of a mount");
                    let hint = "`forebay simulate --mount RECORDING --image IMAGE` replays it";
                    bail!(Complaint::new(what).hint(hint));
                }
                let parsed = JobFile::parse(&text, &name);
                // One that is no regular file was not looked at before.
                if parsed.is_err() && traces::is_format(text.as_bytes()) {
                    let what = format!(
                        "{name}: a replay reads its trace twice, and a pipe can be read only once"
                    );
                    bail!(Complaint::new(what).hint("write the trace to a file"));
                }
                Ok(parsed.map_err(Complaint::from)?)
            }
            Self::Typed(text) => Ok(JobFile::parse(text, &name).map_err(Complaint::from)?),
        }
    }

    /// Reads the jobs; ignored options are reported on standard error.
    pub(crate) fn read(self) -> Result<JobFile> {
        let name = self.name();
        let mut parsed = self.parse()?;
        parsed.notes.sort_by_key(|note| note.line);
        for note in &parsed.notes {
            match self {
                Self::File(_) => messages::note(&format!("{name}: {note}")),
                Self::Typed(_) => {
                    messages::note(&format!("option '{}' is ignored: {}", note.option, note.why));
                }
            }
        }
        Ok(parsed)
    }
}

impl From<FioCompat> for Compat {
    fn from(typed: FioCompat) -> Self {
        match typed {
            FioCompat::Older => Self::V3_34,
            FioCompat::Newer => Self::V3_35,
        }
    }
}

/// How far all runs of a command are.
pub(crate) struct JobsProgress {
    shown: Progress,
    /// What happens to the jobs, such as "simulated".
    verb: &'static str,
    runs: usize,
    groups: usize,
    /// The groups that have begun, over all runs, and the present one.
    begun: usize,
    present: Option<GroupProgress>,
    calls: u64,
}

impl JobsProgress {
    /// Of so many runs, each of so many groups.
    pub(crate) fn new(shown: Progress, verb: &'static str, runs: usize, groups: usize) -> Self {
        Self { shown, verb, runs, groups, begun: 0, present: None, calls: 0 }
    }

    fn begin(&mut self, group: &Group<'_>) {
        self.begun += 1;
        self.present = Some(GroupProgress::of(group));
    }

    fn count(&mut self, finished: &Finished) {
        // Often enough for a slow device, seldom enough for a simulated one.
        const EVERY: u64 = 64;
        let Some(present) = &mut self.present else { return };
        present.count(finished);
        self.calls += 1;
        if !self.calls.is_multiple_of(EVERY) {
            return;
        }
        let (amount, before) = (present.amount(), self.begun - 1);
        let fraction = before as f64 + amount.fraction();
        let (verb, runs, run) = (self.verb, self.runs, before / self.groups.max(1) + 1);
        self.shown.measure(fraction / (self.runs * self.groups) as f64, || {
            let run = if runs > 1 { format!("run {run} of {runs}: ") } else { String::new() };
            format!("{run}{verb} {}", in_words(amount))
        });
    }
}

fn in_words(amount: Amount) -> String {
    match amount {
        Amount::Time { done, total } => {
            let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
            format!("{:.1} of {} s", seconds(done), seconds(total))
        }
        Amount::Bytes { done, total } => {
            format!("{:.1} of {:.1} MB", done as f64 / 1e6, total as f64 / 1e6)
        }
    }
}

/// The calls of one run, job by job.
pub(crate) struct CountedRun<'p> {
    pub(crate) tally: Tally,
    progress: &'p mut JobsProgress,
}

impl<'p> CountedRun<'p> {
    /// Nothing yet.
    pub(crate) fn new(progress: &'p mut JobsProgress) -> Self {
        Self { tally: Tally::default(), progress }
    }

    /// The next group is about to run.
    pub(crate) fn begin(&mut self, group: &Group<'_>) {
        self.tally.begin(group);
        self.progress.begin(group);
    }

    /// A call has ended.
    pub(crate) fn count(&mut self, finished: &Finished) {
        if self.tally.count(finished) {
            self.progress.count(finished);
        }
    }
}

/// Adds a line for each job of a run, if there are several, and one for all.
pub(crate) fn report(tally: &Tally, labels: &PerSlot<Option<String>>, results: &mut Results) {
    let run = results.run_name(labels);
    let Results { rows, drawn, .. } = results;
    let mut row = |name: &str, totals: &JobTotals| {
        if let Some(drawn) = drawn {
            let [reads, writes, syncs] = totals.latencies.each_ref().map(LatencySet::get);
            drawn.add(&run, name, [("read", reads), ("write", writes), ("sync", syncs)]);
        }
        row_of(labels, name, totals)
    };
    let last = if let [(name, totals)] = tally.jobs() {
        row(name, totals)
    } else {
        rows.extend(tally.jobs().iter().map(|(name, totals)| row(name, totals)));
        row(ALL, &tally.all())
    };
    let pause_lengths = tally.pause_lengths();
    rows.push(Row { run: Some(*tally.totals()), pause_lengths, ..last });
}

fn row_of(labels: &PerSlot<Option<String>>, job: &str, totals: &JobTotals) -> Row {
    let [reads, writes, syncs] = totals.latencies.each_ref().map(LatencySet::summary);
    Row {
        labels: labels.clone(),
        job: job.to_owned(),
        bytes: totals.bytes,
        errors: totals.errors,
        elapsed: totals.elapsed,
        reads,
        writes,
        syncs,
        discards: Summary::default(),
        pauses: Some(totals.pauses),
        alive: totals.alive,
        run: None,
        pause_lengths: Summary::default(),
    }
}
