//! From 1 us to 10 ms: at which latency of a device it pays to give the processor away.

use forebay_core::time::Duration;

use super::load::{Company, Load, Pattern, Reader, TIME};
use super::{ADAPTIVE, DEFERRED, INLINE, MODES};
use crate::machine::{Machine, MachineError};
use crate::paper::claim::{Claim, percent};
use crate::paper::{Draws, Experiment, Measured, Results};
use crate::report::{Role, Row};

/// Latencies of the device in us.
const LATENCIES: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

/// Cores, and tasks that compute besides the reader.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: &'static str,
    cores: u32,
    company: Company,
    /// What a switch costs, if not as much as on the machine.
    switch: Option<&'static str>,
}

const PLACES: [Place; 5] = [
    place("1 core, alone", 1, Company::Alone),
    place("1 core, 1 computes", 1, Company::Compute(1)),
    Place { switch: Some("6.94us"), ..place("1 core, 1 computes, dear", 1, Company::Compute(1)) },
    place("2 cores, 2 compute", 2, Company::Compute(2)),
    place("4 cores, 4 compute", 4, Company::Compute(4)),
];

const fn place(name: &'static str, cores: u32, company: Company) -> Place {
    Place { name, cores, company, switch: None }
}

/// What the reader computes after each read.
const COMPUTES: Duration = Duration::from_micros(10);

/// Virtual seconds of a run, had the device no latency but that of the table and the path 20 us.
/// Trials of a second must not weigh in those of the adaptive rule.
const SECONDS: u64 = 2;
const SECONDS_ADAPTIVE: u64 = 20;

pub(super) fn experiments() -> Vec<Experiment> {
    let mut all = Vec::new();
    for place in PLACES {
        for latency in LATENCIES {
            for mode in MODES {
                let run = move |_: &Machine, seed| measure(place, latency, mode, seed);
                let experiment = Experiment::new(name(place, latency), mode, run);
                all.push(Experiment { draws: Draws::Nominal, ..experiment });
            }
        }
    }
    all
}

fn name(place: Place, latency: u64) -> String {
    format!("{}, {latency} us", place.name)
}

/// The reader of today's machine on a device of this latency and no jitter.
fn measure(
    place: Place,
    latency: u64,
    dispatch: &'static str,
    seed: u64,
) -> Result<Measured, MachineError> {
    let mut machine = Machine::builtin("nvme-2026")?;
    machine.set("device.delay", &format!("{latency}us"))?;
    machine.set("device.jitter", "0")?;
    if let Some(switch) = place.switch {
        machine.set("cpu.context_switch", switch)?;
    }
    let seconds = if dispatch == ADAPTIVE { SECONDS_ADAPTIVE } else { SECONDS };
    let reads = seconds * 1_000_000 / (latency + 20);
    let pattern = Pattern::Random;
    let reader = Reader { pattern, reads, computes: COMPUTES, footprint: 0, weight: 1024 };
    let Place { cores, company, .. } = place;
    let load = Load {
        reader,
        readers: 1,
        company,
        dispatch,
        scheduler: "fair",
        cores,
        scale: 1,
        rest: Duration::ZERO,
    };
    let mut measured = load.measure(&machine, seed)?;
    // One run is longer than the other, so the time of one read is compared.
    for (figure, value) in &mut measured.figures {
        if *figure == TIME {
            *value *= 1e3 / reads as f64;
        }
    }
    Ok(measured)
}

pub(super) fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for place in PLACES {
        let time =
            |mode: &str, latency| results.only(mode, &name(place, latency), |one| one.figure(TIME));
        for latency in LATENCIES {
            let context = |metric, mode, value| {
                Claim::context(name(place, latency), metric, mode, "").row_at(
                    results,
                    value,
                    Vec::new(),
                )
            };
            for mode in MODES {
                rows.push(context(("time of a read", "us"), mode, time(mode, latency)));
            }
            let better = time(DEFERRED, latency).min(time(INLINE, latency));
            let claim = Claim {
                role: Role::Derived,
                tolerance: (None, Some(3.0)),
                ..Claim::context(
                    name(place, latency),
                    ("adaptive against the better", "%"),
                    ADAPTIVE,
                    "",
                )
            };
            let behind = percent(time(ADAPTIVE, latency), better);
            rows.push(claim.row_at(results, behind, Vec::new()));
        }
        let gains = LATENCIES.map(|latency| time(DEFERRED, latency) / time(INLINE, latency));
        let note = "where deferring becomes the faster one, between two latencies of the table; \
                    none if that is at no latency or below the least, 1 us";
        let claim = Claim::context(place.name, ("crossing", "us"), "deferred, inline", note);
        rows.push(claim.row(results, crossing(&gains).into_iter().collect()));
    }
    rows
}

/// The latency at which inline is no longer the faster one, by the ratios of the times: on the
/// straight line between two points of the table over the logarithm of the latency.
fn crossing(gains: &[f64; LATENCIES.len()]) -> Option<f64> {
    let after = gains.iter().position(|gain| *gain < 1.0)?;
    let at = |place: usize| (LATENCIES[place] as f64).ln();
    let before = after.checked_sub(1)?;
    let share = (gains[before] - 1.0) / (gains[before] - gains[after]);
    Some((at(before) + share * (at(after) - at(before))).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_that_is_pushed_off_does_not_mislead_the_adaptive_rule() {
        let dear = PLACES[2];
        for latency in [300, 500, 600] {
            let time = |mode| measure(dear, latency, mode, 1).unwrap().figure(TIME);
            let behind = percent(time(ADAPTIVE), time(DEFERRED));
            assert!(behind <= 3.0, "{latency} us: {behind} %");
        }
    }

    #[test]
    fn the_crossing_lies_between_the_points_that_it_parts() {
        let mut gains = [0.5; LATENCIES.len()];
        gains[..5].copy_from_slice(&[1.5, 1.5, 1.5, 1.2, 1.1]);
        let found = crossing(&gains).unwrap();
        assert!((20.0..30.0).contains(&found), "{found}");
        assert_eq!(crossing(&[1.0; LATENCIES.len()]), None);
        assert_eq!(crossing(&[0.9; LATENCIES.len()]), None, "below the table");
    }
}
