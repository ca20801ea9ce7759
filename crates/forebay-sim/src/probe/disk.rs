//! The numbers of a disk, or of several in an array, in closed form.
//!
//! ```text
//!   sequential 4 KiB     command + 4 KiB / interface
//!   sequential 16 KiB    command + 16 KiB / interface
//!   pairs, d apart       command + seek(d) + rotation / 2 + 4 KiB / rate
//!   their variance       rotation^2 / 12 + (jitter * mean)^2
//!   streams              bytes / rate(place)
//! ```

use super::estimate::quantile;
use super::fitted::{DeviceFit, Number, Unfit, assumed};
use super::{
    APART, Estimate, Measured, Pattern, SEQUENTIAL_SMALL, SMALL, STREAMS, WRITE_SCATTERED,
};
use crate::machine::DeviceKind;
use crate::rng::MILLION;

/// Mean and variance of some latencies, and how many there are.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    variance: f64,
    count: u64,
}

/// A disk, or an array of `members`.
pub(super) fn fit(measured: &Measured, members: f64, reason: String) -> Result<DeviceFit, Unfit> {
    let missing = |bytes| Unfit::Missing { bytes, depth: 1 };
    let median = |experiment: super::Experiment| {
        let sorted = measured.sorted(|known| *known == experiment);
        sorted.map(|sorted| Estimate::median(&sorted)).ok_or(missing(experiment.bytes))
    };
    let of_pair = |experiment: super::Experiment| {
        let sorted = measured.sorted(|known| *known == experiment);
        sorted.map(|sorted| moments(&sorted)).ok_or(missing(experiment.bytes))
    };
    let random = of_pair(SMALL)?;
    let (outer, inner) = (median(STREAMS[0])?, median(STREAMS[1])?);
    let rate = |took: Estimate| STREAMS[0].bytes as f64 * 1e9 / took.value.max(1.0);
    let (rate_outer, rate_inner) = (rate(outer) / members, rate(inner) / members);
    // The stream lies at 95 % of the span.
    let inner_share = 1.0 - (1.0 - rate_inner / rate_outer).max(0.0) / 0.95;

    let (four, sixteen) = (median(SEQUENTIAL_SMALL[0])?, median(SEQUENTIAL_SMALL[1])?);
    let more = (SEQUENTIAL_SMALL[1].bytes - SEQUENTIAL_SMALL[0].bytes) as f64;
    let interface = more * 1e9 / (sixteen.value - four.value).max(1.0);
    let interface = interface.clamp(rate_outer, 1e12);
    let command = (four.value - SMALL.bytes as f64 * 1e9 / interface).max(1.0);
    let jitter = spread(measured, command);

    // Two requests of a pair meet on one member of an array now and then only.
    let alone = |pair: Moments| {
        let mean = members * pair.mean - (members - 1.0) * random.mean;
        Moments { mean, ..pair }
    };
    let [near, third, far] = [of_pair(APART[0])?, of_pair(APART[1])?, of_pair(APART[2])?];
    let rotation = rotation(near, jitter);
    let bytes = SMALL.bytes as f64 * 1e9 / (rate_outer * (1.0 + inner_share) / 2.0);
    let seek = |pair: Moments| (alone(pair).mean - command - rotation / 2.0 - bytes).max(0.0);
    let root = libm::sqrt(3.0 * distance(measured.span));
    let seek_third = seek(third);
    let seek_min = ((seek(near) - seek_third * root) / (1.0 - root)).clamp(0.0, seek_third);
    let seek_full = (seek_third + (seek(far) - seek_third) / 0.97).max(seek_third);
    let of_pairs = Estimate {
        value: near.mean,
        low: near.mean - 1.96 * deviation(near),
        high: near.mean + 1.96 * deviation(near),
        count: near.count,
    };

    let pairs = "pairs of reads of 4 KiB";
    let mut numbers = vec![
        measured_number("device.rate_outer", outer, rate_outer, "reads of 1 MiB at the begin"),
        measured_number("device.inner_share", inner, inner_share * MILLION as f64, "and at 95 %"),
        measured_number("device.interface_rate", four, interface, "sequential 16 and 4 KiB"),
        measured_number("device.command", four, command, "sequential reads of 4 KiB"),
        measured_number("device.seek_min", of_pairs, seek_min, pairs),
        measured_number("device.seek_third", of_pairs, seek_third, pairs),
        measured_number("device.seek_full", of_pairs, seek_full, pairs),
        measured_number("device.rotation", of_pairs, rotation, "the variance of near pairs"),
        assumed("device.segment", 524_288.0, "a common part of a drive's buffer"),
        measured_number("device.jitter", four, jitter * MILLION as f64, "spread of commands"),
        write_cache(measured),
    ];
    // Seeks are ordered in a machine file, their ranges too.
    order(&mut numbers, "device.seek_min", "device.seek_third");
    order(&mut numbers, "device.seek_third", "device.seek_full");
    let kind = if members >= 2.0 { DeviceKind::Raid0 } else { DeviceKind::Hdd };
    if kind == DeviceKind::Raid0 {
        let speedup = Estimate { value: members, low: members, high: members, count: random.count };
        numbers.push(Number {
            key: "device.members",
            estimate: speedup,
            source: "M: probe, requests at a time".to_owned(),
        });
        numbers.push(assumed("device.stripe_unit", 65_536.0, "a common stripe unit"));
        let total = rate(outer) * 1.3;
        numbers.push(assumed("device.bus_rate", total, "more than all members deliver"));
        numbers.push(assumed("cpu.put_char", 0.0, "not measured"));
        numbers.push(assumed("cpu.get_char", 0.0, "not measured"));
    }
    Ok(DeviceFit { kind, reason, numbers })
}

