//! What `simulate` and `run` have in common: a job file in, a row for each of its jobs out.

use std::path::Path;

use anyhow::Result;
use forebay_core::workload::Finished;
use forebay_report::messages::{self, Complaint};
use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::stats::Summary;
use forebay_sim::tally::{JobTotals, LatencySet, Tally};
use indicatif::ProgressBar;

use crate::args::FioCompat;
use crate::choice;
use crate::results::{ALL, Results, Row};
use crate::slots::PerSlot;

/// Reads a job file; ignored options are reported on standard error.
pub(crate) fn read(path: &Path) -> Result<JobFile> {
    let name = choice::name(path);
    let mut parsed = JobFile::parse(&choice::read(path)?, &name).map_err(Complaint::from)?;
    parsed.notes.sort_by_key(|note| note.line);
    for note in &parsed.notes {
        messages::note(&format!("{name}: {note}"));
    }
    Ok(parsed)
}

impl From<FioCompat> for Compat {
    fn from(typed: FioCompat) -> Self {
        match typed {
            FioCompat::Older => Self::V3_34,
            FioCompat::Newer => Self::V3_35,
        }
    }
}

/// The calls of one run, job by job, with a spinner for the user.
pub(crate) struct CountedRun {
    pub(crate) tally: Tally,
    calls: u64,
    progress: ProgressBar,
}

impl CountedRun {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { tally: Tally::default(), calls: 0, progress: messages::spinner() }
    }

    /// A call has ended.
    pub(crate) fn count(&mut self, finished: &Finished) {
        // Often enough for a slow device, seldom enough for a simulated one.
        const EVERY: u64 = 64;
        if self.tally.count(finished) {
            self.calls += 1;
            if self.calls.is_multiple_of(EVERY) {
                self.progress.inc(EVERY);
            }
        }
    }

    /// Adds a line for each job, if there are several, and one for all.
    pub(crate) fn report(self, labels: &PerSlot<Option<String>>, results: &mut Results) {
        self.progress.finish_and_clear();
        let (tally, run) = (&self.tally, results.run_name(labels));
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
        pauses: totals.pauses,
        alive: totals.alive,
        run: None,
        pause_lengths: Summary::default(),
    }
}
