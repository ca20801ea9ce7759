//! Rules for the pages: named files exist, and pages of one kind have the same form.
//!
//! ```text
//!  any page          `engine/fill.rs`  the end of the path of a file
//!  docs/papers/      the same headings, in the same order
//!  docs/decisions/   each in the list of all
//! ```

use super::tables::{expanded, matches, spans};
use super::{File, Finding};
use crate::markdown::lines;

/// Checks all pages.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    let each = pages.flat_map(|page| {
        let found = lines(&page.text).flat_map(|(number, line)| {
            let gone = dead_names(page, line, files);
            gone.map(move |remedy| Finding::new(&page.path, number, remedy))
        });
        found.chain(headings(page)).collect::<Vec<_>>()
    });
    each.chain(decisions(files)).collect()
}

/// Rust files that are named and do not exist. CHANGELOG.md may name removed ones.
fn dead_names<'a>(
    page: &'a File,
    line: &'a str,
    files: &'a [File],
) -> impl Iterator<Item = String> + 'a {
    let names = spans(line).filter(|name| name.ends_with(".rs") && page.path != "CHANGELOG.md");
    names.flat_map(expanded).filter_map(|name| {
        let parts = name.split('/').count();
        let is_there = |file: &File| {
            let place = file.path.rmatch_indices('/').nth(parts - 1).map_or(0, |(at, _)| at + 1);
            matches(&name, &file.path[place..])
        };
        (!files.iter().any(is_there)).then(|| format!("there is no file {name}; name another one"))
    })
}

/// The page of a paper has these headings and no others of their rank.
fn headings(page: &File) -> Option<Finding> {
    page.path.strip_prefix("docs/papers/")?;
    let found: Vec<(usize, &str)> =
        lines(&page.text).filter(|(_, line)| line.starts_with("## ")).collect();
    let wrong = found.iter().zip(HEADINGS).find(|((_, found), wanted)| found != wanted);
    let (number, wanted) = match wrong {
        Some(((number, _), wanted)) => (*number, wanted),
        None if found.len() > HEADINGS.len() => (found[HEADINGS.len()].0, "no further one"),
        None => (page.text.lines().count(), *HEADINGS.get(found.len())?),
    };
    let remedy = format!("the headings of a paper's page: here is to be {wanted}");
    Some(Finding::new(&page.path, number, remedy))
}

/// Every decision is in the list of all.
fn decisions(files: &[File]) -> Vec<Finding> {
    let list = files.iter().find(|file| file.path == DECISIONS);
    let text = list.map_or("", |file| file.text.as_str());
    let all = files.iter().filter_map(|file| file.path.strip_prefix("docs/decisions/"));
    all.filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .filter(|name| !text.contains(&format!("({name})")))
        .map(|name| Finding::new(DECISIONS, 1, format!("add {name} to the list")))
        .collect()
}

const HEADINGS: [&str; 4] =
    ["## The claim", "## The model", "## The result", "## What is not claimed"];

const DECISIONS: &str = "docs/decisions/README.md";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file(path, text),
            file("README.md", ""),
            file("crates/a/src/b/c.rs", ""),
            file("examples/x.fio", ""),
        ];
        check(&files).into_iter().map(|one| format!("{}: {}", one.line, one.remedy)).collect()
    }

    #[test]
    fn files_that_are_named_are_there() {
        let text = "`b/c.rs`, `c.rs`, `src/b/{c,d}.rs`, `x.c`\n`bc.rs`\n";
        let expected = [
            "1: there is no file src/b/d.rs; name another one",
            "2: there is no file bc.rs; name another one",
        ];
        assert_eq!(found("docs/a.md", text), expected);
        assert_eq!(found("CHANGELOG.md", text), [""; 0]);
    }

    #[test]
    fn the_page_of_a_paper_has_its_headings() {
        let page = |headings: &[&str]| headings.join("\n\n### Part\n\n");
        assert_eq!(found("docs/papers/a.md", &page(&HEADINGS)), [""; 0]);
        assert_eq!(found("docs/papers/a.md", &page(&HEADINGS[..3])).len(), 1);
        let further = [&HEADINGS[..], &["## More"]].concat();
        assert_eq!(found("docs/papers/a.md", &page(&further)).len(), 1);
        let other = [HEADINGS[0], HEADINGS[2]];
        let expected = ["5: the headings of a paper's page: here is to be ## The model"];
        assert_eq!(found("docs/papers/a.md", &page(&other)), expected);
    }

    #[test]
    fn a_decision_is_in_the_list() {
        assert_eq!(found("docs/decisions/0001-a.md", ""), ["1: add 0001-a.md to the list"]);
        assert_eq!(found("docs/decisions/README.md", ""), [""; 0]);
    }
}
