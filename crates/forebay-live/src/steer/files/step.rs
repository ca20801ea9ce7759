//! A step from one window to another, and what it came to in a line.

use forebay_core::time::Instant;

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

/// A window that did not help, so that it is not tried again for a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refuted {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) at: Instant,
}

/// What counts as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Faults,
    Bytes,
    Asked,
}

/// What was asked for before a window was changed, and is still under way with the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settling {
    /// Progress that it will be, and looks that it takes at most.
    progress: u64,
    looks: u64,
    /// A device that brings more bytes for each fault still brings old windows.
    fault_bytes: u64,
}

/// The threads that wait for windows, and the rate at which data comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) threads: u64,
    /// Bytes a second that the device reads.
    pub(super) bandwidth: u64,
}

impl Settling {
    /// Whether a look belongs to it in which there was progress and the device read bytes.
    pub(super) fn is_under_way(&mut self, progress: u64, bytes: u64) -> bool {
        let brings_old = bytes > self.fault_bytes.saturating_mul(progress.max(1));
        let is_under_way = self.looks > 0 && (self.progress > 0 || brings_old);
        self.progress = self.progress.saturating_sub(progress);
        self.looks = if is_under_way { self.looks - 1 } else { 0 };
        is_under_way
    }
}

impl Step {
    /// What is under way when the window becomes `to`. A stream has some windows in flight, which
    /// arrive within a look. Each thread waits for one fault; where these are large, and there are
    /// many threads, they take longer than a look. A thread goes on when its page has come, which
    /// may be half of its window, so there may be twice as many.
    pub(super) fn settling(&self, to: u64, waiting: Waiting) -> Settling {
        let Waiting { threads, bandwidth } = waiting;
        let before = self.from.max(self.to);
        let others = threads.saturating_sub(1);
        match self.metric {
            Metric::Bytes | Metric::Asked => {
                Settling { progress: 1, looks: 1, fault_bytes: u64::MAX }
            }
            Metric::Faults if to < before && others > 0 => {
                let bytes = threads.saturating_mul(2 * before * 1024);
                let looks = 1 + (bytes / (bandwidth / LOOKS_PER_SECOND).max(1));
                let fault_bytes = 4 * to.max(4) * 1024;
                Settling { progress: others, looks: looks.min(SETTLING_LOOKS), fault_bytes }
            }
            Metric::Faults => Settling::default(),
        }
    }

    /// What a trial came to.
    pub(super) fn outcome(&self, way: &str, ratio: f64, is_kept: bool) -> TrialOutcome {
        let Self { from, to, metric, .. } = self;
        let words = metric.words();
        let digits = if ratio < 9.95 { 2 } else { 0 };
        let gain = format!("{ratio:.digits$} x the {words}");
        let end = if is_kept { "kept" } else { "reverted" };
        let told = format!("read-ahead {} -> {}; {way}; {gain}; {end}", kib(*from), kib(*to));
        let end = if is_kept { TrialEnd::Kept { ratio, gain } } else { TrialEnd::TakenBack };
        TrialOutcome { told, end }
    }
}

const LOOKS_PER_SECOND: u64 = 4;

/// Four seconds.
const SETTLING_LOOKS: u64 = 4 * LOOKS_PER_SECOND;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_no_part_of_a_trial() {
        let of = |metric| Step { from: 8_192, to: 16, claim: None, metric };
        let (slow, fast) = (50 << 20, 2_000 << 20);
        // Looks in which there is this much progress and the device reads so many bytes, and those
        // of them that are left out.
        for (metric, to, threads, bandwidth, progress, bytes, expected) in [
            (Metric::Faults, 16, 1, slow, 4, 12 << 20, 0),
            (Metric::Faults, 16, 4, slow, 4, 0, 1),
            (Metric::Faults, 16, 16, slow, 4, 0, 4),
            (Metric::Faults, 16, 16, slow, 0, 0, 16),
            (Metric::Faults, 16, 16, slow, 400, 400 << 16, 1),
            (Metric::Faults, 16, 16, slow, 100, 100 << 16, 1),
            (Metric::Faults, 16, 16, slow, 100, (100 << 16) + 1, 16),
            (Metric::Faults, 16, 16, fast, 0, 500 << 20, 1),
            (Metric::Faults, 8_192, 16, slow, 4, 12 << 20, 0),
            (Metric::Bytes, 16, 16, slow, 0, 12 << 20, 1),
            (Metric::Bytes, 8_192, 16, slow, 9_000, 12 << 20, 1),
        ] {
            let mut settling = of(metric).settling(to, Waiting { threads, bandwidth });
            let looks = (0..20).take_while(|_| settling.is_under_way(progress, bytes)).count();
            let why = format!("{metric:?} to {to}, {threads} threads, {progress}, {bytes} bytes");
            assert_eq!(looks, expected, "{why}");
        }
    }
}
