//! The paper's experiments at small sizes.

use std::collections::BTreeSet;

use forebay_core::io::Op;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use super::load::{PER_READ, PageReader, TIME};
use super::*;
use crate::paper::RunSize;
use crate::report::{Role, Row, Verdict};
use crate::rng::Rng;

/// By what the runs of most tests are shortened: 3253 reads are left.
const SMALL: u64 = 64;

/// The first of the paper's cases, alone and with tasks that compute.
const ALONE: Case = CASES[0];
const BESIDE: Case = CASES[LOADED];

fn machine() -> Machine {
    Machine::builtin(PAPER.machine).unwrap()
}

fn measure(load: Load) -> Measured {
    load.measure(&machine(), 1).unwrap()
}

/// The time of a case on one core, as if it had its full length.
fn time(case: &Case, dispatch: &'static str, scheduler: &'static str) -> f64 {
    small(Load { scale: SMALL, ..case.load(dispatch, scheduler, 1) })
}

fn small(load: Load) -> f64 {
    measure(load).figure(TIME)
}

fn gain(case: &Case, scheduler: &'static str) -> f64 {
    100.0 * (1.0 - time(case, INLINE, scheduler) / time(case, DEFERRED, scheduler))
}

/// Every row, from runs of the right kind at small sizes: rings unchanged, loads of some reads, and
/// one of the latencies for all.
fn small_rows(draws: u32) -> Vec<Row> {
    let cells = PAPER.cells(&machine(), RunSize::Scaled, 1, draws);
    let least = Load { scale: READS / 100, ..ALONE.load(INLINE, "fair", 1) };
    let latency = measure(least);
    let run = |cell: &crate::paper::Cell| {
        let experiment = &cell.experiment;
        if experiment.policy.is_empty() {
            return cell.measure().unwrap();
        }
        let Some((dispatch, scheduler)) = experiment.policy.split_once(" (") else {
            return latency.clone();
        };
        let dispatch = MODES.into_iter().find(|mode| *mode == dispatch).unwrap();
        let scheduler = scheduler.trim_end_matches(')');
        let scheduler = SCHEDULERS.into_iter().find(|one| *one == scheduler).unwrap();
        let row = &experiment.row;
        let (name, rest) =
            row.split_once(", after").map_or((&row[..], None), |(n, r)| (n, Some(r)));
        let name = name.trim_end_matches(", drawn");
        let cores = CORES.into_iter().find(|cores| name.ends_with(&format!(", {cores} cores")));
        let case = CASES.iter().find(|case| on_cores(case, cores.unwrap_or(1)) == name).unwrap();
        let load = case.load(dispatch, scheduler, cores.unwrap_or(1));
        let scale = (case.reader.reads / 30).max(1);
        let rest = if rest.is_some() { REST } else { Duration::ZERO };
        Load { scale, rest, ..load }.measure(&cell.machine, cell.seed).unwrap()
    };
    let measured: Vec<Measured> = cells.iter().map(run).collect();
    PAPER.judge(RunSize::Scaled, &cells, &measured, 1)
}

#[test]
fn every_row_is_there_once_and_inside_its_own_range() {
    let rows = small_rows(2);
    let names: BTreeSet<_> = rows.iter().map(|row| (&row.row, row.metric, &row.policy)).collect();
    assert_eq!(names.len(), rows.len());
    for row in &rows {
        // A crossing is a place that there need not be.
        if row.metric == "crossing" {
            continue;
        }
        let (Some(low), Some(measured), Some(high)) = (row.low, row.measured, row.high) else {
            panic!("{} {} {} was measured", row.row, row.metric, row.policy)
        };
        assert!(low <= measured && measured <= high, "{} {} {}", row.row, row.metric, row.policy);
    }
    let role = |role| rows.iter().filter(|row| row.role == role).count();
    // Table 2 and both schedulers' times before; times after and gains, and the difference under
    // load; the adaptive rule compared with both in every case.
    let calibrated = SWITCHES.len() + SCHEDULERS.len() * CASES.len();
    let predicted = SCHEDULERS.len() * (2 * CASES.len() + 1);
    let derived = SCHEDULERS.len() * CASES.len() + ON_CORES.len() * CORES.len() + 65;
    assert_eq!(
        (role(Role::Calibrated), role(Role::Predicted), role(Role::Derived)),
        (calibrated, predicted, derived)
    );
}

#[test]
fn a_switch_costs_what_table_2_prints() {
    let rows = small_rows(1);
    let switches = rows.iter().filter(|row| row.metric == rows::SWITCH);
    let verdicts: Vec<_> = switches.map(|row| (row.measured, row.verdict())).collect();
    assert_eq!(verdicts.len(), SWITCHES.len());
    for (measured, verdict) in verdicts {
        assert_eq!(verdict, Verdict::Within, "{measured:?}");
    }
}

