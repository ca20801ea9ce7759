//! Windows so large that faults in no order drown in what they bring in.
//!
//! Source:     Linux 6.17 and later, block/blk-settings.c; mm/filemap.c
//! Behaviour:  a device that calls itself rotational and names no best size begins with twice its
//!             largest request, one that names a best size with twice that. A fault in no order
//!             reads the whole window.
//! Differs:    disks that seek may have windows of up to 4 MiB before it is a finding.
//! Not for:    files that are read from begin to end: they gain from large windows.

use super::{
    EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject, remedy, seeks,
};
use crate::machine::{Device, Kind, Queue};

pub(super) const RULE: Rule = Rule {
    id: "read-ahead-too-large",
    about: "a read-ahead window that random page faults pay for",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, mount) in seen.mounted() {
        let Some(window) = device.read_ahead_kb() else { continue };
        let most = if seeks(device) { SEEKING_KB } else { LARGE_KB };
        let remote = matches!(device.kind, Kind::Network | Kind::Fuse | Kind::Memory);
        if window > most && !remote {
            findings.push(finding(seen, device, Subject::device(device, Some(mount)), window));
        }
    }
    findings
}

fn finding(seen: &Seen, device: &Device, subject: Subject, window: u64) -> Finding {
    let target = target_kb(seen, device);
    let mut evidence = vec![Evidence::count("read_ahead_kb", window, "KiB")];
    if let Some((name, value)) = device.queue.as_ref().and_then(|it| origin(seen, it, window)) {
        evidence.push(Evidence::count(name, value, "KiB"));
    }
    evidence.push(Evidence::word("kernel", &seen.machine.kernel));
    let amplifiers = seen.amplifiers().filter(|it| seen.reads_from(it, device)).count() as u64;
    if amplifiers > 0 {
        evidence.push(Evidence::count("affected processes", amplifiers, ""));
    }
    Finding {
        id: RULE.id,
        subject,
        severity: if amplifiers > 0 && seen.watched > 0 {
            Severity::Problem
        } else {
            Severity::Risk
        },
        summary: format!(
            "Each random page fault reads {window} KiB. Databases and search engines that map \
             their files read far more than they use, and unused pages evict used ones."
        ),
        evidence,
        gain: Some(gain(device, window, target)),
        cost: RemedyCost::of_smaller_window(target),
        remedy: remedy::window(device, target),
    }
}

/// Where the window comes from, if the kernel's own rule gives it.
fn origin(seen: &Seen, queue: &Queue, window: u64) -> Option<(&'static str, u64)> {
    let optimal = queue.optimal_io_size / 1024;
    if optimal > 0 && window == optimal.saturating_mul(2) {
        return Some(("limit: twice the device's optimal I/O size,", optimal));
    }
    let rotational = queue.rotational && optimal == 0 && seen.machine.version() >= (6, 17);
    (rotational && window == queue.max_sectors_kb.saturating_mul(2)).then_some((
        "limit: twice the largest request, as the disk is flagged rotational,",
        queue.max_sectors_kb,
    ))
}

/// The window that should be there: what was learnt, or the kernel's default of old.
pub(super) fn target_kb(seen: &Seen, device: &Device) -> u64 {
    let learnt = seen.model(device).filter(|model| model.request_rate().is_some());
    let learnt = learnt.map(|model| model.window_for_faults() >> 10);
    learnt.unwrap_or(DEFAULT_KB)
}

fn gain(device: &Device, window: u64, target: u64) -> Gain {
    let measured = MEASURED.iter().find(|(least, _)| window >= *least);
    match measured {
        Some(&(at, faults)) if device.kind == Kind::Virtual && target == DEFAULT_KB => Gain {
            ratio_tenths: MEASURED_SMALL * 10 / faults,
            basis: format!(
                "random page faults per second on a virtio disk, Linux 6.18: {faults} at {at} \
                 KiB, {MEASURED_SMALL} at 128 KiB (medians of 5)"
            ),
            known: EffectBasis::MeasuredElsewhere,
        },
        Some(_) | None => Gain {
            ratio_tenths: window.saturating_mul(10) / target.max(1),
            basis: format!(
                "bytes read by a random page fault: {target} KiB instead of {window} KiB"
            ),
            known: EffectBasis::Computed,
        },
    }
}

/// Above this a fault on a device that does not seek takes longer than 8 ms at 131 MB/s.
const LARGE_KB: u64 = 1024;

/// Since Linux 6.17 disks that seek begin with twice their largest request, 2560 KiB for most; a
/// stream gains there what a fault loses.
const SEEKING_KB: u64 = 4096;

/// The kernel's default before it looked at the device.
const DEFAULT_KB: u64 = 128;

/// Windows in KiB and page faults in no order a second, cold, on a virtio disk of Linux 6.18.
const MEASURED: [(u64, u64); 2] = [(8192, 146), (2560, 326)];

/// The same at 128 KiB.
const MEASURED_SMALL: u64 = 4391;
