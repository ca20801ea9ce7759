//! `cargo xtask bench real`: programs as Debian installs them, on slow devices, with and without
//! `forebay tune`.
//!
//! ```text
//!   row --> forebay-bench live-rig (device, mounts, knobs, tuner) <-- orders on its input
//!             for each round, for each way, in another order each round:
//!               remount, slow, knob | tune --> programs in its mount namespace --> figure
//! ```
//!
//! Everything hangs on the rig's process: devices, mounts and knobs go when its input ends, also
//! because this program was killed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::Programs;
use crate::process::{find_program, interruption, say};

use rig::Rig;
use row::Row;
use way::Way;

mod databases;
mod files;
mod mapped;
mod python;
pub(super) mod rig;
mod row;
mod table;
mod way;
mod writes;

/// Arguments of `bench real`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these rows, by name; a part of a name is enough
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    row: Vec<String>,
    /// How often each way is run
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these ways: `default`, `tune`, `fixed`
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    way: Vec<String>,
    /// Where the rig makes its folder
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Measure this `forebay` instead of a release build of the sources
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Print what `forebay tune` said in each round
    #[arg(long)]
    log: bool,
    /// List the rows
    #[arg(long)]
    list: bool,
}

/// Measures the requested rows and prints a table; 1 if a target was missed.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let is_asked = |row: &&Row| {
        arguments.row.is_empty() || arguments.row.iter().any(|name| row.name.contains(&**name))
    };
    let rows: Vec<&Row> = row::ROWS.iter().filter(is_asked).collect();
    if arguments.list {
        for row in rows {
            say(&format!("{:24} {}", row.name, row.what))?;
        }
        return Ok(0);
    }
    ensure!(!rows.is_empty(), "no row is called so; --list shows them");
    for (program, package) in rows.iter().flat_map(|row| row.needs) {
        if find_program(program).is_none() {
            bail!("no {program}; apt-get install {package}");
        }
    }
    let programs = Programs::build(arguments.program.as_deref())?;
    let stop = interruption()?;
    let mut results = Vec::new();
    for row in rows {
        let begun = Instant::now();
        let result = measure(row, arguments, &programs, &stop);
        let rounds = result.with_context(|| format!("row {}", row.name))?;
        eprintln!("{}: {:.0} s", row.name, begun.elapsed().as_secs_f64());
        table::lines(row, &rounds).iter().for_each(|line| eprintln!("{line}"));
        results.push((row, rounds));
    }
    table::print(&results, arguments.rounds)
}

/// Figures by way, in the order of rounds.
type Rounds = BTreeMap<Way, Vec<f64>>;

fn measure(
    row: &Row,
    arguments: &Arguments,
    programs: &Programs,
    stop: &rig::Interrupted,
) -> Result<Rounds> {
    let device = (row.device.speed(), row.bytes);
    let mut rig = Rig::with_speed(programs, &arguments.work, device, stop)?;
    (row.prepare)(&mut rig)?;
    if let Some(kib) = row.read_ahead {
        rig.order(&format!("clean read-ahead {kib}"))?;
    }
    let is_asked =
        |way: &Way| arguments.way.is_empty() || arguments.way.iter().any(|it| it == way.kind());
    let ways: Vec<Way> = row.ways().into_iter().filter(is_asked).collect();
    let mut rounds = Rounds::new();
    for turn in 0..arguments.rounds as usize {
        for place in 0..ways.len() {
            let way = ways[(place + turn) % ways.len()];
            let figure = row.round(&mut rig, way, turn as u64 + 1);
            if arguments.log && way == Way::Tune {
                rig.tuner_said().lines().for_each(|line| eprintln!("    {line}"));
            }
            let figure = figure.with_context(|| way.to_string())?;
            eprintln!("  {} {way}: {figure:.1} {}", row.name, row.unit);
            rounds.entry(way).or_default().push(figure);
        }
    }
    rig.end()?;
    Ok(rounds)
}
