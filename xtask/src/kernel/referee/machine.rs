//! The simulator's machine for a comparison: the lab's device, and a processor that is free but
//! for what the lab prices.

use anyhow::{Context, Result};
use forebay_core::units::KIB;
use forebay_sim::machine::Machine;
use forebay_sim::scenario::PolicySet;

/// What experiments set on top of a machine without prices.
pub(super) fn machine(settings: &[(&str, &str)]) -> Result<Machine> {
    let mut machine = Machine::builtin("nvme-2026")?;
    for (key, value) in FREE.iter().chain(settings) {
        machine.set(key, value).with_context(|| format!("cannot set {key}"))?;
    }
    Ok(machine)
}

/// The policies of the machine's kernel, some of them changed.
pub(super) fn policies(
    machine: &Machine,
    change: impl FnOnce(&mut PolicySet) -> Result<()>,
) -> Result<PolicySet> {
    let kernel = machine.kernel();
    let mut policies = PolicySet::of(&kernel).map_err(|(_, error)| error)?;
    change(&mut policies)?;
    Ok(policies)
}

/// The value of a key in one record of the init.
pub(super) fn number(record: &str, key: &str) -> Result<f64> {
    let mut pairs = record.split(' ').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| *name == key);
    let (_, value) = found.with_context(|| format!("the record has no {key}: {record}"))?;
    value.parse().with_context(|| format!("{key} is no number: {record}"))
}

/// How far two numbers are apart, in percent of the first.
pub(super) fn percent(one: f64, other: f64) -> f64 {
    if one == other { 0.0 } else { (other - one) * 100.0 / one }
}

/// Bytes of the lab's device.
pub(super) const DEVICE_BYTES: u64 = 256 * KIB * KIB;

/// No time for the processor, one unit without jitter.
const FREE: &[(&str, &str)] = &[
    ("memory.page_cache", "448MiB"),
    ("cpu.cores", "1"),
    ("cpu.syscall", "1ns"),
    ("cpu.page_lookup", "0ns"),
    ("cpu.page_alloc", "0ns"),
    ("cpu.copy_rate", "900000GB/s"),
    ("cpu.context_switch", "0ns"),
    ("cpu.interrupt", "0ns"),
    ("cpu.request_submit", "0ns"),
    ("cpu.page_dirty", "0ns"),
    ("cpu.flush_page", "0ns"),
    ("cpu.flush_scan", "0ns"),
    ("kernel.readahead", "linux-6.12"),
    ("kernel.large_folios", "0"),
    ("kernel.max_sectors_kb", "1280"),
    ("kernel.elevator", "mq-deadline"),
    ("layout.placement", "contiguous"),
    ("layout.span", "1ratio"),
    ("device.capacity", "257MiB"),
    ("device.units", "1"),
    ("device.jitter", "0"),
    ("device.unit_rate", "900000GB/s"),
    ("device.link_rate", "900000GB/s"),
    ("device.stripe", "1GiB"),
    ("device.flush", "0ns"),
];
