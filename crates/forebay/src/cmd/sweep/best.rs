//! `forebay sweep best`: settings in the order of a column, which is a mean over seeds.

use std::io;

use anyhow::Result;
use forebay_core::units::PAGE_SIZE;
use forebay_report::messages::Complaint;
use forebay_report::page::{Destination, beside};
use forebay_report::table::Table;
use forebay_report::units;

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
    let mut means = Means::new(&plan, &rows);
    let limits = arguments.within.iter().map(|text| Limit::parse(text, &means));
    let limits = limits.collect::<Result<Vec<_>>>()?;
    let mut by = Goal::parse(&arguments.by, &means)?;
    by.is_max |= arguments.max;
    let all = means.all.len();
    means.all.retain(|_, rows| {
        mean(rows, &by.column).is_some() && limits.iter().all(|limit| limit.holds(rows))
    });
    let left = means.all.len();
    let mut table = Table::new(format!("By {}: {}", by.column, by.words()), &COLUMNS);
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
    /// The value itself is within the limit.
    is_equal: bool,
    value: f64,
}

impl Limit {
    /// `COLUMN<VALUE`, with `<`, `<=`, `>` or `>=`.
    fn parse(text: &str, means: &Means<'_>) -> Result<Self> {
        let refused = || {
            Complaint::new(format!("--within takes COLUMN<VALUE or COLUMN>VALUE, not '{text}'"))
                .hint(
                    "columns are those of `forebay sweep merge`; a value has a unit, or that of \
                     the column's name: read_p99_us<500, read.p99<0.5ms, dirty<64MiB",
                )
        };
        let at = text.find(['<', '>']).ok_or_else(refused)?;
        let column = means.column(text[..at].trim())?;
        let is_equal = text[at + 1..].starts_with('=');
        let value = text[at + 1 + usize::from(is_equal)..].trim();
        let value = number(value, &column).ok_or_else(refused)?;
        Ok(Self { column, is_below: text[at..].starts_with('<'), is_equal, value })
    }

    fn holds(&self, rows: &[SeedRow<'_>]) -> bool {
        mean(rows, &self.column).is_some_and(|mean| {
            let is_within = if self.is_below { mean < self.value } else { mean > self.value };
            is_within || self.is_equal && mean == self.value
        })
    }
}

/// A value in the unit of a column: a plain number, a time, or bytes of pages.
fn number(text: &str, column: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|value| value.is_finite());
    plain.or_else(|| match column.rsplit('_').next()? {
        "us" => Some(units::time(text)?.as_secs_f64() * 1e6),
        "s" if !column.ends_with("_mb_s") => Some(units::time(text)?.as_secs_f64()),
        "pages" => Some(units::bytes("--within", text).ok()? as f64 / PAGE_SIZE as f64),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_unit_of_its_column() {
        for (text, column, expected) in [
            ("500", "read_p99_us", Some(500.0)),
            ("0.5ms", "read_p99_us", Some(500.0)),
            ("2min", "elapsed_s", Some(120.0)),
            ("64MiB", "dirty_max_pages", Some(16_384.0)),
            ("1e3", "requests", Some(1_000.0)),
            ("5ms", "throughput_mb_s", None),
            ("5ms", "requests", None),
            ("nan", "requests", None),
            ("", "requests", None),
        ] {
            assert_eq!(number(text, column), expected, "{text} {column}");
        }
    }
}
