//! Sticks and cards without a strict limit of their own.
//!
//! Source:     the kernel's documentation, ABI/testing/sysfs-class-bdi
//! Behaviour:  a stick takes 5 to 40 MB/s, and its user pulls it out when the copy seems done.
//!             `strict_limit` makes a device's share bind even on a machine that is otherwise idle.
//! Differs:    nothing.
//! Not for:    what is mounted read-only.

use super::{
    EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject, dirty_limit,
    remedy,
};
use crate::machine::{Device, Mount};

pub(super) const RULE: Rule = Rule {
    id: "removable-without-strict-limit",
    about: "a USB stick or card for which all of memory may hold dirty pages",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, mount) in seen.mounted() {
        let Some(limit) = dirty_limit::limit(&seen.machine, device) else { continue };
        let enough = dirty_limit::drain(seen, device).map_or(CAP, |it| dirty_limit::cap(it.rate));
        if device.removable && !mount.has("ro") && !mount.has("sync") && limit / 2 > enough {
            findings.push(finding(seen, device, mount, limit));
        }
    }
    findings
}

fn finding(seen: &Seen, device: &Device, mount: &Mount, limit: u64) -> Finding {
    let mut evidence = vec![
        Evidence::word("mounted on", &mount.point.to_string_lossy()),
        Evidence::count("dirty limit", limit >> 20, "MiB"),
    ];
    if !device.model.is_empty() {
        evidence.push(Evidence::word("model", &device.model));
    }
    let drain = dirty_limit::drain(seen, device);
    let wanted = drain.map_or(CAP, |drain| dirty_limit::cap(drain.rate));
    let gain = match drain {
        Some(drain) => {
            evidence.push(Evidence::count(drain.from, drain.rate / 1_000_000, "MB/s"));
            dirty_limit::gain(limit, wanted, drain.rate)
        }
        None => Gain {
            ratio_tenths: 153,
            basis:
                "longest fsync of another file during a copy of 500 MB to 20 MB/s: 1.7 s with a \
                    strict limit instead of 26.0 s"
                    .to_owned(),
            known: EffectBasis::MeasuredElsewhere,
        },
    };
    if device.bdi.as_ref().is_some_and(|bdi| bdi.strict_limit.is_none()) {
        evidence.push(Evidence::word("strict_limit", "not in this kernel (Linux 6.2 and later)"));
    } else {
        let strict = device.bdi.as_ref().and_then(|bdi| bdi.strict_limit) == Some(true);
        evidence.push(Evidence::count("strict_limit", u64::from(strict), ""));
    }
    let mut lines = dirty_limit::remedies(&seen.machine, device, wanted);
    if mount.kind == "vfat" && !mount.has("flush") {
        lines.push(format!("mount -o remount,flush {}", remedy::quoted(&mount.point)));
    }
    Finding {
        id: RULE.id,
        subject: Subject::device(device, Some(mount)),
        severity: Severity::Risk,
        summary: "A copy to it reports success while most of the data is still in memory. Until \
                  it is written, the device must not be removed, and an fsync of another process \
                  waits."
            .to_owned(),
        evidence,
        gain: Some(gain),
        cost: RemedyCost::of_limit(),
        remedy: lines,
    }
}

/// Two seconds of a stick whose drain is unknown.
const CAP: u64 = 32 << 20;
