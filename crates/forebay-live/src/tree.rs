//! The files that the kernel shows: of this machine, or of one that was recorded.
//!
//! A recorded machine is a folder that holds parts of another machine's `/proc` and `/sys`, with
//! their links. Whatever reads a [`Tree`] cannot tell the two apart, so each test of a judgement is
//! a folder of text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::input;
pub use crate::input::TEXT_MAX;

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
        let bytes = input::bytes(&place, TEXT_MAX).map_err(|error| unread(error.into()))?;
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

    /// A regular file, opened to read.
    pub fn opened(&self, path: &str) -> Result<fs::File, Unread> {
        let place = self.place(path);
        input::open(&place).map_err(|error| Unread { path: place, source: error.into() })
    }

    /// What a symbolic link holds.
    pub fn link(&self, path: &str) -> Result<PathBuf, Unread> {
        let place = self.place(path);
        fs::read_link(&place).map_err(|source| Unread { path: place, source })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::CWD;

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
    fn a_pipe_of_a_recorded_tree_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let pipe = folder.path().join("proc/vmstat");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let tree = Tree::recorded(folder.path()).unwrap();
        let said = tree.text("/proc/vmstat").unwrap_err().to_string();
        assert!(said.ends_with("vmstat: it is a pipe and no regular file"), "{said}");
        assert!(tree.opened("/proc/vmstat").is_err());
    }

    #[test]
    fn a_folder_without_proc_is_no_machine() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tree::recorded(folder.path()).unwrap_err().is_absent());
        fs::write(folder.path().join("proc"), "").unwrap();
        assert!(Tree::recorded(folder.path()).is_err());
    }
}
