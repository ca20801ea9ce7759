//! Published and measured figures, as rows.

use super::load::{PER_READ, TIME};
use super::{
    ADAPTIVE, BOOT, CASES, CORES, Case, DEFERRED, FAIR, INLINE, LOADED, MODES, O1, ON_CORES,
    SCHEDULERS, SWITCHES, drawn, latency, on_cores, policy, rested, ring,
};
use crate::paper::Results;
use crate::paper::claim::{Claim, OPEN, Tolerance, between, percent};
use crate::report::{Role, Row};

/// The figure of a ring.
pub(super) const SWITCH: &str = "switch";

const CALIBRATED_READS: &str = "the number of reads was fitted to the first of these times, the \
                                parts of a read to the ratios of the others to it";
const CONTRADICTS: &str = "not claimed: under the kernel's own scheduler the model has inline lose \
                           beside busy tasks; the paper's tasks must have run under other \
                           conditions than it prints";
const CHARGED: &str = "the reader keeps its share of the processor, whichever thread serves it";
const TWO_STATES: &str = "the O(1) scheduler knows two states of a thread that polls: one that has \
                          slept keeps its bonus, as running costs it a tenth; one that has not \
                          never earns it. The published times are those of the second";
const HALF: &str = "that half of the time goes into reads is assumed, so is that four tasks with \
                    100 KB of data run; sign and size alone are claimed";

/// Every row of the paper.
pub(super) fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = switches(results);
    for scheduler in SCHEDULERS {
        for case in &CASES {
            rows.extend(times(results, case, scheduler));
        }
        rows.extend(more_under_load(results, scheduler));
    }
    for scheduler in SCHEDULERS {
        for case in &CASES {
            rows.extend(beside(results, case, scheduler, 1));
        }
    }
    for case in ON_CORES.map(|place| &CASES[place]) {
        for cores in CORES {
            rows.extend(beside(results, case, FAIR, cores));
        }
    }
    rows.extend(after_rest(results));
    rows.extend(latency::rows(results));
    rows
}

/// The O(1) scheduler once more, with a driver's thread that has slept before.
fn after_rest(results: &Results<'_>) -> Vec<Row> {
    let name = rested(&CASES[LOADED]);
    let row = |mode| {
        let policy = policy(mode, O1);
        let figures = results.figures(&policy, &name, |one| one.figure(TIME));
        Claim::context(&name, (TIME, "ms"), &policy, TWO_STATES).row(results, figures)
    };
    [DEFERRED, INLINE].into_iter().map(row).collect()
}

/// Table 2.
fn switches(results: &Results<'_>) -> Vec<Row> {
    let row = |(tasks, data, published): (u32, u64, f64)| {
        let figures = results.figures("", &ring(tasks, data), |one| one.figure(SWITCH));
        let claim = Claim {
            published: Some(published),
            role: Role::Calibrated,
            tolerance: between(published - 4.0, published + 4.0),
            ..Claim::context(
                ring(tasks, data),
                (SWITCH, "us"),
                "",
                "4 us is the noise of the table, in which more tasks cost less",
            )
        };
        claim.row(results, figures)
    };
    SWITCHES.into_iter().map(row).collect()
}

