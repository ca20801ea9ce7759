//! Where a journal lies: a folder of the file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use super::{Found, JOURNAL_FILE};
use crate::input::{self, AT_ONCE};

/// The bytes of a journal, and what is done with them.
pub trait Disk {
    /// All bytes; none if there is no journal.
    fn load(&self) -> io::Result<Vec<u8>>;

    /// Adds bytes at the end: all of them or, unless we are killed meanwhile, none.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all that was added is durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Has these bytes instead of the present ones: at no moment neither.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Keeps a copy for a human, and says where.
    fn set_aside(&mut self) -> io::Result<String>;

    /// Makes it empty; needs no room.
    fn clear(&mut self) -> io::Result<()>;
}

/// A folder that holds a journal, its lock and a log.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    journal: Option<File>,
}

/// Why a folder cannot hold a journal.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be made or looked at.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others could write what root will do.
    #[error("{} belongs to another user, or others can write to it", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
    },
}

impl Folder {
    /// The folder, made if it is not there.
    pub fn made(path: &Path) -> Result<Self, FolderError> {
        let io = |source| FolderError::Io { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(io)?;
        Self::at(path)
    }

    /// The folder, if it is there and no other user can write to it.
    pub fn at(path: &Path) -> Result<Self, FolderError> {
        let found = fs::metadata(path)
            .map_err(|source| FolderError::Io { path: path.to_owned(), source })?;
        if !found.is_dir() {
            let (path, source) = (path.to_owned(), io::ErrorKind::NotADirectory.into());
            return Err(FolderError::Io { path, source });
        }
        let us = rustix::process::geteuid().as_raw();
        // Root may write anything; so may we, and no other user.
        let owned = found.uid() == us || found.uid() == 0;
        if !owned || found.mode() & 0o022 != 0 {
            return Err(FolderError::Unsafe { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), journal: None })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies of damaged journals that were kept since the machine was started. What they knew of
    /// may be changed still, which cannot be told.
    pub fn damaged(&self, boot: &str) -> Vec<PathBuf> {
        let copies = (1..=DAMAGED_MAX).map(|number| self.copy(number));
        copies.filter(|copy| is_since(copy, boot)).collect()
    }

    /// Removes them, for an administrator who knows better.
    pub fn forget_damaged(&self, boot: &str) -> io::Result<()> {
        self.damaged(boot).iter().try_for_each(fs::remove_file)
    }

    fn copy(&self, number: u32) -> PathBuf {
        self.path.join(format!("{JOURNAL_FILE}.damaged-{number}"))
    }

    /// The journal, opened once.
    fn journal(&mut self) -> io::Result<&mut File> {
        if self.journal.is_none() {
            let file =
                opened(OpenOptions::new().append(true).create(true).mode(PRIVATE), &self.file())?;
            self.journal = Some(file);
        }
        Ok(self.journal.as_mut().expect("it was opened just before"))
    }

    fn file(&self) -> PathBuf {
        self.path.join(JOURNAL_FILE)
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl Disk for Folder {
    fn load(&self) -> io::Result<Vec<u8>> {
        let file = match opened(OpenOptions::new().read(true), &self.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(LOAD_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LOAD_MAX {
            let what = format!("it has more than {} MiB", LOAD_MAX >> 20);
            Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
        } else {
            Ok(bytes)
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_new = self.journal.is_none();
        let journal = self.journal()?;
        let before = journal.metadata()?.len();
        let done = journal.write_all(bytes);
        if done.is_err() {
            // The next record must not be glued to half of this one.
            journal.set_len(before)?;
        } else if is_new {
            self.sync_names()?;
        }
        done
    }

    fn sync(&mut self) -> io::Result<()> {
        self.journal()?.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let draft = self.path.join(DRAFT);
        let written = (|| {
            let how = &mut OpenOptions::new();
            how.write(true).create(true).truncate(true).mode(PRIVATE);
            let mut file = opened(how, &draft)?;
            file.write_all(bytes)?;
            file.sync_all()
        })();
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        fs::rename(&draft, self.file())?;
        self.journal = None;
        self.sync_names()
    }

    fn set_aside(&mut self) -> io::Result<String> {
        for number in 1..=DAMAGED_MAX {
            let place = self.copy(number);
            // A second name needs no room for the bytes.
            match fs::hard_link(self.file(), &place) {
                Ok(()) => return Ok(place.display().to_string()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many damaged journals are kept"))
    }

    fn clear(&mut self) -> io::Result<()> {
        // Not the bytes of a copy that shares them.
        match fs::remove_file(self.file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.journal = None;
        self.sync_names()
    }
}

/// Whether a journal is there and was written since the machine was started: its head tells, and
/// where that is damaged, its time.
fn is_since(path: &Path, boot: &str) -> bool {
    let read = || -> io::Result<bool> {
        let file = opened(OpenOptions::new().read(true), path)?;
        let time = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.take(LOAD_MAX).read_to_end(&mut bytes)?;
        let since = || !time.elapsed().is_ok_and(|age| age > up());
        Ok(Found::of(&bytes).head.map_or_else(since, |head| head.boot == boot))
    };
    read().unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
}

/// How long the machine has been up.
fn up() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::from_secs(now.tv_sec.unsigned_abs())
}

/// Opens a regular file without following a link or waiting for a pipe.
pub(super) fn opened(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC | AT_ONCE).bits();
    let file = how.custom_flags(flags.cast_signed()).open(path)?;
    input::regular(&file.metadata()?)?;
    Ok(file)
}

/// The mode of new files that name other users' files, processes and commands.
pub(super) const PRIVATE: u32 = 0o600;

/// What is read of a journal at most: several times of what is ever written.
const LOAD_MAX: u64 = 8 << 20;

/// Copies of damaged journals that are kept.
const DAMAGED_MAX: u32 = 99;

const DRAFT: &str = "journal.draft";
