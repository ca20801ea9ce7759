//! What runs of a job differ in, in a sentence for each: against the first one.

use std::io::Write;

use anyhow::{Context, Result};
use forebay_core::time::Duration;
use forebay_report::messages::filled;
use forebay_report::screen;
use forebay_sim::stats::Summary;

use super::{Results, Row, seconds};
use crate::slots::SLOTS;

impl Results {
    /// Prints a sentence for each run but the first, if policies were compared.
    pub(super) fn print_comparison(&self, out: &mut impl Write) -> Result<()> {
        let sentences = self.sentences();
        if sentences.is_empty() {
            return Ok(());
        }
        let columns = screen::prose_columns();
        let lines = sentences.iter().map(|sentence| filled("", sentence, columns));
        let text = format!("\n{}", lines.collect::<String>());
        out.write_all(text.as_bytes()).context("cannot write the comparison")
    }

    /// A sentence for each run but the first; none if there is one run.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut runs = self.rows.iter().filter(|row| row.run.is_some());
        let Some(first) = runs.next() else { return Vec::new() };
        let others: Vec<&Row> = runs.collect();
        let said = others.iter().take(SENTENCES_MAX).map(|other| self.sentence(first, other));
        let mut sentences: Vec<String> = said.collect();
        if others.len() > SENTENCES_MAX {
            sentences.push(format!("and {} more runs.", others.len() - SENTENCES_MAX));
        }
        sentences
    }

    /// `drain: reads 10 x faster than fixed, p99 108 against 524 ms; durable 24 % later`.
    fn sentence(&self, first: &Row, other: &Row) -> String {
        let than = self.differing(first, other);
        let mut parts = Vec::new();
        let calls =
            [("reads", &first.reads, &other.reads), ("writes", &first.writes, &other.writes)];
        for (what, one, two) in calls {
            let reference = if parts.is_empty() { than.as_str() } else { "" };
            parts.extend(latency(what, one, two, reference));
        }
        match durable(first).zip(durable(other)) {
            Some((one, two)) => parts.extend(later("durable", one, two)),
            None => parts.extend(later("done", seconds(first.elapsed), seconds(other.elapsed))),
        }
        if parts.is_empty() {
            parts.push(format!("the same as {than}"));
        }
        format!("{}: {}", self.differing(other, first), parts.join("; "))
    }

    /// The policies of a run, in the slots in which it differs from another one.
    fn differing(&self, of: &Row, from: &Row) -> String {
        let slots = (0..SLOTS.len()).filter(|slot| of.labels[*slot] != from.labels[*slot]);
        let names: Vec<&str> = slots.filter_map(|slot| of.labels[slot].as_deref()).collect();
        names.join(", ")
    }
}

/// How the median of calls compares, and their 99th percentiles.
fn latency(what: &str, one: &Summary, other: &Summary, than: &str) -> Option<String> {
    if one.count == 0 || other.count == 0 {
        return None;
    }
    let [before, after] = [one.p50, other.p50].map(seconds);
    let speed = faster(before, after);
    let (before, after) = (length(one.p99), length(other.p99));
    // A unit that both have is said once.
    let after = match before.split_once(' ') {
        Some((_, unit)) => after.strip_suffix(unit).map_or(after.as_str(), str::trim_end),
        None => &after,
    };
    let than = if than.is_empty() { String::new() } else { format!(" {} {than}", speed.word) };
    Some(format!("{what} {}{than}, p99 {after} against {before}", speed.text))
}

/// `108 ms`, `37 us`.
fn length(length: Duration) -> String {
    let seconds = seconds(length);
    if seconds >= 1e-3 {
        format!("{} ms", short(seconds * 1e3))
    } else {
        format!("{} us", short(seconds * 1e6))
    }
}

/// A ratio in words, and the word that joins it to what it is compared with.
struct Speed {
    text: String,
    word: &'static str,
}

