//! One at a time on the whole machine: a turn to borrow a device's window, or to judge it.
//!
//! Source:     flock(2).
//! Behaviour:  a window that is borrowed for a moment is visible to all, and a process that reads
//!             the knob in that moment takes it for a choice. So a process that borrows, records or
//!             judges a window does it in a turn: an exclusive lock of one file, the same for all
//!             folders of journals. It ends with its process, however that ends. What is borrowed
//!             stands in the file, so that the next one, of whatever journal, gives it back before
//!             it looks.
//! Differs:    nothing.
//! Not for:    knobs that are never borrowed; containers that have a `/run` of their own and the
//!             host's sysfs, which share the knobs and not the lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::journal::{Entry, Folder, FolderError, Record};

/// A turn; it ends when it is dropped.
#[derive(Debug)]
pub struct Turn {
    /// None where no other process can be.
    file: Option<File>,
}

/// How long another process's turn is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// A hundred milliseconds: a turn takes less than one.
    Short,
    /// Not at all.
    None,
}

/// Why there is no turn.
#[derive(Debug, thiserror::Error)]
pub enum NoTurn {
    /// Another process has it and does not release it.
    #[error("another forebay has borrowed a window and does not give it back ({})", .0.display())]
    Held(PathBuf),
    /// The folder of the lock.
    #[error("no folder for the lock of this machine: {0}")]
    Folder(#[from] FolderError),
    /// The file of the lock.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another user could hold it for ever.
    #[error("{} belongs to another user, or others can open it", .0.display())]
    Unsafe(PathBuf),
}

impl Turn {
    /// Where no other process can be.
    pub const fn alone() -> Self {
        Self { file: None }
    }

    /// Takes the turn by the file in a folder; both are made if they are not there.
    pub(super) fn take(folder: &Path, patience: Patience) -> Result<Self, NoTurn> {
        let folder = Folder::made(folder)?;
        let path = folder.path().join(FILE);
        let io = |source| NoTurn::Io { path: path.clone(), source };
        let tries = match patience {
            Patience::Short => TRIES,
            Patience::None => 1,
        };
        for turn in 0..tries {
            if turn > 0 {
                thread::sleep(BETWEEN);
            }
            let file = opened(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // A lock on a removed file excludes no process.
                Ok(()) if file.metadata().map_err(io)?.nlink() > 0 => {
                    return Ok(Self { file: Some(file) });
                }
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(errno) => return Err(io(errno.into())),
            }
        }
        Err(NoTurn::Held(path))
    }

    /// Puts on record what is about to be borrowed.
    pub(super) fn note(&self, intent: &Entry) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(Record::Intent(intent.clone()).line().as_bytes(), 0)
    }

    /// It was given back.
    pub(super) fn clear(&self) {
        if let Some(file) = &self.file {
            // A record that stays is compared with the knob, and found to be over.
            let _ = file.set_len(0);
        }
    }

    /// What one before us has borrowed and not given back.
    pub(super) fn left(&self) -> Option<Entry> {
        let mut bytes = [0; RECORD_MAX];
        let length = self.file.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let line = std::str::from_utf8(&bytes[..length]).ok()?.lines().next()?;
        match Record::parse(line)? {
            Record::Intent(entry) => Some(entry),
            Record::Head(_)
            | Record::Done(_)
            | Record::Closed(_)
            | Record::Released(..)
            | Record::Forgotten
            | Record::File(_)
            | Record::FileClosed(_) => None,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing is not enough while a child that is just being started has a copy.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// A file that no other user can open, and so no other user can lock.
fn opened(path: &Path) -> Result<File, NoTurn> {
    let io = |source| NoTurn::Io { path: path.to_owned(), source };
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o600);
    how.custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed());
    let file = how.open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.is_file() && found.mode() & 0o077 == 0 {
        Ok(file)
    } else {
        Err(NoTurn::Unsafe(path.to_owned()))
    }
}

/// The file, in the folder that journals have by default.
const FILE: &str = "machine.lock";

/// Tries, and what lies between two: a hundred milliseconds, of which a turn takes less than one.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(2);

/// A record is some hundred bytes long.
const RECORD_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn one_has_the_turn_until_it_ends() {
        let folder = folder();
        let first = Turn::take(folder.path(), Patience::Short).unwrap();
        for patience in [Patience::None, Patience::Short] {
            let refused = Turn::take(folder.path(), patience).unwrap_err();
            assert!(matches!(refused, NoTurn::Held(_)), "{refused}");
        }
        drop(first);
        Turn::take(folder.path(), Patience::None).unwrap();
    }

    #[test]
    fn a_lock_that_others_could_hold_is_none() {
        let folder = folder();
        let file = folder.path().join(FILE);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Turn::take(folder.path(), Patience::None).unwrap_err();
        assert!(matches!(refused, NoTurn::Unsafe(_)), "{refused}");
        fs::remove_file(&file).unwrap();
        symlink("/dev/null", &file).unwrap();
        let refused = Turn::take(folder.path(), Patience::None).unwrap_err();
        assert!(matches!(refused, NoTurn::Io { .. }), "{refused}");
        fs::remove_file(&file).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Turn::take(folder.path(), Patience::None).unwrap_err();
        assert!(matches!(refused, NoTurn::Folder(_)), "{refused}");
    }

    #[test]
    fn a_file_that_is_no_record_says_nothing() {
        let folder = folder();
        for bytes in [b"".as_slice(), b"garbage\n", b"\xff\xff", &[b'a'; 9_000]] {
            let file = folder.path().join(FILE);
            let turn = Turn::take(folder.path(), Patience::None).unwrap();
            fs::write(&file, bytes).unwrap();
            assert_eq!(turn.left(), None);
        }
    }
}
