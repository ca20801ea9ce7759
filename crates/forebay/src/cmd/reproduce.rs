//! `forebay reproduce`: the papers' figures beside ours.
//!
//! ```text
//!   cells --measure--> measured --judge--> rows --+--> table     for a terminal, for programs
//!                         |                       +--> page      figures and tables of all papers
//!                         +--> series, page: what went on over time
//! ```

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use forebay_sim::machine::{Machine, MachineError};
use forebay_sim::paper::{Cell, Measured, PAPERS, Paper, RunSize};
use forebay_sim::report::{Role, Row, Verdict};

use crate::NO;
use crate::args::Reproduce;
use crate::choice;
use crate::messages::{Complaint, progress};
use crate::page::{Destination, beside};
use crate::table::{Cell as Value, Format, Table};

mod figures;
mod page;
mod series;

/// Runs the papers and prints one table each, or one array of all rows as JSON.
pub(crate) fn run(arguments: &Reproduce) -> Result<u8> {
    let papers = chosen(arguments.paper.as_deref())?;
    let mut series = arguments.series.as_deref().map(series::File::named).transpose()?;
    if series.is_some() && !papers.iter().any(|paper| paper.keeps_series) {
        bail!(
            Complaint::new("--series: of the papers to be run none keeps numbers over time")
                .hint("`forebay reproduce flush` does")
        );
    }
    let destination = Destination::named(arguments.page.html.as_deref())?;
    if let Some(set) = arguments.set.iter().find(|set| names_a_policy(set)) {
        bail!(
            Complaint::new(format!("--set {set}: a paper's experiments name their own policies"))
                .hint("`forebay simulate --policy` runs a job with any policy")
        );
    }
    let mut machines = Vec::new();
    for paper in &papers {
        let name = arguments.machine.as_deref().unwrap_or(paper.machine);
        let machine = choice::machine(name, &arguments.set)?;
        if let Some(why) = paper.unfit(&machine) {
            bail!(Complaint::new(format!("{} on {name}: {why}", paper.name)).hint(format!(
                "such is {}, the paper's own; `forebay reproduce PAPER` runs one paper",
                paper.machine
            )));
        }
        machines.push(machine);
    }
    let size = if arguments.full { RunSize::Full } else { RunSize::Scaled };
    let mut done = Vec::new();
    for (paper, machine) in papers.iter().zip(&machines) {
        let cells = paper.cells(machine, size, arguments.seed, arguments.draws);
        let measured = measure(&cells).map_err(Complaint::from)?;
        let rows = paper.judge(size, &cells, &measured, arguments.seed);
        if let Some(file) = &mut series {
            file.add(paper, &measured);
        }
        done.push(Reproduced { paper, machine, rows, measured });
    }
    let tables = done.iter().map(|one| one.table(arguments)).collect();
    let printed = print(arguments.format, tables);
    let written = series.as_ref().map_or(Ok(()), series::File::write);
    beside(written.and(printed), destination.as_ref(), || page::of(&done, arguments))?;
    let missed = done.iter().any(|one| one.rows.iter().any(is_miss));
    Ok(if arguments.check && missed { NO } else { 0 })
}

/// A paper and what came of it.
struct Reproduced<'a> {
    paper: &'static Paper,
    machine: &'a Machine,
    rows: Vec<Row>,
    measured: Vec<Measured>,
}

fn chosen(name: Option<&str>) -> Result<Vec<&'static Paper>> {
    let Some(name) = name else { return Ok(PAPERS.iter().collect()) };
    match Paper::named(name) {
        Some(paper) => Ok(vec![paper]),
        None => bail!(
            Complaint::new(format!("no paper is named '{name}'"))
                .nearest(name, PAPERS.iter().map(|paper| paper.name))
        ),
    }
}

/// Whether a setting is a policy, of which a paper's experiments have their own.
fn names_a_policy(set: &str) -> bool {
    let slots = ["kernel.readahead=", "kernel.flush=", "kernel.throttle=", "kernel.controller="];
    slots.iter().any(|slot| set.starts_with(slot))
}

fn is_miss(row: &Row) -> bool {
    row.role == Role::Predicted && row.verdict() == Verdict::Outside
}

/// Measures all cells on all processors; the result does not depend on how many there are.
fn measure(cells: &[Cell]) -> Result<Vec<Measured>, MachineError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(cells.len()).max(1);
    let bar = progress(cells.len() as u64, "reproducing");
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<_>>> = cells.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(place) = claim(&next, cells.len()) {
                    let measured = cells[place].measure();
                    *results[place].lock().expect("no thread panics with the lock") =
                        Some(measured);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let finished = results.into_iter().map(|result| {
        let result = result.into_inner().expect("no thread panics with the lock");
        result.expect("every cell was claimed")
    });
    finished.collect()
}

fn claim(next: &AtomicUsize, count: usize) -> Option<usize> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    (place < count).then_some(place)
}

const COLUMNS: [(&str, &str); 15] = [
    ("paper", "paper"),
    ("row", "row"),
    ("metric", "metric"),
    ("unit", "unit"),
    ("policy", "policy"),
    ("published", "published"),
    ("role", "role"),
    ("measured", "measured"),
    ("low", "low"),
    ("high", "high"),
    ("tolerance_low", "from"),
    ("tolerance_high", "to"),
    ("verdict", "verdict"),
    ("note", "note"),
    ("seed", "seed"),
];

