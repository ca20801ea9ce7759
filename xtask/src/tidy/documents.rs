//! Rules for all documents together: links lead somewhere, and the book has every page.

use std::collections::BTreeSet;

use crate::markdown::{Link, headings, links, resolve};

use super::{File, Finding};

/// Every dead link and every page that is not in the book.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let documents = || files.iter().filter(|file| file.path.ends_with(".md"));
    let summary = files.iter().find(|file| file.path == SUMMARY);
    let listed = summary.map_or("", |summary| &summary.text);
    let listed: BTreeSet<String> =
        links(listed).iter().filter_map(|link| resolve(SUMMARY, link.target)).collect();
    let mut findings: Vec<Finding> = documents()
        .flat_map(|document| links(&document.text).into_iter().map(move |link| (document, link)))
        .filter_map(|(document, link)| {
            let remedy = judge(files, &listed, document, &link)?;
            Some(Finding::new(&document.path, link.line, remedy))
        })
        .collect();
    if summary.is_none() {
        return findings;
    }
    for page in documents().filter(|file| file.path.starts_with("docs/") && file.path != SUMMARY) {
        if !listed.contains(&page.path) {
            findings.push(Finding::new(&page.path, 1, format!("no page of the book; {ADD}")));
        }
    }
    findings
}

/// The error of a link, if there is one.
fn judge(
    files: &[File],
    listed: &BTreeSet<String>,
    document: &File,
    link: &Link<'_>,
) -> Option<String> {
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
        return if listed.iter().any(|page| page.starts_with(&folder)) {
            // In the book it leads to the first page there.
            None
        } else if files.iter().any(|file| file.path.starts_with(&folder)) {
            Some(format!("{target} is a folder without a page; link a file in it"))
        } else {
            Some(format!("there is no {target}; mend the link"))
        };
    };
    let heading = heading.filter(|_| target.ends_with(".md"))?;
    let is_there = headings(&found.text).iter().any(|slug| slug == heading);
    (!is_there).then(|| format!("{target} has no heading #{heading}; mend the link"))
}

/// The pages of the book, in their order.
const SUMMARY: &str = "docs/SUMMARY.md";

const ADD: &str = "add a line to docs/SUMMARY.md";

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let files = [
            file("README.md", "[a](docs/a.md)\n[b](docs/b.md) [c](xtask) [d](../d.md) [e](docs)\n"),
            file("docs/a.md", "# A\n[up](../README.md) [self](#a) [none](#b) [web](https://x.y)\n"),
            file("docs/SUMMARY.md", "[a](a.md) [p](papers/p.md)\n"),
            file("docs/papers/p.md", "[papers](../papers)\n"),
            file("xtask/x.rs", ""),
        ];
        let lines: Vec<String> = check(&files).iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "README.md:2: there is no docs/b.md; mend the link",
                "README.md:2: xtask is a folder without a page; link a file in it",
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
    }
}
