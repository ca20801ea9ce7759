//! A step from one window to another, and what it came to in a line.

use crate::prove::Claim;

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
    /// A trial in a line, without the file's name.
    pub(super) fn told(&self, way: &str, ratio: f64, end: &str) -> String {
        let Self { from, to, metric, .. } = self;
        let words = metric.words();
        let ratio = if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.0}") };
        format!("read-ahead {} -> {}; {way}; {ratio} x the {words}; {end}", kib(*from), kib(*to))
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
