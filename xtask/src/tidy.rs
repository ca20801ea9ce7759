//! Style as a test: the habits that rustc, clippy and rustfmt do not check.
//!
//! ```text
//!  walk ─> [File]  ─┬─ text       one file at a time: length, width, blanks, words, header
//!                   ├─ manifest   one Cargo.toml at a time: the arrows between the crates
//!                   ├─ policies   a front door and the files behind it: table and provenance
//!                   ├─ promises   docs/semantics.md: each promise and its test
//!                   ├─ circles    the files of a crate: none leads back to itself
//!                   ├─ code_map   ARCHITECTURE.md: each file of a crate
//!                   ├─ named      all pages: files that they name are there, kinds are made alike
//!                   ├─ documents  all of Markdown: links lead somewhere, the book is whole
//!                   └─ licence    kernel/ is GPL-2.0-only, and nothing else is
//! ```
//!
//! A rule is a pure function of paths and texts. Each finding names file, line and what to do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::root;

mod circles;
mod code_map;
mod documents;
mod licence;
mod manifest;
mod named;
mod policies;
mod promises;
mod tables;
mod text;

/// Checks the workspace and prints the findings.
pub(crate) fn run() -> Result<u8> {
    let files = walk(root())?;
    let findings = check(&files);
    for finding in &findings {
        println!("{finding}");
    }
    eprintln!("tidy: {} findings in {} files", findings.len(), files.len());
    Ok(u8::from(!findings.is_empty()))
}

/// A file of the project.
#[derive(Debug)]
struct File {
    /// From the root, with slashes.
    path: String,
    /// Empty if it is not UTF-8, and so no text.
    text: String,
}

/// A breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from one.
    line: usize,
    /// The error and its remedy.
    remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, remedy: remedy.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.remedy)
    }
}

/// Every finding, by file and line.
fn check(files: &[File]) -> Vec<Finding> {
    let rules = [text::RULES, manifest::RULES].concat();
    let mut findings: Vec<Finding> = files
        .iter()
        .flat_map(|file| rules.iter().flat_map(|rule| rule(&file.path, &file.text)))
        .chain(RULES.iter().flat_map(|rule| rule(files)))
        .collect();
    findings.sort();
    findings
}

/// A rule that sees one file: its path and its text.
type Rule = fn(&str, &str) -> Vec<Finding>;

/// A rule that sees all files.
type RuleOfAll = fn(&[File]) -> Vec<Finding>;

const RULES: &[RuleOfAll] = &[
    policies::check,
    promises::check,
    circles::check,
    code_map::check,
    named::check,
    documents::check,
    licence::check,
];

/// The files below `root`, by path.
fn walk(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| cannot_read(&directory))? {
            let path = entry.with_context(|| cannot_read(&directory))?.path();
            if path.is_symlink() || path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if path.is_dir() {
                // Cargo tags its target directory, wherever it lies.
                if !path.join("CACHEDIR.TAG").is_file() {
                    directories.push(path);
                }
                continue;
            }
            let bytes = fs::read(&path).with_context(|| cannot_read(&path))?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            let path = path.strip_prefix(root).expect("the walk stays below its root");
            files.push(File { path: path.to_string_lossy().into_owned(), text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&walk(root()).unwrap());
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn the_walk_sees_hidden_files_but_not_what_cargo_built() {
        let paths: Vec<String> = walk(root()).unwrap().into_iter().map(|file| file.path).collect();
        assert!(paths.is_sorted());
        for path in [".ci/run", "Cargo.toml", "xtask/src/tidy.rs"] {
            assert!(paths.iter().any(|seen| seen == path), "{path}");
        }
        assert!(!paths.iter().any(|path| path.starts_with(".git/") || path.starts_with("target/")));
    }

    #[test]
    fn findings_come_by_file_and_line() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [file("b.rs", "//! B.\n\tx\ny \n"), file("a.rs", "fn a() {}\n")];
        let places: Vec<(String, usize)> =
            check(&files).into_iter().map(|finding| (finding.path, finding.line)).collect();
        let expected = [("a.rs", 1), ("b.rs", 2), ("b.rs", 3)];
        assert_eq!(places, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn a_finding_prints_as_editors_read_it() {
        assert_eq!(Finding::new("a.rs", 3, "do this").to_string(), "a.rs:3: do this");
    }
}
