//! Inks: names of the style sheet instead of colours, so that a page is as readable on a dark as on
//! a light background, and a shape and a dash for each series, so that nothing depends only on
//! colour.
//!
//! The library writes colours. Each ink has a colour that is never shown: it becomes the attribute
//! `class` before the figure leaves this module.

use plotters::style::{Color, RGBColor, ShapeStyle};

/// What a line or an area is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Lines across the figure.
    Grid,
    Axis,
    /// The line of zero.
    Zero,
    Words,
    /// What counts as agreement.
    Tolerance,
    /// The line of a series.
    Line(usize),
    /// Its marks.
    Mark(usize),
    /// The bars of a colour, of one of the series that have it.
    Bar(usize, usize),
    /// From least to greatest, as an area.
    Band(usize),
    /// The same as a line.
    Whisker(usize),
    /// The outline of a published value.
    Published(usize),
}

impl Ink {
    /// The colour for the library.
    pub(super) fn color(self) -> RGBColor {
        let (kind, series) = self.parts();
        RGBColor(0xc0, kind, series)
    }

    /// How the style sheet calls it.
    fn class(self) -> String {
        let name = match self {
            Self::Grid => "grid",
            Self::Axis => "axis",
            Self::Zero => "zero",
            Self::Words => "words",
            Self::Tolerance => "tol",
            Self::Line(_) => "line",
            Self::Mark(_) => "mark",
            Self::Bar(..) => "bar",
            Self::Band(_) => "band",
            Self::Whisker(_) => "whisker",
            Self::Published(_) => "published",
        };
        match self {
            Self::Line(series)
            | Self::Mark(series)
            | Self::Band(series)
            | Self::Whisker(series)
            | Self::Published(series) => format!("{name} s{}", series % COLORS),
            Self::Bar(color, shade) => {
                format!("{name} s{} b{}", color % COLORS, shade % SHADES)
            }
            Self::Grid | Self::Axis | Self::Zero | Self::Words | Self::Tolerance => name.to_owned(),
        }
    }

