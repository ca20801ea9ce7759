//! A figure as HTML: an SVG element that the library draws, a legend of words and shapes, and the
//! numbers of each point under the pointer.
//!
//! ```text
//!   +- figure ---------------------------+
//!   | title                              |
//!   | unit                               |   Across: values up, places to the right
//!   |  |  band ░░░ line ─── mark ●       |   Down:   places down, values to the right
//!   |  |  published ◇  tolerance ▒▒      |
//!   |  +------------------- along        |   invisible circles lie over the points;
//!   | ● one  ■ other  ◇ published        |   their titles are what the pointer shows
//!   +------------------------------------+
//! ```

use std::fmt::Write;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TRANSPARENT, TextStyle};

use super::escaped;
use super::figure::{Figure, Join, Layout, Point, Scale, Series};
use super::ink::{Ink, MARK, STRING, UNIT, classed, diamond, inner, mark, stroke};
use super::legend::legend;
use super::palette::{Colors, Palette};
use super::scale::Fitted;

/// The figure with its title, its legend and its caption.
pub(super) fn html(figure: &Figure, palette: &mut Palette) -> String {
    let figure = &figure.with_readable_axis();
    let colors = palette.of(figure);
    let mut html = format!("<figure>\n<h4>{}</h4>\n", escaped(&figure.title));
    html += &svg(figure, &colors);
    html += &legend(figure, &colors);
    let mut caption = figure.caption.clone();
    let lost = figure.without_place();
    if lost > 0 {
        let words = "points of zero or less have no place on this axis.";
        caption = format!("{caption} {lost} {words}").trim().to_owned();
    }
    if !caption.is_empty() {
        writeln!(html, "<figcaption>{}</figcaption>", escaped(&caption)).expect(STRING);
    }
    html + "</figure>\n"
}

/// The drawing.
fn svg(figure: &Figure, colors: &Colors) -> String {
    let sheet = Sheet::of(figure);
    let mut text = String::new();
    let mut hovers = Vec::new();
    {
        let root = SVGBackend::with_string(&mut text, sheet.size()).into_drawing_area();
        let pen = Pen { root: &root, figure, sheet: &sheet, colors };
        let place = pen.axes();
        pen.series(&place, &mut hovers);
        root.present().expect(STRING);
    }
    let (width, height) = sheet.size();
    let words = escaped(&described(figure));
    let mut html = format!(
        "<div class=\"plot\"><svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{words}\">\n"
    );
    html += inner(&classed(&text));
    for Hover { place: (x, y), title } in hovers {
        let title = escaped(title);
        writeln!(
            html,
            "<circle class=\"h\" cx=\"{x}\" cy=\"{y}\" r=\"{NEAR}\"><title>{title}</title></circle>"
        )
        .expect(STRING);
    }
    html + "</svg></div>\n"
}

/// The figure in a sentence, for readers who cannot see it.
fn described(figure: &Figure) -> String {
    let names: Vec<&str> = figure.series.iter().map(|series| series.label.as_str()).collect();
    let (low, high) = Fitted::new(&Scale::Linear, figure.numbers(), TICKS).ends();
    format!(
        "{}: {} against {} for {}; between {low} and {high}",
        figure.title,
        figure.value.label,
        figure.along.label,
        names.join(", ")
    )
}

/// Something that the pointer shows.
struct Hover<'a> {
    place: (i32, i32),
    title: &'a str,
}

/// How long and wide things are, in the library's units, of which [`UNIT`] make a pixel.
struct Sheet {
    height: i32,
    /// Space for the labels on the left.
    left: i32,
    /// Room on the right, for half of the last number.
    right: i32,
    /// Between two series at the same place.
    lane: i32,
    /// Room above the lanes of a place for its name, if names do not stand on the left.
    name: i32,
    x: Fitted,
    y: Fitted,
}

