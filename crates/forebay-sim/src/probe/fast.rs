//! The numbers of units behind a link, found by comparing runs of the model with the measurements.
//!
//! Jitter and tail come from the quantiles of small reads. Delay, rates, stripe and units are those
//! for which the model, given the same requests, is nearest to the measured medians: the least sum
//! of squared logarithms of ratios, found coordinate by coordinate from a start in closed form,
//! once for each possible stripe. Medians do not move with the few requests that are late.

use forebay_core::time::Duration;

use super::estimate::quantile;
use super::fitted::{DeviceFit, Fit, Number, Unfit, assumed};
use super::limit::{self, Seen};
use super::{
    Estimate, Experiment, Measured, Pattern, SMALL, Samples, Simulated, WRITE_FLUSHED, WRITE_LONG,
    WRITE_SMALL,
};
use crate::device::{Fast, FastParameters, Limit, Limits};
use crate::machine::DeviceKind;
use crate::rng::MILLION;

/// What one experiment came to: the median of its requests, in nanoseconds.
struct Target<'a> {
    experiment: &'a Experiment,
    measured: f64,
    requests: usize,
}

/// The device, with the ratios that are left.
pub(super) fn fit(measured: &Measured, reason: String) -> Result<Fit, Unfit> {
    let missing = Unfit::Missing { bytes: SMALL.bytes, depth: SMALL.depth };
    let mut small = measured.small().ok_or(missing)?;
    let seen = limit::seen(measured);
    if let Some(seen) = &seen {
        small.retain(|took| *took as f64 <= seen.hold);
    }
    let bounds = Bounds { span: measured.span, limits: limits_of(seen) };
    let targets = targets(measured);
    let mut start = closed_form(measured, &small, seen.is_some());
    start.jitter_sigma_ppm = ppm(sigma(&small));
    let tail = tail(&small);
    [start.tail_ppm, start.tail_ns] = tail.each_ref().map(|number| number.estimate.value as u64);
    let mut best: Option<(f64, FastParameters)> = None;
    for stripe_bytes in STRIPES {
        let mut candidate = FastParameters { stripe_bytes, ..start };
        let loss = descend(&mut candidate, &targets, &bounds);
        // A smaller stripe has to be better by more than chance.
        if best.is_none_or(|(least, _)| loss < least * 0.9) {
            best = Some((loss, candidate));
        }
    }
    let (_, mut fitted) = best.expect("there is a stripe to try");
    // A unit that is faster than the link is as fast as the link.
    fitted.unit_bytes_per_s = fitted.unit_bytes_per_s.min(fitted.link_bytes_per_s);
    let residuals = targets.iter().map(|target| {
        let model = model(target, &fitted, &bounds);
        (target.experiment.bytes, target.experiment.depth, target.measured, model)
    });
    let residuals = residuals.collect();
    let mut numbers = read_numbers(&fitted, &small, &targets);
    numbers.extend(tail);
    numbers.extend(write_numbers(measured, &fitted, seen.is_some_and(|seen| seen.slows_writes)));
    numbers.extend(seen.iter().flat_map(Seen::numbers));
    let device = DeviceFit { kind: DeviceKind::Fast, reason, numbers };
    Ok(Fit { device, residuals })
}

/// Where the model's requests lie, and the limits that hold them back.
struct Bounds {
    span: u64,
    limits: Limits,
}

/// Those of reads; the model makes nothing else.
fn limits_of(seen: Option<Seen>) -> Limits {
    let whole = |number: Option<Estimate>| number.map_or(0, |it| libm::round(it.value) as u64);
    let requests_per_s = whole(seen.and_then(|seen| seen.requests));
    let bytes_per_s = whole(seen.and_then(|seen| seen.bytes));
    Limits {
        reads: Limit { requests_per_s, bytes_per_s },
        writes: Limit::default(),
        window: Duration(whole(seen.map(|seen| seen.window))),
    }
}

