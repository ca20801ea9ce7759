//! Atomic writes of files: a file is written without a name, or under another name in the same
//! folder, and gets its own when it is whole.
//!
//! ```text
//!   page.html -> a link          what it leads to is replaced, and the link stays
//!   (no name)                    however the writer ends, nothing stays (O_TMPFILE)
//!   .page.html.forebay-4711.0    the other name, with the writer's number, where the file system
//!                                has no files without names; the next writer of the same file
//!                                removes it if that writer was killed
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::messages::{Complaint, shown};

/// Whether two paths are those of one file, which need not be there yet.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    match (number(one), number(other)) {
        (None, None) => {
            let place = |path: &Path| fs::canonicalize(folder(path)).ok();
            one.file_name() == other.file_name()
                && place(one).is_some_and(|it| place(other) == Some(it))
        }
        (one, other) => one == other,
    }
}

/// A file that is being written, buffered. Dropped before it is finished, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    file: BufWriter<File>,
    /// Its name for now, if it has one.
    beside: Option<PathBuf>,
    path: PathBuf,
    /// Whether a file that has its name is replaced.
    replaces: bool,
}

impl Draft {
    /// An empty one of the file at a path, which need not be there and is replaced.
    ///
    /// # Errors
    ///
    /// No file can be made in its folder, or something else than a regular file is at the path.
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::begin(followed(path)?, true)
    }

    /// An empty one of a file that is not there, not even as a link to nothing.
    ///
    /// # Errors
    ///
    /// No file can be made in its folder, or something is at the path
    /// ([`ErrorKind::AlreadyExists`]).
    pub fn of_new(path: &Path) -> io::Result<Self> {
        match path.symlink_metadata() {
            Ok(_) => Err(taken()),
            Err(_) => Self::begin(path.to_owned(), false),
        }
    }

    fn begin(path: PathBuf, replaces: bool) -> io::Result<Self> {
        match nameless(folder(&path)) {
            Ok(file) => Ok(Self { file: buffered(file), beside: None, path, replaces }),
            Err(_) => Self::with_name(path, replaces),
        }
    }

    fn with_name(path: PathBuf, replaces: bool) -> io::Result<Self> {
        let (beside, file) = beside(&path, |beside| File::create_new(beside))?;
        Ok(Self { file: buffered(file), beside: Some(beside), path, replaces })
    }

    /// Gives it its name.
    ///
    /// # Errors
    ///
    /// It cannot be stored safely or renamed, or what has the name by now is not replaced; it is
    /// gone then.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_ref();
        if self.replaces
            && let Ok(before) = fs::metadata(&self.path)
        {
            if !before.is_file() {
                return Err(no_file());
            }
            // Owner and group stay; without the right to change owners, the caller's own remain.
            let (owner, group) = (before.uid(), before.gid());
            let _ = std::os::unix::fs::fchown(file, Some(owner), Some(group));
            let _ = file.set_permissions(before.permissions());
        }
        // A name must not lead to a file whose bytes a loss of power has taken.
        file.sync_all()?;
        if self.beside.is_none() {
            match named(file, &self.path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                done => return done,
            }
            if !self.replaces {
                return Err(taken());
            }
            self.beside = Some(beside(&self.path, |beside| named(file, beside))?.0);
        }
        // While it has the other name, that is removed if this fails.
        if let Some(beside) = &self.beside {
            if self.replaces {
                fs::rename(beside, &self.path)?;
            } else {
                rename_to_free(beside, &self.path)?;
            }
        }
        self.beside = None;
        Ok(())
    }
}

/// Gives a file another name if no other file has it.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot do that; a hard link also refuses a name that is taken.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to).and_then(|()| fs::remove_file(from))
        }
        renamed => renamed.map_err(io::Error::from),
    };
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    renamed.map_err(|error| if is_taken(&error) { taken() } else { error })
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // What matters is why it was not finished.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Writes the file, or leaves the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    put(path, bytes).with_context(|| format!("cannot write {}", shown(path)))
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = Draft::new(path)?;
    draft.write_all(bytes)?;
    draft.finish()
}

