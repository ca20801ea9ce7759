//! The papers: their experiments as data, run in virtual time, compared with the published figures.
//!
//! Running, judging and printing are separate: [`Paper::cells`] lists the measurements, each
//! [`Cell::measure`] is independent and may run on any thread, and [`Paper::judge`] makes the rows.
//! A prediction is the median over draws from the machine's ranges, with its minimum and maximum.

use std::fmt;
use std::sync::Arc;

use crate::machine::{Machine, MachineError};
use crate::report::Row;
use crate::rng::latin_hypercube;
use crate::scenario::Outcome;

mod claim;
mod context_switch;
mod cramfs;
mod flush;
mod request_size;
mod throttle;
mod verdict;

pub use verdict::{Agreement, Headline, PaperVerdict};

/// Every paper that can be reproduced.
pub static PAPERS: &[Paper] =
    &[request_size::PAPER, cramfs::PAPER, throttle::PAPER, flush::PAPER, context_switch::PAPER];

/// A paper whose experiments say something on every machine.
const ANY_MACHINE: fn(&Machine) -> Option<&'static str> = |_| None;

/// What most papers' figures are.
const MEDIAN_OVER_DRAWS: &str = "measured is the median over the draws, range their extremes.";

/// One paper.
#[derive(Debug)]
pub struct Paper {
    /// What a user types.
    pub name: &'static str,
    /// Authors and title.
    pub citation: &'static str,
    /// The machine of its experiments.
    pub machine: &'static str,
    /// What the paper claims, in one or two sentences.
    pub claim: &'static str,
    /// The figure that an overview shows for the paper.
    pub headline: Headline,
    /// Processor seconds of a run on a processor of 2026, for an estimate.
    pub cost: RunCost,
    /// What is modelled and what is not claimed, in a few sentences.
    pub about: &'static str,
    /// What the measured figures and their ranges are.
    pub measured: &'static str,
    /// Whether its measurements keep numbers over time, which [`Measured::series`] has.
    pub keeps_series: bool,
    /// What of it is scaled down unless it is run at full size; nothing if that is empty.
    pub scaled: &'static str,
    /// Selects the rows of the narrower case in which the paper holds, if there is one.
    alone: Option<fn(&Row) -> bool>,
    /// Why its experiments would say nothing on a machine, if that is so.
    unfit: fn(&Machine) -> Option<&'static str>,
    experiments: fn(RunSize) -> Vec<Experiment>,
    rows: fn(&Results<'_>, RunSize) -> Vec<Row>,
}

/// Which experiments are run, and whether the longest are run as the papers ran them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSize {
    /// Only those with a figure that counts for the paper, scaled down.
    Counted,
    /// All, scaled down by as much as their results allow.
    Scaled,
    /// All, as the papers ran them.
    Full,
}

/// Processor seconds that the experiments of a paper take: those that count, all of them scaled
/// down, and at full size.
#[derive(Clone, Copy, Debug)]
pub struct RunCost {
    /// Runs that do not depend on the number of draws.
    pub fixed: [f64; 3],
    /// Each draw.
    pub draw: [f64; 3],
    /// The most draws that are made.
    pub draws_max: [u32; 3],
}

/// Something to measure under one set of policies.
#[derive(Clone)]
pub(crate) struct Experiment {
    /// The workload.
    pub(crate) row: String,
    /// The policies, as a row names them.
    pub(crate) policy: String,
    pub(crate) draws: Draws,
    /// Whether a figure that counts for the paper comes from it.
    counts: bool,
    run: Arc<Run>,
}

/// Which machines an experiment is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draws {
    /// Every draw from the machine's ranges.
    Each,
    /// At most this many of them, the first ones.
    First(u32),
    /// The nominal machine.
    Nominal,
}

/// Runs an experiment on a machine with a seed.
pub(crate) type Run = dyn Fn(&Machine, u64) -> Result<Measured, MachineError> + Send + Sync;

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Cell {
    place: usize,
    experiment: Experiment,
    machine: Machine,
    seed: u64,
}

/// Results of a run: bytes that the tasks transferred, the run's outcome, and other figures of the
/// paper.
#[derive(Clone, Debug)]
pub struct Measured {
    pub(crate) bytes: u64,
    pub(crate) outcome: Outcome,
    /// Figures by name.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// What went on over time.
    pub(crate) series: Vec<Series>,
}

/// Numbers over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The workload.
    pub row: String,
    /// The policies it was run with.
    pub policy: String,
    /// The metric.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Seconds since the start, and the number from then on.
    pub points: Vec<(f64, f64)>,
}

/// All measurements of a paper.
pub(crate) struct Results<'a> {
    /// Its short name.
    pub(crate) paper: &'static str,
    experiments: &'a [Experiment],
    /// Per experiment, one measurement per draw.
    measured: Vec<Vec<Measured>>,
    pub(crate) seed: u64,
}

impl Paper {
    /// The paper of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// An estimate of the processor seconds that [`Paper::cells`] take on a processor of 2026.
    pub fn processor_seconds(&self, size: RunSize, draws: u32) -> f64 {
        let size = size as usize;
        let draws = draws.min(self.cost.draws_max[size]);
        self.cost.fixed[size] + self.cost.draw[size] * f64::from(draws)
    }

