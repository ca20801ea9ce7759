//! Differences as a page: how many of which kind, and each of them.

use forebay_image::compare::{Kept, Report};
use forebay_report::page::{Axis, Digits, Figure, Join, Layout, Page, Point, Scale, Series};
use forebay_report::table::{Cell, Table};

use super::{left_out, show};

/// The page of a comparison.
pub(super) fn of(report: &Report, kept: Kept, [image, other]: [String; 2]) -> Page {
    let facts = [
        ("version", format!("forebay {}", env!("CARGO_PKG_VERSION"))),
        ("image", image.clone()),
        ("beside", other.clone()),
        ("names", report.names.to_string()),
        ("bytes", report.bytes.to_string()),
        ("differences", report.differences.len().to_string()),
        ("not compared", left_out(kept).join(", ")),
    ];
    let mut page = Page::new(&format!("{image} beside {other}"), &facts);
    page.figures(&[kinds(report)]);
    if report.differences.is_empty() {
        page.paragraph("There is no difference.");
    } else {
        page.table(&differences(report), "", Digits::All);
    }
    page
}

fn differences(report: &Report) -> Table {
    let columns = ["path", "path_hex", "kind", "detail"].map(|key| (key, key));
    let mut table = Table::new("", &columns);
    for (path, difference) in &report.differences {
        let path = show::absolute(path);
        let is_text = std::str::from_utf8(&path).is_ok();
        table.rows.push(vec![
            String::from_utf8_lossy(&path).into_owned().into(),
            if is_text { Cell::Missing } else { show::hex(&path).into() },
            difference.kind().into(),
            difference.detail().into(),
        ]);
    }
    table
}

/// How many differences there are of each kind.
fn kinds(report: &Report) -> Figure {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for (_, difference) in &report.differences {
        let kind = difference.kind();
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    let point = |(place, (kind, count)): (usize, &(&str, u64))| Point {
        at: place as f64,
        value: Some(*count as f64),
        title: format!("{kind}: {count}"),
        ..Point::default()
    };
    let points = counts.iter().enumerate().map(point).collect();
    let names = counts.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    Figure {
        title: "Differences by kind".to_owned(),
        caption: String::new(),
        layout: Layout::Down,
        along: Axis { label: "kind".to_owned(), scale: Scale::Names(names) },
        value: Axis { label: "count".to_owned(), scale: Scale::Log },
        range: "",
        series: vec![Series { label: "differences".to_owned(), join: Join::Apart, points }],
    }
}
