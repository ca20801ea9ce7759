//! `forebay trace`: traces of any format looked at, converted and measured.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_report::table::{Cell, Format, Table};
use serde_json::{Value, json};

use crate::args::trace::{TraceHead, TraceWhat};
use crate::traces::TraceSource;

mod convert;
mod stats;

/// Runs a subcommand.
pub(crate) fn run(what: &TraceWhat) -> Result<u8> {
    match what {
        TraceWhat::Info(arguments) => stats::info(arguments),
        TraceWhat::Head(arguments) => head(arguments),
        TraceWhat::Convert(arguments) => convert::convert(arguments),
        TraceWhat::Sample(arguments) => convert::sample(arguments),
        TraceWhat::Stats(arguments) => stats::stats(arguments),
    }
}

/// Prints the first requests.
fn head(arguments: &TraceHead) -> Result<u8> {
    let mut source = TraceSource::open(&arguments.input)?;
    let mut table = Table::new(
        format!("{}, {}", source.name, source.format()),
        &[
            ("time_s", "time s"),
            ("volume", "volume"),
            ("stream", "stream"),
            ("op", "op"),
            ("offset", "offset"),
            ("bytes", "bytes"),
            ("took_us", "took us"),
        ],
    );
    while table.rows.len() < arguments.count as usize
        && let Some(record) = source.next()?
    {
        table.rows.push(vec![
            Cell::Number(record.time as f64 / 1e9, 6),
            source.volume(&record).into(),
            u64::from(record.stream).into(),
            record.op.name().into(),
            record.offset.into(),
            record.len.into(),
            Cell::maybe(record.took.map(|took| took as f64 / 1e3), 1),
        ]);
    }
    let format = if arguments.json { Format::Json } else { Format::Text };
    table.print(format, &mut io::stdout().lock())?;
    Ok(0)
}

/// Prints one JSON object.
fn print_json(value: &Value) -> Result<()> {
    writeln!(io::stdout().lock(), "{value:#}").context("cannot write the object")
}

/// Counts of lines and records, for an object.
fn read_report(source: &TraceSource<'_>) -> Value {
    let report = source.report();
    let first = report.first_bad.as_ref().map(|(place, fault)| format!("{place}: {fault}"));
    json!({
        "read": report.read,
        "bad": report.bad,
        "first_bad": first,
        "empty": report.empty,
        "backwards": report.backwards,
        "backwards_max_s": report.backwards_max as f64 / 1e9,
        "warnings": report.sentences(),
    })
}
