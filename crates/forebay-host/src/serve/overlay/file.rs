//! The file of a layer: one process at a time has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;

use super::super::store::FileStore;
use super::head::DISK_MAX;
use super::{BaseIdentity, OverlayError, OverlayStore};

/// Creates the file of an empty layer, atomically.
///
/// # Errors
/// A file of that name is there, or it cannot be made.
pub fn create_layer(path: &Path, base_bytes: u64, base: &BaseIdentity) -> Result<(), OverlayError> {
    if base_bytes > DISK_MAX {
        return Err(OverlayError::LargeBase(base_bytes));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", process::id()));
    let temporary = path.with_file_name(name);
    let made = fill(&temporary, base_bytes, base).and_then(|()| {
        // A link does not replace a file that has appeared in the meantime.
        fs::hard_link(&temporary, path)?;
        Ok(())
    });
    let _ = fs::remove_file(&temporary);
    made?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
}

fn fill(path: &Path, base_bytes: u64, base: &BaseIdentity) -> Result<(), OverlayError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(OverlayStore::layer_bytes(base_bytes))?;
    OverlayStore::format(&FileStore::open(path, false, false)?, base_bytes, base)?;
    Ok(file.sync_all()?)
}

/// Opens the file of a layer. It stays locked against other processes while it is open.
///
/// # Errors
/// It cannot be opened, or another process has it ([`ErrorKind::ResourceBusy`]).
pub fn open_layer(path: &Path, read_only: bool) -> io::Result<FileStore> {
    let store = FileStore::open(path, read_only, false)?;
    match store.file().try_lock() {
        Ok(()) => Ok(store),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(ErrorKind::ResourceBusy, "another process uses it"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The identity of a base: its path without links, its size, and its modification time. A block
/// device is identified only by its path and size.
///
/// # Errors
/// It is not there, or its path is not UTF-8.
pub fn identify(path: &Path) -> io::Result<BaseIdentity> {
    let name = PathBuf::into_os_string(fs::canonicalize(path)?).into_string();
    let name = name.map_err(|_| io::Error::new(ErrorKind::InvalidData, "its path is not UTF-8"))?;
    Ok(BaseIdentity { stamp: stamp(Path::new(&name))?, name })
}

/// What changes when a base does.
///
/// # Errors
/// It is not there.
pub fn stamp(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if found.file_type().is_block_device() {
        return Ok("a block device".to_owned());
    }
    let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
    Ok(format!("{} bytes, changed at {seconds}.{nanos:09}", found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_made_once_and_used_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (base, layer) = (folder.path().join("base"), folder.path().join("layer"));
        fs::write(&base, [7; 5000]).unwrap();
        let identity = identify(&base).unwrap();
        create_layer(&layer, 5000, &identity).unwrap();
        let Err(OverlayError::Io(again)) = create_layer(&layer, 5000, &identity) else {
            panic!("it is there");
        };
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "nothing else is left");
        let first = open_layer(&layer, false).unwrap();
        let busy = open_layer(&layer, true).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
        assert_eq!(OverlayStore::info(&first).unwrap().base, identity);
        drop(first);
        open_layer(&layer, true).unwrap();
    }

    #[test]
    fn a_base_that_was_changed_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        fs::write(&base, [7; 5000]).unwrap();
        let before = identify(&base).unwrap();
        assert_eq!(identify(&base).unwrap(), before);
        let file = OpenOptions::new().write(true).open(&base).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let after = identify(&base).unwrap();
        assert_eq!(after.stamp, "5000 bytes, changed at 0.000000000");
        assert_ne!(after, before);
    }
}
