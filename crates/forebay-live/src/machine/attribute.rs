//! Single values of small files; what is wrong with them becomes a gap.

use crate::signal::{Malformed, Text, meminfo, vmstat};
use crate::tree::{Tree, Unread};

/// A tree whose files are read one value at a time.
#[derive(Debug)]
pub(super) struct Attributes<'a> {
    pub(super) tree: &'a Tree,
    gaps: Vec<String>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, gaps: Vec::new() }
    }

    /// What could not be read so far.
    pub(super) fn gaps(self) -> Vec<String> {
        self.gaps
    }

    /// Something that could not be read.
    pub(super) fn gap(&mut self, said: String) {
        if self.gaps.len() < GAPS_MAX && !self.gaps.contains(&said) {
            self.gaps.push(said);
        }
    }

    /// The text of a file that every machine has.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        match self.tree.text(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.gap(said(path, &error));
                None
            }
        }
    }

    /// The text of a file that not every machine has.
    pub(super) fn optional(&mut self, path: &str) -> Option<String> {
        match self.tree.text(path) {
            Ok(text) => Some(text),
            Err(error) if error.is_absent() => None,
            Err(error) => {
                self.gap(said(path, &error));
                None
            }
        }
    }

    /// The one word of a file.
    pub(super) fn word(&mut self, path: &str) -> Option<String> {
        Some(self.text(path)?.trim().to_owned())
    }

    /// The same of a file that not every machine has.
    pub(super) fn optional_word(&mut self, path: &str) -> Option<String> {
        Some(self.optional(path)?.trim().to_owned())
    }

    /// The one number of a file.
    pub(super) fn number(&mut self, path: &str, field: &'static str) -> Option<u64> {
        let text = self.text(path)?;
        let number = Text::new(path, &text).only_number(field);
        self.kept(number)
    }

    /// The same of a file that not every machine has.
    pub(super) fn optional_number(&mut self, path: &str, field: &'static str) -> Option<u64> {
        let text = self.optional(path)?;
        let number = Text::new(path, &text).only_number(field);
        self.kept(number)
    }

    /// A value, or a gap.
    pub(super) fn kept<T>(&mut self, found: Result<T, Malformed>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                self.gap(error.to_string());
                None
            }
        }
    }

    /// The names in a folder, or none.
    pub(super) fn names(&mut self, path: &str) -> Vec<String> {
        match self.tree.names(path) {
            Ok(names) => names,
            Err(error) => {
                self.gap(said(path, &error));
                Vec::new()
            }
        }
    }

    /// All of memory in bytes.
    pub(super) fn memory(&mut self) -> u64 {
        let Some(text) = self.text(meminfo::FILE) else { return 0 };
        let found = meminfo::parse(Text::new(meminfo::FILE, &text));
        self.kept(found).map_or(0, |memory| memory.total)
    }

    /// The limit of dirty memory in force, in bytes.
    pub(super) fn dirty_threshold(&mut self, page_size: u64) -> Option<u64> {
        let text = self.text(vmstat::FILE)?;
        let found = vmstat::parse(Text::new(vmstat::FILE, &text));
        Some(self.kept(found)?.dirty_threshold.saturating_mul(page_size))
    }
}

/// Recorded trees lie anywhere; what they miss is named as the machine names it.
fn said(path: &str, error: &Unread) -> String {
    format!("cannot read {path}: {}", error.source)
}

/// A machine whose files are all broken says no more than that.
const GAPS_MAX: usize = 64;
