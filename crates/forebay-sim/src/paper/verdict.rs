//! The verdict on a paper as a whole, in one word.
//!
//! ```text
//!   counted        figures that the paper prints, that the model predicts, with a tolerance
//!   not counted    calibrated, derived and context figures, and figures without a tolerance
//!
//!   every counted figure agrees                              HOLDS
//!   the headline and three quarters agree                    MOSTLY
//!   the narrower case agrees, most of the rest does not      ALONE ONLY
//!   the headline has the published sign, not its size        SIZE DIFFERS
//!   otherwise                                                FAILS
//! ```

use std::fmt;

use super::Paper;
use crate::report::{Role, Row, Verdict};

/// The figure that represents a paper in an overview.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// Its description, in a few words.
    pub text: &'static str,
    /// How the name of its row begins; the rest says how much the run is scaled down.
    pub row: &'static str,
    /// The metric of its row.
    pub metric: &'static str,
    /// The policy of its row.
    pub policy: &'static str,
    /// The value that means no change.
    neutral: f64,
}

/// Verdicts of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperVerdict {
    /// Every counted figure agrees.
    Holds,
    /// The headline agrees, and at least three quarters of the counted figures do.
    Mostly,
    /// The headline has the published sign and another size.
    SizeDiffers,
    /// The figures of the narrower case agree, most others do not.
    AloneOnly,
    /// The headline is missed, or too many other figures are.
    Fails,
}

/// How many figures agree, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement<'a> {
    /// The row of the headline.
    pub headline: &'a Row,
    /// Counted figures that agree.
    pub agree: usize,
    /// Counted figures.
    pub counted: usize,
    /// What follows.
    pub verdict: PaperVerdict,
}

impl Headline {
    pub(super) const fn change(
        text: &'static str,
        [row, metric, policy]: [&'static str; 3],
    ) -> Self {
        Self { text, row, metric, policy, neutral: 0.0 }
    }

    pub(super) const fn ratio(
        text: &'static str,
        [row, metric, policy]: [&'static str; 3],
    ) -> Self {
        Self { text, row, metric, policy, neutral: 1.0 }
    }

    fn is_of(&self, row: &Row) -> bool {
        (row.metric, row.policy.as_str()) == (self.metric, self.policy)
            && row.row.starts_with(self.row)
            && row.published.is_some()
    }
}

impl Paper {
    /// How the paper compares with its rows.
    ///
    /// # Panics
    /// If the rows are not the paper's.
    pub fn agreement<'a>(&self, rows: &'a [Row]) -> Agreement<'a> {
        let headline = rows.iter().find(|row| self.headline.is_of(row));
        let headline = headline.expect("a paper's rows have its headline");
        let counted: Vec<&Row> = rows.iter().filter(|row| row.is_counted()).collect();
        let agree = agreeing(counted.iter().copied());
        let agreement =
            Agreement { headline, agree, counted: counted.len(), verdict: PaperVerdict::Fails };
        let verdict = if agree == counted.len() {
            PaperVerdict::Holds
        } else if is_within(headline) && 4 * agree >= 3 * counted.len() {
            PaperVerdict::Mostly
        } else if self.holds_alone(&counted) {
            PaperVerdict::AloneOnly
        } else if self.has_sign(headline) && !is_within(headline) {
            PaperVerdict::SizeDiffers
        } else {
            PaperVerdict::Fails
        };
        Agreement { verdict, ..agreement }
    }

    /// Whether the narrower case agrees as a whole, and less than half of the rest.
    fn holds_alone(&self, counted: &[&Row]) -> bool {
        let Some(alone) = self.alone else { return false };
        let (narrow, rest): (Vec<&Row>, Vec<&Row>) = counted.iter().partition(|row| alone(row));
        let all = agreeing(narrow.iter().copied()) == narrow.len();
        !narrow.is_empty() && all && 2 * agreeing(rest.iter().copied()) < rest.len()
    }

    fn has_sign(&self, row: &Row) -> bool {
        let side = |figure: Option<f64>| figure.map(|it| it.total_cmp(&self.headline.neutral));
        row.measured.is_some() && side(row.measured) == side(row.published)
    }
}

impl Row {
    /// Whether the row counts for its paper: printed there, predicted here, with a tolerance.
    pub fn is_counted(&self) -> bool {
        let is_claim = self.verdict() != Verdict::NotClaimed;
        self.role == Role::Predicted && self.published.is_some() && is_claim
    }
}

fn is_within(row: &Row) -> bool {
    row.verdict() == Verdict::Within
}

fn agreeing<'a>(rows: impl Iterator<Item = &'a Row>) -> usize {
    rows.filter(|row| is_within(row)).count()
}