    fn parts(self) -> (u8, u8) {
        let series = |series: usize| (series % COLORS) as u8;
        match self {
            Self::Grid => (0, 0),
            Self::Axis => (1, 0),
            Self::Zero => (2, 0),
            Self::Words => (3, 0),
            Self::Tolerance => (4, 0),
            Self::Line(of) => (5, series(of)),
            Self::Mark(of) => (6, series(of)),
            Self::Band(of) => (7, series(of)),
            Self::Whisker(of) => (8, series(of)),
            Self::Published(of) => (9, series(of)),
            Self::Bar(of, shade) => (10 + (shade % SHADES) as u8, series(of)),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let plain = [Self::Grid, Self::Axis, Self::Zero, Self::Words, Self::Tolerance];
        let of_series = |series| {
            [
                Self::Line(series),
                Self::Mark(series),
                Self::Bar(series, 0),
                Self::Bar(series, 1),
                Self::Bar(series, 2),
                Self::Band(series),
                Self::Whisker(series),
                Self::Published(series),
            ]
        };
        plain.into_iter().chain((0..COLORS).flat_map(of_series))
    }
}

/// Puts classes in the place of colours, and takes out what the style sheet says better.
pub(super) fn classed(svg: &str) -> String {
    let mut svg = svg.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
    for ink in Ink::all() {
        let RGBColor(red, green, blue) = ink.color();
        let color = format!("\"#{red:02X}{green:02X}{blue:02X}\"");
        if svg.contains(&color) {
            let class = format!("class=\"{}\"", ink.class());
            svg = svg.replace(&format!("stroke={color}"), &class);
            svg = svg.replace(&format!("fill={color}"), &class);
        }
    }
    svg
}

/// What the library has drawn, without the element about it.
pub(super) fn inner(svg: &str) -> &str {
    let start = svg.find('>').map_or(0, |end| end + 1);
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    svg[start..end].trim_start()
}

/// How a line is drawn.
pub(super) fn stroke(ink: Ink, pixels: i32) -> ShapeStyle {
    ink.color().stroke_width((pixels * UNIT) as u32)
}

/// The outline of a series's mark about a place.
pub(super) fn mark(series: usize, (x, y): (i32, i32), radius: f64) -> Vec<(i32, i32)> {
    let corners: &[(f64, f64)] = match series % SHAPES {
        0 => &CIRCLE,
        1 => &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
        2 => &[(0.0, -1.15), (1.05, 0.8), (-1.05, 0.8)],
        3 => &DIAMOND,
        4 => &[(0.0, 1.15), (1.05, -0.8), (-1.05, -0.8)],
        _ => &PLUS,
    };
    let place = |(right, down): &(f64, f64)| {
        (x + (right * radius).round() as i32, y + (down * radius).round() as i32)
    };
    corners.iter().map(place).collect()
}

/// The outline of a published value around a position, back to its first corner.
pub(super) fn diamond((x, y): (i32, i32), radius: f64) -> Vec<(i32, i32)> {
    let place = |(right, down): &(f64, f64)| {
        (x + (right * radius).round() as i32, y + (down * radius).round() as i32)
    };
    DIAMOND.iter().chain(&DIAMOND[..2]).map(place).collect()
}

/// Why nothing that is drawn fails.
pub(super) const STRING: &str = "a string takes every drawing";

/// The library's units of a pixel: it knows whole ones only.
pub(super) const UNIT: i32 = 2;

/// The radius of a mark, in units.
pub(super) const MARK: f64 = 7.0;

/// Colours of the style sheet.
pub(super) const COLORS: usize = 8;

/// Shades of a bar.
const SHADES: usize = 3;

const SHAPES: usize = 6;

const DIAMOND: [(f64, f64); 4] = [(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)];

/// Enough corners to look round.
const CIRCLE: [(f64, f64); 12] = [
    (1.0, 0.0),
    (0.866, 0.5),
    (0.5, 0.866),
    (0.0, 1.0),
    (-0.5, 0.866),
    (-0.866, 0.5),
    (-1.0, 0.0),
    (-0.866, -0.5),
    (-0.5, -0.866),
    (0.0, -1.0),
    (0.5, -0.866),
    (0.866, -0.5),
];

const PLUS: [(f64, f64); 12] = [
    (-0.4, -1.1),
    (0.4, -1.1),
    (0.4, -0.4),
    (1.1, -0.4),
    (1.1, 0.4),
    (0.4, 0.4),
    (0.4, 1.1),
    (-0.4, 1.1),
    (-0.4, 0.4),
    (-1.1, 0.4),
    (-1.1, -0.4),
    (-0.4, -0.4),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_has_a_color_and_a_rule_of_its_own() {
        let style = include_str!("style.css");
        let inks: Vec<Ink> = Ink::all().collect();
        for (place, ink) in inks.iter().enumerate() {
            assert!(inks[..place].iter().all(|other| other.color() != ink.color()), "{ink:?}");
            for class in ink.class().split(' ') {
                assert!(style.contains(&format!(".{class}")), "{class} is not in the style sheet");
            }
        }
    }

    #[test]
    fn a_color_becomes_a_class() {
        let RGBColor(red, green, blue) = Ink::Line(1).color();
        let svg = format!("<a opacity=\"1\" stroke=\"#{red:02X}{green:02X}{blue:02X}\"/>");
        assert_eq!(classed(&svg), "<a class=\"line s1\"/>");
    }

    #[test]
    fn neighbours_differ_in_shape_as_in_color() {
        for series in 0..COLORS {
            let shape = |series| mark(series, (0, 0), 100.0);
            assert_ne!(shape(series), shape(series + 1));
            assert_ne!(Ink::Mark(series).color(), Ink::Mark(series + 1).color());
        }
    }
}
