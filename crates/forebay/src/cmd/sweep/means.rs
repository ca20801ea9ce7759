//! Settings of a sweep with their rows: the mean of a column is taken over seeds.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use forebay_report::messages::Complaint;
use serde_json::{Map, Value};

use super::plan::{Plan, Point};

/// Input, machine, and a value for each key of the grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Settings<'a> {
    pub(super) input: &'a str,
    pub(super) machine: &'a str,
    pub(super) values: &'a [String],
}

/// A point's row, with its seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeedRow<'a> {
    pub(super) seed: u64,
    pub(super) row: &'a Map<String, Value>,
}

/// The rows of all settings.
#[derive(Debug)]
pub(super) struct Means<'a> {
    pub(super) keys: &'a [String],
    pub(super) all: BTreeMap<Settings<'a>, Vec<SeedRow<'a>>>,
}

impl<'a> Means<'a> {
    pub(super) fn new(plan: &'a Plan, rows: &[(&'a Point, &'a Map<String, Value>)]) -> Self {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (point, row) in rows {
            let Point { input, machine, values, seed, .. } = *point;
            let rows = all.entry(Settings { input, machine, values }).or_default();
            rows.push(SeedRow { seed: *seed, row });
        }
        Self { keys: &plan.keys, all }
    }

    /// The column that is meant: by its name, by the name without the unit, or by the beginning
    /// that no other has; a dot stands for an underscore. It has numbers.
    pub(super) fn column(&self, typed: &str) -> Result<String> {
        let Some(row) = self.rows().next() else { return Ok(typed.to_owned()) };
        let names = || row.keys().map(String::as_str);
        let name = typed.replace('.', "_");
        let without_unit = |column: &str| {
            let units = UNITS.iter();
            units.filter_map(|unit| column.strip_suffix(unit)).any(|column| column == name)
        };
        let begins =
            |column: &str| column.strip_prefix(&name).is_some_and(|rest| rest.starts_with('_'));
        let found = names().find(|column| *column == name);
        let found = found.or_else(|| names().find(|column| without_unit(column)));
        let found = found.or_else(|| {
            let mut all = names().filter(|column| begins(column));
            all.next().filter(|_| all.next().is_none())
        });
        let Some(column) = found else {
            bail!(Complaint::new(format!("no column is named '{typed}'")).nearest(&name, names()));
        };
        if row[column].is_string() {
            let what = format!("the column '{column}' has no numbers");
            bail!(Complaint::new(what).hint("`forebay sweep merge DIR` prints all columns"));
        }
        Ok(column.to_owned())
    }

    /// Every row.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a Map<String, Value>> {
        self.all.values().flatten().map(|one| one.row)
    }

    /// `key=value` for each key of the grids.
    pub(super) fn words(&self, settings: &Settings<'_>) -> String {
        let pairs = self.keys.iter().zip(settings.values);
        let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(" ")
    }
}

/// The units with which columns end.
const UNITS: [&str; 6] = ["_us", "_mb_s", "_s", "_pages", "_percent", "_kib"];

/// The mean of a column; nothing if a row has no value.
pub(super) fn mean(rows: &[SeedRow<'_>], column: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = rows.iter().map(|one| one.row.get(column)?.as_f64()).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The last part of a path.
pub(super) fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
