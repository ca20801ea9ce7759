//! Devices whose requests are not counted.
//!
//! Source:     the kernel's documentation, ABI/stable/sysfs-block
//! Behaviour:  without `iostats` `/proc/diskstats` stands still, and neither this program nor any
//!             other sees what the device does.
//! Differs:    nothing.
//! Not for:    memory as a device, which has it off from the start.

use super::{EffectBasis, Evidence, Finding, RemedyCost, Rule, Seen, Severity, Subject, remedy};
use crate::machine::Kind;

pub(super) const RULE: Rule =
    Rule { id: "requests-not-counted", about: "a device whose requests are not counted", find };

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, queue) in seen.queues() {
        let Some(path) = device.queue_path() else { continue };
        if queue.iostats || device.kind == Kind::Memory || device.kind == Kind::Stacked {
            continue;
        }
        findings.push(Finding {
            id: RULE.id,
            subject: Subject::device(device, None),
            severity: Severity::Note,
            summary: "iostats is off: load, bandwidth and latency of the device are unknown."
                .to_owned(),
            evidence: vec![Evidence::count("iostats", 0, "")],
            gain: None,
            cost: RemedyCost::new(EffectBasis::NotMeasured, "the kernel counts each request"),
            remedy: vec![
                remedy::now(&format!("{path}/iostats"), 1),
                // Writing that knob resets the window.
                remedy::now(&format!("{path}/read_ahead_kb"), queue.read_ahead_kb),
            ],
        });
    }
    findings
}
