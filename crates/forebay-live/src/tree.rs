//! The files that the kernel shows: of this machine, or of one that was recorded.
//!
//! A recorded machine is a folder that holds parts of another machine's `/proc` and `/sys`, with
//! their links. Whatever reads a [`Tree`] cannot tell the two apart, so each test of a judgement is
//! a folder of text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where paths such as `/proc/vmstat` begin.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

/// A file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct Unread {
    /// Its path, below the tree's root as the user named it.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Unread {
    /// Whether the file is not there, so that the machine does not have what it would show.
    pub fn is_absent(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }
}

impl Tree {
    /// This machine.
    pub fn machine() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A recorded machine; the folder must hold a `proc`.
    pub fn recorded(root: &Path) -> Result<Self, Unread> {
        let proc = root.join("proc");
        match fs::metadata(&proc) {
            Ok(found) if found.is_dir() => Ok(Self { root: root.to_owned() }),
            Ok(_) => Err(Unread { path: proc, source: io::ErrorKind::NotADirectory.into() }),
            Err(source) => Err(Unread { path: proc, source }),
        }
    }

    /// Whether it is this machine's own tree, whose processes and clocks are real.
    pub fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where `path`, which begins with a slash, really lies.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file of at most [`TEXT_MAX`] bytes; bytes that are not UTF-8 are replaced.
    pub fn text(&self, path: &str) -> Result<String, Unread> {
        let place = self.place(path);
        let unread = |source| Unread { path: place.clone(), source };
        let file = fs::File::open(&place).map_err(unread)?;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, TEXT_MAX + 1), &mut bytes)
            .map_err(unread)?;
        if bytes.len() as u64 > TEXT_MAX {
            return Err(unread(io::ErrorKind::FileTooLarge.into()));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Unread> {
        let place = self.place(path);
        let unread = |source| Unread { path: place.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&place).map_err(unread)? {
            names.push(entry.map_err(unread)?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What a symbolic link holds.
    pub fn link(&self, path: &str) -> Result<PathBuf, Unread> {
        let place = self.place(path);
        fs::read_link(&place).map_err(|source| Unread { path: place, source })
    }
}

/// The longest text that is read whole: a table of mounts of thousands of containers fits.
pub const TEXT_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_tree_is_read_below_its_root() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/sys/vm")).unwrap();
        fs::write(folder.path().join("proc/sys/vm/dirty_ratio"), "20\n").unwrap();
        let tree = Tree::recorded(folder.path()).unwrap();
        assert_eq!(tree.text("/proc/sys/vm/dirty_ratio").unwrap(), "20\n");
        assert_eq!(tree.names("/proc/sys").unwrap(), ["vm"]);
        let error = tree.text("/proc/vmstat").unwrap_err();
        assert!(error.is_absent());
        assert!(error.to_string().contains("proc/vmstat"), "{error}");
    }

    #[test]
    fn a_folder_without_proc_is_no_machine() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tree::recorded(folder.path()).unwrap_err().is_absent());
        fs::write(folder.path().join("proc"), "").unwrap();
        assert!(Tree::recorded(folder.path()).is_err());
    }
}
