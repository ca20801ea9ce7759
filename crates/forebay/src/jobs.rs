//! What `simulate` and `run` have in common: a job file in, one table out.

use std::path::Path;
use std::time::Duration as StdDuration;

use anyhow::Result;
use forebay_core::io::Op;
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{KIB, PAGE_SIZE};
use forebay_core::workload::Finished;
use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::stats::Latencies;
use forebay_sim::workload::job::Group;
use indicatif::ProgressBar;

use crate::args::FioCompat;
use crate::choice;
use crate::messages::{self, Complaint};
use crate::table::{Cell, Table};

/// A job file that was read; what it ignores has been said on standard error.
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

/// The calls of one run, job by job.
pub(crate) struct Tally {
    jobs: Vec<(String, Share)>,
    /// The job of each task of the present group.
    tasks: Vec<usize>,
    elapsed: Duration,
    busy: Duration,
    stats: Stats,
    progress: ProgressBar,
}

/// What one job came to.
#[derive(Default)]
struct Share {
    latencies: Latencies,
    bytes: u64,
    errors: u64,
    /// From its first read to the end of its last, summed over its groups.
    elapsed: Duration,
    /// When its first read of the present group was issued, and when its last one ended.
    span: Option<(Instant, Instant)>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let progress = messages::spinner();
        let zero = Duration::ZERO;
        let (jobs, tasks, stats) = (Vec::new(), Vec::new(), Stats::default());
        Self { jobs, tasks, elapsed: zero, busy: zero, stats, progress }
    }

    /// The next group is about to run.
    pub(crate) fn begin(&mut self, group: &Group<'_>) {
        self.tasks.clear();
        for name in group.names() {
            let known = self.jobs.iter().position(|(known, _)| known == name);
            let place = known.unwrap_or_else(|| {
                self.jobs.push((name.to_owned(), Share::default()));
                self.jobs.len() - 1
            });
            self.tasks.push(place);
        }
    }

    /// A call has ended. Reads and writes are counted: advice takes no time worth telling, and a
    /// sync moves no bytes of its own.
    pub(crate) fn count(&mut self, finished: &Finished) {
        let (Op::Read { .. } | Op::Write { .. }) = finished.op else { return };
        let share = &mut self.jobs[self.tasks[finished.task.index()]].1;
        share.latencies.record(finished.latency());
        let first = share.span.map_or(finished.issued, |(first, _)| first);
        share.span = Some((first, finished.done));
        match finished.result {
            Ok(bytes) => share.bytes += bytes,
            Err(_) => share.errors += 1,
        }
        // Often enough for a slow device, seldom enough for a simulated one.
        const EVERY: u64 = 64;
        if share.latencies.count().is_multiple_of(EVERY) {
            self.progress.inc(EVERY);
        }
    }

    /// The group has run.
    pub(crate) fn end(&mut self, elapsed: Duration, busy: Duration, stats: Stats) {
        self.elapsed += elapsed;
        self.busy += busy;
        self.stats += stats;
        for (_, share) in &mut self.jobs {
            if let Some((first, last)) = share.span.take() {
                share.elapsed += last.since(first);
            }
        }
    }

    /// Adds a line for each job, if there are several, and one for all.
    pub(crate) fn report(self, policy: &str, table: &mut Table) {
        self.progress.finish_and_clear();
        let mut all = Share { elapsed: self.elapsed, ..Share::default() };
        for (_, share) in &self.jobs {
            all.latencies.merge(&share.latencies);
            all.bytes += share.bytes;
            all.errors += share.errors;
        }
        if let [(name, share)] = &self.jobs[..] {
            table.rows.push(share.cells(policy, name, Some((&self.stats, self.busy))));
            return;
        }
        for (name, share) in &self.jobs {
            table.rows.push(share.cells(policy, name, None));
        }
        table.rows.push(all.cells(policy, "all", Some((&self.stats, self.busy))));
    }
}

/// An empty table for reports.
pub(crate) fn table(title: String) -> Table {
    Table::new(
        title,
        &[
            ("policy", "readahead"),
            ("job", "job"),
            ("throughput_mb_s", "MB/s"),
            ("reads", "reads"),
            ("errors", "errors"),
            ("latency_mean_us", "mean us"),
            ("latency_p50_us", "p50 us"),
            ("latency_p99_us", "p99 us"),
            ("latency_p99_9_us", "p99.9 us"),
            ("pages_read", "pages read"),
            ("pages_used", "used"),
            ("pages_wasted", "wasted"),
            ("requests", "requests"),
            ("request_mean_kib", "mean KiB"),
            ("device_busy_s", "busy s"),
            ("elapsed_s", "elapsed s"),
        ],
    )
}

impl Share {
    fn cells(&self, policy: &str, job: &str, engine: Option<(&Stats, Duration)>) -> Vec<Cell> {
        let seconds = seconds(self.elapsed);
        let rate = (seconds > 0.0).then(|| self.bytes as f64 / 1e6 / seconds);
        let summary = self.latencies.summary();
        let micros = |length: Duration| Cell::Number(length.as_nanos() as f64 / 1e3, 1);
        let count = |count: fn(&Stats) -> u64| {
            engine.map_or(Cell::Missing, |(stats, _)| Cell::Count(count(stats)))
        };
        let mean = engine.filter(|(stats, _)| stats.requests > 0).map(|(stats, _)| {
            let kib = stats.request_pages * PAGE_SIZE / KIB;
            kib as f64 / stats.requests as f64
        });
        vec![
            policy.into(),
            job.into(),
            Cell::maybe(rate, 2),
            summary.count.into(),
            self.errors.into(),
            micros(summary.mean),
            micros(summary.p50),
            micros(summary.p99),
            micros(summary.p99_9),
            count(|stats| stats.pages_read),
            count(|stats| stats.pages_used),
            count(Stats::pages_wasted),
            count(|stats| stats.requests),
            Cell::maybe(mean, 1),
            Cell::maybe(engine.map(|(_, busy)| self::seconds(busy)), 3),
            Cell::Number(seconds, 3),
        ]
    }
}

fn seconds(length: Duration) -> f64 {
    StdDuration::from_nanos(length.as_nanos()).as_secs_f64()
}
