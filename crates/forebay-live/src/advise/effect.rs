//! What a remedy brings and what it costs, and how either is known.

use std::fmt;

/// How a gain or a cost is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectBasis {
    /// From what this machine did.
    MeasuredHere,
    /// From a measurement on another machine or device, which the text names.
    MeasuredElsewhere,
    /// From numbers of this machine, without a measurement of the effect.
    Computed,
    /// Not at all.
    NotMeasured,
}

/// What can be won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gain {
    /// How many times better, in tenths.
    pub ratio_tenths: u64,
    /// Better at what, with the numbers.
    pub basis: String,
    /// How that is known.
    pub known: EffectBasis,
}

/// What it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemedyCost {
    /// What gets worse, with the numbers.
    pub what: String,
    /// How that is known.
    pub known: EffectBasis,
}

impl EffectBasis {
    /// As it is printed.
    pub const fn words(self) -> &'static str {
        match self {
            Self::MeasuredHere => "measured here",
            Self::MeasuredElsewhere => "measured elsewhere",
            Self::Computed => "computed from the figures of this machine",
            Self::NotMeasured => "not measured",
        }
    }
}

impl RemedyCost {
    pub(super) fn new(known: EffectBasis, what: impl Into<String>) -> Self {
        Self { what: what.into(), known }
    }

    /// Streams whose window goes down to so many KiB.
    pub(super) fn of_smaller_window(kib: u64) -> Self {
        if kib == 128 {
            let what = "a single stream on a virtio disk, Linux 6.18, reads 539 MB/s at 128 KiB \
                        instead of 1742 at 8192 KiB";
            return Self::new(EffectBasis::MeasuredElsewhere, what);
        }
        Self::new(EffectBasis::NotMeasured, format!("streams read with a window of {kib} KiB, too"))
    }

    /// Faults whose window goes up.
    pub(super) fn of_larger_window(from_kib: u64, to_kib: u64) -> Self {
        let what = format!("each random page fault reads {to_kib} KiB instead of {from_kib} KiB");
        Self::new(EffectBasis::Computed, what)
    }

    /// Writers that are held to a limit.
    pub(super) fn of_limit() -> Self {
        let what = "while 500 MB are copied to 20 MB/s, write() takes 187 to 320 ms instead of 3 \
                    to 40 ms (99th percentile); the copy as a whole takes as long";
        Self::new(EffectBasis::MeasuredElsewhere, what)
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio_tenths, basis, known } = self;
        let (whole, tenths) = (ratio_tenths / 10, ratio_tenths % 10);
        write!(out, "{whole}.{tenths} x, {}: {basis}", known.words())
    }
}

impl fmt::Display for RemedyCost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.known.words(), self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_say_how_they_are_known() {
        let gain =
            Gain { ratio_tenths: 302, basis: "faults/s".into(), known: EffectBasis::MeasuredHere };
        assert_eq!(gain.to_string(), "30.2 x, measured here: faults/s");
        let cost = RemedyCost::of_larger_window(128, 4_096);
        let said = "computed from the figures of this machine: each random page fault reads 4096 \
                    KiB instead of 128 KiB";
        assert_eq!(cost.to_string(), said);
        assert_eq!(RemedyCost::of_smaller_window(128).known, EffectBasis::MeasuredElsewhere);
        assert_eq!(RemedyCost::of_smaller_window(64).known, EffectBasis::NotMeasured);
    }
}
