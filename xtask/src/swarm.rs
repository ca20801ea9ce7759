//! Random scenarios against the engine, each named by its seed.
//!
//! The seed is a number or a commit's hash; without one it is the hash of the commit that is
//! checked out, so that each commit is tested differently and still reproducibly.

use std::panic;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use forebay_sim::checked::Counts;
use forebay_sim::mounted::MountCounts;
use forebay_sim::swarm::{self, DiskCounts};

#[cfg(not(feature = "seeded-bugs"))]
use crate::process::{cargo, exit_code};
use crate::process::{command, output_of, say};

/// The arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The first seed: a number or a commit's hash
    #[arg(long)]
    pub(crate) seed: Option<String>,
    /// How many scenarios, one seed after the other
    #[arg(long, default_value_t = 200)]
    pub(crate) runs: u64,
    /// Run this many random mounts of images instead, one seed after the other
    #[arg(long, value_name = "N", conflicts_with = "runs")]
    pub(crate) mounts: Option<u64>,
    /// Run this many random served disks instead, one seed after the other
    #[arg(long, value_name = "N", conflicts_with_all = ["runs", "mounts"])]
    pub(crate) disks: Option<u64>,
    /// Seed bugs in the core, one after the other, and show the rule that finds each
    #[arg(long, conflicts_with_all = ["runs", "mounts", "disks"])]
    pub(crate) bugs: bool,
}

/// Runs the scenarios up to the first that fails.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    ensure!(arguments.runs > 0, "--runs takes a number from 1 on");
    let typed = match &arguments.seed {
        Some(seed) => seed.clone(),
        None => head()?.unwrap_or_else(|| "1".to_owned()),
    };
    let first = seed(&typed).with_context(|| format!("'{typed}' is no number and no hash"))?;
    if let Some(mounts) = arguments.mounts {
        return run_mounts(first, mounts);
    }
    if arguments.bugs {
        return run_bugs(first);
    }
    if let Some(disks) = arguments.disks {
        return run_disks(first, disks);
    }
    say(&format!("swarm: {} scenarios from seed {first} on", arguments.runs))?;
    let started = Instant::now();
    let mut sum = Counts::default();
    let (mut calls, mut errors, mut evicted) = (0, 0, 0);
    for number in 0..arguments.runs {
        let seed = first.wrapping_add(number);
        let Ok(one) = panic::catch_unwind(|| swarm::run(seed)) else {
            say(&format!("swarm: seed {seed} failed"))?;
            say(&format!("repeat: cargo xtask swarm --seed {seed} --runs 1"))?;
            return Ok(1);
        };
        let Counts { inputs, cuts, lost, syncs, told } = one.counts;
        sum.inputs += inputs;
        sum.cuts += cuts;
        sum.lost += lost;
        sum.syncs += syncs;
        sum.told += told;
        calls += one.calls;
        errors += one.errors;
        evicted += one.evicted;
    }
    let Counts { inputs, cuts, lost, syncs, told } = sum;
    say(&format!(
        "swarm: {syncs} syncs and durable writes kept their promise, {told} told of an error; \
         {cuts} power cuts lost {lost} pages without a promise"
    ))?;
    say(&format!(
        "swarm: seeds {first} to {} clean: {calls} calls, {errors} with errors, \
         {inputs} inputs, {evicted} evictions, each scenario twice, {:.1} s",
        first.wrapping_add(arguments.runs - 1),
        started.elapsed().as_secs_f64(),
    ))?;
    Ok(0)
}

/// Runs random mounts up to the first that fails.
fn run_mounts(first: u64, runs: u64) -> Result<u8> {
    ensure!(runs > 0, "--mounts takes a number from 1 on");
    say(&format!("swarm: {runs} mounts from seed {first} on"))?;
    let started = Instant::now();
    let mut sum = MountCounts::default();
    for number in 0..runs {
        let seed = first.wrapping_add(number);
        let Ok(one) = panic::catch_unwind(|| swarm::run_mount(seed)) else {
            say(&format!("swarm: mount {seed} failed"))?;
            say(&format!("repeat: cargo xtask swarm --seed {seed} --mounts 1"))?;
            return Ok(1);
        };
        sum.reads += one.counts.reads;
        sum.refusals += one.counts.refusals;
        sum.failures += one.counts.failures;
        sum.pushes += one.counts.pushes;
        sum.pushes_crossed += one.counts.pushes_crossed;
    }
    let MountCounts { reads, refusals, failures, pushes, pushes_crossed, .. } = sum;
    say(&format!(
        "swarm: mounts {first} to {} clean: {reads} READs, {refusals} refused, {failures} failed; \
         {pushes} pushes, {pushes_crossed} across a READ; each mount twice, {:.1} s",
        first.wrapping_add(runs - 1),
        started.elapsed().as_secs_f64(),
    ))?;
    Ok(0)
}

