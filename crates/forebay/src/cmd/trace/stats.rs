//! `forebay trace info` and `stats`: properties of a trace.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_report::page::{
    self, Axis, Destination, Digits, Figure, Join, Layout, Page, Point, Scale, Series,
};
use forebay_report::table::{Cell, Format, Table};
use forebay_trace::{Buckets, Layer, Op, Statistics, VolumeStatistics};
use serde_json::{Map, Value, json};

use super::{print_json, read_report};
use crate::args::trace::{TraceInfo, TraceInput, TraceStats};
use crate::traces::{self, TraceSource};

/// Prints what a trace holds.
pub(crate) fn info(arguments: &TraceInfo) -> Result<u8> {
    let (source, statistics) = measure(&arguments.input, false)?;
    if arguments.json {
        let mut object = overview_json(&source, &statistics);
        object.insert("volumes".to_owned(), volumes_json(&source, &statistics));
        print_json(&Value::Object(object))?;
        return Ok(0);
    }
    let mut out = io::stdout().lock();
    overview(&source, &statistics).print(Format::Text, &mut out)?;
    writeln!(out).context("cannot write the table")?;
    volumes(&source, &statistics).print(Format::Text, &mut out)?;
    traces::warn(&source.name, &source.report());
    Ok(0)
}

/// Prints the statistics of its requests.
pub(crate) fn stats(arguments: &TraceStats) -> Result<u8> {
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let (source, statistics) = measure(&arguments.input, true)?;
    let printed = if arguments.json {
        let mut object = overview_json(&source, &statistics);
        object.insert("volumes".to_owned(), volumes_json(&source, &statistics));
        for one in histograms(&statistics) {
            object.insert(one.key.to_owned(), one.json());
        }
        object.insert("lru".to_owned(), lru_json(&statistics));
        print_json(&Value::Object(object))
    } else {
        print_tables(&source, &statistics)
    };
    traces::warn(&source.name, &source.report());
    page::beside(printed, destination.as_ref(), || drawn(&source, &statistics))?;
    Ok(0)
}

fn measure<'a>(input: &TraceInput, with_reuse: bool) -> Result<(TraceSource<'a>, Statistics)> {
    let mut source = TraceSource::open(input)?.roughly_sorted();
    let mut statistics = Statistics::new(source.layer(), with_reuse);
    while let Some(record) = source.next()? {
        statistics.add(&record);
    }
    Ok((source, statistics))
}

/// Names with their values, for people.
fn overview(source: &TraceSource<'_>, statistics: &Statistics) -> Table {
    let mut table = Table::new(source.name.clone(), &[("what", "what"), ("value", "value")]);
    let mut row = |what: &str, value: String| table.rows.push(vec![what.into(), value.into()]);
    let format = source.format();
    row("format", format.to_string());
    row("recorded at", format!("{} layer", source.layer().name()));
    row("unit of time", format.times().to_owned());
    row("requests", statistics.requests().to_string());
    for op in Op::ALL {
        let count = statistics.of(op);
        if count > 0 {
            row(&format!("  {}", op.name()), count.to_string());
        }
    }
    row("read", format!("{:.1} MB", statistics.read_bytes as f64 / 1e6));
    row("written", format!("{:.1} MB", statistics.written_bytes as f64 / 1e6));
    row("time span", format!("{:.3} s", statistics.span as f64 / 1e9));
    row("mean rate", format!("{:.1} requests/s", mean_rate(statistics)));
    row("fullest second", format!("{} requests", statistics.second_max));
    if source.layer() != Layer::Object {
        row("sequential", format!("{:.1} %", sequential(statistics)));
        row("page touches", statistics.page_touches.to_string());
    }
    row("volumes", wanted(source, statistics).count().to_string());
    table
}

fn mean_rate(statistics: &Statistics) -> f64 {
    let seconds = statistics.span as f64 / 1e9;
    if seconds > 0.0 { statistics.requests() as f64 / seconds } else { 0.0 }
}

fn sequential(statistics: &Statistics) -> f64 {
    statistics.sequential as f64 / statistics.data_requests().max(1) as f64 * 100.0
}

