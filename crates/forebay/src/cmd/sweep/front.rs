//! A Pareto front: settings than which no other one is better in both of two figures.
//!
//! ```text
//!   by  |  o
//!       |  '--o     x         o  on the front, where both figures are best when small
//!       |     |  x            x  dominated
//!       |     '------o  x
//!       +------------------ against
//! ```

use anyhow::Result;

use super::means::Means;

/// A column, and which of its values are best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) column: String,
    pub(super) is_max: bool,
}

impl Goal {
    /// `COLUMN`, `COLUMN:min` or `COLUMN:max`, for a column that there is.
    pub(super) fn parse(text: &str, means: &Means<'_>) -> Result<Self> {
        let (column, is_max) = match text.rsplit_once(':') {
            Some((column, "max")) => (column, Some(true)),
            Some((column, "min")) => (column, Some(false)),
            Some(_) | None => (text, None),
        };
        let natural = Self::of(means.column(column)?);
        Ok(Self { is_max: is_max.unwrap_or(natural.is_max), ..natural })
    }

    /// A column in its natural direction.
    pub(super) fn of(column: impl Into<String>) -> Self {
        let column = column.into();
        Self { is_max: GREAT_IS_BEST.contains(&column.as_str()), column }
    }

    /// A number that is smaller where the value is better.
    pub(super) fn cost(&self, value: f64) -> f64 {
        if self.is_max { -value } else { value }
    }

    /// Which values are best.
    pub(super) fn words(&self) -> &'static str {
        if self.is_max { "large values are best" } else { "small values are best" }
    }
}

/// Columns of which more is better unless it is said otherwise.
const GREAT_IS_BEST: [&str; 2] = ["throughput_mb_s", "absorbed_percent"];

/// The places of what is on the front, from the best first cost to the worst.
pub(super) fn front(costs: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    let key = |place: usize| costs[place];
    order.sort_by(|&one, &other| {
        let (one, other) = (key(one), key(other));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    let mut front: Vec<usize> = Vec::new();
    for place in order {
        let last = front.last().map(|last| key(*last));
        let is_better = last.is_none_or(|last| key(place).1 < last.1 || key(place) == last);
        if is_better {
            front.push(place);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::means::{SeedRow, Settings};
    use super::*;

    #[test]
    fn the_front_is_what_no_other_one_is_better_than_in_both() {
        let costs = [(3.0, 1.0), (1.0, 4.0), (2.0, 2.0), (2.0, 3.0), (3.0, 3.0), (4.0, 1.0)];
        assert_eq!(front(&costs), [1, 2, 0]);
        assert_eq!(front(&[]), [0; 0]);
        assert_eq!(front(&[(1.0, 1.0), (1.0, 1.0)]), [0, 1], "equal settings are all on it");
    }

    #[test]
    fn the_front_is_found_as_by_comparing_all_pairs() {
        let costs: Vec<(f64, f64)> =
            (0..200u64).map(|n| ((n * 7919 % 31) as f64, (n * 104_729 % 29) as f64)).collect();
        let is_dominated = |one: &(f64, f64)| {
            costs.iter().any(|other| other.0 <= one.0 && other.1 <= one.1 && other != one)
        };
        let mut expected: Vec<usize> =
            (0..costs.len()).filter(|place| !is_dominated(&costs[*place])).collect();
        let mut found = front(&costs);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_goal_has_a_column_and_a_direction() {
        let row = json!({
            "job": "all", "throughput_mb_s": 1.0, "reads": 2, "read_p99_us": 3.0,
            "read_p99_9_us": 4.0, "dirty_max_pages": 5,
        });
        let row = row.as_object().unwrap();
        let settings = Settings { input: "a", machine: "m", values: &[] };
        let all = BTreeMap::from([(settings, vec![SeedRow { seed: 1, row }])]);
        let means = Means { keys: &[], all };
        let goal = |text| Goal::parse(text, &means).map(|goal| (goal.column, goal.is_max));
        for (text, column, is_max) in [
            ("read_p99_us", "read_p99_us", false),
            ("read.p99", "read_p99_us", false),
            ("read.p99.9:max", "read_p99_9_us", true),
            ("dirty", "dirty_max_pages", false),
            ("throughput", "throughput_mb_s", true),
            ("throughput_mb_s:min", "throughput_mb_s", false),
            ("reads:max", "reads", true),
        ] {
            assert_eq!(goal(text).unwrap(), (column.to_owned(), is_max), "{text}");
        }
        for bad in ["read", "job", "reads:most", ""] {
            assert!(goal(bad).is_err(), "{bad}");
        }
    }
}
