//! `forebay sweep merge`: every point with its row, the same bytes however the points were run.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::plan::{Plan, Point};
use super::results::PointResults;
use crate::args::sweep::{SweepFormat, SweepMerge};

/// Prints all results.
pub(super) fn merge(arguments: &SweepMerge) -> Result<u8> {
    let plan = Plan::read(&arguments.folder)?;
    let results = PointResults::read(&arguments.folder, &plan)?;
    let rows = results.complete(&plan)?;
    let rows = rows.into_iter().map(|(point, row)| object(&plan, point, row));
    let text = match arguments.format {
        SweepFormat::Json => format!("{:#}\n", rows.collect::<Value>()),
        SweepFormat::Csv => csv(rows)?,
    };
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write the results")?;
    Ok(0)
}

/// The settings of a point, then its results. A key of a grid that is also a column occurs once, as
/// it was typed.
fn object(plan: &Plan, point: &Point, row: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| {
        all.entry(key.to_owned()).or_insert(value);
    };
    put("point", point.name.as_str().into());
    put("input", point.input.as_str().into());
    put("machine", point.machine.as_str().into());
    for (key, value) in plan.keys.iter().zip(&point.values) {
        put(key, value.as_str().into());
    }
    put("seed", point.seed.into());
    row.iter().for_each(|(key, value)| put(key, value.clone()));
    all
}

fn csv(rows: impl Iterator<Item = Map<String, Value>>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut has_header = false;
    for row in rows {
        if !has_header {
            writer.write_record(row.keys())?;
            has_header = true;
        }
        writer.write_record(row.values().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        }))?;
    }
    let bytes = writer.into_inner().context("cannot form the table")?;
    String::from_utf8(bytes).context("a table is text")
}
