//! Makes a plan: a point for each combination of the values that were typed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use forebay_report::messages::{Complaint, shown};

use super::plan::{Plan, Point, RESULTS};
use super::results::PointResults;
use super::{chunks, say};
use crate::args::sweep::SweepPlan;
use crate::cmd::simulate;
use crate::slots::{self, SLOTS};

/// Makes a plan and writes it.
pub(super) fn make(arguments: &SweepPlan) -> Result<u8> {
    let grids = grids(&arguments.grid)?;
    let seeds = seeds(&arguments.seeds)?;
    let keys: Vec<String> = grids.iter().map(|(key, _)| key.clone()).collect();
    let combinations =
        grids.iter().fold(1usize, |all, (_, values)| all.saturating_mul(values.len()));
    let count = combinations
        .saturating_mul(arguments.inputs.len())
        .saturating_mul(arguments.machine.len())
        .saturating_mul(seeds.len());
    if count > POINTS_MAX {
        let what = format!("the grid makes {count} points");
        bail!(Complaint::new(what).hint(format!("a plan has at most {POINTS_MAX}")));
    }
    let inputs =
        once("input", arguments.inputs.iter().map(|input| (shown(input), absolute(input))))?;
    let machine = |typed: &String| match typed.contains(['/', '.']) {
        true => (typed.clone(), absolute(Path::new(typed))),
        false => (typed.clone(), Ok(typed.clone())),
    };
    let machines = once("--machine", arguments.machine.iter().map(machine))?;
    let mut plan = Plan::new(&keys, &arguments.trace.words());
    for file in inputs.iter().chain(machines.iter().filter(|machine| machine.starts_with('/'))) {
        plan.add_file(file)?;
    }
    for input in &inputs {
        let entry = simulate::entry_of(Path::new(input), &arguments.trace)?;
        for machine in &machines {
            for combination in 0..combinations {
                let values = values(&grids, combination);
                plan.add_points((input, entry), machine, &values, &seeds)?;
            }
        }
    }
    let folder = &arguments.output;
    fs::create_dir_all(folder.join(RESULTS)).with_context(|| shown(folder))?;
    let results = PointResults::read(folder, &plan)?;
    let is_new = |point: &Point| results.of(&point.name).is_none();
    let (new, known): (Vec<Point>, Vec<Point>) = plan.points.into_iter().partition(is_new);
    let (new_count, known_count) = (new.len(), known.len());
    plan.points = known.into_iter().chain(new).collect();
    let size = arguments.chunk_points as usize;
    let starts = (known_count..plan.points.len()).step_by(size);
    plan.chunks = starts.map(|start| start..(start + size).min(known_count + new_count)).collect();
    plan.write(folder)?;
    let (points, chunks) = (plan.points.len(), chunks(plan.chunks.len()));
    let what = if points == 1 { "point" } else { "points" };
    say(&format!("{points} {what}, {new_count} new, in {chunks}"))?;
    Ok(0)
}

/// The values that were typed, each of them once: the points of one that is given twice would count
/// twice.
fn once(what: &str, values: impl Iterator<Item = (String, Result<String>)>) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for (typed, value) in values {
        let value = value?;
        if found.contains(&value) {
            let what = format!("{what} {typed} is given more than once");
            bail!(Complaint::new(what).hint("--seeds 1..N repeats each point with other seeds"));
        }
        found.push(value);
    }
    Ok(found)
}

/// Keys with their values, as they were typed.
fn grids(typed: &[String]) -> Result<Vec<(String, Vec<String>)>> {
    let mut grids: Vec<(String, Vec<String>)> = Vec::new();
    for text in typed {
        let Some((key, list)) = text.split_once('=') else {
            bail!(
                Complaint::new(format!("--grid takes KEY=A,B, not '{text}'"))
                    .hint("a key is a slot (throttle) or a machine's parameter (device.delay)")
            );
        };
        if !key.contains('.') && !SLOTS.contains(&key) {
            let what = format!("--grid {key}: no slot is named '{key}'");
            let complaint = Complaint::new(what).nearest(key, SLOTS.iter().copied());
            bail!(complaint.hint("a parameter of the machine has a dot: device.delay"));
        }
        if grids.iter().any(|(known, _)| known == key) {
            let what = format!("--grid {key} is given more than once");
            bail!(Complaint::new(what).hint("list all values behind one key"));
        }
        let values = slots::listed(list);
        for (place, value) in values.iter().enumerate() {
            if value.is_empty() || values[..place].contains(value) {
                let what = format!("--grid {key}: '{value}' is empty or given twice");
                bail!(Complaint::new(what).hint("each value is one of the sweep's points"));
            }
        }
        grids.push((key.to_owned(), values));
    }
    Ok(grids)
}

/// `7`, or `1..1000`, its ends included.
fn seeds(typed: &str) -> Result<Vec<u64>> {
    let (first, last) = typed.split_once("..").unwrap_or((typed, typed));
    let last = last.strip_prefix('=').unwrap_or(last);
    let parsed = first.parse::<u64>().ok().zip(last.parse::<u64>().ok());
    let what = match parsed {
        Some((first, last)) if first > last => format!("--seeds {typed}: the range runs backwards"),
        Some((first, last)) if last - first >= POINTS_MAX as u64 => {
            format!("--seeds {typed}: a plan has at most {POINTS_MAX} points")
        }
        Some((first, last)) => return Ok((first..=last).collect()),
        None => format!("--seeds takes a number or a range, not '{typed}'"),
    };
    bail!(Complaint::new(what).hint("1..1000 are a thousand seeds"))
}

/// The values of a combination; the key that was typed last varies fastest.
fn values(grids: &[(String, Vec<String>)], mut combination: usize) -> Vec<String> {
    let mut values = Vec::new();
    for (_, list) in grids.iter().rev() {
        values.push(list[combination % list.len()].clone());
        combination /= list.len();
    }
    values.reverse();
    values
}

fn absolute(path: &Path) -> Result<String> {
    let found = fs::canonicalize(path).with_context(|| format!("cannot read '{}'", shown(path)))?;
    let text = found.to_str().map(str::to_owned);
    text.ok_or_else(|| anyhow!("'{}' is not UTF-8", shown(path)))
}

/// The most points of one plan.
const POINTS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_typed_last_varies_fastest() {
        let typed = ["throttle=paced,off".to_owned(), "device.delay=50us,100us".to_owned()];
        let grids = grids(&typed).unwrap();
        let all: Vec<_> = (0..4).map(|n| values(&grids, n).join(" ")).collect();
        assert_eq!(all, ["paced 50us", "paced 100us", "off 50us", "off 100us"]);
    }

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!(seeds("7").unwrap(), [7]);
        assert_eq!(seeds("1..3").unwrap(), [1, 2, 3]);
        for bad in ["", "3..1", "a", "1..", "0..99999999999"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_grid_that_contradicts_itself_is_refused() {
        for bad in
            [&["throttle"][..], &["a.b=1,1"], &["a.b=1,,2"], &["a.b=1", "a.b=2"], &["redahead=off"]]
        {
            let typed: Vec<String> = bad.iter().map(|text| (*text).to_owned()).collect();
            assert!(grids(&typed).is_err(), "{bad:?}");
        }
    }
}
