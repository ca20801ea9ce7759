//! Hooks: where Linux calls our files, as a table.
//!
//! A patch is a file of `kernel/patches`. It names files of our own, which are copied from
//! `kernel/linux`, and hooks: a file of Linux, the function (or struct, or table) that contains an
//! anchor line, and the one to four lines that go after it, before it, or replace it. An anchor
//! that does not occur exactly once is an error that names file and function.
//!
//! ```text
//!   [[hook]]
//!   file = "mm/filemap.c"
//!   function = "do_async_mmap_readahead"
//!   before = "/* If we don't want any read-ahead, don't bother */"
//!   lines = ["if (ra_size_hit(vmf, &fpin))", "\treturn fpin;"]   indented like the anchor
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::root;

/// A change of the kernel.
#[derive(Debug)]
pub(super) struct Patch {
    /// The name of its file, without ending.
    pub(super) name: String,
    /// The first line of the commit.
    pub(super) subject: String,
    /// The rest of the commit's message.
    pub(super) body: String,
    /// Whether it is part of the series; the lab's own devices and prices are not.
    pub(super) lab_only: bool,
    /// Files of ours, by their path in the tree.
    pub(super) files: Vec<String>,
    pub(super) hooks: Vec<Hook>,
}

/// Lines for a place of Linux.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) file: String,
    /// Function, struct or table; empty for the whole file.
    function: String,
    place: Place,
    anchor: String,
    lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    After,
    Before,
    Instead,
}

/// Reads `kernel/patches`, in the order of their names.
pub(super) fn read_patches() -> Result<Vec<Patch>> {
    let folder = root().join("kernel/patches");
    let mut paths = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(|path| read_patch(path)).collect()
}

fn read_patch(path: &Path) -> Result<Patch> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_stem().and_then(|stem| stem.to_str()).context("a patch has a name")?;
    parse(name, &text).with_context(|| path.display().to_string())
}

fn parse(name: &str, text: &str) -> Result<Patch> {
    let table: toml::Table = text.parse().context("no TOML")?;
    for key in table.keys() {
        let known = ["subject", "body", "lab_only", "files", "hook"];
        ensure!(known.contains(&key.as_str()), "unknown key '{key}'");
    }
    let hooks = table.get("hook").and_then(toml::Value::as_array);
    Ok(Patch {
        name: name.to_owned(),
        subject: string(&table, "subject")?.to_owned(),
        body: string(&table, "body")?.trim().to_owned(),
        lab_only: table.get("lab_only").and_then(toml::Value::as_bool).unwrap_or(false),
        files: strings(&table, "files")?,
        hooks: hooks
            .into_iter()
            .flatten()
            .map(|hook| parse_hook(hook.as_table().context("a hook is a table")?))
            .collect::<Result<_>>()?,
    })
}

fn parse_hook(table: &toml::Table) -> Result<Hook> {
    for key in table.keys() {
        let known = ["file", "function", "after", "before", "instead", "lines"];
        ensure!(known.contains(&key.as_str()), "unknown key '{key}' of a hook");
    }
    let places = [("after", Place::After), ("before", Place::Before), ("instead", Place::Instead)];
    let mut given = places.into_iter().filter(|(key, _)| table.contains_key(*key));
    let (key, place) = given.next().context("a hook has 'after', 'before' or 'instead'")?;
    ensure!(given.next().is_none(), "a hook has one of 'after', 'before' and 'instead'");
    let hook = Hook {
        file: string(table, "file")?.to_owned(),
        function: string(table, "function")?.to_owned(),
        place,
        anchor: string(table, key)?.to_owned(),
        lines: strings(table, "lines")?,
    };
    let most = if place == Place::Instead { 4 } else { 3 };
    ensure!(
        (1..=most).contains(&hook.lines.len()),
        "a hook of {} has 1 to {most} lines",
        hook.file
    );
    Ok(hook)
}

fn string<'a>(table: &'a toml::Table, key: &str) -> Result<&'a str> {
    let value = table.get(key).with_context(|| format!("'{key}' is missing"))?;
    value.as_str().with_context(|| format!("'{key}' is no string"))
}

fn strings(table: &toml::Table, key: &str) -> Result<Vec<String>> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let values = value.as_array().with_context(|| format!("'{key}' is no list"))?;
    let text = |value: &toml::Value| value.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = values.iter().map(text).collect();
    texts.with_context(|| format!("'{key}' holds something else than strings"))
}

/// The files of Linux that patches change, as they become. `read` gives the original.
pub(super) fn apply<'a>(
    patches: impl IntoIterator<Item = &'a Patch>,
    read: impl Fn(&str) -> Result<String>,
) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for patch in patches {
        for hook in &patch.hooks {
            let text = match files.remove(&hook.file) {
                Some(text) => text,
                None => read(&hook.file)?,
            };
            let hooked = hook.insert(&text).with_context(|| format!("patch {}", patch.name))?;
            files.insert(hook.file.clone(), hooked);
        }
    }
    Ok(files)
}