/// Runs random served disks up to the first that breaks a rule.
fn run_disks(first: u64, runs: u64) -> Result<u8> {
    ensure!(runs > 0, "--disks takes a number from 1 on");
    say(&format!("swarm: {runs} served disks from seed {first} on"))?;
    let started = Instant::now();
    let mut sum = DiskCounts::default();
    for number in 0..runs {
        let seed = first.wrapping_add(number);
        let one = match panic::catch_unwind(|| swarm::run_disks(seed)) {
            Ok(Ok(one)) => one,
            Ok(Err(broken)) => {
                broken.events.iter().try_for_each(|event| say(event))?;
                say(&format!("swarm: seed {seed} broke {}: {}", broken.rule, broken.text))?;
                say(&format!("repeat: cargo xtask swarm --seed {seed} --disks 1"))?;
                return Ok(1);
            }
            Err(_) => {
                say(&format!("swarm: seed {seed} broke an invariant of the core"))?;
                say(&format!("repeat: cargo xtask swarm --seed {seed} --disks 1"))?;
                return Ok(1);
            }
        };
        sum.add(&one);
    }
    say(&format!(
        "swarm: {} flushes and durable writes kept their promise, {} reported a failure, \
         {} requests were refused by full stores; {} losses of power, {} restarts, {} connections \
         vanished",
        sum.promises, sum.reports, sum.refusals, sum.cuts, sum.restarts, sum.vanished,
    ))?;
    say(&format!(
        "swarm: disks {first} to {} clean: {} requests, {} with errors, the longest {} ms; \
         each disk twice, {:.1} s",
        first.wrapping_add(runs - 1),
        sum.requests + sum.errors,
        sum.errors,
        sum.longest_ns / 1_000_000,
        started.elapsed().as_secs_f64(),
    ))?;
    Ok(0)
}

/// Looks for each seeded bug until its own rule has found it.
#[cfg(feature = "seeded-bugs")]
fn run_bugs(first: u64) -> Result<u8> {
    use forebay_core::bugs::Bug;
    use std::time::Duration;

    /// What one bug may take.
    const TIME_MAX: Duration = Duration::from_secs(60);

    // An invariant of the core that does not hold finds a bug as well.
    panic::set_hook(Box::new(|_| {}));
    let mut code = 0;
    for bug in Bug::ALL {
        let started = Instant::now();
        let mut found = None;
        for seed in (0..).map(|number: u64| first.wrapping_add(number)) {
            let rule = match panic::catch_unwind(|| swarm::run_disks_with(bug, seed)) {
                Ok(Ok(_)) => None,
                Ok(Err(broken)) => Some(broken.rule),
                Err(_) => Some("an invariant"),
            };
            let is_own = rule == Some(bug.rule());
            if let Some(rule) = rule
                && (found.is_none() || is_own)
            {
                found = Some((rule, seed, started.elapsed()));
            }
            if is_own || started.elapsed() > TIME_MAX {
                break;
            }
        }
        let line = match found {
            Some((rule, seed, time)) => {
                format!("{rule} at seed {seed} after {:.2} s", time.as_secs_f64())
            }
            None => "not found".to_owned(),
        };
        say(&format!("swarm: {bug:?}: {} is broken: {line}", bug.rule()))?;
        code |= u8::from(found.is_none_or(|found| found.0 != bug.rule()));
    }
    Ok(code)
}

/// Builds this program once more, with bugs to seed.
#[cfg(not(feature = "seeded-bugs"))]
fn run_bugs(first: u64) -> Result<u8> {
    let seed = first.to_string();
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--package", "xtask", "--features", "seeded-bugs", "--"]);
    exit_code(cargo.args(["swarm", "--bugs", "--seed", &seed]))
}

/// The hash of the commit that is checked out, if there is one.
fn head() -> Result<Option<String>> {
    let hash = output_of(command("git").args(["rev-parse", "HEAD"]))?;
    Ok(hash.filter(|hash| !hash.is_empty()))
}

/// A decimal number, or the first 15 digits of a hash.
fn seed(typed: &str) -> Option<u64> {
    const DIGITS: usize = 15;
    let is_hash = typed.len() >= DIGITS && typed.bytes().all(|byte| byte.is_ascii_hexdigit());
    match typed.parse() {
        Ok(number) => Some(number),
        Err(_) if is_hash => u64::from_str_radix(&typed[..DIGITS], 16).ok(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_number_or_a_hash() {
        assert_eq!(seed("17"), Some(17));
        assert_eq!(seed("18446744073709551615"), Some(u64::MAX));
        assert_eq!(seed("0123456789abcdef0123456789abcdef01234567"), Some(0x0012_3456_789a_bcde));
        assert_eq!(seed("abc"), None);
        assert_eq!(seed(""), None);
    }
}