impl Sheet {
    fn of(figure: &Figure) -> Self {
        let value = |wanted| Fitted::new(&figure.value.scale, figure.numbers(), wanted);
        let along = |wanted| Fitted::new(&figure.along.scale, figure.places(), wanted);
        let series = figure.series.len() as i32;
        match figure.layout {
            Layout::Across => {
                let y = value(TICKS);
                let left = length(y.labels().map(chars).max().unwrap_or(0)) + 10 * UNIT;
                let room =
                    (WIDTH * UNIT - left) / (length(longest(&figure.along.scale)) + 8 * UNIT);
                let x = along(room.max(1) as usize);
                let places = x.labels().count().max(1) as i32;
                let lane = ((WIDTH * UNIT - left) / places / (series + 1)).min(12 * UNIT);
                Self { height: ACROSS * UNIT, left, right: 16 * UNIT, lane, name: 0, x, y }
            }
            Layout::Down => {
                let y = along(usize::MAX).reversed();
                let names = y.labels().map(chars).max().unwrap_or(0);
                let is_beside = names <= BESIDE_MAX;
                let (left, name) = if is_beside {
                    (length(names) + 10 * UNIT, 0)
                } else {
                    (12 * UNIT, NAME * UNIT)
                };
                let places = y.labels().count().max(1) as i32;
                let lane = 11 * UNIT;
                let of_place = series * lane + name + 11 * UNIT;
                let height = places * of_place + (LOW_TOP + BOTTOM) * UNIT;
                let x = value(TICKS);
                Self { height, left, right: 24 * UNIT, lane, name, x, y }
            }
        }
    }

