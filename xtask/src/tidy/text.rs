//! Rules for one text: length, width, blanks, words, header.

use super::{Finding, Rule};

/// One rule per line.
pub(super) const RULES: &[Rule] = &[length, width, blanks, markers, exceptions, header, people];

/// Rust files are short.
fn length(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().count();
    if !is(path, "rs") || lines <= LINES_MAX {
        return Vec::new();
    }
    let remedy = format!("{lines} lines; split the file along its branching: {LINES_MAX} at most");
    vec![Finding::new(path, LINES_MAX + 1, remedy)]
}

/// Lines are short. Links and, in Markdown, tables and code blocks cannot be broken.
fn width(path: &str, text: &str) -> Vec<Finding> {
    let max = match path.rsplit_once('.') {
        Some((_, "rs")) => RUST_COLUMNS_MAX,
        Some((_, "md")) => PROSE_COLUMNS_MAX,
        Some(_) | None => return Vec::new(),
    };
    let lines = if is(path, "md") { prose(text) } else { numbered(text).collect() };
    lines
        .into_iter()
        .filter(|(_, line)| !line.contains("://"))
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, columns)| *columns > max)
        .map(|(number, columns)| {
            Finding::new(path, number, format!("{columns} columns; break the line: {max} at most"))
        })
        .collect()
}

/// Lines are indented by blanks and end with their last word.
fn blanks(path: &str, text: &str) -> Vec<Finding> {
    if !is_written(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in numbered(text) {
        if line.contains('\t') {
            findings.push(Finding::new(path, number, "tab; use blanks, or \\t in a literal"));
        }
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(path, number, "trailing blank; remove it"));
        }
    }
    findings
}

/// Work that is left is an issue, not a comment.
fn markers(path: &str, text: &str) -> Vec<Finding> {
    if !is_written(path) {
        return Vec::new();
    }
    numbered(text)
        .flat_map(|(number, line)| {
            let found = MARKERS.iter().filter(move |marker| stands_alone(line, marker));
            found.map(move |marker| {
                Finding::new(path, number, format!("{marker}; do it, or open an issue instead"))
            })
        })
        .collect()
}

/// An exception from a lint ends when its reason ends.
fn exceptions(path: &str, text: &str) -> Vec<Finding> {
    if !is(path, "rs") {
        return Vec::new();
    }
    numbered(text)
        .filter(|(_, line)| ALLOW.iter().any(|allow| line.contains(allow)))
        .map(|(number, _)| {
            let remedy = "lint allowed; write #[expect(LINT, reason = \"...\")]";
            Finding::new(path, number, remedy)
        })
        .collect()
}

/// A module starts with its purpose.
fn header(path: &str, text: &str) -> Vec<Finding> {
    if !is(path, "rs") || text.starts_with("//!") {
        return Vec::new();
    }
    vec![Finding::new(path, 1, "no header; start the file with `//!` and what it is for")]
}

/// Whether `word` occurs without a letter, digit or underscore on either side.
fn stands_alone(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
    })
}

/// The lines of Markdown that can be broken: no code blocks, no tables, no links.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence = None;
    numbered(text)
        .filter(|(_, line)| {
            let start = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
            let was_code = fence.is_some();
            if mark.is_some() && (fence.is_none() || fence == mark) {
                fence = if was_code { None } else { mark };
            }
            !was_code && fence.is_none() && !start.starts_with('|') && !start.contains("](")
        })
        .collect()
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Unlike `lines`, this keeps a carriage return.
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}

