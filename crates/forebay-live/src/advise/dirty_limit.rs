//! Dirty limits that are many seconds of a device's drain.
//!
//! Source:     Linux mm/page-writeback.c; the kernel's documentation, admin-guide/sysctl/vm.rst
//! Behaviour:  what may be unwritten by what the device takes in a second is the time for which a
//!             copy seems done and is not, and for which another's fsync waits behind it.
//! Differs:    nothing.
//! Not for:    devices whose drain is not known: without a measurement there is no finding.

use super::{
    EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject, remedy, seeks,
};
use crate::machine::{Device, Kind, Machine};
use crate::model::DeviceModel;

pub(super) const RULE: Rule = Rule {
    id: "dirty-limit-too-long",
    about: "more dirty data than a device writes in a few seconds",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, mount) in seen.mounted() {
        // Sticks and cards are a rule of their own.
        if device.removable || mount.has("ro") || device.kind == Kind::Memory {
            continue;
        }
        let (Some(limit), Some(drain)) = (limit(&seen.machine, device), drain(seen, device)) else {
            continue;
        };
        let seconds = limit / drain.rate.max(1);
        if seconds > SECONDS_MAX {
            let subject = Subject::device(device, Some(mount));
            findings.push(finding(seen, device, subject, limit, drain, seconds));
        }
    }
    findings
}

fn finding(
    seen: &Seen,
    device: &Device,
    subject: Subject,
    limit: u64,
    drain: Drain,
    seconds: u64,
) -> Finding {
    let wanted = cap(drain.rate);
    let mut evidence = vec![
        Evidence::count("dirty limit", limit >> 20, "MiB"),
        Evidence::count(drain.from, drain.rate / 1_000_000, "MB/s"),
        Evidence::count("limit in seconds of drain", seconds, "s"),
    ];
    if seen.watched > 0 {
        evidence.push(Evidence::count("watched", seen.watched, "s"));
    }
    Finding {
        id: RULE.id,
        subject,
        severity: Severity::Risk,
        summary: format!(
            "Up to {seconds} s of writes wait in memory. A copy reports success that long before \
             its data is on disk, and an fsync of another process waits behind it."
        ),
        evidence,
        gain: Some(gain(limit, wanted, drain.rate)),
        cost: RemedyCost::of_limit(),
        remedy: remedies(&seen.machine, device, wanted),
    }
}

/// How much of a device's writes may be unwritten, in bytes: its share of the limit in force.
pub(super) fn limit(machine: &Machine, device: &Device) -> Option<u64> {
    let bdi = device.bdi.as_ref()?;
    let all = machine.dirty_threshold?;
    // Without a strict limit a share does not bind while the machine's own limit is far.
    if bdi.strict_limit != Some(true) {
        return Some(all);
    }
    let millionths = bdi.max_ratio_fine.unwrap_or(bdi.max_ratio.saturating_mul(10_000));
    let share = u128::from(all) * u128::from(millionths.min(1_000_000)) / 1_000_000;
    u64::try_from(share).ok()
}

/// What a device takes in a second and how that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) rate: u64,
    pub(super) from: &'static str,
}

/// The drain as it was watched, or else as the kernel estimates it after a gibibyte, or else what
/// its bus carries or a disk writes at most.
pub(super) fn drain(seen: &Seen, device: &Device) -> Option<Drain> {
    let watched = seen.model(device).and_then(DeviceModel::drain);
    if let Some(known) = watched {
        return Some(Drain { rate: known.value, from: "drain while busy, watched" });
    }
    // The estimate begins at 100 MB/s whatever the device is.
    let estimate = seen.bdis.iter().find(|bdi| bdi.number == device.number);
    if let Some(bdi) = estimate.filter(|bdi| bdi.written >= WARM && bdi.bandwidth > 0) {
        return Some(Drain { rate: bdi.bandwidth, from: "drain, the kernel's estimate" });
    }
    let bus = device.bus_rate.map(|rate| Drain { rate, from: "drain at most, by its bus" });
    // A volume of a controller seeks too, and is many disks.
    let is_one_disk = seeks(device) && device.model.starts_with("ATA ");
    let disk = Drain { rate: DISK_MAX, from: "drain at most, one disk that seeks" };
    bus.or(is_one_disk.then_some(disk))
}

/// A limit in bytes: two seconds of drain, and room for a few large requests.
pub(super) fn cap(drain: u64) -> u64 {
    (drain.saturating_mul(2)).max(CAP_MIN)
}

pub(super) fn gain(limit: u64, wanted: u64, drain: u64) -> Gain {
    let seconds = |bytes: u64| bytes / drain.max(1);
    Gain {
        ratio_tenths: (limit / (wanted / 10).max(1)).max(10),
        basis: format!(
            "what is unwritten is on disk after {} s instead of {} s, the limit divided by the \
             drain",
            seconds(wanted),
            seconds(limit)
        ),
        known: EffectBasis::Computed,
    }
}

/// Lines that limit a device: by a strict limit of its own, or, before Linux 6.2, for all.
pub(super) fn remedies(machine: &Machine, device: &Device, wanted: u64) -> Vec<String> {
    let Some(path) = device.bdi_path() else { return Vec::new() };
    let fine = device.bdi.as_ref().is_some_and(|bdi| bdi.max_ratio_fine.is_some());
    let strict = device.bdi.as_ref().is_some_and(|bdi| bdi.strict_limit.is_some());
    if !(fine && strict) {
        // Others share this limit: fast devices need room too.
        let wanted = wanted.max(GLOBAL_MIN);
        return vec![
            format!("sysctl -w vm.dirty_background_bytes={}", wanted / 4),
            format!(
                "sysctl -w vm.dirty_bytes={wanted}  # for all devices; Linux 6.2 has limits for one"
            ),
        ];
    }
    let threshold = machine.dirty_threshold.unwrap_or(0).max(1);
    let millionths = u128::from(wanted) * 1_000_000 / u128::from(threshold);
    let millionths = millionths.clamp(1, 1_000_000);
    let mut lines = vec![
        remedy::now(&format!("{path}/max_ratio_fine"), millionths),
        remedy::now(&format!("{path}/strict_limit"), 1),
    ];
    if device.queue.is_some() {
        let attributes =
            [("bdi/max_bytes", wanted.to_string()), ("bdi/strict_limit", "1".to_owned())];
        lines.extend(remedy::udev(device, &attributes));
    }
    lines
}

/// Longer than the flusher's period and than what people take for a hiccup.
const SECONDS_MAX: u64 = 10;

/// What a disk with one arm reads and writes at most, on its outermost tracks, in bytes a second.
const DISK_MAX: u64 = 300_000_000;

/// Below this a device's queue runs empty while writers pause.
const CAP_MIN: u64 = 16 << 20;

/// Below this file systems stall on limits for all devices.
const GLOBAL_MIN: u64 = 64 << 20;

/// So much was written that the kernel's estimate has settled.
const WARM: u64 = 1 << 30;
