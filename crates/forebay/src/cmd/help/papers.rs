//! The papers: their authors and claims, and how each is run.

use forebay_sim::paper::{PAPERS, Paper};

use super::sheet::Sheet;

pub(super) fn text(text: &mut Sheet) {
    text.lines(
        "Experiments of papers, run in virtual time. Published and measured figures are\n\
         compared, with a tolerance that was fixed in advance and a verdict.\n\n\
         \x20 forebay reproduce                 all of them\n\
         \x20 forebay reproduce NAME --all      one, with every row\n\
         \x20 forebay reproduce NAME --check    exit code 1 if a predicted figure is outside",
    );
    for paper in PAPERS {
        text.heading(paper.name);
        text.paragraph("", &format!("{}.", paper.citation.trim_end_matches('.')));
        text.paragraph("", paper.about);
        text.paragraph("run      ", &format!("forebay reproduce {}", paper.name));
        text.paragraph("machine  ", paper.machine);
        text.paragraph("page     ", &page(paper));
    }
}

/// The page with the claim, the model, the result and what is not claimed.
fn page(paper: &Paper) -> String {
    let name = if paper.name == "throttle" { "throttling" } else { paper.name };
    format!("docs/papers/{name}.md")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_paper_has_its_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for paper in PAPERS {
            let page = root.join(page(paper));
            let text = std::fs::read_to_string(&page).unwrap();
            assert!(text.contains(&format!("reproduce {}", paper.name)), "{}", page.display());
        }
    }
}
