//! What stands on terminals of several sizes.

use std::path::Path;

use forebay_core::time::{Duration, Instant};
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::pattern::Pattern;
use forebay_live::process::Held;
use forebay_live::view::{
    DeviceView, DirtyView, FileView, Flow, Pauses, ProcessView, StallView, View,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use super::super::keys::Sort;
use super::super::text::tables;
use super::*;

#[test]
fn screens_of_several_sizes() {
    let shown = shown();
    for (width, height) in [(80, 24), (120, 40), (200, 50), (20, 5)] {
        let screen = screen(Some(&shown), &mut Choice::default(), width, height);
        matches(&screen, &format!("{width}x{height}.txt"));
    }
    matches(&tables(&shown.view), "once.txt");
}

#[test]
fn the_order_the_filter_and_the_help() {
    let shown = shown();
    let choice = |sort| Choice { sort, paused: true, ..Choice::default() };
    let mut text = screen(Some(&shown), &mut choice(Sort::Pauses), 80, 24);
    let mut reversed = Choice { reversed: true, ..choice(Sort::Brought) };
    text += &screen(Some(&shown), &mut reversed, 80, 24);
    let mut filter = Choice { filter: "VAR".to_owned(), typing: true, ..choice(Sort::Name) };
    text += &screen(Some(&shown), &mut filter, 80, 24);
    let mut help = Choice { help: true, ..Choice::default() };
    text += &screen(Some(&shown), &mut help, 80, 24);
    text += &screen(None, &mut Choice::default(), 80, 4);
    let quiet = Shown { view: View { sees_files: true, ..View::default() }, ..Shown::default() };
    text += &screen(Some(&quiet), &mut Choice::default(), 80, 16);
    matches(&text, "choices.txt");
}

#[test]
fn rows_scroll_columns_pass_and_a_process_is_opened() {
    let mut shown = shown();
    let mut choice = Choice { table: Some(1), ..Choice::default() };
    choice.cursor.row = 12;
    let mut text = screen(Some(&shown), &mut choice, 80, 24);
    assert_eq!((choice.cursor.row, choice.cursor.process), (12, Some(812)));
    choice.cursor.column = 4;
    text += &screen(Some(&shown), &mut choice, 80, 24);
    (choice.process, choice.cursor) = (Some(812), Cursor::default());
    shown.files = Some(ProcessFiles { process: 812, files: Ok(held()) });
    text += &screen(Some(&shown), &mut choice, 80, 24);
    for files in [Ok(Vec::new()), Err("it has ended")] {
        shown.view.files.clear();
        shown.files = Some(ProcessFiles { process: 812, files });
        text += &screen(Some(&shown), &mut choice, 80, 8);
    }
    matches(&text, "cursor.txt");
}

#[test]
fn a_long_help_scrolls_to_its_end_and_no_further() {
    let mut choice = Choice { help: true, ..Choice::default() };
    let from_start = screen(None, &mut choice, 60, 12);
    assert!(from_start.contains("Ctrl-C") && !from_start.contains("0.5 s"), "{from_start}");
    choice.cursor.row = usize::MAX - 1;
    let at_end = screen(None, &mut choice, 60, 12);
    assert!(at_end.contains("0.5 s") && !at_end.contains("Ctrl-C"), "{at_end}");
    assert!(choice.cursor.row < 40);
}

#[test]
fn figures_beyond_their_thresholds_are_coloured_and_the_row_is_reversed() {
    let mut choice = Choice { table: Some(0), ..Choice::default() };
    let mut shown = Shown { is_coloured: true, ..shown() };
    let coloured = |shown: &Shown, choice: &mut Choice, colour: Color| -> Vec<String> {
        let lines = lines(Some(shown), choice, 200, 50);
        let spans = lines.iter().flat_map(|line| &line.spans);
        let of_colour = spans.filter(|span| span.style.fg == Some(colour));
        of_colour.map(|span| span.content.trim().to_owned()).collect()
    };
    assert_eq!(coloured(&shown, &mut choice, Color::Yellow), ["48 ms"]);
    let red = coloured(&shown, &mut choice, Color::Red);
    let (devices, rows) = red.split_at(5);
    assert_eq!(devices, ["█████ 100 %", "█████ 100 %", "190 ms", "26 s", "740 ms"]);
    assert_eq!(rows, ["2048", "33", "10592", "740 ms", "740 ms"]);
    shown.is_coloured = false;
    assert_eq!(coloured(&shown, &mut choice, Color::Red), [""; 0], "NO_COLOR");
    let lines = lines(Some(&shown), &mut choice, 200, 50);
    let reversed = lines.iter().filter(|it| it.style.add_modifier.contains(Modifier::REVERSED));
    let reversed: Vec<String> = reversed.map(ToString::to_string).collect();
    assert!(reversed.len() == 1 && reversed[0].starts_with("vda"), "{reversed:?}");
}

#[test]
fn no_size_is_too_small() {
    let shown = shown();
    for width in 1..130 {
        for height in [1, 2, 3, 4, 5, 6, 7, 9, 12, 20, 70] {
            for table in [None, Some(0), Some(2)] {
                let mut choice = Choice { table, ..Choice::default() };
                (choice.cursor.row, choice.cursor.column) = (3, 2);
                screen(Some(&shown), &mut choice, width, height);
            }
        }
    }
    screen(None, &mut Choice::default(), 0, 0);
}

#[test]
fn columns_that_do_not_fit_are_counted() {
    let widths = [30, 10, 10, 10];
    let of = |places: &[usize], first, hidden| Columns { places: places.to_vec(), first, hidden };
    assert_eq!(fitting(&widths, 66, 0), of(&[0, 1, 2, 3], 30, 0));
    assert_eq!(fitting(&widths, 52, 0), of(&[0, 1, 2, 3], 16, 0));
    assert_eq!(fitting(&widths, 51, 0), of(&[0, 1, 2], 23, 1));
    assert_eq!(fitting(&widths, 66, 1), of(&[0, 2, 3], 30, 1));
    assert_eq!(fitting(&widths, 8, 0), of(&[0], 16, 3));
}

#[test]
fn shares_never_pass_the_room() {
    for room in 0..60 {
        for rows in [[1, 1, 1], [50, 1, 1], [2, 50, 1], [1, 2, 50], [50, 50, 50]] {
            let shares = shares(room, rows);
            assert!(shares.iter().sum::<usize>() <= room, "{room} {rows:?} {shares:?}");
            let wanted = rows.iter().sum::<usize>() + 3 * FRAME;
            if room >= 3 * (FRAME + 1) && room <= wanted {
                assert_eq!(shares.iter().sum::<usize>(), room, "{room} {rows:?} {shares:?}");
            }
        }
    }
}

fn screen(shown: Option<&Shown>, choice: &mut Choice, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, shown, choice)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..height {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text + &"-".repeat(width.into()) + "\n"
}

fn matches(text: &str, snapshot: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cmd/watch/screen");
    let expected = Data::read_from(&folder.join(snapshot), Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(text.to_owned(), expected);
}

#[test]
fn silence_is_explained() {
    let empty = View { files: Vec::new(), processes: Vec::new(), ..view() };
    let said = |view: &View, filter: &str| {
        let choice = Choice { filter: filter.to_owned(), ..Choice::default() };
        panes(view, &choice, None).map(|pane| pane.empty)
    };
    let [_, files, processes] = said(&View { sees_files: true, ..empty.clone() }, "");
    assert_eq!(files, "no file was read ahead");
    assert_eq!(processes, "no process read ahead or paused");
    let [_, files, processes] = said(&View { sees_files: false, ..empty.clone() }, "");
    assert!(files.starts_with("not visible") && processes.contains("root sees"), "{files}");
    let [devices, ..] = said(&empty, "nvme");
    assert_eq!(devices, "no name holds \"nvme\"; Esc takes the filter away");
}

/// A view after two others with less traffic.
fn shown() -> Shown {
    let mut history = History::default();
    for part in [8_u32, 2, 1] {
        let mut view = view();
        for device in &mut view.devices {
            device.read.bandwidth /= f64::from(part);
        }
        view.files.iter_mut().for_each(|file| file.brought /= u64::from(part));
        view.stall.as_mut().unwrap().some /= f64::from(part);
        history.record(&view);
    }
    Shown { view: view(), history, ..Shown::default() }
}

/// What a process has open and mapped.
fn held() -> Vec<Held> {
    let key = Some(FileKey { dev: DevNumber { major: 254, minor: 1 }, ino: 12 });
    let held = |key, path: &str, mapped| Held { key, path: path.to_owned(), mapped };
    vec![
        held(key, "/srv/table", 8 << 30),
        held(None, "/usr/lib/postgresql/bin/postgres", 9 << 20),
        held(None, "/srv/wal/000000010000000000000001", 0),
    ]
}

fn view() -> View {
    let stall = StallView { some: 0.873, full: 0.41, some_10s: 0.8, full_10s: 0.305 };
    View {
        at: Instant(5_000_000_000),
        period: Duration::from_secs(1),
        stall: Some(stall),
        dirty: DirtyView {
            dirty: 480 << 20,
            writeback: 15 << 20,
            background: 2_340 << 20,
            limit: 4_680 << 20,
            dirtied_rate: 0.0,
            written_rate: 19.3e6,
            bandwidth: Some(20e6),
        },
        devices: devices(),
        files: files(),
        processes: processes(),
        lost: 12,
        sees_files: true,
        gaps: vec!["no bdi statistics: debugfs is not mounted".to_owned()],
    }
}

fn devices() -> Vec<DeviceView> {
    let number = |minor| DevNumber { major: 254, minor };
    let vda = DeviceView {
        number: number(0),
        name: "vda".to_owned(),
        read: Flow { bandwidth: 131e6, iops: 160.0, latency: Some(0.048) },
        write: Flow { bandwidth: 2e6, iops: 12.0, latency: Some(0.000_83) },
        queue: 7.9,
        in_flight: 8,
        busy: 0.998,
        window: Some(8 << 20),
        ..DeviceView::default()
    };
    let stick = DeviceView {
        number: number(16),
        name: "sdb".to_owned(),
        write: Flow { bandwidth: 19.3e6, iops: 40.0, latency: Some(0.19) },
        queue: 31.0,
        busy: 1.0,
        window: Some(128 << 10),
        unwritten: Some(495 << 20),
        limit: Some(4_680 << 20),
        bandwidth: Some(20_000_000),
        paused_ms: 740,
        ..DeviceView::default()
    };
    let idle = DeviceView { number: number(32), name: "sdc".to_owned(), ..DeviceView::default() };
    vec![vda, stick, idle]
}

fn files() -> Vec<FileView> {
    let file = |ino, path: Option<&str>, pattern, brought: u64, used| FileView {
        file: FileKey { dev: DevNumber { major: 254, minor: 1 }, ino },
        path: path.map(str::to_owned),
        pattern,
        events: 32,
        brought,
        used,
        window: 8 << 20,
        processes: vec![812],
    };
    let mut files = vec![
        file(12, Some("/srv/table"), Pattern::RandomFaults, 128 << 20, 64 << 10),
        file(13, Some("/var/log/a\u{1b}long/name/of/a/file"), Pattern::Stream, 3 << 20, 3 << 20),
        file(14, None, Pattern::RandomReads { request: 4 }, 1 << 20, 1 << 20),
    ];
    for ino in 100..112 {
        files.push(file(ino, None, Pattern::Unclear, 4096, 4096));
    }
    files
}

fn processes() -> Vec<ProcessView> {
    let process = |pid, name: &str, brought, used| ProcessView {
        pid,
        name: name.to_owned(),
        brought,
        used,
        by_events: true,
        ..ProcessView::default()
    };
    let pauses = Pauses { count: 4, total_ms: 740, longest_ms: 200 };
    let counted =
        ProcessView { by_events: false, faults: Some(3), ..process(9, "cat", 1 << 20, 99) };
    vec![
        process(812, "postgres", 132 << 20, 4 << 20),
        counted,
        ProcessView { written: Some(20_000_000), pauses, ..process(900, "cp", 0, 0) },
        ProcessView { pauses, ..process(901, "", 0, 0) },
    ]
}
