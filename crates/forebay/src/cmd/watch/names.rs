//! Whose a thread is, and what a file is called: looked up once and kept for a while.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use forebay_live::number::{DevNumber, FileKey};
use forebay_live::pattern::FileSeen;
use forebay_live::tree::Tree;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// What was found out so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    owners: BTreeMap<u32, u32>,
    paths: BTreeMap<FileKey, String>,
    /// Files that were looked for in vain, and the periods since.
    nameless: BTreeMap<FileKey, u32>,
    periods: u32,
}

impl Names {
    /// Looks up what is new in a period.
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
        // Those that most was brought in for are named first.
        let mut unknown: Vec<&FileSeen> = unknown.collect();
        unknown.sort_by_key(|file| std::cmp::Reverse(file.counts.brought));
        for file in unknown.into_iter().take(SEARCHES_MAX) {
            let mut owners = file.threads.iter().filter_map(|it| self.owners.get(&it.thread));
            match owners.find_map(|pid| path_of(*pid, file.file)) {
                Some(path) => {
                    self.paths.insert(file.file, path);
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

    /// Numbers are used again, files get other names, and room is bounded.
    fn forget(&mut self) {
        self.periods += 1;
        if self.periods.is_multiple_of(KEPT_PERIODS) || self.owners.len() > KEPT_MAX {
            self.owners.clear();
        }
        if self.periods.is_multiple_of(KEPT_PERIODS) || self.paths.len() > KEPT_MAX {
            self.paths.clear();
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

/// The process that a thread belongs to; none if it has ended.
fn owner(tree: &Tree, thread: u32) -> Option<u32> {
    let status = tree.text(&format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The path of a file that a process has open or mapped.
fn path_of(pid: u32, file: FileKey) -> Option<String> {
    ["fd", "map_files"].iter().find_map(|folder| {
        let links = fs::read_dir(format!("/proc/{pid}/{folder}")).ok()?;
        links.flatten().take(LINKS_MAX).find_map(|link| {
            let link = link.path();
            if key_of(&link) != Some(file) {
                return None;
            }
            Some(fs::read_link(link).ok()?.to_string_lossy().into_owned())
        })
    })
}

/// The file behind a link. A server that does not answer is not asked.
fn key_of(link: &Path) -> Option<FileKey> {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, link, flags, StatxFlags::INO).ok()?;
    let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
    Some(FileKey { dev, ino: found.stx_ino })
}

/// Searches for a path in a period: each walks the descriptors of some processes.
const SEARCHES_MAX: usize = 8;

/// Descriptors, and mappings, of a process that are looked at.
const LINKS_MAX: usize = 1024;

/// Threads, and files, that are remembered.
const KEPT_MAX: usize = 2048;

/// What is known holds for so many periods.
const KEPT_PERIODS: u32 = 60;

/// A file without a name is looked for again after so many periods.
const RETRY_PERIODS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_of_this_process_has_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file");
        let file = fs::File::create(&path).unwrap();
        let key = key_of(&path).unwrap();
        let pid = std::process::id();
        assert_eq!(path_of(pid, key).as_deref(), path.to_str());
        drop(file);
        assert_eq!(path_of(pid, key), None);
        assert_eq!(owner(&Tree::machine(), pid), Some(pid));
        assert_eq!(owner(&Tree::machine(), 1 << 30), None);
    }
}
