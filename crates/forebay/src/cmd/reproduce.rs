//! `forebay reproduce`: figures of papers as published and as measured.
//!
//! ```text
//!   cells --measure--> measured --judge--> rows --+--> overview  a line for each paper
//!                         |                       +--> report    one paper: claim, verdict, misses
//!                         |                       +--> table    --all, --wide, Markdown, CSV, JSON
//!                         |                       +--> page      figures and tables of all papers
//!                         +--> series, page: what went on over time
//! ```

use std::io::{self, Write};
use std::mem;

use anyhow::{Context, Result, bail};
use forebay_report::messages::Complaint;
use forebay_report::page::{Destination, beside};
use forebay_report::screen;
use forebay_report::table::{Cell as Value, Format, Table};
use forebay_sim::machine::Machine;
use forebay_sim::paper::{Agreement, Cell, Measured, PAPERS, Paper, RunSize};
use forebay_sim::report::{Role, Row, Verdict};

use crate::NO;
use crate::args::Reproduce;
use crate::choice;
use crate::slots::SLOTS;

mod documents;
mod figures;
mod measure;
mod overview;
mod page;
mod report;
mod series;

/// Runs the papers, prints the overview, the report or the tables, and writes what else is named.
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
    let size = arguments.run_size();
    let draws = arguments.draws;
    let progress = measure::announced(&papers, size, draws);
    let cells_of =
        |(paper, machine): (&&Paper, &Machine)| paper.cells(machine, size, arguments.seed, draws);
    let cells: Vec<Vec<Cell>> = papers.iter().zip(&machines).map(cells_of).collect();
    let mut measured = measure::measure(&cells.concat(), &progress).map_err(Complaint::from)?;
    drop(progress);
    let mut done = Vec::new();
    for ((paper, machine), cells) in papers.iter().zip(&machines).zip(&cells) {
        let of_others = measured.split_off(cells.len());
        let measured = mem::replace(&mut measured, of_others);
        let rows = paper.judge(size, cells, &measured, arguments.seed);
        if let Some(file) = &mut series {
            file.add(paper, &measured);
        }
        done.push(Reproduced { paper, machine, rows, measured });
    }
    let printed = print(&done, arguments);
    let written = series.as_ref().map_or(Ok(()), series::File::write);
    beside(written.and(printed), destination.as_ref(), || page::of(&done, arguments))?;
    let missed = done.iter().any(|one| one.rows.iter().any(is_miss));
    Ok(if arguments.check && missed { NO } else { 0 })
}

impl Reproduce {
    /// Whether the tables are printed instead of the overview or a paper's report.
    fn has_every_row(&self) -> bool {
        self.all || screen::is_wide()
    }

    /// The overview needs only the figures that count.
    fn run_size(&self) -> RunSize {
        let is_overview = self.paper.is_none()
            && self.output.format() == Format::Text
            && !self.has_every_row()
            && self.page.html.is_none()
            && self.series.is_none()
            && !self.check;
        match (self.full, is_overview) {
            (true, _) => RunSize::Full,
            (false, true) => RunSize::Counted,
            (false, false) => RunSize::Scaled,
        }
    }
}

/// A paper and its results.
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
    let key = set.split_once('=').map_or(set, |(key, _)| key).trim();
    key.strip_prefix("kernel.").is_some_and(|slot| SLOTS.contains(&slot))
}

fn is_miss(row: &Row) -> bool {
    row.role == Role::Predicted && row.verdict().is_miss()
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
    /// How the paper compares.
    fn agreement(&self) -> Agreement<'_> {
        self.paper.agreement(&self.rows)
    }

    /// Every row that can agree or disagree, or every row, with what belongs to it.
    fn table(&self, arguments: &Reproduce) -> Table {
        let mut table = match arguments.output.format() {
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

    /// The verdict, and the counts behind it.
    fn counts(&self) -> String {
        let Agreement { agree, counted, verdict, .. } = self.agreement();
        format!(
            "{verdict}: {agree} of {counted} figures that the paper prints and the model predicts \
             agree; of all {} rows with a tolerance {} are within it.",
            self.rows.iter().filter(|row| is_claim(row)).count(),
            self.count(Verdict::Within),
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
    table.leave_first(&["role", "range", "tolerance", "policy"]);
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

fn print(done: &[Reproduced<'_>], arguments: &Reproduce) -> Result<()> {
    let mut out = io::stdout().lock();
    let has_every_row = arguments.has_every_row();
    let text = match (arguments.output.format(), done) {
        (Format::Text, [one]) if !has_every_row => report::text(one, arguments),
        (Format::Text, _) if !has_every_row => overview::text(done, arguments),
        (Format::Text | Format::Markdown, _) => return print_tables(done, arguments, &mut out),
        // One array, one header: the rows name their papers.
        (Format::Csv | Format::Json, _) => {
            let mut all = Table::new("", &COLUMNS);
            all.rows = done.iter().flat_map(|one| one.rows.iter().map(cells_of)).collect();
            return all.print(arguments.output.format(), &mut out);
        }
    };
    out.write_all(text.as_bytes()).context("cannot write the verdicts")
}

fn print_tables(
    done: &[Reproduced<'_>],
    arguments: &Reproduce,
    out: &mut impl Write,
) -> Result<()> {
    for (place, one) in done.iter().enumerate() {
        if place > 0 {
            writeln!(out).context("cannot write the table")?;
        }
        one.table(arguments).print(arguments.output.format(), out)?;
    }
    Ok(())
}