    fn size(&self) -> (u32, u32) {
        ((WIDTH * UNIT) as u32, self.height as u32)
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What draws one figure.
struct Pen<'a, 'b, 'f> {
    root: &'a Area<'b>,
    figure: &'f Figure,
    sheet: &'a Sheet,
    colors: &'a Colors,
}

/// From a place and a value to a point of the drawing.
type Place<'a> = dyn Fn(f64, f64) -> (i32, i32) + 'a;

impl<'a, 'f> Pen<'a, '_, 'f> {
    /// Draws the axes, and says where things lie between them.
    fn axes(&self) -> Box<Place<'a>> {
        let Sheet { x, y, left, right, .. } = self.sheet;
        let is_down = self.figure.layout == Layout::Down;
        let is_beside = self.sheet.name == 0;
        let (margin, beside) = if is_beside { (0, *left) } else { (*left, 0) };
        let mut chart = ChartBuilder::on(self.root)
            .margin_top(if is_down { LOW_TOP } else { TOP } * UNIT)
            .margin_left(margin)
            .margin_right(*right)
            .set_label_area_size(LabelAreaPosition::Left, beside)
            .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM * UNIT)
            .build_cartesian_2d(x.clone(), y.clone())
            .expect(STRING);
        let mut mesh = chart.configure_mesh();
        mesh.axis_style(stroke(Ink::Axis, 1))
            .bold_line_style(stroke(Ink::Grid, 1))
            .light_line_style(TRANSPARENT)
            .label_style(words())
            .set_all_tick_mark_size(3 * UNIT);
        if is_down {
            mesh.disable_y_mesh();
        } else {
            mesh.disable_x_mesh();
        }
        mesh.draw().expect(STRING);
        let (from, to) = (x.ends().0, y.ends().0);
        let begin = chart.backend_coord(&(from, to));
        let end = chart.backend_coord(&(x.ends().1, y.ends().1));
        self.labels(end);
        if !is_beside {
            self.path(vec![begin, (begin.0, end.1)], Ink::Axis, 1);
            for (place, name) in y.labels().enumerate() {
                let middle = chart.backend_coord(&(from, place as f64)).1;
                let lanes = self.figure.series.len() as i32 * self.sheet.lane;
                let bottom = middle + (self.sheet.name - lanes) / 2;
                self.word(&cut(name), (begin.0 + 3 * UNIT, bottom), HPos::Left);
            }
        }
        let zero = |at: (f64, f64)| chart.backend_coord(&at);
        if is_down && x.crosses_zero() {
            let x = zero((0.0, to)).0;
            self.path(vec![(x, begin.1), (x, end.1)], Ink::Zero, 1);
        } else if !is_down && y.crosses_zero() {
            let y = zero((from, 0.0)).1;
            self.path(vec![(begin.0, y), (end.0, y)], Ink::Zero, 1);
        }
        Box::new(move |along, value| {
            chart.backend_coord(&if is_down { (value, along) } else { (along, value) })
        })
    }

    /// Writes what the axes have.
    fn labels(&self, end: (i32, i32)) {
        let Layout::Across = self.figure.layout else {
            return self.word(&self.figure.value.label, (end.0, self.sheet.height), HPos::Right);
        };
        self.word(&self.figure.along.label, (end.0, self.sheet.height), HPos::Right);
        self.word(&self.figure.value.label, (2 * UNIT, (TOP - 6) * UNIT), HPos::Left);
    }

    /// Words above a place.
    fn word(&self, text: &str, (x, y): (i32, i32), side: HPos) {
        let style = words().pos(Pos::new(side, VPos::Bottom));
        self.root.draw(&Text::new(text, (x, y - 2 * UNIT), style)).expect(STRING);
    }

    fn path(&self, path: Vec<(i32, i32)>, ink: Ink, width: i32) {
        self.root.draw(&PathElement::new(path, stroke(ink, width))).expect(STRING);
    }

    fn area(&self, corners: Vec<(i32, i32)>, ink: Ink) {
        self.root.draw(&Polygon::new(corners, ink.color().filled())).expect(STRING);
    }

    fn series(&self, place: &Place<'_>, hovers: &mut Vec<Hover<'f>>) {
        let series: Vec<(usize, &'f Series)> = self.figure.series.iter().enumerate().collect();
        for (number, one) in &series {
            one.points.iter().for_each(|point| self.tolerance(*number, point, place));
        }
        if self.figure.has_bars() {
            series.iter().for_each(|(number, one)| self.bars(*number, one, place));
        }
        for (number, one) in &series {
            self.range(*number, one, place);
        }
        for (number, one) in &series {
            self.line(*number, one, place);
        }
        for (number, one) in &series {
            self.marks(*number, one, place);
            let shown = one.points.iter().filter(|point| !point.title.is_empty());
            // Among hundreds of points the pointer finds no single one.
            let every = one.points.len().div_ceil(HOVERS);
            for point in shown.step_by(every.max(1)) {
                let Some(value) = self.known(point.value).or(self.known(point.published)) else {
                    continue;
                };
                let place = self.moved(*number, one, place(point.at, value));
                hovers.push(Hover { place, title: &point.title });
            }
        }
    }

    /// A pale area from where to where a value agrees.
    fn tolerance(&self, number: usize, point: &Point, place: &Place<'_>) {
        if !point.is_claim() {
            return;
        }
        let value = |end: Option<f64>, open: f64| self.known(end).unwrap_or(open);
        let (from, to) = point.tolerance;
        let corners = [value(from, -f64::MAX), value(to, f64::MAX)];
        let one = &self.figure.series[number];
        let [a, b] = corners.map(|value| self.moved(number, one, place(point.at, value)));
        let half = self.sheet.lane * 2 / 5;
        let (a, b) = match self.figure.layout {
            Layout::Across => ((a.0 - half, a.1.max(b.1)), (a.0 + half, a.1.min(b.1))),
            Layout::Down => ((a.0.min(b.0), a.1 - half), (a.0.max(b.0), a.1 + half)),
        };
        let corners = [(a.0, a.1.min(b.1)), (b.0, a.1.max(b.1))];
        let fill = Ink::Tolerance.color().filled();
        self.root.draw(&Rectangle::new(corners, fill)).expect(STRING);
    }

    /// From minimum to maximum: an area along a line, a bar at a single point.
    fn range(&self, number: usize, series: &Series, place: &Place<'_>) {
        let ends = |point: &Point| {
            let (low, high) = point.range?;
            Some((self.known(Some(low))?, self.known(Some(high))?))
        };
        if series.join == Join::Apart {
            for point in &series.points {
                let Some((low, high)) = ends(point).filter(|(low, high)| low < high) else {
                    continue;
                };
                let line = [low, high].map(|end| self.moved(number, series, place(point.at, end)));
                self.path(line.to_vec(), Ink::Whisker(self.colors.of(number, point)), 3);
            }
            return;
        }
        for run in series.points.chunk_by(|a, b| ends(a).is_some() && ends(b).is_some()) {
            let known: Vec<_> = run.iter().filter_map(|p| Some((p.at, ends(p)?))).collect();
            if known.len() > 1 {
                let lower = known.iter().map(|(at, (low, _))| place(*at, *low));
                let upper = known.iter().rev().map(|(at, (_, high))| place(*at, *high));
                let corners: Vec<_> = lower.chain(upper).collect();
                self.area(corners, Ink::Band(self.colors.series[number]));
            }
        }
    }

    /// From zero to each value.
    fn bars(&self, number: usize, series: &Series, place: &Place<'_>) {
        let half = (self.sheet.lane * 2 / 5).max(1);
        for point in &series.points {
            let Some(value) = self.known(point.value) else { continue };
            let end = |value| self.moved(number, series, place(point.at, value));
            let (zero, value) = (end(0.0), end(value));
            let corners =
                [(zero.0.min(value.0), zero.1 - half), (zero.0.max(value.0), zero.1 + half)];
            let shade = if self.colors.are_shared() { number } else { 0 };
            let fill = Ink::Bar(self.colors.of(number, point), shade).color().filled();
            self.root.draw(&Rectangle::new(corners, fill)).expect(STRING);
        }
    }

    fn line(&self, number: usize, series: &Series, place: &Place<'_>) {
        if series.join == Join::Apart {
            return;
        }
        let is_known = |point: &Point| self.known(point.value).is_some();
        for run in series.points.chunk_by(|a, b| is_known(a) && is_known(b)) {
            let known = run.iter().filter_map(|point| Some((point.at, self.known(point.value)?)));
            let mut path: Vec<(i32, i32)> = Vec::new();
            for (at, value) in known {
                let next = place(at, value);
                if let (Join::Steps, Some(last)) = (series.join, path.last()) {
                    path.push((next.0, last.1));
                }
                path.push(next);
            }
            path.dedup();
            if path.len() > 1 {
                self.path(path, Ink::Line(self.colors.series[number]), 2);
            }
        }
    }

    fn marks(&self, number: usize, series: &Series, place: &Place<'_>) {
        // A mark at each of hundreds of points would hide the line.
        let is_long = series.join != Join::Apart && series.points.len() > MARKED;
        let every = if is_long { series.points.len().div_ceil(MARKS) } else { 1 };
        for (nth, point) in series.points.iter().enumerate() {
            let is_marked = nth % every == every / 2;
            let color = self.colors.of(number, point);
            let is_marked = is_marked && !self.figure.has_bars();
            if let Some(value) = self.known(point.value).filter(|_| is_marked) {
                let at = self.moved(number, series, place(point.at, value));
                let shape = if self.colors.are_shared() { number } else { color };
                self.area(mark(shape, at, MARK), Ink::Mark(color));
            }
            if let Some(value) = self.known(point.published) {
                let at = self.moved(number, series, place(point.at, value));
                self.path(diamond(at, MARK * 1.25), Ink::Published(color), 2);
            }
        }
    }

    /// Series that are not lines are drawn beside each other.
    fn moved(&self, number: usize, series: &Series, (x, y): (i32, i32)) -> (i32, i32) {
        let is_named = matches!(self.figure.along.scale, Scale::Names(_));
        if series.join != Join::Apart || !is_named {
            return (x, y);
        }
        let lanes = self.figure.series.len() as i32 - 1;
        let aside = (2 * number as i32 - lanes) * self.sheet.lane / 2;
        match self.figure.layout {
            Layout::Across => (x + aside, y),
            Layout::Down => (x, y + aside + self.sheet.name / 2),
        }
    }

    fn known(&self, number: Option<f64>) -> Option<f64> {
        number.filter(|number| self.figure.has_place(*number))
    }
}

