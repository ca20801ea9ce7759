//! A background level that is not below the limit.
//!
//! Source:     Linux mm/page-writeback.c
//! Behaviour:  flusher threads begin at the background level and writers pause from half-way
//!             between it and the limit on. A level at or above the limit counts as half of it.
//! Differs:    nothing.
//! Not for:    limits of single devices.

use super::{EffectBasis, Evidence, Finding, RemedyCost, Rule, Seen, Severity, Subject};
use crate::machine::Vm;

pub(super) const RULE: Rule = Rule {
    id: "background-level-ignored",
    about: "a background level of dirty memory that the kernel replaces",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let vm = &seen.machine.vm;
    let mut findings = Vec::new();
    if is_above(vm) {
        findings.push(Finding {
            id: RULE.id,
            subject: Subject::Machine,
            severity: Severity::Note,
            summary: "vm.dirty_background_* is not below vm.dirty_*: the kernel uses half of the \
                      limit instead."
                .to_owned(),
            evidence: levels(vm),
            gain: None,
            cost: RemedyCost::new(
                EffectBasis::Computed,
                "nothing gets worse, as the kernel uses that value already",
            ),
            remedy: vec![match vm.dirty_bytes {
                0 => format!("sysctl -w vm.dirty_background_ratio={}", vm.dirty_ratio / 2),
                bytes => format!("sysctl -w vm.dirty_background_bytes={}", bytes / 2),
            }],
        });
    }
    findings
}

/// Levels in one unit can be compared; a ratio beside bytes depends on memory.
fn is_above(vm: &Vm) -> bool {
    match (vm.dirty_bytes, vm.dirty_background_bytes) {
        (0, 0) => vm.dirty_ratio > 0 && vm.dirty_background_ratio >= vm.dirty_ratio,
        (0, _) | (_, 0) => false,
        (limit, background) => background >= limit,
    }
}

fn levels(vm: &Vm) -> Vec<Evidence> {
    let all = [
        ("vm.dirty_background_ratio", vm.dirty_background_ratio, "%"),
        ("vm.dirty_background_bytes", vm.dirty_background_bytes, "B"),
        ("vm.dirty_ratio", vm.dirty_ratio, "%"),
        ("vm.dirty_bytes", vm.dirty_bytes, "B"),
    ];
    let set = all.into_iter().filter(|(_, value, _)| *value > 0);
    set.map(|(name, value, unit)| Evidence::count(name, value, unit)).collect()
}
