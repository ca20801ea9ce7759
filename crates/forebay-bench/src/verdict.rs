//! Whether the measurements meet their targets.

use std::fmt;

use forebay_host::measure::Target;

/// A target and the measured value.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    what: String,
    measured: f64,
    target: Target,
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

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.is_met() { "met" } else { "missed" };
        let Self { what, measured, target } = self;
        write!(f, "{met:<6} {what} {measured:.3}, {target:.3}")
    }
}
