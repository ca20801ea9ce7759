//! A view as words: lines at the top, and three tables of texts.
//!
//! The terminal and `--once` show the same words; only what there is room for differs.

use forebay_live::pattern::Pattern;
use forebay_live::view::{DeviceView, FileView, Flow, ProcessView, View};

use super::format::{bytes, digits, or_dash, percent, printable, rate, seconds};
use super::keys::{Choice, Sort};

/// A table.
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) title: &'static str,
    /// Headings; the first column is aligned to the left and gives way, the others stand to the
    /// right. A column further right is left out earlier.
    pub(super) columns: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
    /// What is said where there are no rows.
    pub(super) empty: &'static str,
}

/// Stall and dirty memory, a line each.
pub(super) fn head(view: &View) -> Vec<String> {
    vec![stall(view), dirty(view)]
}

/// What cannot be seen or was missed, a line each.
pub(super) fn notes(view: &View) -> Vec<String> {
    let mut notes = Vec::new();
    if view.lost > 0 {
        notes.push(format!("{} events or more were lost: counts are too small", view.lost));
    }
    notes.extend(view.gaps.iter().map(|gap| printable(gap)));
    notes
}

/// The three tables, sorted and filtered.
pub(super) fn panes(view: &View, choice: &Choice) -> [Pane; 3] {
    [devices(view, choice), files(view, choice), processes(view, choice)]
}

fn stall(view: &View) -> String {
    match &view.stall {
        None => "stall     not known".to_owned(),
        Some(stall) => format!(
            "stall     some {} (10 s: {}), all {} (10 s: {})",
            percent(stall.some),
            percent(stall.some_10s),
            percent(stall.full),
            percent(stall.full_10s)
        ),
    }
}

fn dirty(view: &View) -> String {
    let dirty = &view.dirty;
    let level = |level: u64| match dirty.drain(level) {
        Some(time) => format!("{} = {}", bytes(level as f64), seconds(time)),
        None => bytes(level as f64),
    };
    let drain = dirty.bandwidth.map_or_else(|| "not known".to_owned(), rate);
    format!(
        "unwritten {}; background {}, limit {}; drain {drain}",
        level(dirty.unwritten()),
        level(dirty.background),
        level(dirty.limit)
    )
}

fn devices(view: &View, choice: &Choice) -> Pane {
    let is_shown = |device: &&DeviceView| {
        if choice.filter.is_empty() { device.is_active() } else { choice.lets(&device.name) }
    };
    let mut devices: Vec<&DeviceView> = view.devices.iter().filter(is_shown).collect();
    let moved = |device: &DeviceView| device.read.bandwidth + device.write.bandwidth;
    let latency = |flow: &Flow| flow.latency.unwrap_or(0.0);
    let slowest = |device: &DeviceView| latency(&device.read).max(latency(&device.write));
    match choice.sort {
        Sort::Name => devices.sort_by(|a, b| a.name.cmp(&b.name)),
        Sort::Latency => devices.sort_by(|a, b| slowest(b).total_cmp(&slowest(a))),
        Sort::Pauses => devices.sort_by_key(|device| std::cmp::Reverse(device.paused_ms)),
        Sort::Brought | Sort::Amplification => {
            devices.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
        }
    }
    Pane {
        title: "devices",
        columns: &[
            "device",
            "read",
            "write",
            "busy",
            "queue",
            "r lat",
            "w lat",
            "r IOPS",
            "w IOPS",
            "unwritten",
            "= drain",
            "limit",
            "paused",
            "window",
        ],
        rows: devices.iter().map(|device| device_row(device)).collect(),
        empty: "nothing went to or from a device",
    }
}

fn device_row(device: &DeviceView) -> Vec<String> {
    let latency = |flow: &Flow| or_dash(flow.latency.map(seconds));
    let size = |size: Option<u64>| or_dash(size.map(|size| bytes(size as f64)));
    vec![
        printable(&device.name),
        rate(device.read.bandwidth),
        rate(device.write.bandwidth),
        percent(device.busy),
        digits(device.queue),
        latency(&device.read),
        latency(&device.write),
        format!("{:.0}", device.read.iops),
        format!("{:.0}", device.write.iops),
        size(device.unwritten),
        or_dash(device.drain().map(seconds)),
        size(device.limit),
        millis(device.paused_ms),
        size(device.window),
    ]
}

