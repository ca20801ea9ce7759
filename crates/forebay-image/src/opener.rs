//! Directories of a tree on disk, opened name by name from one that is open already.
//!
//! ```text
//!   root ─ a ─ b ─ c ─ d ─ e ─ f       the line to the directory that was opened last: the last
//!                      └───┴───┘       few of it stay open, and the others are reached by `..`
//! ```
//!
//! No name is ever followed through a symbolic link, and the target of `..` must be the directory
//! that was opened on the way down. Whatever other processes put into the tree, nothing outside it
//! is reached.

use std::io;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::walk::Item;

/// Directories that stay open at most, besides the root.
const OPEN_MAX: usize = 16;

/// Opens directories of a tree; keeps the line to the one that was opened last, as neighbours
/// follow.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    root: BorrowedFd<'a>,
    /// From the one below the root on. The last one is open.
    line: Vec<Level>,
}

/// A directory on the line.
#[derive(Debug)]
struct Level {
    place: usize,
    /// Device and number.
    identity: (u64, u64),
    open: Option<OwnedFd>,
}

impl<'a> Opener<'a> {
    /// For a tree whose root is open.
    pub(crate) const fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, line: Vec::new() }
    }

    /// The directory at a place of the tree, of which these are the names.
    pub(crate) fn open(&mut self, items: &[Item], place: usize) -> io::Result<BorrowedFd<'_>> {
        let (mut down, mut shared, mut above) = (Vec::new(), 0, place);
        while above != 0 {
            // Places ascend along the line.
            if let Ok(at) = self.line.binary_search_by_key(&above, |level| level.place) {
                shared = at + 1;
                break;
            }
            down.push(above);
            above = items[above].parent;
        }
        if shared > 0 && self.up(shared).is_err() {
            // A directory of the line was moved; its name may lead to another one by now.
            let lost = self.line[..shared].iter().rev().map(|level| level.place);
            down.extend(lost);
            shared = 0;
        }
        self.line.truncate(shared);
        for place in down.into_iter().rev() {
            self.down(items, place)?;
        }
        Ok(self.line.last().map_or(self.root, Level::fd_of_last))
    }

    /// Goes up to a level that is on the line.
    fn up(&mut self, levels: usize) -> io::Result<()> {
        while self.line.len() > levels {
            let below = self.line.len() - 1;
            if below > 0 && self.line[below - 1].open.is_none() {
                let above = directory(self.line[below].fd_of_last(), b"..")?;
                if identity(above.as_fd())? != self.line[below - 1].identity {
                    return Err(io::ErrorKind::NotFound.into());
                }
                self.line[below - 1].open = Some(above);
            }
            self.line.pop();
        }
        Ok(())
    }

    /// Goes down to a directory in the last one of the line.
    fn down(&mut self, items: &[Item], place: usize) -> io::Result<()> {
        let above = self.line.last().map_or(self.root, Level::fd_of_last);
        let open = directory(above, &items[place].name)?;
        let identity = identity(open.as_fd())?;
        self.line.push(Level { place, identity, open: Some(open) });
        if let Some(far) = self.line.len().checked_sub(OPEN_MAX + 1) {
            self.line[far].open = None;
        }
        Ok(())
    }
}

impl Level {
    fn fd_of_last(&self) -> BorrowedFd<'_> {
        self.open.as_ref().expect("the last directory of the line is open").as_fd()
    }
}

fn identity(directory: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}

/// Opens a directory in another one.
pub(crate) fn directory(above: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(above, name, flags, Mode::empty())?)
}

/// A path for calls that know no directories that are open. The kernel follows it to the open
/// directory itself, whatever its name is today.
pub(crate) fn path_of(directory: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use super::*;
    use crate::node::{Kind, NodeId};
    use crate::walk::Tree;

    /// A line of directories named `d`, and a directory `e` in the root.
    fn tree(depth: usize) -> Tree {
        let mut tree = Tree::rooted(NodeId(0));
        let mut add = |parent, name: &[u8]| {
            let (name, node) = (name.into(), NodeId(0));
            tree.items.push(Item { parent, name, node, kind: Kind::Directory, first: None });
        };
        for place in 0..depth {
            add(place, b"d");
        }
        add(0, b"e");
        tree
    }

    fn number(directory: BorrowedFd<'_>) -> u64 {
        rustix::fs::fstat(directory).unwrap().st_ino
    }

    fn place_of(root: &Path, depth: usize) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(root.join("d/".repeat(depth))).unwrap().ino()
    }

    #[test]
    fn any_directory_is_reached_with_few_open_ones() {
        const DEPTH: usize = 100;
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("d/".repeat(DEPTH))).unwrap();
        fs::create_dir(scratch.path().join("e")).unwrap();
        let (root, tree) = (File::open(scratch.path()).unwrap(), tree(DEPTH));
        let mut opener = Opener::new(root.as_fd());
        let places = [0, DEPTH, DEPTH - 1, 50, 51, DEPTH + 1, 3, DEPTH, 2, 1, 0, 60];
        for place in places.into_iter().chain((0..DEPTH).rev()) {
            let open = opener.open(tree.items(), place).unwrap();
            if place <= DEPTH {
                assert_eq!(number(open), place_of(scratch.path(), place), "{place}");
            }
            let open = opener.line.iter().filter(|level| level.open.is_some()).count();
            assert!(open <= OPEN_MAX, "{open}");
        }
    }

    #[test]
    fn a_directory_that_was_moved_away_does_not_lead_out() {
        const DEPTH: usize = 40;
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("in"), scratch.path().join("out"));
        fs::create_dir_all(inside.join("d/".repeat(DEPTH))).unwrap();
        fs::create_dir(&outside).unwrap();
        let (root, tree) = (File::open(&inside).unwrap(), tree(DEPTH));
        let mut opener = Opener::new(root.as_fd());
        opener.open(tree.items(), DEPTH).unwrap();
        let moved = inside.join("d/".repeat(10));
        fs::rename(&moved, outside.join("d")).unwrap();
        // Now `..` of the tenth leads to "out"; the ninth is still where it was.
        let ninth = opener.open(tree.items(), 9).map(number).unwrap();
        assert_eq!(ninth, place_of(&inside, 9));
        assert!(opener.open(tree.items(), 10).is_err());
    }
}