/// The same for people: spreads and tolerances in one column each, notes below the table.
const FOR_PEOPLE: [(&str, &str); 9] = [
    ("row", "row"),
    ("metric", "metric"),
    ("policy", "policy"),
    ("published", "published"),
    ("measured", "measured"),
    ("range", "range"),
    ("tolerance", "tolerance"),
    ("role", "role"),
    ("verdict", "verdict"),
];

impl Reproduced<'_> {
    /// As it is printed.
    fn table(&self, arguments: &Reproduce) -> Table {
        let mut table = match arguments.format {
            Format::Text | Format::Markdown => for_people(self.paper, arguments.all, &self.rows),
            Format::Csv | Format::Json => self.every_row(),
        };
        table.notes.push(self.counts());
        table.notes.push(self.paper.measured.to_owned());
        if !arguments.full && !self.paper.scaled.is_empty() {
            table
                .notes
                .push(format!("scaled: {}; --full runs them as the paper did.", self.paper.scaled));
        }
        table.notes.push(self.paper.about.to_owned());
        table.notes.push(self.how(arguments));
        table
    }

    /// As programs get it.
    fn every_row(&self) -> Table {
        let mut table = Table::new(self.paper.citation, &COLUMNS);
        table.rows = self.rows.iter().map(cells_of).collect();
        table
    }

    /// How many rows have a verdict.
    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// How many predicted figures are outside.
    fn misses(&self) -> usize {
        self.rows.iter().filter(|row| is_miss(row)).count()
    }

    fn counts(&self) -> String {
        format!(
            "{} figures within their tolerance, {} outside, {} not claimed; {} predicted ones \
             outside.",
            self.count(Verdict::Within),
            self.count(Verdict::Outside),
            self.count(Verdict::NotClaimed),
            self.misses(),
        )
    }

    fn how(&self, arguments: &Reproduce) -> String {
        format!(
            "forebay {}, machine {}, seed {}, draws {}{}",
            env!("CARGO_PKG_VERSION"),
            self.machine.name(),
            arguments.seed,
            arguments.draws,
            arguments.set.iter().map(|set| format!(", {set}")).collect::<String>(),
        )
    }
}

fn for_people(paper: &Paper, all: bool, rows: &[Row]) -> Table {
    let mut table = Table::new(paper.citation, &FOR_PEOPLE);
    let mut notes: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| all || is_claim(row)) {
        let decimals = decimals(row);
        let shown =
            |number: Option<f64>| number.map_or(String::new(), |n| format!("{n:.decimals$}"));
        let span = |low, high| format!("{}..{}", shown(low), shown(high));
        let mut verdict = row.verdict().to_string();
        if !row.note.is_empty() {
            let known = notes.iter().position(|note| *note == row.note);
            let number = known.unwrap_or_else(|| {
                notes.push(&row.note);
                notes.len() - 1
            });
            verdict += &format!(" [{}]", number + 1);
        }
        let (from, to) = row.tolerance;
        let tolerance = if is_claim(row) { span(from, to).into() } else { Value::Missing };
        table.rows.push(vec![
            row.row.clone().into(),
            format!("{} ({})", row.metric, row.unit).into(),
            row.policy.clone().into(),
            Value::maybe(row.published, decimals),
            Value::maybe(row.measured, decimals),
            span(row.low, row.high).into(),
            tolerance,
            row.role.to_string().into(),
            verdict.into(),
        ]);
    }
    let numbered = notes.iter().enumerate();
    table.notes.extend(numbered.map(|(number, note)| format!("[{}] {note}", number + 1)));
    let hidden = rows.len() - table.rows.len();
    if hidden > 0 {
        table.notes.push(format!("{hidden} rows for comparison are left out; --all shows them."));
    }
    table
}

fn decimals(row: &Row) -> usize {
    if row.unit == "pages" { 0 } else { 2 }
}

/// Whether the row can agree or disagree with something.
fn is_claim(row: &Row) -> bool {
    row.verdict() != Verdict::NotClaimed
}

fn cells_of(row: &Row) -> Vec<Value> {
    let number = |number| Value::maybe(number, decimals(row));
    vec![
        row.paper.into(),
        row.row.clone().into(),
        row.metric.into(),
        row.unit.into(),
        row.policy.clone().into(),
        number(row.published),
        row.role.to_string().into(),
        number(row.measured),
        number(row.low),
        number(row.high),
        number(row.tolerance.0),
        number(row.tolerance.1),
        row.verdict().to_string().into(),
        row.note.clone().into(),
        row.seed.into(),
    ]
}

fn print(format: Format, tables: Vec<Table>) -> Result<()> {
    let mut out = io::stdout().lock();
    match format {
        Format::Text | Format::Markdown => {
            for (place, table) in tables.iter().enumerate() {
                if place > 0 {
                    writeln!(out).context("cannot write the table")?;
                }
                table.print(format, &mut out)?;
            }
            Ok(())
        }
        // One array, one header: the rows name their papers.
        Format::Csv | Format::Json => {
            let mut all = Table::new("", &COLUMNS);
            all.rows = tables.into_iter().flat_map(|table| table.rows).collect();
            all.print(format, &mut out)
        }
    }
}
