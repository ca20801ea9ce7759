//! `forebay sweep best`: settings in the order of a column, which is a mean over seeds.

use std::io;

use anyhow::Result;
use forebay_report::messages::Complaint;
use forebay_report::page::{Destination, beside};
use forebay_report::table::Table;

use super::front::Goal;
use super::means::{Means, SeedRow, mean};
use super::page;
use super::plan::Plan;
use super::ranked::{COLUMNS, cells, ranked};
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
