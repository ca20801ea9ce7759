//! Values over time, as in the paper's figures: reads, writes, load and knobs; and the pages that
//! are dirty or under writeback.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::{KIB, MIB, PAGE_SIZE, SECTOR_SIZE};

use crate::paper::Series;
use crate::world::Record;

/// Reads and writes, load, dirty level and knobs of a run. The knobs are percentages: `nfract` of
/// memory, the others of the greatest values that the proposal gives them.
pub(super) fn of(row: &str, policy: &str, record: &Record, frames: u64) -> Vec<Series> {
    let moved = record.seconds.last().map_or(0, |(second, _)| second + 1);
    let busy = record.busy.last().map_or(0, |(second, _)| second + 1);
    let seconds = moved.max(busy).max(record.levels.last().map_or(0, |(second, _)| second + 1));
    let kib = |sectors: u64| (sectors * SECTOR_SIZE) as f64 / KIB as f64;
    let moved = |of: fn(&crate::world::Moved) -> u64| {
        dense(seconds, record.seconds.iter().map(|(at, moved)| (*at, kib(of(moved)))))
    };
    let load = record.busy.iter().map(|(at, busy)| (*at, 100.0 * in_seconds(*busy)));
    let mebibytes = |page_nanos: u128| page_nanos as f64 / 1e9 * PAGE_SIZE as f64 / MIB as f64;
    let levels = record.levels.iter().map(|(at, level)| (*at, mebibytes(*level)));
    let knobs = |of: &dyn Fn(&forebay_core::writeback::Knobs) -> Option<f64>| {
        let turned = record.knobs.iter();
        let at = |now: &Instant| in_seconds(now.since(Instant::ZERO));
        turned.filter_map(|(now, knobs)| Some((at(now), of(knobs)?))).collect()
    };
    let nfract = |limit: u64| 100.0 * limit as f64 / frames.max(1) as f64;
    let part = |value: f64, most: f64| 100.0 * value / most;
    let make = |metric, unit, points| Series {
        row: row.to_owned(),
        policy: policy.to_owned(),
        metric,
        unit,
        points,
    };
    vec![
        make("reads", "KB/s", moved(|moved| moved.read)),
        make("writes", "KB/s", moved(|moved| moved.written)),
        make("load", "%", dense(seconds, load)),
        make("dirty", "MiB", dense(seconds, levels)),
        make("nfract", "%", knobs(&|knobs| Some(nfract(knobs.limit.pages(frames))))),
        make("ndirty", "%", knobs(&|knobs| Some(part(knobs.batch? as f64, NDIRTY_MOST)))),
        make("interval", "%", knobs(&|knobs| Some(part(in_seconds(knobs.interval), 5.0)))),
    ]
}

/// One number for each second; none is zero.
fn dense(seconds: u64, known: impl Iterator<Item = (u64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = (0..seconds).map(|second| (second as f64, 0.0)).collect();
    known.for_each(|(second, value)| points[second as usize].1 = value);
    points
}

fn in_seconds(length: Duration) -> f64 {
    length.as_nanos() as f64 / 1e9
}

/// The proposal's `max_ndirty`.
const NDIRTY_MOST: f64 = 1_000.0;
