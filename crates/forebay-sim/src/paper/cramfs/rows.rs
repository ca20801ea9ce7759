//! Published and measured figures, as rows.

use super::load::{DRIVER, FAULTS, FILE_SYSTEM, MEMORY, OPERATIONS, PAGES, SIZE, TOTAL, USELESS};
use super::{
    BOOT, BULK, CRAMFS, EXT3, EXT3_OFF, FCRAMFS, Named, OURS, RAOFF, SYSTEMS, T1S, VIEWER,
    elsewhere,
};
use crate::paper::Results;
use crate::paper::claim::{Claim, OPEN, Tolerance, between, percent};
use crate::report::{Role, Row};

const TRACE: &str = "the trace has it: it was made so that it does";
const FITTED: &str = "the packing ratio was fitted to the two operation counts of CramFS";
const METADATA: &str = "24 pages of metadata were assumed for this count";
const PRODUCT: &str =
    "132 operations of 49 KB are 15 % less than the 1896 pages of the same column";
const BUFFERS: &str = "reads through two buffers of four pages, each page by itself";
const UNEXPLAINED: &str = "the paper's 35 pages beyond those touched are not explained; here each \
                           touched page is decoded once";
const CLUSTERS: &str = "follows from how many files the trace touches, which the baselines leave \
                        open: 134 with 18 files, 224 with 108";
const SIZES: &str = "follows from the packing ratio that the baselines need: a window's raw bytes \
                     are longer than the paper's";
const NO_FRAME: &str = "a deferred page has no frame here; the kernel allocates all 1896 pages of \
                        the windows under either";
const NO_NUMBER: &str = "the figure carries no numbers";
const MADE_UP: &str = "the trace is made up, so the order alone is compared";

/// Every row of the paper.
pub(super) fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = table_1(results);
    rows.extend(table_2(results));
    rows.extend(figures(results));
    rows.extend(percentages(results));
    for row in [BOOT, T1S, VIEWER] {
        rows.extend(layers(results, row));
    }
    rows.extend(viewer(results));
    rows.extend(elsewhere::rows(results));
    rows
}

/// Five percent either way.
fn near(published: f64) -> Tolerance {
    between(published * 0.95, published * 1.05)
}

/// A figure of a system as a row.
#[derive(Clone, Copy)]
struct Cell {
    system: Named,
    figure: (&'static str, &'static str),
    published: Option<f64>,
    role: Role,
    tolerance: Tolerance,
    note: &'static str,
}

impl Cell {
    fn row(self, results: &Results<'_>, row: &str) -> Row {
        let Self { system, figure, published, role, tolerance, note } = self;
        let figures = results.figures(system.name, row, |one| one.figure(figure.0));
        let context = Claim::context(row, figure, system.name, note);
        Claim { published, role, tolerance, ..context }.row(results, figures)
    }
}

/// The baselines.
fn table_1(results: &Results<'_>) -> Vec<Row> {
    let cell = |system, figure, published, tolerance, note| {
        let (published, role) = (Some(published), Role::Calibrated);
        Cell { system, figure, published, role, tolerance, note }.row(results, BOOT)
    };
    let exact = |published| between(published, published);
    let mut rows = Vec::new();
    for (system, faults, pages, operations, note) in [
        (EXT3_OFF, 1_245.0, 1_245.0, 1_270.0, METADATA),
        (EXT3, 108.0, 1_896.0, 132.0, METADATA),
        (RAOFF, 1_245.0, 1_245.0, 738.0, FITTED),
        (CRAMFS, 108.0, 1_896.0, 834.0, FITTED),
    ] {
        rows.push(cell(system, FAULTS, faults, exact(faults), TRACE));
        rows.push(cell(system, PAGES, pages, exact(pages), TRACE));
        rows.push(cell(system, OPERATIONS, operations, near(operations), note));
    }
    for (system, size, tolerance, note) in [
        (EXT3_OFF, 4.0, near(4.0), METADATA),
        (EXT3, 49.0, OPEN, PRODUCT),
        (RAOFF, 4.0, near(4.0), BUFFERS),
        (CRAMFS, 4.0, near(4.0), BUFFERS),
    ] {
        rows.push(cell(system, SIZE, size, tolerance, note));
    }
    rows
}

/// The proposal.
fn table_2(results: &Results<'_>) -> Vec<Row> {
    let cell = |figure, published, tolerance, note| {
        let (system, published, role) = (FCRAMFS, Some(published), Role::Predicted);
        Cell { system, figure, published, role, tolerance, note }.row(results, BOOT)
    };
    vec![
        cell(FAULTS, 1_244.0, between(1_242.0, 1_246.0), "a deferred page is a major fault"),
        cell(PAGES, 1_280.0, near(1_280.0), UNEXPLAINED),
        cell(OPERATIONS, 183.0, near(183.0), CLUSTERS),
        cell(SIZE, 14.5, near(14.5), SIZES),
    ]
}

