//! Whether a change helped: progress before and after, compared until the answer is clear.
//!
//! Source:     Forebay; a sequential test with a fixed number of looks, each at the level of
//!             Bonferroni.
//! Behaviour:  progress is counted in short windows with and without the change. After each window
//!             the ratio of the two rates is compared with the one that was asked for. If the
//!             answer is not clear after two windows, the change is reverted for two windows and
//!             made again, so that a load that changed by itself falls on both sides. What is not
//!             clear after the last look did not help.
//! Differs:    nothing.
//! Not for:    changes that cannot be reverted for half a second, such as dirty limits.
//!
//! ```text
//!   windows   A A | B B | A A | B B | A A | ...      A without, B with the change
//!   looks           1 2   3 4   5 6   7 8   ... 16
//! ```

use forebay_core::time::Duration;

/// What was predicted of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// Progress grows by more than this part: 0.05 for 5 %.
    Gain(f64),
    /// Progress falls by less than this part.
    NoLoss(f64),
}

/// Where a trial stands after a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Not clear: go on as it is.
    Continue,
    /// Not clear: change to the other side, then go on.
    Swap,
    /// As predicted; progress after the change through progress before it.
    Helps(f64),
    /// Not as predicted, or not clear after the last look.
    DoesNotHelp(f64),
}

/// A change that is being judged.
#[derive(Clone, Debug)]
pub struct Trial {
    claim: Claim,
    without: Side,
    with: Side,
    /// Whether the change is in force.
    changed: bool,
    /// Windows since the last change of sides.
    windows: u32,
    looks: u32,
}

impl Trial {
    /// A trial whose change has just been made, with the windows that were counted before it.
    pub fn begin(claim: Claim, before: &Side) -> Self {
        let without = before.clone();
        Self { claim, without, with: Side::default(), changed: true, windows: 0, looks: 0 }
    }

    /// Whether the change is in force, by this trial's own orders.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// What was counted with the change.
    pub fn with(&self) -> &Side {
        &self.with
    }

    /// What was counted without it.
    pub fn without(&self) -> &Side {
        &self.without
    }

    /// A window has passed in which `progress` was made.
    pub fn count(&mut self, progress: u64, elapsed: Duration) -> Verdict {
        let side = if self.changed { &mut self.with } else { &mut self.without };
        side.count(progress, elapsed);
        self.windows += 1;
        if self.with.windows == 0 || self.without.windows == 0 {
            return Verdict::Continue;
        }
        self.looks += 1;
        let ratio = self.with.rate() / self.without.rate().max(f64::MIN_POSITIVE);
        let asked = match self.claim {
            Claim::Gain(part) => 1.0 + part,
            Claim::NoLoss(part) => 1.0 - part,
        };
        let doubt = (self.with.doubt() + self.without.doubt()).sqrt();
        // A side without any progress counts as half an event, so that its logarithm exists.
        let least = |side: &Side| side.rate().max(0.5 / side.seconds.max(f64::MIN_POSITIVE));
        let lead = (least(&self.with) / least(&self.without)).ln() - asked.ln();
        if lead > CLEAR * doubt {
            Verdict::Helps(ratio)
        } else if lead < -CLEAR * doubt || self.looks >= LOOKS_MAX {
            Verdict::DoesNotHelp(ratio)
        } else if self.windows >= WINDOWS_PER_SIDE {
            self.windows = 0;
            self.changed = !self.changed;
            Verdict::Swap
        } else {
            Verdict::Continue
        }
    }
}

/// What was counted on one side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    windows: u32,
    progress: f64,
    seconds: f64,
    /// The sum of the squares of the windows' rates.
    squares: f64,
    /// The sum of the windows' rates.
    rates: f64,
}

impl Side {
    /// A window has passed in which `progress` was made; one without length is left out.
    pub fn count(&mut self, progress: u64, elapsed: Duration) {
        let seconds = elapsed.as_nanos() as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let rate = progress as f64 / seconds;
        self.windows += 1;
        self.progress += progress as f64;
        self.seconds += seconds;
        self.rates += rate;
        self.squares += rate * rate;
    }

    /// Progress a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.progress / self.seconds } else { 0.0 }
    }

    /// How much was counted.
    pub fn progress(&self) -> f64 {
        self.progress
    }

    /// How long it was counted, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The variance of the rate's logarithm: that of counting, and that of windows among each
    /// other. What few windows say of their variance counts little: it is taken to be that of
    /// [`WAVER`] at first, and less with every window.
    fn doubt(&self) -> f64 {
        let count = f64::from(self.windows.max(1));
        let mean = self.rates / count;
        let spread = (self.squares / count - mean * mean).max(0.0) * count / (count - 1.0).max(1.0);
        let relative = if mean > 0.0 { spread / (mean * mean) } else { 0.0 };
        1.0 / self.progress.max(0.5) + relative.max(WAVER * WAVER / count) / count
    }
}