/// Refuses a path whose folder is none; better now than after a minute of work.
pub fn has_folder(flag: &str, path: &Path) -> Result<()> {
    let folder = folder(path);
    if !folder.is_dir() {
        let what = format!("{flag} {}: no folder '{}'", shown(path), shown(folder));
        bail!(Complaint::new(what).hint("mkdir makes it"));
    }
    Ok(())
}

/// Whether a file can be made where this one will be; nothing stays of the trial.
pub fn try_out(path: &Path) -> io::Result<()> {
    Draft::new(path).map(drop)
}

/// Where a link leads. One that leads nowhere may be meant for a place that is not there yet, and
/// it is unknown whether a file is meant there. A device or a folder is not replaced by a file.
fn followed(path: &Path) -> io::Result<PathBuf> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(no_file());
    }
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

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is no regular file")
}

fn taken() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "it exists, and is not replaced")
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(BUFFER, file)
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A file without a name. Not every file system has them, and naming one later needs /proc.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = File::from(rustix::fs::open(folder, flags, mode)?);
    fs::symlink_metadata(path_of(&file)).map(|_| file)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name one that is free.
fn named(file: &File, name: &Path) -> io::Result<()> {
    Ok(linkat(CWD, path_of(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Makes something with another name in the same folder. What has such a name already is not
/// changed.
fn beside<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    remove_left(path);
    let mut number = 0;
    loop {
        let beside = path.with_file_name(format!("{}{}.{number}", begin(path), process::id()));
        match make(&beside) {
            Ok(made) => return Ok((beside, made)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// How the other names of a file begin: with its name, as far as there is room for the rest.
fn begin(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.forebay-", &name[..name.floor_char_boundary(NAME_MAX)])
}

/// Removes what writers of the same file have left that were killed.
fn remove_left(path: &Path) {
    let Ok(entries) = fs::read_dir(folder(path)) else { return };
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

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 18;

/// Bytes of a file's name in its other name: a name has 255 at most.
const NAME_MAX: usize = 200;

/// Names that are tried.
const TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_written_alike_where_files_without_names_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let left = || fs::read_dir(folder.path()).unwrap().count();
        for content in ["new", "newer"] {
            let mut draft = Draft::with_name(path.clone(), true).unwrap();
            draft.write_all(content.as_bytes()).unwrap();
            draft.finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), content.as_bytes());
            let mut draft = Draft::with_name(path.clone(), true).unwrap();
            draft.write_all(b"half").unwrap();
            assert_eq!(left(), 2);
            drop(draft);
            assert_eq!(left(), 1);
        }
        let draft = Draft::with_name(path.clone(), true).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(draft.finish().is_err());
        assert_eq!(left(), 1);
    }

    #[test]
    fn a_file_with_a_long_name_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ä".repeat(127));
        for content in ["new", "newer"] {
            write(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content.as_bytes());
        }
    }

    #[test]
    fn a_draft_has_no_name_until_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let mut draft = Draft::new(&path).unwrap();
        draft.write_all(b"half").unwrap();
        draft.flush().unwrap();
        // Where files without names are unknown, it has another one.
        let names = usize::from(nameless(folder.path()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names);
        draft.write_all(b" and half").unwrap();
        draft.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half and half");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_takes_no_name_that_something_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let kinds = [Draft::of_new, |path: &Path| Draft::with_name(path.to_owned(), false)];
        for new in kinds {
            let (first, second) = (new(&path).unwrap(), new(&path).unwrap());
            first.finish().unwrap();
            assert_eq!(second.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
        symlink("absent", &path).unwrap();
        let error = Draft::of_new(&path).unwrap_err();
        assert_eq!(error.to_string(), "it exists, and is not replaced");
    }

    #[test]
    fn what_appears_meanwhile_is_replaced_if_it_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let draft = Draft::new(&path).unwrap();
        fs::write(&path, "another").unwrap();
        draft.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let draft = Draft::new(&path).unwrap();
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(draft.finish().unwrap_err().to_string(), "it is no regular file");
        assert!(!path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_device_or_a_pipe_is_not_replaced() {
        let error = Draft::new(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "it is no regular file");
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/null", &link).unwrap();
        assert!(Draft::new(&link).is_err());
    }

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
