//! Rules for the policies: each is in the table of its front door and says where it comes from.
//!
//! ```text
//!  readahead.rs        pub static POLICIES: &[Policy] = &[off::POLICY, fixed::POLICY];
//!  readahead/off.rs    //! Source: ...      const POLICY: Policy = ...
//! ```

use super::{File, Finding};

/// Files with a table of policies; the policies lie in the folder of the same name.
const FRONT_DOORS: &[&str] = &[
    "crates/forebay-core/src/control.rs",
    "crates/forebay-core/src/dispatch.rs",
    "crates/forebay-core/src/elevator.rs",
    "crates/forebay-core/src/flush.rs",
    "crates/forebay-core/src/packed.rs",
    "crates/forebay-core/src/readahead.rs",
    "crates/forebay-core/src/reclaim.rs",
    "crates/forebay-core/src/throttle.rs",
];

/// The words that start the lines of a policy's provenance.
const PROVENANCE: &[&str] = &["Source:", "Behaviour:", "Differs:", "Not for:"];

/// Checks every policy behind every front door.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for door in FRONT_DOORS {
        let folder = format!("{}/", door.trim_end_matches(".rs"));
        let front = files.iter().find(|file| file.path == *door);
        let table = table(front.map_or("", |file| &file.text));
        for File { path, text } in files {
            let Some(module) = path.strip_prefix(&folder).and_then(|p| p.strip_suffix(".rs"))
            else {
                continue;
            };
            let rows = rows(&module.replace('/', "::"), text);
            findings.extend(unlisted(path, &rows, &table, door));
            if !rows.is_empty() {
                findings.extend(provenance(path, text));
            }
        }
    }
    findings
}

/// The policies that the table does not name. `rows` are lines and what the table should hold.
fn unlisted(path: &str, rows: &[(usize, String)], table: &[&str], door: &str) -> Vec<Finding> {
    rows.iter()
        .filter(|(_, row)| !table.contains(&row.as_str()))
        .map(|(line, row)| Finding::new(path, *line, format!("add {row} to POLICIES in {door}")))
        .collect()
}

/// The words of provenance that the header lacks or leaves empty.
fn provenance(path: &str, text: &str) -> Vec<Finding> {
    let says = |word: &&str| {
        text.lines()
            .map_while(|line| line.strip_prefix("//!"))
            .filter_map(|line| line.trim().strip_prefix(word))
            .any(|rest| !rest.is_empty())
    };
    PROVENANCE
        .iter()
        .filter(|word| !says(word))
        .map(|word| Finding::new(path, 1, format!("add a line `//! {word} ...` to the header")))
        .collect()
}

/// The entries of the table of a front door.
fn table(front: &str) -> Vec<&str> {
    let body = front.split_once("POLICIES: &[Policy] =").and_then(|(_, rest)| {
        let body = rest.trim_start().strip_prefix("&[")?;
        let (body, _) = body.split_once("];")?;
        Some(body)
    });
    let lines = body.unwrap_or_default().lines();
    lines
        .flat_map(|line| line.split("//").next())
        .flat_map(|s| s.split(','))
        .map(str::trim)
        .collect()
}

/// Where a module defines policies, and the entry of the table that each needs.
fn rows(module: &str, text: &str) -> Vec<(usize, String)> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let (start, _) = line.split_once(": Policy =")?;
            let (before, name) = start.rsplit_once(' ')?;
            let defines = before.ends_with("const") || before.ends_with("static");
            defines.then(|| (index + 1, format!("{module}::{name}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: &str = FRONT_DOORS[0];
    const HEADER: &str = "//! A.\n//!\n//! Source:     a\n//! Behaviour:  b\n//!   more\n\
                          //! Differs: c\n//! Not for: d\n";
    const POLICY: &str = "pub(super) const POLICY: Policy = Policy {};\n";

    fn found(table: &str, name: &str, text: &str) -> Vec<String> {
        let front = format!("pub static POLICIES: &[Policy] = &[{table}];\n");
        let path = format!("{}/{name}.rs", DOOR.trim_end_matches(".rs"));
        let files =
            [File { path: DOOR.to_owned(), text: front }, File { path, text: text.to_owned() }];
        check(&files)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.remedy))
            .collect()
    }

    #[test]
    fn a_policy_is_in_the_table() {
        let file = format!("{HEADER}{POLICY}");
        assert_eq!(found("off::POLICY, a::POLICY", "a", &file), [""; 0]);
        assert_eq!(found("\n    off::POLICY, // Why.\n    b::a::POLICY,\n", "b/a", &file), [""; 0]);
        let expected = [format!("8: add a::POLICY to POLICIES in {DOOR}")];
        for table in ["", "off::POLICY", "aa::POLICY", "\n    // a::POLICY,\n"] {
            assert_eq!(found(table, "a", &file), expected, "{table}");
        }
    }

    #[test]
    fn each_of_several_policies_of_a_file_is_in_the_table() {
        let file = format!("{HEADER}pub(super) const V6_1: Policy = x();\n{POLICY}");
        let expected = [format!("8: add a::V6_1 to POLICIES in {DOOR}")];
        assert_eq!(found("a::POLICY", "a", &file), expected);
    }

    #[test]
    fn a_policy_says_where_it_comes_from() {
        for word in PROVENANCE {
            let expected = [format!("1: add a line `//! {word} ...` to the header")];
            let without = format!("{}{POLICY}", HEADER.replace(word, "Else:"));
            assert_eq!(found("a::POLICY", "a", &without), expected);
        }
        let empty = format!("{}{POLICY}", HEADER.replace("Not for: d", "Not for:"));
        assert_eq!(found("a::POLICY", "a", &empty).len(), 1);
        let below = format!("//! A.\n{POLICY}{HEADER}");
        assert_eq!(found("a::POLICY", "a", &below).len(), 4);
    }

    #[test]
    fn a_file_without_a_policy_is_free() {
        assert_eq!(
            found("", "testing", "//! A.\nfn policy(&self) -> &'static Policy {}\n"),
            [""; 0]
        );
    }
}
