//! `forebay sweep best`: settings in the order of a column, which is a mean over seeds.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use super::plan::Plan;
use super::results::PointResults;
use crate::args::sweep::SweepBest;
use crate::messages::Complaint;
use crate::table::{Cell, Format, Table};

/// Input, machine, and a value for each key of the grids.
type Settings<'a> = (&'a str, &'a str, &'a [String]);

/// Prints the best settings.
pub(super) fn best(arguments: &SweepBest) -> Result<u8> {
    let plan = Plan::read(&arguments.folder)?;
    let results = PointResults::read(&arguments.folder, &plan)?;
    let rows = results.complete(&plan)?;
    let limits =
        arguments.within.iter().map(|text| Limit::parse(text)).collect::<Result<Vec<_>>>()?;
    let columns = rows.first().map(|(_, row)| *row);
    let known = |column: &str| columns.is_some_and(|row| row.contains_key(column));
    let named = limits.iter().map(|limit| limit.column.as_str()).chain([arguments.by.as_str()]);
    for column in named {
        if !known(column) {
            let names = columns.into_iter().flat_map(|row| row.keys().map(String::as_str));
            bail!(Complaint::new(format!("no column is named '{column}'")).nearest(column, names));
        }
    }
    let mut settings: BTreeMap<Settings<'_>, Vec<&Map<String, Value>>> = BTreeMap::new();
    for (point, row) in rows {
        let key = (point.input.as_str(), point.machine.as_str(), &point.values[..]);
        settings.entry(key).or_default().push(row);
    }
    let mut ranked: Vec<(f64, _, _)> = Vec::new();
    for (key, rows) in &settings {
        let Some(mean) = mean(rows, &arguments.by) else { continue };
        if limits.iter().all(|limit| limit.holds(rows)) {
            ranked.push((mean, *key, rows));
        }
    }
    let (left, all) = (ranked.len(), settings.len());
    ranked.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    if arguments.max {
        ranked.reverse();
    }
    let columns = [
        ("rank", "rank"),
        ("input", "input"),
        ("machine", "machine"),
        ("settings", "settings"),
        ("seeds", "seeds"),
        ("mean", "mean"),
        ("min", "least"),
        ("max", "greatest"),
    ];
    let mut table = Table::new(format!("By {}", arguments.by), &columns);
    for (place, (mean, (input, machine, values), rows)) in
        ranked.iter().take(arguments.count as usize).enumerate()
    {
        let pairs = plan.keys.iter().zip(*values).map(|(key, value)| format!("{key}={value}"));
        let numbers = rows.iter().filter_map(|row| row[&arguments.by].as_f64());
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        let greatest = numbers.fold(f64::NEG_INFINITY, f64::max);
        table.rows.push(vec![
            Cell::Count(place as u64 + 1),
            input.rsplit('/').next().unwrap_or_default().into(),
            (*machine).into(),
            pairs.collect::<Vec<_>>().join(" ").into(),
            Cell::Count(rows.len() as u64),
            Cell::Number(*mean, 2),
            Cell::Number(least, 2),
            Cell::Number(greatest, 2),
        ]);
    }
    table.notes.push(format!("{left} of {all} settings have the column and are within the limits"));
    table.print(Format::Text, &mut io::stdout().lock())?;
    Ok(if left == 0 { crate::NO } else { 0 })
}

/// The mean of a column over seeds; nothing if a seed has no value.
fn mean(rows: &[&Map<String, Value>], column: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = rows.iter().map(|row| row.get(column)?.as_f64()).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
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
            Complaint::new(format!("--within takes COLUMN<VALUE or COLUMN>VALUE, not '{text}'"))
                .hint("columns and their units are those of `forebay sweep merge`")
                .into()
        })
    }

    fn holds(&self, rows: &[&Map<String, Value>]) -> bool {
        let mean = mean(rows, &self.column);
        mean.is_some_and(|mean| if self.is_below { mean < self.value } else { mean > self.value })
    }
}
