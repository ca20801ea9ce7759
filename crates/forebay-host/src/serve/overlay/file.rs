//! The file of a layer: one process at a time has it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::super::store::FileStore;
use super::head::{DISK_MAX, Head, Phase};
use super::{BaseIdentity, FileNode, OverlayError, OverlayStore};

/// Creates the file of an empty layer, atomically.
///
/// # Errors
/// A file of that name is there, or it cannot be made.
pub fn create_layer(path: &Path, base_bytes: u64, base: &BaseIdentity) -> Result<(), OverlayError> {
    if base_bytes > DISK_MAX {
        return Err(OverlayError::LargeBase(base_bytes));
    }
    remove_stale(path);
    let mut name = temporary_prefix(path);
    name.push(process::id().to_string());
    let temporary = path.with_file_name(name);
    let made = fill(&temporary, base_bytes, base).and_then(|()| {
        // A link does not replace a file that has appeared in the meantime.
        fs::hard_link(&temporary, path)?;
        Ok(())
    });
    let _ = fs::remove_file(&temporary);
    made?;
    Ok(File::open(folder(path))?.sync_all()?)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of the file of a layer while it is made, without the number of the process.
fn temporary_prefix(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new-");
    name
}

/// Removes what killed processes have left that were making the same layer.
fn remove_stale(path: &Path) {
    let prefix = temporary_prefix(path);
    for entry in fs::read_dir(folder(path)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.as_bytes().strip_prefix(prefix.as_bytes());
        let number = number.and_then(|number| str::from_utf8(number).ok()?.parse().ok());
        let is_dead = |pid| test_kill_process(pid).is_err_and(|error| error == Errno::SRCH);
        if !number.and_then(Pid::from_raw).is_some_and(is_dead) {
            continue;
        }
        // A process of another container has no number here, but holds the lock.
        let free = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if free {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn fill(path: &Path, base_bytes: u64, base: &BaseIdentity) -> Result<(), OverlayError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Not every file system has locks.
    let _ = file.try_lock();
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

/// Keeps the path of a base that was moved: its size and its modification time are what they were,
/// and nothing else is at its old path. Returns that path. A layer that is opened read-only keeps
/// the old path, under which its base is to be given then.
///
/// # Errors
/// The layer cannot be read or written, or is none.
pub fn follow_moved(
    layer: &FileStore,
    read_only: bool,
    found: &BaseIdentity,
) -> Result<Option<String>, OverlayError> {
    let mut head = Head::read(layer)?;
    let (made, path) = (&head.base, Path::new(&found.name));
    if head.phase == Phase::Committing || made.name == found.name || made.stamp != found.stamp {
        return Ok(None);
    }
    // Block devices and other servers have no time of change.
    if !path.is_absolute() || !path.is_file() || !is_at_old_path(Path::new(&made.name), path) {
        return Ok(None);
    }
    let old = mem::replace(&mut head.base.name, found.name.clone());
    if !read_only {
        head.write(layer)?;
    }
    Ok(Some(old))
}

/// Whether nothing is at an old path, or the same file as at the new one.
fn is_at_old_path(old: &Path, new: &Path) -> bool {
    match FileNode::at(old) {
        Ok(found) => FileNode::at(new).is_ok_and(|new| new == found),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
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
    fn what_killed_processes_have_left_of_a_layer_is_removed_when_it_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (base, layer) = (folder.path().join("base"), folder.path().join("layer"));
        fs::write(&base, [7; 5000]).unwrap();
        let mut ended = process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let [dead, locked] = ["layer.new-", "other.new-"]
            .map(|name| folder.path().join(format!("{name}{}", ended.id())));
        // The process with the number 1 runs; what has no number is of another program.
        let others =
            ["layer.new-1", "layer.new-x", "layer.new-"].map(|name| folder.path().join(name));
        for path in others.iter().chain([&dead, &locked]) {
            fs::write(path, "x").unwrap();
        }
        create_layer(&layer, 5000, &identify(&base).unwrap()).unwrap();
        assert!(!dead.exists() && locked.exists() && others.iter().all(|path| path.exists()));
        let held = File::open(&locked).unwrap();
        held.lock().unwrap();
        let other = folder.path().join("other");
        create_layer(&other, 5000, &identify(&base).unwrap()).unwrap();
        assert!(locked.exists(), "another process is making it");
        fs::remove_file(&other).unwrap();
        drop(held);
        create_layer(&other, 5000, &identify(&base).unwrap()).unwrap();
        assert!(!locked.exists());
    }

    #[test]
    fn a_base_that_was_moved_keeps_its_overlay_and_a_copy_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [base, moved, copy, layer] =
            ["base", "moved", "copy", "layer"].map(|name| folder.path().join(name));
        fs::write(&base, [7; 5000]).unwrap();
        let made = identify(&base).unwrap();
        create_layer(&layer, 5000, &made).unwrap();
        let layer = open_layer(&layer, false).unwrap();
        fs::write(&copy, [7; 5000]).unwrap();
        let time = fs::metadata(&base).unwrap().modified().unwrap();
        File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
        let copied = identify(&copy).unwrap();
        assert_eq!(copied.stamp, made.stamp);
        assert_eq!(follow_moved(&layer, false, &copied).unwrap(), None, "the base is there");
        fs::rename(&base, &moved).unwrap();
        let found = identify(&moved).unwrap();
        assert_eq!(follow_moved(&layer, true, &found).unwrap(), Some(made.name.clone()));
        assert_eq!(OverlayStore::info(&layer).unwrap().base, made, "it is read-only");
        assert_eq!(follow_moved(&layer, false, &found).unwrap(), Some(made.name));
        assert_eq!(OverlayStore::info(&layer).unwrap().base, found);
        // A second name of the file.
        fs::hard_link(&moved, &base).unwrap();
        let linked = identify(&base).unwrap();
        assert_eq!(follow_moved(&layer, false, &linked).unwrap(), Some(found.name));
        fs::remove_file(&base).unwrap();
        let file = File::options().write(true).open(&moved).unwrap();
        file.set_modified(time + std::time::Duration::from_secs(1)).unwrap();
        let changed = identify(&moved).unwrap();
        assert_eq!(follow_moved(&layer, false, &changed).unwrap(), None, "it was changed");
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
