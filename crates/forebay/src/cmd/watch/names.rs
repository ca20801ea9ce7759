//! Whose a thread is, and what a file is called: looked up once and kept for a while.

use std::collections::BTreeMap;

use forebay_live::number::FileKey;
use forebay_live::pattern::FileSeen;
use forebay_live::process::{find_file, owner};
use forebay_live::tree::Tree;

/// The names found so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    owners: BTreeMap<u32, u32>,
    paths: BTreeMap<FileKey, String>,
    /// Lengths in bytes, of files that have a path.
    sizes: BTreeMap<FileKey, u64>,
    /// Files that were looked for in vain, and the periods since.
    nameless: BTreeMap<FileKey, u32>,
    periods: u32,
}

impl Names {
    /// Looks up new names of a period.
    pub(super) fn look_up(
        &mut self,
        tree: &Tree,
        files: &[FileSeen],
        writers: impl Iterator<Item = u32>,
    ) {
        self.forget();
        let readers = files.iter().flat_map(|file| file.threads.iter().map(|it| it.thread));
        for thread in readers.chain(writers) {
            if !self.owners.contains_key(&thread)
                && let Some(owner) = owner(tree, thread)
            {
                self.owners.insert(thread, owner);
            }
        }
        let unknown = files.iter().filter(|file| {
            !self.paths.contains_key(&file.file) && !self.nameless.contains_key(&file.file)
        });
        // Those with the most bytes read are named first.
        let mut unknown: Vec<&FileSeen> = unknown.collect();
        unknown.sort_by_key(|file| std::cmp::Reverse(file.counts.brought));
        for file in unknown.into_iter().take(SEARCHES_MAX) {
            let mut owners = file.threads.iter().filter_map(|it| self.owners.get(&it.thread));
            match owners.find_map(|pid| find_file(tree, *pid, file.file)) {
                Some(found) => {
                    self.paths.insert(file.file, found.path);
                    self.sizes.insert(file.file, found.size);
                }
                None => {
                    self.nameless.insert(file.file, 0);
                }
            }
        }
    }

    /// The process of each thread.
    pub(super) fn owners(&self) -> &BTreeMap<u32, u32> {
        &self.owners
    }

    /// The path of each file.
    pub(super) fn paths(&self) -> &BTreeMap<FileKey, String> {
        &self.paths
    }

    /// The length of each file in bytes, as it was when it was found.
    pub(super) fn sizes(&self) -> &BTreeMap<FileKey, u64> {
        &self.sizes
    }

    /// Numbers are used again, files get other names, and room is bounded.
    fn forget(&mut self) {
        self.periods += 1;
        if self.periods.is_multiple_of(KEPT_PERIODS) || self.owners.len() > KEPT_MAX {
            self.owners.clear();
        }
        if self.periods.is_multiple_of(KEPT_PERIODS) || self.paths.len() > KEPT_MAX {
            self.paths.clear();
            self.sizes.clear();
        }
        if self.nameless.len() > KEPT_MAX {
            self.nameless.clear();
        }
        self.nameless.retain(|_, periods| {
            *periods += 1;
            *periods < RETRY_PERIODS
        });
    }
}

/// Searches for a path in a period: each walks the descriptors of some processes.
const SEARCHES_MAX: usize = 8;

/// Threads, and files, that are remembered.
const KEPT_MAX: usize = 2048;

/// A name is valid for this many periods.
const KEPT_PERIODS: u32 = 60;

/// A file without a name is looked up again after this many periods.
const RETRY_PERIODS: u32 = 10;