/// Experiments that tell of the device and not of the host.
fn targets(measured: &Measured) -> Vec<Target<'_>> {
    let fits = |experiment: &Experiment, samples: &Samples| {
        experiment.pattern == Pattern::Random
            && !experiment.write
            && !samples.host_bound
            && !samples.latencies.is_empty()
    };
    let target = |(experiment, samples): (&'_ Experiment, &Samples)| {
        let sorted = measured.sorted(|known| known == experiment).unwrap_or_default();
        (quantile(&sorted, 0.5).max(1.0), samples.requests)
    };
    let all = measured.samples.iter().filter(|(experiment, samples)| fits(experiment, samples));
    all.map(|(experiment, samples)| {
        let (measured, requests) = target((experiment, samples));
        let most = (20 * u64::from(experiment.depth)).max(TRIED_BYTES / experiment.bytes);
        let requests = requests.min(most.clamp(TRIED_MIN, TRIED_MAX)) as usize;
        Target { experiment, measured, requests }
    })
    .collect()
}

/// What the model takes for a request of an experiment.
fn model(target: &Target<'_>, parameters: &FastParameters, bounds: &Bounds) -> f64 {
    let device = bounds.limits.around(Box::new(Fast::new(*parameters, MODEL_SEED)));
    let samples = Simulated::new(device, bounds.span).first(target.experiment, target.requests);
    let mut sorted = samples.latencies;
    sorted.sort_unstable();
    quantile(&sorted, 0.5).max(1.0)
}