/// The share of the span that near pairs lie apart.
fn distance(span: u64) -> f64 {
    let Pattern::Apart(ppm) = APART[0].pattern else { unreachable!("they are pairs") };
    (f64::from(ppm) / MILLION as f64).max(SMALL.bytes as f64 / span as f64)
}

/// Sigma of a command's time, from its quantiles.
fn spread(measured: &Measured, command: f64) -> f64 {
    let sorted = measured.sorted(|known| *known == SEQUENTIAL_SMALL[0]).unwrap_or_default();
    let fixed = quantile(&sorted, 0.5) - command;
    let at = |share| (quantile(&sorted, share) - fixed).max(1.0);
    ((libm::log(at(0.84)) - libm::log(at(0.16))) / 2.0).clamp(0.0, 2.0)
}

/// A turn, from the variance of reads that wait for a uniform part of it.
fn rotation(near: Moments, jitter: f64) -> f64 {
    let noise = jitter * near.mean;
    libm::sqrt(12.0 * (near.variance - noise * noise).max(0.0))
}

/// The bytes that scattered writes go fast for.
fn write_cache(measured: &Measured) -> Number {
    let found = measured.find(|known| *known == WRITE_SCATTERED);
    let Some((experiment, samples)) = found else {
        return assumed("device.write_cache", 1_048_576.0, "no scratch file was given");
    };
    let early = &samples.latencies[..samples.latencies.len().min(8)];
    let usual = early.iter().copied().min().unwrap_or(1) as f64;
    let jump = samples.latencies.iter().position(|took| *took as f64 > usual * 8.0);
    let writes = jump.unwrap_or(samples.latencies.len()) as u64;
    let value = (writes * experiment.bytes) as f64;
    let estimate = Estimate { value, low: value / 2.0, high: value * 2.0, count: samples.requests };
    let source = "M: probe, scattered writes of 16 KiB until one was slow".to_owned();
    Number { key: "device.write_cache", estimate, source }
}

/// Those that are more than four times the median are left out.
fn moments(sorted: &[u64]) -> Moments {
    let limit = quantile(sorted, 0.5) * 4.0;
    let kept: Vec<f64> = sorted.iter().map(|took| *took as f64).filter(|t| *t <= limit).collect();
    let count = kept.len().max(1) as f64;
    let mean = kept.iter().sum::<f64>() / count;
    let variance = kept.iter().map(|took| (took - mean) * (took - mean)).sum::<f64>() / count;
    Moments { mean, variance, count: kept.len() as u64 }
}

/// The standard deviation of a mean.
fn deviation(moments: Moments) -> f64 {
    libm::sqrt(moments.variance / moments.count.max(1) as f64)
}

fn measured_number(key: &'static str, of: Estimate, value: f64, from: &str) -> Number {
    let source = format!("M: probe, {from}, {} of them", of.count);
    Number { key, estimate: of.around(value), source }
}

/// Keeps the range of the lesser number below that of the greater.
fn order(numbers: &mut [Number], lesser: &str, greater: &str) {
    let of = |name: &str| numbers.iter().position(|number| number.key == name);
    let (Some(lesser), Some(greater)) = (of(lesser), of(greater)) else { return };
    let border = (numbers[lesser].estimate.value + numbers[greater].estimate.value) / 2.0;
    let high = &mut numbers[lesser].estimate.high;
    *high = high.min(border);
    let low = &mut numbers[greater].estimate.low;
    *low = low.max(border);
}