/// Machines are not people: text names the caller, the worker, the daemon or the device. Names of
/// tests and of code in pages are in backticks.
fn people(path: &str, text: &str) -> Vec<Finding> {
    let is_for_users = path == "README.md" || path.starts_with("docs/") && is(path, "md");
    let is_code = is(path, "rs") && path.contains("src/");
    if path.starts_with("docs/decisions/") || !is_for_users && !is_code {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in numbered(text) {
        let outside = line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
        let words = outside.split(|c: char| !c.is_alphabetic());
        findings.extend(words.filter(|word| PEOPLE.contains(word)).map(|word| {
            let remedy = format!("'{word}'; name the caller, the process or the device instead");
            Finding::new(path, number, remedy)
        }));
    }
    findings
}

fn is(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Whether developers write the file, in contrast to recorded text that the tests read.
fn is_written(path: &str) -> bool {
    path.starts_with(".ci/")
        || ["rs", "md", "toml", "sh", "yml"].iter().any(|extension| is(path, extension))
}

const LINES_MAX: usize = 700;
const RUST_COLUMNS_MAX: usize = 100;
const PROSE_COLUMNS_MAX: usize = 120;

// The words below are cut in two, so that this file does not contain them.

const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const ALLOW: &[&str] = &[concat!("#[all", "ow("), concat!("#![all", "ow(")];

const PEOPLE: &[&str] = &[
    concat!("who", "ever"),
    concat!("some", "body"),
    concat!("some", "one"),
    concat!("no", "body"),
    concat!("any", "body"),
    concat!("every", "body"),
    concat!("every", "one"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
        rule(path, text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_rust_file_has_at_most_its_lines() {
        assert_eq!(lines(length, "a.rs", &"\n".repeat(700)), []);
        assert_eq!(lines(length, "a.rs", &"\n".repeat(701)), [701]);
        assert_eq!(lines(length, "a.md", &"\n".repeat(701)), []);
    }

    #[test]
    fn a_line_has_at_most_its_columns() {
        let text = format!("{}\n{}\n", "é".repeat(100), "é".repeat(101));
        assert_eq!(lines(width, "a.rs", &text), [2]);
        assert_eq!(lines(width, "a.md", &text), []);
        assert_eq!(lines(width, "a.toml", &text), []);
        let text = format!("{}\n{}\n", "é".repeat(120), "é".repeat(121));
        assert_eq!(lines(width, "a.md", &text), [2]);
    }

    #[test]
    fn what_cannot_be_broken_may_be_wide() {
        let wide = "x".repeat(121);
        let link = format!("//! <https://{wide}>\n");
        assert_eq!(lines(width, "a.rs", &link), []);
        for text in ["| W |", "[W](w.md)", "```text\nW\n```", "~~~\n```\nW\n~~~", "https://W"] {
            assert_eq!(lines(width, "a.md", &text.replace('W', &wide)), [], "{text}");
        }
        let behind = format!("```\nx\n```\n{wide}\n");
        assert_eq!(lines(width, "a.md", &behind), [4]);
    }

    #[test]
    fn a_line_has_no_tab_and_no_trailing_blank() {
        assert_eq!(lines(blanks, "a.rs", "a\n\tb\nc \nd\r\n"), [2, 3, 4]);
        assert_eq!(lines(blanks, ".ci/run", "a \n"), [1]);
        assert_eq!(lines(blanks, "tests/recorded/diskstats.txt", "a\t\n"), []);
    }

    #[test]
    fn a_marker_of_work_left_is_found_as_a_word() {
        for marker in MARKERS {
            assert_eq!(lines(markers, "a.rs", &format!("// {marker}: later\n")), [1]);
            assert_eq!(lines(markers, "a.rs", &format!("// mktemp.{marker}{marker}\n")), []);
            assert_eq!(lines(markers, "a.rs", &format!("// {}\n", marker.to_lowercase())), []);
        }
    }

    #[test]
    fn a_lint_is_expected_and_not_allowed() {
        for allow in ALLOW {
            assert_eq!(lines(exceptions, "a.rs", &format!("x\n{allow}dead_code)]\n")), [2]);
            assert_eq!(lines(exceptions, "a.md", &format!("x\n{allow}dead_code)]\n")), []);
        }
        assert_eq!(lines(exceptions, "a.rs", "#[expect(dead_code, reason = \"x\")]"), []);
    }

    #[test]
    fn a_module_starts_with_its_header() {
        assert_eq!(lines(header, "a.rs", "//! A.\n"), []);
        assert_eq!(lines(header, "a.rs", "use a;\n//! A.\n"), [1]);
        assert_eq!(lines(header, "a.rs", ""), [1]);
        assert_eq!(lines(header, "a.toml", "a = 1"), []);
    }

    #[test]
    fn text_does_not_speak_of_a_machine_as_of_a_person() {
        let word = PEOPLE[0];
        let capital = format!("a\n{} waits.\n", word.replacen('w', "W", 1));
        assert_eq!(lines(people, "README.md", &capital), [2]);
        assert_eq!(lines(people, "docs/a.md", &format!("read by {word} asks")), [1]);
        assert_eq!(lines(people, "docs/a.md", &format!("a test: `x::{word}_waits`")), []);
        assert_eq!(lines(people, "docs/decisions/a.md", word), []);
        assert_eq!(lines(people, "crates/a/src/b.rs", &format!("// {word}")), [1]);
        assert_eq!(lines(people, "crates/a/src/b.rs", &format!("fn {word}_waits()")), [1]);
        assert_eq!(lines(people, "crates/a/tests/it/b.rs", &format!("// {word}")), []);
    }
}
