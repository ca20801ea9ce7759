//! `forebay sweep best`: settings in the order of a column, which is a mean over seeds.

use std::io;

use anyhow::Result;
use forebay_report::messages::Complaint;
use forebay_report::page::{Destination, beside};
use forebay_report::table::{Cell, Table};

use super::front::Goal;
use super::means::{Means, SeedRow, Settings, mean, short};
use super::page;
use super::plan::Plan;
use super::results::PointResults;
use crate::args::sweep::SweepBest;

/// Prints the best settings.
pub(super) fn best(arguments: &SweepBest) -> Result<u8> {
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let plan = Plan::read(&arguments.folder)?;
    let results = PointResults::read(&arguments.folder, &plan)?;
    let rows = results.complete(&plan)?;
    let limits =
        arguments.within.iter().map(|text| Limit::parse(text)).collect::<Result<Vec<_>>>()?;
    let mut means = Means::new(&plan, &rows);
    for limit in &limits {
        means.verify(&limit.column)?;
    }
    means.verify(&arguments.by)?;
    let all = means.all.len();
    let by = Goal { column: arguments.by.clone(), is_max: arguments.max };
    means.all.retain(|_, rows| {
        mean(rows, &by.column).is_some() && limits.iter().all(|limit| limit.holds(rows))
    });
    let left = means.all.len();
    let mut table = Table::new(format!("By {}", by.column), &COLUMNS);
    let ranked = ranked(&means, &by);
    let shown = ranked.iter().take(arguments.count as usize).enumerate();
    table.rows.extend(shown.map(|(place, one)| cells(&means, place, one, &by)));
    table.notes.push(format!("{left} of {all} settings have the column and are within the limits"));
    let chosen = match destination {
        Some(_) => Some(page::Chosen::new(&plan, &means, &arguments.page, by)?),
        None => None,
    };
    let printed = table.print(arguments.output.format(), &mut io::stdout().lock());
    match &chosen {
        Some(chosen) => beside(printed, destination.as_ref(), || {
            page::of(&plan, &means, chosen, &arguments.within, &table.notes)
        })?,
        None => printed?,
    }
    Ok(if left == 0 { crate::NO } else { 0 })
}

/// Settings that have the column, the best ones first.
pub(super) fn ranked<'m, 'a>(means: &'m Means<'a>, by: &Goal) -> Vec<Ranked<'m, 'a>> {
    let all = means.all.iter();
    let ranked = all.filter_map(|(settings, rows)| Some((mean(rows, &by.column)?, settings, rows)));
    let mut ranked: Vec<Ranked<'m, 'a>> =
        ranked.map(|(mean, settings, rows)| Ranked { mean, settings, rows }).collect();
    ranked.sort_by(|one, other| by.cost(one.mean).total_cmp(&by.cost(other.mean)));
    ranked
}

/// Settings with their mean.
pub(super) struct Ranked<'m, 'a> {
    pub(super) mean: f64,
    pub(super) settings: &'m Settings<'a>,
    pub(super) rows: &'m [SeedRow<'a>],
}

/// The columns of a list of settings.
pub(super) const COLUMNS: [(&str, &str); 8] = [
    ("rank", "rank"),
    ("input", "input"),
    ("machine", "machine"),
    ("settings", "settings"),
    ("seeds", "seeds"),
    ("mean", "mean"),
    ("min", "least"),
    ("max", "greatest"),
];

/// A row of the list.
pub(super) fn cells(means: &Means<'_>, place: usize, one: &Ranked<'_, '_>, by: &Goal) -> Vec<Cell> {
    let numbers = one.rows.iter().filter_map(|one| one.row[&by.column].as_f64());
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let greatest = numbers.fold(f64::NEG_INFINITY, f64::max);
    vec![
        Cell::Count(place as u64 + 1),
        short(one.settings.input).into(),
        one.settings.machine.into(),
        means.words(one.settings).into(),
        Cell::Count(one.rows.len() as u64),
        Cell::Number(one.mean, 2),
        Cell::Number(least, 2),
        Cell::Number(greatest, 2),
    ]
}

/// What a mean must keep.
struct Limit {
    column: String,
    is_below: bool,
    value: f64,
}

impl Limit {
    fn parse(text: &str) -> Result<Self> {
        let at = text.find(['<', '>']);
        let parsed = at.and_then(|at| {
            let value =
                text[at + 1..].trim().parse::<f64>().ok().filter(|value| value.is_finite())?;
            let (column, is_below) = (text[..at].trim().to_owned(), text[at..].starts_with('<'));
            Some(Self { column, is_below, value })
        });
        parsed.ok_or_else(|| {
            Complaint::new(format!("--within takes COLUMN<NUMBER or COLUMN>NUMBER, not '{text}'"))
                .hint(
                    "columns are those of `forebay sweep merge`, and a number is in the unit that \
                     the column's name ends with: read_p99_us<500",
                )
                .into()
        })
    }

    fn holds(&self, rows: &[SeedRow<'_>]) -> bool {
        let mean = mean(rows, &self.column);
        mean.is_some_and(|mean| if self.is_below { mean < self.value } else { mean > self.value })
    }
}