fn words() -> TextStyle<'static> {
    // The library takes the height of a line for the size of a font.
    const LINE: f64 = 1.24;
    let font = ("sans-serif", FONT * f64::from(UNIT) * LINE).into_font();
    let mut style = TextStyle::from(font);
    style.color = Ink::Words.color().to_backend_color();
    style
}

/// The approximate width of `letters` letters.
fn length(letters: usize) -> i32 {
    (letters as f64 * FONT * 0.56 * f64::from(UNIT)).ceil() as i32
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn longest(scale: &Scale) -> usize {
    match scale {
        Scale::Names(names) => names.iter().map(|name| chars(name)).max().unwrap_or(1),
        Scale::Linear | Scale::Log | Scale::Nines => 5,
    }
}

/// A name as long as there is room for; the whole one is under the pointer and in the table.
fn cut(name: &str) -> String {
    if chars(name) <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['\u{2026}']).collect()
}

// In pixels, at the size that the style sheet gives a figure.
const WIDTH: i32 = 380;
const ACROSS: i32 = 260;
const TOP: i32 = 24;
const LOW_TOP: i32 = 6;
const BOTTOM: i32 = 38;
const FONT: f64 = 11.5;
/// Above the lanes of a place, for its name.
const NAME: i32 = 14;

/// How near a pointer must be, in units.
const NEAR: i32 = 14;

