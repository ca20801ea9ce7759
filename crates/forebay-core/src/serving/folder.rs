//! Tasks that read the files of a folder in order, and the file that is read next.
//!
//! Programs that copy, pack or search a tree read small files in the order of their names; several
//! that share the work take every nth file each. Each file is one READ, so the kernel's readahead
//! never begins. When a task reads a file, the one that it will read next can be pushed; the task
//! then asks for every other file, and each of those decides the next push.
//!
//! ```text
//!   asked for   a   b   c   d   .   f   .   h     in order: b behind a, f where e was pushed
//!   pushed                      e       g       i
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Places of files in folders, and the tasks that go through them. Files are numbers of the
/// caller's.
#[derive(Debug, Default)]
pub struct FolderWalks {
    folders: BTreeMap<u64, Folder>,
    /// The folder and the place in it of each file.
    places: BTreeMap<u64, (u64, usize)>,
    walkers: Vec<Walker>,
    /// The number of the next folder.
    next: u64,
    /// Counts uses of folders.
    uses: u64,
}

/// The files of a folder by name.
#[derive(Debug)]
struct Folder {
    files: Vec<u64>,
    used: u64,
}

/// A task that reads files.
#[derive(Debug)]
struct Walker {
    task: u32,
    folder: u64,
    /// The file that it was given last: asked for, or pushed behind that.
    last: usize,
    /// From one file that it reads to the next.
    step: usize,
    /// Files that it asked for in order.
    in_order: u32,
}

impl FolderWalks {
    /// No folder, no task.
    pub fn new() -> Self {
        Self::default()
    }

    /// A folder was listed: its files, in the order of their names. The folder that was used
    /// longest ago makes room; of a very long one only the first files count.
    pub fn list(&mut self, files: &[u64]) {
        let files = &files[..files.len().min(FILES_MAX)];
        if files.len() < IN_ORDER as usize
            || files.iter().all(|file| self.places.contains_key(file))
        {
            return;
        }
        while self.places.len() + files.len() > FILES_MAX {
            let oldest = self.folders.iter().min_by_key(|(_, folder)| folder.used);
            let Some(number) = oldest.map(|(number, _)| *number) else { break };
            self.forget(number);
        }
        let number = self.next;
        self.next += 1;
        self.uses += 1;
        for (index, file) in files.iter().enumerate() {
            self.places.insert(*file, (number, index));
        }
        self.folders.insert(number, Folder { files: files.to_vec(), used: self.uses });
    }

    /// A task asks for the beginning of a file. Returns the file that it will ask for next, if it
    /// goes through a folder.
    pub fn begin(&mut self, task: u32, file: u64) -> Option<u64> {
        let (number, index) = *self.places.get(&file)?;
        self.uses += 1;
        let folder = self.folders.get_mut(&number)?;
        folder.used = self.uses;
        let found = self.walkers.iter().position(|walker| walker.task == task);
        let new = Walker { task, folder: number, last: index, step: 0, in_order: 0 };
        let mut walker = found.map_or(new, |place| self.walkers.remove(place));
        walker.advance(number, index);
        let ahead = walker.last + walker.step;
        let next = folder.files.get(ahead).copied().filter(|_| walker.in_order >= IN_ORDER);
        if next.is_some() {
            walker.last = ahead;
        }
        if self.walkers.len() == WALKERS_MAX {
            self.walkers.remove(0);
        }
        self.walkers.push(walker);
        next
    }

    fn forget(&mut self, number: u64) {
        let Some(folder) = self.folders.remove(&number) else { return };
        for file in folder.files {
            // It may have been listed again with another folder.
            if self.places.get(&file).is_some_and(|(folder, _)| *folder == number) {
                self.places.remove(&file);
            }
        }
    }
}

impl Walker {
    /// It asks for a file: where it would be if it goes on as it went, or elsewhere.
    fn advance(&mut self, folder: u64, index: usize) {
        let goes_on = if self.folder == folder {
            // It may have asked for the one that is being pushed.
            let step = if index == self.last { self.step } else { index.saturating_sub(self.last) };
            let goes_on = step == self.step || self.in_order == 0;
            self.step = step;
            goes_on && (1..=STEP_MAX).contains(&step)
        } else {
            // Into the next folder it goes as it went through this one.
            self.in_order >= IN_ORDER && index < self.step
        };
        self.in_order = if goes_on { self.in_order.saturating_add(1) } else { 0 };
        (self.folder, self.last) = (folder, index);
    }
}

