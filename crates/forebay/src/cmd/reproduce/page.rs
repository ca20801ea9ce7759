//! The page of the papers: what was published beside what was measured, in figures and tables, and
//! what each page of the documentation says of its model and of what is not claimed.

use forebay_sim::paper::{Measured, Paper};
use forebay_sim::report::Verdict;

use super::{Reproduced, figures, for_people};
use crate::args::Reproduce;
use crate::over_time;
use crate::page::{Digits, Extent, Page};
use crate::table::{Cell, Table};

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
    page.paragraph(READING);
    page.table(&overview(done), "", Digits::Few);
    if done.len() > 1 {
        page.links(done.iter().map(|one| one.paper.name));
    }
    for one in done {
        part(&mut page, one, arguments);
    }
    page
}

fn overview(done: &[Reproduced<'_>]) -> Table {
    let mut table = Table::new("", &OVERVIEW);
    let count = |count: usize| Cell::Count(count as u64);
    for one in done {
        table.rows.push(vec![
            one.paper.name.into(),
            one.machine.name().into(),
            count(one.count(Verdict::Within)),
            count(one.count(Verdict::Outside)),
            count(one.misses()),
            count(one.count(Verdict::NotClaimed)),
        ]);
    }
    table
}

fn part(page: &mut Page, one: &Reproduced<'_>, arguments: &Reproduce) {
    let paper = one.paper;
    let words = documented(paper);
    page.part(paper.name, paper.name, paper.citation);
    page.folded("What the paper claims", |page| page.section(words, "The claim", Extent::Whole));
    page.figures(&figures::of(paper.name, &one.rows));
    let series: Vec<_> = one.measured.iter().flat_map(Measured::series).collect();
    let over_time = over_time::figures(&series);
    if !over_time.is_empty() {
        page.folded("Over time", |page| page.figures(&over_time));
    }
    page.heading("Published beside measured");
    let mut claims = for_people(paper, false, &one.rows);
    claims.notes.retain(|note| note.starts_with('['));
    page.table(&claims, "", Digits::Few);
    page.notes(&claims.notes);
    let said = [one.counts(), paper.measured.to_owned(), one.how(arguments)];
    page.notes(&said);
    page.heading("What is not claimed");
    page.section(words, "What is not claimed", Extent::Whole);
    page.folded("What is modelled", |page| page.section(words, "The model", Extent::Whole));
    let summary = format!("All {} rows, with every digit", one.rows.len());
    page.folded(&summary, |page| page.table(&one.every_row(), "", Digits::All));
}

/// The paper's page of the documentation.
fn documented(paper: &Paper) -> &'static str {
    let found = DOCUMENTED.iter().find(|(name, _)| *name == paper.name);
    found.map_or("", |(_, text)| text)
}

const DOCUMENTED: [(&str, &str); 5] = [
    ("readahead", include_str!("../../../../../docs/papers/readahead.md")),
    ("cramfs", include_str!("../../../../../docs/papers/cramfs.md")),
    ("throttle", include_str!("../../../../../docs/papers/throttling.md")),
    ("flush", include_str!("../../../../../docs/papers/flush.md")),
    ("context-switch", include_str!("../../../../../docs/papers/context-switch.md")),
];

const OVERVIEW: [(&str, &str); 6] = [
    ("paper", "paper"),
    ("machine", "machine"),
    ("within", "within"),
    ("outside", "outside"),
    ("predicted_outside", "of them predicted"),
    ("not_claimed", "not claimed"),
];

const READING: &str = "Every figure is run in virtual time on a modelled machine. Its role says \
                       what it is for: calibrated, the model was fitted to it; predicted, the \
                       model had no say in it; derived, it follows from the workload; context, it \
                       is there for comparison. Tolerances were fixed before the measurement, and \
                       what lies outside is shown as outside.";

#[cfg(test)]
mod tests {
    use forebay_sim::paper::PAPERS;

    use super::*;

    #[test]
    fn every_paper_says_what_it_claims_models_and_does_not_claim() {
        for paper in PAPERS {
            for heading in ["The claim", "The model", "What is not claimed"] {
                let mut page = Page::new("page", &[]);
                let before = page.finish().len();
                page = Page::new("page", &[]);
                page.section(documented(paper), heading, Extent::Whole);
                assert!(page.finish().len() > before + 100, "{}: {heading}", paper.name);
            }
        }
    }
}