/// A case before and after, and what that gains.
fn times(results: &Results<'_>, case: &Case, scheduler: &str) -> Vec<Row> {
    let [before, after] = case.published;
    let of = |mode: &str, row: &str| {
        results.figures(&policy(mode, scheduler), row, |one| one.figure(TIME))
    };
    let once =
        |mode: &str| results.only(&policy(mode, scheduler), case.name, |one| one.figure(TIME));
    let time = |mode, published, role, tolerance, note| {
        let policy = policy(mode, scheduler);
        let claim = Claim {
            published: Some(published),
            role,
            tolerance,
            ..Claim::context(case.name, (TIME, "ms"), &policy, note)
        };
        claim.row_at(results, once(mode), of(mode, &drawn(case)))
    };
    let of_draws = {
        let pairs = of(DEFERRED, &drawn(case)).into_iter().zip(of(INLINE, &drawn(case)));
        pairs.map(|(before, after)| -percent(after, before)).collect::<Vec<f64>>()
    };
    let (tolerance, note) = accepted(case, scheduler);
    let of_gain = |gain: f64| before * (1.0 - gain / 100.0);
    let in_time = (tolerance.1.map(of_gain), tolerance.0.map(of_gain));
    let near = between(before * 0.9, before * 1.1);
    let inline = policy(INLINE, scheduler);
    let published_gain = -percent(after, before);
    let gains = Claim {
        published: Some(published_gain),
        role: Role::Predicted,
        tolerance,
        ..Claim::context(case.name, ("gain", "%"), &inline, note)
    };
    [
        time(DEFERRED, before, Role::Calibrated, near, CALIBRATED_READS),
        time(INLINE, after, Role::Predicted, in_time, note),
        gains.row_at(results, -percent(once(INLINE), once(DEFERRED)), of_draws),
    ]
    .map(|row| Row { contradicts: row.role == Role::Predicted && !case.company.is_alone(), ..row })
    .into()
}

/// Which gains count as agreement, in percent.
fn accepted(case: &Case, scheduler: &str) -> (Tolerance, &'static str) {
    match (case.name, case.company.is_alone(), scheduler) {
        (BOOT, _, _) => (between(3.0, 12.0), HALF),
        (_, true, _) => (between(4.5, 7.5), ""),
        (_, false, FAIR) => (between(8.0, 20.0), CHARGED),
        (_, false, _) => (OPEN, CONTRADICTS),
    }
}

/// Whether load makes the gain greater, as the paper has it.
fn more_under_load(results: &Results<'_>, scheduler: &str) -> Vec<Row> {
    let gain = |case: &Case| {
        let of = |mode: &str| {
            let policy = policy(mode, scheduler);
            results.only(&policy, case.name, |one| one.figure(TIME))
        };
        -percent(of(INLINE), of(DEFERRED))
    };
    let fair = scheduler == FAIR;
    let policy = policy(INLINE, scheduler);
    let claim = Claim {
        role: Role::Predicted,
        tolerance: if fair { (Some(0.0), None) } else { OPEN },
        published: Some(9.68 - 6.41),
        ..Claim::context(
            CASES[2].name,
            ("gain more than alone", "% points"),
            &policy,
            if fair { CHARGED } else { CONTRADICTS },
        )
    };
    let row = claim.row_at(results, gain(&CASES[2]) - gain(&CASES[0]), Vec::new());
    vec![Row { contradicts: true, ..row }]
}

/// All three rules compared: times and the cost of a read; how much slower the adaptive rule is
/// than the better of the others.
fn beside(results: &Results<'_>, case: &Case, scheduler: &str, cores: u32) -> Vec<Row> {
    let name = on_cores(case, cores);
    let of = |mode: &str, figure: &str| {
        results.only(&policy(mode, scheduler), &name, |one| one.figure(figure))
    };
    let context = |mode, (figure, unit)| {
        let policy = policy(mode, scheduler);
        let value = of(mode, figure);
        Claim::context(&name, (figure, unit), &policy, "").row_at(results, value, Vec::new())
    };
    let mut rows = Vec::new();
    for mode in MODES {
        // The paper's own runs have a row already.
        if cores > 1 || mode == ADAPTIVE {
            rows.push(context(mode, (TIME, "ms")));
        }
        rows.extend(PER_READ.map(|figure| context(mode, figure)));
    }
    let better = of(DEFERRED, TIME).min(of(INLINE, TIME));
    let adaptive = policy(ADAPTIVE, scheduler);
    let behind = percent(of(ADAPTIVE, TIME), better);
    // Its trials let the thread sleep for a second.
    let note = if behind < -10.0 { TWO_STATES } else { "" };
    let claim = Claim {
        role: Role::Derived,
        tolerance: (None, Some(3.0)),
        ..Claim::context(&name, ("adaptive against the better", "%"), &adaptive, note)
    };
    rows.push(claim.row_at(results, behind, Vec::new()));
    rows
}
