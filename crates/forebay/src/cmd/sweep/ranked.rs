//! Settings in the order of a column, and a list of them.

use forebay_report::table::Cell;

use super::front::Goal;
use super::means::{Means, SeedRow, Settings, mean, short};

/// Settings that have the column, the best ones first.
pub(super) fn ranked<'m, 'a>(means: &'m Means<'a>, by: &Goal) -> Vec<Ranked<'m, 'a>> {
    let all = means.all.iter();
    let ranked = all.filter_map(|(settings, rows)| Some((mean(rows, &by.column)?, settings, rows)));
    let mut ranked: Vec<Ranked<'m, 'a>> =
        ranked.map(|(mean, settings, rows)| Ranked { mean, settings, rows }).collect();
    ranked.sort_by(|one, other| by.cost(one.mean).total_cmp(&by.cost(other.mean)));
    ranked
}

/// Settings with their mean.
pub(super) struct Ranked<'m, 'a> {
    pub(super) mean: f64,
    pub(super) settings: &'m Settings<'a>,
    pub(super) rows: &'m [SeedRow<'a>],
}

/// The columns of a list of settings.
pub(super) const COLUMNS: [(&str, &str); 8] = [
    ("rank", "rank"),
    ("input", "input"),
    ("machine", "machine"),
    ("settings", "settings"),
    ("seeds", "seeds"),
    ("mean", "mean"),
    ("min", "least"),
    ("max", "greatest"),
];

/// A row of the list.
pub(super) fn cells(means: &Means<'_>, place: usize, one: &Ranked<'_, '_>, by: &Goal) -> Vec<Cell> {
    let numbers = one.rows.iter().filter_map(|one| one.row[&by.column].as_f64());
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let greatest = numbers.fold(f64::NEG_INFINITY, f64::max);
    vec![
        Cell::Count(place as u64 + 1),
        short(one.settings.input).into(),
        one.settings.machine.into(),
        means.words(one.settings).into(),
        Cell::Count(one.rows.len() as u64),
        Cell::Number(one.mean, 2),
        Cell::Number(least, 2),
        Cell::Number(greatest, 2),
    ]
}
