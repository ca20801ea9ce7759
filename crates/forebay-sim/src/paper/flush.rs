//! Adaptive buffer flushing on Linux 2.2.19.
use super::{Draws, Experiment, Measured, Paper, Results};
use crate::machine::Machine;
use crate::report::{Role, Row, spread};
use crate::workload::bonnie::Phase;
use crate::workload::burst::Burst;
use bonnie::{PHASES, Run};
use settings::*;
mod bonnie;
mod series;
mod settings;
mod stall;

pub(super) const PAPER: Paper = Paper {
    name: "flush",
    citation: "S. Park, T. Kim, H. Shin: An adaptive buffer flush policy for Linux-based storage servers",
    machine: "raid-2001",
    about: "",
    experiments,
    rows,
};

fn wanted() -> Vec<(Run, Setting)> {
    let mut v = Vec::new();
    for mib in [100, 1000] {
        for s in [REDHAT, SOL, DYN, SOL_YOUNG, BOUNDED, DRAIN].into_iter().chain(FACTORS) {
            v.push((Run::Tables(mib), s));
            v.push((Run::Until(mib, Phase::BlockWrite), s));
        }
    }
    v
}

fn experiments() -> Vec<Experiment> {
    let mut out = Vec::new();
    for (run, s) in wanted() {
        let mut e = Experiment::new(run.name(), s.name, move |m: &Machine, seed| {
            let t = std::time::Instant::now();
            let r = run.measure(m, s, seed);
            eprintln!("{} {} {:?}", run.name(), s.name, t.elapsed());
            r
        });
        e.draws = Draws::Nominal;
        out.push(e);
    }
    if std::env::var("STALL").is_ok() {
    for s in [REDHAT, SOL, DYN, BOUNDED, DRAIN].into_iter().chain(TODAY) {
        let mut e = Experiment::new(stall::ROW.to_owned(), s.name, move |m: &Machine, seed| {
            let t = std::time::Instant::now();
            let r = stall::measure(Burst::default(), m, s, seed);
            eprintln!("stall {} {:?}", s.name, t.elapsed());
            r
        });
        e.draws = Draws::Nominal;
        out.push(e);
    }
    }
    out
}

fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, e) in results.experiments.iter().enumerate() {
        for (name, value) in &results.measured[place][0].figures {
            rows.push(Row { paper: "flush", row: e.row.clone(), metric: name, unit: "", policy: e.policy.clone(), published: None, role: Role::Predicted, measured: Some(*value), low: None, high: None, tolerance: (None, None), note: String::new(), seed: results.seed });
        }
    }
    let _ = (spread(vec![]), PHASES);
    rows
}
