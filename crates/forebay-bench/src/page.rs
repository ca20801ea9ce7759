//! A page of the measurements on this machine: charts of columns of the table, and the table.

use forebay_report::page::{
    Axis, Digits, Extent, Figure, Join, Layout, Page, Point, Scale, Series, this_machine,
};
use forebay_report::table::{Cell, Table};

/// Which columns make a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// A figure for each of their combinations, which its title has.
    pub(crate) apart: &'static [&'static str],
    /// Where a point stands.
    pub(crate) along: &'static [&'static str],
    /// Which series it belongs to; all to one if there are none.
    pub(crate) series: &'static [&'static str],
    pub(crate) value: &'static str,
    /// The end of a bar from the value on.
    pub(crate) up_to: Option<&'static str>,
}

/// The page of a benchmark, with a section of the documentation.
pub(crate) fn of(title: &str, table: &Table, plots: &[Plot], section: &str) -> Page {
    let mut facts = vec![("version", format!("forebay {}", env!("CARGO_PKG_VERSION")))];
    facts.extend(this_machine());
    facts.push(("time", "real".to_owned()));
    let mut page = Page::new(title, &facts);
    let figures: Vec<Figure> = plots.iter().flat_map(|plot| figures(table, plot)).collect();
    page.figures(&figures);
    page.heading("Every row");
    page.table(table, "", Digits::All);
    page.notes(&table.notes);
    page.heading("What is measured");
    page.section(DOCUMENTED, section, Extent::Begin);
    page
}

const DOCUMENTED: &str = include_str!("../../../docs/benchmarks.md");

fn figures(table: &Table, plot: &Plot) -> Vec<Figure> {
    let mut figures: Vec<(String, Names, Figure)> = Vec::new();
    for row in &table.rows {
        let Some(value) = cell(table, row, plot.value).and_then(Cell::number) else { continue };
        let group = words(table, row, plot.apart);
        let known = figures.iter().position(|(known, ..)| *known == group);
        let place = known.unwrap_or_else(|| {
            figures.push((group.clone(), Names::default(), empty(plot, &group)));
            figures.len() - 1
        });
        let (_, names, figure) = &mut figures[place];
        let label = words(table, row, plot.series);
        let series = figure.series.iter().position(|one| one.label == label).unwrap_or_else(|| {
            let (label, join) = (label.clone(), Join::Apart);
            figure.series.push(Series { label, join, points: Vec::new() });
            figure.series.len() - 1
        });
        let up_to = plot.up_to.and_then(|key| cell(table, row, key)).and_then(Cell::number);
        let along = words(table, row, plot.along);
        let unit = plot.unit;
        let bar = up_to.map_or(String::new(), |up_to| format!(", p99 {up_to} {unit}"));
        let between = if label.is_empty() { "" } else { ", " };
        figure.series[series].points.push(Point {
            at: names.place(&along) as f64,
            value: Some(value),
            range: up_to.map(|up_to| (value, up_to)),
            title: format!("{along}{between}{label}: {value} {unit}{bar}"),
            ..Point::default()
        });
    }
    let finished = figures.into_iter().map(|(_, Names(names), mut figure)| {
        figure.along.scale = Scale::Names(names);
        figure
    });
    finished.collect()
}

/// Names in the order in which they came.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Names {
    fn place(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

fn empty(plot: &Plot, group: &str) -> Figure {
    let between = if group.is_empty() { "" } else { ": " };
    Figure {
        title: format!("{}{between}{group}", plot.title),
        caption: String::new(),
        layout: Layout::Down,
        along: Axis { label: plot.along.join(", "), scale: Scale::Linear },
        value: Axis { label: plot.unit.to_owned(), scale: Scale::Log },
        range: "to p99",
        series: Vec::new(),
    }
}

fn cell<'a>(table: &Table, row: &'a [Cell], key: &str) -> Option<&'a Cell> {
    row.get(table.columns.iter().position(|column| column.key == key)?)
}

fn words(table: &Table, row: &[Cell], keys: &[&str]) -> String {
    let cells = keys.iter().filter_map(|key| cell(table, row, key));
    cells.map(Cell::shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Plot = Plot {
        title: "Speed",
        unit: "us",
        apart: &["work"],
        along: &["way"],
        series: &["image"],
        value: "p50",
        up_to: Some("p99"),
    };

    #[test]
    fn columns_become_figures() {
        let columns = ["work", "way", "image", "p50", "p99"].map(|key| (key, key));
        let mut table = Table::new("", &columns);
        for (work, way, p50) in
            [("faults", "a", Some(1.0)), ("faults", "b", Some(2.0)), ("tree", "a", None)]
        {
            let words = [work, way, "zlib"].map(Cell::from);
            let numbers = [Cell::maybe(p50, 1), Cell::Number(9.0, 1)];
            table.rows.push(words.into_iter().chain(numbers).collect());
        }
        let figures = figures(&table, &PLOT);
        assert_eq!(figures.len(), 1, "what was not measured has no figure");
        assert_eq!(figures[0].title, "Speed: faults");
        let points = &figures[0].series[0].points;
        assert_eq!((points.len(), points[1].range), (2, Some((2.0, 9.0))));
        assert_eq!(points[1].title, "b, zlib: 2 us, p99 9 us");
    }

    #[test]
    fn every_benchmark_says_what_it_measures() {
        for section in [crate::DISPATCH, crate::MOUNT, crate::LIVE] {
            let length = |heading| {
                let mut page = Page::new("page", &[]);
                page.section(DOCUMENTED, heading, Extent::Begin);
                page.finish().len()
            };
            assert!(length(section) > length("none") + 500, "{section}");
        }
    }

    #[test]
    fn a_plot_without_its_columns_is_empty() {
        let mut table = Table::new("", &[("way", "way")]);
        table.rows.push(vec![Cell::from("a")]);
        assert!(figures(&table, &PLOT).is_empty());
    }
}
