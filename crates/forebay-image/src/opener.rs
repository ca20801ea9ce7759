//! Directories of a tree on disk, opened name by name from one that is open already.
//!
//! No name is ever followed through a symbolic link, so whatever somebody puts into the tree
//! meanwhile, nothing outside it is reached.

use std::io;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::walk::Tree;

/// Opens directories of a tree; keeps the one that was opened last, as neighbours follow.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    root: BorrowedFd<'a>,
    tree: &'a Tree,
    last: Option<(usize, OwnedFd)>,
}

impl<'a> Opener<'a> {
    /// For a tree whose root is open.
    pub(crate) const fn new(root: BorrowedFd<'a>, tree: &'a Tree) -> Self {
        Self { root, tree, last: None }
    }

    /// The directory at this place of the tree.
    pub(crate) fn open(&mut self, place: usize) -> io::Result<BorrowedFd<'_>> {
        if place == 0 {
            return Ok(self.root);
        }
        let known = self.last.as_ref().is_some_and(|(known, _)| *known == place);
        if !known {
            let mut open: Option<OwnedFd> = None;
            for part in self.tree.line(place) {
                let above = open.as_ref().map_or(self.root, |above| above.as_fd());
                open = Some(directory(above, &self.tree.items()[part].name)?);
            }
            self.last = open.map(|open| (place, open));
        }
        let (_, open) = self.last.as_ref().expect("a place below the root has a name");
        Ok(open.as_fd())
    }
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
