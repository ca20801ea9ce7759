//! A view as words: lines at the top, and three tables of texts.
//!
//! The terminal and `--once` show the same words; only what there is room for differs, and the
//! terminal adds trends.

use forebay_live::number::FileKey;
use forebay_live::pattern::Pattern;
use forebay_live::process::Held;
use forebay_live::view::{DeviceView, FileView, Flow, ProcessView, View};

use super::cell::Cell;
use super::format::{bytes, digits, or_dash, percent, printable, rate, seconds};
use super::history::{History, Key};
use super::keys::{Choice, Sort};

/// A table.
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) title: &'static str,
    /// Headings; the first column is aligned to the left and gives way, the others stand to the
    /// right. A column further right is left out earlier.
    pub(super) columns: Vec<&'static str>,
    /// The column by which rows are sorted, if it is a single one.
    pub(super) sorted: Option<&'static str>,
    pub(super) rows: Vec<Row>,
    /// The text if there are no rows.
    pub(super) empty: String,
}

/// A row of a table.
#[derive(Debug)]
pub(super) struct Row {
    /// The process that it is about.
    pub(super) process: Option<u32>,
    pub(super) cells: Vec<Cell>,
}

/// The files that a process has open or mapped, or why they are not known.
#[derive(Clone, Debug)]
pub(super) struct ProcessFiles {
    pub(super) process: u32,
    pub(super) files: Result<Vec<Held>, &'static str>,
}

