//! `forebay-bench dispatch`: the modes of access compared with plain `pread` and `tokio::fs`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, bail};
use forebay_host::access::{File, Mode, Options};
use forebay_report::messages::{self, Complaint};
use forebay_report::page::{Destination, beside};
use forebay_report::table::{self, Table};

use crate::args::BenchDispatch;
use crate::measure::{
    Cell, Length, Row, Scratch, Subject, TOKIO, measure, on_a_runtime, ours, pread, verdicts,
};
use crate::page::{self, Plot};

/// Measures all modes in all cells and prints one table.
pub(crate) fn run(arguments: &BenchDispatch) -> Result<u8> {
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let (subject, place) = subject(arguments.on.as_deref())?;
    if let Some(note) = missing(&subject)? {
        messages::note(&note);
    }
    let mut entrants = vec![pread()];
    entrants.extend(Mode::ALL.map(ours));
    entrants.push(on_a_runtime());
    let (time, rounds_max) = match arguments.quick {
        true => (Duration::ZERO, 1),
        false => (arguments.time_per_cell, usize::MAX),
    };
    let length = Length { time, rounds_max };
    let cells = Cell::all();
    let bar = messages::progress(cells.len() as u64, "cells");
    let (mut table, mut rows) = (empty(), Vec::new());
    for cell in cells {
        // A line that moves is drawn by a thread, whose switches would count.
        bar.disable_steady_tick();
        let measured = measure(&cell, &subject, &entrants, length)
            .with_context(|| format!("cannot measure {cell} on {place}"))?;
        let beside = measured.first().context("every cell has a contestant")?;
        let tokio = measured.iter().find(|row| row.name == TOKIO);
        table.rows.extend(measured.iter().map(|row| line(row, beside, tokio)));
        rows.extend(measured);
        bar.inc(1);
    }
    bar.finish_and_clear();
    table.notes = notes(arguments, &place);
    for verdict in verdicts(&rows) {
        table.notes.push(verdict.to_string());
    }
    let printed = table.print(arguments.output.format(), &mut io::stdout().lock());
    let title = format!("Ways to read from {place}");
    let page = || page::of(&title, &table, &PLOTS, crate::DISPATCH);
    beside(printed, destination.as_ref(), page)?;
    Ok(0)
}

/// The file that is read, and its description.
fn subject(on: Option<&Path>) -> Result<(Subject, String)> {
    let on = on.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let shown = on.display().to_string();
    let found = fs::metadata(&on).with_context(|| format!("--on {shown}"))?;
    if !found.is_dir() {
        if !found.is_file() && !found.file_type().is_block_device() {
            bail!("--on {shown}: neither a folder nor a file nor a block device");
        }
        if found.is_file() && found.len() < LEAST {
            let what = format!("--on {shown}: the file has {} bytes, too few", found.len());
            bail!(Complaint::new(what).hint(format!("name one of {LEAST} bytes, or a folder")));
        }
        return Ok((Subject::Present(on), shown));
    }
    let scratch = Scratch::new(&on, BYTES)
        .with_context(|| format!("cannot make a file of {} MiB in --on {shown}", BYTES >> 20))?;
    Ok((Subject::Scratch(scratch), format!("a file of {} MiB in {shown}", BYTES >> 20)))
}

/// Why io_uring does not take part, if so.
fn missing(subject: &Subject) -> Result<Option<String>> {
    let file = File::open(subject.path(), Options { mode: Mode::Uring, ..Options::default() })?;
    Ok(file.note().map(str::to_owned))
}

fn empty() -> Table {
    Table::new(
        "",
        &[
            ("pages", "pages"),
            ("depth", "depth"),
            ("cores", "cores"),
            ("way", "way"),
            ("reads", "reads"),
            ("reads_per_s", "reads/s"),
            ("p50_us", "p50 us"),
            ("p99_us", "p99 us"),
            ("cpu_us_per_read", "cpu us"),
            ("switches_per_read", "switches"),
            ("speed_to_pread", "x pread"),
            ("cpu_to_pread", "cpu x pread"),
            ("speed_to_tokio", "x tokio"),
        ],
    )
}

fn line(row: &Row, pread: &Row, tokio: Option<&Row>) -> Vec<table::Cell> {
    let number = table::Cell::Number;
    vec![
        row.cell.pages.to_string().as_str().into(),
        table::Cell::Count(row.cell.depth as u64),
        (if row.cell.busy { "busy" } else { "idle" }).into(),
        row.name.into(),
        table::Cell::Count(row.reads),
        number(row.rate, 0),
        number(row.p50, 2),
        number(row.p99, 2),
        number(row.cpu, 2),
        number(row.switches, 3),
        number(row.speed(pread), 3),
        number(row.cpu_ratio(pread), 3),
        table::Cell::maybe(tokio.map(|tokio| row.speed(tokio)), 3),
    ]
}

fn notes(arguments: &BenchDispatch, place: &str) -> Vec<String> {
    let length = if arguments.quick {
        "one round for each way and cell".to_owned()
    } else {
        format!("{} s for each way and cell", arguments.time_per_cell.as_secs_f64())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    vec![
        format!(
            "forebay {}, real time, reads of 4 KiB on {place}, {length}, {cores} processors",
            env!("CARGO_PKG_VERSION"),
        ),
        String::new(),
    ]
}

/// The charts of a page besides the table.
const PLOTS: [Plot; 2] = [
    Plot {
        title: "Reads a second",
        unit: "reads/s",
        apart: &["pages"],
        along: &["depth", "cores"],
        series: &["way"],
        value: "reads_per_s",
        up_to: None,
    },
    Plot {
        title: "Time of a read",
        unit: "us",
        apart: &["pages"],
        along: &["depth", "cores"],
        series: &["way"],
        value: "p50_us",
        up_to: Some("p99_us"),
    },
];

/// The size of the file that is made.
const BYTES: u64 = 128 << 20;

/// The smallest file that is measured.
const LEAST: u64 = 4 << 20;
