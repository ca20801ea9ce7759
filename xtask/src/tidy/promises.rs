//! Rules for the promises: each is a sentence and names the one test that holds it.
//!
//! ```text
//!  docs/semantics.md   | A promise. | `crates/forebay-core/src/a.rs::its_test` |
//!                                        |                          |
//!                                      file   #[test] fn its_test() in it
//! ```

use super::tables::{cells, spans};
use super::{File, Finding};
use crate::markdown::lines;

/// Where the promises stand.
const PAGE: &str = "docs/semantics.md";

/// Checks every promise.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let rows = lines(&page.text).filter_map(|(number, line)| Some((number, cells(line)?)));
    rows.filter(|(_, cells)| cells.first() != Some(&"promise"))
        .filter_map(|(number, cells)| Some(Finding::new(PAGE, number, breach(&cells, files)?)))
        .collect()
}

/// The error of a promise, if there is one.
fn breach(cells: &[&str], files: &[File]) -> Option<String> {
    let [promise, held_by] = cells else {
        return Some("write a promise and the test that holds it".to_owned());
    };
    if !promise.ends_with('.') {
        return Some("end the promise with a full stop: it is a sentence".to_owned());
    }
    let mut named = spans(held_by).filter_map(|span| span.split_once("::"));
    let (Some((path, test)), None) = (named.next(), named.next()) else {
        return Some("name the one test that holds it: `FILE.rs::test`".to_owned());
    };
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return Some(format!("there is no file {path}; name the one with the test"));
    };
    match test_in(&file.text, test) {
        Test::Runs => None,
        Test::Absent => Some(format!("{path} has no test {test}; write it, or drop the promise")),
        Test::Ignored => Some(format!("{test} is ignored; run it, or say why in #[ignore = ...]")),
    }
}

enum Test {
    Runs,
    Absent,
    /// Without a reason.
    Ignored,
}

/// Looks for a test by name; its attributes and comments are in the lines above it.
fn test_in(text: &str, name: &str) -> Test {
    let begin = format!("fn {name}(");
    let all: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = all.iter().position(|line| line.starts_with(&begin)) else {
        return Test::Absent;
    };
    let above = all[..at].iter().rev();
    let above = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let above: Vec<&&str> = above.collect();
    if !above.contains(&&"#[test]") {
        Test::Absent
    } else if above.contains(&&"#[ignore]") {
        Test::Ignored
    } else {
        Test::Runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "/// Why.\n#[test]\nfn holds() {}\n#[test]\n#[ignore]\nfn sleeps() {}\n\
                         #[test]\n#[ignore = \"long\"]\nfn long() {}\nfn helps() {}\n";

    fn found(row: &str) -> Vec<String> {
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let page = format!("| promise | held by |\n| --- | --- |\n{row}\n");
        let files = [file(PAGE, page), file("a.rs", TESTS.to_owned())];
        check(&files).into_iter().map(|one| format!("{}: {}", one.line, one.remedy)).collect()
    }

    #[test]
    fn a_promise_that_is_held_is_fine() {
        assert_eq!(found("| It holds. | `a.rs::holds` |"), [""; 0]);
        assert_eq!(found("| It holds. | `a.rs::long` |"), [""; 0]);
        assert_eq!(found("```text\n| no row |\n```"), [""; 0]);
    }

    #[test]
    fn a_promise_without_its_test_is_found() {
        for (row, begin) in [
            ("| It holds | `a.rs::holds` |", "3: end the promise"),
            ("| It holds. | `a.rs` |", "3: name the one test"),
            ("| It holds. | `a.rs::holds`, `a.rs::long` |", "3: name the one test"),
            ("| It holds. |", "3: write a promise and the test"),
            ("| It holds. | `b.rs::holds` |", "3: there is no file b.rs"),
            ("| It holds. | `a.rs::hold` |", "3: a.rs has no test hold;"),
            ("| It holds. | `a.rs::helps` |", "3: a.rs has no test helps;"),
            ("| It holds. | `a.rs::sleeps` |", "3: sleeps is ignored"),
        ] {
            let found = found(row);
            assert!(found.len() == 1 && found[0].starts_with(begin), "{row}: {found:?}");
        }
    }
}
