//! A view as one JSON object. Sizes are bytes, times seconds, rates per second; an unknown value is
//! null.

use forebay_live::pattern::Pattern;
use forebay_live::view::{DeviceView, FileView, Flow, ProcessView, View};
use serde_json::{Value, json};

/// The whole view.
pub(super) fn object(view: &View) -> Value {
    let dirty = &view.dirty;
    json!({
        "at": view.at.0 as f64 / 1e9,
        "period": view.period.0 as f64 / 1e9,
        "stall": view.stall.map(|stall| json!({
            "some": stall.some,
            "full": stall.full,
            "some_10s": stall.some_10s,
            "full_10s": stall.full_10s,
        })),
        "dirty": {
            "dirty": dirty.dirty,
            "writeback": dirty.writeback,
            "background": dirty.background,
            "limit": dirty.limit,
            "dirtied_rate": dirty.dirtied_rate,
            "written_rate": dirty.written_rate,
            "bandwidth": dirty.bandwidth,
            "drain": dirty.drain(dirty.unwritten()),
            "background_drain": dirty.drain(dirty.background),
            "limit_drain": dirty.drain(dirty.limit),
        },
        "devices": view.devices.iter().map(device).collect::<Vec<_>>(),
        "files": view.files.iter().map(file).collect::<Vec<_>>(),
        "processes": view.processes.iter().map(process).collect::<Vec<_>>(),
        "lost_events": view.lost,
        "gaps": view.gaps,
    })
}

fn device(device: &DeviceView) -> Value {
    json!({
        "device": device.name,
        "number": device.number.to_string(),
        "read": flow(&device.read),
        "write": flow(&device.write),
        "queue": device.queue,
        "in_flight": device.in_flight,
        "busy": device.busy,
        "window": device.window,
        "unwritten": device.unwritten,
        "limit": device.limit,
        "bandwidth": device.bandwidth,
        "drain": device.drain(),
        "paused": device.paused_ms as f64 / 1e3,
    })
}

fn flow(flow: &Flow) -> Value {
    json!({ "bandwidth": flow.bandwidth, "iops": flow.iops, "latency": flow.latency })
}

fn file(file: &FileView) -> Value {
    json!({
        "device": file.file.dev.to_string(),
        "inode": file.file.ino,
        "path": file.path,
        "pattern": pattern(file.pattern),
        "request_pages": match file.pattern {
            Pattern::RandomReads { request } => Some(request),
            Pattern::RandomFaults
            | Pattern::Stream
            | Pattern::ShortRuns { .. }
            | Pattern::Unclear => None,
        },
        "run_pages": match file.pattern {
            Pattern::ShortRuns { pages } => Some(pages),
            Pattern::RandomFaults
            | Pattern::Stream
            | Pattern::RandomReads { .. }
            | Pattern::Unclear => None,
        },
        "events": file.events,
        "brought": file.brought,
        "used": file.used,
        "amplification": file.amplification(),
        "window": (file.window > 0).then_some(file.window),
        "processes": file.processes,
    })
}

fn process(process: &ProcessView) -> Value {
    json!({
        "pid": process.pid,
        "name": process.name,
        "brought": process.brought,
        "used": process.used,
        "amplification": process.amplification(),
        "basis": if process.by_events { "events" } else { "counters" },
        "written": process.written,
        "faults": process.faults,
        "pauses": process.pauses.count,
        "paused": process.pauses.total_ms as f64 / 1e3,
        "longest_pause": process.pauses.longest_ms as f64 / 1e3,
    })
}

/// The word for a pattern in JSON and metrics.
pub(super) fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::RandomFaults => "random-faults",
        Pattern::Stream => "stream",
        Pattern::RandomReads { .. } => "random-reads",
        Pattern::ShortRuns { .. } => "short-runs",
        Pattern::Unclear => "unclear",
    }
}
