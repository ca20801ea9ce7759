//! Rules for the code map: every module at the top of a crate is in it, and each name is one.
//!
//! ```text
//!  ARCHITECTURE.md     ### forebay-core: the engine
//!                      | `engine` | ... |             crates/forebay-core/src/engine.rs
//!                      | `time`, `units` | ... |                        .../src/time.rs, units.rs
//! ```

use super::tables::{cells, spans};
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
            section = Section::new(number, name, files);
        } else if let (Some(section), Some(cells)) = (&mut section, cells(line)) {
            let gone = spans(cells[0]).filter(|name| !section.mark(name));
            findings.extend(gone.map(|name| {
                let remedy = format!("there is no module {name}; correct the code map");
                Finding::new(PAGE, number, remedy)
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
    /// Modules at the top of `src/`, and whether the map has them.
    modules: Vec<(&'a str, bool)>,
}

impl<'a> Section<'a> {
    /// None for a heading that is no crate.
    fn new(line: usize, name: &'a str, files: &'a [File]) -> Option<Self> {
        let folders = [format!("crates/{name}/src/"), format!("{name}/src/")];
        let module = |file: &'a File| {
            let path = folders.iter().find_map(|folder| file.path.strip_prefix(folder.as_str()))?;
            path.strip_suffix(".rs").filter(|path| !path.contains('/')).map(|path| (path, false))
        };
        let modules: Vec<_> = files.iter().filter_map(module).collect();
        (!modules.is_empty()).then_some(Self { line, name, modules })
    }

    /// Marks a module; false if there is none of this name.
    fn mark(&mut self, name: &str) -> bool {
        let found = self.modules.iter_mut().find(|(module, _)| *module == name);
        found.map(|(_, is_there)| *is_there = true).is_some()
    }

    fn missing(self) -> impl Iterator<Item = Finding> {
        let Self { line, name, modules } = self;
        let absent = modules.into_iter().filter(|(_, is_there)| !is_there);
        absent.map(move |(module, _)| {
            Finding::new(PAGE, line, format!("add `{module}` to the code map of {name}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<String> {
        let file = |path: &str| File { path: path.to_owned(), text: String::new() };
        let text = format!("## Code map\n\n### cpu: cores\n\n| module | what |\n{rows}\n## Next\n");
        let map = File { path: PAGE.to_owned(), text };
        let files = ["lib.rs", "a.rs", "a/b.rs", "c.rs"]
            .map(|path| file(&format!("crates/cpu/src/{path}")));
        let files: Vec<File> = files.into_iter().chain([map, file("crates/x/src/y.rs")]).collect();
        check(&files).into_iter().map(|one| format!("{}: {}", one.line, one.remedy)).collect()
    }

    #[test]
    fn a_whole_map_is_fine() {
        assert_eq!(found("| `lib` | |\n| `a`, `c` | with `b.rs` |"), [""; 0]);
        assert_eq!(found("| `lib`, `a`, `c` | |\n\n### Beside\n\n| `docs/` | |"), [""; 0]);
    }

    #[test]
    fn what_is_gone_and_what_is_missing_is_found() {
        let expected = [
            "7: there is no module a/b; correct the code map",
            "7: there is no module d; correct the code map",
            "3: add `c` to the code map of cpu",
        ];
        assert_eq!(found("| `lib`, `a` | |\n| `a/b`, `d` | |"), expected);
    }
}
