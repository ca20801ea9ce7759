//! A server's report as JSON: sizes in bytes, times in seconds.

use forebay_core::units::PAGE_SIZE;
use forebay_host::serve::{ClientReport, ExportReport, LatencyReport, REQUEST_KINDS, ServerReport};
use serde_json::{Map, Value, json};

/// The object of a server.
pub(super) fn object(report: &ServerReport, pid: u32) -> Value {
    let clients = report.clients.iter().map(|one| client(one, &report.exports));
    json!({
        "pid": pid,
        "uptime": report.uptime.as_secs_f64(),
        "cache_bytes": report.cache,
        "resident_bytes": report.resident_pages * PAGE_SIZE,
        "page_accesses": report.stats.accesses,
        "page_hits": report.stats.hits,
        "pages_lost": report.stats.pages_lost,
        "exports": report.exports.iter().map(export).collect::<Vec<_>>(),
        "clients": clients.collect::<Vec<_>>(),
    })
}

fn export(export: &ExportReport) -> Value {
    let (levels, pages) = (&export.levels.levels, &export.levels.pages);
    let kinds = REQUEST_KINDS.iter().zip(&export.latencies);
    let latencies: Map<String, Value> = kinds
        .filter(|(_, latency)| latency.count() > 0)
        .map(|(kind, latency)| ((*kind).to_owned(), latency_object(latency)))
        .collect();
    json!({
        "name": export.name,
        "bytes": export.bytes,
        "read_only": export.read_only,
        "cached_bytes": pages.resident * PAGE_SIZE,
        "dirty_bytes": levels.dirty * PAGE_SIZE,
        "writeback_bytes": levels.writeback * PAGE_SIZE,
        "written_back_bytes": levels.written * PAGE_SIZE,
        "brought_in_bytes": pages.read * PAGE_SIZE,
        "used_bytes": pages.used * PAGE_SIZE,
        "drain_bytes_per_second": export.levels.drain.map(|pages| pages * PAGE_SIZE),
        "write_errors": export.levels.write_errors,
        "store_full": export.levels.is_full,
        "store_reads": export.store_reads.0,
        "store_read_bytes": export.store_reads.1,
        "store_writes": export.store_writes.0,
        "store_written_bytes": export.store_writes.1,
        "store_flushes": export.store_flushes,
        "network_requests": export.requests.map(|sent| sent.count),
        "network_bytes": export.requests.map(|sent| sent.bytes),
        "latency": latencies,
    })
}

fn latency_object(latency: &LatencyReport) -> Value {
    let quantile = |permille| latency.permille(permille).map(|length| length.as_secs_f64());
    json!({
        "count": latency.count(),
        "mean": latency.total.as_secs_f64() / latency.count().max(1) as f64,
        "p50": quantile(500),
        "p99": quantile(990),
        "p99_9": quantile(999),
    })
}

fn client(client: &ClientReport, exports: &[ExportReport]) -> Value {
    let counters = &client.counters;
    json!({
        "number": client.number,
        "peer": client.peer.to_string(),
        "tls": client.tls,
        "export": client.export.map(|place| exports[place].name.as_str()),
        "in_flight": client.in_flight,
        "untaken_bytes": client.untaken,
        "requests": counters.requests,
        "read_bytes": counters.read_bytes,
        "written_bytes": counters.written_bytes,
        "waited": counters.waited,
        "wait": counters.wait.as_secs_f64(),
        "failed": counters.failed,
        "refused": counters.refused,
    })
}
