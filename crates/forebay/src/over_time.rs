//! Numbers over time as figures, and those that a run in virtual time keeps.

use forebay_core::stats::Windows;
use forebay_core::time::Instant;
use forebay_core::units::{KIB, PAGE_SIZE, SECTOR_SIZE};
use forebay_core::writeback::{Amount, Knobs};
use forebay_report::page::{Axis, Figure, Join, Layout, Point, Scale, Series as Line};
use forebay_sim::paper::Series;
use forebay_sim::world::{LEVELS_MAX, Moved, Record};

/// A figure for each run and unit.
pub(crate) fn figures(series: &[&Series]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        let title = title(one);
        let same = |figure: &&mut Figure| figure.title == title && figure.value.label == one.unit;
        let is_same_run = |other: &&&Series| (&other.row, &other.policy) == (&one.row, &one.policy);
        let ends = series.iter().filter(is_same_run).filter_map(|other| other.points.last());
        let end = ends.map(|(second, _)| *second).fold(0.0, f64::max);
        let line = line(one, end);
        match figures.iter_mut().find(same) {
            Some(figure) => figure.series.push(line),
            None => figures.push(Figure {
                title,
                caption: String::new(),
                layout: Layout::Across,
                along: Axis { label: "second".to_owned(), scale: Scale::Linear },
                value: Axis { label: one.unit.to_owned(), scale: Scale::Linear },
                range: "",
                series: vec![line],
            }),
        }
    }
    for figure in &mut figures {
        let labels: Vec<&str> = figure.series.iter().map(|one| one.label.as_str()).collect();
        figure.title = format!("{}: {}", figure.title, labels.join(", "));
    }
    figures
}

fn title(series: &Series) -> String {
    let words = [series.row.as_str(), series.policy.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
    words.join(", ")
}

fn line(series: &Series, end: f64) -> Line {
    let (metric, unit) = (series.metric, series.unit);
    let join = if TURNED.contains(&metric) { Join::Steps } else { Join::Line };
    let mut known = thinned(&series.points);
    // A value that is not changed stays.
    if let (Join::Steps, Some((_, value))) = (join, known.last().copied()) {
        known.push((end, value));
    }
    let point = |(second, value): (f64, f64)| Point {
        at: second,
        value: Some(value),
        title: format!("{second:.0} s: {metric} {value:.1} {unit}"),
        ..Point::default()
    };
    Line { label: metric.to_owned(), join, points: known.into_iter().map(point).collect() }
}

/// As many points as a figure can show; each is the mean of the points it represents.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |part: &[(f64, f64)]| {
        (part[0].0, part.iter().map(|(_, value)| value).sum::<f64>() / part.len() as f64)
    };
    points.chunks(every).map(mean).collect()
}

/// The values of a run in virtual time that began `begin` seconds after the first one of its job.
pub(crate) fn of_run(run: &str, record: &Record, frames: u64, begin: f64) -> Vec<Series> {
    let make = |metric, unit, points| Series {
        row: run.to_owned(),
        policy: String::new(),
        metric,
        unit,
        points,
    };
    let last = |second: Option<u64>| second.map_or(0, |second| second + 1);
    let seconds = last(record.seconds.last().map(|(second, _)| *second))
        .max(last(record.busy.last().map(|(second, _)| *second)))
        .max(last(record.levels.last().map(|(second, _)| *second)))
        .min(LEVELS_MAX);
    let dense = |known: Vec<(u64, f64)>| {
        let mut points: Vec<(f64, f64)> =
            (0..seconds).map(|second| (begin + second as f64, 0.0)).collect();
        for (second, value) in known.into_iter().filter(|(second, _)| *second < seconds) {
            points[second as usize].1 = value;
        }
        points
    };
    let moved = |of: &dyn Fn(&Moved) -> f64| {
        dense(record.seconds.iter().map(|(second, moved)| (*second, of(moved))).collect())
    };
    let bytes = |sectors: u64| (sectors * SECTOR_SIZE) as f64;
    let busy = record.busy.iter().map(|(second, busy)| (*second, busy.as_nanos() as f64 / 1e7));
    let level = |page_nanos: u128| page_nanos as f64 / 1e9 * PAGE_SIZE as f64 / 1e6;
    let levels = record.levels.iter().map(|(second, sum)| (*second, level(*sum)));
    let knob = |of: fn(&Knobs) -> Amount| {
        let at = |now: Instant| begin + now.since(Instant::ZERO).as_nanos() as f64 / 1e9;
        let megabytes = |amount: Amount| amount.pages(frames) as f64 * PAGE_SIZE as f64 / 1e6;
        let turned = record.knobs.iter();
        turned.map(|(now, knobs)| (at(*now), megabytes(of(knobs)))).collect::<Vec<_>>()
    };
    let mut all = vec![
        make("reads", "MB/s", moved(&|moved| bytes(moved.read) / 1e6)),
        make("writes", "MB/s", moved(&|moved| bytes(moved.written) / 1e6)),
        make("load", "%", dense(busy.collect())),
        make(
            "mean request",
            "KiB",
            moved(&|moved| {
                bytes(moved.read + moved.written) / KIB as f64 / moved.requests.max(1) as f64
            }),
        ),
    ];
    if !record.windows.is_empty() {
        let mean = |windows: &Windows| {
            (windows.pages * PAGE_SIZE / KIB) as f64 / windows.count.max(1) as f64
        };
        let windows = record.windows.iter().map(|(second, windows)| (*second, mean(windows)));
        all.push(make("mean readahead window", "KiB", dense(windows.collect())));
    }
    if !record.levels.is_empty() {
        all.push(make("dirty", "MB", dense(levels.collect())));
        all.push(make("background", "MB", knob(|knobs| knobs.background)));
        all.push(make("limit", "MB", knob(|knobs| knobs.limit)));
    }
    all
}