fn overview_json(source: &TraceSource<'_>, statistics: &Statistics) -> Map<String, Value> {
    let ops: Map<String, Value> =
        Op::ALL.iter().map(|op| (op.name().to_owned(), Value::from(statistics.of(*op)))).collect();
    let object = json!({
        "file": source.name,
        "format": source.format().name(),
        "layer": source.layer().name(),
        "unit_of_time": source.format().times(),
        "requests": statistics.requests(),
        "ops": ops,
        "read_bytes": statistics.read_bytes,
        "written_bytes": statistics.written_bytes,
        "discarded_bytes": statistics.discarded_bytes,
        "span_s": statistics.span as f64 / 1e9,
        "requests_per_s": mean_rate(statistics),
        "second_max": statistics.second_max,
        "sequential_percent": sequential(statistics),
        "page_touches": statistics.page_touches,
        "input": read_report(source),
    });
    let Value::Object(object) = object else { unreachable!("it was written as an object") };
    object
}

/// Volumes with the most requests.
const VOLUMES_SHOWN: usize = 20;

fn volumes(source: &TraceSource<'_>, statistics: &Statistics) -> Table {
    let columns = [
        ("volume", "volume"),
        ("requests", "requests"),
        ("bytes", "MB moved"),
        ("end", "reaches to MB"),
    ];
    let mut table = Table::new("", &columns);
    let mut order: Vec<_> = wanted(source, statistics).collect();
    order.sort_by_key(|(_, one)| std::cmp::Reverse(one.requests));
    for (name, one) in order.iter().take(VOLUMES_SHOWN) {
        table.rows.push(vec![
            (*name).into(),
            one.requests.into(),
            Cell::Number(one.bytes as f64 / 1e6, 1),
            Cell::Number(one.end as f64 / 1e6, 1),
        ]);
    }
    if order.len() > VOLUMES_SHOWN {
        table.notes.push(format!("{} more volumes", order.len() - VOLUMES_SHOWN));
    }
    table
}

fn volumes_json(source: &TraceSource<'_>, statistics: &Statistics) -> Value {
    let one = |(name, one): (&str, &VolumeStatistics)| {
        json!({
            "volume": name,
            "requests": one.requests,
            "bytes": one.bytes,
            "end": one.end,
        })
    };
    wanted(source, statistics).map(one).collect()
}

/// The volumes that were asked for, with their names.
fn wanted<'a>(
    source: &'a TraceSource<'_>,
    statistics: &'a Statistics,
) -> impl Iterator<Item = (&'a str, &'a VolumeStatistics)> {
    let volumes = source.reader().names().iter().zip(&statistics.volumes);
    volumes.filter(|(name, _)| source.wants(name))
}

/// Counts by powers of two.
struct Histogram {
    key: &'static str,
    title: &'static str,
    /// What a bucket's least value is in, for an axis.
    unit: &'static str,
    /// The least value of each bucket, and how many.
    buckets: Vec<(f64, f64)>,
}

impl Histogram {
    fn of(key: &'static str, title: &'static str, unit: &'static str, buckets: &Buckets) -> Self {
        let filled = buckets.filled().map(|(least, count)| (least as f64, count as f64));
        Self { key, title, unit, buckets: filled.collect() }
    }

    fn json(&self) -> Value {
        let bucket = |(least, count): &(f64, f64)| json!({"from": least, "count": count});
        self.buckets.iter().map(bucket).collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(self.title, &[("from", self.unit), ("percent", "%")]);
        let all: f64 = self.buckets.iter().map(|(_, count)| count).sum();
        for (least, count) in &self.buckets {
            let row = vec![Cell::Number(*least, 0), Cell::Number(count / all * 100.0, 2)];
            table.rows.push(row);
        }
        table
    }

    fn figure(&self) -> Figure {
        let all: f64 = self.buckets.iter().map(|(_, count)| count).sum();
        let mut sum = 0.0;
        let points = self.buckets.iter().map(|(least, count)| {
            sum += count / all * 100.0;
            let title = format!("below {:.0} {}: {sum:.2} %", least.max(0.5) * 2.0, self.unit);
            Point { at: least.max(0.5) * 2.0, value: Some(sum), title, ..Point::default() }
        });
        let points = points.collect();
        Figure {
            title: self.title.to_owned(),
            caption: String::new(),
            layout: Layout::Across,
            along: Axis { label: format!("below, {}", self.unit), scale: Scale::Log },
            value: Axis { label: "% of all".to_owned(), scale: Scale::Linear },
            range: "",
            series: vec![Series { label: self.title.to_owned(), join: Join::Steps, points }],
        }
    }
}

