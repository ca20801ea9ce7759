//! The experiments at the size of the paper, which is small; one machine, few seeds.

use super::load::{
    DRIVER, FAULTS, FILE_SYSTEM, Load, MEMORY, OPERATIONS, PAGES, SIZE, System, TOTAL, USELESS,
    Which,
};
use super::trace::{self, Touched};
use super::*;
use crate::paper::{Measured, Results, RunSize};
use crate::report::{Role, Verdict};

fn measure(named: Named, which: Which, seed: u64) -> Measured {
    let Named { system, window, .. } = named;
    let load = Load { system, window, which, block_pages: 1, computes: COMPUTES };
    load.measure(&Machine::builtin(PAPER.machine).unwrap(), seed).unwrap()
}

fn figures<const N: usize>(measured: &Measured, names: [(&str, &str); N]) -> [f64; N] {
    names.map(|(name, _)| measured.figure(name))
}

#[test]
fn a_trace_touches_each_page_once_and_in_order() {
    let totals = |files: &[Touched]| {
        let sum = |count: fn(&Touched) -> u64| files.iter().map(count).sum::<u64>();
        (sum(|file| file.pages), sum(|file| file.touches.len() as u64))
    };
    for long in 0..=trace::LONG_MAX {
        let files = trace::trace(trace::BOOT, long);
        assert_eq!(totals(&files), (1_896, 1_245), "{long}");
        assert_eq!(files.len() as u64, 108 - 9 * long);
        for file in &files {
            assert!(file.touches.is_sorted_by(|one, next| one < next));
            assert!(file.touches.last().is_some_and(|last| *last < file.pages));
        }
    }
    assert_eq!((totals(&trace::t1_s()), trace::t1_s().len()), ((1_896, 1_245), 23));
    assert_eq!(totals(&trace::trace(trace::VIEWER, 2)), (702, 430));
}

#[test]
fn every_trace_has_both_baseline_columns_exactly() {
    for seed in 0..=trace::LONG_MAX {
        for (which, seed) in [(Which::Boot, seed), (Which::T1S, 1)] {
            for (system, wanted) in [
                (EXT3_OFF, [1_245.0, 1_245.0]),
                (EXT3, [108.0, 1_896.0]),
                (RAOFF, [1_245.0, 1_245.0]),
                (CRAMFS, [108.0, 1_896.0]),
                (FCRAMFS, [1_245.0, 1_245.0]),
            ] {
                let measured = measure(system, which, seed);
                let found = figures(&measured, [FAULTS, PAGES]);
                assert_eq!(found, wanted, "{} {which:?} {seed}", system.name);
            }
        }
    }
}

#[test]
fn the_baselines_hold_whatever_the_number_of_files() {
    for seed in 0..=trace::LONG_MAX {
        for (system, published) in [(RAOFF, 738.0), (CRAMFS, 834.0)] {
            let [operations, size] =
                figures(&measure(system, Which::Boot, seed), [OPERATIONS, SIZE]);
            let off = operations / published - 1.0;
            assert!(off.abs() < 0.07, "{} {seed}: {operations}", system.name);
            assert_eq!(size, 4.0, "{}", system.name);
        }
    }
}

#[test]
fn the_proposal_has_the_fewest_operations_and_the_least_time() {
    for (_, which) in TRACES {
        let of = |named| figures(&measure(named, which, 1), [OPERATIONS, TOTAL]);
        let [cramfs, raoff, proposed] = [CRAMFS, RAOFF, FCRAMFS].map(of);
        assert!(3.0 * proposed[0] < raoff[0].min(cramfs[0]), "{which:?}: {proposed:?}");
        assert!(proposed[1] < raoff[1] && raoff[1] < cramfs[1], "{which:?}");
    }
}

#[test]
fn the_layers_of_a_fault_are_all_of_its_time() {
    for named in SYSTEMS {
        let measured = measure(named, Which::Boot, 1);
        let [total, memory, files, driver] =
            figures(&measured, [TOTAL, MEMORY, FILE_SYSTEM, DRIVER]);
        assert!((memory + files + driver - total).abs() < 1e-6, "{}", named.name);
        assert!(memory > 0.0 && driver > 0.0, "{}", named.name);
        let packed = matches!(named.system, System::Packed(_));
        assert_eq!(files > 0.0, packed, "{}", named.name);
    }
}

#[test]
fn untouched_pages_are_decoded_for_nothing_by_the_kernel_alone() {
    let useless = |named| measure(named, Which::Boot, 1).figure(USELESS.0);
    assert_eq!(useless(CRAMFS), 651.0);
    assert_eq!((useless(FCRAMFS), useless(RAOFF)), (0.0, 0.0));
}

#[test]
fn every_row_is_made_and_the_counts_are_calibrated() {
    let machine = Machine::builtin(PAPER.machine).unwrap();
    let cells = PAPER.cells(&machine, RunSize::Scaled, 1, 1);
    let measured: Vec<Measured> = cells.iter().map(|cell| cell.measure().unwrap()).collect();
    let rows = PAPER.judge(RunSize::Scaled, &cells, &measured, 1);
    let of = |role| rows.iter().filter(move |row| row.role == role);
    assert_eq!(of(Role::Calibrated).count(), 16);
    assert_eq!(of(Role::Predicted).count(), 4 + 4 + 6 + 2 + 8);
    assert!(of(Role::Calibrated).all(|row| row.verdict() != Verdict::Outside));
    assert!(of(Role::Derived).all(|row| row.verdict() == Verdict::Within), "the order flips");
    // The results are looked up by name: a row of an experiment that was not run would panic.
    let _: fn(&Results<'_>) -> Vec<crate::report::Row> = rows::rows;
}
