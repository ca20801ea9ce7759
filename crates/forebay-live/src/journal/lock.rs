//! One process steers at a time: a lock that ends with its holder, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::knob::started;

use super::Folder;
use super::disk::opened;

/// The right to change knobs, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// The process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another one steers.
    #[error("{}", match .0 {
        Some(holder) if holder.is_stopped() => {
            format!("forebay tune runs already, as process {}, which is stopped", holder.pid)
        }
        Some(holder) => format!("forebay tune runs already, as process {}", holder.pid),
        None => "another forebay tune is just starting".to_owned(),
    })]
    Held(Option<Holder>),
    /// The file of the lock cannot be opened or written.
    #[error("cannot lock: {0}")]
    Io(#[from] io::Error),
}

impl Lock {
    /// Takes the lock, or says which process has it.
    pub fn take(folder: &Folder) -> Result<Self, LockError> {
        let how = &mut OpenOptions::new();
        // Every user may see which process tunes.
        how.read(true).write(true).create(true).mode(0o644);
        let file = opened(how, &folder.path().join(LOCK_FILE))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(Holder::of(folder))),
            Err(errno) => return Err(LockError::Io(errno.into())),
        }
        let pid = std::process::id();
        file.set_len(0)?;
        // On a full disk it stays empty: the lock is held all the same, by an unknown process.
        let text = format!("{pid} {}\n", started(pid).unwrap_or(0));
        let _ = (&file).write_all(text.as_bytes());
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is what unlocks; the text is for readers without the lock.
        let _ = self.file.set_len(0);
    }
}

impl Holder {
    /// The process that has the lock, as far as the file says and the process still runs.
    pub fn of(folder: &Folder) -> Option<Self> {
        let file = opened(OpenOptions::new().read(true), &folder.path().join(LOCK_FILE)).ok()?;
        let mut text = String::new();
        file.take(64).read_to_string(&mut text).ok()?;
        let (pid, began) = text.trim().split_once(' ')?;
        let holder = Self { pid: pid.parse().ok()?, started: began.parse().ok()? };
        (started(holder.pid) == Some(holder.started)).then_some(holder)
    }

    /// Whether it is stopped, as by SIGSTOP or a debugger: until it goes on it looks at nothing and
    /// puts nothing back.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The name may hold anything, brackets and blanks among it.
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|state| state.starts_with(['T', 't']))
    }

    /// Asks it to end, which puts everything back, and waits until it has ended, at most this
    /// long. False if it still runs.
    pub fn stop(&self, patience: Duration) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(true);
        };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(true),
            other => other?,
        };
        // Checked after the process is held: its number may belong to another process by now.
        if started(self.pid) != Some(self.started) {
            return Ok(true);
        }
        pidfd_send_signal(&process, Signal::TERM)?;
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        Ok(poll(&mut ends, Some(&patience))? > 0)
    }
}

/// The file of the lock, in the folder of a journal.
pub const LOCK_FILE: &str = "lock";
