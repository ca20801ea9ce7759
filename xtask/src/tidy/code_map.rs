//! Rules for the code map: every file of a crate is in it, and every name in it is a file.
//!
//! ```text
//!  ARCHITECTURE.md     ### forebay-core: the engine
//!                      | `cpu/o1.rs`, `fair.rs` | ... |     crates/forebay-core/src/cpu/o1.rs
//!                      | `codec/*.rs` | ... |                                  .../cpu/fair.rs
//! ```
//!
//! A name lies in the folder of the one before it in its row, or in one above that.

use std::iter;

use super::tables::{cells, expanded, matches, spans};
use super::{File, Finding};
use crate::markdown::lines;

const PAGE: &str = "ARCHITECTURE.md";

/// Checks the map against the files.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut section: Option<Section<'_>> = None;
    let mut in_map = false;
    for (number, line) in lines(&page.text) {
        if line.starts_with('#') {
            findings.extend(section.take().into_iter().flat_map(Section::missing));
        }
        if line.starts_with("## ") {
            in_map = line == "## Code map";
        } else if let Some(name) = line.strip_prefix("### ").filter(|_| in_map) {
            let (name, _) = name.split_once(':').unwrap_or((name, ""));
            section = Some(Section::new(number, name, files));
        } else if let (Some(section), Some(cells)) = (&mut section, cells(line)) {
            let gone = section.row(cells[0]).into_iter();
            findings.extend(gone.map(|name| {
                Finding::new(PAGE, number, format!("there is no file {name}; mend the code map"))
            }));
        }
    }
    findings.extend(section.into_iter().flat_map(Section::missing));
    findings
}

/// The part of the map about one crate.
struct Section<'a> {
    line: usize,
    name: &'a str,
    /// Files below `src/`, and whether the map has them.
    files: Vec<(&'a str, bool)>,
}

impl<'a> Section<'a> {
    fn new(line: usize, name: &'a str, files: &'a [File]) -> Self {
        let folders = [format!("crates/{name}/src/"), format!("{name}/src/")];
        let below = |file: &'a File| {
            let path = folders.iter().find_map(|folder| file.path.strip_prefix(folder.as_str()));
            path.filter(|path| path.ends_with(".rs")).map(|path| (path, false))
        };
        Self { line, name, files: files.iter().filter_map(below).collect() }
    }

    /// Takes in the names of a row; those that are no files.
    fn row(&mut self, cell: &str) -> Vec<String> {
        let (mut folder, mut gone) = (String::new(), Vec::new());
        for span in spans(cell).filter(|name| name.ends_with(".rs")) {
            let mut last = None;
            for name in expanded(span) {
                match self.place(&folder, &name) {
                    Some(place) => last = Some(place),
                    None => gone.push(name),
                }
            }
            if let Some(place) = last {
                let fixed = place.split('*').next().unwrap_or_default();
                folder = above(fixed).to_owned();
            }
        }
        gone
    }

    /// Where the files lie that a name means: in the folder, or in one above it.
    fn place(&mut self, folder: &str, name: &str) -> Option<String> {
        let folders = iter::successors(Some(folder), |one| (!one.is_empty()).then(|| above(one)));
        let mut places = folders.map(|folder| match folder {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        });
        places.find(|place| self.mark(place))
    }

    /// Marks what a name means; whether that is any file.
    fn mark(&mut self, name: &str) -> bool {
        let meant = self.files.iter_mut().filter(|(path, _)| matches(name, path));
        meant.map(|(_, is_there)| *is_there = true).count() > 0
    }

    fn missing(self) -> impl Iterator<Item = Finding> {
        let Self { line, name, files } = self;
        let absent = files.into_iter().filter(|(_, is_there)| !is_there);
        absent.map(move |(path, _)| {
            Finding::new(PAGE, line, format!("add `{path}` to the code map of {name}"))
        })
    }
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<String> {
        let file = |path: &str| File { path: path.to_owned(), text: String::new() };
        let text = format!("## Code map\n\n### cpu: cores\n\n| file | what |\n{rows}\n## Next\n");
        let map = File { path: PAGE.to_owned(), text };
        let files = ["lib.rs", "a.rs", "a/b.rs", "a/c.rs", "a/c/tests.rs"]
            .map(|path| file(&format!("crates/cpu/src/{path}")));
        let files: Vec<File> = files.into_iter().chain([map, file("crates/x/src/y.rs")]).collect();
        check(&files).into_iter().map(|one| format!("{}: {}", one.line, one.remedy)).collect()
    }

    #[test]
    fn a_whole_map_is_fine() {
        assert_eq!(found("| `lib.rs` | |\n| `a.rs`, `a/b.rs`, `c.rs`, `c/tests.rs` | |"), [""; 0]);
        assert_eq!(found("| `lib.rs`, `a.rs`, `a/*.rs`, `c/*.rs` | not `z.rs` |"), [""; 0]);
        assert_eq!(found("| `{lib,a}.rs`, `a/{b,c}.rs`, `*/c/tests.rs` | |"), [""; 0]);
    }

    #[test]
    fn what_is_gone_and_what_is_missing_is_found() {
        let found = found("| `lib.rs`, `a.rs`, `a/*.rs` | |\n| `d.rs` | |");
        let expected = [
            "7: there is no file d.rs; mend the code map",
            "3: add `a/c/tests.rs` to the code map of cpu",
        ];
        assert_eq!(found, expected);
    }
}
