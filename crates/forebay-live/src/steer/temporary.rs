//! Files whose dirty data is likely to be removed before it is written back.
//!
//! Source:     Forebay. The names are those of mkstemp(3) and its users, and of PostgreSQL, MySQL
//!             and SQLite.
//! Behaviour:  a file is temporary if it has no name any more, if its name or a folder below the
//!             mount point says so, or if the same command has lately left files in the same folder
//!             that were removed before they were written. Its size is an upper bound of what it
//!             keeps dirty, so that what is dirty beyond the sizes belongs to other files.
//! Differs:    nothing.
//! Not for:    telling a temporary file from a copy when neither its name nor its past says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::time::{Duration, Instant};

use super::User;
use crate::number::DevNumber;

/// A file that a process writes, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its path; of a file without a name, the one that it had.
    pub path: PathBuf,
    /// The descriptor.
    pub fd: u32,
    /// The process's command.
    pub command: String,
    /// Whether it has no name any more.
    pub is_unlinked: bool,
    /// Its size in bytes.
    pub size: u64,
}

/// What such a file is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNow {
    /// Its size in bytes.
    pub size: u64,
    /// Whether it has no name any more.
    pub is_unlinked: bool,
}

/// What temporary files may keep dirty on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparedBytes {
    /// Their sizes in bytes.
    pub bytes: u64,
    /// Whether one was removed since the last look, so that sizes and the dirty level may belong to
    /// two different moments.
    pub vanished: bool,
}

/// Files that became dirty of late, and where temporary files come from.
#[derive(Debug, Default)]
pub struct Temporaries {
    files: Vec<DirtiedFile>,
    origins: BTreeMap<FileOrigin, Instant>,
}

#[derive(Debug)]
struct DirtiedFile {
    user: User,
    found: WrittenFile,
    origin: FileOrigin,
    is_temporary: bool,
    since: Instant,
    is_gone: bool,
}

/// The command and the folder that files come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileOrigin {
    device: DevNumber,
    folder: PathBuf,
    command: String,
}

impl Temporaries {
    /// A file on a device became dirty; `mount` is where its file system is mounted, if that is
    /// known.
    pub fn record(
        &mut self,
        now: Instant,
        device: DevNumber,
        user: User,
        mount: Option<&Path>,
        found: WrittenFile,
    ) {
        let below = mount.and_then(|mount| found.path.strip_prefix(mount).ok());
        let named = below.or_else(|| found.path.file_name().map(Path::new));
        let folder = found.path.parent().unwrap_or(Path::new("")).to_owned();
        let origin = FileOrigin { device, folder, command: found.command.clone() };
        let is_known = self.origins.get(&origin).is_some_and(|at| now.since(*at) < REMEMBERED);
        let is_temporary = found.is_unlinked || is_known || named.is_some_and(is_temporary_name);
        self.files.retain(|file| file.user.file != user.file && now.since(file.since) < FRESH);
        if self.files.len() >= FILES_MAX {
            self.files.remove(0);
        }
        let file = DirtiedFile { user, found, origin, is_temporary, since: now, is_gone: false };
        self.files.push(file);
    }

    /// What the temporary files of a device may keep dirty, by their sizes as they are; `look`
    /// finds none of a file that is no longer there. It has to come after the dirty level was read.
    pub fn spared(
        &mut self,
        now: Instant,
        device: DevNumber,
        mut look: impl FnMut(&User, &WrittenFile) -> Option<FileNow>,
    ) -> SparedBytes {
        let mut spared = SparedBytes::default();
        self.files.retain(|file| now.since(file.since) < FRESH);
        let files = self.files.iter_mut().filter(|file| file.origin.device == device);
        for file in files.filter(|file| !file.is_gone) {
            match look(&file.user, &file.found) {
                Some(FileNow { size, is_unlinked }) => {
                    file.found.size = size;
                    file.is_temporary |= is_unlinked;
                }
                None => file.is_gone = true,
            }
            match (file.is_temporary, file.is_gone) {
                (true, true) => spared.vanished = true,
                (true, false) => spared.bytes = spared.bytes.saturating_add(file.found.size),
                (false, _) => {}
            }
        }
        spared
    }

