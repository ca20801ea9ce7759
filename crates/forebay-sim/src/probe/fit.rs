//! Which model fits a device, and why.

use super::estimate::quantile;
use super::fitted::{Fit, SPAN_MIN, Unfit};
use super::{Measured, SEQUENTIAL_SMALL, SMALL, disk, fast};

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
            "reads of 4 KiB take {:.2} ms at random places and {:.2} ms in sequence, so \
             it is rotational; 32 in flight are served {speedup:.1} times as fast as one",
            random / 1e6,
            sequential / 1e6
        );
        return Ok(Fit { device: disk::fit(measured, members, reason)?, residuals: Vec::new() });
    }
    let reason = format!(
        "reads of 4 KiB take {:.1} us at random places and {:.1} us in sequence, so \
         their places matter little; 32 in flight are served {speedup:.1} times as fast as one",
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