/// Stall and dirty memory: what each line is about, and the rest of it.
pub(super) fn head(view: &View, history: &History) -> [(String, String); 2] {
    let trend = history.stall();
    let stall = match trend.trim().is_empty() {
        true => stall(view),
        false => format!("{}  {trend}", stall(view)),
    };
    [("stall     ".to_owned(), stall), ("unwritten ".to_owned(), dirty(view))]
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

/// The three tables, sorted and filtered; with trends where there is a history.
pub(super) fn panes(view: &View, choice: &Choice, history: Option<&History>) -> [Pane; 3] {
    let mut panes = [
        devices(view, choice, history),
        files(view, choice, history),
        processes(view, choice, history),
    ];
    for pane in &mut panes {
        if choice.reversed {
            pane.rows.reverse();
        }
        if !choice.filter.is_empty() {
            pane.empty = format!("no name holds \"{}\"; Esc takes the filter away", choice.filter);
        }
    }
    panes
}

/// The files of one process: those that had events, and those that it has open or mapped.
pub(super) fn process_files(view: &View, choice: &Choice, of: &ProcessFiles) -> Pane {
    let held = of.files.as_deref().unwrap_or_default();
    let read: Vec<&FileView> =
        view.files.iter().filter(|file| file.processes.contains(&of.process)).collect();
    let is_of = |file: &FileView, held: &Held| {
        held.key == Some(file.file) || file.path.as_deref() == Some(held.path.as_str())
    };
    let mut rows: Vec<(String, u64, Option<&FileView>)> = Vec::new();
    for &file in &read {
        let mapped = held.iter().find(|held| is_of(file, held)).map_or(0, |held| held.mapped);
        rows.push((file_name(file.path.as_deref(), file.file), mapped, Some(file)));
    }
    let others = held.iter().filter(|held| !read.iter().any(|file| is_of(file, held)));
    rows.extend(others.map(|held| (printable(&held.path), held.mapped, None)));
    rows.retain(|(name, ..)| choice.lets(name));
    if choice.sort == Sort::Name {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
    }
    if choice.reversed {
        rows.reverse();
    }
    let row = |(name, mapped, file): (String, u64, Option<&FileView>)| {
        let rate = |amount: Option<u64>| or_dash(amount.map(|it| per_second(it, view.period.0)));
        let window = file.map(|file| file.window).filter(|window| *window > 0);
        let cells = vec![
            name.into(),
            bytes(mapped as f64).into(),
            rate(file.map(|file| file.brought)).into(),
            rate(file.map(|file| file.used)).into(),
            amplification(file.and_then(FileView::amplification)),
            file.map_or_else(|| "-".to_owned(), |file| pattern(file.pattern)).into(),
            or_dash(window.map(|window| bytes(window as f64))).into(),
        ];
        Row { process: Some(of.process), cells }
    };
    let empty = match of.files {
        Err(why) => why.to_owned(),
        Ok(_) if choice.filter.is_empty() => "it has no file of a device open or mapped".to_owned(),
        Ok(_) => format!("no name holds \"{}\"; Esc takes the filter away", choice.filter),
    };
    Pane {
        title: "files of a process",
        columns: vec!["file", "mapped", "brought in", "used", "x", "pattern", "window"],
        sorted: (choice.sort == Sort::Name).then_some("file"),
        rows: rows.into_iter().map(row).collect(),
        empty,
    }
}

fn stall(view: &View) -> String {
    match &view.stall {
        None => "not known".to_owned(),
        Some(stall) => format!(
            "some {} (10 s: {}), all {} (10 s: {})",
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
        "{}; background {}, limit {}; drain {drain}",
        level(dirty.unwritten()),
        level(dirty.background),
        level(dirty.limit)
    )
}

fn devices(view: &View, choice: &Choice, history: Option<&History>) -> Pane {
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
    let mut columns = vec![
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
    ];
    if history.is_some() {
        columns.insert(TREND, "trend");
    }
    Pane {
        title: "devices",
        columns,
        sorted: match choice.sort {
            Sort::Name => Some("device"),
            Sort::Pauses => Some("paused"),
            Sort::Latency | Sort::Brought | Sort::Amplification => None,
        },
        rows: devices.iter().map(|device| device_row(device, history)).collect(),
        empty: "nothing went to or from a device".to_owned(),
    }
}

fn device_row(device: &DeviceView, history: Option<&History>) -> Row {
    let latency = |flow: &Flow| {
        Cell::graded(or_dash(flow.latency.map(seconds)), flow.latency.unwrap_or(0.0), SLOW)
    };
    let size = |size: Option<u64>| or_dash(size.map(|size| bytes(size as f64)));
    let drain = device.drain();
    let mut cells: Vec<Cell> = vec![
        printable(&device.name).into(),
        rate(device.read.bandwidth).into(),
        rate(device.write.bandwidth).into(),
        Cell { bar: Some(device.busy), ..Cell::graded(percent(device.busy), device.busy, BUSY) },
        digits(device.queue).into(),
        latency(&device.read),
        latency(&device.write),
        format!("{:.0}", device.read.iops).into(),
        format!("{:.0}", device.write.iops).into(),
        size(device.unwritten).into(),
        Cell::graded(or_dash(drain.map(seconds)), drain.unwrap_or(0.0), DRAIN),
        size(device.limit).into(),
        paused(device.paused_ms),
        size(device.window).into(),
    ];
    if let Some(history) = history {
        cells.insert(TREND, history.trend(Key::Device(device.number)).into());
    }
    Row { process: None, cells }
}

fn file_name(path: Option<&str>, file: FileKey) -> String {
    path.map_or_else(|| file.to_string(), printable)
}

fn files(view: &View, choice: &Choice, history: Option<&History>) -> Pane {
    let name = |file: &FileView| file_name(file.path.as_deref(), file.file);
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
        let window = (file.window > 0).then(|| bytes(file.window as f64));
        let mut cells: Vec<Cell> = vec![
            name(file).into(),
            per_second(file.brought, length.0).into(),
            per_second(file.used, length.0).into(),
            amplification(file.amplification()),
            pattern(file.pattern).into(),
            or_dash(window).into(),
            file.events.to_string().into(),
            known.into(),
        ];
        cells.extend(history.map(|history| history.trend(Key::File(file.file)).into()));
        Row { process: file.processes.first().copied(), cells }
    };
    let mut columns =
        vec!["file", "brought in", "used", "x", "pattern", "window", "events", "processes"];
    columns.extend(history.map(|_| "trend"));
    Pane {
        title: "files",
        columns,
        sorted: Some(match choice.sort {
            Sort::Name => "file",
            Sort::Amplification => "x",
            Sort::Brought | Sort::Latency | Sort::Pauses => "brought in",
        }),
        rows: files.iter().map(row).collect(),
        empty: if view.sees_files { "no file was read ahead" } else { NOT_VISIBLE }.to_owned(),
    }
}

fn processes(view: &View, choice: &Choice, history: Option<&History>) -> Pane {
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
        let is_exact = process.by_events || process.brought == 0;
        let mut cells: Vec<Cell> = vec![
            name(process).into(),
            if is_exact { brought } else { format!("*{brought}") }.into(),
            per_second(process.used, length.0).into(),
            amplification(process.amplification()),
            or_dash(process.written.map(|written| per_second(written, length.0))).into(),
            paused(process.pauses.total_ms),
            process.pauses.count.to_string().into(),
            millis(process.pauses.longest_ms).into(),
            or_dash(process.faults.map(|faults| faults.to_string())).into(),
        ];
        cells.extend(history.map(|history| history.trend(Key::Process(process.pid)).into()));
        Row { process: Some(process.pid), cells }
    };
    let mut columns = vec![
        "process",
        "brought in",
        "used",
        "x",
        "written",
        "paused",
        "pauses",
        "longest",
        "faults",
    ];
    columns.extend(history.map(|_| "trend"));
    Pane {
        title: "processes",
        columns,
        sorted: Some(match choice.sort {
            Sort::Name => "process",
            Sort::Amplification => "x",
            Sort::Pauses => "paused",
            Sort::Brought | Sort::Latency => "brought in",
        }),
        rows: processes.iter().map(row).collect(),
        empty: if view.sees_files { QUIET } else { NOT_SEEN }.to_owned(),
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

fn amplification(share: Option<f64>) -> Cell {
    Cell::graded(or_dash(share.map(digits)), share.unwrap_or(0.0), AMPLIFIED)
}

fn paused(length: u64) -> Cell {
    Cell::graded(millis(length), length as f64, PAUSED)
}

fn millis(length: u64) -> String {
    seconds(length as f64 / 1e3)
}

/// The place of a device's trend.
const TREND: usize = 3;

/// Thresholds of colours, notable and severe. Share of time with a request.
const BUSY: [f64; 2] = [0.6, 0.9];

/// Seconds of a request: a disk that seeks takes some 10 ms, one with a queue several times that.
const SLOW: [f64; 2] = [0.02, 0.1];

/// Seconds until dirty data is on the device.
const DRAIN: [f64; 2] = [2.0, 10.0];

/// Milliseconds of pauses in a period.
const PAUSED: [f64; 2] = [1.0, 500.0];

/// Bytes read for each byte used.
const AMPLIFIED: [f64; 2] = [2.0, 8.0];

const QUIET: &str = "no process read ahead or paused";

/// Without events of readahead; the notes say why there are none.
const NOT_VISIBLE: &str =
    "not visible: no events of readahead are recorded (it takes root; the notes say why)";
const NOT_SEEN: &str = "no visible process read ahead (root sees those of all users)";
