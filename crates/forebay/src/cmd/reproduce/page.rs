//! The page of the papers: for each its verdict, its charts with the headline first, the figures
//! that miss, and the sections of the documentation about its model and about what is not claimed.

use forebay_report::page::{Digits, Extent, Page};
use forebay_report::table::Table;
use forebay_sim::paper::Measured;
use forebay_sim::report::{Row, Verdict};

use super::documents::documented;
use super::overview::{figure, mood};
use super::{Reproduced, figures, for_people, report};
use crate::args::Reproduce;
use crate::over_time;

/// The page of these papers.
pub(super) fn of(done: &[Reproduced<'_>], arguments: &Reproduce) -> Page {
    let title = match done {
        [one] => one.paper.citation.to_owned(),
        _ => "Papers of the Linux I/O path, published beside measured".to_owned(),
    };
    let facts = [
        ("version", format!("forebay {}", env!("CARGO_PKG_VERSION"))),
        ("seed", arguments.seed.to_string()),
        ("draws", arguments.draws.to_string()),
        ("settings", arguments.set.join(", ")),
    ];
    let mut page = Page::new(&title, &facts);
    if let [_, _, ..] = done {
        page.table(&overview(done), "", Digits::Few);
        page.links(done.iter().map(|one| one.paper.name));
    }
    for one in done {
        part(&mut page, one, arguments);
    }
    page.heading("How to read it");
    page.paragraph(READING);
    page
}

/// The same lines as on a terminal.
fn overview(done: &[Reproduced<'_>]) -> Table {
    let mut table = Table::new("", &OVERVIEW);
    for one in done {
        let agreement = one.agreement();
        let row = agreement.headline;
        table.rows.push(vec![
            one.paper.name.into(),
            one.paper.headline.text.into(),
            figure(row, row.published).into(),
            figure(row, row.measured).into(),
            format!("{} of {}", agreement.agree, agreement.counted).into(),
            agreement.verdict.to_string().into(),
        ]);
    }
    table
}

fn part(page: &mut Page, one: &Reproduced<'_>, arguments: &Reproduce) {
    let paper = one.paper;
    let words = documented(paper);
    page.part(paper.name, paper.name, paper.citation);
    let agreement = one.agreement();
    let verdict = agreement.verdict;
    let (badge, sentence) = (verdict.to_string(), report::verdict(one, &agreement));
    let sentence = sentence.trim_start_matches(&badge).trim_start_matches(": ");
    page.verdict(&badge, mood(verdict), sentence);
    page.paragraph(&format!("The claim: {}", paper.claim));
    page.figures(&figures::of(paper.name, &one.rows, agreement.headline));
    let series: Vec<_> = one.measured.iter().flat_map(Measured::series).collect();
    let over_time = over_time::figures(&series);
    if !over_time.is_empty() {
        page.folded("Over time", |page| page.figures(&over_time));
    }
    page.heading("Figures that miss");
    let claims = |wanted: &dyn Fn(&Row) -> bool| {
        let rows: Vec<Row> = one.rows.iter().filter(|row| wanted(row)).cloned().collect();
        let mut claims = for_people(paper, false, &rows);
        claims.notes.retain(|note| note.starts_with('['));
        claims
    };
    let missed = claims(&|row| row.verdict().is_miss());
    if missed.rows.is_empty() {
        page.paragraph("None.");
    } else {
        page.table(&missed, "", Digits::Few);
        page.notes(&missed.notes);
    }
    let passed = claims(&|row| row.verdict() == Verdict::Within);
    let summary = format!("{} figures within their tolerance", passed.rows.len());
    page.folded(&summary, |page| {
        page.table(&passed, "", Digits::Few);
        page.notes(&passed.notes);
    });
    page.notes(&[one.counts(), paper.measured.to_owned(), one.how(arguments)]);
    page.heading("What is not claimed");
    page.section(words, "What is not claimed", Extent::Whole);
    page.folded("The claim of the paper in full", |page| {
        page.section(words, "The claim", Extent::Whole);
    });
    page.folded("What is modelled", |page| page.section(words, "The model", Extent::Whole));
    let summary = format!("All {} rows, with every digit", one.rows.len());
    page.folded(&summary, |page| page.table(&one.every_row(), "", Digits::All));
}

const OVERVIEW: [(&str, &str); 6] = [
    ("paper", "paper"),
    ("headline", "headline"),
    ("published", "published"),
    ("here", "here"),
    ("agree", "agree"),
    ("verdict", "verdict"),
];

const READING: &str = "Every figure comes from a run in virtual time on a modelled machine. A \
                       figure counts for the verdict if the paper prints it, the model predicts \
                       it, and a tolerance was fixed before the run. Calibrated figures, to which \
                       the model was fitted, derived ones, which follow from the workload, and \
                       context do not count.";
