//! The pages of the documentation about the papers, and their names.

use forebay_sim::paper::Paper;

/// The file of the paper's page in `docs/papers`.
pub(super) fn document(paper: &Paper) -> String {
    let name = if paper.name == "throttle" { "throttling" } else { paper.name };
    format!("{name}.md")
}

/// The paper's page of the documentation.
pub(super) fn documented(paper: &Paper) -> &'static str {
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

#[cfg(test)]
mod tests {
    use forebay_report::page::{Extent, Page};
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
