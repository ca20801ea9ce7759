//! Selective context switch on Linux 2.6.21.
//!
//! Source:     K. Lee, "The selective context switch for the storage which has no latency", Hanyang
//!             University (in Korean); tables 2, 3 and 4.
//! Behaviour:  reads of one page, random and sequential: alone, with ten tasks that compute, and
//!             with ten tasks that read cached pages; the start of a system; a ring of tasks for
//!             the cost of a switch. Each runs under the kernel's O(1) scheduler and under one that
//!             charges the driver's thread to the caller.
//! Differs:    the paper prints neither bytes nor request size nor passes. Reads have 4 KiB and no
//!             readahead, which is what equal times of both patterns mean; their number follows
//!             from the unmodified kernel's time. What its ten tasks with input and output did is
//!             not said; as its times are those of ten tasks that compute, they read cached pages.
//! Not for:    devices with a queue.
//!
//! ```text
//!   table 2    a ring of tasks: what a switch costs          calibrates
//!   table 3    before: number of reads, the reader's share   calibrates; after: predicted
//!   table 4    before: number of reads                       calibrates; after: predicted
//!   beyond     2 and 4 cores; latencies from 5 us to 10 ms; the adaptive rule beside both
//! ```

use forebay_core::time::Duration;

use super::{Draws, Experiment, Headline, Measured, Paper, RunCost, RunSize};
use crate::cpu::ring_switch;
use crate::machine::Machine;
use crate::scenario::Outcome;
use load::{Company, DATA, Load, Pattern, Reader};

mod latency;
mod load;
mod rows;
#[cfg(test)]
mod tests;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "context-switch",
    citation: "K. Lee: The selective context switch for the storage which has no latency",
    machine: "mips-2007",
    claim: "Reading flash synchronously, without a context switch, takes 6 % less time alone and \
            10 to 20 % less with ten busy tasks.",
    headline: Headline::change(
        "time saved, 10 tasks",
        ["random, 10 compute", "gain", "inline (fair)"],
    ),
    cost: RunCost {
        fixed: [4.0, 30.0, 30.0],
        draw: [0.0, 0.7, 0.7],
        draws_max: [1, u32::MAX, u32::MAX],
    },
    about: "Modelled: block queue and plug of Linux 2.6.21, OneNAND behind the thread of the MTD \
            block layer, the cost of a switch including cache refills, two schedulers. Calibrated \
            on table 2 and on the unmodified kernel's columns. Not claimed: agreement under load. \
            There the model of the kernel's own O(1) scheduler contradicts the paper: an inline \
            reader is charged for the device's time, loses the bonus of a sleeper, and is slower \
            with ten busy tasks, not 10 to 20 % faster.",
    measured: "measured is the median over the draws in table 2; elsewhere it is one run on the \
               nominal board, and range also has runs of a sixteenth of its length on draws.",
    keeps_series: false,
    scaled: "",
    alone: Some(|row| CASES.iter().any(|case| case.name == row.row && case.company.is_alone())),
    unfit: |machine| {
        (!machine.medium().programmed)
            .then_some("its experiments need a device whose data the processor moves")
    },
    experiments,
    rows: |results, _| rows::rows(results),
};

const DEFERRED: &str = "deferred";
const INLINE: &str = "inline";
const ADAPTIVE: &str = "adaptive";
const MODES: [&str; 3] = [DEFERRED, INLINE, ADAPTIVE];

/// How processor time is shared: by the kernel's own rules, and in fair shares of the callers.
const SCHEDULERS: [&str; 2] = [O1, FAIR];
const O1: &str = "o1";
const FAIR: &str = "fair";

/// Reads of the paper's runs: as many as give the unmodified kernel's 46300 ms on the nominal
/// board.
const READS: u64 = 208_200;

/// The reader's weight, relative to tasks of 1024, under fair shares: the one that gives the
/// unmodified kernel's 386473 ms with ten tasks that compute.
const WEIGHT: u32 = 1_413;

/// Reads of the start of a system, and what its tasks compute after each: half of the time, which
/// is assumed.
const BOOT_READS: u64 = 6_570;
const BOOT_COMPUTES: Duration = Duration::from_micros(222);
const BOOT_TASKS: u32 = 4;

/// Draws, and by what their runs are shortened.
const DRAWS: Draws = Draws::First(8);
const DRAWN_SCALE: u64 = 16;

/// The divisor by which runs are shortened further if only their counted figures are needed.
const COUNTED_SCALE: u64 = 8;

/// A row of tables 3 and 4.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    reader: Reader,
    readers: u32,
    company: Company,
    /// By what its run is shortened.
    scale: u64,
    /// Before and after, in ms.
    published: [f64; 2],
}

const fn reader(pattern: Pattern) -> Reader {
    Reader { pattern, reads: READS, computes: Duration::ZERO, footprint: 0, weight: WEIGHT }
}

const fn case(name: &'static str, pattern: Pattern, company: Company, published: [f64; 2]) -> Case {
    // A reader of cached pages makes a call every 40 us.
    let scale = if matches!(company, Company::Reread(_)) { 3 } else { 1 };
    Case { name, reader: reader(pattern), readers: 1, company, scale, published }
}