/// The most letters of a name on the left of an axis; longer ones stand above their lanes.
const BESIDE_MAX: usize = 14;
/// The most letters of a name above them.
const NAME_MAX: usize = 52;

/// Approximate count of numbers at an axis.
const TICKS: usize = 5;

/// The most points of a series that show their numbers.
const HOVERS: usize = 60;

/// The most points of a line that all have marks.
const MARKED: usize = 24;

/// Marks of a longer line, about.
const MARKS: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::figure::Axis;
    use super::super::figure::tests::{figure, series, small};
    use super::*;

    /// The figure with a separate palette.
    fn drawn(figure: &Figure) -> String {
        html(figure, &mut Palette::default())
    }

    /// The numbers in an attribute of all elements of a class.
    fn numbers(html: &str, class: &str, attribute: &str) -> Vec<Vec<i32>> {
        let elements = html.split('<').filter(|element| element.contains(&format!("\"{class}")));
        let values = elements.filter_map(|element| {
            let start = element.find(&format!(" {attribute}=\""))? + attribute.len() + 3;
            element[start..].split('"').next()
        });
        let list = |text: &str| text.split([' ', ',']).filter_map(|n| n.parse().ok()).collect();
        values.map(list).collect()
    }

    #[test]
    fn each_point_says_its_numbers_under_the_pointer() {
        let values = [Some(1.0), None, Some(3.0)];
        let html = drawn(&figure("f", Scale::Linear, vec![series("one", Join::Line, &values)]));
        assert!(html.contains("<title>one 0</title>") && html.contains("<title>one 2</title>"));
        assert!(!html.contains("<title>one 1</title>"), "it has no value");
        let (x, y) = (numbers(&html, "h\"", "cx"), numbers(&html, "h\"", "cy"));
        assert_eq!(x.len(), 2);
        assert!(x[0] < x[1] && y[0] > y[1], "to the right and up: {x:?} {y:?}");
    }

    #[test]
    fn nothing_is_drawn_beyond_the_axes() {
        let mut one = series("one", Join::Line, &[Some(1.0), Some(5.0), Some(1e9)]);
        one.points[1].tolerance = (Some(0.0), None);
        one.points[2].published = Some(-1e12);
        for (scale, join) in [(Scale::Linear, Join::Line), (Scale::Log, Join::Apart)] {
            one.join = join;
            let html = drawn(&figure("f", scale, vec![one.clone()]));
            let drawn = ["band", "line", "mark", "whisker", "published"];
            let points = drawn.map(|class| numbers(&html, class, "points")).concat();
            assert!(!points.is_empty());
            for point in points.iter().flat_map(|path| path.chunks(2)) {
                assert!((0..=WIDTH * UNIT).contains(&point[0]), "{point:?}");
                assert!((0..=ACROSS * UNIT).contains(&point[1]), "{point:?}");
            }
            assert!(!html.contains("NaN") && !html.contains("height=\"-"), "{html}");
        }
    }

    #[test]
    fn few_and_odd_points_make_a_figure_all_the_same() {
        let odd = [Some(f64::NAN), Some(f64::INFINITY), None];
        for values in [&odd[..], &[], &[Some(0.0)], &[Some(7.0)], &[Some(-3.0)]] {
            for join in [Join::Apart, Join::Line, Join::Steps] {
                for scale in [Scale::Linear, Scale::Log] {
                    let html = drawn(&figure("f", scale, vec![series("one", join, values)]));
                    assert!(html.starts_with("<figure>") && html.ends_with("</figure>\n"));
                    assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
                }
            }
        }
    }

    #[test]
    fn zeros_on_a_logarithmic_axis_are_counted() {
        let values = [Some(0.0), Some(2.0)];
        let log = drawn(&figure("f", Scale::Log, vec![series("one", Join::Line, &values)]));
        assert!(log.contains("1 points of zero or less"), "{log}");
        let linear = drawn(&figure("f", Scale::Linear, vec![series("one", Join::Line, &values)]));
        assert!(!linear.contains("of zero or less"));
    }

    #[test]
    fn no_color_is_left_and_no_foreign_tag() {
        let html = drawn(&small("a<b>&\"c\""));
        assert!(!html.contains("#C0") && !html.contains("a<b"), "{html}");
        assert!(html.contains("role=\"img\"") && html.contains("aria-label=\"a&lt;b"));
        assert!(!html.contains("http"), "{html}");
    }

    #[test]
    fn what_is_published_and_what_agrees_stand_in_the_legend() {
        let mut figure = small("words");
        assert!(!drawn(&figure).contains("tolerance"));
        figure.series[0].points[0].published = Some(2.0);
        figure.series[0].points[0].tolerance = (None, Some(2.0));
        let html = drawn(&figure);
        assert!(html.contains("</svg>published</li>") && html.contains("</svg>tolerance</li>"));
    }

    #[test]
    fn many_points_have_few_titles_and_marks() {
        let values = vec![Some(1.0); 1_000];
        let html = drawn(&figure("f", Scale::Linear, vec![series("one", Join::Line, &values)]));
        assert!(html.matches("<title>").count() <= HOVERS);
        assert!((4..=MARKS + 1).contains(&numbers(&html, "mark", "points").len()));
    }

    /// A figure of bars or marks, a place for each policy.
    fn of_policies(names: &[&str], count: usize) -> Figure {
        let all = ["first", "second", "third"]
            .map(|label| series(label, Join::Apart, &vec![Some(1.0); names.len()]));
        let mut figure = figure("f", Scale::Linear, all[..count].to_vec());
        let scale = Scale::Names(names.iter().map(|&name| name.to_owned()).collect());
        figure.along = Axis { label: "policy".to_owned(), scale };
        figure.layout = Layout::Down;
        figure
    }

    #[test]
    fn a_color_belongs_to_a_policy_and_a_shade_to_a_series() {
        let names = ["off", "paced", "off (no memory)"];
        let one = drawn(&of_policies(&names, 1));
        assert_eq!(one.matches("\"bar s0 b0\"").count(), 2, "{one}");
        assert!(one.contains("\"bar s1 b0\"") && !one.contains("</svg>first"), "{one}");
        let two = drawn(&of_policies(&names, 2));
        // Of two places, and in the legend.
        for shade in ["\"bar s0 b0\"", "\"bar s0 b1\""] {
            assert_eq!(two.matches(shade).count(), 3, "{two}");
        }
        assert!(two.contains("\"legend shared\"") && two.contains("</svg>second</li>"));
        let mut marks = of_policies(&names, 2);
        marks.value.scale = Scale::Log;
        let marks = drawn(&marks);
        let corners = numbers(&marks, "mark s0", "points");
        // Of a circle and of a square, for two places each and in the legend.
        let of = |corner_count: usize| {
            corners.iter().filter(|path| path.len() / 2 == corner_count).count()
        };
        assert!(of(12) >= 3 && of(4) >= 2, "{corners:?}");
    }

    #[test]
    fn long_names_stand_above_their_bars() {
        let short = drawn(&of_policies(&["off", "paced"], 1));
        let long = drawn(&of_policies(&["off", "paced with a controller"], 1));
        let left = |html: &str| numbers(html, "bar s0 b0", "x")[0][0];
        assert!(left(&long) < left(&short), "bars have the width");
        let names: Vec<&str> = long.split("<text").filter(|it| it.contains("\"start\"")).collect();
        assert_eq!(names.len(), 2, "{long}");
        for (name, bar) in names.iter().zip(["bar s0 b0", "bar s1 b0"]) {
            let name = numbers(&format!("<text{name}"), "words", "y")[0][0];
            let bar = numbers(&long, bar, "y")[0][0];
            assert!((bar - NAME * UNIT..bar).contains(&name), "{name} {bar}");
        }
        assert_eq!(long.matches("<text").count(), short.matches("<text").count());
        let cut = drawn(&of_policies(&[&"x".repeat(NAME_MAX + 1)], 1));
        assert!(cut.contains(&format!("{}\u{2026}", "x".repeat(NAME_MAX - 1))), "{cut}");
    }
}
