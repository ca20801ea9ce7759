//! Files that are there as a whole or not at all: written under another name beside their place,
//! and then renamed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};

use crate::messages::Complaint;

/// Writes the file, or leaves what was there before.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    put(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a path whose folder is none; better now than after a minute of work.
pub(crate) fn has_folder(flag: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let what = format!("{flag} {}: no folder '{}'", path.display(), folder.display());
        bail!(Complaint::new(what).hint("mkdir makes it"));
    }
    Ok(())
}

/// Whether a file can be made where this one will be; nothing stays of the trial.
pub(crate) fn try_out(path: &Path) -> io::Result<()> {
    let (beside, _) = made_beside(path)?;
    fs::remove_file(&beside)
}

/// A new file with another name in the same folder. What has such a name already is not touched.
fn made_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut number = 0;
    loop {
        let beside = path.with_file_name(format!(".{name}.{}.{number}", process::id()));
        match File::create_new(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (beside, mut file) = made_beside(path)?;
    // A name must not lead to a file whose bytes a loss of power has taken.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What matters is why it could not be written.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Names that are tried.
const TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_has_the_other_name_already_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let taken = path.with_file_name(format!(".page.html.{}.0", process::id()));
        fs::write(folder.path().join("victim"), b"mine").unwrap();
        std::os::unix::fs::symlink("victim", &taken).unwrap();
        try_out(&path).unwrap();
        write(&path, b"page").unwrap();
        assert_eq!(fs::read(&taken).unwrap(), b"mine");
        assert_eq!(fs::read(&path).unwrap(), b"page");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_trial_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        try_out(&folder.path().join("page.html")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(try_out(&folder.path().join("absent/page.html")).is_err());
    }
}
