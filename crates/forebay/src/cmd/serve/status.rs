//! `forebay serve status`: what running servers hold and do.

use std::io::{self, Write};

use anyhow::{Result, bail};
use forebay_host::serve::LatencyReport;
use forebay_report::messages::{Complaint, complain, printable};
use forebay_report::table::{Cell, Format, Table};
use serde_json::Value;

use super::control;
use crate::ERROR;
use crate::args::serve::ServeStatus;

/// Prints what servers tell.
pub(super) fn run(arguments: &ServeStatus) -> Result<u8> {
    let found = match arguments.pid {
        Some(pid) => vec![pid],
        None => control::servers()?,
    };
    let (mut servers, mut code) = (Vec::new(), 0);
    for pid in found {
        match control::ask(pid) {
            Ok(server) => servers.extend(server),
            Err(error) if arguments.pid.is_some() => return Err(error),
            // One that is stopped hides no other.
            Err(error) => {
                complain(&format_args!("{error:#}"));
                code = ERROR;
            }
        }
    }
    if let (Some(pid), true) = (arguments.pid, servers.is_empty()) {
        bail!(
            Complaint::new(format!("process {pid} is no server of this user"))
                .hint("`forebay serve status` shows all that are")
        );
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{:#}", Value::Array(servers))?;
        return Ok(code);
    }
    if servers.is_empty() && code == 0 {
        writeln!(out, "no server of this user runs")?;
    }
    for server in &servers {
        for table in tables(server) {
            table.print(Format::Text, &mut out)?;
        }
    }
    Ok(code)
}

/// A column's heading, and the key of its value.
type Column = (&'static str, &'static str);

const EXPORT_COLUMNS: [Column; 11] = [
    ("name", "export"),
    ("cached_bytes", "cached"),
    ("dirty_bytes", "dirty"),
    ("writeback_bytes", "on the way"),
    ("written_back_bytes", "written back"),
    ("brought_in_bytes", "brought in"),
    ("used_bytes", "of it used"),
    ("store_reads", "store reads"),
    ("store_writes", "store writes"),
    ("write_errors", "write errors"),
    ("store_full", "full"),
];

const CLIENT_COLUMNS: [Column; 12] = [
    ("number", "client"),
    ("peer", "peer"),
    ("export", "export"),
    ("in_flight", "in flight"),
    ("requests", "requests"),
    ("read_bytes", "read"),
    ("written_bytes", "written"),
    ("waited", "waited"),
    ("wait", "wait s"),
    ("failed", "failed"),
    ("refused", "refused"),
    ("tls", "TLS"),
];

fn tables(server: &Value) -> Vec<Table> {
    let lost = match server["pages_lost"].as_u64() {
        None | Some(0) => String::new(),
        Some(pages) => format!(", {pages} pages lost: their write failed"),
    };
    let title = format!(
        "process {}, up {:.0} s, {} of {} in use{lost}",
        server["pid"],
        server["uptime"].as_f64().unwrap_or(0.0),
        size(&server["resident_bytes"]),
        size(&server["cache_bytes"]),
    );
    let rows = |key: &str| server[key].as_array().cloned().unwrap_or_default();
    let table = |title: &str, columns: &[Column], key: &str| {
        let mut table = Table::new(title, columns);
        let cells = |row: &Value| columns.iter().map(|(key, _)| cell(key, &row[*key])).collect();
        table.rows = rows(key).iter().map(cells).collect();
        table
    };
    let mut tables = vec![table(&title, &EXPORT_COLUMNS, "exports")];
    let columns = [
        ("export", "export"),
        ("kind", "request"),
        ("count", "count"),
        ("mean", "mean us"),
        ("p50", "p50 us"),
        ("p99", "p99 us"),
        ("p99_9", "p99.9 us"),
    ];
    let mut latencies = Table::new("", &columns);
    for export in rows("exports") {
        for (kind, latency) in export["latency"].as_object().into_iter().flatten() {
            let micros = |key: &str| {
                // The value is there unless it is longer than all buckets.
                let beyond = || Cell::Text(format!("> {}", LatencyReport::longest().as_micros()));
                latency[key].as_f64().map_or_else(beyond, |time| Cell::Number(time * 1e6, 1))
            };
            latencies.rows.push(vec![
                cell("name", &export["name"]),
                Cell::Text(kind.clone()),
                cell("count", &latency["count"]),
                micros("mean"),
                micros("p50"),
                micros("p99"),
                micros("p99_9"),
            ]);
        }
    }
    if !latencies.rows.is_empty() {
        tables.push(latencies);
    }
    let clients = table("", &CLIENT_COLUMNS, "clients");
    if !clients.rows.is_empty() {
        tables.push(clients);
    }
    tables
}

fn cell(key: &str, value: &Value) -> Cell {
    match value {
        Value::Number(_) if key.ends_with("_bytes") => Cell::Text(size(value)),
        Value::Number(number) if key == "wait" => {
            number.as_f64().map_or(Cell::Missing, |time| Cell::Number(time, 3))
        }
        Value::Number(number) => number.as_u64().map_or(Cell::Missing, Cell::Count),
        Value::String(text) if text.is_empty() => Cell::Text("(default)".to_owned()),
        Value::String(text) => Cell::Text(printable(text)),
        Value::Bool(is_so) => Cell::Text(if *is_so { "yes" } else { "no" }.to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => Cell::Missing,
    }
}

/// Bytes in KiB or MiB.
fn size(value: &Value) -> String {
    let bytes = value.as_u64().unwrap_or(0);
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}
