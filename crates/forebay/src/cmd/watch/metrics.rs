//! A view in the text format of Prometheus.
//!
//! Source:     Prometheus, "Exposition formats", version 0.0.4.
//! Behaviour:  gauges of the last period; sizes in bytes, times in seconds.
//! Differs:    nothing.
//! Not for:    more files or processes than [`ROWS_MAX`], which would be as many time series.

use std::fmt::Write;

use forebay_live::view::View;

use super::json::pattern;

/// The whole view.
pub(super) fn text(view: &View) -> String {
    let mut out = Metrics(String::new());
    machine(view, &mut out);
    devices(view, &mut out);
    let files = || view.files.iter().take(ROWS_MAX);
    let processes = || view.processes.iter().take(ROWS_MAX);
    out.head("file_brought_bytes", "brought in by readahead in the last period");
    for file in files() {
        out.row("file_brought_bytes", &file_labels(file), file.brought as f64);
    }
    out.head("file_used_bytes", "of those, used by a process, as far as events show");
    for file in files() {
        out.row("file_used_bytes", &file_labels(file), file.used as f64);
    }
    out.head("process_brought_bytes", "brought in for a process in the last period");
    for process in processes() {
        let labels = [("pid", process.pid.to_string()), ("name", process.name.clone())];
        out.row("process_brought_bytes", &labels, process.brought as f64);
    }
    out.head("process_used_bytes", "of those, used by the process");
    for process in processes() {
        let labels = [("pid", process.pid.to_string()), ("name", process.name.clone())];
        out.row("process_used_bytes", &labels, process.used as f64);
    }
    out.head("process_paused_seconds", "pauses for writing too fast in the last period");
    for process in processes() {
        let labels = [("pid", process.pid.to_string()), ("name", process.name.clone())];
        out.row("process_paused_seconds", &labels, process.pauses.total_ms as f64 / 1e3);
    }
    out.0
}

fn machine(view: &View, out: &mut Metrics) {
    let single = |out: &mut Metrics, name, help, value| {
        out.head(name, help);
        out.row(name, &[], value);
    };
    single(out, "period_seconds", "length of the last period", view.period.0 as f64 / 1e9);
    if let Some(stall) = &view.stall {
        out.head("io_stall_ratio", "share of the last period in which tasks waited for devices");
        for (tasks, value) in [("some", stall.some), ("full", stall.full)] {
            out.row("io_stall_ratio", &[("tasks", tasks.to_owned())], value);
        }
    }
    let dirty = &view.dirty;
    single(out, "dirty_bytes", "dirty memory", dirty.dirty as f64);
    single(out, "writeback_bytes", "memory on its way to devices", dirty.writeback as f64);
    single(out, "dirty_background_bytes", "level at which flushers begin", dirty.background as f64);
    single(out, "dirty_limit_bytes", "level that writers must not pass", dirty.limit as f64);
    if let Some(drain) = dirty.drain(dirty.unwritten()) {
        single(out, "drain_seconds", "time until all that is dirty is written", drain);
    }
    single(out, "lost_events", "trace events lost in the last period", view.lost as f64);
}

fn devices(view: &View, out: &mut Metrics) {
    type Figure = fn(&forebay_live::view::DeviceView) -> Option<f64>;
    let figures: [(&str, &str, Figure); 10] = [
        ("device_read_bytes_per_second", "bytes read", |it| Some(it.read.bandwidth)),
        ("device_write_bytes_per_second", "bytes written", |it| Some(it.write.bandwidth)),
        ("device_reads_per_second", "read requests", |it| Some(it.read.iops)),
        ("device_writes_per_second", "write requests", |it| Some(it.write.iops)),
        ("device_read_latency_seconds", "mean time of a read", |it| it.read.latency),
        ("device_write_latency_seconds", "mean time of a write", |it| it.write.latency),
        ("device_queue_requests", "mean requests in flight", |it| Some(it.queue)),
        ("device_busy_ratio", "share of time with a request", |it| Some(it.busy)),
        ("device_unwritten_bytes", "dirty or on its way", |it| Some(it.unwritten? as f64)),
        ("device_drain_seconds", "time until that is written", |it| it.drain()),
    ];
    for (name, help, figure) in figures {
        out.head(name, help);
        for device in &view.devices {
            if let Some(value) = figure(device) {
                out.row(name, &[("device", device.name.clone())], value);
            }
        }
    }
}

fn file_labels(file: &forebay_live::view::FileView) -> [(&'static str, String); 4] {
    [
        ("device", file.file.dev.to_string()),
        ("inode", file.file.ino.to_string()),
        ("path", file.path.clone().unwrap_or_default()),
        ("pattern", pattern(file.pattern).to_owned()),
    ]
}

/// The text so far.
struct Metrics(String);

impl Metrics {
    fn head(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} gauge");
    }

    fn row(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        self.0 += &format!("forebay_{name}");
        for (place, (label, text)) in labels.iter().enumerate() {
            let begin = if place == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.0 += &format!("{begin}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// The maximum number of files, and of processes, that are served: those with the most bytes read.
const ROWS_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_and_values_are_numbers() {
        let mut out = Metrics(String::new());
        out.row("file", &[("path", "a\"b\\c\nd".to_owned()), ("x", String::new())], 1.5);
        out.row("plain", &[], 1e20);
        let expected = "forebay_file{path=\"a\\\"b\\\\c\\nd\",x=\"\"} 1.5\n\
                        forebay_plain 100000000000000000000\n";
        assert_eq!(out.0, expected);
        assert!(text(&View::default()).contains("\nforebay_dirty_bytes 0\n"));
    }
}
