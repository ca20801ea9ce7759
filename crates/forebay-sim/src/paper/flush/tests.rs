//! The experiments on small files, and the words of the rows.

use forebay_core::units::MIB;

use super::settings::{BOUNDED, DRAIN, DYN, REDHAT, SOL};
use super::*;
use crate::machine::Machine;
use crate::paper::Measured;
use crate::workload::burst::{Burst, Probe};

fn machine() -> Machine {
    Machine::builtin("raid-2001").unwrap()
}

fn figure(measured: &Measured, name: &str) -> f64 {
    measured.figures.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn a_small_file_is_written_and_read_at_the_speed_of_memory() {
    let measured = Run::Tables(4).measure(&machine(), REDHAT, 1).unwrap();
    let names: Vec<&str> = measured.figures.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["char write", "block write", "char read", "block read"]);
    assert!(figure(&measured, "block write") > 100_000.0);
    assert!(figure(&measured, "char write") < 12_000.0);
    assert_eq!(measured.outcome.stats.pages_read, 0, "nothing leaves memory");
}

#[test]
fn what_a_phase_leaves_in_memory_is_safe_only_later() {
    let mut small = machine();
    small.set("memory.page_cache", "64MiB").unwrap();
    let until = |setting| Run::Until(128, Phase::BlockWrite).measure(&small, setting, 1).unwrap();
    let (redhat, all) = (until(REDHAT), until(SOL));
    // Above 40 % of memory writers wait; above 100 % they cannot. 5 MiB are under writeback.
    let left = |measured| figure(measured, bonnie::RESIDUE);
    assert!(left(&redhat) < left(&all) && left(&all) > 48.0, "{} {}", left(&redhat), left(&all));
    for measured in [&redhat, &all] {
        let rate = figure(measured, "block write");
        assert!(figure(measured, bonnie::DURABLE) > 128.0 * 1024.0 / rate, "not before its end");
    }
}

#[test]
fn a_memory_full_of_dirty_pages_makes_the_disks_seek() {
    let mut small = machine();
    small.set("memory.page_cache", "64MiB").unwrap();
    let rate = |setting| {
        let run = Run::Until(256, Phase::BlockWrite);
        figure(&run.measure(&small, setting, 1).unwrap(), "block write")
    };
    let (redhat, all) = (rate(REDHAT), rate(SOL));
    assert!(all < 0.9 * redhat, "kswapd's pages between bdflush's: {redhat} {all}");
}

#[test]
fn the_series_cover_the_run_second_by_second() {
    let measured = Run::OverTime(16).measure(&machine(), DYN, 1).unwrap();
    let of = |metric| measured.series.iter().find(|one| one.metric == metric).unwrap();
    for metric in ["reads", "writes", "load"] {
        let seconds: Vec<f64> = of(metric).points.iter().map(|(second, _)| *second).collect();
        let dense: Vec<f64> = (0..seconds.len()).map(|second| second as f64).collect();
        assert_eq!(seconds, dense);
    }
    assert!(of("load").points.iter().all(|(_, load)| (0.0..=100.0).contains(load)));
    // All that is dirty at the end has been written by then.
    let written: f64 = of("writes").points.iter().map(|(_, kib)| kib).sum();
    assert!(written >= 16.0 * 1024.0, "{written}");
    // Idle: 30, 1000 and 15, as percentages of 100, 1000 and 500.
    let at =
        |metric, wanted: f64| of(metric).points.iter().any(|(_, at)| (at - wanted).abs() < 0.1);
    assert!(at("nfract", 30.0) && at("ndirty", 100.0) && at("interval", 3.0));
    assert!(at("nfract", 40.0) && at("ndirty", 50.0) && at("interval", 100.0), "the beginning");
}

#[test]
fn no_client_is_answered_more_often_than_all_together() {
    let mut small = machine();
    small.set("memory.page_cache", "8MiB").unwrap();
    let probe = |probe: Option<Probe>| probe.map(|one| Probe { file_bytes: 4 * MIB, ..one });
    let whole = Burst::default();
    let (light, reader) = (probe(whole.light), probe(whole.reader));
    let burst = Burst { writers: 3, bytes: 8 * MIB, light, reader, ..whole };
    let settings = [REDHAT, SOL, DYN, BOUNDED, DRAIN].into_iter().chain(TODAY);
    let threads = [None, Some(2)];
    for (setting, threads) in settings.flat_map(|one| threads.map(|threads| (one, threads))) {
        let burst = Burst { threads, ..burst };
        let measured = stall::measure(burst, &small, setting, 1).unwrap();
        let of = |name| figure(&measured, name);
        let (all, light) = (of(stall::ALL), of(stall::LIGHT));
        assert!(all <= light + 1e-9, "{}: {all} {light}", setting.name);
        assert!(of(stall::ALL) <= of(stall::READER) + 1e-9, "{}", setting.name);
        let (all, durable) = (of(stall::ALL), of(stall::DURABLE));
        assert!(all > 0.0 && durable > 0.5, "{}: {all} {durable}", setting.name);
    }
}

#[test]
fn every_experiment_has_a_name_of_its_own_and_policies_that_exist() {
    for size in [RunSize::Scaled, RunSize::Full] {
        let mut names: Vec<(String, String)> =
            experiments(size).into_iter().map(|one| (one.row, one.policy)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
    let settings = PUBLISHED.into_iter().chain(BESIDE).chain(FACTORS).chain(TODAY);
    settings.for_each(|setting| drop(setting.policies(&machine())));
}
