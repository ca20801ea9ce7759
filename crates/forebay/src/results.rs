//! Results of runs: every column for programs, and the important ones for people.
//!
//! ```text
//!   --csv, --json --> one table: EVERY column, absent values empty or null
//!   --text, --markdown
//!        only reads -> one table: READS
//!        writes -----> two tables: JOBS, a row per section, then RUNS, a row per run
//!   --html -----> figures, and EVERY column
//! ```

use std::io::Write;
use std::time::Duration as StdDuration;

use anyhow::Result;
use forebay_core::stats::Stats;
use forebay_core::time::Duration;
use forebay_core::units::{KIB, PAGE_SIZE, SECTOR_SIZE};
use forebay_report::table::{Cell, Format, Table};
use forebay_sim::stats::Summary;
use forebay_sim::tally::{ProcessorTotals, RunTotals, WritebackTotals};
use forebay_sim::world::Pauses;

use crate::slots::{PerSlot, SLOTS};

pub(crate) use page::{ALL, Drawn};

mod compared;
mod page;

/// The rows of all runs of a command.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) title: String,
    /// The machines of a simulation.
    pub(crate) machines: String,
    pub(crate) rows: Vec<Row>,
    /// The slots that are shown to people.
    pub(crate) shown: PerSlot<bool>,
    /// What is needed to repeat the runs.
    pub(crate) notes: Vec<String>,
    /// What else filled the slots, if anything was written.
    pub(crate) note_of_writes: Option<String>,
    /// What only a page shows, if there is to be one.
    pub(crate) drawn: Option<Drawn>,
}

/// One section of a job in one run, or all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// What filled the slots; nothing in a slot that had nothing to decide.
    pub(crate) labels: PerSlot<Option<String>>,
    pub(crate) job: String,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) elapsed: Duration,
    pub(crate) reads: Summary,
    pub(crate) writes: Summary,
    pub(crate) syncs: Summary,
    pub(crate) discards: Summary,
    /// The pauses of its tasks; none if it is not one of tasks.
    pub(crate) pauses: Option<Pauses>,
    /// The time of its tasks from first call to last answer, summed.
    pub(crate) alive: Duration,
    /// What belongs to no section.
    pub(crate) run: Option<RunTotals>,
    /// The lengths of all pauses of the run, if the row is the run's.
    pub(crate) pause_lengths: Summary,
}

impl Results {
    /// Prints all tables.
    pub(crate) fn print(&self, format: Format, out: &mut impl Write) -> Result<()> {
        match format {
            Format::Csv | Format::Json => self.table("", EVERY, |_| true).print(format, out),
            Format::Text | Format::Markdown if !self.writes() => {
                let mut table = self.table(&self.title, &self.with_slots(READS), |_| true);
                table.drop_empty();
                table.notes.clone_from(&self.notes);
                table.print(format, out)?;
                self.print_comparison(out)
            }
            Format::Text | Format::Markdown => {
                let mut jobs = self.table(&self.title, &self.with_slots(JOBS), |_| true);
                jobs.drop_empty();
                jobs.dense = true;
                jobs.print(format, out)?;
                writeln!(out)?;
                let title = "Until the last answer, and until all data is on the disk";
                let mut runs = self.table(title, &self.with_slots(RUNS), |row| row.run.is_some());
                runs.drop_empty();
                runs.dense = true;
                runs.notes.extend(self.notes.iter().chain(&self.note_of_writes).cloned());
                runs.print(format, out)?;
                self.print_comparison(out)
            }
        }
    }

    /// Every column of every row, as objects.
    pub(crate) fn objects(&self) -> Vec<serde_json::Map<String, serde_json::Value>> {
        self.table("", EVERY, |_| true).objects()
    }

    fn writes(&self) -> bool {
        self.rows.iter().any(|row| row.writes.count + row.syncs.count + row.discards.count > 0)
    }

    fn with_slots(&self, columns: &[Column]) -> Vec<Column> {
        let slots = EVERY.iter().zip(self.shown).filter(|(_, shown)| *shown);
        slots.map(|(column, _)| *column).chain(columns.iter().copied()).collect()
    }

    fn table(&self, title: &str, columns: &[Column], wanted: fn(&Row) -> bool) -> Table {
        let headings: Vec<_> = columns.iter().map(|(name, _)| (*name, *name)).collect();
        let mut table = Table::new(title, &headings);
        table.leave_first(LEAVE_FIRST);
        let rows = self.rows.iter().filter(|row| wanted(row));
        let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
        table.rows = rows.map(cells).collect();
        table
    }
}

