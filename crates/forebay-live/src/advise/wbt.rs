//! Throttling of background writes that is off, or waits too long.
//!
//! Source:     Linux block/blk-wbt.c; the kernel's documentation, ABI/stable/sysfs-block
//! Behaviour:  while the fastest read of 100 ms takes longer than the target, fewer background
//!             writes go out. The target is 2 ms, for disks that call themselves rotational 75.
//! Differs:    nothing.
//! Not for:    BFQ, which switches it off for reasons of its own.

use super::rotational::SLOW_TARGET_US;
use super::{
    EffectBasis, Evidence, Finding, RemedyCost, Rule, Seen, Severity, Subject, remedy, seeks,
};
use crate::machine::Kind;

pub(super) const RULE: Rule = Rule {
    id: "writeback-throttling-mismatch",
    about: "throttling of background writes that is off, or waits for reads of 75 ms",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, queue) in seen.queues() {
        let Some(target) = queue.wbt_lat_usec else { continue };
        // A stick's flag is not believed either, and its reads are not latency-critical.
        let explained = queue.rotational && (device.kind == Kind::Virtual || device.removable);
        let summary = if target == 0 && queue.scheduler != "bfq" {
            "Nothing holds background writes back for reads: a copy fills the device's queue."
        } else if target >= SLOW_TARGET_US && !seeks(device) && !explained {
            "Background writes are held back only when reads take 75 ms, which suits disks that \
             seek."
        } else {
            continue;
        };
        let Some(path) = device.queue_path() else { continue };
        findings.push(Finding {
            id: RULE.id,
            subject: Subject::device(device, None),
            severity: Severity::Risk,
            summary: summary.to_owned(),
            evidence: vec![
                Evidence::count("wbt_lat_usec", target, "us"),
                Evidence::count("rotational", u64::from(queue.rotational), ""),
                Evidence::word("scheduler", &queue.scheduler),
            ],
            gain: None,
            cost: RemedyCost::new(
                EffectBasis::NotMeasured,
                "writes take longer while reads are waited for",
            ),
            remedy: vec![
                remedy::now(
                    &format!("{path}/wbt_lat_usec"),
                    if seeks(device) { 75_000 } else { 2_000 },
                ) + "  # stays until the device comes anew, whatever is written later",
            ],
        });
    }
    findings
}
