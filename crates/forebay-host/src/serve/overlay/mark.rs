//! The mark of a base into which an overlay is being committed.
//!
//! It is an extended attribute, `user.forebay.commit`, with the path of the overlay. It is there
//! from before the first page is written until all are on disk: as long as a commit that is run
//! again would write pages over what the base holds by then.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

use super::super::store::FileStore;
use super::file::stamp;
use super::{FileNode, OverlayError, OverlayInfo};

/// What a base says about commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitMark {
    /// Its file system has no such marks.
    Unsupported,
    /// No commit into it has begun and not ended.
    Absent,
    /// The commit of this overlay has begun and not ended.
    Of(PathBuf),
}

impl CommitMark {
    /// The mark of a file or block device.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(base: &FileStore) -> io::Result<Self> {
        let mut value = vec![0; VALUE_MAX];
        match fgetxattr(base.file(), NAME, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                Ok(Self::Of(OsString::from_vec(value).into()))
            }
            Err(Errno::NODATA) => Ok(Self::Absent),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(Self::Unsupported),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it stands for the overlay in a file.
    pub fn names(&self, layer: &Path) -> bool {
        let is_layer = |found| FileNode::at(layer).is_ok_and(|layer| layer == found);
        match self {
            Self::Of(path) => FileNode::at(path).is_ok_and(is_layer),
            Self::Unsupported | Self::Absent => false,
        }
    }
}

/// The file of a store; none of a block device, whose numbers another device may get.
fn node_of(base: &FileStore) -> io::Result<Option<FileNode>> {
    let found = base.file().metadata()?;
    Ok((!found.file_type().is_block_device()).then(|| FileNode::of(&found)))
}

/// Refuses a commit into a base of which another one is half done, and one that goes on into
/// another file than it was begun with. Returns the file.
///
/// # Errors
/// It is such a base, or cannot be looked at.
pub fn check_base(
    base: &FileStore,
    layer: &Path,
    found: &OverlayInfo,
) -> Result<Option<FileNode>, OverlayError> {
    let failed = |why| OverlayError::Base { name: found.base.name.clone(), begun: false, why };
    let mark = CommitMark::of(base).map_err(failed)?;
    let node = node_of(base).map_err(failed)?;
    if mark.names(layer) {
        return Ok(node);
    }
    let overlay = match &mark {
        // An overlay that was moved has left its old path in the mark.
        CommitMark::Of(overlay) if !found.is_half_committed || overlay.exists() => Some(overlay),
        CommitMark::Of(_) | CommitMark::Unsupported | CommitMark::Absent => None,
    };
    if let Some(overlay) = overlay {
        return Err(OverlayError::Marked {
            base: found.base.name.clone(),
            overlay: overlay.clone(),
        });
    }
    let is_other = |begun: FileNode| {
        let same_inode = node.is_some_and(|node| node.inode == begun.inode);
        // File systems over networks get a new number at each mount, and may have no marks.
        let same_device =
            mark == CommitMark::Unsupported || node.is_some_and(|node| node.device == begun.device);
        !(same_inode && same_device)
    };
    if found.is_half_committed && found.node.is_some_and(is_other) {
        return Err(OverlayError::OtherFile(found.base.name.clone()));
    }
    Ok(node)
}

/// Marks a base, before the commit of a layer writes to it.
///
/// # Errors
/// The file system has no such marks, or no room for one.
pub fn mark_commit(base: &FileStore, layer: &Path) -> io::Result<()> {
    let layer = fs::canonicalize(layer)?;
    fsetxattr(base.file(), NAME, layer.as_os_str().as_bytes(), XattrFlags::empty())?;
    base.file().sync_all()
}

/// Removes the mark of a base that has all pages. Returns what changes when the base does.
///
/// # Errors
/// The mark cannot be removed, or the base not be looked at.
pub fn unmark_commit(base: &FileStore, path: &Path) -> io::Result<String> {
    match fremovexattr(base.file(), NAME) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    // The time of the last change is known when all is on disk.
    base.file().sync_all()?;
    stamp(path)
}

const NAME: &str = "user.forebay.commit";

/// Bytes of a path.
const VALUE_MAX: usize = 4096;