fn files(view: &View, choice: &Choice) -> Pane {
    let name = |file: &FileView| match &file.path {
        Some(path) => printable(path),
        None => file.file.to_string(),
    };
    let mut files: Vec<&FileView> =
        view.files.iter().filter(|file| choice.lets(&name(file))).collect();
    let share = |file: &FileView| file.amplification().unwrap_or(0.0);
    match choice.sort {
        Sort::Name => files.sort_by_key(|file| name(file)),
        Sort::Amplification => files.sort_by(|a, b| share(b).total_cmp(&share(a))),
        // They come in this order.
        Sort::Brought | Sort::Latency | Sort::Pauses => {}
    }
    let length = view.period;
    let row = |file: &&FileView| {
        let known = file.processes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        vec![
            name(file),
            per_second(file.brought, length.0),
            per_second(file.used, length.0),
            ratio(file.amplification()),
            pattern(file.pattern),
            if file.window == 0 { "-".to_owned() } else { bytes(file.window as f64) },
            file.events.to_string(),
            known,
        ]
    };
    Pane {
        title: "files",
        columns: &["file", "brought in", "used", "x", "pattern", "window", "events", "processes"],
        rows: files.iter().map(row).collect(),
        empty: if view.sees_files { "no file had pages brought in" } else { NOT_VISIBLE },
    }
}

fn processes(view: &View, choice: &Choice) -> Pane {
    let name = |process: &ProcessView| match process.name.as_str() {
        "" => format!("{} (gone)", process.pid),
        name => format!("{} {}", process.pid, printable(name)),
    };
    let mut processes: Vec<&ProcessView> =
        view.processes.iter().filter(|process| choice.lets(&name(process))).collect();
    let share = |process: &ProcessView| process.amplification().unwrap_or(0.0);
    match choice.sort {
        Sort::Name => processes.sort_by(|a, b| a.name.cmp(&b.name).then(a.pid.cmp(&b.pid))),
        Sort::Amplification => processes.sort_by(|a, b| share(b).total_cmp(&share(a))),
        Sort::Pauses => processes.sort_by_key(|it| std::cmp::Reverse(it.pauses.total_ms)),
        // They come in this order.
        Sort::Brought | Sort::Latency => {}
    }
    let length = view.period;
    let row = |process: &&ProcessView| {
        let brought = per_second(process.brought, length.0);
        vec![
            name(process),
            if process.by_events || process.brought == 0 { brought } else { format!("*{brought}") },
            per_second(process.used, length.0),
            ratio(process.amplification()),
            or_dash(process.written.map(|written| per_second(written, length.0))),
            millis(process.pauses.total_ms),
            process.pauses.count.to_string(),
            millis(process.pauses.longest_ms),
            or_dash(process.faults.map(|faults| faults.to_string())),
        ]
    };
    Pane {
        title: "processes",
        columns: &[
            "process",
            "brought in",
            "used",
            "x",
            "written",
            "paused",
            "pauses",
            "longest",
            "faults",
        ],
        rows: processes.iter().map(row).collect(),
        empty: "no process had pages brought in or paused",
    }
}

fn pattern(pattern: Pattern) -> String {
    match pattern {
        Pattern::RandomFaults => "random faults".to_owned(),
        Pattern::Stream => "stream".to_owned(),
        Pattern::RandomReads { request } => format!("random reads of {request}"),
        Pattern::ShortRuns { pages } => format!("runs of {pages}"),
        Pattern::Unclear => "-".to_owned(),
    }
}

fn per_second(amount: u64, nanos: u64) -> String {
    rate(if nanos == 0 { 0.0 } else { amount as f64 * 1e9 / nanos as f64 })
}

fn ratio(share: Option<f64>) -> String {
    or_dash(share.map(digits))
}

fn millis(length: u64) -> String {
    seconds(length as f64 / 1e3)
}

/// Without events of readahead; the notes say why there are none.
const NOT_VISIBLE: &str =
    "not visible: no events of readahead are recorded (it takes root; the notes say why)";
