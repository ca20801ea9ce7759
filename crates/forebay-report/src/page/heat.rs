//! A heat map as HTML: a table whose cells are coloured by their values, so that it can be read,
//! copied and scrolled as any table.
//!
//! ```text
//!   rows \ columns |  50us   100us
//!   off            |  [72]    80      the best cell has a frame
//!   paced          |   90    140      the greater, the darker; logarithmic over a wide range
//!   least ░░░▒▒▒▓▓▓ greatest
//! ```

use std::fmt::Write;

use super::escaped;
use super::scale::written;

/// A figure in two dimensions.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Its heading.
    pub title: String,
    /// What must be known to read it.
    pub caption: String,
    /// The dimension from top to bottom.
    pub rows: HeatAxis,
    /// The dimension from left to right.
    pub columns: HeatAxis,
    /// Row by row, a cell for each column.
    pub cells: Vec<HeatCell>,
    /// Whether large values are best.
    pub is_max: bool,
}

/// A dimension of a heat map.
#[derive(Clone, Debug, Default)]
pub struct HeatAxis {
    /// What varies along it.
    pub name: String,
    /// The values, in their order.
    pub values: Vec<String>,
}

/// A cell of a heat map.
#[derive(Clone, Debug, Default)]
pub struct HeatCell {
    /// The number that gives the colour, if there is one.
    pub value: Option<f64>,
    /// Shown under the pointer.
    pub title: String,
}

