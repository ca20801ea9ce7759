//! A server's report in the text format of Prometheus.
//!
//! Source:     Prometheus, "Exposition formats", version 0.0.4.
//! Behaviour:  gauges of the moment, and counters since the server began; sizes in bytes.
//! Differs:    nothing.
//! Not for:    single requests.

use std::fmt::Write;

use forebay_core::units::PAGE_SIZE;
use forebay_host::serve::{ClientReport, ExportReport, REQUEST_KINDS, ServerReport};

/// The whole report.
pub(super) fn text(report: &ServerReport) -> String {
    let mut out = String::new();
    let stats = &report.stats;
    for (name, kind, help, value) in [
        ("resident_bytes", "gauge", "page memory in use", report.resident_pages * PAGE_SIZE),
        ("connections", "gauge", "clients at the moment", report.clients.len() as u64),
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
    latencies(&mut out, report);
    clients(&mut out, report);
    out
}

/// A histogram for each export and kind of request that came.
fn latencies(out: &mut String, report: &ServerReport) {
    let name = "request_seconds";
    head(out, (name, "histogram"), "from the request to its reply");
    for export in &report.exports {
        for (kind, latency) in REQUEST_KINDS.iter().zip(&export.latencies) {
            let count = latency.count();
            if count == 0 {
                continue;
            }
            let labels = format!("export=\"{}\",request=\"{kind}\"", escaped(&export.name));
            for (bound, below) in latency.cumulative() {
                let bound = bound.as_secs_f64();
                let _ =
                    writeln!(out, "forebay_serve_{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
            }
            let _ = writeln!(out, "forebay_serve_{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let total = latency.total.as_secs_f64();
            let _ = writeln!(out, "forebay_serve_{name}_sum{{{labels}}} {total}");
            let _ = writeln!(out, "forebay_serve_{name}_count{{{labels}}} {count}");
        }
    }
}

/// What each client that is connected has asked for.
fn clients(out: &mut String, report: &ServerReport) {
    for (name, kind, help, value) in CLIENT_ROWS {
        head(out, (name, kind), help);
        for client in &report.clients {
            let export = client.export.map_or("", |place| &report.exports[place].name);
            let labels = format!("client=\"{}\",export=\"{}\"", client.number, escaped(export));
            let _ = writeln!(out, "forebay_serve_{name}{{{labels}}} {}", value(client));
        }
    }
}

type ClientRow = (&'static str, &'static str, &'static str, fn(&ClientReport) -> f64);

const CLIENT_ROWS: [ClientRow; 8] = [
    ("client_requests_total", "counter", "requests that were carried out", |client| {
        client.counters.requests as f64
    }),
    ("client_read_bytes_total", "counter", "bytes of READs", |client| {
        client.counters.read_bytes as f64
    }),
    ("client_written_bytes_total", "counter", "bytes of WRITEs", |client| {
        client.counters.written_bytes as f64
    }),
    ("client_waits_total", "counter", "requests not answered from memory at once", |client| {
        client.counters.waited as f64
    }),
    ("client_wait_seconds_total", "counter", "how long these took", |client| {
        client.counters.wait.as_secs_f64()
    }),
    ("client_failed_total", "counter", "requests that failed", |client| {
        client.counters.failed as f64
    }),
    ("client_refused_total", "counter", "requests that were refused", |client| {
        client.counters.refused as f64
    }),
    ("client_in_flight", "gauge", "requests without a reply", |client| f64::from(client.in_flight)),
];

type ExportRow = (&'static str, &'static str, &'static str, fn(&ExportReport) -> u64);

const EXPORT_ROWS: [ExportRow; 16] = [
    ("cached_bytes", "gauge", "page memory with pages of the export", |export| {
        export.levels.pages.resident * PAGE_SIZE
    }),
    ("brought_in_bytes_total", "counter", "read from the store into page memory", |export| {
        export.levels.pages.read * PAGE_SIZE
    }),
    ("brought_in_used_bytes_total", "counter", "of those, wanted by a client", |export| {
        export.levels.pages.used * PAGE_SIZE
    }),
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
    ("network_requests_total", "counter", "requests to a source over a network", |export| {
        export.requests.unwrap_or_default().count
    }),
    ("network_bytes_total", "counter", "bytes that these brought", |export| {
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
