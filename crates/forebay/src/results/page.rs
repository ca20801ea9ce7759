//! What runs came to, as a page: how fast, how long calls took, what went on over time, and every
//! column of every row.

use forebay_report::page::{
    Axis, Digits, Extent, Figure, Join, Layout, Page, Point, Scale, Series,
};
use forebay_sim::paper::Series as OverTime;
use forebay_sim::stats::Latencies;

use super::{EVERY, Results, Row, throughput};
use crate::over_time;
use crate::slots::{PerSlot, SLOTS};

/// What only a page shows.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    curves: Vec<Curve>,
    over_time: Vec<OverTime>,
    /// Runs that kept something over time, and those of them that a page shows.
    runs: usize,
}

/// How long the calls of one kind took.
#[derive(Debug)]
struct Curve {
    run: String,
    job: String,
    kind: &'static str,
    count: u64,
    /// Shares of the calls, and what these did not exceed, in microseconds.
    points: Vec<(f64, f64)>,
}

impl Drawn {
    /// Adds the latencies of a job in a run.
    pub(crate) fn add(
        &mut self,
        run: &str,
        job: &str,
        latencies: [(&'static str, Option<&Latencies>); 3],
    ) {
        for (kind, latencies) in latencies {
            let Some(latencies) = latencies else { continue };
            let (count, points) = (latencies.count(), percentiles(latencies));
            // If one job alone made such calls, they are all that were made.
            let is_same =
                |known: &Curve| (known.run == run, known.kind, known.count) == (true, kind, count);
            if job == ALL && self.curves.iter().any(is_same) {
                continue;
            }
            let (run, job) = (run.to_owned(), job.to_owned());
            self.curves.push(Curve { run, job, kind, count, points });
        }
    }

    /// Adds what a run kept over time.
    pub(crate) fn keep(&mut self, kept: Vec<OverTime>) {
        self.runs += 1;
        if self.runs <= RUNS_MAX {
            self.over_time.extend(kept);
        }
    }
}

impl Results {
    /// What tells a run from the others: the policies of the slots that a table shows.
    pub(crate) fn run_name(&self, labels: &PerSlot<Option<String>>) -> String {
        let shown = (0..SLOTS.len()).filter(|slot| self.shown[*slot]);
        let names: Vec<&str> = shown.filter_map(|slot| labels[slot].as_deref()).collect();
        names.join(", ")
    }

    /// All of it, with sections of the documentation at the end.
    pub(crate) fn page(&self, facts: &[(&str, String)], sections: &[(&str, &str)]) -> Page {
        let mut all = vec![("version", format!("forebay {}", env!("CARGO_PKG_VERSION")))];
        all.extend(facts.iter().cloned());
        let mut page = Page::new(&self.title, &all);
        self.sentences().iter().for_each(|sentence| page.paragraph(sentence));
        let speeds = [self.speeds()];
        page.figures(&speeds);
        if let Some(drawn) = &self.drawn {
            page.heading("How long calls took");
            page.figures(&drawn.latencies());
            let series: Vec<&OverTime> = drawn.over_time.iter().collect();
            if !series.is_empty() {
                page.heading("Over time");
                page.paragraph(&more(drawn.runs, "runs"));
                page.figures(&over_time::figures(&series));
            }
        }
        page.heading("Every row");
        page.table(&self.table("", EVERY, |_| true), "", Digits::All);
        let notes: Vec<String> = self.notes.iter().chain(&self.note_of_writes).cloned().collect();
        page.notes(&notes);
        for (text, heading) in sections {
            page.heading(heading);
            page.section(text, heading, Extent::Whole);
        }
        page
    }

    /// How fast each job of each run was.
    fn speeds(&self) -> Figure {
        let mut names: Vec<String> = Vec::new();
        let mut series: Vec<Series> = Vec::new();
        for row in self.rows.iter().take(SPEEDS_MAX) {
            let run = self.run_name(&row.labels);
            let place = position(&mut names, &run);
            let known = series.iter().position(|one| one.label == row.job);
            let number = known.unwrap_or_else(|| {
                let (label, join) = (row.job.clone(), Join::Apart);
                series.push(Series { label, join, points: Vec::new() });
                series.len() - 1
            });
            series[number].points.push(speed(row, &run, place));
        }
        Figure {
            title: "Throughput".to_owned(),
            caption: more_than(self.rows.len(), SPEEDS_MAX, "rows"),
            layout: Layout::Down,
            along: Axis { label: "policies".to_owned(), scale: Scale::Names(names) },
            value: Axis { label: "MB/s".to_owned(), scale: Scale::Linear },
            range: "",
            series,
        }
    }
}

impl Drawn {
    /// A figure for each kind of call: the jobs of one run beside each other, or the runs of a job.
    fn latencies(&self) -> Vec<Figure> {
        let mut runs: Vec<&str> = self.curves.iter().map(|curve| curve.run.as_str()).collect();
        runs.dedup();
        let is_compared = runs.len() > 1;
        let mut figures: Vec<Figure> = Vec::new();
        for curve in &self.curves {
            let (title, label) = if is_compared {
                (format!("{} latency of {}", curve.kind, curve.job), curve.run.clone())
            } else {
                (format!("{} latency", curve.kind), curve.job.clone())
            };
            let found = figures.iter_mut().position(|figure| figure.title == title);
            let place = found.unwrap_or_else(|| {
                figures.push(empty(title));
                figures.len() - 1
            });
            let figure = &mut figures[place];
            if figure.series.len() < SERIES_MAX {
                figure.series.push(line(curve, &label));
            } else if is_compared {
                figure.caption = more_than(runs.len(), SERIES_MAX, "runs");
            }
        }
        figures
    }
}

fn empty(title: String) -> Figure {
    Figure {
        title,
        caption: String::new(),
        layout: Layout::Across,
        along: Axis { label: "percentile of calls".to_owned(), scale: Scale::Nines },
        value: Axis { label: "us".to_owned(), scale: Scale::Log },
        range: "",
        series: Vec::new(),
    }
}

fn line(curve: &Curve, label: &str) -> Series {
    let point = |&(share, micros): &(f64, f64)| Point {
        at: 1.0 / (1.0 - share),
        value: Some(micros),
        title: format!(
            "{label}: {} % of {} {}s within {micros:.1} us",
            percent(share),
            curve.count,
            curve.kind
        ),
        ..Point::default()
    };
    let points = curve.points.iter().map(point).collect();
    Series { label: label.to_owned(), join: Join::Line, points }
}

/// A share in as few digits as tell it from its neighbours.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// As many shares as the calls can have, and the latency that each did not exceed.
fn percentiles(latencies: &Latencies) -> Vec<(f64, f64)> {
    let count = latencies.count() as f64;
    // Between the last two calls there is nothing to be known.
    let known = SHARES.iter().filter(|share| (1.0 - **share) * count >= 0.999_999);
    let micros = |share: f64| latencies.quantile(share).as_nanos() as f64 / 1e3;
    known.map(|share| (*share, micros(*share))).collect()
}

fn speed(row: &Row, run: &str, place: usize) -> Point {
    let value = throughput(row).number();
    let between = if run.is_empty() { "" } else { ", " };
    let title = format!("{run}{between}{}: {:.2} MB/s", row.job, value.unwrap_or(0.0));
    Point { at: place as f64, value, title, ..Point::default() }
}

fn position(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn more(count: usize, what: &str) -> String {
    more_than(count, RUNS_MAX, what)
}

/// Words for what is not drawn.
fn more_than(count: usize, most: usize, what: &str) -> String {
    if count <= most {
        return String::new();
    }
    format!("The first {most} of {count} {what}; the table has all.")
}

/// What the jobs of a run are called together.
pub(crate) const ALL: &str = "all";

/// The most runs that are shown over time.
const RUNS_MAX: usize = 6;

/// The most lines of a figure of latencies.
const SERIES_MAX: usize = 8;

/// The most points of the figure of throughputs.
const SPEEDS_MAX: usize = 48;

const SHARES: [f64; 22] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998,
    0.999, 0.9995, 0.9999, 0.99999, 0.999999,
];

#[cfg(test)]
mod tests {
    use forebay_core::time::Duration;

    use super::*;

    fn latencies(count: u64) -> Latencies {
        let mut latencies = Latencies::new();
        (1..=count).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        latencies
    }

    #[test]
    fn a_curve_ends_where_its_calls_do() {
        let last = |count| percentiles(&latencies(count)).last().map(|(share, _)| *share);
        assert_eq!(last(1), Some(0.0));
        assert_eq!(last(100), Some(0.99));
        assert_eq!(last(1_000), Some(0.999));
        assert_eq!(percent(0.9995), "99.95");
        assert_eq!(percent(0.5), "50");
    }

    #[test]
    fn runs_are_compared_and_jobs_of_one_run_as_well() {
        let some = latencies(10);
        let kinds = [("read", Some(&some)), ("write", None), ("sync", None)];
        let mut one = Drawn::default();
        one.add("", "a", kinds);
        one.add("", "b", kinds);
        let figures = one.latencies();
        assert_eq!((figures.len(), figures[0].series.len()), (1, 2));
        let mut two = Drawn::default();
        for run in ["x", "y"] {
            two.add(run, "a", kinds);
            two.add(run, "b", kinds);
        }
        let figures = two.latencies();
        assert_eq!((figures.len(), figures[0].series.len()), (2, 2));
        assert_eq!(figures[1].series[1].label, "y");
    }

    #[test]
    fn what_one_job_did_is_not_drawn_twice() {
        let (some, more) = (latencies(10), latencies(20));
        let of = |reads| [("read", Some(reads)), ("write", None), ("sync", None)];
        let mut drawn = Drawn::default();
        drawn.add("", "a", of(&some));
        drawn.add("", ALL, of(&some));
        assert_eq!(drawn.curves.len(), 1);
        drawn.add("", ALL, of(&more));
        assert_eq!(drawn.curves.len(), 2);
    }

    #[test]
    fn what_is_not_drawn_is_said() {
        assert_eq!(more(RUNS_MAX, "runs"), "");
        assert_eq!(more(9, "runs"), "The first 6 of 9 runs; the table has all.");
        let mut drawn = Drawn::default();
        let some = latencies(10);
        for run in 0..10 {
            let kinds = [("read", Some(&some)), ("write", None), ("sync", None)];
            drawn.add(&run.to_string(), "a", kinds);
        }
        assert_eq!(drawn.latencies()[0].caption, "The first 8 of 10 runs; the table has all.");
    }
}
