//! Atomic writes of files: a file is written under another name in the same folder and then
//! renamed.
//!
//! ```text
//!   page.html -> a link      what it leads to is replaced, and the link stays
//!   .page.html.forebay-4711.0    the other name, with the writer's number; the next writer of
//!                                the same file removes it if that writer was killed
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::messages::{Complaint, shown};

/// Writes the file, or leaves the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    put(path, bytes).with_context(|| format!("cannot write {}", shown(path)))
}

/// Refuses a path whose folder is none; better now than after a minute of work.
pub fn has_folder(flag: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let what = format!("{flag} {}: no folder '{}'", shown(path), shown(folder));
        bail!(Complaint::new(what).hint("mkdir makes it"));
    }
    Ok(())
}

/// Whether a file can be made where this one will be; nothing stays of the trial.
pub fn try_out(path: &Path) -> io::Result<()> {
    let (beside, _) = made_beside(&followed(path)?)?;
    fs::remove_file(&beside)
}

/// Where a link leads. One that leads nowhere may be meant for a place that is not there yet, and
/// it is unknown whether a file is meant there.
fn followed(path: &Path) -> io::Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            return io::Error::new(ErrorKind::NotFound, "it is a link to nothing");
        }
        error
    })
}

/// A new file with another name in the same folder. An existing file with such a name is not
/// changed.
fn made_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    remove_left(path);
    let mut number = 0;
    loop {
        let beside = path.with_file_name(format!("{}{}.{number}", begin(path), process::id()));
        match File::create_new(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// How the other names of a file begin.
fn begin(path: &Path) -> String {
    format!(".{}.forebay-", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes what writers of the same file have left that were killed.
fn remove_left(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    for entry in entries.flatten() {
        let is_left = writer(&entry.file_name(), &begin(path)).is_some_and(is_gone);
        if is_left && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // A failure does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The writer of a file of such a name, if it is one of ours: `BEGIN`, a process, a try.
fn writer(name: &OsStr, begin: &str) -> Option<Pid> {
    let (process, number) = name.to_str()?.strip_prefix(begin)?.split_once('.')?;
    let is_ours = |digits: &str, parsed: u32| digits == parsed.to_string();
    let (pid, tried) = (process.parse().ok()?, number.parse().ok()?);
    let is_ours = is_ours(process, pid) && is_ours(number, tried) && tried <= TRIES;
    Pid::from_raw(i32::try_from(pid).ok()?).filter(|_| is_ours)
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = followed(path)?;
    let (beside, mut file) = made_beside(&path)?;
    if let Ok(before) = fs::metadata(&path) {
        // Owner and group stay; without the right to change owners, the caller's own remain.
        let (owner, group) = (before.uid(), before.gid());
        let _ = std::os::unix::fs::fchown(&file, Some(owner), Some(group));
        let _ = file.set_permissions(before.permissions());
    }
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
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        let taken = path.with_file_name(format!(".page.html.forebay-{}.0", process::id()));
        fs::write(folder.path().join("victim"), b"mine").unwrap();
        symlink("victim", &taken).unwrap();
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

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("page.html"), folder.path().join("below/page"));
        symlink("below/page", &link).unwrap();
        for absent in [try_out(&link), put(&link, b"new")] {
            assert_eq!(absent.unwrap_err().to_string(), "it is a link to nothing");
        }
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(&target, "old").unwrap();
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&target, private).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o600, "as private as before");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path().join("below")).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_writer_has_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        let alive = process::id();
        let kept = [
            format!(".page.html.forebay-{alive}.7"),
            format!(".other.html.forebay-{gone}.0"),
            format!(".page.html.forebay-0{gone}.0"),
            format!(".page.html.{gone}.0"),
            format!(".page.html.forebay-{gone}.x"),
            ".page.html.forebay-0.0".to_owned(),
            "page.html".to_owned(),
        ];
        let left = [".0", ".12"].map(|number| format!(".page.html.forebay-{gone}{number}"));
        for name in kept.iter().chain(&left) {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        write(&folder.path().join("page.html"), b"whole").unwrap();
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut kept = kept.to_vec();
        names.sort_unstable();
        kept.sort_unstable();
        assert_eq!(names, kept);
    }
}
