//! What the paper prints and what was measured beside it, as rows.

use super::load::{DURABLE, FIGURES, LAST_WRITE, Setup, WRITTEN};
use super::{DRAWN, FULL, HIGH, LOW, OFF, OTHERS, SCALED, SMALLER, STOCK};
use crate::paper::claim::{Claim, between, percent};
use crate::paper::{Measured, Results};
use crate::report::{Role, Row};

/// The row of a figure at full size, whose range is that of the draws and itself.
fn at_full_size(claim: Claim<'_>, results: &Results<'_>, setup: &Setup, metric: &str) -> Row {
    let figures = |row| results.figures(setup.name, row, |measured| measured.figure(metric));
    claim.row_at(results, only(&figures(FULL)), figures(DRAWN))
}

/// How a figure of the modified kernel differs from that of the stock one, in percent.
fn modified(claim: Claim<'_>, results: &Results<'_>, metric: &str) -> Row {
    compared(claim, results, (OFF.name, STOCK.name), metric)
}

fn compared(claim: Claim<'_>, results: &Results<'_>, policies: (&str, &str), metric: &str) -> Row {
    let compared = |row| results.compared(policies, row, |one, other| against(one, other, metric));
    claim.row_at(results, only(&compared(FULL)), compared(DRAWN))
}

/// The figure of an experiment that is measured once.
fn only(figures: &[f64]) -> f64 {
    *figures.first().expect("every experiment is measured at least once")
}

/// How much greater a figure of `one` is than that of `other`, in percent.
fn against(one: &Measured, other: &Measured, metric: &str) -> f64 {
    percent(one.figure(metric), other.figure(metric))
}

const CALIBRATED: &str = "device.efficiency of ssd-2014 was fitted to this figure and to no other";
const WITHOUT: &str = "without a throttle dirty pages fill what the active list does not hold: \
                       reclaim of 3.18 leaves clean active pages alone";
const BASES: &str = "the paper prints a decrease of 34 % twice; 864 s and 644.28 s are 25.4 % less \
                     time and 34.1 % more throughput";

/// Figure 1 and the text about it.
pub(super) fn published(results: &Results<'_>) -> Vec<Row> {
    let claim = |metric, unit, policy, published, role, tolerance, note| Claim {
        row: FULL.to_owned(),
        metric,
        unit,
        policy,
        published: Some(published),
        role,
        tolerance,
        note,
    };
    let (stock, off) = (STOCK.name, OFF.name);
    let (calibrated, predicted) = (Role::Calibrated, Role::Predicted);
    // 2 % about the published time; 10 % about the published time.
    let near = between(846.7, 881.3);
    let far = between(580.0, 709.0);
    // Times that are 0.71 to 0.82 of the stock kernel's.
    let (less, more) = (between(-29.0, -18.0), between(22.0, 40.8));
    let context = |metric, note| Claim::context(FULL, (metric, "%"), off, note);
    vec![
        at_full_size(
            claim(LAST_WRITE, "s", stock, 864.0, calibrated, near, CALIBRATED),
            results,
            &STOCK,
            LAST_WRITE,
        ),
        at_full_size(
            claim(LAST_WRITE, "s", off, 644.28, predicted, far, WITHOUT),
            results,
            &OFF,
            LAST_WRITE,
        ),
        modified(
            claim("run time change", "%", off, -25.4, predicted, less, BASES),
            results,
            LAST_WRITE,
        ),
        // Throughput is to throughput as the times are the other way round.
        compared(
            claim("throughput change", "%", off, 34.1, predicted, more, BASES),
            results,
            (stock, off),
            LAST_WRITE,
        ),
        modified(context("run time change until durable", "with a final sync"), results, DURABLE),
        modified(context("device bytes change", "until the last write"), results, WRITTEN),
    ]
}

/// Whether the scaled runs can stand for those at full size.
pub(super) fn agreement(results: &Results<'_>, (scaled, drawn): (u64, u64)) -> Vec<Row> {
    let metrics = [("last write against full", LAST_WRITE), ("durable against full", DURABLE)];
    let mut rows = Vec::new();
    for (place, scale) in [(SCALED, scaled), (SMALLER, drawn)] {
        for setup in [STOCK, OFF] {
            for (metric, figure) in metrics {
                let of = |row| only(&results.figures(setup.name, row, |one| one.figure(figure)));
                let claim = Claim {
                    role: Role::Derived,
                    tolerance: between(-2.0, 2.0),
                    ..Claim::context(place, (metric, "%"), setup.name, "")
                };
                let difference = percent(of(place), of(FULL));
                let mut row = claim.row_at(results, difference, Vec::new());
                row.note = format!("all sizes divided by {scale}, times multiplied by it");
                rows.push(row);
            }
        }
    }
    rows
}

/// How long runs take under each setup, against stock; first those of one dirty level.
pub(super) fn at_one_level(results: &Results<'_>) -> Vec<Row> {
    let compared = |one: &str, other: &str, metric: &'static str| {
        only(&results.compared((one, other), SCALED, |one, other| against(one, other, metric)))
    };
    let row = |name: &'static str, policy, note, value| {
        Claim::context(SCALED, (name, "%"), policy, note).row_at(results, value, Vec::new())
    };
    let low = "no throttle, but memory for no more than the stock throttle keeps dirty";
    let high = "the stock throttle with about as much dirty as without one";
    let mut rows = vec![
        row(
            "run time against linux-3.18",
            LOW.name,
            low,
            compared(LOW.name, STOCK.name, LAST_WRITE),
        ),
        row("run time against off", HIGH.name, high, compared(HIGH.name, OFF.name, LAST_WRITE)),
    ];
    for setup in [OFF].iter().chain(OTHERS.iter().filter(|setup| setup.name != LOW.name)) {
        let name = setup.name;
        let last = compared(name, STOCK.name, LAST_WRITE);
        rows.push(row("run time against linux-3.18", name, "", last));
        let durable = compared(name, STOCK.name, DURABLE);
        rows.push(row("run time until durable against linux-3.18", name, "", durable));
    }
    rows
}

/// Every figure of a setup that no row of the paper has.
pub(super) fn figures(results: &Results<'_>, setup: &Setup, full: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (metric, unit) in FIGURES {
        let context = |row, note| Claim::context(row, (metric, unit), setup.name, note);
        if !full {
            let figure = results.figures(setup.name, SCALED, |one| one.figure(metric));
            rows.push(context(SCALED, "").row_at(results, only(&figure), Vec::new()));
        } else if metric != LAST_WRITE {
            rows.push(at_full_size(context(FULL, ""), results, setup, metric));
        }
    }
    rows
}
