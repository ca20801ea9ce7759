//! Axes: from numbers to a share of the length, with round numbers as labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::figure::Scale;

/// A scale with its ends.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    logarithmic: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Fitted {
    /// A scale for these numbers, with approximately `wanted` labels.
    pub(super) fn new(scale: &Scale, numbers: impl Iterator<Item = f64>, wanted: usize) -> Self {
        let extremes = extremes(numbers);
        match scale {
            Scale::Linear => Self::linear(extremes.unwrap_or((0.0, 1.0)), wanted),
            Scale::Log => Self::log(extremes.unwrap_or((1.0, 10.0))),
            Scale::Nines => Self::nines(extremes.map_or(10.0, |(_, high)| high)),
            Scale::Names(names) => Self::names(names, wanted),
        }
    }

    /// The position of a number between the ends; a number beyond an end is at the end.
    pub(super) fn share(&self, number: f64) -> f64 {
        let (number, low, high) = if self.logarithmic {
            (number.max(f64::MIN_POSITIVE).ln(), self.low.ln(), self.high.ln())
        } else {
            (number, self.low, self.high)
        };
        ((number - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Least and greatest.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Whether zero lies between the ends, and not at one.
    pub(super) fn crosses_zero(&self) -> bool {
        !self.logarithmic && self.low < 0.0 && self.high > 0.0
    }

    /// What is written beside it.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.ticks.iter().map(|(_, label)| label.as_str())
    }

    /// The same from its end to its begin, for names that are read downwards.
    #[must_use]
    pub(super) fn reversed(self) -> Self {
        Self { low: self.high, high: self.low, ..self }
    }

    fn linear((low, high): (f64, f64), wanted: usize) -> Self {
        let (low, high) = with_zero(low, high);
        let (low, high) = if high > low { (low, high) } else { around(low) };
        let step = round_step((high - low) / wanted.max(1) as f64);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let count = (last - first).clamp(1.0, 100.0) as u32;
        let tick = |n| (first + f64::from(n)) * step;
        let ticks = (0..=count).map(|n| (tick(n), written(tick(n), step))).collect();
        Self { logarithmic: false, low: tick(0), high: tick(count), ticks }
    }

    fn log((low, high): (f64, f64)) -> Self {
        let (first, mut last) = (round_log(low).0, round_log(high).1);
        if last <= first {
            last = first + 1;
        }
        // Three steps in each decade; all are written in short scales, one a decade in long ones.
        let every = match last - first {
            ..=5 => 1,
            6..=21 => STEPS,
            _ => 2 * STEPS,
        };
        let wanted = (first..=last).filter(|place| place.rem_euclid(every) == 0);
        let ticks = wanted.map(|place| (at_log(place), written(at_log(place), at_log(place))));
        let (low, high) = (at_log(first), at_log(last));
        Self { logarithmic: true, low, high, ticks: ticks.collect() }
    }

    fn nines(high: f64) -> Self {
        let high = high.clamp(10.0, 1e12) * 1.1;
        let mut ticks = vec![(1.0, "0".to_owned()), (2.0, "50".to_owned())];
        let mut place = 10.0;
        for nines in 1.. {
            if place > high {
                break;
            }
            let decimals = usize::saturating_sub(nines, 2);
            ticks.push((place, format!("{:.decimals$}", 100.0 - 100.0 / place)));
            place *= 10.0;
        }
        Self { logarithmic: true, low: 1.0, high, ticks }
    }

    fn names(names: &[String], wanted: usize) -> Self {
        let every = names.len().div_ceil(wanted.max(1)).max(1);
        let ticks = names.iter().enumerate().step_by(every);
        let ticks = ticks.map(|(place, name)| (place as f64, name.clone())).collect();
        Self { logarithmic: false, low: -0.5, high: names.len().max(1) as f64 - 0.5, ticks }
    }
}

impl Ranged for Fitted {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*number) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Lines between those that are written would say nothing.
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(number, _)| *number).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Fitted {
    fn format_ext(&self, number: &f64) -> String {
        let found = self.ticks.iter().find(|(tick, _)| tick == number);
        found.map_or_else(String::new, |(_, label)| label.clone())
    }
}

fn extremes(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = numbers.filter(|number| number.is_finite());
    finite.fold(None, |known: Option<(f64, f64)>, number| {
        let (low, high) = known.unwrap_or((number, number));
        Some((low.min(number), high.max(number)))
    })
}

/// Zero belongs to numbers that are not far from each other compared with their distance from it.
fn with_zero(low: f64, high: f64) -> (f64, f64) {
    const FAR: f64 = 0.7;
    if low > 0.0 && low < FAR * high {
        (0.0, high)
    } else if high < 0.0 && high > FAR * low {
        (low, 0.0)
    } else {
        (low, high)
    }
}

