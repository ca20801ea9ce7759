//! A text of a table, and how it stands on a terminal: bars, trends, colours by threshold.

use ratatui::style::{Color, Style};

/// A text of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// The filled part of a bar before the text, 0 to 1. Only a terminal shows it.
    pub(super) bar: Option<f64>,
}

/// How much a figure matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Notable,
    Severe,
}

impl Cell {
    /// A figure whose colour depends on two thresholds.
    pub(super) fn graded(text: String, value: f64, thresholds: [f64; 2]) -> Self {
        Self { text, tone: Tone::of(value, thresholds), bar: None }
    }

    /// What a terminal shows.
    pub(super) fn shown(&self) -> String {
        match self.bar {
            Some(share) => format!("{} {:>5}", bar(share), self.text),
            None => self.text.clone(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Tone {
    /// Notable from the first threshold on, severe from the second one.
    pub(super) fn of(value: f64, [notable, severe]: [f64; 2]) -> Self {
        match value {
            value if value >= severe => Self::Severe,
            value if value >= notable => Self::Notable,
            _ => Self::Plain,
        }
    }

    /// Its colour, unless colours are off.
    pub(super) fn style(self, is_coloured: bool) -> Style {
        match self {
            Self::Notable if is_coloured => Style::new().fg(Color::Yellow),
            Self::Severe if is_coloured => Style::new().fg(Color::Red),
            Self::Plain | Self::Notable | Self::Severe => Style::new(),
        }
    }
}

/// A bar of [`BAR`] columns, in eighths of a column; dots where it is empty.
fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (8 * BAR) as f64).round() as usize;
    let mut text = "\u{2588}".repeat(eighths / 8);
    text.extend((!eighths.is_multiple_of(8)).then(|| PARTS[eighths % 8 - 1]));
    let filled = text.chars().count();
    text + &"\u{b7}".repeat(BAR - filled)
}

/// A column for each value, as high as its part of the largest; nothing is a blank.
pub(super) fn trend<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> String {
    let largest = values.clone().fold(0.0_f64, |largest, value| largest.max(*value));
    let column = |value: &f64| match (value / largest * 8.0).ceil() {
        height if height >= 1.0 => HEIGHTS[(height as usize).min(8) - 1],
        _ => ' ',
    };
    values.map(column).collect()
}

/// Columns of a bar.
const BAR: usize = 5;

/// Seven parts of a column from the left, and eight heights.
const PARTS: [char; 7] =
    ['\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
const HEIGHTS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let bars = [0.0, 0.01, 0.5, 0.998, 1.0, 7.0, f64::NAN].map(bar);
        let expected = ["·····", "·····", "██▌··", "█████", "█████", "█████", "·····"];
        assert_eq!(bars, expected);
        assert_eq!(bar(0.05), "▎····");
    }

    #[test]
    fn a_trend_is_as_high_as_its_part_of_the_largest() {
        assert_eq!(trend([0.0, 1.0, 4.0, 8.0].iter()), " ▁▄█");
        assert_eq!(trend([0.0, 0.0].iter()), "  ");
        assert_eq!(trend([0.001, 1e12].iter()), "▁█", "what there was is seen");
        assert_eq!(trend([].iter()), "");
    }

    #[test]
    fn tones_begin_at_their_thresholds() {
        let tones = [0.0, 1.0, 1.9, 2.0, f64::NAN].map(|value| Tone::of(value, [1.0, 2.0]));
        let (plain, notable, severe) = (Tone::Plain, Tone::Notable, Tone::Severe);
        assert_eq!(tones, [plain, notable, notable, severe, plain]);
        assert_eq!(Tone::Severe.style(false), Style::new());
    }
}