    /// Much of what became dirty on a device was removed before it was written: the files that have
    /// gone were temporary, and so are the next ones of their origin.
    pub fn learn(&mut self, now: Instant, device: DevNumber) {
        let Self { files, origins } = self;
        let is_of = |file: &&DirtiedFile| file.origin.device == device && file.is_gone;
        for file in files.iter().filter(is_of).filter(|file| file.found.size >= LEARNT_MIN) {
            if origins.len() >= ORIGINS_MAX && !origins.contains_key(&file.origin) {
                origins.retain(|_, at| now.since(*at) < REMEMBERED);
            }
            if origins.len() < ORIGINS_MAX || origins.contains_key(&file.origin) {
                origins.insert(file.origin.clone(), now);
            }
        }
    }

    /// Whether no file of a device is followed.
    pub fn is_empty(&self, device: DevNumber) -> bool {
        !self.files.iter().any(|file| file.origin.device == device)
    }
}

/// Whether a path below a mount point names a temporary file: one of its parts has `tmp`, `temp` or
/// `temporary` as a word, or the file's name begins with `tmp`.
fn is_temporary_name(path: &Path) -> bool {
    let has_word = |part: &str| {
        let mut words = part.split(|letter: char| !letter.is_ascii_alphabetic());
        words.any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_made = |begin| name.trim_start_matches('.').starts_with(begin);
    let sort = name.strip_prefix("sort").is_some_and(|rest| {
        rest.len() == 6 && rest.bytes().all(|letter| letter.is_ascii_alphanumeric())
    });
    sort || is_made("tmp") || is_made("etilqs_") || {
        path.components().any(|part| has_word(&part.as_os_str().to_string_lossy()))
    }
}

const WORDS: [&str; 3] = ["tmp", "temp", "temporary"];

/// Files that are followed at once.
const FILES_MAX: usize = 32;

/// Origins that are remembered, and for how long.
const ORIGINS_MAX: usize = 64;
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// The kernel begins to write what has been dirty for so long.
const FRESH: Duration = Duration::from_secs(30);

/// A smaller file that is removed says nothing: journals of databases are removed at each commit.
const LEARNT_MIN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::FileKey;

    const DEVICE: DevNumber = DevNumber { major: 7, minor: 1 };
    const MIB: u64 = 1 << 20;

    fn user(ino: u64) -> User {
        User { file: FileKey { dev: DEVICE, ino }, process: 9 }
    }

    fn found(path: &str) -> WrittenFile {
        WrittenFile { path: path.into(), command: "dd".to_owned(), ..WrittenFile::default() }
    }

    fn sized(size: u64) -> Option<FileNow> {
        Some(FileNow { size, is_unlinked: false })
    }

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1_000 + second)
    }

    #[test]
    fn names_of_temporary_files_are_known_and_others_are_not() {
        for (path, expected) in [
            ("temporary1", true),
            ("tmpa7x_k", true),
            (".tmp.Zk3", true),
            ("base/pgsql_tmp/pgsql_tmp123.4", true),
            ("#innodb_temp/temp_1.ibt", true),
            ("etilqs_8a7", true),
            ("sortZk3aQ9", true),
            ("build/x.tmp", true),
            ("copy", false),
            ("backup.tar", false),
            ("template.img", false),
            ("attempt-3.log", false),
            ("temperature.csv", false),
            ("sorted-list", false),
            ("sort", false),
            ("base/16384/2619", false),
            ("db-journal", false),
        ] {
            assert_eq!(is_temporary_name(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_mount_point_below_a_temporary_folder_says_nothing() {
        for (mount, expected) in [(Some("/var/tmp/disk"), false), (Some("/"), true), (None, false)]
        {
            let mut of = Temporaries::default();
            let file = found("/var/tmp/disk/copy");
            of.record(at(0), DEVICE, user(3), mount.map(Path::new), file);
            let spared = of.spared(at(0), DEVICE, |_, _| sized(MIB));
            assert_eq!(spared.bytes > 0, expected, "{mount:?}");
        }
    }

    #[test]
    fn sizes_are_summed_up_until_a_file_is_removed_or_old() {
        let mut of = Temporaries::default();
        of.record(at(0), DEVICE, user(3), None, found("/a/tmp1"));
        of.record(at(0), DEVICE, user(4), None, found("/a/copy"));
        let unlinked = WrittenFile { is_unlinked: true, ..found("/a/spill (deleted)") };
        of.record(at(1), DEVICE, user(5), None, unlinked);
        let all = of.spared(at(1), DEVICE, |user, _| sized(user.file.ino * MIB));
        assert_eq!(all, SparedBytes { bytes: 8 * MIB, vanished: false });
        let elsewhere = DevNumber { minor: 2, ..DEVICE };
        assert_eq!(of.spared(at(1), elsewhere, |_, _| sized(MIB)), SparedBytes::default());
        let gone = |user: &User, _: &WrittenFile| sized(MIB).filter(|_| user.file.ino != 3);
        assert_eq!(of.spared(at(2), DEVICE, gone), SparedBytes { bytes: MIB, vanished: true });
        assert_eq!(of.spared(at(3), DEVICE, gone), SparedBytes { bytes: MIB, vanished: false });
        assert_eq!(of.spared(at(31), DEVICE, gone), SparedBytes::default(), "written by now");
        assert!(of.is_empty(DEVICE));
    }

    #[test]
    fn a_file_that_is_unlinked_while_it_is_open_is_temporary_from_then_on() {
        let mut of = Temporaries::default();
        of.record(at(0), DEVICE, user(3), None, found("/a/spill"));
        for (is_unlinked, bytes) in [(false, 0), (true, MIB)] {
            let now = Some(FileNow { size: MIB, is_unlinked });
            assert_eq!(of.spared(at(0), DEVICE, |_, _| now).bytes, bytes);
        }
    }

    #[test]
    fn a_command_whose_files_were_removed_makes_temporary_files_in_that_folder() {
        let is_temporary = |of: &mut Temporaries, second, path: &str| {
            of.record(at(second), DEVICE, user(second), None, found(path));
            of.spared(at(second), DEVICE, |_, _| sized(60 * MIB)).bytes > 0
        };
        let mut of = Temporaries::default();
        assert!(!is_temporary(&mut of, 1, "/a/part1"));
        of.spared(at(2), DEVICE, |_, _| None);
        assert!(!is_temporary(&mut of, 3, "/a/part2"), "it may have been written before");
        of.spared(at(4), DEVICE, |_, _| None);
        of.learn(at(4), DEVICE);
        assert!(is_temporary(&mut of, 5, "/a/part3"));
        assert!(!is_temporary(&mut of, 40, "/b/part3"), "another folder");
        assert!(!is_temporary(&mut of, 3_700, "/a/part4"), "an hour later");
    }

    #[test]
    fn journals_of_a_database_are_too_small_to_learn_from() {
        let mut of = Temporaries::default();
        of.record(at(1), DEVICE, user(1), None, found("/a/db-journal"));
        of.spared(at(1), DEVICE, |_, _| sized(8_192));
        of.spared(at(2), DEVICE, |_, _| None);
        of.learn(at(2), DEVICE);
        assert!(of.origins.is_empty());
    }

    #[test]
    fn only_so_many_files_and_origins_are_kept() {
        let mut of = Temporaries::default();
        for ino in 0..1_000 {
            of.record(at(0), DEVICE, user(ino), None, found(&format!("/{ino}/x")));
            of.spared(at(0), DEVICE, |_, _| sized(LEARNT_MIN));
            of.spared(at(0), DEVICE, |_, _| None);
            of.learn(at(0), DEVICE);
        }
        assert_eq!((of.files.len(), of.origins.len()), (FILES_MAX, ORIGINS_MAX));
    }
}
