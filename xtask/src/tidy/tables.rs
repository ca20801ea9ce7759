//! What a line of a page holds: cells, names in backticks, and names that mean several files.

/// What stands between backticks.
pub(super) fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The cells of a table's row; none if the line is no row, or rules off the headings.
pub(super) fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    (!cells.iter().all(|cell| cell.starts_with("---"))).then_some(cells)
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`; braces stand once at most.
pub(super) fn expanded(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(before, rest)| {
        let (list, behind) = rest.split_once('}')?;
        Some((before, list, behind))
    });
    match parts {
        Some((before, list, behind)) => {
            list.split(',').map(|one| format!("{before}{}{behind}", one.trim())).collect()
        }
        None => vec![name.to_owned()],
    }
}

/// Whether a path matches `pattern`; `*` matches any part of one name.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (mut names, mut parts) = (path.split('/'), pattern.split('/'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if is_like(part, name) => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

fn is_like(part: &str, name: &str) -> bool {
    match part.split_once('*') {
        Some((before, behind)) => {
            name.len() >= before.len() + behind.len()
                && name.starts_with(before)
                && name.ends_with(behind)
        }
        None => part == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found() {
        assert_eq!(spans("a `b.rs` c `d`").collect::<Vec<_>>(), ["b.rs", "d"]);
    }

    #[test]
    fn a_row_has_cells_and_a_rule_has_none() {
        assert_eq!(cells("| a | b |"), Some(vec!["a", "b"]));
        assert_eq!(cells("| --- | ---: |"), None);
        assert_eq!(cells("a | b"), None);
    }

    #[test]
    fn braces_and_stars_mean_several_names() {
        assert_eq!(expanded("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
        assert_eq!(expanded("a.rs"), ["a.rs"]);
        assert!(matches("a/*.rs", "a/b.rs") && matches("*/b.rs", "a/b.rs"));
        assert!(!matches("a/*.rs", "a/b/c.rs") && !matches("a/*.rs", "a/b.md"));
        assert!(!matches("a.rs", "a.rs/b") && !matches("a/b.rs", "a"));
    }
}