impl Hook {
    fn insert(&self, text: &str) -> Result<String> {
        let lines: Vec<&str> = text.lines().collect();
        let (from, to) = if self.function.is_empty() {
            (0, lines.len())
        } else {
            region(&lines, &self.function).with_context(|| {
                format!("{}: there is no {}; is this another release?", self.file, self.function)
            })?
        };
        let found: Vec<usize> = (from..to).filter(|&at| lines[at].trim() == self.anchor).collect();
        let &[at] = found.as_slice() else {
            anyhow::bail!(
                "{}: {}: the anchor '{}' is there {} times instead of once",
                self.file,
                if self.function.is_empty() { "whole file" } else { &self.function },
                self.anchor,
                found.len(),
            );
        };
        let indent: String = lines[at].chars().take_while(|c| c.is_whitespace()).collect();
        let ours = self.lines.iter().map(|line| match line.as_str() {
            "" => String::new(),
            line if line.starts_with('#') => line.to_owned(),
            line => format!("{indent}{line}"),
        });
        let mut hooked: Vec<String> = lines[..at].iter().map(|line| (*line).to_owned()).collect();
        if self.place == Place::After {
            hooked.push(lines[at].to_owned());
        }
        hooked.extend(ours);
        if self.place == Place::Before {
            hooked.push(lines[at].to_owned());
        }
        hooked.extend(lines[at + 1..].iter().map(|line| (*line).to_owned()));
        Ok(hooked.join("\n") + "\n")
    }
}

/// The lines of a definition: from its name in a line that is not indented to the closing brace
/// in the first column. A declaration, which ends in a semicolon before any brace, is passed over.
fn region(lines: &[&str], name: &str) -> Option<(usize, usize)> {
    let begins = |line: &str| {
        line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && names(line, name)
    };
    (0..lines.len()).filter(|&at| begins(lines[at])).find_map(|from| {
        let open = (from..lines.len())
            .find(|&at| lines[at].ends_with(';') || lines[at].trim_end().ends_with('{'))?;
        if lines[open].ends_with(';') {
            return None;
        }
        let to = (open + 1..lines.len()).find(|&at| lines[at].starts_with('}'))?;
        Some((from, to + 1))
    })
}

/// Whether a line has the name as a whole, not as a part of another one.
fn names(line: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + name.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "static int f(int x);\n\nstatic int f(int x,\n\t\tint y)\n{\n\tg();\n\
                        \th();\n}\n\nstruct s {\n\tint a;\n};\n\nint ff(void)\n{\n\tg();\n}\n";

    fn hook(function: &str, place: &str, anchor: &str) -> Hook {
        let text = format!(
            "file = 'a.c'\nfunction = '{function}'\n{place} = '{anchor}'\nlines = ['k();', '']"
        );
        parse_hook(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn lines_go_after_before_or_in_the_place_of_the_anchor() {
        let after = |place| hook("f", place, "g();").insert(TEXT).unwrap();
        assert_eq!(after("after"), TEXT.replacen("\tg();\n", "\tg();\n\tk();\n\n", 1));
        assert_eq!(after("before"), TEXT.replacen("\tg();\n", "\tk();\n\n\tg();\n", 1));
        assert_eq!(after("instead"), TEXT.replacen("\tg();\n", "\tk();\n\n", 1));
        let member = hook("s", "after", "int a;").insert(TEXT).unwrap();
        assert_eq!(member, TEXT.replace("\tint a;\n", "\tint a;\n\tk();\n\n"));
    }

    #[test]
    fn what_is_not_found_is_named_with_its_file_and_function() {
        let error = |function, anchor| {
            hook(function, "after", anchor).insert(TEXT).unwrap_err().to_string()
        };
        assert_eq!(error("q", "g();"), "a.c: there is no q; is this another release?");
        assert_eq!(
            error("f", "k();"),
            "a.c: f: the anchor 'k();' is there 0 times instead of once"
        );
        assert_eq!(
            error("", "g();"),
            "a.c: whole file: the anchor 'g();' is there 2 times instead of once"
        );
    }

    #[test]
    fn a_patch_that_is_no_patch_is_refused() {
        let error = |text: &str| format!("{:#}", parse("x", text).unwrap_err());
        assert!(error("[").starts_with("no TOML"));
        assert_eq!(error("subject = 's'"), "'body' is missing");
        assert_eq!(error("subject = 's'\nbody = 'b'\nnew = 1"), "unknown key 'new'");
        let hook = "subject = 's'\nbody = 'b'\n[[hook]]\nfile = 'f'\nfunction = ''\n";
        assert_eq!(
            error(&format!("{hook}lines = ['x']")),
            "a hook has 'after', 'before' or 'instead'"
        );
        assert_eq!(
            error(&format!("{hook}after = 'x'\nlines = []")),
            "a hook of f has 1 to 3 lines"
        );
    }

    #[test]
    fn every_patch_of_the_lab_can_be_read_and_its_files_are_there() {
        let patches = read_patches().unwrap();
        assert!(!patches.is_empty());
        for file in patches.iter().flat_map(|patch| &patch.files) {
            let path = root().join("kernel/linux").join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.lines().next().unwrap().contains("SPDX"), "{file}");
        }
    }
}
