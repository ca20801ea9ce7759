//! What the trials of windows came to, for the sentence at the end.

use crate::steer::files::{TrialEnd, TrialOutcome};

/// Counts of trials since the start.
#[derive(Debug, Default)]
pub(super) struct Trials {
    kept: u64,
    taken_back: u64,
    /// The largest gain: how many times, and the file with its unit.
    best: Option<(f64, String)>,
}

impl Trials {
    /// Takes in what came of a step of a file.
    pub(super) fn record(&mut self, name: &str, outcome: &TrialOutcome) {
        match &outcome.end {
            TrialEnd::Kept { ratio, gain } => {
                self.kept += 1;
                if self.best.as_ref().is_none_or(|(best, _)| ratio > best) {
                    self.best = Some((*ratio, format!("{name}, {gain}")));
                }
            }
            TrialEnd::TakenBack => self.taken_back += 1,
            // No trial: it was read in another way.
            TrialEnd::PutBack => {}
        }
    }

    /// What was tried, kept, reverted and gained; none without a trial.
    pub(super) fn sentence(&self) -> Option<String> {
        let Self { kept, taken_back, best } = self;
        let tried = kept + taken_back;
        let trials = if tried == 1 { "trial of a window" } else { "trials of windows" };
        let best = best.as_ref().map(|(_, best)| format!("; the largest gain: {best}"));
        let best = best.unwrap_or_default();
        (tried > 0).then(|| format!("{tried} {trials}: {kept} kept, {taken_back} reverted{best}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_counted_and_the_largest_gain_is_named() {
        let mut trials = Trials::default();
        assert_eq!(trials.sentence(), None);
        let mut record = |name: &str, end| {
            trials.record(name, &TrialOutcome { told: String::new(), end });
            trials.sentence()
        };
        let kept =
            |ratio: f64| TrialEnd::Kept { ratio, gain: format!("{ratio:.0} x the faults/s") };
        assert_eq!(record("a", TrialEnd::PutBack), None);
        assert_eq!(
            record("a", TrialEnd::TakenBack).unwrap(),
            "1 trial of a window: 0 kept, 1 reverted"
        );
        record("b", kept(2.0));
        record("c", kept(31.0));
        assert_eq!(
            record("d", kept(4.0)).unwrap(),
            "4 trials of windows: 3 kept, 1 reverted; the largest gain: c, 31 x the faults/s"
        );
    }
}
