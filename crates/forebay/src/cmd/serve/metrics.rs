//! A server's report in the text format of Prometheus.
//!
//! Source:     Prometheus, "Exposition formats", version 0.0.4.
//! Behaviour:  gauges of the moment, and counters since the server began; sizes in bytes.
//! Differs:    nothing.
//! Not for:    single requests.

use std::fmt::Write;

use forebay_core::units::PAGE_SIZE;
use forebay_host::serve::{ExportReport, ServerReport};

/// The whole report.
pub(super) fn text(report: &ServerReport) -> String {
    let mut out = String::new();
    let stats = &report.stats;
    for (name, kind, help, value) in [
        ("resident_bytes", "gauge", "page memory in use", report.resident_pages * PAGE_SIZE),
        ("connections", "gauge", "clients at the moment", report.connections as u64),
        ("page_accesses_total", "counter", "pages that reads have met", stats.accesses),
        ("page_hits_total", "counter", "of those, in memory", stats.hits),
        ("pages_read_total", "counter", "pages brought in", stats.pages_read),
        ("pages_used_total", "counter", "of those, wanted by a client", stats.pages_used),
        ("readahead_windows_total", "counter", "windows of readahead", stats.windows.count),
        ("pages_lost_total", "counter", "pages whose write failed", stats.pages_lost),
    ] {
        head(&mut out, (name, kind), help);
        let _ = writeln!(out, "forebay_serve_{name} {value}");
    }
    for (name, kind, help, value) in EXPORT_ROWS {
        head(&mut out, (name, kind), help);
        for export in &report.exports {
            let label = escaped(&export.name);
            let value = value(export);
            let _ = writeln!(out, "forebay_serve_{name}{{export=\"{label}\"}} {value}");
        }
    }
    out
}

type ExportRow = (&'static str, &'static str, &'static str, fn(&ExportReport) -> u64);

const EXPORT_ROWS: [ExportRow; 13] = [
    ("dirty_bytes", "gauge", "written and not on the way to the store", |export| {
        export.levels.levels.dirty * PAGE_SIZE
    }),
    ("writeback_bytes", "gauge", "on the way to the store", |export| {
        export.levels.levels.writeback * PAGE_SIZE
    }),
    ("written_back_bytes_total", "counter", "whose way to the store has ended", |export| {
        export.levels.levels.written * PAGE_SIZE
    }),
    (
        "drain_bytes_per_second",
        "gauge",
        "what the store was seen to write; 0 if unknown",
        |export| export.levels.drain.unwrap_or(0) * PAGE_SIZE,
    ),
    ("write_errors_total", "counter", "writes and flushes of the store that failed", |export| {
        export.levels.write_errors
    }),
    ("store_full", "gauge", "1 if the store has no room", |export| {
        u64::from(export.levels.is_full)
    }),
    ("store_reads_total", "counter", "reads of the store", |export| export.store_reads.0),
    ("store_read_bytes_total", "counter", "bytes of these", |export| export.store_reads.1),
    ("store_writes_total", "counter", "writes to the store", |export| export.store_writes.0),
    ("store_written_bytes_total", "counter", "bytes of these", |export| export.store_writes.1),
    ("store_flushes_total", "counter", "flushes of the store", |export| export.store_flushes),
    ("object_requests_total", "counter", "requests for an object; 0 of a local store", |export| {
        export.requests.unwrap_or_default().count
    }),
    ("object_bytes_total", "counter", "bytes of the object that these brought", |export| {
        export.requests.unwrap_or_default().bytes
    }),
];

fn head(out: &mut String, (name, kind): (&str, &str), help: &str) {
    let _ = writeln!(out, "# HELP forebay_serve_{name} {help}");
    let _ = writeln!(out, "# TYPE forebay_serve_{name} {kind}");
}

/// A label's value.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
