//! What a run came to, under the names that `docs/job-files.md` gives the columns of `simulate`.

use forebay_core::io::Op;
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{KIB, PAGE_SIZE};
use forebay_core::workload::Finished;
use forebay_sim::scenario::Outcome;
use forebay_sim::stats::{Latencies, Summary};
use forebay_sim::workload::job::Group;
use forebay_sim::world::{Pauses, Record};

use crate::columns::{Column, Columns, whole};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    Number(f64),
    Text(String),
    /// Not known.
    Missing,
}

/// Values by the names of their columns.
pub(crate) type Row = Vec<(&'static str, Value)>;

/// Reads, writes and syncs, or one of their figures.
type PerKind<T> = [T; 3];

/// The calls of one run, job by job.
#[derive(Default)]
pub(crate) struct Tally {
    jobs: Vec<(String, Share)>,
    /// The job of each task of the present group, and when it was alive.
    tasks: Vec<(usize, Span)>,
    pause_lengths: Option<Box<Latencies>>,
    whole: Whole,
}

/// When the first call was issued, and when the last one ended.
type Span = Option<(Instant, Instant)>;

/// What one job came to.
#[derive(Default)]
struct Share {
    latencies: PerKind<Option<Box<Latencies>>>,
    pauses: Pauses,
    bytes: u64,
    errors: u64,
    elapsed: Duration,
    alive: Duration,
    span: Span,
}

/// What the groups of a run came to together.
#[derive(Default)]
struct Whole {
    elapsed: Duration,
    durable: Duration,
    busy: Duration,
    idle_while_dirty: Duration,
    cpu_busy: Duration,
    stats: Stats,
    dirtied: u64,
    residue: u64,
    limit: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Tally {
    /// The next group is about to run.
    pub(crate) fn begin(&mut self, group: &Group<'_>) {
        self.tasks.clear();
        for name in group.names() {
            let known = self.jobs.iter().position(|(known, _)| known == name);
            let job = known.unwrap_or_else(|| {
                self.jobs.push((name.to_owned(), Share::default()));
                self.jobs.len() - 1
            });
            self.tasks.push((job, None));
        }
    }

    /// A call has ended; says whether it is one of a job.
    pub(crate) fn count(&mut self, finished: &Finished) -> bool {
        let Some((job, alive)) = self.tasks.get_mut(finished.task.index()) else { return false };
        let Some(kind) = kind(&finished.op) else { return false };
        let share = &mut self.jobs[*job].1;
        share.latencies[kind].get_or_insert_default().record(finished.latency());
        for span in [&mut share.span, alive] {
            let first = span.map_or(finished.issued, |(first, _)| first);
            *span = Some((first, finished.done));
        }
        match (finished.result, finished.op) {
            (Ok(_), Op::Sync { .. }) => {}
            (Ok(_), Op::Fault { .. }) => share.bytes += PAGE_SIZE,
            (Ok(bytes), _) => share.bytes += bytes,
            (Err(_), _) => share.errors += 1,
        }
        true
    }

    /// The group has run in page memory of so many frames.
    pub(crate) fn end(&mut self, outcome: &Outcome, record: &Record, frames: u64) {
        for (_, share) in &mut self.jobs {
            share.elapsed += length(share.span.take());
        }
        for (place, (job, alive)) in self.tasks.iter_mut().enumerate() {
            let share = &mut self.jobs[*job].1;
            share.alive += length(alive.take());
            share.pauses += record.pauses.get(place).copied().unwrap_or_default();
        }
        if record.pause_lengths.count() > 0 {
            self.pause_lengths.get_or_insert_default().merge(&record.pause_lengths);
        }
        let limits = record.knobs.iter().map(|(_, knobs)| knobs.limit.pages(frames));
        let switches = record.tasks.iter().map(|task| task.switches);
        let whole = &mut self.whole;
        whole.elapsed += outcome.elapsed;
        whole.durable += outcome.durable;
        whole.busy += outcome.device_busy;
        whole.idle_while_dirty += outcome.idle_while_dirty;
        whole.cpu_busy += record.cpu_busy;
        whole.stats += outcome.stats;
        whole.dirtied += record.at_exit.map_or(0, |end| end.levels.dirtied);
        whole.residue += outcome.residue;
        whole.limit = whole.limit.max(limits.max().unwrap_or(0));
        whole.voluntary += switches.clone().map(|one| one.voluntary).sum::<u64>();
        whole.involuntary += switches.map(|one| one.involuntary).sum::<u64>();
    }

    /// A row for each job.
    pub(crate) fn jobs(&self) -> Vec<Row> {
        self.jobs.iter().map(|(name, share)| share.row(name)).collect()
    }

    /// The row of the run.
    pub(crate) fn run(&self) -> Row {
        let Whole { stats, .. } = &self.whole;
        let mut row = match &self.jobs[..] {
            [(name, share)] => share.row(name),
            jobs => {
                let mut all = Share::default();
                jobs.iter().for_each(|(_, share)| all.merge(share));
                all.elapsed = self.whole.elapsed;
                all.row("all")
            }
        };
        let pauses = self.pause_lengths.as_ref().map(|lengths| lengths.summary());
        let pauses = pauses.unwrap_or_default();
        let absorbed = stats.pages_written.saturating_sub(self.whole.dirtied);
        row.extend([
            ("pause_p50_us", micros(&pauses, pauses.p50)),
            ("pause_p99_us", micros(&pauses, pauses.p99)),
            ("pages_dirtied", Value::Count(self.whole.dirtied)),
            ("absorbed_percent", percent(absorbed as f64, stats.pages_written as f64)),
            ("residue_pages", Value::Count(self.whole.residue)),
            ("limit_pages", Value::Count(self.whole.limit)),
            ("idle_while_dirty_s", seconds(self.whole.idle_while_dirty)),
            ("switches_voluntary", Value::Count(self.whole.voluntary)),
            ("switches_involuntary", Value::Count(self.whole.involuntary)),
            ("cpu_busy_s", seconds(self.whole.cpu_busy)),
            ("durable_s", seconds(self.whole.durable)),
        ]);
        row.extend(counted(stats, self.whole.busy));
        row
    }
}

/// The place of a call's kind; nothing for advice and what is no call of a job.
fn kind(op: &Op) -> Option<usize> {
    match op {
        Op::Read { .. } | Op::Fault { .. } => Some(0),
        Op::Write { .. } => Some(1),
        Op::Sync { .. } => Some(2),
        Op::Truncate { .. } | Op::Discard { .. } | Op::Direct { .. } | Op::Advise { .. } => None,
    }
}

impl Share {
    fn merge(&mut self, other: &Self) {
        for (one, other) in self.latencies.iter_mut().zip(&other.latencies) {
            if let Some(other) = other {
                one.get_or_insert_default().merge(other);
            }
        }
        self.pauses += other.pauses;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.alive += other.alive;
    }

    fn row(&self, name: &str) -> Row {
        let summaries = self.latencies.each_ref().map(|latencies| {
            latencies.as_ref().map_or_else(Summary::default, |latencies| latencies.summary())
        });
        let Pauses { count, total, longest } = self.pauses;
        let pauses = Summary { count, ..Summary::default() };
        let paused = match count {
            0 => Value::Missing,
            _ => percent(total.as_nanos() as f64, self.alive.as_nanos() as f64),
        };
        let mut row = served(name, self.bytes, self.errors, self.elapsed, &summaries);
        row.extend([
            ("pauses", Value::Count(count)),
            ("paused_percent", paused),
            ("pause_max_us", micros(&pauses, longest)),
        ]);
        row
    }
}

/// What jobs and volumes have in common.
pub(crate) fn served(
    name: &str,
    bytes: u64,
    errors: u64,
    elapsed: Duration,
    latencies: &PerKind<Summary>,
) -> Row {
    let length = elapsed.as_nanos() as f64 / 1e9;
    let throughput =
        if length > 0.0 { Value::Number(bytes as f64 / 1e6 / length) } else { Value::Missing };
    let mut row = vec![
        ("job", Value::Text(name.to_owned())),
        ("throughput_mb_s", throughput),
        ("errors", Value::Count(errors)),
    ];
    for (names, summary) in LATENCIES.iter().zip(latencies) {
        let Summary { count, mean, p50, p99, p99_9, max } = *summary;
        row.push((names[0], Value::Count(count)));
        let lengths = [mean, p50, p99, p99_9, max];
        let values = lengths.map(|length| micros(summary, length));
        row.extend(names[1..].iter().copied().zip(values));
    }
    row.push(("elapsed_s", seconds(elapsed)));
    row
}

/// What the engine has counted.
pub(crate) fn counted(stats: &Stats, busy: Duration) -> Row {
    let request_kib = (stats.request_pages * PAGE_SIZE / KIB) as f64 / stats.requests as f64;
    let request_mean = if stats.requests > 0 { Value::Number(request_kib) } else { Value::Missing };
    vec![
        ("page_accesses", Value::Count(stats.accesses)),
        ("page_hits", Value::Count(stats.hits)),
        ("pages_read", Value::Count(stats.pages_read)),
        ("pages_used", Value::Count(stats.pages_used)),
        ("pages_wasted", Value::Count(stats.pages_wasted())),
        ("pages_written", Value::Count(stats.pages_written)),
        ("pages_cleaned", Value::Count(stats.pages_cleaned)),
        ("dirty_max_pages", Value::Count(stats.unsafe_pages_max)),
        ("requests", Value::Count(stats.requests)),
        ("requests_inline", Value::Count(stats.requests_inline)),
        ("bios_merged", Value::Count(stats.bios_merged)),
        ("request_mean_kib", request_mean),
        ("device_busy_s", seconds(busy)),
    ]
}

const LATENCIES: PerKind<[&str; 6]> = [
    ["reads", "read_mean_us", "read_p50_us", "read_p99_us", "read_p99_9_us", "read_max_us"],
    ["writes", "write_mean_us", "write_p50_us", "write_p99_us", "write_p99_9_us", "write_max_us"],
    ["syncs", "sync_mean_us", "sync_p50_us", "sync_p99_us", "sync_p99_9_us", "sync_max_us"],
];

/// Rows as columns; a column that a row does not have is not known there.
pub(crate) fn columns(rows: &[Row]) -> Columns {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut columns = Columns::default();
    for name in names {
        let find =
            |row: &Row| row.iter().find(|(known, _)| *known == name).map(|(_, it)| it.clone());
        let values: Vec<Value> =
            rows.iter().map(|row| find(row).unwrap_or(Value::Missing)).collect();
        columns.add(name, column(&values));
    }
    columns
}

/// Whole numbers if all are counts, texts if one is a text, numbers otherwise.
fn column(values: &[Value]) -> Column {
    if values.iter().any(|value| matches!(value, Value::Text(_))) {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Count(_) | Value::Number(_) | Value::Missing => String::new(),
        };
        return Column::Text(values.iter().map(text).collect());
    }
    let counts = values.iter().map(|value| match value {
        Value::Count(count) => Some(whole(*count)),
        Value::Number(_) | Value::Text(_) | Value::Missing => None,
    });
    if let Some(counts) = counts.collect() {
        return Column::Whole(counts);
    }
    let number = |value: &Value| match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        Value::Text(_) | Value::Missing => f64::NAN,
    };
    Column::Number(values.iter().map(number).collect())
}

fn micros(of: &Summary, length: Duration) -> Value {
    if of.count > 0 { Value::Number(length.as_nanos() as f64 / 1e3) } else { Value::Missing }
}

fn seconds(length: Duration) -> Value {
    Value::Number(length.as_nanos() as f64 / 1e9)
}

fn percent(part: f64, all: f64) -> Value {
    let share = part / all * 100.0;
    if share.is_finite() { Value::Number(share) } else { Value::Missing }
}

fn length(span: Span) -> Duration {
    span.map_or(Duration::ZERO, |(first, last)| last.since(first))
}
