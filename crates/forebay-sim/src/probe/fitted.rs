//! A device as one of the models: its numbers, or why there is no such model.

use thiserror::Error;

use super::Estimate;
use crate::machine::DeviceKind;

/// One number of a machine, in the base unit of its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its dotted name.
    pub key: &'static str,
    /// The estimate.
    pub estimate: Estimate,
    /// Class letter and origin, as machine files have them.
    pub source: String,
}

/// A device as one of the models.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFit {
    /// The model.
    pub kind: DeviceKind,
    /// Why this one.
    pub reason: String,
    /// Its numbers.
    pub numbers: Vec<Number>,
}

/// A device and the distance of its model from the measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The device.
    pub device: DeviceFit,
    /// For each experiment that was fitted: its bytes and depth, the measured nanoseconds of a
    /// request, and those of the model.
    pub residuals: Vec<(u64, u32, f64, f64)>,
}

/// What a fit needs and did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// The span is shorter than the experiments need.
    #[error("the probed span has {0} bytes, and at least {SPAN_MIN} are needed")]
    Span(u64),
    /// An experiment has no samples.
    #[error("no read of {bytes} bytes with {depth} in flight was measured")]
    Missing {
        /// Its bytes.
        bytes: u64,
        /// Its depth.
        depth: u32,
    },
}

/// The least span that can be probed: 64 MiB.
pub const SPAN_MIN: u64 = 64 << 20;

/// A number that was not measured.
pub(super) fn assumed(key: &'static str, value: f64, why: &str) -> Number {
    let estimate = Estimate { value, low: value, high: value, count: 0 };
    Number { key, estimate, source: format!("A: {why}") }
}