/// A column: its key or its heading, and what stands in it.
type Column = (&'static str, fn(&Row) -> Cell);

/// The columns for programs. Their names are documented in docs/job-files.md.
const EVERY: &[Column] = &[
    (SLOTS[0], |row| label(row, 0)),
    (SLOTS[1], |row| label(row, 1)),
    (SLOTS[2], |row| label(row, 2)),
    (SLOTS[3], |row| label(row, 3)),
    (SLOTS[4], |row| label(row, 4)),
    (SLOTS[5], |row| label(row, 5)),
    (SLOTS[6], |row| label(row, 6)),
    ("job", job),
    ("throughput_mb_s", throughput),
    ("errors", |row| row.errors.into()),
    ("reads", |row| row.reads.count.into()),
    ("read_mean_us", |row| micros(&row.reads, row.reads.mean)),
    ("read_p50_us", |row| micros(&row.reads, row.reads.p50)),
    ("read_p99_us", |row| micros(&row.reads, row.reads.p99)),
    ("read_p99_9_us", |row| micros(&row.reads, row.reads.p99_9)),
    ("read_max_us", |row| micros(&row.reads, row.reads.max)),
    ("writes", |row| row.writes.count.into()),
    ("write_mean_us", |row| micros(&row.writes, row.writes.mean)),
    ("write_p50_us", |row| micros(&row.writes, row.writes.p50)),
    ("write_p99_us", |row| micros(&row.writes, row.writes.p99)),
    ("write_p99_9_us", |row| micros(&row.writes, row.writes.p99_9)),
    ("write_max_us", |row| micros(&row.writes, row.writes.max)),
    ("syncs", |row| row.syncs.count.into()),
    ("sync_mean_us", |row| micros(&row.syncs, row.syncs.mean)),
    ("sync_p50_us", |row| micros(&row.syncs, row.syncs.p50)),
    ("sync_p99_us", |row| micros(&row.syncs, row.syncs.p99)),
    ("sync_p99_9_us", |row| micros(&row.syncs, row.syncs.p99_9)),
    ("sync_max_us", |row| micros(&row.syncs, row.syncs.max)),
    ("discards", |row| row.discards.count.into()),
    ("discard_mean_us", |row| micros(&row.discards, row.discards.mean)),
    ("discard_p50_us", |row| micros(&row.discards, row.discards.p50)),
    ("discard_p99_us", |row| micros(&row.discards, row.discards.p99)),
    ("discard_p99_9_us", |row| micros(&row.discards, row.discards.p99_9)),
    ("discard_max_us", |row| micros(&row.discards, row.discards.max)),
    ("pauses", pauses),
    ("paused_percent", paused),
    ("pause_p50_us", |row| micros(&row.pause_lengths, row.pause_lengths.p50)),
    ("pause_p99_us", |row| micros(&row.pause_lengths, row.pause_lengths.p99)),
    ("pause_max_us", |row| longest_pause(row)),
    ("pages_read", |row| count(row, |run| run.stats.pages_read)),
    ("pages_used", |row| count(row, |run| run.stats.pages_used)),
    ("pages_wasted", |row| count(row, |run| run.stats.pages_wasted())),
    ("pages_written", |row| count(row, |run| run.stats.pages_written)),
    ("pages_dirtied", |row| of_writes(row, |end| Cell::Count(end.dirtied))),
    ("pages_cleaned", |row| count(row, |run| run.stats.pages_cleaned)),
    ("absorbed_percent", absorbed),
    ("residue_pages", |row| of_writes(row, |end| Cell::Count(end.residue))),
    ("dirty_max_pages", |row| count(row, |run| run.stats.unsafe_pages_max)),
    ("limit_pages", |row| of_writes(row, |end| Cell::Count(end.limit))),
    ("requests", |row| count(row, |run| run.stats.requests)),
    ("requests_inline", |row| count(row, |run| run.stats.requests_inline)),
    ("bios_merged", |row| count(row, |run| run.stats.bios_merged)),
    ("request_mean_kib", request_mean),
    ("device_busy_s", |row| time(row, |run| run.busy)),
    ("idle_while_dirty_s", |row| {
        of_writes(row, |end| end.idle_while_dirty.map_or(Cell::Missing, length))
    }),
    ("switches_voluntary", |row| of_processor(row, |one| Cell::Count(one.voluntary))),
    ("switches_involuntary", |row| of_processor(row, |one| Cell::Count(one.involuntary))),
    ("cpu_busy_s", |row| of_processor(row, |one| length(one.busy))),
    ("elapsed_s", |row| length(row.elapsed)),
    ("durable_s", |row| of_writes(row, |end| length(end.durable))),
];

/// For people, of a job that only reads.
const READS: &[Column] = &[
    ("job", job),
    ("MB/s", throughput),
    ("reads", |row| row.reads.count.into()),
    ("errors", |row| row.errors.into()),
    ("mean us", |row| micros(&row.reads, row.reads.mean)),
    ("p50 us", |row| micros(&row.reads, row.reads.p50)),
    ("p99 us", |row| micros(&row.reads, row.reads.p99)),
    ("p99.9 us", |row| micros(&row.reads, row.reads.p99_9)),
    ("pages read", |row| count(row, |run| run.stats.pages_read)),
    ("used", |row| count(row, |run| run.stats.pages_used)),
    ("wasted", |row| count(row, |run| run.stats.pages_wasted())),
    ("requests", |row| count(row, |run| run.stats.requests)),
    ("mean KiB", request_mean),
    ("busy s", |row| time(row, |run| run.busy)),
    ("elapsed s", |row| length(row.elapsed)),
];

/// For people, section by section.
const JOBS: &[Column] = &[
    ("job", job),
    ("\nMB/s", throughput),
    ("\nerrors", |row| row.errors.into()),
    ("\nreads", |row| row.reads.count.into()),
    ("read us\np50", |row| micros(&row.reads, row.reads.p50).short()),
    ("read us\np99", |row| micros(&row.reads, row.reads.p99).short()),
    ("read us\nmax", |row| micros(&row.reads, row.reads.max).short()),
    ("\nwrites", |row| row.writes.count.into()),
    ("write us\np50", |row| micros(&row.writes, row.writes.p50).short()),
    ("write us\np99", |row| micros(&row.writes, row.writes.p99).short()),
    ("write us\nmax", |row| micros(&row.writes, row.writes.max).short()),
    ("\nsyncs", |row| row.syncs.count.into()),
    ("sync us\np99", |row| micros(&row.syncs, row.syncs.p99).short()),
    ("sync us\nmax", |row| micros(&row.syncs, row.syncs.max).short()),
    ("\ndiscards", |row| row.discards.count.into()),
    ("discard us\np99", |row| micros(&row.discards, row.discards.p99).short()),
    ("\npauses", pauses),
    ("paused\n%", paused),
    ("pause us\np50", |row| micros(&row.pause_lengths, row.pause_lengths.p50).short()),
    ("pause us\np99", |row| micros(&row.pause_lengths, row.pause_lengths.p99).short()),
    ("pause us\nmax", |row| longest_pause(row).short()),
];

/// For people, run by run.
const RUNS: &[Column] = &[
    ("last s", |row| length(row.elapsed)),
    ("durable s", |row| of_writes(row, |end| length(end.durable))),
    ("busy s", |row| time(row, |run| run.busy)),
    ("idle dirty s", |row| {
        of_writes(row, |end| end.idle_while_dirty.map_or(Cell::Missing, length))
    }),
    ("MB read", |row| megabytes(row, |run| run.stats.pages_read)),
    ("MB to device", |row| megabytes(row, |run| run.stats.pages_cleaned)),
    ("absorbed %", absorbed),
    ("requests", |row| count(row, |run| run.stats.requests)),
    ("mean KiB", request_mean),
    ("MB left", |row| of_writes(row, |end| Cell::Number(in_megabytes(end.residue), 1))),
    ("MB dirty max", |row| megabytes(row, |run| run.stats.unsafe_pages_max)),
    ("limit MB", |row| of_writes(row, |end| Cell::Number(in_megabytes(end.limit), 1))),
];

/// The headings of columns that leave on a narrow screen, the first one first.
const LEAVE_FIRST: &[&str] = &[
    "pause us\np99",
    "pause us\np50",
    "read us\nmax",
    "write us\nmax",
    "sync us\nmax",
    "\npauses",
    "idle dirty s",
    "absorbed %",
    "limit MB",
    "mean us",
    "p99.9 us",
    "MB left",
    "busy s",
    "mean KiB",
    "requests",
    "MB dirty max",
    "used",
    "pause us\nmax",
    "MB read",
    "wasted",
    "sync us\np99",
    "\nsyncs",
    "write us\np50",
    "read us\np50",
    "pages read",
    "elapsed s",
    "reads",
    "\nwrites",
    "\nreads",
    "paused\n%",
];

fn label(row: &Row, slot: usize) -> Cell {
    row.labels[slot].as_deref().map_or(Cell::Missing, Cell::from)
}

fn job(row: &Row) -> Cell {
    row.job.as_str().into()
}

fn throughput(row: &Row) -> Cell {
    let seconds = seconds(row.elapsed);
    Cell::maybe((seconds > 0.0).then(|| row.bytes as f64 / 1e6 / seconds), 2)
}

fn micros(of: &Summary, length: Duration) -> Cell {
    Cell::maybe((of.count > 0).then(|| length.as_nanos() as f64 / 1e3), 1)
}

fn length(length: Duration) -> Cell {
    Cell::Number(seconds(length), 3)
}

fn time(row: &Row, time: fn(&RunTotals) -> Duration) -> Cell {
    row.run.as_ref().map_or(Cell::Missing, |run| length(time(run)))
}

fn count(row: &Row, count: fn(&RunTotals) -> u64) -> Cell {
    row.run.as_ref().map_or(Cell::Missing, |run| Cell::Count(count(run)))
}

fn megabytes(row: &Row, pages: fn(&RunTotals) -> u64) -> Cell {
    Cell::maybe(row.run.as_ref().map(|run| in_megabytes(pages(run))), 1)
}

fn of_writes(row: &Row, cell: fn(&WritebackTotals) -> Cell) -> Cell {
    let writeback = row.run.as_ref().and_then(|run| run.writeback.as_ref());
    writeback.map_or(Cell::Missing, cell)
}

fn of_processor(row: &Row, cell: fn(&ProcessorTotals) -> Cell) -> Cell {
    let processor = row.run.as_ref().and_then(|run| run.processor.as_ref());
    processor.map_or(Cell::Missing, cell)
}

fn request_mean(row: &Row) -> Cell {
    let stats = row.run.map(|run| run.stats).filter(|stats| stats.requests > 0);
    let kib = |stats: Stats| (stats.request_sectors * SECTOR_SIZE) as f64 / KIB as f64;
    Cell::maybe(stats.map(|stats| kib(stats) / stats.requests as f64), 1)
}

fn pauses(row: &Row) -> Cell {
    row.pauses.map_or(Cell::Missing, |pauses| pauses.count.into())
}

fn longest_pause(row: &Row) -> Cell {
    let some = row.pauses.filter(|pauses| pauses.count > 0);
    Cell::maybe(some.map(|pauses| pauses.longest.as_nanos() as f64 / 1e3), 1)
}

/// Of the time of the tasks.
fn paused(row: &Row) -> Cell {
    let some = row.pauses.filter(|pauses| pauses.count > 0);
    let share = some.map(|pauses| seconds(pauses.total) / seconds(row.alive) * 100.0);
    Cell::maybe(share.filter(|share| share.is_finite()), 1)
}

/// Of the pages that writes met, those that were dirty already.
fn absorbed(row: &Row) -> Cell {
    let Some(RunTotals { stats, writeback: Some(writeback), .. }) = row.run else {
        return Cell::Missing;
    };
    let absorbed = stats.pages_written.saturating_sub(writeback.dirtied);
    let share = absorbed as f64 / stats.pages_written as f64 * 100.0;
    Cell::maybe(share.is_finite().then_some(share), 1)
}

fn in_megabytes(pages: u64) -> f64 {
    pages as f64 * PAGE_SIZE as f64 / 1e6
}

fn seconds(length: Duration) -> f64 {
    StdDuration::from_nanos(length.as_nanos()).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(writes: u64) -> Row {
        let some = |count| Summary { count, p50: Duration(1_500), ..Summary::default() };
        let writeback =
            Some(WritebackTotals { dirtied: 2, limit: 8, ..WritebackTotals::default() });
        let stats = Stats { pages_written: 8, ..Stats::default() };
        let run = Some(RunTotals { writeback, stats, busy: Duration(3), processor: None });
        Row { job: "a".to_owned(), writes: some(writes), run, ..Row::default() }
    }

    fn printed(rows: Vec<Row>, format: Format) -> String {
        let mut out = Vec::new();
        Results { rows, ..Results::default() }.print(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_column_has_a_name_of_its_own_that_is_documented() {
        let documented = include_str!("../../../docs/job-files.md");
        for (place, (name, _)) in EVERY.iter().enumerate() {
            assert!(EVERY[..place].iter().all(|(other, _)| other != name), "{name}");
            assert!(documented.contains(&format!("`{name}`")), "{name} is not documented");
        }
    }

    #[test]
    fn what_did_not_occur_has_no_column_for_people_and_one_for_programs() {
        let text = printed(vec![row(1)], Format::Text);
        assert!(
            text.contains("write us") && !text.contains("read us") && !text.contains("sync us")
        );
        assert!(printed(vec![row(1)], Format::Csv).contains("sync_p99_us"));
        assert!(!printed(vec![row(0)], Format::Text).contains("write us"));
    }

    #[test]
    fn a_page_that_was_dirty_already_is_absorbed() {
        assert_eq!(absorbed(&row(1)), Cell::Number(75.0, 1));
        assert_eq!(absorbed(&Row::default()), Cell::Missing);
    }

    #[test]
    fn markdown_has_one_line_for_the_headings() {
        let text = printed(vec![row(1)], Format::Markdown);
        assert!(text.contains("| write us p50 |"), "{text}");
    }
}
