//! The dimensions of a sweep: input, machine, the keys of the grids, and the seed.

use std::collections::BTreeSet;

use super::means::{Settings, short};
use super::plan::Plan;

/// A dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    Input,
    Machine,
    /// A key of the grids, by its place.
    Key(usize),
    Seed,
}

/// A dimension with its values.
#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) dimension: Dimension,
    pub(super) name: String,
    /// As they were typed, in the order of the plan, or of their numbers if that is what they are.
    pub(super) values: Vec<String>,
}

/// All dimensions of a plan, in the order in which they become axes: those of the grids first.
pub(super) fn all(plan: &Plan) -> Vec<Spanned> {
    let keys = (0..plan.keys.len()).map(Dimension::Key);
    let rest = [Dimension::Machine, Dimension::Input, Dimension::Seed];
    let spanned = keys.chain(rest).map(|dimension| {
        let (mut values, mut known) = (Vec::new(), BTreeSet::new());
        for point in &plan.points {
            let settings =
                Settings { input: &point.input, machine: &point.machine, values: &point.values };
            let value = dimension.value(&settings, point.seed);
            if known.insert(value.clone()) {
                values.push(value);
            }
        }
        sort_numbers(&mut values);
        Spanned { dimension, name: dimension.name(&plan.keys).to_owned(), values }
    });
    spanned.collect()
}

impl Dimension {
    /// What it is called.
    pub(super) fn name(self, keys: &[String]) -> &str {
        match self {
            Self::Input => "input",
            Self::Machine => "machine",
            Self::Key(place) => &keys[place],
            Self::Seed => "seed",
        }
    }

    /// Where a point stands in it.
    pub(super) fn value(self, settings: &Settings<'_>, seed: u64) -> String {
        match self {
            Self::Input => settings.input.to_owned(),
            Self::Machine => settings.machine.to_owned(),
            Self::Key(place) => settings.values[place].clone(),
            Self::Seed => seed.to_string(),
        }
    }

    /// What a reader sees of a value.
    pub(super) fn shown(self, value: &str) -> String {
        match self {
            Self::Input => short(value).to_owned(),
            Self::Machine | Self::Key(_) | Self::Seed => value.to_owned(),
        }
    }
}

/// Sorts values that are numbers of the same unit.
fn sort_numbers(values: &mut [String]) {
    let parts = |value: &str| -> Option<(f64, String)> {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = value.find(|c| !is_digit(c)).unwrap_or(value.len());
        let (number, unit) = value.split_at(end);
        Some((number.parse().ok()?, unit.to_owned()))
    };
    let Some(numbers) = values.iter().map(|value| parts(value)).collect::<Option<Vec<_>>>() else {
        return;
    };
    // Zero needs no unit.
    let mut units = numbers.iter().filter(|(number, _)| *number != 0.0).map(|(_, unit)| unit);
    let first = units.next();
    if units.all(|unit| Some(unit) == first) {
        let number = |value: &String| parts(value).map_or(0.0, |(number, _)| number);
        values.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_unit_are_sorted_and_nothing_else() {
        let sorted = |typed: &str| {
            let mut values: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            sort_numbers(&mut values);
            values.join(" ")
        };
        assert_eq!(sorted("100us 50us 0 200us"), "0 50us 100us 200us");
        assert_eq!(sorted("10 9 1.5"), "1.5 9 10");
        assert_eq!(sorted("2ms 100us"), "2ms 100us", "units differ");
        assert_eq!(sorted("paced off"), "paced off");
        assert_eq!(sorted("2 off 1"), "2 off 1");
    }
}
