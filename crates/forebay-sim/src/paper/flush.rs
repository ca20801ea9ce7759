//! Adaptive buffer flushing on Linux 2.2.19.
//!
//! Source:     S. Park, T. Kim, H. Shin, "An adaptive buffer flush policy for Linux-based storage
//!             servers", Seoul National University (in Korean); tables 2 and 3 as the text counts
//!             them, figures 2 to 6, and the introduction's eight backups at once.
//! Behaviour:  bonnie with 100 MB and 1000 MB under the settings of a distribution, of a tuning
//!             guide and of the proposal; each field of the guide separately; eight writers and two
//!             small clients, for the stall that the introduction reports.
//! Differs:    bonnie never syncs, so the data that its block write leaves in memory, and the time
//!             until that data is durable, are reported with its rates. The writers use no network.
//! Not for:    the paper's figures, which carry no numbers.

use super::{Draws, Experiment, Headline, Paper, RunCost, RunSize};
use crate::machine::Machine;
use crate::workload::bonnie::Phase;
use bonnie::Run;
use settings::{BOUNDED, DRAIN, DYN, DYN_CAPPED, FACTORS, REDHAT, SOL, SOL_YOUNG, Setting, TODAY};

mod bonnie;
mod claims;
mod series;
mod settings;
mod stall;
#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "flush",
    citation: "S. Park, T. Kim, H. Shin: An adaptive buffer flush policy for Linux-based storage \
               servers",
    machine: "raid-2001",
    claim: "No fixed setting of bdflush suits both light and heavy loads: a tuning guide's setting \
            writes 1 GB at half the rate of the default; adapting it to the load is 20 % faster \
            than the default.",
    headline: Headline::ratio(
        "rate of a 1 GB write",
        ["bonnie -s 1000", "block write against redhat", "sol"],
    ),
    cost: RunCost { fixed: [11.0, 35.0, 90.0], draw: [0.2, 1.3, 1.6], draws_max: [u32::MAX; 3] },
    about: "Modelled: bdflush and kupdate of Linux 2.2.19, four disks in RAID 0, one processor, \
            bonnie 1.x call by call; kswapd writes in the order of page frames. Calibrated only on \
            the distribution's settings. dyn is judged; dyn:cap=98, whose nfract stays below 99 \
            while only writes happen, is run as well. Not claimed: the order of reads before \
            writes, because there is no elevator. KB are 1024 bytes, as bonnie prints them.",
    measured: super::MEDIAN_OVER_DRAWS,
    keeps_series: true,
    scaled: "runs of 1000 MB count 4 draws of 12, and the writers of the stall write a fourth of \
             the paper's 1 GB each",
    alone: None,
    unfit: super::ANY_MACHINE,
    experiments,
    rows: claims::rows,
};

/// The sizes of the file, as typed.
const SIZES: [u64; 2] = [100, 1_000];

/// The settings of the tables, and the predicted ones.
const PUBLISHED: [Setting; 3] = [REDHAT, SOL, DYN];

/// Settings for comparison.
const BESIDE: [Setting; 4] = [DYN_CAPPED, SOL_YOUNG, BOUNDED, DRAIN];

/// Settings whose values over time are recorded.
const OVER_TIME: [Setting; 5] = [REDHAT, SOL, DYN, BOUNDED, DRAIN];

/// Draws of a run over 1000 MB, which takes 30 times as long as one over 100 MB.
const fn large_draws(size: RunSize) -> Draws {
    match size {
        RunSize::Counted => Draws::First(3),
        RunSize::Scaled => Draws::First(4),
        RunSize::Full => Draws::First(12),
    }
}

/// The phases that write, and whose data a run may wait for.
const WRITES: [Phase; 2] = [Phase::PutChars, Phase::BlockWrite];

fn experiments(size: RunSize) -> Vec<Experiment> {
    let mut all = Vec::new();
    for mib in SIZES {
        let draws = if mib == 100 { Draws::Each } else { large_draws(size) };
        for setting in PUBLISHED {
            all.push(experiment(Run::Tables(mib), setting, draws).counted());
        }
        for setting in BESIDE {
            let draws = if setting == DYN_CAPPED { draws } else { Draws::Nominal };
            all.push(experiment(Run::Tables(mib), setting, draws));
        }
        for setting in PUBLISHED.into_iter().chain(BESIDE) {
            for phase in WRITES {
                all.push(experiment(Run::Until(mib, phase), setting, Draws::Nominal));
            }
        }
        for setting in FACTORS {
            let run = Run::Until(mib, Phase::BlockWrite);
            all.push(experiment(run, setting, Draws::Nominal));
        }
        for setting in OVER_TIME {
            all.push(experiment(Run::OverTime(mib), setting, Draws::Nominal));
        }
    }
    for (row, burst) in stall::bursts(size) {
        for setting in OVER_TIME.into_iter().chain(TODAY) {
            let run = move |machine: &Machine, seed| stall::measure(burst, machine, setting, seed);
            all.push(Experiment::new(row.to_owned(), setting.name, run).nominal());
        }
    }
    all
}

fn experiment(run: Run, setting: Setting, draws: Draws) -> Experiment {
    let measure = move |machine: &Machine, seed| run.measure(machine, setting, seed);
    Experiment { draws, ..Experiment::new(run.name(), setting.name, measure) }
}
