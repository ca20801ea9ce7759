//! The papers: their experiments as data, run in virtual time, judged against what was published.
//!
//! Running, judging and printing are apart: [`Paper::cells`] lists what has to be measured, each
//! [`Cell::measure`] stands for itself and may run on any thread, and [`Paper::judge`] makes the
//! rows. A prediction is the median over draws from the machine's ranges, with its least and
//! greatest.

use forebay_core::readahead::Spec;

use crate::machine::{Machine, MachineError};
use crate::report::Row;
use crate::rng::latin_hypercube;
use crate::scenario::Outcome;

mod request_size;

/// Every paper that can be reproduced.
pub static PAPERS: &[Paper] = &[request_size::PAPER];

/// One paper.
#[derive(Debug)]
pub struct Paper {
    /// What a user types.
    pub name: &'static str,
    /// Authors and title.
    pub citation: &'static str,
    /// The machine of its experiments.
    pub machine: &'static str,
    /// What is modelled and what is not claimed, in a few sentences.
    pub about: &'static str,
    experiments: fn() -> Vec<Experiment>,
    rows: fn(&Results<'_>) -> Vec<Row>,
}

/// Something to measure under one policy; every draw of the machine measures it once.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) policy: &'static str,
    pub(crate) kind: request_size::Kind,
}

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Cell {
    experiment: usize,
    kind: request_size::Kind,
    policy: Spec,
    machine: Machine,
    seed: u64,
}

/// What was measured: bytes that the tasks received, and the run's outcome.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub(crate) bytes: u64,
    pub(crate) outcome: Outcome,
}

/// All measurements of a paper.
pub(crate) struct Results<'a> {
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

    /// What has to be measured for `draws` draws of a machine; one draw is the machine itself.
    pub fn cells(&self, machine: &Machine, seed: u64, draws: u32) -> Vec<Cell> {
        let points = latin_hypercube(seed, machine.uncertain().len(), draws as usize);
        let machines: Vec<Machine> = match draws {
            0 | 1 => vec![machine.clone()],
            _ => points.iter().map(|point| machine.draw(point)).collect(),
        };
        let mut cells = Vec::new();
        for (experiment, what) in (self.experiments)().iter().enumerate() {
            let policy = Spec::parse(what.policy).expect("an experiment names a policy");
            for (draw, machine) in machines.iter().enumerate() {
                // Policies are compared under the same rotation, jitter and layout.
                let seed = seed.wrapping_add(draw as u64);
                let (kind, policy, machine) = (what.kind, policy.clone(), machine.clone());
                cells.push(Cell { experiment, kind, policy, machine, seed });
            }
        }
        cells
    }

    /// The rows, from one measurement per cell in the order of the cells.
    ///
    /// # Panics
    /// If cells and measurements do not match.
    pub fn judge(&self, cells: &[Cell], measured: &[Measured], seed: u64) -> Vec<Row> {
        assert_eq!(cells.len(), measured.len(), "each cell has one measurement");
        let experiments = (self.experiments)();
        let mut grouped = vec![Vec::new(); experiments.len()];
        for (cell, measured) in cells.iter().zip(measured) {
            grouped[cell.experiment].push(*measured);
        }
        (self.rows)(&Results { experiments: &experiments, measured: grouped, seed })
    }
}

impl Cell {
    /// Runs the experiment.
    ///
    /// # Errors
    /// The files of the experiment do not fit on the machine's device.
    pub fn measure(&self) -> Result<Measured, MachineError> {
        self.kind.run(&self.machine, &self.policy, self.seed)
    }
}

impl Measured {
    /// Bytes per second in units of a million.
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds()
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
        kind: request_size::Kind,
        figure: impl Fn(&Measured) -> f64,
    ) -> Vec<f64> {
        self.of(policy, kind).iter().map(figure).collect()
    }

    /// A figure that compares an experiment under two policies, draw by draw.
    pub(crate) fn compared(
        &self,
        policies: (&str, &str),
        kind: request_size::Kind,
        figure: impl Fn(&Measured, &Measured) -> f64,
    ) -> Vec<f64> {
        let pairs = self.of(policies.0, kind).iter().zip(self.of(policies.1, kind));
        pairs.map(|(one, other)| figure(one, other)).collect()
    }

    fn of(&self, policy: &str, kind: request_size::Kind) -> &[Measured] {
        let same = |what: &Experiment| what.policy == policy && what.kind == kind;
        let place = self.experiments.iter().position(same);
        &self.measured[place.expect("a row is made from an experiment that was run")]
    }
}