    /// Why the experiments would say nothing on a machine, if that is so.
    pub fn unfit(&self, machine: &Machine) -> Option<&'static str> {
        (self.unfit)(machine)
    }

    /// The measurements for `draws` draws of a machine; one draw is the nominal machine.
    pub fn cells(&self, machine: &Machine, size: RunSize, seed: u64, draws: u32) -> Vec<Cell> {
        let draws = draws.min(self.cost.draws_max[size as usize]);
        let points = latin_hypercube(seed, machine.uncertain().len(), draws as usize);
        let nominal = vec![machine.clone()];
        let machines: Vec<Machine> = match draws {
            0 | 1 => nominal.clone(),
            _ => points.iter().map(|point| machine.draw(point)).collect(),
        };
        let mut cells = Vec::new();
        for (place, experiment) in (self.experiments)(size).iter().enumerate() {
            if size == RunSize::Counted && !experiment.counts {
                continue;
            }
            let machines = match experiment.draws {
                Draws::Each => &machines[..],
                Draws::First(most) => &machines[..machines.len().min(most as usize)],
                Draws::Nominal => &nominal,
            };
            for (draw, machine) in machines.iter().enumerate() {
                // Policies are compared under the same rotation, jitter and layout.
                let seed = seed.wrapping_add(draw as u64);
                let (experiment, machine) = (experiment.clone(), machine.clone());
                cells.push(Cell { place, experiment, machine, seed });
            }
        }
        cells
    }

    /// The rows of the experiments, from one measurement per cell in the order of the cells.
    ///
    /// # Panics
    /// If cells and measurements do not match.
    pub fn judge(
        &self,
        size: RunSize,
        cells: &[Cell],
        measured: &[Measured],
        seed: u64,
    ) -> Vec<Row> {
        assert_eq!(cells.len(), measured.len(), "each cell has one measurement");
        let experiments = (self.experiments)(size);
        let mut grouped = vec![Vec::new(); experiments.len()];
        for (cell, measured) in cells.iter().zip(measured) {
            grouped[cell.place].push(measured.clone());
        }
        let paper = self.name;
        let results = Results { paper, experiments: &experiments, measured: grouped, seed };
        let mut rows = (self.rows)(&results, size);
        rows.retain(|row| row.measured.is_some_and(|figure| !figure.is_nan()));
        rows
    }
}

impl Experiment {
    /// An experiment that every draw of the machine measures once.
    pub(crate) fn new(
        row: String,
        policy: &str,
        run: impl Fn(&Machine, u64) -> Result<Measured, MachineError> + Send + Sync + 'static,
    ) -> Self {
        let (policy, draws, run) = (policy.to_owned(), Draws::Each, Arc::new(run));
        Self { row, policy, draws, counts: false, run }
    }

    /// The same, of which a figure counts for the paper.
    pub(crate) fn counted(self) -> Self {
        Self { counts: true, ..self }
    }

    /// The same, measured only on the nominal machine.
    pub(crate) fn nominal(self) -> Self {
        Self { draws: Draws::Nominal, ..self }
    }
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} under {}", self.row, self.policy)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Experiment { row, policy, .. } = &self.experiment;
        if policy.is_empty() { f.write_str(row) } else { write!(f, "{row} under {policy}") }
    }
}

impl Cell {
    /// Runs the experiment.
    ///
    /// # Errors
    /// The files of the experiment do not fit on the machine's device.
    pub fn measure(&self) -> Result<Measured, MachineError> {
        (self.experiment.run)(&self.machine, self.seed)
    }
}

impl Measured {
    /// The outcome of the run, without other figures.
    pub(crate) fn new(bytes: u64, outcome: Outcome) -> Self {
        Self { bytes, outcome, figures: Vec::new(), series: Vec::new() }
    }

    /// Numbers over time, of all kinds that the experiment keeps.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Bytes per second in units of a million.
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds()
    }

    /// A figure that the experiment keeps, by its name.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let found = self.figures.iter().find(|(known, _)| *known == name);
        found.expect("a row asks for a figure that its experiment keeps").1
    }

    /// The length of the run.
    pub(crate) fn seconds(&self) -> f64 {
        self.outcome.elapsed.as_nanos() as f64 / 1e9
    }
}

impl Results<'_> {
    /// A figure of each draw of an experiment.
    pub(crate) fn figures(
        &self,
        policy: &str,
        row: &str,
        figure: impl Fn(&Measured) -> f64,
    ) -> Vec<f64> {
        self.of(policy, row).iter().map(figure).collect()
    }

    /// A figure of an experiment that is measured once: NaN, and there is no row, if it was not
    /// run.
    pub(crate) fn only(&self, policy: &str, row: &str, figure: impl Fn(&Measured) -> f64) -> f64 {
        self.of(policy, row).first().map_or(f64::NAN, figure)
    }

    /// A figure that compares an experiment under two policies, draw by draw.
    pub(crate) fn compared(
        &self,
        policies: (&str, &str),
        row: &str,
        figure: impl Fn(&Measured, &Measured) -> f64,
    ) -> Vec<f64> {
        let pairs = self.of(policies.0, row).iter().zip(self.of(policies.1, row));
        pairs.map(|(one, other)| figure(one, other)).collect()
    }

    fn of(&self, policy: &str, row: &str) -> &[Measured] {
        let same = |what: &Experiment| what.policy == policy && what.row == row;
        let place = self.experiments.iter().position(same);
        &self.measured[place.expect("a row is made from an experiment that was run")]
    }
}