impl fmt::Display for PaperVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "HOLDS",
            Self::Mostly => "MOSTLY",
            Self::SizeDiffers => "SIZE DIFFERS",
            Self::AloneOnly => "ALONE ONLY",
            Self::Fails => "FAILS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::paper::{PAPERS, RunSize};

    /// A counted row of the headline's kind that agrees at -12 to -8.
    fn row(name: &str, measured: f64) -> Row {
        Row {
            paper: "test",
            row: name.to_owned(),
            metric: "gain",
            unit: "%",
            policy: "new".to_owned(),
            published: Some(-10.0),
            role: Role::Predicted,
            measured: Some(measured),
            low: None,
            high: None,
            tolerance: (Some(-12.0), Some(-8.0)),
            contradicts: false,
            note: String::new(),
            seed: 1,
        }
    }

    fn paper(alone: Option<fn(&Row) -> bool>) -> Paper {
        let headline = Headline::change("gain", ["head", "gain", "new"]);
        Paper { headline, alone, ..PAPERS[0] }
    }

    fn verdict(alone: Option<fn(&Row) -> bool>, measured: [f64; 4]) -> PaperVerdict {
        let rows: Vec<Row> = ["head, 1/16", "a", "b", "c"]
            .iter()
            .zip(measured)
            .map(|(name, measured)| row(name, measured))
            .collect();
        paper(alone).agreement(&rows).verdict
    }

    #[test]
    fn the_verdict_follows_from_the_figures() {
        use PaperVerdict::{Fails, Holds, Mostly, SizeDiffers};
        assert_eq!(verdict(None, [-10.0; 4]), Holds);
        assert_eq!(verdict(None, [-10.0, -9.0, -11.0, 5.0]), Mostly);
        assert_eq!(verdict(None, [-5.0, -9.0, -11.0, -10.0]), SizeDiffers);
        assert_eq!(verdict(None, [5.0, -9.0, -11.0, -10.0]), Fails, "the headline is reversed");
        assert_eq!(verdict(None, [-10.0, -9.0, 5.0, 5.0]), Fails, "too few agree beside it");
    }

    #[test]
    fn a_narrower_case_counts_if_it_agrees_as_a_whole() {
        let alone: fn(&Row) -> bool = |row| row.row == "a";
        let narrow = |measured| verdict(Some(alone), measured);
        assert_eq!(narrow([-5.0, -10.0, -5.0, -5.0]), PaperVerdict::AloneOnly);
        assert_eq!(narrow([-5.0, -5.0, -5.0, -5.0]), PaperVerdict::SizeDiffers);
        assert_eq!(narrow([-5.0, -10.0, -10.0, -10.0]), PaperVerdict::SizeDiffers);
    }

    #[test]
    fn calibrated_derived_and_unprinted_figures_do_not_count() {
        let mut rows = vec![row("head", -10.0)];
        for role in [Role::Calibrated, Role::Derived, Role::Context] {
            rows.push(Row { role, ..row("a", 5.0) });
        }
        rows.push(Row { published: None, ..row("a", 5.0) });
        rows.push(Row { tolerance: (None, None), ..row("a", 5.0) });
        let agreement = paper(None).agreement(&rows);
        assert_eq!((agreement.agree, agreement.counted), (1, 1));
        assert_eq!(agreement.verdict, PaperVerdict::Holds);
    }

    #[test]
    fn a_contradicted_figure_counts_as_one_that_does_not_agree() {
        let rows = [row("head", -10.0), Row { contradicts: true, ..row("a", 5.0) }];
        assert_eq!(rows[1].verdict(), Verdict::Contradicted);
        let agreement = paper(None).agreement(&rows);
        assert_eq!((agreement.agree, agreement.counted), (1, 2));
        let within = Row { contradicts: true, ..row("a", -10.0) };
        assert_eq!(within.verdict(), Verdict::Within);
    }

    /// The rows that count, with the experiments of a size.
    fn counted(paper: &Paper, size: RunSize) -> Vec<(String, &'static str, String, bool)> {
        let machine = Machine::builtin(paper.machine).expect("a paper's machine is there");
        let cells = paper.cells(&machine, size, 1, 1);
        let measured: Vec<_> = cells.iter().map(|cell| cell.measure().expect("it fits")).collect();
        let rows = paper.judge(size, &cells, &measured, 1);
        let rows = rows.into_iter().filter(Row::is_counted);
        rows.map(|row| (row.row.clone(), row.metric, row.policy.clone(), is_within(&row))).collect()
    }

    #[test]
    fn every_figure_that_counts_comes_of_the_experiments_that_count() {
        for name in ["readahead", "cramfs"] {
            let paper = Paper::named(name).unwrap();
            let all = counted(paper, RunSize::Scaled);
            assert!(all.len() > 8, "{name}");
            assert_eq!(counted(paper, RunSize::Counted), all, "{name}");
        }
    }
}
