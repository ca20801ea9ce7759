//! Who reads the files of a folder one behind the other, and which file is next.
//!
//! Whoever copies, packs or searches a tree reads small files in the order of their names, and
//! several that share the work take every so many of them. Each is one READ, so the kernel's
//! readahead never begins, and who asks and who answers take turns. When a task reads a file, the
//! next one that it will want can be decoded by another processor and pushed; the task then asks
//! for every other one, and each of those is what the next push is decided by.
//!
//! ```text
//!   asked for   a   b   c   d   .   f   .   h     in order: b behind a, f where e was pushed
//!   pushed                      e       g       i
//! ```

use std::sync::{Arc, Mutex};

use forebay_image::{Entry, Kind, NodeId};

use super::clock::{Clock, lock};

/// Places of files in folders, and the tasks that go through them.
#[derive(Debug)]
pub(super) struct Walks {
    places: Clock<NodeId, Place>,
    walkers: Mutex<Vec<Walker>>,
}

/// Where a file was listed.
#[derive(Clone, Debug)]
struct Place {
    folder: Folder,
    index: usize,
}

/// The files of a folder by name.
type Folder = Arc<[NodeId]>;

/// A task that reads files.
#[derive(Debug)]
struct Walker {
    task: u32,
    folder: Folder,
    /// The file that it has had last: asked for, or pushed behind that.
    had: usize,
    /// From one file that it wants to the next.
    step: usize,
    /// Files that it asked for in order.
    in_order: u32,
}

impl Walks {
    pub(super) fn new() -> Self {
        Self { places: Clock::new(FILES_MAX, 1), walkers: Mutex::default() }
    }

    /// A folder is listed: its files will be found again, the last ones that were listed for sure.
    pub(super) fn list(&self, entries: &[Entry]) {
        let files = || entries.iter().filter(|entry| entry.kind == Kind::File);
        if files().take(ENOUGH as usize).count() < ENOUGH as usize
            || files().all(|file| self.places.has(&file.node))
        {
            return;
        }
        let folder: Folder = files().map(|file| file.node).collect();
        for (index, file) in folder.iter().enumerate() {
            self.places.insert(*file, Place { folder: Arc::clone(&folder), index }, 1);
        }
    }

    /// A task asks for the beginning of a file. Says which file it will ask for next, if it goes
    /// through a folder.
    pub(super) fn begin(&self, task: u32, file: NodeId) -> Option<NodeId> {
        let Place { folder, index } = self.places.get(&file)?;
        let mut walkers = lock(&self.walkers);
        let found = walkers.iter().position(|walker| walker.task == task);
        let mut walker = found.map_or_else(
            || Walker { task, folder: Arc::clone(&folder), had: index, step: 0, in_order: 0 },
            |place| walkers.remove(place),
        );
        walker.go(&folder, index);
        let next = walker.had + walker.step;
        let next = if walker.in_order >= ENOUGH { folder.get(next).copied() } else { None };
        if next.is_some() {
            walker.had += walker.step;
        }
        if walkers.len() == WALKERS_MAX {
            walkers.remove(0);
        }
        walkers.push(walker);
        next
    }
}

impl Walker {
    /// It asks for a file: where it would be if it goes on as it went, or somewhere else.
    fn go(&mut self, folder: &Folder, index: usize) {
        let goes_on = if Arc::ptr_eq(&self.folder, folder) {
            // It may have asked for the one that is being pushed.
            let step = if index == self.had { self.step } else { index.saturating_sub(self.had) };
            let goes_on = step == self.step || self.in_order == 0;
            self.step = step;
            goes_on && (1..=STEP_MAX).contains(&step)
        } else {
            // Into the next folder it goes as it went through this one.
            self.in_order >= ENOUGH && index < self.step
        };
        self.in_order = if goes_on { self.in_order.saturating_add(1) } else { 0 };
        (self.folder, self.had) = (Arc::clone(folder), index);
    }
}

/// Files whose places are kept.
const FILES_MAX: u64 = 8192;

/// Tasks that are told apart.
const WALKERS_MAX: usize = 8;

/// Files in order that are no accident.
const ENOUGH: u32 = 5;

/// Files from one that a task wants to the next: so many may share the work.
const STEP_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(first: u64, files: u64) -> Vec<Entry> {
        let entry = |number: u64| Entry {
            name: number.to_string().into_bytes(),
            node: NodeId(number),
            kind: Kind::File,
        };
        (first..first + files).map(entry).collect()
    }

    fn asked(walks: &Walks, task: u32, files: &[u64]) -> Vec<Option<u64>> {
        files.iter().map(|file| walks.begin(task, NodeId(*file)).map(|next| next.0)).collect()
    }

    #[test]
    fn who_goes_through_a_folder_gets_the_next_file_and_asks_for_every_other_one() {
        let walks = Walks::new();
        walks.list(&folder(10, 10));
        assert!(asked(&walks, 1, &[10, 11, 12, 13, 14]).iter().all(Option::is_none));
        assert_eq!(asked(&walks, 1, &[15, 17, 19]), [Some(16), Some(18), None]);
    }

    #[test]
    fn who_reads_here_and_there_or_backwards_gets_none() {
        let walks = Walks::new();
        walks.list(&folder(10, 40));
        let jumps = [10, 30, 12, 40, 11, 25, 49, 20, 21, 22, 23, 24];
        assert!(asked(&walks, 1, &jumps).iter().all(Option::is_none));
        let backwards: Vec<u64> = (10..30).rev().collect();
        assert!(asked(&walks, 2, &backwards).iter().all(Option::is_none));
        let unlisted: Vec<u64> = (50..70).collect();
        assert!(asked(&walks, 3, &unlisted).iter().all(Option::is_none));
    }

    #[test]
    fn a_walk_goes_on_in_the_next_folder_and_tasks_do_not_disturb_each_other() {
        let walks = Walks::new();
        walks.list(&folder(10, 7));
        walks.list(&folder(50, 7));
        assert_eq!(asked(&walks, 1, &[10, 11, 12, 13, 14, 15])[5], Some(16));
        assert_eq!(asked(&walks, 2, &[50, 53]), [None, None]);
        assert_eq!(asked(&walks, 1, &[50, 52]), [Some(51), Some(53)]);
    }

    #[test]
    fn tasks_that_share_a_folder_get_each_its_own_next_file() {
        let walks = Walks::new();
        walks.list(&folder(10, 60));
        assert_eq!(asked(&walks, 1, &[10, 12, 14, 16, 18, 20])[5], Some(22));
        assert_eq!(asked(&walks, 2, &[11, 13, 15, 17, 19, 21])[5], Some(23));
        assert_eq!(asked(&walks, 1, &[24, 28]), [Some(26), Some(30)]);
        let far = asked(&walks, 3, &[10, 19, 28, 37, 46, 55, 64]);
        assert!(far.iter().all(Option::is_none), "so many do not share");
    }

    #[test]
    fn files_without_a_request_and_what_is_no_file_are_no_end_of_a_walk() {
        let walks = Walks::new();
        let mut entries = folder(10, 15);
        entries[7].kind = Kind::Directory;
        entries[8].kind = Kind::Symlink;
        walks.list(&entries);
        assert_eq!(asked(&walks, 1, &[10, 11, 12, 13, 14, 15])[5], Some(16));
        // Its push was late: 16 is asked for all the same; 17 and 18 are no files.
        assert_eq!(asked(&walks, 1, &[16, 20]), [Some(19), Some(21)]);
        // 22 is empty.
        assert_eq!(asked(&walks, 1, &[23, 24]), [None, None]);
    }
}
