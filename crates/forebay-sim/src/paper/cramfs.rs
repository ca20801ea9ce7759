//! Compressed file systems and readahead on Linux 2.6.21.
//!
//! Source:     S. Ahn, S. Hyun, K. Koh, "Improving the read performance of compressed file systems
//!             considering kernel read-ahead mechanism", KIISE 2010 (in Korean); tables 1 and 2,
//!             figures 1 to 4, 6 and 7.
//! Behaviour:  a program touches mapped pages in the order of a trace. They lie on a file system
//!             that does not compress, or on cramfs under four fill rules. The time of major faults
//!             is parted among virtual memory, file system and driver.
//! Differs:    the trace is not published: here it is one of eleven, which have the printed numbers
//!             of pages and differ in how many files they touch. Figures carry no numbers; their
//!             signs, orders and the percentages of the text are compared.
//! Not for:    the time of a start, of which faults are a part.
//!
//! ```text
//!   tables 1 and 2    baselines: trace, packing ratio           calibrate; FCramFS: predicted
//!   figures           signs, orders, -28, -8, -25, -61 %        predicted
//!   beyond            windows, block sizes, free decoding, an idle processor, machines of today
//! ```

use forebay_core::time::Duration;

use super::{Experiment, Headline, Paper, RunCost};
use crate::machine::Machine;
use load::{Load, System, Which};

mod elsewhere;
mod load;
mod rows;
#[cfg(test)]
mod tests;
mod trace;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "cramfs",
    citation: "S. Ahn, S. Hyun, K. Koh: Improving the read performance of compressed file systems \
               considering kernel read-ahead mechanism",
    machine: "omap2-2010",
    claim: "Bulk reads of compressed data, and decompression of only the demanded pages, cut the \
            time of major faults of a system start by 28 %.",
    headline: Headline::change(
        "time of major faults",
        [BOOT, "time of major faults", "FCramFS against CramFS"],
    ),
    cost: RunCost { fixed: [0.0, 0.2, 0.2], draw: [0.06; 3], draws_max: [u32::MAX; 3] },
    about: "Modelled: faults and readahead of Linux 2.6.21, cramfs with its two buffers, the page \
            cache of the image, OneNAND, decoding on the caller's processor. Calibrated only on \
            the baseline columns of table 1: the trace, whose number of files they do not \
            determine, and the packing ratio. Not claimed: the 35 pages that FCramFS decodes \
            beyond those touched, the sizes in the figures, and figure 7 beyond its order.",
    measured: super::MEDIAN_OVER_DRAWS,
    keeps_series: false,
    scaled: "",
    alone: None,
    unfit: super::ANY_MACHINE,
    experiments: |_| experiments(),
    rows: |results, _| rows::rows(results),
};

/// A system as the paper names it, and how it is made.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: &'static str,
    system: System,
    window: u64,
}

const fn named(name: &'static str, system: System, window: u64) -> Named {
    Named { name, system, window }
}

const EXT3_OFF: Named = named("EXT3, RA off", System::Ext3, 0);
const EXT3: Named = named("EXT3, RA 32", System::Ext3, 32);
const RAOFF: Named = named("CramFS(RAOFF)", System::Packed("off"), 0);
const CRAMFS: Named = named("CramFS", System::Packed("eager"), 32);
const FCRAMFS: Named = named("FCramFS", System::Packed("selective"), 32);
/// The first of the two ideas without the second one, as file systems of today have it.
const BULK: Named = named("CramFS, bulk", System::Packed("eager:bulk=on"), 32);
const OURS: Named = named("selective-then-idle", System::Packed("selective-then-idle"), 32);

/// The paper's systems, and systems of our own for comparison.
const SYSTEMS: [Named; 7] = [EXT3_OFF, EXT3, RAOFF, CRAMFS, FCRAMFS, BULK, OURS];

/// The name of the workload in a row.
const BOOT: &str = "start";
const T1S: &str = "start, 23 files";
const VIEWER: &str = "viewer";

/// What the program computes after each touch on the paper's board. It runs on the only processor,
/// so that nothing follows from it.
const COMPUTES: Duration = Duration::from_micros(100);

const TRACES: [(&str, Which); 3] =
    [(BOOT, Which::Boot), (T1S, Which::T1S), (VIEWER, Which::Viewer)];

fn experiments() -> Vec<Experiment> {
    let mut all = Vec::new();
    for (row, which) in TRACES {
        for Named { name, system, window } in SYSTEMS {
            let load = Load { system, window, which, block_pages: 1, computes: COMPUTES };
            let run = move |machine: &Machine, seed| load.measure(machine, seed);
            all.push(Experiment::new(row.to_owned(), name, run).counted());
        }
    }
    all.extend(elsewhere::experiments());
    all
}
