//! Whether the measurements meet their targets.

use std::fmt;

/// A target and the measured value.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    what: String,
    measured: f64,
    target: Target,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Verdict {
    pub(crate) fn new(what: impl Into<String>, measured: f64, target: Target) -> Self {
        Self { what: what.into(), measured, target }
    }

    /// Whether the target is met.
    pub(crate) fn is_met(&self) -> bool {
        self.target.is_met_by(self.measured)
    }
}

impl Target {
    /// Whether a value is within the bound.
    pub(crate) fn is_met_by(self, measured: f64) -> bool {
        match self {
            Self::AtMost(most) => measured <= most,
            Self::AtLeast(least) => measured >= least,
        }
    }
}

impl fmt::Display for Target {
    /// `at most 1.2`; a precision is that of the bound.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, bound) = match self {
            Self::AtMost(most) => ("at most ", most),
            Self::AtLeast(least) => ("at least ", least),
        };
        f.write_str(word)?;
        bound.fmt(f)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.is_met() { "met" } else { "missed" };
        let Self { what, measured, target } = self;
        write!(f, "{met:<6} {what} {measured:.3}, {target:.3}")
    }
}