#[test]
fn a_smaller_run_takes_its_share_of_the_time() {
    for mode in MODES {
        let of = |scale| small(Load { scale, ..ALONE.load(mode, "o1", 1) });
        let ratio = of(SMALL) / of(2 * SMALL);
        assert!((0.98..1.02).contains(&ratio), "{mode}: {ratio}");
    }
}

#[test]
fn alone_the_unmodified_kernel_takes_as_long_as_published() {
    for case in &CASES[..LOADED] {
        let ratio = time(case, DEFERRED, "o1") / case.published[0];
        assert!((0.98..1.02).contains(&ratio), "{}: {ratio}", case.name);
    }
}

#[test]
fn alone_reading_inline_gains_two_switches() {
    for scheduler in SCHEDULERS {
        for case in &CASES[..LOADED] {
            let gain = gain(case, scheduler);
            assert!((4.5..7.5).contains(&gain), "{} ({scheduler}): {gain}", case.name);
        }
    }
    let of = |mode| {
        let measured = measure(Load { scale: SMALL, ..ALONE.load(mode, "o1", 1) });
        PER_READ.map(|(figure, _)| measured.figure(figure))
    };
    let ([before, away, _, none], [after, stays, _, all]) = (of(DEFERRED), of(INLINE));
    assert!((away - 1.0).abs() < 0.01 && stays < 0.01, "{away} {stays}");
    assert!((none, all) == (0.0, 1.0));
    assert!(before - after > 2.0 * 6.9, "two switches less: {before} {after}");
}

#[test]
fn beside_busy_tasks_the_o1_scheduler_has_inline_lose() {
    // It takes some ten seconds until the scheduler knows all tasks.
    let of = |mode| small(Load { scale: 8, ..BESIDE.load(mode, "o1", 1) });
    let gain = 100.0 * (1.0 - of(INLINE) / of(DEFERRED));
    assert!(gain < -10.0, "{gain}");
}

#[test]
fn beside_busy_tasks_fair_shares_have_inline_win() {
    let gain = gain(&BESIDE, "fair");
    assert!(gain > 3.0, "{gain}");
}

/// The O(1) scheduler takes a tenth of its running time off the credit of a thread that has slept
/// for a second, and all of it off one that has not: the same load goes on in either of two ways.
#[test]
fn a_thread_that_has_slept_keeps_its_credit_and_one_that_has_not_never_gets_any() {
    let of = |rest| small(Load { scale: SMALL, rest, ..BESIDE.load(DEFERRED, "o1", 1) });
    let (fresh, rested) = (of(Duration::ZERO), of(REST));
    assert!(fresh > 2.0 * rested, "{fresh} {rested}");
}

#[test]
fn the_adaptive_rule_stays_near_the_better_of_the_others() {
    let cases = [(&ALONE, "o1"), (&CASES[1], "fair"), (&BESIDE, "fair")];
    for (case, scheduler) in cases {
        let better = time(case, DEFERRED, scheduler).min(time(case, INLINE, scheduler));
        let behind = 100.0 * (time(case, ADAPTIVE, scheduler) / better - 1.0);
        assert!(behind < 3.0, "{} ({scheduler}): {behind}", case.name);
    }
}

/// The pages that a reader reads until it ends, and after which of them it drops all.
fn asked(pattern: Pattern, reads: u64) -> (Vec<u64>, Vec<usize>) {
    let reader = Reader { reads, ..reader(pattern) };
    let pages = 10..30;
    let mut reader = PageReader::new(reader, HandleId(0), pages, Instant::ZERO, Rng::new(1));
    let (mut asked, mut drops) = (Vec::new(), Vec::new());
    loop {
        match reader.next(Instant::ZERO) {
            Step::Call(Op::Read { offset, len, .. }) => {
                assert_eq!(len, PAGE_SIZE);
                asked.push(offset / PAGE_SIZE);
            }
            Step::Call(Op::Advise { offset, len, .. }) => {
                assert_eq!((offset, len), (10 * PAGE_SIZE, 20 * PAGE_SIZE));
                drops.push(asked.len());
            }
            Step::Exit => return (asked, drops),
            other @ (Step::Call(_) | Step::Compute(_) | Step::Sleep(_)) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_pass_reads_each_page_once_and_ends_with_all_of_them_dropped() {
    let in_order: Vec<u64> = (10..30).collect();
    for pattern in [Pattern::Random, Pattern::Sequential] {
        let (asked, drops) = asked(pattern, 45);
        assert_eq!((asked.len(), drops), (45, vec![20, 40]));
        for pass in asked[..40].chunks(20) {
            assert_eq!(pass == in_order, pattern == Pattern::Sequential);
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, in_order);
        }
    }
}

#[test]
fn no_read_meets_a_page_that_an_earlier_pass_has_left() {
    let mut load = ALONE.load(INLINE, "o1", 1);
    // More readers share the pages, so that each goes through its own more than once.
    (load.readers, load.scale) = (4, READS / 7_000);
    let measured = measure(load);
    let reads = 4 * (READS / load.scale);
    assert_eq!(measured.outcome.stats.pages_read, reads);
}
