//! Published and measured figures: the rows of a reproduction.

use std::fmt;

/// One figure of a paper, its measurement, and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The paper's short name.
    pub paper: &'static str,
    /// The workload.
    pub row: String,
    /// The metric.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The policy it was measured under.
    pub policy: String,
    /// The paper's figure, if it prints one.
    pub published: Option<f64>,
    /// What the figure is for.
    pub role: Role,
    /// Our figure: the median over the draws.
    pub measured: Option<f64>,
    /// The least over the draws.
    pub low: Option<f64>,
    /// The greatest over the draws.
    pub high: Option<f64>,
    /// What counts as agreement, fixed before the measurement; an end may be open.
    pub tolerance: (Option<f64>, Option<f64>),
    /// Whether a figure outside the tolerance contradicts the paper: what the model is made of and
    /// the published figure cannot both be true.
    pub contradicts: bool,
    /// Why it deviates, or what must be known to read it.
    pub note: String,
    /// The seed of the measurement.
    pub seed: u64,
}

/// What a figure is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The model's parameters were chosen so that it holds.
    Calibrated,
    /// The model had no say in it.
    Predicted,
    /// Depends only on the workload, whatever the policy and the machine.
    Derived,
    /// Shown for comparison.
    Context,
}

/// Whether a figure agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Inside its tolerance.
    Within,
    /// Outside its tolerance.
    Outside,
    /// Outside its tolerance, and the model contradicts the published figure.
    Contradicted,
    /// There is nothing to agree with.
    NotClaimed,
}

impl Row {
    /// Whether the median lies inside the tolerance.
    pub fn verdict(&self) -> Verdict {
        let (low, high) = self.tolerance;
        let Some(measured) = self.measured else { return Verdict::NotClaimed };
        if (low, high) == (None, None) {
            return Verdict::NotClaimed;
        }
        let inside =
            low.is_none_or(|low| measured >= low) && high.is_none_or(|high| measured <= high);
        match (inside, self.contradicts) {
            (true, _) => Verdict::Within,
            (false, true) => Verdict::Contradicted,
            (false, false) => Verdict::Outside,
        }
    }
}

impl Verdict {
    /// Whether the figure was claimed and does not agree.
    pub fn is_miss(self) -> bool {
        matches!(self, Self::Outside | Self::Contradicted)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Derived => "derived",
            Self::Context => "context",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Within => "within",
            Self::Outside => "outside",
            Self::Contradicted => "contradicted",
            Self::NotClaimed => "not-claimed",
        })
    }
}

/// Median, least and greatest of some figures.
pub fn spread(mut figures: Vec<f64>) -> Option<(f64, f64, f64)> {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (*figures.first()?, *figures.last()?);
    let middle = figures.len() / 2;
    let median = if figures.len() % 2 == 1 {
        figures[middle]
    } else {
        f64::midpoint(figures[middle - 1], figures[middle])
    };
    Some((median, low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 9.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(spread(vec![5.0]), Some((5.0, 5.0, 5.0)));
        assert_eq!(spread(vec![]), None);
    }
}
