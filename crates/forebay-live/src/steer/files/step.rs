//! A step from one window to another, and what it came to in a line.

use crate::prove::Claim;

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOutcome {
    /// The step, the way of reading, the gain and the end in a line, without the file's name.
    pub told: String,
    /// Whether it was kept.
    pub end: TrialEnd,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialEnd {
    /// It helped.
    Kept {
        /// How many times the progress without it.
        ratio: f64,
        /// The same in words.
        gain: String,
    },
    /// It did not help clearly.
    TakenBack,
    /// The file is read in another way, and has the window that it was opened with.
    PutBack,
}

/// A step from one window to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: u64,
    pub(super) to: u64,
    /// None if it needs no proof: it takes back what was done.
    pub(super) claim: Option<Claim>,
    /// Where the trial stands when this is a change of its sides.
    pub(super) metric: Metric,
}

/// What counts as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Faults,
    Bytes,
    Asked,
}

impl Step {
    /// What a trial came to.
    pub(super) fn outcome(&self, way: &str, ratio: f64, is_kept: bool) -> TrialOutcome {
        let Self { from, to, metric, .. } = self;
        let words = metric.words();
        let digits = if ratio < 9.95 { 2 } else { 0 };
        let gain = format!("{ratio:.digits$} x the {words}");
        let end = if is_kept { "kept" } else { "taken back" };
        let told = format!("read-ahead {} -> {}; {way}; {gain}; {end}", kib(*from), kib(*to));
        let end = if is_kept { TrialEnd::Kept { ratio, gain } } else { TrialEnd::TakenBack };
        TrialOutcome { told, end }
    }
}

impl Metric {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Faults => "faults/s",
            Self::Bytes | Self::Asked => "bytes/s",
        }
    }
}

/// A window in the unit that people use.
pub(super) fn kib(window: u64) -> String {
    if window >= 1_024 && window.is_multiple_of(1_024) {
        format!("{} MiB", window / 1_024)
    } else {
        format!("{window} KiB")
    }
}
