//! Predicted and measured values: a job in virtual time and for real.
//!
//! The real run is made of system calls, each task a thread: what a machine in virtual time models
//! is the kernel's own page cache, readahead and writeback.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use forebay_core::time::Duration;
use forebay_core::units::{FileId, HandleId};
use forebay_host::syscalls::{self, OpenFile};
use forebay_report::messages::{self, Complaint};
use forebay_report::table::{Cell, Table};
use forebay_sim::fio::{Compat, Job};
use forebay_sim::stats::Summary;
use forebay_sim::tally::{RunTotals, Tally};
use forebay_sim::workload::job::{Amount, Group, GroupProgress};

use super::{is_trace, results};
use crate::args::simulate::Simulate;
use crate::choice;
use crate::cmd::run::{groups_on, open, place};
use crate::jobs::{self, JobSource};
use crate::progress::{self, Progress};
use crate::results::{Results, Row};
use crate::slots::PerSlot;

/// Predicts, measures, and prints both.
pub(super) fn run(arguments: &Simulate, on: &Path) -> Result<u8> {
    let ([] | [_]) = &arguments.inputs[..] else { bail!("--check runs one job file") };
    let job = arguments.inputs.first().map(PathBuf::as_path);
    let source = JobSource::of(job, &arguments.job_options);
    let Some(source) = source.filter(|_| !is_trace(arguments)) else {
        bail!(Complaint::new("--check runs job files").hint("a trace has no files to run on"));
    };
    if matches!(source, JobSource::File(job) if job == Path::new(choice::STANDARD_INPUT)) {
        bail!(Complaint::new("--check reads the job twice").hint("write it to a file"));
    }
    // What cannot be measured is not predicted either.
    let (parsed, name) = (source.read()?, source.name());
    let groups = groups_on(&parsed.jobs, &name, on, arguments.allow_writes)?;
    let writes = parsed.jobs.iter().any(|job: &Job| job.mode.writes());
    let predicted = results(arguments, Progress::measured())?;
    let compat = arguments.job_options.fio_compat.into();
    let measured = measure(&groups, on, writes, compat)?;
    let pairs: Vec<Pair> = pairs(&predicted.rows, &measured.rows);
    let missed = pairs.iter().filter(|pair| !pair.is_met()).count();
    let mut table =
        table(&format!("{name}: {} and {}", arguments.machine[0], on.display()), &pairs);
    table.notes.extend(predicted.notes);
    table.notes.push(match missed {
        0 => format!("All {} figures are met.", pairs.len()),
        _ => format!("{missed} of {} figures are missed.", pairs.len()),
    });
    table.print(arguments.output.format(), &mut io::stdout().lock())?;
    Ok(u8::from(missed > 0))
}

