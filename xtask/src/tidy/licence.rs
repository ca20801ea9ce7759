//! Rules for the folder under another licence: `kernel/` is GPL-2.0-only, and nothing else is.

use super::{File, Finding};

/// Checks the first lines of all files.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Finding> {
    let names = file.text.lines().next().is_some_and(|line| line.contains(TAG));
    let inside = file.path.starts_with(FOLDER) && file.path != TEXT;
    let remedy = match (inside, names) {
        (true, false) => format!("begin the file with a line that has {TAG}"),
        (false, true) => format!("move what is GPL-2.0-only to {FOLDER}"),
        (true, true) | (false, false) => return None,
    };
    Some(Finding::new(&file.path, 1, remedy))
}

const FOLDER: &str = "kernel/";

/// The licence itself.
const TEXT: &str = "kernel/COPYING";

const TAG: &str = "SPDX-License-Identifier: GPL-2.0-only";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_gpl_and_nothing_else_is() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let gpl = format!("// {TAG}\n");
        let files = [
            file("kernel/COPYING", "GNU"),
            file("kernel/a.c", &gpl),
            file("kernel/b.c", "int b;\n"),
            file("crates/a.rs", "//! A.\n"),
            file("crates/b.rs", &gpl),
        ];
        let found: Vec<String> = check(&files).into_iter().map(|one| one.path).collect();
        assert_eq!(found, ["kernel/b.c", "crates/b.rs"]);
    }
}
