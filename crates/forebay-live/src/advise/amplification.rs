//! A process that brings in far more than it uses.
//!
//! Source:     Linux mm/filemap.c, the window around a fault
//! Behaviour:  bytes brought in by bytes used, of at least 64 faults, above 8; each fault brought
//!             at most two windows, so that faults in order, which bring many, are no match.
//! Differs:    nothing.
//! Not for:    readers by calls: a call brings in what it asked for.

use super::{
    Activity, EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject,
    read_ahead_large,
};
use crate::machine::Device;
use crate::pattern::Pattern;

pub(super) const RULE: Rule = Rule {
    id: "read-amplification",
    about: "a process whose page faults read far more than it uses",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut amplifiers: Vec<&Activity> = seen.amplifiers().collect();
    amplifiers.sort_by_key(|activity| std::cmp::Reverse(activity.reads.brought));
    amplifiers.into_iter().take(FINDINGS_MAX).map(|activity| finding(seen, activity)).collect()
}

fn finding(seen: &Seen, activity: &Activity) -> Finding {
    let reads = activity.reads;
    let ratio = reads.amplification_tenths().unwrap_or(0);
    let (file, device) = file(seen, activity);
    let mut evidence = vec![
        Evidence::count("read_bytes", reads.brought >> 10, "KiB"),
        Evidence::count("used at most", reads.used >> 10, "KiB"),
        Evidence::count("major faults", reads.faults, ""),
    ];
    if let Some((device, window)) = device.and_then(|it| Some((it, it.read_ahead_kb()?))) {
        let name = format!("read_ahead_kb of {}", device.name);
        evidence.push(Evidence::count(&name, window, "KiB"));
    }
    let (since, severity) = if seen.watched > 0 {
        evidence.push(Evidence::count("watched", seen.watched, "s"));
        ("in this time", Severity::Problem)
    } else {
        ("since it began", Severity::Risk)
    };
    let mut remedy = vec![
        "in the program: madvise(addr, length, MADV_RANDOM) on the mapping, or pread(2) instead"
            .to_owned(),
    ];
    if let Some(device) = device {
        remedy.extend(super::remedy::window(device, read_ahead_large::target_kb(seen, device)));
    }
    Finding {
        id: RULE.id,
        subject: Subject::Process {
            pid: activity.process.pid,
            name: activity.process.name.clone(),
            file,
        },
        severity,
        summary: format!(
            "Page faults read {} times the bytes that the process can have used {since}: each \
             random fault reads a whole window around one page.",
            ratio / 10
        ),
        evidence,
        gain: Some(Gain {
            ratio_tenths: ratio,
            basis: "bytes read by bytes used; faults per second gain as much where bandwidth is \
                    the limit, and less where it is not"
                .to_owned(),
            known: EffectBasis::MeasuredHere,
        }),
        cost: RemedyCost::new(
            EffectBasis::NotMeasured,
            "what the process reads in order is not read ahead",
        ),
        remedy,
    }
}

/// The file that it is most likely about: one whose events show faults in no order, or else its
/// largest mapping; and its device.
fn file<'a>(seen: &'a Seen, activity: &Activity) -> (Option<String>, Option<&'a Device>) {
    let traced = seen
        .files
        .iter()
        .find(|file| file.pid == activity.process.pid && file.pattern == Pattern::RandomFaults);
    if let Some(traced) = traced {
        let path = traced.path.clone().unwrap_or_else(|| traced.key.to_string());
        return (Some(path), seen.machine.device_of(traced.key.dev));
    }
    let mapped = activity.files.iter().find(|file| file.mapped > 0 && file.key.is_some());
    let device = mapped.and_then(|file| file.key).and_then(|key| seen.machine.device_of(key.dev));
    (mapped.map(|file| file.path.clone()), device)
}

/// Whether a process brings in far more than it uses, by faults in no order.
pub(super) fn is_amplifier(seen: &Seen, activity: &Activity) -> bool {
    let reads = activity.reads;
    // Since it began, a program has faulted for its own code, which it goes on to use unseen.
    let (faults, brought) = if seen.watched > 0 { (64, 4 << 20) } else { (4_096, 1 << 30) };
    let per_fault = reads.brought / reads.faults.max(1);
    reads.faults >= faults
        && reads.brought >= brought
        && reads.amplification_tenths().is_some_and(|ratio| ratio >= RATIO_TENTHS)
        && per_fault <= window_max(seen, activity).saturating_mul(2)
}

/// The largest window of the devices that its mapped files lie on, in bytes.
fn window_max(seen: &Seen, activity: &Activity) -> u64 {
    let keys = activity.files.iter().filter(|file| file.mapped > 0).filter_map(|file| file.key);
    let devices = keys.filter_map(|key| seen.machine.device_of(key.dev));
    let kib = devices.filter_map(Device::read_ahead_kb).max().unwrap_or(0);
    kib.saturating_mul(1024)
}

/// Readers by calls stay near 1, faults in order below 1 by the file's own pages.
const RATIO_TENTHS: u64 = 80;

/// More processes than a page shows.
const FINDINGS_MAX: usize = 8;