fn faster(before: f64, after: f64) -> Speed {
    let ratio = before / after;
    let text = match ratio {
        ratio if !ratio.is_finite() || ratio <= 0.0 => {
            return Speed { text: "not comparable".to_owned(), word: "with" };
        }
        ratio if (SAME.recip()..SAME).contains(&ratio) => {
            return Speed { text: "as fast".to_owned(), word: "as" };
        }
        ratio if ratio >= 2.0 => format!("{} x faster", short(ratio)),
        ratio if ratio > 1.0 => format!("{:.0} % faster", (1.0 - ratio.recip()) * 100.0),
        ratio if ratio <= 0.5 => format!("{} x slower", short(ratio.recip())),
        ratio => format!("{:.0} % slower", (ratio.recip() - 1.0) * 100.0),
    };
    Speed { text, word: "than" }
}

/// How much later something is, in percent; nothing if the difference is no percent.
fn later(what: &str, before: f64, after: f64) -> Option<String> {
    let change = (after / before - 1.0) * 100.0;
    let word = if change > 0.0 { "later" } else { "earlier" };
    let shown = format!("{:.0}", change.abs());
    (change.is_finite() && shown != "0").then(|| format!("{what} {shown} % {word}"))
}

/// When the data of a run was on the disk, if it wrote.
fn durable(row: &Row) -> Option<f64> {
    let writeback = row.run.as_ref()?.writeback.as_ref()?;
    (row.writes.count + row.syncs.count > 0).then(|| seconds(writeback.durable))
}

/// Three digits at most.
fn short(number: f64) -> String {
    if number >= 9.95 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Ratios below this are no difference.
const SAME: f64 = 1.02;

/// More runs have their rows in the table.
const SENTENCES_MAX: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::PerSlot;
    use forebay_sim::tally::{RunTotals, WritebackTotals};

    fn run(controller: &str, p50_ms: u64, p99_ms: u64, durable_s: u64) -> Row {
        let length = |millis: u64| Duration::from_millis(millis);
        let (p50, p99) = (length(p50_ms), length(p99_ms));
        let reads = Summary { count: 9, p50, p99, ..Summary::default() };
        let writes = Summary { count: 9, p50: length(1), p99: length(1), ..Summary::default() };
        let durable = Duration::from_secs(durable_s);
        let writeback = Some(WritebackTotals { durable, ..WritebackTotals::default() });
        let mut labels = PerSlot::<Option<String>>::default();
        labels[2] = Some(controller.to_owned());
        labels[3] = Some("paced".to_owned());
        let run = Some(RunTotals { writeback, ..RunTotals::default() });
        Row { labels, reads, writes, run, ..Row::default() }
    }

    fn said(rows: Vec<Row>) -> String {
        let mut out = Vec::new();
        Results { rows, ..Results::default() }.print_comparison(&mut out).unwrap();
        String::from_utf8(out).unwrap().replace('\n', " ").trim().to_owned()
    }

    #[test]
    fn a_run_is_compared_with_the_first_one() {
        let rows = vec![run("fixed", 480, 524, 50), run("drain", 48, 108, 62)];
        assert_eq!(
            said(rows),
            "drain: reads 10 x faster than fixed, p99 108 against 524 ms; writes as fast, p99 1.0 \
             against 1.0 ms; durable 24 % later"
        );
        assert_eq!(said(vec![run("fixed", 1, 1, 1)]), "", "there is nothing to compare");
    }

    #[test]
    fn a_ratio_is_said_as_it_is_read() {
        let text = |before, after| faster(before, after).text;
        assert_eq!(text(3.0, 1.0), "3.0 x faster");
        assert_eq!(text(1.0, 30.0), "30 x slower");
        assert_eq!(text(1.25, 1.0), "20 % faster");
        assert_eq!(text(1.0, 1.25), "25 % slower");
        assert_eq!(text(1.0, 1.01), "as fast");
        assert_eq!(text(1.0, 0.0), "not comparable");
        assert_eq!(later("done", 1.0, 1.001), None);
        assert_eq!(later("done", 2.0, 1.0).unwrap(), "done 50 % earlier");
    }
}
