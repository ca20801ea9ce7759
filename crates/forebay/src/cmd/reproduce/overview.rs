//! One line for each paper, in 80 columns: headline, agreement, verdict.

use forebay_report::screen::{self, Mood};
use forebay_sim::paper::{Agreement, PaperVerdict};
use forebay_sim::report::Row;

use super::Reproduced;
use crate::args::Reproduce;

/// All papers, the sum, and what to type next.
pub(super) fn text(done: &[Reproduced<'_>], arguments: &Reproduce) -> String {
    let mut text = line(["paper", "headline", "published", "here", "agree"], "verdict");
    let (mut agree, mut counted) = (0, 0);
    for one in done {
        let agreement = one.agreement();
        let row = agreement.headline;
        agree += agreement.agree;
        counted += agreement.counted;
        let cells = [
            one.paper.name,
            one.paper.headline.text,
            &figure(row, row.published),
            &figure(row, row.measured),
            &format!("{}/{}", agreement.agree, agreement.counted),
        ];
        text += &line(cells, &painted(agreement.verdict));
    }
    text += &format!(
        "\n{agree} of {counted} figures agree that the papers print and the models predict.\n\
         Figures that models were fitted to, or that the workload decides, do not count.\n"
    );
    if !arguments.full {
        text += "Only what counts is run here, the longest runs scaled down, so figures differ a\n\
                 little from `reproduce PAPER`; --all runs the rest, --full the longest at the\n\
                 papers' size.\n";
    }
    let next = [
        (format!("forebay reproduce {}", worst(done)), "its claim, and why figures miss"),
        ("forebay reproduce --all".to_owned(), "every row of every paper"),
        ("forebay reproduce --html papers.html".to_owned(), "charts, in a browser"),
        ("forebay help papers".to_owned(), "machines, models, what is not claimed"),
    ];
    text.push('\n');
    for (command, what) in next {
        text += &format!("  {command:<38}{what}\n");
    }
    text
}

fn line([paper, headline, published, here, agree]: [&str; 5], verdict: &str) -> String {
    format!("{paper:<15} {headline:<22} {published:>9} {here:>9} {agree:>6}  {verdict}\n")
}

/// The paper with the largest share of misses.
fn worst(done: &[Reproduced<'_>]) -> &'static str {
    let missed = |one: &Reproduced<'_>| {
        let Agreement { agree, counted, .. } = one.agreement();
        1.0 - agree as f64 / counted.max(1) as f64
    };
    let worst = done.iter().max_by(|a, b| missed(a).total_cmp(&missed(b)));
    worst.map_or("PAPER", |one| one.paper.name)
}

/// A figure with its unit, in nine columns.
pub(super) fn figure(row: &Row, figure: Option<f64>) -> String {
    let Some(figure) = figure else { return "-".to_owned() };
    match row.unit {
        "%" | "% points" => format!("{figure:+.1} %"),
        "ratio" => format!("{figure:.2} x"),
        unit if figure.abs() >= 100.0 => format!("{figure:.0} {unit}"),
        unit => format!("{figure:.2} {unit}"),
    }
}

/// The verdict in its colour.
pub(super) fn painted(verdict: PaperVerdict) -> String {
    screen::painted(&verdict.to_string(), mood(verdict))
}

/// The colour of a verdict.
pub(super) fn mood(verdict: PaperVerdict) -> Mood {
    match verdict {
        PaperVerdict::Holds | PaperVerdict::Mostly => Mood::Good,
        PaperVerdict::SizeDiffers | PaperVerdict::AloneOnly => Mood::Mixed,
        PaperVerdict::Fails => Mood::Bad,
    }
}

#[cfg(test)]
mod tests {
    use forebay_sim::paper::PAPERS;

    use super::*;

    #[test]
    fn a_line_fits_80_columns() {
        for paper in PAPERS {
            assert!(paper.headline.text.chars().count() <= 22, "{}", paper.name);
            assert!(paper.name.chars().count() <= 15, "{}", paper.name);
        }
        let long = PaperVerdict::SizeDiffers.to_string();
        let line = line(["p", "h", "-100.0 %", "+100.0 %", "100/100"], &long);
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
}