/// A change from one system to another, in percent.
#[derive(Clone, Copy)]
struct Change {
    metric: &'static str,
    figure: &'static str,
    systems: (Named, Named),
    published: Option<f64>,
    tolerance: Tolerance,
    note: &'static str,
}

impl Change {
    fn row(self, results: &Results<'_>, row: &str, role: Role) -> Row {
        let Self { metric, figure, systems: (one, other), published, tolerance, note } = self;
        let figures = results.compared((one.name, other.name), row, |one, other| {
            percent(one.figure(figure), other.figure(figure))
        });
        let policy = format!("{} against {}", one.name, other.name);
        let context = Claim::context(row, (metric, "%"), &policy, note);
        Claim { published, role, tolerance, ..context }.row(results, figures)
    }
}

const LESS: Tolerance = (None, Some(0.0));
const MORE: Tolerance = (Some(0.0), None);

/// Figures 1 to 4: what readahead does to the two file systems.
fn figures(results: &Results<'_>) -> Vec<Row> {
    let change = |metric, figure: (&'static str, &str), systems, tolerance| {
        let (published, note) = (None, NO_NUMBER);
        let change = Change { metric, figure: figure.0, systems, published, tolerance, note };
        change.row(results, BOOT, Role::Predicted)
    };
    vec![
        change("time of major faults (figure 1)", TOTAL, (EXT3, EXT3_OFF), LESS),
        change("time of major faults (figure 2)", TOTAL, (CRAMFS, RAOFF), MORE),
        change("driver (figure 3)", DRIVER, (EXT3, EXT3_OFF), LESS),
        change("file system (figure 4)", FILE_SYSTEM, (CRAMFS, RAOFF), MORE),
    ]
}

/// The percentages of the text about figure 6, and the share of each of the two ideas.
fn percentages(results: &Results<'_>) -> Vec<Row> {
    let change = |metric, figure: (&'static str, &str), other, published, tolerance| {
        let systems = (FCRAMFS, other);
        let note = if figure == MEMORY { NO_FRAME } else { "" };
        let change = Change { metric, figure: figure.0, systems, published, tolerance, note };
        change.row(results, BOOT, Role::Predicted)
    };
    let total = "time of major faults";
    let mut rows = vec![
        change(total, TOTAL, CRAMFS, Some(-28.0), between(-36.0, -20.0)),
        change(total, TOTAL, RAOFF, Some(-8.0), between(-14.0, -2.0)),
        change("file system", FILE_SYSTEM, CRAMFS, Some(-25.0), between(-33.0, -18.0)),
        change("file system", FILE_SYSTEM, RAOFF, Some(0.0), between(-8.0, 8.0)),
        change("driver", DRIVER, CRAMFS, Some(-61.0), between(-66.0, -53.0)),
        change("virtual memory", MEMORY, CRAMFS, None, MORE),
    ];
    for (one, other, note) in [
        (BULK, CRAMFS, "bulk reads alone"),
        (FCRAMFS, BULK, "selective decoding on top of bulk reads"),
        (OURS, FCRAMFS, "the only processor is never idle while the program runs"),
    ] {
        let (systems, figure, published) = ((one, other), TOTAL.0, None);
        let change = Change { metric: total, figure, systems, published, tolerance: OPEN, note };
        rows.push(change.row(results, BOOT, Role::Context));
    }
    rows
}

/// All figures of all systems.
fn layers(results: &Results<'_>, row: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for system in SYSTEMS {
        let counts: &[_] = match (row, system.name) {
            // These have a row of the tables already.
            (BOOT, name) if name != BULK.name && name != OURS.name => &[USELESS],
            _ => &[FAULTS, PAGES, OPERATIONS, SIZE, USELESS],
        };
        for figure in counts.iter().copied().chain([TOTAL, MEMORY, FILE_SYSTEM, DRIVER]) {
            let (published, role, tolerance, note) = (None, Role::Context, OPEN, NO_NUMBER);
            let cell = Cell { system, figure, published, role, tolerance, note };
            rows.push(cell.row(results, row));
        }
    }
    rows
}

/// Figure 7.
fn viewer(results: &Results<'_>) -> Vec<Row> {
    let change = |other| {
        let (metric, systems, published) = ("time of major faults", (FCRAMFS, other), None);
        let (figure, tolerance, note) = (TOTAL.0, LESS, MADE_UP);
        let change = Change { metric, figure, systems, published, tolerance, note };
        change.row(results, VIEWER, Role::Predicted)
    };
    vec![change(CRAMFS), change(RAOFF)]
}
