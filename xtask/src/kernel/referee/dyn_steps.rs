//! DYN: the kernel's decisions against the core's, on the samples that the kernel took.
//!
//! ```text
//!   drawn load -> kernel: each second elapsed, busy, reads, writes -> its knobs
//!                              '--> the core's controller `dyn` ---> its knobs    equal, or not
//! ```

use anyhow::{Result, ensure};
use forebay_core::control::{Sample, Spec, Traffic};
use forebay_core::time::Duration;
use forebay_core::units::{MIB, PAGE_SIZE};
use forebay_core::writeback::{Amount, Knobs};

use super::super::boot;
use super::super::build::Lab;
use super::machine::number;
use crate::process::say;

/// The controller as the kernel has it.
const POLICY: &str = "dyn";

/// Compares the knobs after each second; in how many seconds they differ.
pub(super) fn compare(lab: &Lab) -> Result<usize> {
    let records = boot::boot(lab, &["dyn", "seconds"])?;
    let (seconds, windows, differences) = judge(&records)?;
    for difference in &differences {
        say(difference)?;
    }
    say("\ncontroller  policy  seconds  windows  differences")?;
    say(&format!(
        "dyn         {POLICY:<6}  {seconds:>7}  {windows:>7}  {:>11}",
        differences.len()
    ))?;
    Ok(differences.len())
}

/// Seconds, how many of them turned a knob, and the seconds that differ.
fn judge(records: &str) -> Result<(usize, usize, Vec<String>)> {
    let mut controller = Spec::parse(POLICY)?.build();
    let total = 1_024 * MIB / PAGE_SIZE;
    let mut knobs = controller.begin(Knobs::LINUX, total);
    let (mut seconds, mut turns, mut differences) = (0, 0, Vec::new());
    for record in records.lines() {
        let of = |key| number(record, key).map(|value| value as u64);
        ensure!(of("disks")? == 1, "one disk is sampled: {record}");
        let requests = |key| of(key).map(|requests| Traffic { requests, ..Traffic::default() });
        let sample = Sample {
            elapsed: JIFFY.times(of("elapsed")?),
            busy: JIFFY.times(of("busy")?),
            reads: requests("reads")?,
            writes: requests("writes")?,
            total,
            ..Sample::default()
        };
        let turned = controller.observe(&[sample], knobs);
        turns += usize::from(turned != knobs);
        knobs = turned;
        let own = [percent(knobs.limit), percent(knobs.background), knobs.interval.as_nanos() / CS];
        let real = [of("dirty_ratio")?, of("background_ratio")?, of("interval_cs")?];
        if own != real {
            differences.push(format!("{record}: the core has {own:?}"));
        }
        seconds += 1;
    }
    ensure!(turns > 0, "no knob was turned in {seconds} seconds");
    Ok((seconds, turns, differences))
}

/// Whole percent, as the kernel's knobs are.
fn percent(amount: Amount) -> u64 {
    match amount {
        Amount::Share(ppm) => u64::from(ppm) / 10_000,
        Amount::Pages(pages) => pages,
    }
}

/// Of the lab's kernel, HZ=100.
const JIFFY: Duration = Duration::from_millis(10);

/// Nanoseconds of a hundredth of a second.
const CS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_that_differs_is_shown_with_its_second() {
        let second = |number, knobs: &str| {
            let seen = "elapsed=100 disks=1 busy=50 reads=10 writes=30";
            format!("dyn-second number={number} {seen} {knobs}\n")
        };
        let stock = "dirty_ratio=20 background_ratio=10 interval_cs=500";
        // x = 0.5 * 0.75; nfract 75, half of it rounded down; 500 * 0.375 = 187.5.
        let turned = "dirty_ratio=75 background_ratio=37 interval_cs=188";
        let records = [second(1, stock), second(2, stock), second(3, turned)].concat();
        assert_eq!(judge(&records).unwrap(), (3, 1, vec![]));
        let wrong = records.replace("interval_cs=188", "interval_cs=187");
        let (_, _, differences) = judge(&wrong).unwrap();
        assert_eq!(differences.len(), 1);
        assert!(differences[0].contains("number=3"), "{differences:?}");
        assert!(differences[0].ends_with("the core has [75, 37, 188]"), "{differences:?}");
    }

    #[test]
    fn samples_without_a_decision_are_no_comparison() {
        assert!(judge("").is_err());
    }
}