/// Files whose places are kept.
const FILES_MAX: usize = 8192;

/// Tasks that are told apart.
const WALKERS_MAX: usize = 8;

/// Files in order that are no accident.
const IN_ORDER: u32 = 5;

/// Files from one that a task reads to the next: so many may share the work.
const STEP_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(folders: &[(u64, u64)]) -> FolderWalks {
        let mut walks = FolderWalks::new();
        for (first, count) in folders {
            walks.list(&(*first..first + count).collect::<Vec<u64>>());
        }
        walks
    }

    fn next(walks: &mut FolderWalks, task: u32, files: &[u64]) -> Vec<Option<u64>> {
        files.iter().map(|file| walks.begin(task, *file)).collect()
    }

    #[test]
    fn a_walk_through_a_folder_gets_the_next_file_and_asks_for_every_other_one() {
        let mut walks = listed(&[(10, 10)]);
        assert_eq!(next(&mut walks, 1, &[10, 11, 12, 13, 14]), [None; 5]);
        assert_eq!(next(&mut walks, 1, &[15, 17, 19]), [Some(16), Some(18), None]);
    }

    #[test]
    fn no_walk_gets_nothing() {
        let rows: [&[u64]; 3] = [
            &[10, 30, 12, 40, 11, 25, 49, 20, 21, 22, 23, 24],
            &[29, 28, 27, 26, 25, 24, 23, 22, 21, 20],
            &[50, 51, 52, 53, 54, 55, 56, 57],
        ];
        let mut walks = listed(&[(10, 40)]);
        for (task, files) in (1..).zip(rows) {
            assert!(next(&mut walks, task, files).iter().all(Option::is_none), "{files:?}");
        }
    }

    #[test]
    fn a_walk_goes_on_in_the_next_folder_and_tasks_do_not_disturb_each_other() {
        let mut walks = listed(&[(10, 7), (50, 7)]);
        assert_eq!(next(&mut walks, 1, &[10, 11, 12, 13, 14, 15])[5], Some(16));
        assert_eq!(next(&mut walks, 2, &[50, 53]), [None, None]);
        assert_eq!(next(&mut walks, 1, &[50, 52]), [Some(51), Some(53)]);
    }

    #[test]
    fn tasks_that_share_a_folder_get_each_its_own_next_file() {
        let mut walks = listed(&[(10, 60)]);
        assert_eq!(next(&mut walks, 1, &[10, 12, 14, 16, 18, 20])[5], Some(22));
        assert_eq!(next(&mut walks, 2, &[11, 13, 15, 17, 19, 21])[5], Some(23));
        assert_eq!(next(&mut walks, 1, &[24, 28]), [Some(26), Some(30)]);
        let far = next(&mut walks, 3, &[10, 19, 28, 37, 46, 55, 64]);
        assert!(far.iter().all(Option::is_none), "so many do not share");
    }

    #[test]
    fn files_without_a_request_do_not_end_a_walk() {
        // 17 and 18 are no files, 22 is empty; the push of 16 was late.
        let mut walks = FolderWalks::new();
        walks.list(&[10, 11, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 24]);
        assert_eq!(next(&mut walks, 1, &[10, 11, 12, 13, 14, 15])[5], Some(16));
        assert_eq!(next(&mut walks, 1, &[16, 20]), [Some(19), Some(21)]);
        assert_eq!(next(&mut walks, 1, &[23, 24]), [None, None]);
    }

    #[test]
    fn the_folder_that_was_used_longest_ago_makes_room_and_there_is_a_limit() {
        let half = FILES_MAX as u64 / 2;
        let mut walks = listed(&[(0, half), (10_000, half)]);
        assert_eq!(walks.begin(1, 0), None);
        walks.list(&(20_000..20_000 + half).collect::<Vec<u64>>());
        assert_eq!(walks.places.len(), FILES_MAX);
        assert!(walks.places.contains_key(&0) && !walks.places.contains_key(&10_000));
        walks.list(&(30_000..50_000).collect::<Vec<u64>>());
        assert_eq!((walks.places.len(), walks.folders.len()), (FILES_MAX, 1));
        for task in 0..100 {
            walks.begin(task, 30_000);
        }
        assert_eq!(walks.walkers.len(), WALKERS_MAX);
    }
}
