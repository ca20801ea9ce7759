//! Files that other processes have open: each holds a window of its own.
//!
//! Source:     `ra_pages` of `struct file_ra_state`, `generic_fadvise` of `mm/fadvise.c`.
//! Behaviour:  a description latches its device's window when it is opened, and again at
//!             FADV_NORMAL. A process with the same description can have it latch.
//!             A copy of the description is had before its device's window is borrowed, and closed
//!             by another thread: a server that hangs blocks no other work.
//! Differs:    nothing.
//! Not for:    descriptions whose descriptor was closed after mmap(2): they have no number.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::closing;
use crate::number::{DevNumber, FileKey};
use crate::process;
use crate::tree::Tree;

/// A file that a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenFile {
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub started: u64,
    /// The number of its descriptor.
    pub fd: u32,
    /// The file, by `st_dev` and `st_ino`.
    pub file: FileKey,
}

/// A description that we hold too. Letting go of it may take as long as the file's server likes,
/// which another thread waits for.
#[derive(Debug)]
pub struct Held {
    file: OpenFile,
    /// None where there is no kernel that gives copies.
    copy: Option<OwnedFd>,
}

impl Held {
    /// One that need not be held, as in a model.
    pub const fn by_name(file: OpenFile) -> Self {
        Self { file, copy: None }
    }

    /// Which.
    pub const fn file(&self) -> &OpenFile {
        &self.file
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            closing::close(copy);
        }
    }
}

/// Why a description was not reached.
#[derive(Debug, thiserror::Error)]
pub enum FileGone {
    /// The process has ended, and its files with it.
    #[error("the process has ended")]
    NoProcess,
    /// The descriptor was closed or is another file's.
    #[error("the descriptor is closed or another file's")]
    NoFile,
    /// The kernel does not let us.
    #[error("{step}: {source}")]
    Refused {
        /// The call.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl FileGone {
    /// Whether nothing of the description is left that could be told.
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::NoProcess | Self::NoFile => true,
            Self::Refused { .. } => false,
        }
    }
}

impl fmt::Display for OpenFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "descriptor {} of process {} ({})", self.fd, self.pid, self.file)
    }
}

/// When a process of this machine started, in clock ticks since boot; none if it has ended.
pub fn started(pid: u32) -> Option<u64> {
    process::started(&Tree::machine(), pid)
}

/// Takes hold of the description. Asks no server, which might not answer.
pub(super) fn hold(file: &OpenFile) -> Result<Held, FileGone> {
    let pid = i32::try_from(file.pid).ok().and_then(Pid::from_raw).ok_or(FileGone::NoProcess)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| match errno {
        Errno::SRCH => FileGone::NoProcess,
        errno => refused("pidfd_open")(errno),
    })?;
    // Checked after the process is held: its number may belong to another process by now.
    if started(file.pid) != Some(file.started) {
        return Err(FileGone::NoProcess);
    }
    let fd = i32::try_from(file.fd).map_err(|_| FileGone::NoFile)?;
    let copy =
        pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).map_err(|errno| match errno {
            Errno::SRCH => FileGone::NoProcess,
            Errno::BADF => FileGone::NoFile,
            errno => refused("pidfd_getfd")(errno),
        })?;
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(&copy, c"", how, StatxFlags::INO).map_err(refused("statx"))?;
    let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
    let held = Held { file: *file, copy: Some(copy) };
    if (FileKey { dev, ino: found.stx_ino }) == file.file {
        Ok(held)
    } else {
        Err(FileGone::NoFile)
    }
}

/// Has the description take over its device's window.
pub(super) fn latch(held: &Held) -> Result<(), FileGone> {
    let copy = held.copy.as_ref().ok_or(FileGone::NoFile)?;
    rustix::fs::fadvise(copy, 0, None, Advice::Normal).map_err(refused("fadvise"))
}

fn refused(step: &'static str) -> impl FnOnce(Errno) -> FileGone {
    move |errno| FileGone::Refused { step, source: errno.into() }
}