/// Runs the groups for real, one after the other.
fn measure(groups: &[Group<'_>], on: &Path, writes: bool, compat: Compat) -> Result<Results> {
    announce(groups);
    let mut tally = Tally::default();
    for group in groups {
        let backend = Arc::new(open(on, group, writes)?);
        let files = place(Arc::clone(&backend), group, &on.display().to_string())?;
        let mut opened = Vec::new();
        let mut failed = None;
        let tasks = group.threads(compat, |file| {
            match OpenFile::open(backend.path(), files.place(FileId(file)), writes) {
                Ok(file) => opened.push(file),
                Err(error) => failed = Some(error),
            }
            HandleId(opened.len().saturating_sub(1) as u32)
        });
        if let Some(error) = failed {
            return Err(error).with_context(|| format!("cannot open '{}'", on.display()));
        }
        tally.begin(group);
        let mut outcome =
            syscalls::run(opened, tasks).with_context(|| format!("'{}'", on.display()))?;
        outcome.finished.sort_by_key(|finished| finished.done);
        for finished in &outcome.finished {
            tally.count(finished);
        }
        tally.end(outcome.elapsed, &RunTotals::default(), &[], None);
    }
    let mut results = Results::default();
    jobs::report(&tally, &PerSlot::default(), &mut results);
    Ok(results)
}

/// Says how long the jobs will be measured, if they say it and if it is long.
fn announce(groups: &[Group<'_>]) {
    let seconds = groups.iter().map(|group| match GroupProgress::of(group).amount() {
        Amount::Time { total, .. } => total.as_nanos() as f64 / 1e9,
        Amount::Bytes { .. } => 0.0,
    });
    let seconds: f64 = seconds.sum();
    if progress::is_long(seconds) {
        messages::note(&format!("measuring for about {}", progress::length(seconds)));
    }
}

/// One figure of one job.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    job: String,
    what: &'static str,
    unit: &'static str,
    predicted: f64,
    measured: f64,
    /// What the ratio may be.
    least: f64,
    most: f64,
}

impl Pair {
    /// How many times as much was predicted as was measured.
    fn ratio(&self) -> f64 {
        self.predicted / self.measured
    }

    fn is_met(&self) -> bool {
        (self.least..=self.most).contains(&self.ratio())
    }
}

fn pairs(predicted: &[Row], measured: &[Row]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    // The row of all mixes sections that have nothing to do with each other.
    for row in predicted.iter().filter(|row| predicted.len() == 1 || row.run.is_none()) {
        let Some(real) = measured.iter().find(|real| real.job == row.job) else { continue };
        let mut add = |what, unit, [predicted, measured]: [f64; 2], (least, most)| {
            let job = row.job.clone();
            pairs.push(Pair { job, what, unit, predicted, measured, least, most });
        };
        let rate = |row: &Row| row.bytes as f64 / 1e3 / micros(row.elapsed).max(1e-3) * 1e3;
        add("throughput", "MB/s", [row, real].map(rate), THROUGHPUT);
        type OfRow = fn(&Row) -> &Summary;
        let kinds: [(&str, &str, OfRow); 3] = [
            ("read p50", "read p99", |row| &row.reads),
            ("write p50", "write p99", |row| &row.writes),
            ("sync p50", "sync p99", |row| &row.syncs),
        ];
        for (p50, p99, of) in kinds {
            if of(row).count > 0 && of(real).count > 0 {
                add(p50, "us", [row, real].map(|row| micros(of(row).p50)), P50);
                add(p99, "us", [row, real].map(|row| micros(of(row).p99)), P99);
            }
        }
    }
    pairs
}

fn micros(length: Duration) -> f64 {
    length.as_nanos() as f64 / 1e3
}

fn table(title: &str, pairs: &[Pair]) -> Table {
    let columns = [
        ("job", "job"),
        ("figure", "figure"),
        ("unit", "unit"),
        ("predicted", "predicted"),
        ("measured", "measured"),
        ("ratio", "ratio"),
        ("verdict", "verdict"),
    ];
    let mut table = Table::new(title, &columns);
    for pair in pairs {
        table.rows.push(vec![
            pair.job.as_str().into(),
            pair.what.into(),
            pair.unit.into(),
            Cell::Number(pair.predicted, 1),
            Cell::Number(pair.measured, 1),
            Cell::maybe(pair.ratio().is_finite().then(|| pair.ratio()), 2),
            if pair.is_met() { "met" } else { "missed" }.into(),
        ]);
    }
    table
}

/// What predicted may be of measured: 15 %, 25 % and a factor of 2.
const THROUGHPUT: (f64, f64) = (0.85, 1.15);
const P50: (f64, f64) = (0.75, 1.25);
const P99: (f64, f64) = (0.5, 2.0);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(predicted: f64, measured: f64, (least, most): (f64, f64)) -> bool {
        let (job, what, unit) = (String::new(), "", "");
        Pair { job, what, unit, predicted, measured, least, most }.is_met()
    }

    #[test]
    fn a_figure_is_met_up_to_its_tolerance_on_both_sides() {
        assert!(pair(114.0, 100.0, THROUGHPUT) && pair(86.0, 100.0, THROUGHPUT));
        assert!(!pair(116.0, 100.0, THROUGHPUT) && !pair(84.0, 100.0, THROUGHPUT));
        assert!(pair(124.0, 100.0, P50) && !pair(74.0, 100.0, P50));
        assert!(pair(199.0, 100.0, P99) && pair(51.0, 100.0, P99));
        assert!(!pair(201.0, 100.0, P99) && !pair(49.0, 100.0, P99));
    }

    #[test]
    fn jobs_are_paired_by_their_names_and_kinds_that_both_have() {
        let summary = |count| Summary { count, p50: Duration(2_000), ..Summary::default() };
        let row = |job: &str, reads| Row {
            job: job.to_owned(),
            bytes: 1_000,
            elapsed: Duration(1_000),
            reads: summary(reads),
            ..Row::default()
        };
        let pairs = pairs(&[row("a", 3), row("b", 1)], &[row("b", 0), row("a", 3)]);
        let names: Vec<_> = pairs.iter().map(|pair| (pair.job.as_str(), pair.what)).collect();
        let expected =
            [("a", "throughput"), ("a", "read p50"), ("a", "read p99"), ("b", "throughput")];
        assert_eq!(names, expected);
        let sum = Row { run: Some(RunTotals::default()), ..row("all", 3) };
        let pairs_of_all = super::pairs(&[row("all", 3), row("b", 1), sum], &[row("all", 3)]);
        assert_eq!(pairs_of_all.len(), 3, "a section may have this name: {pairs_of_all:?}");
        // 1000 bytes in a microsecond.
        assert!((pairs[0].predicted - 1_000.0).abs() < 1e-6, "{pairs:?}");
    }
}