/// Adds what a later part of the same run kept.
pub(crate) fn append(all: &mut Vec<Series>, more: Vec<Series>) {
    for one in more {
        match all.iter_mut().find(|known| known.row == one.row && known.metric == one.metric) {
            Some(known) => known.points.extend(one.points),
            None => all.push(one),
        }
    }
}

/// What keeps its value until it is turned; all else is counted second by second.
const TURNED: [&str; 5] = ["nfract", "ndirty", "interval", "background", "limit"];

/// About a point for each pixel.
const POINTS_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use forebay_core::time::Duration;

    use super::*;

    fn series(policy: &str, metric: &'static str, unit: &'static str, points: usize) -> Series {
        Series {
            row: "run".to_owned(),
            policy: policy.to_owned(),
            metric,
            unit,
            points: (0..points).map(|at| (at as f64, 1.0)).collect(),
        }
    }

    #[test]
    fn each_run_and_unit_has_a_figure() {
        let all = [
            series("a", "reads", "KB/s", 3),
            series("a", "writes", "KB/s", 3),
            series("a", "nfract", "%", 1),
            series("b", "reads", "KB/s", 3),
            series("b", "writes", "KB/s", 0),
        ];
        let figures = figures(&all.iter().collect::<Vec<_>>());
        let counts: Vec<usize> = figures.iter().map(|figure| figure.series.len()).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert_eq!(figures[0].title, "run, a: reads, writes");
        assert_eq!(figures[2].title, "run, b: reads");
        let knob = &figures[1].series[0];
        assert_eq!((knob.join, knob.points.len()), (Join::Steps, 2));
        assert_eq!(knob.points[1].at, 2.0, "a knob stays until the end of its run");
    }

    #[test]
    fn a_long_run_has_means() {
        let points: Vec<(f64, f64)> = (0..1_000).map(|at| (f64::from(at), f64::from(at))).collect();
        let thinned = thinned(&points);
        assert!(thinned.len() <= POINTS_MAX);
        assert_eq!(thinned[0], (0.0, 1.0));
    }

    #[test]
    fn what_a_run_kept_becomes_numbers_of_each_second() {
        let knobs = Knobs {
            background: Amount::Pages(100),
            limit: Amount::Pages(500),
            batch: None,
            in_flight: None,
            interval: Duration::ZERO,
            expire: Duration::ZERO,
            expire_new: None,
        };
        let record = Record {
            seconds: vec![(1, Moved { read: 2_000, written: 0, requests: 2 })],
            busy: vec![(0, Duration::from_millis(500))],
            levels: vec![(2, 1_000_000_000 * 250)],
            knobs: vec![(Instant::ZERO, knobs)],
            windows: vec![(1, Windows { count: 4, pages: 40 })],
            ..Record::default()
        };
        let all = of_run("run", &record, 1_000, 10.0);
        let of = |metric| &all.iter().find(|one| one.metric == metric).unwrap().points[..];
        assert_eq!(of("reads"), [(10.0, 0.0), (11.0, 1.024), (12.0, 0.0)]);
        assert_eq!(of("mean request")[1], (11.0, 500.0));
        assert_eq!(of("load")[0], (10.0, 50.0));
        assert_eq!(of("dirty")[2], (12.0, 1.024));
        assert_eq!(of("limit"), [(10.0, 2.048)]);
        assert_eq!(of("mean readahead window"), [(10.0, 0.0), (11.0, 40.0), (12.0, 0.0)]);
        let mut both = all.clone();
        append(&mut both, all);
        assert_eq!(both[0].points.len(), 6);
    }
}