/// Ends for a single number.
fn around(number: f64) -> (f64, f64) {
    let far = if number == 0.0 { 1.0 } else { number.abs() * 0.1 };
    if number >= 0.0 && number < far { (0.0, far) } else { (number - far, number + far) }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn round_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|times| times * decade);
    let found = round.into_iter().find(|round| *round >= step * 0.999_999).unwrap_or(step);
    if found.is_normal() { found } else { f64::MIN_POSITIVE }
}

/// Steps of a logarithmic scale in a decade.
const STEPS: i32 = 3;

/// The steps below and above a number, the first of each decade being 1, the others 2 and 5.
fn round_log(number: f64) -> (i32, i32) {
    let decade = number.log10().floor() as i32;
    let first = decade * STEPS - 1;
    let near = first..first + 6;
    let below = near.clone().rev().find(|place| at_log(*place) <= number * 1.000_001);
    let above = near.clone().find(|place| at_log(*place) >= number * 0.999_999);
    (below.unwrap_or(first), above.unwrap_or(first + 5))
}

fn at_log(place: i32) -> f64 {
    let times = [1.0, 2.0, 5.0][place.rem_euclid(STEPS) as usize];
    times * 10f64.powi(place.div_euclid(STEPS))
}

/// A round number, with as many decimals as steps of this size need, and thousands apart.
pub(super) fn written(number: f64, step: f64) -> String {
    if number != 0.0 && !(1e-6..1e15).contains(&number.abs()) {
        return format!("{number:e}");
    }
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 8.0) as usize;
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |dot| text.split_at(dot));
    let digits = whole.trim_start_matches('-');
    let mut grouped = String::from(if whole.starts_with('-') { "\u{2212}" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len() > 4 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(scale: &Scale, numbers: &[f64]) -> Fitted {
        Fitted::new(scale, numbers.iter().copied(), 5)
    }

    fn labels(scale: &Scale, numbers: &[f64]) -> Vec<String> {
        fitted(scale, numbers).labels().map(str::to_owned).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_numbers() {
        assert_eq!(labels(&Scale::Linear, &[0.0, 30.8]), ["0", "10", "20", "30", "40"]);
        assert_eq!(
            labels(&Scale::Linear, &[-0.42, 0.1]),
            ["\u{2212}0.6", "\u{2212}0.4", "\u{2212}0.2", "0.0", "0.2"]
        );
        assert_eq!(labels(&Scale::Linear, &[20_000.0, 1.0])[1], "5000");
        assert_eq!(labels(&Scale::Linear, &[40_000.0, 1.0])[1], "10\u{202f}000");
        for numbers in [&[3.0][..], &[0.0], &[-7.0], &[], &[1e-9, 1e9], &[99.0, 101.0]] {
            let scale = fitted(&Scale::Linear, numbers);
            let (low, high) = scale.ends();
            assert!(low < high, "{numbers:?}");
            assert!(numbers.iter().all(|one| (low..=high).contains(one)), "{numbers:?}");
            assert!((2..=9).contains(&scale.ticks.len()), "{numbers:?}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn a_logarithmic_scale_has_no_zero_and_holds_all_numbers() {
        assert_eq!(labels(&Scale::Log, &[18.0, 230.0]), ["10", "20", "50", "100", "200", "500"]);
        assert_eq!(labels(&Scale::Log, &[1.0, 10_338.0])[..2], ["1", "10"]);
        for numbers in [&[3.0][..], &[1.0], &[], &[1e-9, 1e9], &[0.000_2, 0.000_21]] {
            let scale = fitted(&Scale::Log, numbers);
            let (low, high) = scale.ends();
            assert!(low > 0.0 && low < high, "{numbers:?}");
            let within = |one: &f64| (low * 0.999..=high * 1.001).contains(one);
            assert!(numbers.iter().all(within), "{numbers:?} {low} {high}");
            assert!((2..=12).contains(&scale.ticks.len()), "{numbers:?}: {:?}", scale.ticks);
        }
        assert_eq!(fitted(&Scale::Log, &[1.0, 100.0]).share(0.0), 0.0);
    }

    #[test]
    fn percentiles_are_written_as_such() {
        assert_eq!(labels(&Scale::Nines, &[2.0, 1_000.0]), ["0", "50", "90", "99", "99.9"]);
    }

    #[test]
    fn names_are_thinned_where_they_would_overlap() {
        let names: Vec<String> = (0..13).map(|n| n.to_string()).collect();
        assert_eq!(labels(&Scale::Names(names.clone()), &[])[..2], ["0", "3"]);
        assert_eq!(Fitted::new(&Scale::Names(names), [].into_iter(), 20).ticks.len(), 13);
        assert!(fitted(&Scale::Names(Vec::new()), &[]).ticks.is_empty());
    }

    #[test]
    fn what_lies_beyond_an_end_lies_at_it() {
        let scale = fitted(&Scale::Linear, &[0.0, 10.0]);
        assert_eq!(scale.share(-5.0), 0.0);
        assert_eq!(scale.share(50.0), 1.0);
        assert_eq!(scale.map(&5.0, (100, 0)), 50);
        assert_eq!(scale.reversed().map(&0.0, (100, 0)), 0);
    }
}
