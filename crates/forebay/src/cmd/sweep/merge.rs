//! `forebay sweep merge`: every point with its row, the same bytes however the points were run.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result, bail};
use forebay_report::messages::Complaint;
use forebay_report::page::{Destination, beside};
use serde_json::{Map, Value};

use super::columnar;
use super::means::Means;
use super::page;
use super::plan::{Plan, Point};
use super::results::PointResults;
use crate::args::sweep::{SweepFormat, SweepMerge};

/// Prints all results.
pub(super) fn merge(arguments: &SweepMerge) -> Result<u8> {
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let format = if arguments.json { SweepFormat::Json } else { arguments.format };
    if format == SweepFormat::Parquet && io::stdout().is_terminal() {
        bail!(
            Complaint::new("--format parquet is no text, and standard output is a terminal")
                .hint("`forebay sweep merge DIR --format parquet > FILE` writes it to a file")
        );
    }
    let plan = Plan::read(&arguments.folder)?;
    let results = PointResults::read(&arguments.folder, &plan)?;
    let complete = results.complete(&plan)?;
    let mut shown = None;
    if destination.is_some() {
        let means = Means::new(&plan, &complete);
        let by = page::goal(&means, arguments.by.as_deref())?;
        let chosen = page::Chosen::new(&plan, &means, &arguments.page, by)?;
        shown = Some((means, chosen));
    }
    let rows = complete.iter().map(|(point, row)| object(&plan, point, row));
    let bytes = match format {
        SweepFormat::Json => format!("{:#}\n", rows.collect::<Value>()).into_bytes(),
        SweepFormat::Csv => csv(rows)?,
        SweepFormat::Parquet => columnar::file(&rows.collect::<Vec<_>>())?,
    };
    let written = io::stdout().lock().write_all(&bytes);
    let printed = written.context("cannot write the results");
    match &shown {
        Some((means, chosen)) => {
            beside(printed, destination.as_ref(), || page::of(&plan, means, chosen, &[], &[]))?;
        }
        None => printed?,
    }
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

fn csv(rows: impl Iterator<Item = Map<String, Value>>) -> Result<Vec<u8>> {
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
    writer.into_inner().context("cannot form the table")
}