fn loss(parameters: &FastParameters, targets: &[Target<'_>], bounds: &Bounds) -> f64 {
    let each = targets.iter().map(|target| {
        let ratio = libm::log(model(target, parameters, bounds) / target.measured);
        ratio * ratio
    });
    // Not zero, so that a perfect fit can be compared with another one.
    each.sum::<f64>() + 1e-6
}

/// Moves one number at a time as long as that helps, in steps that become smaller.
fn descend(at: &mut FastParameters, targets: &[Target<'_>], bounds: &Bounds) -> f64 {
    let mut least = loss(at, targets, bounds);
    for step in [1.4, 1.1, 1.03, 1.01] {
        for _ in 0..ROUNDS {
            let before = least;
            for coordinate in 0..4 {
                for factor in [step, 1.0 / step] {
                    let moved = moved(at, coordinate, factor);
                    let loss = loss(&moved, targets, bounds);
                    if loss < least {
                        (least, *at) = (loss, moved);
                    }
                }
            }
            if least > before * 0.999 {
                break;
            }
        }
    }
    least
}

fn moved(at: &FastParameters, coordinate: u32, factor: f64) -> FastParameters {
    let scaled = |value: u64| libm::round(value as f64 * factor).clamp(1.0, 1e15) as u64;
    let mut moved = *at;
    match coordinate {
        0 => moved.delay_ns = scaled(at.delay_ns),
        1 => moved.unit_bytes_per_s = scaled(at.unit_bytes_per_s),
        2 => moved.link_bytes_per_s = scaled(at.link_bytes_per_s),
        _ => {
            // Units are whole: the least step is one.
            let units = i64::from(at.units);
            let by = (units as f64 * (factor - 1.0)).abs().max(1.0) as i64;
            let units = if factor > 1.0 { units + by } else { units - by };
            moved.units = units.clamp(1, 512) as u32;
        }
    }
    moved
}

/// Where the search begins. Of a device with a limit, requests that were not held count.
fn closed_form(measured: &Measured, small: &[u64], is_limited: bool) -> FastParameters {
    let each = |known: &Experiment, samples: &Samples| {
        if !is_limited {
            return samples.each();
        }
        let sorted = measured.sorted(|other| other == known).unwrap_or_default();
        quantile(&sorted, 0.5) / f64::from(known.depth)
    };
    let took = |bytes, depth| {
        let found = measured.samples.iter().find(|(known, _)| {
            (known.pattern, known.write) == (Pattern::Random, false)
                && (known.bytes, known.depth) == (bytes, depth)
        });
        found.map(|(known, samples)| each(known, samples)).filter(|each| *each > 0.0)
    };
    let (four, sixteen) = (quantile(small, 0.5), took(16 << 10, 1));
    let slope = sixteen.map_or(1.0, |sixteen| (sixteen - four).max(1.0));
    let unit = ((12 << 10) as f64 * 1e9 / slope).clamp(1e6, 1e11);
    let rates = measured
        .samples
        .iter()
        .filter(|(known, _)| !known.write)
        .map(|(known, samples)| known.bytes as f64 * 1e9 / each(known, samples).max(1.0));
    let link = rates.fold(1e6, f64::max);
    let speedup = took(SMALL.bytes, 32).zip(took(SMALL.bytes, 1)).map_or(1.0, |(m, o)| o / m);
    let delay = (four - SMALL.bytes as f64 * 1e9 / unit).max(four / 4.0);
    FastParameters {
        units: libm::round(speedup).clamp(1.0, 512.0) as u32,
        delay_ns: delay as u64,
        unit_bytes_per_s: unit.min(link) as u64,
        link_bytes_per_s: link as u64,
        ..FastParameters::null()
    }
}

fn read_numbers(fitted: &FastParameters, small: &[u64], targets: &[Target<'_>]) -> Vec<Number> {
    let median = Estimate::median(small);
    let number = |key, value: f64, from: String| Number {
        key,
        estimate: median.around(value),
        source: format!("M: probe, {from}"),
    };
    let experiments = format!("least squares over {} sizes and depths of reads", targets.len());
    let certain = |value: f64| Estimate { value, low: value, high: value, count: median.count };
    let whole = |key, value: u64| Number {
        key,
        estimate: certain(value as f64),
        source: format!("M: probe, {experiments}"),
    };
    vec![
        whole("device.units", u64::from(fitted.units)),
        number("device.delay", fitted.delay_ns as f64, experiments.clone()),
        number("device.unit_rate", fitted.unit_bytes_per_s as f64, experiments.clone()),
        number("device.link_rate", fitted.link_bytes_per_s as f64, experiments.clone()),
        whole("device.stripe", fitted.stripe_bytes),
        Number {
            key: "device.jitter",
            estimate: certain(fitted.jitter_sigma_ppm as f64),
            source: format!("M: probe, 16 % and 84 % of {} reads of 4 KiB", median.count),
        },
    ]
}

/// The few reads that are far beyond what jitter explains.
fn tail(small: &[u64]) -> [Number; 2] {
    let median = quantile(small, 0.5);
    let limit = median * libm::exp((4.0 * sigma(small)).max(0.4));
    let late: Vec<u64> = small.iter().copied().filter(|took| *took as f64 > limit).collect();
    let share = if late.len() >= TAIL_MIN { late.len() as f64 / small.len() as f64 } else { 0.0 };
    let delay = if share > 0.0 { quantile(&late, 0.5) - median } else { 0.0 };
    let source = format!("M: probe, {} of {} reads of 4 KiB", late.len(), small.len());
    let estimate = |value| Estimate { value, low: value, high: value, count: small.len() as u64 };
    [
        Number {
            key: "device.tail",
            estimate: estimate(libm::round(share * MILLION as f64)),
            source: source.clone(),
        },
        Number { key: "device.tail_delay", estimate: estimate(delay), source },
    ]
}

/// The numbers of writes: their delay, their drain, the bytes accepted faster before, and a flush.
fn write_numbers(measured: &Measured, fitted: &FastParameters, are_limited: bool) -> Vec<Number> {
    let Some(small) = measured.sorted(|known| *known == WRITE_SMALL) else {
        let why = "no scratch file was given";
        return vec![
            assumed("device.write_delay", 0.0, why),
            assumed("device.write_rate", 1e15, why),
            assumed("device.write_buffer", 0.0, why),
            assumed("device.flush", 1_000_000.0, why),
        ];
    };
    let median = Estimate::median(&small);
    let rate = fitted.unit_bytes_per_s.min(fitted.link_bytes_per_s) as f64;
    let delay = (median.value - WRITE_SMALL.bytes as f64 * 1e9 / rate).max(1.0);
    let mut numbers = vec![Number {
        key: "device.write_delay",
        estimate: median.around(delay),
        source: format!("M: probe, {} writes of 4 KiB", median.count),
    }];
    let long = measured.find(|known| *known == WRITE_LONG);
    let (drain, buffer, requests) =
        long.map_or((1e15, 0.0, 0), |(_, samples)| drain(samples, WRITE_LONG.bytes));
    if are_limited {
        let why = "the limit is lower than what the buffer drains at";
        numbers.push(assumed("device.write_rate", 1e15, why));
        numbers.push(assumed("device.write_buffer", 0.0, why));
    } else {
        let source = format!("M: probe, {requests} sequential writes of 1 MiB");
        let estimate = |value: f64| Estimate { value, low: value, high: value, count: requests };
        let (key, value) = ("device.write_rate", estimate(drain));
        numbers.push(Number { key, estimate: value, source: source.clone() });
        numbers.push(Number { key: "device.write_buffer", estimate: estimate(buffer), source });
    }
    let flushes = measured.sorted(|known| *known == WRITE_FLUSHED).unwrap_or_default();
    let flush = Estimate::median(&flushes);
    let source = format!("M: probe, {} flushes, each after a write of 4 KiB", flush.count);
    numbers.push(Number { key: "device.flush", estimate: flush, source });
    numbers
}

/// How fast a long stream of writes ends, and what of it was taken faster at first.
fn drain(samples: &Samples, bytes: u64) -> (f64, f64, u64) {
    let count = samples.latencies.len();
    let part = |from: usize, to: usize| {
        // With a fixed number in flight, the mean latency is in inverse proportion to the rate.
        let sum = samples.latencies[from..to].iter().sum::<u64>();
        sum as f64 / (to - from).max(1) as f64
    };
    let overall = bytes as f64 * samples.requests as f64 * 1e9
        / Duration::as_nanos(samples.elapsed).max(1) as f64;
    if count < 16 {
        return (overall, 0.0, samples.requests);
    }
    let (first, whole, last) = (part(0, count / 8), part(0, count), part(count * 3 / 4, count));
    // A buffer that is full makes the end slower than the rest.
    if last < first * 1.3 || last <= whole {
        return (overall, 0.0, samples.requests);
    }
    let (slow, fast) = (overall * whole / last, overall * whole / first);
    // Of all bytes, this many went at the fast rate and the rest at the slow one, in the time of
    // all.
    let total = (bytes * samples.requests) as f64;
    let quick = total * (1.0 / slow - 1.0 / overall) / (1.0 / slow - 1.0 / fast);
    (slow, quick * (1.0 - slow / fast), samples.requests)
}

/// Sigma of a log-normal distribution, from the quantiles a sigma away from its median.
fn sigma(sorted: &[u64]) -> f64 {
    let at = |share| libm::log(quantile(sorted, share).max(1.0));
    ((at(0.8413) - at(0.1587)) / 2.0).clamp(0.0, 2.0)
}

fn ppm(share: f64) -> u64 {
    libm::round(share * MILLION as f64) as u64
}

/// Stripes that are tried, the largest first: it explains what any other would for small requests.
const STRIPES: [u64; 8] =
    [4 << 20, 1 << 20, 256 << 10, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 4 << 10];

/// Requests of one experiment that the model makes at each try.
const TRIED_MIN: u64 = 24;
const TRIED_MAX: u64 = 640;

/// Bytes of one experiment that the model moves at each try, in the limits above.
const TRIED_BYTES: u64 = 8 << 20;

/// Rounds with one size of step.
const ROUNDS: u32 = 8;

/// Fewer late reads than these are chance.
const TAIL_MIN: usize = 3;

/// Names the model's jitter.
const MODEL_SEED: u64 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(parts: [u64; 4]) -> (f64, f64, u64) {
        let latencies: Vec<u64> = parts.iter().flat_map(|took| [*took; 16]).collect();
        let elapsed = Duration(latencies.iter().sum());
        drain(&Samples { latencies, elapsed, requests: 64, host_bound: false }, 1 << 20)
    }

    #[test]
    fn a_buffer_is_what_was_taken_faster_before_the_slow_end() {
        let (rate, buffer, _) = drained([1_000_000, 10_000_000, 10_000_000, 10_000_000]);
        assert!((rate / (1e8 * 1.048_576) - 1.0).abs() < 0.01, "{rate}");
        assert!((buffer / (16.0 * 0.9 * 1_048_576.0) - 1.0).abs() < 0.01, "{buffer}");
    }

    /// Something else was busy in between, or all the time.
    #[test]
    fn a_slow_middle_is_no_buffer() {
        for parts in [[1_000_000, 9_000_000, 9_000_000, 2_000_000], [1_000_000; 4]] {
            let (rate, buffer, count) = drained(parts);
            assert_eq!((buffer, count), (0.0, 64));
            let sum = parts.iter().sum::<u64>() as f64 / 4.0;
            assert!((rate * sum / 1_048_576e9 - 1.0).abs() < 1e-9, "{rate}");
        }
    }
}
