//! When a job syncs a file.
//!
//! Source:     fio 3.33, `io_u.c` (`get_rw_ddir`), `backend.c` (`do_io`), `filesetup.c`
//!             (`generic_close_file` and its caller), `fio.h` (`should_fsync`); 3.38 by reading
//! Behaviour:  `fsync=N` syncs instead of the next request once a multiple of N writes was made,
//!             unless the job's last operation was a sync. The file is the one that is next in
//!             turn, not the one that was written. `end_fsync` and `fsync_on_close` sync every file
//!             at the end of each loop, and the latter also every file that is closed before.
//! Differs:    Up to 3.37 a read after the sync makes the job sync again; later versions sync only
//!             behind a write. Both are reproduced, the later from 3.35 on already. Where a file is
//!             closed when it is synced at the end, fio opens it, which drops its clean pages.
//! Not for:    `sync_file_range`, `write_barrier`

use std::collections::VecDeque;

use super::Compat;
use super::plan::Plan;

/// A sync of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The file, as an index into [`Job::files`](super::Job::files).
    pub file: u32,
    /// Why it is synced.
    pub kind: SyncKind,
}

/// Why a file is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// `fsync=N`: N writes were made.
    Fsync,
    /// `fdatasync=N`: N writes were made.
    Fdatasync,
    /// `end_fsync` or `fsync_on_close`: a loop has ended. All requests in flight are over then.
    End {
        /// Whether it was the last loop.
        last: bool,
    },
    /// `fsync_on_close`: the file is closed before the end. fio does not log it.
    Close,
}

/// What the job did last, as far as syncing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    Read,
    Write,
    Sync,
}

/// The rule of a job and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Syncs {
    /// The job writes; nothing below matters otherwise.
    writes: bool,
    fsync: u64,
    fdatasync: u64,
    at_end: bool,
    at_close: bool,
    only_behind_writes: bool,
    last: Last,
    closed: VecDeque<u32>,
}

impl Syncs {
    /// The rule of `plan` before the first request.
    pub(super) fn new(plan: &Plan, compat: Compat) -> Self {
        let settings = &plan.settings;
        let files = if settings.fsync_on_close { plan.files.len() } else { 0 };
        Self {
            writes: settings.mode.writes(),
            fsync: settings.fsync,
            fdatasync: settings.fdatasync,
            at_end: settings.end_fsync || settings.fsync_on_close,
            at_close: settings.fsync_on_close,
            only_behind_writes: match compat {
                Compat::V3_34 => false,
                Compat::V3_35 => true,
            },
            last: Last::Nothing,
            closed: VecDeque::with_capacity(files),
        }
    }

    /// The sync that replaces the next request, after `writes` writes.
    pub(super) fn due(&mut self, writes: u64) -> Option<SyncKind> {
        if !self.may_sync() || (self.only_behind_writes && self.last != Last::Write) {
            return None;
        }
        let every = |count: u64| count > 0 && writes > 0 && writes.is_multiple_of(count);
        let kind = if every(self.fsync) {
            SyncKind::Fsync
        } else if every(self.fdatasync) {
            SyncKind::Fdatasync
        } else {
            return None;
        };
        self.last = Last::Sync;
        Some(kind)
    }

    /// A request was made.
    pub(super) fn issued(&mut self, write: bool) {
        self.last = if write { Last::Write } else { Last::Read };
    }

    /// A file is closed before the end.
    pub(super) fn closed(&mut self, file: usize) {
        if self.at_close && self.may_sync() {
            self.closed.push_back(u32::try_from(file).expect("the parser bounds the files"));
        }
    }

    /// The next of the closed files to be synced.
    pub(super) fn next_closed(&mut self) -> Option<Sync> {
        self.closed.pop_front().map(|file| Sync { file, kind: SyncKind::Close })
    }

    /// Whether every file is synced at the end of a loop.
    pub(super) fn ends_loop(&mut self) -> bool {
        let syncs = self.at_end && self.may_sync();
        if syncs {
            self.last = Last::Sync;
        }
        syncs
    }

    /// Another loop begins.
    pub(super) fn begins_loop(&mut self) {
        if !self.only_behind_writes {
            self.last = Last::Nothing;
        }
    }

    fn may_sync(&self) -> bool {
        self.writes && self.last != Last::Sync
    }
}
