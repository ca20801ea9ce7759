//! The text of a row besides its figures: the workload, the published figure, and the tolerance.

use super::Results;
use crate::report::{Role, Row, spread};

/// What counts as agreement; an end may be open.
pub(super) type Tolerance = (Option<f64>, Option<f64>);

/// Nothing is claimed.
pub(super) const OPEN: Tolerance = (None, None);

/// Both ends are closed.
pub(super) const fn between(low: f64, high: f64) -> Tolerance {
    (Some(low), Some(high))
}

/// How much greater `one` is than `other`, in percent.
pub(super) fn percent(one: f64, other: f64) -> f64 {
    100.0 * (one / other - 1.0)
}

/// A row's words and numbers, without its measurements.
#[derive(Clone, Debug)]
pub(super) struct Claim<'a> {
    pub(super) row: String,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    pub(super) policy: &'a str,
    pub(super) published: Option<f64>,
    pub(super) role: Role,
    pub(super) tolerance: Tolerance,
    pub(super) note: &'static str,
}

impl<'a> Claim<'a> {
    /// Something that the paper says nothing about.
    pub(super) fn context(
        row: impl Into<String>,
        (metric, unit): (&'static str, &'static str),
        policy: &'a str,
        note: &'static str,
    ) -> Self {
        let (row, role, tolerance) = (row.into(), Role::Context, OPEN);
        Self { row, metric, unit, policy, published: None, role, tolerance, note }
    }

    /// The row of figures of which the median counts and the extremes are the range.
    pub(super) fn row(self, results: &Results<'_>, figures: Vec<f64>) -> Row {
        let median = spread(figures.clone()).map(|(median, _, _)| median);
        self.with(results, median, figures)
    }

    /// The row of one figure, whose range is that of others and itself.
    pub(super) fn row_at(self, results: &Results<'_>, figure: f64, mut others: Vec<f64>) -> Row {
        others.push(figure);
        self.with(results, Some(figure), others)
    }

    fn with(self, results: &Results<'_>, measured: Option<f64>, range: Vec<f64>) -> Row {
        let ends = spread(range);
        Row {
            paper: results.paper,
            row: self.row,
            metric: self.metric,
            unit: self.unit,
            policy: self.policy.to_owned(),
            published: self.published,
            role: self.role,
            measured,
            low: ends.map(|(_, low, _)| low),
            high: ends.map(|(_, _, high)| high),
            tolerance: self.tolerance,
            contradicts: false,
            note: self.note.to_owned(),
            seed: results.seed,
        }
    }
}
