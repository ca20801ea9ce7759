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

    /// A column that no row has is an error.
    pub(super) fn verify(&self, column: &str) -> Result<()> {
        let Some(row) = self.rows().next().filter(|row| !row.contains_key(column)) else {
            return Ok(());
        };
        let names = row.keys().map(String::as_str);
        bail!(Complaint::new(format!("no column is named '{column}'")).nearest(column, names));
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
