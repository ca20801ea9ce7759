//! Dirty throttling on Linux 3.18.
//!
//! Source:     J. Oh, Y. Won, "The effect of Linux I/O throttling on user write latency", Hanyang
//!             University; figure 1, table 1 and the text of section 3.
//! Behaviour:  70 GB are written at random over a file of 30 GB, on a machine with 8 GB and one
//!             flash drive; with the throttle of the kernel, without one, and with others.
//! Differs:    one writer of 4 KiB, which the paper does not say. The time ends with the last
//!             write, as the paper's is taken to; until all is durable is reported beside it.
//!             Figures other than those of figure 1 come from runs with all sizes scaled down.
//! Not for:    machines whose memory runs out for other reasons than writes.
//!
//! ```text
//!   full     stock and modified kernel once, at the sizes of the paper
//!   scaled   every setup once, all sizes divided by SCALE, the results multiplied
//!   drawn    stock and modified kernel on each draw from the machine's ranges, scaled
//! ```

use load::{DURABLE, FIGURES, LAST_WRITE, LEVEL, Setup, WRITTEN};

use super::{Experiment, Measured, Paper, Results};
use crate::machine::Machine;
use crate::report::{Role, Row, spread};

mod load;
#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "throttle",
    citation: "J. Oh, Y. Won: The effect of Linux I/O throttling on user write latency",
    machine: "ssd-2014",
    about: "",
    experiments: || experiments(SCALE),
    rows,
};

/// By what sizes are divided, except in the two runs at full size. Fixed times, such as the 200 ms
/// of the kernel's estimators, are not scaled, so that there is a limit to it.
const SCALE: u64 = 16;

const FULL: &str = "70 GB over 30 GB";
const SCALED: &str = "scaled";
const DRAWN: &str = "drawn";

const STOCK: Setup = Setup::of("linux-3.18");
const OFF: Setup = Setup::of("off");

/// The stock throttle with limits so high that it keeps as much dirty as no throttle does.
const HIGH: Setup = Setup {
    name: "linux-3.18, limit 100 %",
    flush: "linux-6:limit=100,background=99",
    ..STOCK
};

/// No throttle on a machine with as much memory as the stock throttle keeps dirty: 17.5 %, in the
/// middle of its setpoint's range of 15 to 20 %.
const LOW: Setup = Setup { name: "off, memory 17.5 %", memory_ppm: 175_000, ..OFF };

/// Every setup; all but the first two are run scaled down alone.
const SETUPS: [Setup; 10] = [
    STOCK,
    OFF,
    HIGH,
    LOW,
    Setup::of("paper-3.18:floor=10"),
    Setup::of("paper-3.18:floor=20"),
    Setup::of("paced"),
    Setup { name: "paced, drain", controller: "drain", ..Setup::of("paced") },
    Setup::of("pi"),
    Setup::of("deadline"),
];

fn experiments(scale: u64) -> Vec<Experiment> {
    let experiment = |row: &str, setup: Setup, scale| {
        let run = move |machine: &Machine, seed| setup.run(machine, seed, scale);
        Experiment::new(row.to_owned(), setup.name, run)
    };
    let published = [STOCK, OFF];
    // The longest first, so that they end side by side.
    let mut experiments = Vec::new();
    let full = scale / SCALE;
    experiments.extend(published.map(|setup| experiment(FULL, setup, full).nominal()));
    experiments.extend(SETUPS.map(|setup| experiment(SCALED, setup, scale).nominal()));
    experiments.extend(published.map(|setup| experiment(DRAWN, setup, scale)));
    experiments
}
fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (row, setups) in [(FULL, &SETUPS[..2]), (SCALED, &SETUPS[..]), (DRAWN, &SETUPS[..2])] {
        for setup in setups {
            for (metric, unit) in FIGURES {
                let figs = results.figures(setup.name, row, |m: &Measured| m.figure(metric));
                let s = spread(figs);
                rows.push(Row {
                    paper: PAPER.name,
                    row: row.to_owned(),
                    metric,
                    unit,
                    policy: setup.name.to_owned(),
                    published: None,
                    role: Role::Context,
                    measured: s.map(|s| s.0),
                    low: s.map(|s| s.1),
                    high: s.map(|s| s.2),
                    tolerance: (None, None),
                    note: String::new(),
                    seed: results.seed,
                });
            }
        }
    }
    let _ = (DURABLE, LAST_WRITE, LEVEL, WRITTEN);
    rows
}