/// Windows on one side before the sides change.
pub const WINDOWS_PER_SIDE: u32 = 2;

/// The most looks: eight windows a side.
pub const LOOKS_MAX: u32 = 16;

/// Standard deviations that make a look clear: the quantile of 0.3 %, so that sixteen looks
/// together err in at most one of twenty trials.
const CLEAR: f64 = 2.73;

/// The standard deviation of a window's rate, as a part of the rate, that is assumed of a load of
/// which one window is known.
const WAVER: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(250);

    fn before(windows: &[u64]) -> Side {
        let mut side = Side::default();
        for &progress in windows {
            side.count(progress, WINDOW);
        }
        side
    }

    /// The verdicts until one is final, with `(with, without)` progress in each window.
    fn judged(claim: Claim, first: &[u64], with: u64, without: u64) -> (Verdict, u32) {
        let mut trial = Trial::begin(claim, &before(first));
        for look in 1.. {
            let progress = if trial.is_changed() { with } else { without };
            match trial.count(progress, WINDOW) {
                Verdict::Continue | Verdict::Swap => {}
                last @ (Verdict::Helps(_) | Verdict::DoesNotHelp(_)) => return (last, look),
            }
        }
        unreachable!("a trial ends at its last look")
    }

    #[test]
    fn a_hundredfold_gain_is_clear_at_the_first_look_even_from_four_events() {
        let (verdict, look) = judged(Claim::Gain(0.05), &[4], 750, 4);
        assert!(matches!(verdict, Verdict::Helps(ratio) if ratio > 100.0), "{verdict:?}");
        assert_eq!(look, 1);
    }

    #[test]
    fn a_small_gain_needs_both_sides_more_than_once() {
        let (verdict, look) = judged(Claim::Gain(0.05), &[1_000, 1_010], 1_300, 1_000);
        assert!(matches!(verdict, Verdict::Helps(_)), "{verdict:?}");
        assert!(look > 2, "{look}");
    }

    #[test]
    fn what_changes_nothing_does_not_help() {
        let (verdict, look) = judged(Claim::Gain(0.05), &[1_000], 1_000, 1_000);
        assert!(matches!(verdict, Verdict::DoesNotHelp(_)), "{verdict:?}");
        assert!(look <= LOOKS_MAX);
        let (verdict, look) = judged(Claim::Gain(0.05), &[1_000], 300, 1_000);
        assert!(matches!(verdict, Verdict::DoesNotHelp(ratio) if ratio < 0.31), "{verdict:?}");
        assert_eq!(look, 1, "harm is clear at once");
    }

    #[test]
    fn a_load_that_doubled_by_itself_is_no_help() {
        let mut trial = Trial::begin(Claim::Gain(0.05), &before(&[1_000]));
        let mut last = Verdict::Continue;
        // The first window with the change is the last slow one; from then on all are faster.
        for window in 0..LOOKS_MAX {
            last = trial.count(if window == 0 { 1_000 } else { 1_400 }, WINDOW);
            if matches!(last, Verdict::Helps(_) | Verdict::DoesNotHelp(_)) {
                break;
            }
        }
        assert!(matches!(last, Verdict::DoesNotHelp(_)), "{last:?}");
    }

    #[test]
    fn no_loss_is_shown_by_the_same_rate_and_refuted_by_a_lower_one() {
        let (verdict, _) = judged(Claim::NoLoss(0.05), &[9_000, 9_000], 9_000, 9_000);
        assert!(matches!(verdict, Verdict::Helps(_)), "{verdict:?}");
        let (verdict, _) = judged(Claim::NoLoss(0.25), &[1_000, 1_000], 500, 1_000);
        assert!(matches!(verdict, Verdict::DoesNotHelp(_)), "{verdict:?}");
    }

    #[test]
    fn the_sides_change_after_two_windows() {
        let mut trial = Trial::begin(Claim::Gain(0.05), &before(&[100]));
        assert_eq!(trial.count(105, WINDOW), Verdict::Continue);
        assert_eq!(trial.count(105, WINDOW), Verdict::Swap);
        assert!(!trial.is_changed());
        assert_eq!(trial.count(100, WINDOW), Verdict::Continue);
        assert_eq!(trial.count(100, WINDOW), Verdict::Swap);
        assert!(trial.is_changed());
    }

    #[test]
    fn nothing_on_both_sides_ends_without_help() {
        let (verdict, _) = judged(Claim::Gain(0.05), &[0], 0, 0);
        assert!(matches!(verdict, Verdict::DoesNotHelp(_)), "{verdict:?}");
    }
}
