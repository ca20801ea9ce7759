//! One paper on one screen: claim, verdict, misses with their reasons, and its main figures.

use forebay_report::messages::filled;
use forebay_report::screen;
use forebay_report::table::{Cell, Table};
use forebay_sim::paper::{Agreement, PaperVerdict};
use forebay_sim::report::{Row, Verdict};

use super::documents::document;
use super::overview::{figure, painted};
use super::{Reproduced, decimals};
use crate::args::Reproduce;

/// The report of a paper.
pub(super) fn text(one: &Reproduced<'_>, arguments: &Reproduce) -> String {
    let paper = one.paper;
    let agreement = one.agreement();
    let fill = |label: &str, words: &str| filled(label, words, columns());
    let mut text = fill("", paper.citation);
    text.push('\n');
    text += &fill("claim    ", paper.claim);
    let first = fill("verdict  ", &verdict(one, &agreement));
    text += &first.replacen(&agreement.verdict.to_string(), &painted(agreement.verdict), 1);
    let counted: Vec<&Row> = one.rows.iter().filter(|row| row.is_counted()).collect();
    text += &figures(&counted, agreement.headline);
    text += &misses(&counted);
    text.push('\n');
    if !arguments.full && !paper.scaled.is_empty() {
        text += &fill("scaled   ", &format!("{}; --full runs at the paper's size", paper.scaled));
    }
    text += &fill("run      ", &one.how(arguments));
    let (all, page) = (one.rows.len(), document(paper));
    let next = format!("--all: {all} rows; --html FILE: charts; docs/papers/{page}: the model");
    text + &fill("more     ", &next)
}

/// What follows from the figures, in a sentence.
pub(super) fn verdict(one: &Reproduced<'_>, agreement: &Agreement<'_>) -> String {
    let Agreement { headline, agree, counted, verdict } = *agreement;
    let why = match verdict {
        PaperVerdict::Holds => "every counted figure agrees",
        PaperVerdict::Mostly => "the headline and most other figures agree",
        PaperVerdict::AloneOnly => "figures without load agree, most of those under load do not",
        PaperVerdict::SizeDiffers => "the headline has the published sign, and another size",
        PaperVerdict::Fails if headline.verdict() == Verdict::Within => "too many figures miss",
        PaperVerdict::Fails => "the headline is not reproduced",
    };
    let [published, here] = [headline.published, headline.measured].map(|it| figure(headline, it));
    format!(
        "{verdict}: {why}. {agree} of {counted} figures agree that the paper prints and the model \
         predicts. Headline, {}: published {published}, here {here}.",
        one.paper.headline.text
    )
}

/// The headline, the misses, and others up to [`ROWS_MAX`], in the order of the paper.
fn figures(counted: &[&Row], headline: &Row) -> String {
    let rank = |row: &Row| match row.verdict() {
        _ if std::ptr::eq(row, headline) => 0,
        Verdict::Outside | Verdict::Contradicted => 1,
        Verdict::Within | Verdict::NotClaimed => 2,
    };
    let mut places: Vec<usize> = (0..counted.len()).collect();
    places.sort_by_key(|place| rank(counted[*place]));
    places.truncate(ROWS_MAX);
    places.sort_unstable();
    let columns = [
        ("row", "what was run"),
        ("metric", "figure"),
        ("policy", "policy"),
        ("published", "published"),
        ("measured", "here"),
        ("tolerance", "tolerance"),
        ("agrees", "agrees"),
    ];
    let mut table = Table::new("", &columns);
    table.dense = true;
    for place in &places {
        let row = counted[*place];
        let decimals = if row.unit == "count" { 0 } else { decimals(row) };
        let end = |end: Option<f64>| end.map_or(String::new(), |end| format!("{end:.decimals$}"));
        table.rows.push(vec![
            row.row.clone().into(),
            format!("{} ({})", row.metric, row.unit).into(),
            row.policy.clone().into(),
            Cell::maybe(row.published, decimals),
            Cell::maybe(row.measured, decimals),
            format!("{}..{}", end(row.tolerance.0), end(row.tolerance.1)).into(),
            match row.verdict() {
                Verdict::Within => "yes",
                Verdict::Outside | Verdict::NotClaimed => "no",
                Verdict::Contradicted => "contradicted",
            }
            .into(),
        ]);
    }
    table.leave_first(&["tolerance"]);
    let mut text = format!("\n{}", table.fitted(Some(columns_of_table())));
    let more = counted.len() - places.len();
    if more > 0 {
        text += &format!("and {more} more: --all\n");
    }
    text
}

/// Why figures are outside, as far as known; each reason once.
fn misses(counted: &[&Row]) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in counted.iter().filter(|row| row.verdict().is_miss()) {
        let name = format!("{}, {}", row.row, row.metric);
        let reason = if row.note.is_empty() { "not explained" } else { &row.note };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let mut text = String::new();
    for (reason, names) in reasons {
        let of = match &names[..] {
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
            [] => String::new(),
        };
        text += &filled("", &format!("misses: {of}"), columns());
        text += &filled("        ", reason, columns());
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// The width of the report.
fn columns() -> usize {
    screen::columns().unwrap_or(COLUMNS).min(screen::prose_columns())
}

/// The width of its table, which may use all of a wide terminal.
fn columns_of_table() -> usize {
    screen::columns().unwrap_or(COLUMNS)
}

/// More rows are for `--all`.
const ROWS_MAX: usize = 12;

/// Where the width of the screen is not known.
const COLUMNS: usize = 80;
