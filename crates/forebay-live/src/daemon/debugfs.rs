//! Writeback of single devices: from debugfs, or where it is not mounted from one without a place.
//!
//! Source:     `mm/backing-dev.c` shows `bdi/MAJ:MIN/stats`; fsopen(2) and fsmount(2).
//! Behaviour:  the file system is instantiated, and seen by holders of the descriptor; nothing
//!             is added to the tree of files, and it is gone with the process.
//! Differs:    nothing.
//! Not for:    users without CAP_SYS_ADMIN, and kernels that are locked down.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::number::DevNumber;
use crate::signal::BdiCounts;

/// Whether writeback of single devices can be seen, in the machine's debugfs or in one of our own,
/// which has no place in the tree of files and is gone when this returns.
///
/// # Errors
///
/// There is no debugfs, or it takes more rights.
pub fn sees_writeback() -> io::Result<()> {
    Debugfs::opened()?;
    Ok(())
}

/// A debugfs.
#[derive(Debug)]
pub(super) struct Debugfs {
    folder: OwnedFd,
    /// Files that were read before.
    open: Vec<(DevNumber, OwnedFd)>,
}

impl Debugfs {
    /// Opens the machine's, or one of our own.
    pub(super) fn opened() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(mounted) = openat(CWD, "/sys/kernel/debug", flags, Mode::empty())
            && openat(&mounted, "bdi", flags, Mode::empty()).is_ok()
        {
            return Ok(Self { folder: mounted, open: Vec::new() });
        }
        let context = fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let folder = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self { folder, open: Vec::new() })
    }

    /// What a backing device has done so far; none if there is none of this number.
    pub(super) fn counts(&mut self, number: DevNumber) -> Option<BdiCounts> {
        let mut bytes = [0; TEXT_MAX];
        if let Some(place) = self.open.iter().position(|(known, _)| *known == number) {
            if let Ok(length @ 1..) = pread(&self.open[place].1, &mut bytes[..], 0) {
                return parse(number, std::str::from_utf8(&bytes[..length]).ok()?);
            }
            // It is gone, and another device may have its number by now.
            self.open.swap_remove(place);
        }
        let path = format!("bdi/{number}/stats");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.folder, path, flags, Mode::empty()).ok()?;
        let length = pread(&file, &mut bytes[..], 0).ok()?;
        if self.open.len() < OPEN_MAX {
            self.open.push((number, file));
        }
        parse(number, std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

/// Lines of `NAME: NUMBER kB`, of which those that are needed must be there.
fn parse(number: DevNumber, text: &str) -> Option<BdiCounts> {
    let bytes = |name: &str| {
        let behind =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let line = text.lines().find(behind)?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1_024)
    };
    Some(BdiCounts {
        number,
        reclaimable: bytes("BdiReclaimable")?,
        writeback: bytes("BdiWriteback")?,
        threshold: bytes("BdiDirtyThresh")?,
        dirtied: bytes("BdiDirtied")?,
        written: bytes("BdiWritten")?,
        bandwidth: bytes("BdiWriteBandwidth")?,
    })
}

/// Files that stay open; of further devices each is opened for each look.
const OPEN_MAX: usize = 64;

/// A device's text is half a page long.
const TEXT_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_count_are_found_in_any_order() {
        let text = "BdiWriteback:             4 kB\nBdiReclaimable:          12 kB\n\
                    BdiDirtyThresh:        4328 kB\nDirtyThresh:        4626268 kB\n\
                    BackgroundThresh:   2310308 kB\nBdiDirtied:            1000 kB\n\
                    BdiWritten:             900 kB\nBdiWriteBandwidth:      77 kBps\n\
                    b_dirty:                  0\nstate:                  1\n";
        let counts = parse(DevNumber { major: 7, minor: 0 }, text).unwrap();
        assert_eq!((counts.writeback, counts.reclaimable), (4_096, 12_288));
        assert_eq!((counts.written, counts.bandwidth), (900 * 1_024, 77 * 1_024));
        for end in 0..text.len() {
            // A text that ends anywhere gives counts or none.
            let _ = parse(DevNumber::default(), &text[..end]);
        }
        assert_eq!(parse(DevNumber::default(), ""), None);
    }
}
