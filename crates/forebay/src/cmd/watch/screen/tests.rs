//! What stands on terminals of several sizes.

use std::path::Path;

use forebay_core::time::{Duration, Instant};
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::pattern::Pattern;
use forebay_live::view::{
    DeviceView, DirtyView, FileView, Flow, Pauses, ProcessView, StallView, View,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use super::super::keys::Sort;
use super::super::text::tables;
use super::*;

#[test]
fn screens_of_several_sizes() {
    let view = view();
    for (width, height) in [(80, 24), (120, 40), (20, 5)] {
        let screen = screen(Some(&view), &Choice::default(), width, height);
        matches(&screen, &format!("{width}x{height}.txt"));
    }
    matches(&tables(&view), "once.txt");
}

#[test]
fn the_order_the_filter_and_the_help() {
    let view = view();
    let choice = |sort| Choice { sort, paused: true, ..Choice::default() };
    let mut text = screen(Some(&view), &choice(Sort::Pauses), 80, 24);
    let filter = Choice { filter: "VAR".to_owned(), typing: true, ..choice(Sort::Name) };
    text += &screen(Some(&view), &filter, 80, 24);
    text += &screen(Some(&view), &Choice { help: true, ..Choice::default() }, 80, 24);
    text += &screen(None, &Choice::default(), 80, 4);
    let quiet = View { sees_files: true, ..View::default() };
    text += &screen(Some(&quiet), &Choice::default(), 80, 16);
    matches(&text, "choices.txt");
}

#[test]
fn no_size_is_too_small() {
    let view = view();
    for width in 1..130 {
        for height in [1, 2, 3, 4, 5, 6, 7, 9, 12, 20, 70] {
            screen(Some(&view), &Choice::default(), width, height);
        }
    }
    screen(None, &Choice::default(), 0, 0);
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

fn screen(view: Option<&View>, choice: &Choice, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, choice)).unwrap();
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
fn files_that_cannot_be_seen_are_not_said_to_rest() {
    for (sees_files, expected) in [(true, "no file had pages"), (false, "not visible")] {
        let view = View { files: Vec::new(), sees_files, ..view() };
        let files = &super::super::panes::panes(&view, &Choice::default())[1];
        assert!(files.rows.is_empty() && files.empty.starts_with(expected), "{}", files.empty);
    }
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
