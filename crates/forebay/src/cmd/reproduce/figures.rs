//! The papers' figures as they were published, beside what was measured: which rows are in which
//! figure.
//!
//! ```text
//!   Plot    a figure: its words, its layout, its unit
//!   Line    a series: patterns for the row, the metric and the policy
//!           "rndrd {} KiB"   what stands at {} is where the point stands: 16, 32, 64 ...
//! ```

use forebay_sim::report::{Row, Verdict};

use crate::page::{Axis, Figure, Join, Layout, Point, Scale, Series};

use plots::{Line, PLOTS, Plot, Values};

mod plots;

/// The figures of a paper.
pub(super) fn of(paper: &str, rows: &[Row]) -> Vec<Figure> {
    PLOTS.iter().filter(|plot| plot.paper == paper).map(|plot| figure(plot, rows)).collect()
}

fn figure(plot: &Plot, rows: &[Row]) -> Figure {
    let mut places: Vec<String> = Vec::new();
    let series = plot.lines.iter().map(|line| one(plot, line, rows, &mut places)).collect();
    let scale = match plot.values {
        Values::Linear => Scale::Linear,
        Values::Log => Scale::Log,
    };
    Figure {
        title: plot.title.to_owned(),
        caption: plot.caption.to_owned(),
        layout: plot.layout,
        along: Axis { label: plot.along.to_owned(), scale: Scale::Names(places) },
        value: Axis { label: plot.unit.to_owned(), scale },
        range: "range",
        series,
    }
}

fn one(plot: &Plot, line: &Line, rows: &[Row], places: &mut Vec<String>) -> Series {
    let mut points = Vec::new();
    for row in rows.iter().filter(|row| row.unit == plot.unit) {
        if plot.printed && row.published.is_none() {
            continue;
        }
        let Some(place) = line.place(row) else { continue };
        let known = places.iter().position(|known| *known == place);
        let at = known.unwrap_or_else(|| {
            places.push(place.clone());
            places.len() - 1
        });
        points.push(Point {
            at: at as f64,
            value: row.measured,
            range: row.low.zip(row.high),
            published: row.published,
            tolerance: row.tolerance,
            title: said(row),
        });
    }
    points.sort_by(|a, b| a.at.total_cmp(&b.at));
    let join = if plot.layout == Layout::Across { Join::Line } else { Join::Apart };
    Series { label: line.label.to_owned(), join, points }
}

impl Line {
    /// Where the row's point stands, if it is one of the line.
    fn place(&self, row: &Row) -> Option<String> {
        let parts = [
            captured(self.row, &row.row)?,
            captured(self.metric, row.metric)?,
            captured(self.policy, &row.policy)?,
        ];
        let named: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(named.join(", "))
    }
}

/// What stands in the place of the pattern's `{}`; nothing if it has none and is met.
fn captured<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once("{}") {
        Some((before, after)) => text.strip_prefix(before)?.strip_suffix(after),
        None => (pattern == text).then_some(""),
    }
}

/// What is shown under the pointer.
fn said(row: &Row) -> String {
    let decimals = super::decimals(row);
    let number = |number: f64| format!("{number:.decimals$}");
    let policy = if row.policy.is_empty() { "" } else { ", " };
    let mut text = format!("{}{policy}{}: {}", row.row, row.policy, row.metric);
    if let Some(measured) = row.measured {
        text += &format!(" {} {}", number(measured), row.unit);
    }
    if let Some((low, high)) = row.low.zip(row.high).filter(|(low, high)| low < high) {
        text += &format!(", range {} to {}", number(low), number(high));
    }
    if let Some(published) = row.published {
        text += &format!(", published {}", number(published));
    }
    match row.verdict() {
        Verdict::Within | Verdict::Outside => text + &format!(", {}", row.verdict()),
        Verdict::NotClaimed => text,
    }
}

#[cfg(test)]
mod tests {
    use forebay_sim::paper::PAPERS;
    use forebay_sim::report::Role;

    use super::*;

    fn row(row: &str, policy: &str, measured: f64) -> Row {
        Row {
            paper: "readahead",
            row: row.to_owned(),
            metric: "throughput",
            unit: "MB/s",
            policy: policy.to_owned(),
            published: None,
            role: Role::Context,
            measured: Some(measured),
            low: Some(measured - 1.0),
            high: Some(measured + 1.0),
            tolerance: (None, None),
            note: String::new(),
            seed: 1,
        }
    }

    #[test]
    fn a_pattern_says_where_a_point_stands() {
        assert_eq!(captured("rndrd {} KiB", "rndrd 16 KiB"), Some("16"));
        assert_eq!(captured("{}", "any"), Some("any"));
        assert_eq!(captured("start", "start"), Some(""));
        assert_eq!(captured("start", "started"), None);
        assert_eq!(captured("ab{}b", "ab"), None, "the ends do not overlap");
    }

    #[test]
    fn rows_become_lines_of_a_figure() {
        let policies = ["linux-2.6.7", "request-size"];
        let blocks = ["rndrd 16 KiB", "rndrd 32 KiB"];
        let of = |policy| blocks.map(|block| row(block, policy, 5.0));
        let rows = policies.map(of).concat();
        let figures = of_paper(&rows);
        let figure = figures.iter().find(|figure| !figure.is_empty()).unwrap();
        assert_eq!(figure.along.scale, Scale::Names(vec!["16".to_owned(), "32".to_owned()]));
        assert_eq!(figure.series[0].points.len(), 2);
        assert_eq!(
            figure.series[1].points[1].title,
            "rndrd 32 KiB, request-size: throughput 5.00 MB/s, range 4.00 to 6.00"
        );
    }

    fn of_paper(rows: &[Row]) -> Vec<Figure> {
        of("readahead", rows)
    }

    #[test]
    fn every_paper_has_figures_and_every_figure_a_paper() {
        for paper in PAPERS {
            assert!(PLOTS.iter().any(|plot| plot.paper == paper.name), "{}", paper.name);
        }
        for plot in PLOTS {
            assert!(PAPERS.iter().any(|paper| paper.name == plot.paper), "{}", plot.title);
        }
    }
}
