<<<<<<< HEAD
//! Rules for all documents together: links lead somewhere, and the book has every page.

use std::collections::BTreeSet;

use crate::markdown::{Link, headings, links, resolve};

use super::{File, Finding};

/// Every dead link and every page that is not in the book.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let documents = || files.iter().filter(|file| file.path.ends_with(".md"));
    let mut findings: Vec<Finding> = documents()
        .flat_map(|document| links(&document.text).into_iter().map(move |link| (document, link)))
        .filter_map(|(document, link)| {
            let remedy = judge(files, document, &link)?;
            Some(Finding::new(&document.path, link.line, remedy))
        })
        .collect();
    let Some(summary) = files.iter().find(|file| file.path == SUMMARY) else { return findings };
    let listed: BTreeSet<String> =
        links(&summary.text).iter().filter_map(|link| resolve(SUMMARY, link.target)).collect();
    for page in documents().filter(|file| file.path.starts_with("docs/") && file.path != SUMMARY) {
        if !listed.contains(&page.path) {
            findings.push(Finding::new(&page.path, 1, format!("no page of the book; {ADD}")));
        }
    }
    findings
}

/// What is wrong with a link, if anything is.
fn judge(files: &[File], document: &File, link: &Link<'_>) -> Option<String> {
    if link.is_foreign() {
        return None;
    }
    let (file, heading) = link.parts();
    let target = match file {
        "" => Some(document.path.clone()),
        file => resolve(&document.path, file),
    };
    let Some(target) = target else { return Some(format!("{file} is outside of the project")) };
    let Some(found) = files.iter().find(|file| file.path == target) else {
        let folder = format!("{target}/");
        return Some(if files.iter().any(|file| file.path.starts_with(&folder)) {
            format!("{target} is a folder, which is no page; link a file in it")
        } else {
            format!("there is no {target}; mend the link")
        });
    };
    let heading = heading.filter(|_| target.ends_with(".md"))?;
    let is_there = headings(&found.text).iter().any(|slug| slug == heading);
    (!is_there).then(|| format!("{target} has no heading #{heading}; mend the link"))
}

/// The pages of the book, in their order.
const SUMMARY: &str = "docs/SUMMARY.md";

const ADD: &str = "add a line to docs/SUMMARY.md";
=======
//! Rules for the pages: what they name is there, and those of one kind are made alike.
//!
//! ```text
//!  any page          [text](path)      a file or folder of the tree
//!                    `engine/fill.rs`  the end of the path of a file
//!  docs/papers/      the same headings, in the same order
//!  docs/decisions/   each in the list of all
//! ```

use super::markdown::{expanded, lines, links, matches, spans};
use super::{File, Finding};

/// Checks all pages.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    let each = pages.flat_map(|page| {
        let found = lines(&page.text).flat_map(|(number, line)| {
            let gone = dead_links(&page.path, line, files).chain(dead_names(page, line, files));
            gone.map(move |remedy| Finding::new(&page.path, number, remedy))
        });
        found.chain(headings(page)).collect::<Vec<_>>()
    });
    each.chain(decisions(files)).collect()
}

/// Links to files that are not there. Pictures are no texts, so that the tree does not show them.
fn dead_links<'a>(
    page: &'a str,
    line: &'a str,
    files: &'a [File],
) -> impl Iterator<Item = String> + 'a {
    let is_picture = |link: &&str| PICTURES.iter().any(|ending| link.ends_with(ending));
    links(line).filter(move |link| !is_picture(link)).filter_map(move |link| {
        let place = joined(page, link)?;
        let folder = format!("{place}/");
        let is_there = |file: &File| file.path == place || file.path.starts_with(&folder);
        (!files.iter().any(is_there)).then(|| format!("the link leads nowhere: {link}"))
    })
}

/// Rust files that are named and are not there. What changed is told of what was.
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

/// Where a link of a page leads, from the root; none if that is outside.
fn joined(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            ".." => {
                parts.pop()?;
            }
            "." | "" => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

const HEADINGS: [&str; 4] =
    ["## The claim", "## The model", "## The result", "## What is not claimed"];

const DECISIONS: &str = "docs/decisions/README.md";

const PICTURES: [&str; 4] = [".png", ".svg", ".jpg", ".gif"];
>>>>>>> house

#[cfg(test)]
mod tests {
    use super::*;

<<<<<<< HEAD
    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let files = [
            file("README.md", "[a](docs/a.md)\n[b](docs/b.md) [c](docs) [d](../d.md)\n"),
            file("docs/a.md", "# A\n[up](../README.md) [self](#a) [none](#b) [web](https://x.y)\n"),
        ];
        let lines: Vec<String> = check(&files).iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "README.md:2: there is no docs/b.md; mend the link",
                "README.md:2: docs is a folder, which is no page; link a file in it",
                "README.md:2: ../d.md is outside of the project",
                "docs/a.md:2: docs/a.md has no heading #b; mend the link",
            ]
        );
    }

    #[test]
    fn the_book_has_every_page() {
        let files = [
            file("docs/SUMMARY.md", "# S\n- [a](a.md)\n- [r](../README.md)\n"),
            file("README.md", ""),
            file("docs/a.md", ""),
            file("docs/papers/b.md", ""),
        ];
        let paths: Vec<String> = check(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["docs/papers/b.md"]);
=======
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
    fn links_lead_somewhere() {
        let text =
            "[a](../README.md) [b](../examples) [c](https://x.y) [d](x.png)\n[e](other.md)\n";
        assert_eq!(found("docs/a.md", text), ["2: the link leads nowhere: other.md"]);
        assert_eq!(found("docs/a.md", "```\n[e](other.md)\n```\n"), [""; 0]);
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
>>>>>>> house
    }
}
