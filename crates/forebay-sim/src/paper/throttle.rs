//! Dirty throttling on Linux 3.18.
//!
//! Source:     J. Oh, Y. Won, "The effect of Linux I/O throttling on user write latency", Hanyang
//!             University; figure 1, table 1 and the text of section 3.
//! Behaviour:  70 GB are written at random over a file of 30 GB, on a machine with 8 GB and one
//!             flash drive; with the throttle of the kernel, without one, and with others.
//! Differs:    one writer of 4 KiB, which the paper does not specify. Its times are assumed to end
//!             with the last write; the time until all data is durable is also reported.
//! Not for:    machines whose memory runs out for other reasons than writes.
//!
//! ```text
//!   published   stock and modified kernel, once
//!   compared    every setup once, all sizes divided by more, its times and bytes multiplied
//!   drawn       stock and modified kernel on each draw from the machine's ranges, divided as well
//! ```

use super::{Draws, Experiment, Headline, Paper, Results, RunCost, RunSize};
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
    claim: "The throttle of Linux 3.18 makes writers slow: without it 70 GB of random writes take \
            25 % less time.",
    headline: Headline::change("time of 70 GB writes", [ROW, "run time change", "off"]),
    cost: RunCost {
        fixed: [2.5, 20.0, 90.0],
        draw: [0.0, 0.7, 0.7],
        draws_max: [1, u32::MAX, u32::MAX],
    },
    about: "Modelled: the throttle of Linux 3.18 and the flusher page by page, the page cache, one \
            flash drive, and reclaim of 3.18, which does not evict clean active pages. Calibrated \
            only on the stock kernel. The stock and the modified kernel are measured once, with \
            the range of scaled draws; the others are scaled down. Result: the gain is fewer bytes \
            written to the drive, because more writes meet a page that is already dirty and more \
            pages are left dirty at the end; at the same dirty level a run takes about the same \
            time with and without the throttle. Not claimed: latencies, which the paper does not \
            print.",
    measured: "measured is one run, whose name says by what its sizes are divided; range has it \
               and the draws, which are divided by 64.",
    keeps_series: false,
    scaled: SCALED,
    alone: None,
    unfit: super::ANY_MACHINE,
    experiments: |size| experiments(Sizes::of(size)),
    rows: |results, size| rows(results, Sizes::of(size)),
};

/// By what the sizes of an experiment are divided: files, writes, memory, and the drive's own.
/// Fixed times, such as the 200 ms of the kernel's estimators, stay, which bounds it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// The stock and the modified kernel of the paper.
    published: u64,
    /// Every other setup, and these two to compare it with.
    compared: u64,
    /// These two on draws.
    drawn: u64,
    draws: Draws,
}

const SCALED: &str = "all sizes are divided by what the name of a row says, 16 for the published \
                      figures, and the first 8 draws count";

impl Sizes {
    /// By so much that runs keep to full size within 1 %; rows show it. Below a 96th the modified
    /// kernel's do not: docs/papers/throttling.md.
    fn of(size: RunSize) -> Self {
        match size {
            RunSize::Counted => {
                Self { published: 64, compared: 64, drawn: 64, draws: Draws::Nominal }
            }
            RunSize::Scaled => {
                Self { published: 16, compared: 64, drawn: 64, draws: Draws::First(8) }
            }
            RunSize::Full => Self { published: 1, compared: 16, drawn: 64, draws: Draws::Each },
        }
    }
}

const STOCK: Setup = Setup::of("linux-3.18");
const OFF: Setup = Setup::of("off");

/// The stock throttle with limits so high that about as much is dirty as with no throttle.
const HIGH: Setup =
    Setup { name: "linux-3.18 (limit 100 %)", flush: "linux-6:limit=100,background=90", ..STOCK };

/// No throttle, with a memory that bounds dirty pages to about the level of the stock throttle,
/// 1.33 GB: of a memory of this size reclaim leaves nearly three quarters to dirty pages.
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

const ROW: &str = "70 GB over 30 GB";
const DRAWN: &str = "70 GB over 30 GB, drawn";

/// The row of a run with all sizes divided by `scale`.
fn row_at(scale: u64) -> String {
    if scale == 1 { ROW.to_owned() } else { format!("{ROW}, 1/{scale}") }
}

fn experiments(sizes: Sizes) -> Vec<Experiment> {
    let experiment = |row: String, setup: Setup, scale| {
        let run = move |machine: &Machine, seed| setup.run(machine, seed, scale);
        Experiment::new(row, setup.name, run)
    };
    let once = |scale| move |setup| experiment(row_at(scale), setup, scale).nominal();
    // The longest first, so that all processors end at about the same time.
    let published = PUBLISHED.map(once(sizes.published)).map(Experiment::counted);
    let compared = PUBLISHED.into_iter().chain(OTHERS).map(once(sizes.compared));
    let drawn_once = PUBLISHED.map(once(sizes.drawn));
    let drawn = |setup| Experiment {
        draws: sizes.draws,
        ..experiment(DRAWN.to_owned(), setup, sizes.drawn)
    };
    let drawn = PUBLISHED.map(drawn);
    let mut all: Vec<Experiment> = published.into_iter().chain(compared).collect();
    if sizes.drawn != sizes.compared {
        all.extend(drawn_once);
    }
    all.extend(drawn);
    all
}

fn rows(results: &Results<'_>, sizes: Sizes) -> Vec<Row> {
    let mut rows = rows::published(results, sizes.published);
    rows.extend(rows::agreement(results, sizes));
    rows.extend(rows::at_one_level(results, sizes.compared));
    let full = |setup: &Setup| rows::published_figures(results, setup, sizes.published);
    rows.extend(PUBLISHED.iter().flat_map(full));
    let others = |setup: &Setup| rows::compared_figures(results, setup, sizes.compared);
    rows.extend(OTHERS.iter().flat_map(others));
    rows
}
