//! The published figures of the papers with the measured ones: which rows are in which figure.
//!
//! ```text
//!   Plot    a figure: its words, its layout, its unit
//!   Line    a series: patterns for the row, the metric and the policy
//!           "rndrd {} KiB"   what stands at {} is where the point stands: 16, 32, 64 ...
//! ```

use forebay_report::page::{Axis, Figure, Join, Layout, Point, Scale, Series};
use forebay_sim::report::{Row, Verdict};

use plots::{Line, PLOTS, Plot, Values};

mod plots;

/// The figures of a paper; the one that shows the headline comes first.
pub(super) fn of(paper: &str, rows: &[Row], headline: &Row) -> Vec<Figure> {
    let mut plots: Vec<&Plot> = PLOTS.iter().filter(|plot| plot.paper == paper).collect();
    let compared = rows.iter().find(|row| row.policy == COMPARED);
    let runs = RunNames { headline: &headline.row, compared: compared.map(|row| row.row.as_str()) };
    plots.sort_by_key(|plot| !plot.shows(headline, runs));
    plots.into_iter().map(|plot| figure(plot, rows, runs)).collect()
}

/// Names of rows that say by how much a run is scaled down.
#[derive(Clone, Copy, Debug)]
struct RunNames<'a> {
    /// The row of the headline: [`plots::HEADLINE`].
    headline: &'a str,
    /// The row of policies that the paper does not have: [`plots::COMPARED_RUN`].
    compared: Option<&'a str>,
}

/// A policy that only such rows have.
const COMPARED: &str = "paced";

fn figure(plot: &Plot, rows: &[Row], runs: RunNames<'_>) -> Figure {
    let mut places: Vec<String> = Vec::new();
    let series = plot.lines.iter().map(|line| one(plot, line, rows, runs, &mut places)).collect();
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

fn one(
    plot: &Plot,
    line: &Line,
    rows: &[Row],
    runs: RunNames<'_>,
    places: &mut Vec<String>,
) -> Series {
    let mut points = Vec::new();
    for row in rows.iter().filter(|row| row.unit == plot.unit) {
        if plot.printed && row.published.is_none() {
            continue;
        }
        let Some(place) = line.place(row, runs) else { continue };
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

impl Plot {
    /// Whether a row is a point of the figure.
    fn shows(&self, row: &Row, runs: RunNames<'_>) -> bool {
        row.unit == self.unit && self.lines.iter().any(|line| line.place(row, runs).is_some())
    }
}

impl Line {
    /// Where the row's point stands, if it is one of the line.
    fn place(&self, row: &Row, runs: RunNames<'_>) -> Option<String> {
        let name = match self.row {
            plots::HEADLINE => runs.headline,
            plots::COMPARED_RUN => runs.compared?,
            name => name,
        };
        let parts = [
            captured(name, &row.row)?,
            captured(self.metric, row.metric)?,
            captured(self.policy, &row.policy)?,
        ];
        let named: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(named.join(", "))
    }
}

/// The part of the text at the pattern's `{}`; nothing if the pattern has none and matches.
fn captured<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once("{}") {
        Some((before, after)) => text.strip_prefix(before)?.strip_suffix(after),
        None => (pattern == text).then_some(""),
    }
}

/// The text that is shown under the pointer.
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
        Verdict::Within | Verdict::Outside | Verdict::Contradicted => {
            text + &format!(", {}", row.verdict())
        }
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
            contradicts: false,
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
        of("readahead", rows, &rows[0])
    }

    /// Figures of a paper were empty after its rows had got other names.
    #[test]
    fn a_figure_shows_the_headline() {
        for paper in PAPERS {
            let unit = if paper.headline.policy == "sol" { "ratio" } else { "%" };
            let headline = &paper.headline;
            let name = if paper.name == "throttle" {
                format!("{}, 1/16", headline.row)
            } else {
                headline.row.to_owned()
            };
            let of = row(&name, headline.policy, -1.0);
            let of = Row { metric: headline.metric, unit, published: Some(-1.0), ..of };
            let first = of_headline(paper.name, &of);
            assert!(!first.is_empty(), "{}", paper.name);
        }
    }

    fn of_headline(paper: &str, headline: &Row) -> Figure {
        of(paper, std::slice::from_ref(headline), headline).remove(0)
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