fn histograms(statistics: &Statistics) -> Vec<Histogram> {
    let mut all = vec![
        Histogram::of("read_sizes", "Sizes of reads", "bytes", &statistics.read_sizes),
        Histogram::of("write_sizes", "Sizes of writes", "bytes", &statistics.write_sizes),
        Histogram::of("alignment", "Alignment of requests", "bytes", &statistics.alignment),
        Histogram::of("gaps_ns", "Time between requests", "ns", &statistics.gaps),
        Histogram::of("took_ns", "Measured response times", "ns", &statistics.took),
    ];
    if let Some(reuse) = &statistics.reuse {
        let least = |bucket: usize| if bucket == 0 { 0.0 } else { (1u64 << (bucket - 1)) as f64 };
        let filled = reuse.histogram().buckets.iter().enumerate();
        let buckets = filled.filter(|(_, count)| **count > 0.0);
        let buckets = buckets.map(|(bucket, count)| (least(bucket), count.round())).collect();
        let (key, title, unit) = ("reuse_pages", "Reuse distances", "pages");
        all.push(Histogram { key, title, unit, buckets });
    }
    all.retain(|one| !one.buckets.is_empty());
    all
}

/// Cache sizes in pages, and the share of page touches that LRU would serve.
fn lru(statistics: &Statistics) -> Vec<(u64, f64)> {
    let Some(reuse) = &statistics.reuse else { return Vec::new() };
    let histogram = reuse.histogram();
    let sizes = (8..=histogram.buckets.len().clamp(8, 40)).map(|bits| 1u64 << bits);
    sizes.map(|pages| (pages, histogram.hit_ratio(pages))).collect()
}

fn lru_json(statistics: &Statistics) -> Value {
    let point = |(pages, ratio): (u64, f64)| json!({"pages": pages, "hit_ratio": ratio});
    let sampled = statistics.reuse.as_ref().map(|reuse| {
        json!({"sampled_share": reuse.sampled_share(), "pages": reuse.histogram().first.round()})
    });
    json!({"curve": lru(statistics).into_iter().map(point).collect::<Value>(), "of": sampled})
}

fn lru_table(statistics: &Statistics) -> Table {
    let mut table =
        Table::new("LRU cache", &[("cache_mib", "cache MiB"), ("hit_percent", "hits %")]);
    for (pages, ratio) in lru(statistics) {
        let mib = pages as f64 * 4096.0 / f64::from(1 << 20);
        table.rows.push(vec![Cell::Number(mib, 0), Cell::Number(ratio * 100.0, 2)]);
    }
    if let Some(reuse) = &statistics.reuse {
        table.notes.push(format!(
            "{:.0} different pages; {:.2} % of them were looked at",
            reuse.histogram().first,
            reuse.sampled_share() * 100.0
        ));
    }
    table
}

fn tables(source: &TraceSource<'_>, statistics: &Statistics) -> Vec<Table> {
    let mut tables = vec![overview(source, statistics), volumes(source, statistics)];
    tables.extend(histograms(statistics).iter().map(Histogram::table));
    tables.push(lru_table(statistics));
    tables
}

fn print_tables(source: &TraceSource<'_>, statistics: &Statistics) -> Result<()> {
    let mut out = io::stdout().lock();
    for (place, table) in tables(source, statistics).iter().enumerate() {
        if place > 0 {
            writeln!(out).context("cannot write the table")?;
        }
        table.print(Format::Text, &mut out)?;
    }
    Ok(())
}

fn drawn(source: &TraceSource<'_>, statistics: &Statistics) -> Page {
    let facts = [
        ("version", format!("forebay {}", env!("CARGO_PKG_VERSION"))),
        ("format", source.format().to_string()),
    ];
    let mut page = Page::new(&source.name, &facts);
    let mut figures: Vec<Figure> = histograms(statistics).iter().map(Histogram::figure).collect();
    let points = lru(statistics).into_iter().map(|(pages, ratio)| {
        let (mib, hits) = (pages as f64 * 4096.0 / f64::from(1 << 20), ratio * 100.0);
        let title = format!("{mib:.0} MiB: {hits:.2} %");
        Point { at: mib, value: Some(hits), title, ..Point::default() }
    });
    figures.push(Figure {
        title: "LRU cache".to_owned(),
        caption: "Hit ratio of a cache of this size that evicts the least recently used page."
            .to_owned(),
        layout: Layout::Across,
        along: Axis { label: "MiB".to_owned(), scale: Scale::Log },
        value: Axis { label: "hits, %".to_owned(), scale: Scale::Linear },
        range: "",
        series: vec![Series {
            label: "LRU".to_owned(),
            join: Join::Line,
            points: points.collect(),
        }],
    });
    page.figures(&figures);
    for table in tables(source, statistics) {
        page.heading(if table.title.is_empty() { "Volumes" } else { &table.title });
        page.table(&table, "", Digits::All);
        page.notes(&table.notes);
    }
    page.notes(&source.report().sentences());
    page
}