const TEN: Company = Company::Compute(10);
const TEN_READ: Company = Company::Reread(10);

const CASES: [Case; 7] = [
    case("random", Pattern::Random, Company::Alone, [46_300.0, 43_330.0]),
    case("sequential", Pattern::Sequential, Company::Alone, [46_090.0, 43_136.0]),
    case("random, 10 compute", Pattern::Random, TEN, [386_473.0, 349_073.0]),
    case("sequential, 10 compute", Pattern::Sequential, TEN, [375_778.0, 301_404.0]),
    case("random, 10 read", Pattern::Random, TEN_READ, [385_642.0, 347_193.0]),
    case("sequential, 10 read", Pattern::Sequential, TEN_READ, [376_710.0, 301_312.0]),
    Case {
        name: BOOT,
        reader: Reader {
            pattern: Pattern::Random,
            reads: BOOT_READS,
            computes: BOOT_COMPUTES,
            footprint: DATA,
            weight: 1024,
        },
        readers: BOOT_TASKS,
        company: Company::Alone,
        scale: 1,
        published: [12_156.0, 11_187.0],
    },
];

const BOOT: &str = "boot";

/// The first case with busy tasks.
const LOADED: usize = 2;

/// A rest in which the driver's thread earns all the credit that the O(1) scheduler gives.
const REST: Duration = Duration::from_secs(1);

/// Cases that are measured with more cores too, only under fair shares: the model of the O(1)
/// scheduler has one queue for all cores, and that kernel does not.
const ON_CORES: [usize; 2] = [0, LOADED];
const CORES: [u32; 2] = [2, 4];

/// A cell of table 2: tasks in the ring, bytes of data of each, us.
const SWITCHES: [(u32, u64, f64); 8] = [
    (2, 0, 6.94),
    (4, 0, 12.63),
    (6, 0, 12.74),
    (8, 0, 13.35),
    (2, DATA, 19.90),
    (4, DATA, 17.40),
    (6, DATA, 20.90),
    (8, DATA, 19.27),
];

impl Case {
    fn load(&self, dispatch: &'static str, scheduler: &'static str, cores: u32) -> Load {
        let Self { reader, readers, company, scale, .. } = *self;
        Load { reader, readers, company, dispatch, scheduler, cores, scale, rest: Duration::ZERO }
    }
}

/// The name of a workload in a row.
fn on_cores(case: &Case, cores: u32) -> String {
    if cores == 1 { case.name.to_owned() } else { format!("{}, {cores} cores", case.name) }
}

fn rested(case: &Case) -> String {
    format!("{}, after 1 s of rest", case.name)
}

fn drawn(case: &Case) -> String {
    format!("{}, drawn", case.name)
}

fn ring(tasks: u32, data: u64) -> String {
    let with = if data > 0 { "100 KB of data" } else { "no data" };
    format!("ring of {tasks}, {with}")
}

/// The rule and the scheduler, as a row names them.
fn policy(dispatch: &str, scheduler: &str) -> String {
    format!("{dispatch} ({scheduler})")
}

fn experiments(size: RunSize) -> Vec<Experiment> {
    let mut all = Vec::new();
    for (tasks, data, _) in SWITCHES {
        let run = move |machine: &Machine, _| {
            let cost = ring_switch(&machine.prices(), tasks, data);
            let micros = cost.as_nanos() as f64 / 1e3;
            let figures = vec![(rows::SWITCH, micros)];
            Ok(Measured { figures, ..Measured::new(0, Outcome::default()) })
        };
        all.push(Experiment::new(ring(tasks, data), "", run));
    }
    let experiment = |row: String, load: Load, draws| {
        let run = move |machine: &Machine, seed| load.measure(machine, seed);
        let policy = policy(load.dispatch, load.scheduler);
        Experiment { draws, ..Experiment::new(row, &policy, run) }
    };
    let shortened = if size == RunSize::Counted { COUNTED_SCALE } else { 1 };
    for scheduler in SCHEDULERS {
        for case in &CASES {
            for mode in [DEFERRED, INLINE] {
                let load = case.load(mode, scheduler, 1);
                let load = Load { scale: load.scale * shortened, ..load };
                all.push(experiment(on_cores(case, 1), load, Draws::Nominal).counted());
                let load = Load { scale: DRAWN_SCALE, ..load };
                all.push(experiment(drawn(case), load, DRAWS));
            }
            let load = case.load(ADAPTIVE, scheduler, 1);
            all.push(experiment(on_cores(case, 1), load, Draws::Nominal));
        }
    }
    for case in ON_CORES.map(|place| &CASES[place]) {
        for cores in CORES {
            for mode in MODES {
                let load = case.load(mode, FAIR, cores);
                all.push(experiment(on_cores(case, cores), load, Draws::Nominal));
            }
        }
    }
    let loaded = &CASES[LOADED];
    for mode in [DEFERRED, INLINE] {
        let load = Load { rest: REST, ..loaded.load(mode, O1, 1) };
        all.push(experiment(rested(loaded), load, Draws::Nominal));
    }
    all.extend(latency::experiments());
    all
}
