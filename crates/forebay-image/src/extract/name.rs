//! Nothing has its final name before it is complete.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use crate::fault::Cause;

/// How often another temporary name is tried.
const TRIES: u32 = 16;

/// The names in a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) directory: BorrowedFd<'a>,
    /// A number that no other thread uses at the same time.
    pub(super) place: usize,
    /// Whether an existing file with the name is replaced.
    pub(super) replace: bool,
}

impl Names<'_> {
    /// Makes a file under a temporary name and renames it. `make` returns whether it made it; its
    /// remains after a failure are removed.
    pub(super) fn put(
        &self,
        name: &[u8],
        mut make: impl FnMut(&[u8]) -> Result<bool, Cause>,
    ) -> Result<bool, Cause> {
        let process = std::process::id();
        for number in 0..TRIES {
            let temporary = format!(".forebay-{process}-{}-{number}", self.place).into_bytes();
            match make(&temporary) {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    let renamed = self.rename(&temporary, name);
                    // Two names of one file stay two when one is renamed to the other.
                    if renamed.is_err() || self.replace {
                        self.remove(&temporary);
                    }
                    return renamed.map(|()| true);
                }
                // Another user's file, which is not changed.
                Err(Cause::System { source, .. })
                    if source.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {}
                Err(cause) => {
                    self.remove(&temporary);
                    return Err(cause);
                }
            }
        }
        Err(Cause::system("make a temporary name", Errno::EXIST))
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Cause> {
        let error = |error| Cause::system("give it its name", error);
        if self.replace {
            return rustix::fs::renameat(self.directory, from, self.directory, to).map_err(error);
        }
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(self.directory, from, self.directory, to, flags) {
            // The file system cannot do that; a hard link also refuses an existing name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let directory = self.directory;
                let linked = rustix::fs::linkat(directory, from, directory, to, AtFlags::empty());
                self.remove(from);
                linked.map_err(error)
            }
            renamed => renamed.map_err(error),
        }
    }

    fn remove(&self, name: &[u8]) {
        // After most renames it does not exist any more, and the error has been reported.
        let _ = rustix::fs::unlinkat(self.directory, name, AtFlags::empty());
    }
}
