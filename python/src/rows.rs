//! What a run came to, under the names that `docs/job-files.md` gives the columns of `simulate`.

use forebay_core::stats::Stats;
use forebay_core::time::Duration;
use forebay_core::units::{KIB, SECTOR_SIZE};
use forebay_replay::above::StreamPauses;
use forebay_sim::stats::Summary;
use forebay_sim::tally::{JobTotals, LatencySet, RunTotals, Tally};
use forebay_sim::world::Pauses;

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

/// Reads, writes, syncs and discards, or one of their figures.
type PerKind<T> = [T; 4];

/// A row for each job.
pub(crate) fn of_jobs(tally: &Tally) -> Vec<Row> {
    tally.jobs().iter().map(|(name, totals)| of_job(name, totals)).collect()
}

/// The row of the run.
pub(crate) fn of_run(tally: &Tally) -> Row {
    let mut row = match tally.jobs() {
        [(name, totals)] => of_job(name, totals),
        _ => of_job("all", &tally.all()),
    };
    row.extend(pause_lengths(&tally.pause_lengths()));
    row.extend(of_totals(tally.totals()));
    row
}

/// What belongs to no job and no volume.
pub(crate) fn of_totals(totals: &RunTotals) -> Row {
    let RunTotals { busy, stats, writeback, processor } = totals;
    let (writeback, processor) = (writeback.unwrap_or_default(), processor.unwrap_or_default());
    let absorbed = stats.pages_written.saturating_sub(writeback.dirtied);
    let mut row = vec![
        ("pages_dirtied", Value::Count(writeback.dirtied)),
        ("absorbed_percent", percent(absorbed as f64, stats.pages_written as f64)),
        ("residue_pages", Value::Count(writeback.residue)),
        ("limit_pages", Value::Count(writeback.limit)),
        ("idle_while_dirty_s", writeback.idle_while_dirty.map_or(Value::Missing, seconds)),
        ("switches_voluntary", Value::Count(processor.voluntary)),
        ("switches_involuntary", Value::Count(processor.involuntary)),
        ("cpu_busy_s", seconds(processor.busy)),
        ("durable_s", seconds(writeback.durable)),
    ];
    row.extend(counted(stats, *busy));
    row
}

fn of_job(name: &str, totals: &JobTotals) -> Row {
    let [reads, writes, syncs] = totals.latencies.each_ref().map(LatencySet::summary);
    let summaries = [reads, writes, syncs, Summary::default()];
    let mut row = served(name, totals.bytes, totals.errors, totals.elapsed, &summaries);
    row.extend(pauses(&totals.pauses, totals.alive));
    row
}

/// The pauses of the streams of a trace.
pub(crate) fn of_pauses(streams: &StreamPauses) -> Row {
    let mut row: Row = pauses(&streams.sum, streams.alive).into();
    row.extend(pause_lengths(&streams.lengths));
    row
}

fn pauses(pauses: &Pauses, alive: Duration) -> [(&'static str, Value); 3] {
    let Pauses { count, total, longest } = *pauses;
    let some = Summary { count, ..Summary::default() };
    let paused = match count {
        0 => Value::Missing,
        _ => percent(total.as_nanos() as f64, alive.as_nanos() as f64),
    };
    [
        ("pauses", Value::Count(count)),
        ("paused_percent", paused),
        ("pause_max_us", micros(&some, longest)),
    ]
}

fn pause_lengths(lengths: &Summary) -> [(&'static str, Value); 2] {
    [("pause_p50_us", micros(lengths, lengths.p50)), ("pause_p99_us", micros(lengths, lengths.p99))]
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
    let request_kib =
        (stats.request_sectors * SECTOR_SIZE) as f64 / KIB as f64 / stats.requests as f64;
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
    [
        "discards",
        "discard_mean_us",
        "discard_p50_us",
        "discard_p99_us",
        "discard_p99_9_us",
        "discard_max_us",
    ],
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
