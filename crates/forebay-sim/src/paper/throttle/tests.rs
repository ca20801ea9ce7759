//! The paper's experiments at small sizes.

use std::collections::BTreeSet;

use super::*;
use crate::paper::Measured;
use crate::report::{Role, Verdict};

/// Small enough for every test run.
const SMALL: Sizes = Sizes { published: 128, compared: 192, drawn: 256, draws: Draws::Each };

const SMALL_PAPER: Paper =
    Paper { experiments: |_| experiments(SMALL), rows: |results, _| rows(results, SMALL), ..PAPER };

fn machine() -> Machine {
    Machine::builtin(PAPER.machine).unwrap()
}

fn run(setup: Setup, scale: u64) -> Measured {
    setup.run(&machine(), 1, scale).unwrap()
}

fn small_rows(draws: u32) -> Vec<Row> {
    let cells = SMALL_PAPER.cells(&machine(), RunSize::Scaled, 1, draws);
    let measured: Vec<Measured> = cells.iter().map(|cell| cell.measure().unwrap()).collect();
    SMALL_PAPER.judge(RunSize::Scaled, &cells, &measured, 1)
}

#[test]
fn every_row_is_there_once_and_inside_its_own_range() {
    let rows = small_rows(2);
    let names: BTreeSet<_> = rows.iter().map(|row| (&row.row, row.metric, &row.policy)).collect();
    assert_eq!(names.len(), rows.len());
    for row in &rows {
        let (Some(low), Some(measured), Some(high)) = (row.low, row.measured, row.high) else {
            panic!("{} {} {} was measured", row.row, row.metric, row.policy)
        };
        assert!(low <= measured && measured <= high, "{} {}", row.metric, row.policy);
    }
    let role = |role| rows.iter().filter(|row| row.role == role).count();
    assert_eq!((role(Role::Calibrated), role(Role::Predicted), role(Role::Derived)), (1, 3, 8));
}

#[test]
fn the_stock_kernel_takes_as_long_as_published() {
    let rows = small_rows(1);
    let row = rows.iter().find(|row| row.role == Role::Calibrated).unwrap();
    assert_eq!(row.verdict(), Verdict::Within, "{:?}", row.measured);
}

#[test]
fn a_smaller_run_takes_its_share_of_the_time() {
    // Without a throttle kswapd writes too. It writes only inactive pages, in batches that do not
    // scale, and below a 96th it leaves no room for active ones: 1/128 is 9.5 % faster.
    for (setup, scales) in [(STOCK, [64, 128]), (OFF, [32, 64])] {
        let [one, other] = scales.map(|scale| run(setup, scale).figure(load::LAST_WRITE));
        let ratio = one / other;
        assert!((0.98..1.02).contains(&ratio), "{}: {ratio}", setup.name);
    }
}

#[test]
fn at_one_dirty_level_the_throttle_costs_no_time() {
    let (stock, low, off) = (run(STOCK, 128), run(LOW, 128), run(OFF, 128));
    let time = |run: &Measured| run.figure(load::LAST_WRITE);
    assert!((0.98..1.02).contains(&(time(&low) / time(&stock))));
    assert!(time(&off) < 0.9 * time(&stock), "more dirty pages absorb more writes");
}