/// Adds the map to a page that may have `end` bytes.
pub(super) fn put(html: &mut String, map: &HeatMap, end: usize) {
    let shades = Shades::of(map);
    let (rows, columns) = (&map.rows, &map.columns);
    let corner = [rows.name.as_str(), columns.name.as_str()];
    let corner = corner.into_iter().filter(|name| !name.is_empty());
    let corner = corner.map(escaped).collect::<Vec<_>>().join(" \\ ");
    write!(
        html,
        "<figure class=\"heat\">\n<h4>{}</h4>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n\
         <thead><tr><th scope=\"col\">{corner}</th>",
        escaped(&map.title)
    )
    .expect(STRING);
    for value in &columns.values {
        write!(html, "<th scope=\"col\" class=\"n\">{}</th>", escaped(value)).expect(STRING);
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut shown = 0;
    let width = columns.values.len().max(1);
    for (value, cells) in rows.values.iter().zip(map.cells.chunks(width)) {
        let mut line = format!("<tr><th scope=\"row\">{}</th>", escaped(value));
        cells.iter().for_each(|cell| put_cell(&mut line, cell, &shades));
        line.push_str("</tr>\n");
        if html.len() + line.len() > end {
            break;
        }
        html.push_str(&line);
        shown += 1;
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
    if let Some((least, greatest)) = shades.ends.filter(|(least, greatest)| least < greatest) {
        let scale = if shades.is_log { " (logarithmic)" } else { "" };
        let [least, greatest] = [least, greatest].map(digits);
        writeln!(html, "<p class=\"shades\">{least} <i></i> {greatest}{scale}</p>").expect(STRING);
    }
    let mut caption = map.caption.clone();
    if shown < rows.values.len() {
        let all = rows.values.len();
        caption += &format!(" The first {shown} of {all} rows; a page has no room for more.");
    }
    if !caption.is_empty() {
        writeln!(html, "<figcaption>{}</figcaption>", escaped(caption.trim())).expect(STRING);
    }
    html.push_str("</figure>\n");
}

fn put_cell(line: &mut String, cell: &HeatCell, shades: &Shades) {
    let Some(value) = cell.value.filter(|value| value.is_finite()) else {
        line.push_str("<td class=\"n\">\u{2013}</td>");
        return;
    };
    let class = if shades.best == Some(value) { "n best" } else { "n" };
    let (percent, title) = (shades.percent(value), escaped(&cell.title));
    let text = digits(value);
    write!(line, "<td class=\"{class}\" style=\"--h:{percent}%\" title=\"{title}\">{text}</td>")
        .expect(STRING);
}

/// How values become shades.
struct Shades {
    /// Least and greatest value.
    ends: Option<(f64, f64)>,
    is_log: bool,
    best: Option<f64>,
}

impl Shades {
    fn of(map: &HeatMap) -> Self {
        let values = map.cells.iter().filter_map(|cell| cell.value).filter(|it| it.is_finite());
        let ends = values.fold(None, |known: Option<(f64, f64)>, value| {
            let (least, greatest) = known.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        });
        let is_log = ends.is_some_and(|(least, greatest)| least > 0.0 && greatest / least >= WIDE);
        let best = ends.map(|(least, greatest)| if map.is_max { greatest } else { least });
        let is_flat = ends.is_none_or(|(least, greatest)| least == greatest);
        Self { ends, is_log, best: best.filter(|_| !is_flat) }
    }

    /// The share of the darkest colour in a cell's.
    fn percent(&self, value: f64) -> u32 {
        let Some((least, greatest)) = self.ends.filter(|(least, greatest)| least < greatest) else {
            return 0;
        };
        let share = if self.is_log {
            (value.ln() - least.ln()) / (greatest.ln() - least.ln())
        } else {
            // Halves, so that no difference is infinite.
            (value / 2.0 - least / 2.0) / (greatest / 2.0 - least / 2.0)
        };
        (share.clamp(0.0, 1.0) * DARKEST).round() as u32
    }
}

/// A value in three digits or more.
fn digits(value: f64) -> String {
    let step = if value == 0.0 { 1.0 } else { 10f64.powf(value.abs().log10().floor() - 2.0) };
    written(value, step)
}

/// On a linear scale of a wider range, small values would all look alike.
const WIDE: f64 = 10.0;

/// Darker cells would hide their numbers.
const DARKEST: f64 = 52.0;

const STRING: &str = "a string takes everything";

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A map of two columns in which all words are the same.
    pub(crate) fn small(words: &str, values: &[Option<f64>]) -> HeatMap {
        let axis = |count| HeatAxis { name: words.into(), values: vec![words.into(); count] };
        let cell = |value: &Option<f64>| HeatCell { value: *value, title: words.into() };
        HeatMap {
            title: words.into(),
            caption: words.into(),
            rows: axis(values.len() / 2),
            columns: axis(2),
            cells: values.iter().map(cell).collect(),
            is_max: false,
        }
    }

    fn html(map: &HeatMap) -> String {
        let mut html = String::new();
        put(&mut html, map, usize::MAX);
        html
    }

    #[test]
    fn the_greater_the_darker_and_the_best_has_a_frame() {
        let mut map = small("a", &[Some(1.0), Some(3.0), None, Some(5.0)]);
        let text = html(&map);
        for cell in ["n best\" style=\"--h:0%", "n\" style=\"--h:26%", "n\" style=\"--h:52%"] {
            assert!(text.contains(cell), "{cell}: {text}");
        }
        assert!(text.contains(">\u{2013}</td>") && !text.contains("logarithmic"), "{text}");
        map.is_max = true;
        assert!(html(&map).contains("n best\" style=\"--h:52%"));
    }

    #[test]
    fn a_wide_range_has_a_logarithmic_scale() {
        let text = html(&small("a", &[Some(1.0), Some(10.0), Some(100.0), Some(10.0)]));
        assert_eq!(text.matches("--h:26%").count(), 2, "{text}");
        assert!(text.contains("100 (logarithmic)"), "{text}");
        let zero = html(&small("a", &[Some(0.0), Some(100.0)]));
        assert!(!zero.contains("logarithmic"), "zero has no logarithm");
    }

    #[test]
    fn odd_values_make_a_map_all_the_same() {
        for values in [
            &[][..],
            &[None, None],
            &[Some(7.0), Some(7.0)],
            &[Some(f64::NAN), Some(f64::INFINITY)],
            &[Some(-f64::MAX), Some(f64::MAX)],
            &[Some(f64::MIN_POSITIVE), Some(f64::MAX)],
        ] {
            let text = html(&small("a", values));
            assert!(text.ends_with("</figure>\n") && !text.contains("NaN"), "{text}");
            assert!(!text.contains("best") || values.len() == 2 && values[0] != values[1]);
        }
    }

    #[test]
    fn rows_without_room_are_counted() {
        let mut text = String::new();
        put(&mut text, &small("a", &[Some(1.0); 2_000]), 5_000);
        assert!(text.len() < 5_400 && text.contains("of 1000 rows; a page has no room"), "{text}");
    }

    #[test]
    fn values_have_three_digits() {
        let all = [72.614, 358.85, 0.001_234, 12_345.6, 0.0, -2.5].map(digits);
        assert_eq!(all, ["72.6", "359", "0.00123", "12\u{202f}346", "0", "\u{2212}2.50"]);
    }
}
