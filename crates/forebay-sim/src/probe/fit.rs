//! Which model fits a device, and why.

use thiserror::Error;

use super::estimate::quantile;
use super::{Estimate, Measured, SEQUENTIAL_SMALL, SMALL, disk, fast};
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

/// The model that fits a device, with its parameters.
///
/// A device behaves rotationally if random reads are slow, and sequential reads of the same size,
/// with no other request in flight, are at least four times as fast: a drive that reads ahead. If
/// more requests in flight are served faster, it is an array. Any other device is units behind a
/// link.
///
/// # Errors
/// What was measured is too little.
pub fn fit(measured: &Measured) -> Result<Fit, Unfit> {
    if measured.span < SPAN_MIN {
        return Err(Unfit::Span(measured.span));
    }
    let missing = Unfit::Missing { bytes: SMALL.bytes, depth: SMALL.depth };
    let random = quantile(&measured.small().ok_or(missing)?, 0.5);
    let sequential = measured.sorted(|experiment| *experiment == SEQUENTIAL_SMALL[0]);
    let sequential = quantile(&sequential.ok_or(missing)?, 0.5);
    let speedup = speedup(measured).ok_or(missing)?;
    if random >= ROTATIONAL_NS && sequential * 4.0 < random {
        let members = libm::round(speedup).clamp(1.0, 64.0);
        let reason = format!(
            "reads of 4 KiB take {:.2} ms at random places and {:.2} ms one behind the other, so \
             it is rotational; 32 in flight are served {speedup:.1} times as fast as one",
            random / 1e6,
            sequential / 1e6
        );
        return Ok(Fit { device: disk::fit(measured, members, reason)?, residuals: Vec::new() });
    }
    let reason = format!(
        "reads of 4 KiB take {:.1} us at random places and {:.1} us one behind the other, so \
         places do not matter; 32 in flight are served {speedup:.1} times as fast as one",
        random / 1e3,
        sequential / 1e3
    );
    fast::fit(measured, reason)
}

/// How many times as fast requests end with 32 in flight.
fn speedup(measured: &Measured) -> Option<f64> {
    let each = |depth| {
        let wanted = super::Experiment::random(SMALL.bytes, depth, 0);
        let found = measured.find(|experiment| {
            (experiment.pattern, experiment.write) == (wanted.pattern, wanted.write)
                && (experiment.bytes, experiment.depth) == (wanted.bytes, wanted.depth)
        });
        found.map(|(_, samples)| samples.each())
    };
    Some(each(1)? / each(32)?.max(1.0))
}

/// No device without moving parts takes that long and reads ahead at the same time.
const ROTATIONAL_NS: f64 = 1_500_000.0;
