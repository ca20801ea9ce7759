//! Published and measured figures, as rows.

use super::load::{DURABLE, FIGURES, LAST_WRITE, Setup, WRITTEN};
use super::{DRAWN, HIGH, LOW, OFF, OTHERS, STOCK, Sizes, row_at};
use crate::paper::claim::{Claim, between, percent};
use crate::paper::{Measured, Results};
use crate::report::{Role, Row};

/// The row of a figure of the published runs, whose range is that of the draws and itself.
fn with_draws(claim: Claim<'_>, results: &Results<'_>, setup: &Setup, metric: &str) -> Row {
    let figure = |measured: &Measured| measured.figure(metric);
    let measured = results.only(setup.name, &claim.row, figure);
    claim.row_at(results, measured, results.figures(setup.name, DRAWN, figure))
}

/// How a figure of the modified kernel differs from that of the stock one, in percent.
fn modified(claim: Claim<'_>, results: &Results<'_>, metric: &str) -> Row {
    compared(claim, results, (OFF.name, STOCK.name), metric)
}

fn compared(claim: Claim<'_>, results: &Results<'_>, policies: (&str, &str), metric: &str) -> Row {
    let compared =
        |row: &str| results.compared(policies, row, |one, other| against(one, other, metric));
    let measured = only(&compared(&claim.row));
    claim.row_at(results, measured, compared(DRAWN))
}

/// The figure that compares two experiments, each measured once; NaN if one was not run.
fn only(figures: &[f64]) -> f64 {
    figures.first().copied().unwrap_or(f64::NAN)
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
pub(super) fn published(results: &Results<'_>, scale: u64) -> Vec<Row> {
    let claim = |metric, unit, policy, published, role, tolerance, note| Claim {
        row: row_at(scale),
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
    let context = |metric, note| Claim::context(row_at(scale), (metric, "%"), off, note);
    vec![
        with_draws(
            claim(LAST_WRITE, "s", stock, 864.0, calibrated, near, CALIBRATED),
            results,
            &STOCK,
            LAST_WRITE,
        ),
        with_draws(
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

/// Whether runs with a larger divisor can replace the published ones.
pub(super) fn agreement(results: &Results<'_>, sizes: Sizes) -> Vec<Row> {
    let metrics =
        [("last write against larger runs", LAST_WRITE), ("durable against larger runs", DURABLE)];
    let mut scales = vec![sizes.compared, sizes.drawn];
    scales.dedup();
    let mut rows = Vec::new();
    for scale in scales {
        for setup in [STOCK, OFF] {
            for (metric, figure) in metrics {
                let of = |row: &str| results.only(setup.name, row, |one| one.figure(figure));
                let (place, larger) = (row_at(scale), row_at(sizes.published));
                let difference = percent(of(&place), of(&larger));
                let claim = Claim {
                    role: Role::Derived,
                    tolerance: between(-2.0, 2.0),
                    ..Claim::context(place, (metric, "%"), setup.name, "")
                };
                let mut row = claim.row_at(results, difference, Vec::new());
                row.note =
                    format!("against {larger}; times are multiplied by what sizes are divided by");
                rows.push(row);
            }
        }
    }
    rows
}

/// How long runs take under each setup, against stock; first those of one dirty level.
pub(super) fn at_one_level(results: &Results<'_>, scale: u64) -> Vec<Row> {
    let place = row_at(scale);
    let compared = |one: &str, other: &str, metric: &'static str| {
        only(&results.compared((one, other), &place, |one, other| against(one, other, metric)))
    };
    let row = |name: &'static str, policy, note, value| {
        Claim::context(&*place, (name, "%"), policy, note).row_at(results, value, Vec::new())
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

/// Every figure of a published run that no row of the paper has.
pub(super) fn published_figures(results: &Results<'_>, setup: &Setup, scale: u64) -> Vec<Row> {
    let metrics = FIGURES.into_iter().filter(|(metric, _)| *metric != LAST_WRITE);
    let row = |(metric, unit)| {
        let claim = Claim::context(row_at(scale), (metric, unit), setup.name, "");
        with_draws(claim, results, setup, metric)
    };
    metrics.map(row).collect()
}

/// Every figure of a run, compared with the published ones.
pub(super) fn compared_figures(results: &Results<'_>, setup: &Setup, scale: u64) -> Vec<Row> {
    let row = |(metric, unit)| {
        let claim = Claim::context(row_at(scale), (metric, unit), setup.name, "");
        let figure = results.only(setup.name, &claim.row, |one| one.figure(metric));
        claim.row_at(results, figure, Vec::new())
    };
    FIGURES.into_iter().map(row).collect()
}
