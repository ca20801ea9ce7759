//! The experiments: run twice, compared byte for byte, printed as tables.
//!
//! The init prints records, `EXPERIMENT KEY=VALUE ...`. A table is made of the records of one
//! experiment with the same keys; the order is the init's.

use anyhow::{Result, bail, ensure};

use super::build::Lab;
use super::processors::side_by_side;
use super::referee::limits;
use super::{boot, build};
use crate::process::say;

/// Runs the experiments and prints their tables. The exit code is 1 if two runs differ.
pub(super) fn run(experiments: &[String]) -> Result<u8> {
    let lab = build::build()?;
    let known = boot::boot(&lab, &["list"])?;
    ensure!(!known.is_empty(), "the init names no experiment");
    for name in experiments {
        if !known.lines().any(|line| line == name) {
            let names: Vec<&str> = known.lines().collect();
            bail!("there is no experiment '{name}'; there are {}", names.join(", "));
        }
    }
    let mut differ = false;
    say(&format!("Linux {}, virtual time", lab.version))?;
    for name in known.lines().filter(|name| experiments.is_empty() || is_in(experiments, name)) {
        let runs = side_by_side(&[(); 2], |()| records(&lab, name))?;
        let (first, second) = (&runs[0], &runs[1]);
        ensure!(!first.is_empty(), "{name} printed nothing");
        for table in tables(first) {
            say(&format!("\n{table}"))?;
        }
        if first != second {
            differ = true;
            let line = first.lines().zip(second.lines()).find(|(one, two)| one != two);
            let (one, two) = line.unwrap_or(("fewer lines", "more lines"));
            say(&format!("{name}: two runs differ:\n  {one}\n  {two}"))?;
        }
    }
    if !differ {
        say("\neach experiment ran twice; the outputs are equal byte for byte")?;
    }
    Ok(u8::from(differ))
}

/// What an experiment prints.
fn records(lab: &Lab, name: &str) -> Result<String> {
    match name {
        limits::NAME => limits::records(lab),
        _ => boot::boot(lab, &[name]),
    }
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one == name)
}

/// Aligned tables, each with its experiment's name and its columns above it.
fn tables(records: &str) -> Vec<String> {
    let mut tables: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for record in records.lines() {
        let (name, rest) = record.split_once(' ').unwrap_or((record, ""));
        let pairs: Vec<(&str, &str)> =
            rest.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let head: Vec<String> = pairs.iter().map(|(key, _)| key.replace('_', " ")).collect();
        let row = pairs.iter().map(|(_, value)| (*value).to_owned()).collect();
        match tables.last_mut() {
            Some((last, rows)) if last == name && rows[0] == head => rows.push(row),
            _ => tables.push((name.to_owned(), vec![head, row])),
        }
    }
    tables.iter().map(|(name, rows)| format!("{name}\n{}", aligned(rows))).collect()
}

/// Columns side by side; numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let lines = rows.iter().map(|row| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if is_number(&rows[rows.len() - 1][column]) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_experiment_are_one_table() {
        let records = "a policy=stock us=10 max_us=1\na policy=off us=9 max_us=100\nb x=1\n";
        let expected =
            ["a\n  policy  us  max us\n  stock   10       1\n  off      9     100", "b\n  x\n  1"];
        assert_eq!(tables(records), expected);
    }
}
