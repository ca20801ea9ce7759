//! Dirty throttling on Linux 3.18.
//!
//! Source:     J. Oh, Y. Won, "The effect of Linux I/O throttling on user write latency", Hanyang
//!             University; figure 1, table 1 and the text of section 3.
//! Behaviour:  70 GB are written at random over a file of 30 GB, on a machine with 8 GB and one
//!             flash drive; with the throttle of the kernel, without one, and with others.
//! Differs:    one writer of 4 KiB, which the paper does not say. Its times are taken to end with
//!             the last write; how long it takes until all is durable stands beside them.
//! Not for:    machines whose memory runs out for other reasons than writes.
//!
//! ```text
//!   full     stock and modified kernel, once
//!   scaled   every setup once, all sizes divided, its times and bytes multiplied
//!   drawn    stock and modified kernel on each draw from the machine's ranges, scaled as well
//! ```

use super::{Experiment, Paper, Results};
use crate::machine::Machine;
use crate::report::Row;
use load::Setup;

mod load;
mod rows;
#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "throttle",
    citation: "J. Oh, Y. Won: The effect of Linux I/O throttling on user write latency",
    machine: "ssd-2014",
    about: "Modelled: the throttle of Linux 3.18 and the flusher page by page, the page cache, one \
            flash drive, and reclaim of 3.18, which leaves clean active pages alone. Calibrated on \
            the stock kernel alone. The stock and the modified kernel \
            are measured once, with the range of scaled draws; the others are scaled down. What \
            follows: the gain is fewer bytes to the drive, as more writes meet a page that is \
            dirty already and more is left dirty at the end; at one dirty level a run takes \
            about the same time with and without the throttle. Not claimed: latencies, which the \
            paper does not print.",
    measured: "measured is one run, at full size where nothing else is said; range has it and the \
               draws, which are run at 1/64.",
    keeps_series: false,
    unfit: super::ANY_MACHINE,
    experiments: || experiments(SIZES),
    rows: |results| rows(results, SIZES),
};

/// By what the sizes of an experiment are divided: files, writes, memory, and the drive's own.
/// Fixed times, such as the 200 ms of the kernel's estimators, stay, which bounds it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    full: u64,
    scaled: u64,
    drawn: u64,
}

/// Both scaled sizes keep to full size within half a percent; rows show it.
const SIZES: Sizes = Sizes { full: 1, scaled: 16, drawn: 64 };

const STOCK: Setup = Setup::of("linux-3.18");
const OFF: Setup = Setup::of("off");

/// The stock throttle with limits so high that about as much is dirty as with no throttle.
const HIGH: Setup =
    Setup { name: "linux-3.18 (limit 100 %)", flush: "linux-6:limit=100,background=90", ..STOCK };

/// No throttle where memory bounds what is dirty to about what the stock throttle keeps dirty, 1.33
/// GB: of a memory of this size reclaim leaves nearly three quarters to dirty pages.
const LOW: Setup = Setup { name: "off (memory 24.5 %)", memory_ppm: 245_000, ..OFF };

const PUBLISHED: [Setup; 2] = [STOCK, OFF];

/// What the page cache's size and its contents at the beginning make of the modified kernel, and
/// the contents of the stock one.
const SENSITIVITY: [Setup; 5] = [
    Setup { name: "off (memory 6.0 GiB)", memory_ppm: 857_143, ..OFF },
    Setup { name: "off (memory 6.5 GiB)", memory_ppm: 928_571, ..OFF },
    Setup { name: "off (memory 7.2 GiB)", memory_ppm: 1_028_571, ..OFF },
    Setup { name: "off (memory full of the file's end)", warm: true, ..OFF },
    Setup { name: "linux-3.18 (memory full of the file's end)", warm: true, ..STOCK },
];

const OTHERS: [Setup; 13] = [
    HIGH,
    LOW,
    SENSITIVITY[0],
    SENSITIVITY[1],
    SENSITIVITY[2],
    SENSITIVITY[3],
    SENSITIVITY[4],
    Setup::of("paper-3.18:floor=10"),
    Setup::of("paper-3.18:floor=20"),
    Setup::of("paced"),
    Setup { name: "paced (controller drain)", controller: "drain", ..Setup::of("paced") },
    Setup::of("pi"),
    Setup::of("deadline"),
];

const FULL: &str = "70 GB over 30 GB";
const SCALED: &str = "70 GB over 30 GB, scaled";
const SMALLER: &str = "70 GB over 30 GB, scaled as the draws";
const DRAWN: &str = "70 GB over 30 GB, drawn";

fn experiments(sizes: Sizes) -> Vec<Experiment> {
    let experiment = |row: &str, setup: Setup, scale| {
        let run = move |machine: &Machine, seed| setup.run(machine, seed, scale);
        Experiment::new(row.to_owned(), setup.name, run)
    };
    // The longest first, so that all processors end at about the same time.
    let full = PUBLISHED.map(|setup| experiment(FULL, setup, sizes.full).nominal());
    let both = PUBLISHED.into_iter().chain(OTHERS);
    let scaled = both.map(|setup| experiment(SCALED, setup, sizes.scaled).nominal());
    let smaller = PUBLISHED.map(|setup| experiment(SMALLER, setup, sizes.drawn).nominal());
    let drawn = PUBLISHED.map(|setup| experiment(DRAWN, setup, sizes.drawn));
    full.into_iter().chain(scaled).chain(smaller).chain(drawn).collect()
}

fn rows(results: &Results<'_>, sizes: Sizes) -> Vec<Row> {
    let mut rows = rows::published(results);
    rows.extend(rows::agreement(results, (sizes.scaled, sizes.drawn)));
    rows.extend(rows::at_one_level(results));
    rows.extend(PUBLISHED.iter().flat_map(|setup| rows::figures(results, setup, true)));
    rows.extend(OTHERS.iter().flat_map(|setup| rows::figures(results, setup, false)));
    rows
}
