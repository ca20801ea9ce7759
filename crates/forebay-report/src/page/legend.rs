//! What the marks, lines and areas of a figure mean.

use std::fmt::Write;

use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{PathElement, Polygon, Rectangle};
use plotters::style::Color;

use super::escaped;
use super::figure::{Figure, Join, Point};
use super::ink::{Ink, MARK, STRING, UNIT, classed, diamond, inner, mark, stroke};
use super::palette::Colors;

/// Marks with words: the style of each series, and of other elements.
pub(super) fn legend(figure: &Figure, colors: &Colors) -> String {
    let mut items = Vec::new();
    let series = figure.series.iter().enumerate();
    let is_lonely = figure.series.len() == 1;
    let is_shared = colors.are_shared();
    for (number, one) in series.filter(|(_, one)| !one.points.is_empty()) {
        let what = if is_shared && figure.has_bars() { Key::Bar } else { Key::Series };
        if is_shared || !colors.are_of_places() {
            items.push((key(colors.series[number], Some(one.join), what), one.label.clone()));
        }
    }
    let of_series = items.len();
    let has = |is: &dyn Fn(&Point) -> bool| figure.points().any(is);
    let is_ranged = |point: &Point| point.range.is_some_and(|(low, high)| low < high);
    if has(&is_ranged) {
        let join = figure.series.iter().find(|one| one.points.iter().any(is_ranged));
        items.push((key(0, join.map(|one| one.join), Key::Range), figure.range.to_owned()));
    }
    if has(&|point| point.published.is_some()) {
        items.push((key(0, None, Key::Published), "published".to_owned()));
    }
    if has(&Point::is_claim) {
        items.push((key(0, None, Key::Tolerance), "tolerance".to_owned()));
    }
    if items.len() == of_series && is_lonely {
        return String::new();
    }
    let class = if is_shared { "legend shared" } else { "legend" };
    let mut html = format!("<ul class=\"{class}\">\n");
    for (key, label) in items {
        writeln!(html, "<li>{key}{}</li>", escaped(&label)).expect(STRING);
    }
    html + "</ul>\n"
}

/// The meaning of a mark of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Series,
    Bar,
    Range,
    Published,
    Tolerance,
}

/// A small drawing of it.
fn key(number: usize, join: Option<Join>, what: Key) -> String {
    let (width, height) = (30 * UNIT, 14 * UNIT);
    let middle = (width / 2, height / 2);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width as u32, height as u32));
        let root = root.into_drawing_area();
        let line = |ink, thick| {
            let ends = vec![(2 * UNIT, middle.1), (width - 2 * UNIT, middle.1)];
            root.draw(&PathElement::new(ends, stroke(ink, thick))).expect(STRING);
        };
        let area = |ink: Ink, high: i32| {
            let corners = [(2 * UNIT, middle.1 - high), (width - 2 * UNIT, middle.1 + high)];
            root.draw(&Rectangle::new(corners, ink.color().filled())).expect(STRING);
        };
        match (what, join) {
            (Key::Series, join) => {
                if join != Some(Join::Apart) {
                    line(Ink::Line(number), 2);
                }
                let corners = mark(number, middle, MARK);
                root.draw(&Polygon::new(corners, Ink::Mark(number).color().filled()))
                    .expect(STRING);
            }
            (Key::Bar, _) => area(Ink::Bar(0, number), 4 * UNIT),
            (Key::Range, Some(Join::Line | Join::Steps)) => area(Ink::Band(number), 4 * UNIT),
            (Key::Range, Some(Join::Apart) | None) => line(Ink::Whisker(number), 3),
            (Key::Published, _) => {
                let corners = diamond(middle, MARK * 1.25);
                root.draw(&PathElement::new(corners, stroke(Ink::Published(number), 2)))
                    .expect(STRING);
            }
            (Key::Tolerance, _) => area(Ink::Tolerance, 5 * UNIT),
        }
        root.present().expect(STRING);
    }
    let drawn = classed(&text);
    format!(
        "<svg class=\"key\" viewBox=\"0 0 {width} {height}\" aria-hidden=\"true\">{}</svg>",
        inner(&drawn).trim_end()
    )
}
