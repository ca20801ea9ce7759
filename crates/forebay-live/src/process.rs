//! Processes: what each read, what it used of it, and the files that it may be about.
//!
//! Source:     the kernel's documentation, filesystems/proc.rst
//! Behaviour:  `read_bytes` counts what a process brought in from devices, its readahead with it;
//!             `rchar` what it asked for by calls. A fault is no call, and each major
//!             fault needs a page. More brought in than wanted is amplification.
//! Differs:    nothing.
//! Not for:    FUSE, whose reads are counted for its server; bytes from pipes count as wanted, so
//!             the ratio is rather too small than too large.

use std::collections::BTreeMap;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::number::{DevNumber, FileKey};
use crate::signal::{Malformed, Text};
use crate::tree::Tree;

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot: tells it from another of the same number.
    pub started: u64,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Faults that waited for a device so far, all threads.
    pub major_faults: u64,
    /// Its traffic; none if it is another user's and we are not root.
    pub io: Option<Io>,
}

/// `/proc/PID/io`, in bytes since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Asked for by read calls, from files, pipes and all else.
    pub rchar: u64,
    /// Brought in from devices.
    pub read_bytes: u64,
    /// Made dirty for devices.
    pub write_bytes: u64,
    /// Of these, dropped before they were written.
    pub cancelled_write_bytes: u64,
}

/// What a process read in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Bytes brought in from devices.
    pub brought: u64,
    /// Bytes that it can have used: what it asked for, or a page for each major fault.
    pub used: u64,
    /// Major faults.
    pub faults: u64,
}

/// A file that a process has open or mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The file; its number may be unknown for files that are open only.
    pub key: Option<FileKey>,
    /// Its path, as the process's own mounts show it.
    pub path: String,
    /// Bytes of it that are mapped.
    pub mapped: u64,
}

impl Process {
    /// Reads a process; none if it is gone, or shows nothing.
    pub fn read(tree: &Tree, pid: u32) -> Option<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = tree.text(&path).ok()?;
        let (name, major_faults, started) = parse_stat(Text::new(&path, &text)).ok()?;
        let path = format!("/proc/{pid}/io");
        let io = tree.text(&path).ok().and_then(|text| parse_io(Text::new(&path, &text)).ok());
        Some(Self { pid, started, name, major_faults, io })
    }

    /// All processes that a tree shows.
    pub fn all(tree: &Tree) -> Vec<Self> {
        let names = tree.names("/proc").unwrap_or_default();
        names.iter().filter_map(|name| Self::read(tree, name.parse().ok()?)).collect()
    }

    /// What it read since an earlier moment, or since it began; none if that was another process,
    /// or its traffic is not shown.
    pub fn reads_since(&self, earlier: Option<&Self>, page_size: u64) -> Option<Reads> {
        let io = self.io?;
        let (then, faults) = match earlier {
            Some(it) if it.pid == self.pid && it.started == self.started => {
                (it.io?, it.major_faults)
            }
            Some(_) => return None,
            None => (Io::default(), 0),
        };
        let faults = self.major_faults.saturating_sub(faults);
        let asked = io.rchar.saturating_sub(then.rchar);
        Some(Reads {
            brought: io.read_bytes.saturating_sub(then.read_bytes),
            used: asked.max(faults.saturating_mul(page_size)),
            faults,
        })
    }

    /// Files on storage that it has mapped or open: largest mapping first, then by path.
    pub fn files(tree: &Tree, pid: u32) -> Vec<Held> {
        let path = format!("/proc/{pid}/maps");
        let text = tree.text(&path).unwrap_or_default();
        let mut files: BTreeMap<String, Held> = BTreeMap::new();
        for (file, bytes) in parse_maps(&text) {
            let held = files.entry(file.path.clone()).or_insert(file);
            held.mapped = held.mapped.saturating_add(bytes);
        }
        let folder = format!("/proc/{pid}/fd");
        for name in tree.names(&folder).unwrap_or_default().iter().take(DESCRIPTORS_MAX) {
            let Ok(path) = tree.link(&format!("{folder}/{name}")) else { continue };
            let path = path.to_string_lossy().into_owned();
            // Sockets and pipes are no paths; devices and the kernel's own files are not stored.
            let is_stored = path.starts_with('/')
                && ["/dev/", "/proc/", "/sys/"].iter().all(|it| !path.starts_with(it));
            if is_stored {
                let held = Held { key: None, path: path.clone(), mapped: 0 };
                files.entry(path).or_insert(held);
            }
        }
        let mut files: Vec<Held> = files.into_values().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.mapped));
        files
    }
}

impl Reads {
    /// How many times what it used it brought in, in tenths; none if it used nothing.
    pub fn amplification_tenths(&self) -> Option<u64> {
        self.brought.saturating_mul(10).checked_div(self.used)
    }
}

/// A file as a descriptor or a mapping shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path, as the process's own mounts show it.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
}

/// The process that a thread belongs to; none if it has ended.
pub fn owner(tree: &Tree, thread: u32) -> Option<u32> {
    let status = tree.text(&format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// When a process started, in ticks since boot; none if it has ended.
pub fn started(tree: &Tree, pid: u32) -> Option<u64> {
    let stat = tree.text(&format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, brackets and blanks among it.
    let (_, rest) = stat.rsplit_once(')')?;
    let state = rest.split_whitespace().next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Whether a process is a thread of the kernel, such as the worker of a loop device, which reads
/// for others.
pub fn is_kernel_thread(tree: &Tree, pid: u32) -> bool {
    let stat = tree.text(&format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = behind_name.split_ascii_whitespace().nth(6).and_then(|word| word.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_KTHREAD != 0)
}

/// A file that a process has open or mapped. A server that does not answer is not asked.
pub fn find_file(tree: &Tree, pid: u32, key: FileKey) -> Option<Found> {
    ["fd", "map_files"].iter().find_map(|folder| {
        let links = std::fs::read_dir(tree.place(&format!("/proc/{pid}/{folder}"))).ok()?;
        links.flatten().take(DESCRIPTORS_MAX).find_map(|link| {
            let link = link.path();
            let what = StatxFlags::INO | StatxFlags::SIZE;
            let found = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, what).ok()?;
            let dev = DevNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
            if (FileKey { dev, ino: found.stx_ino }) != key {
                return None;
            }
            let path = std::fs::read_link(link).ok()?.to_string_lossy().into_owned();
            Some(Found { path, size: found.stx_size })
        })
    })
}

/// Name, major faults and time of start of `/proc/PID/stat`.
pub fn parse_stat(text: Text<'_>) -> Result<(String, u64, u64), Malformed> {
    // The name stands in brackets and may hold brackets and blanks itself.
    let parts = text.text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    let (name, rest) = parts.ok_or_else(|| text.missing("name in brackets"))?;
    let mut words = rest.split_ascii_whitespace();
    let faults = text.number(1, "majflt (field 12)", words.nth(9))?;
    let started = text.number(1, "starttime (field 22)", words.nth(9))?;
    Ok((name.to_owned(), faults, started))
}

/// The values of `/proc/PID/io`.
pub fn parse_io(text: Text<'_>) -> Result<Io, Malformed> {
    let field = |field: &'static str| {
        let found = text.lines().find_map(|(line, words)| {
            let (name, value) = words.split_once(':')?;
            (name == field).then_some((line, value))
        });
        let (line, value) = found.ok_or_else(|| text.missing(field))?;
        text.number(line, field, Some(value.trim()))
    };
    Ok(Io {
        rchar: field("rchar")?,
        read_bytes: field("read_bytes")?,
        write_bytes: field("write_bytes")?,
        cancelled_write_bytes: field("cancelled_write_bytes")?,
    })
}

/// Mapped files of `/proc/PID/maps` with the bytes of each mapping; what has no inode is memory.
pub fn parse_maps(text: &str) -> impl Iterator<Item = (Held, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let bytes = hex(end)?.checked_sub(hex(begin)?)?;
        let (major, minor) = words.nth(2)?.split_once(':')?;
        let hex = |word: &str| u32::from_str_radix(word, 16).ok();
        let dev = DevNumber { major: hex(major)?, minor: hex(minor)? };
        let ino: u64 = words.next()?.parse().ok().filter(|ino| *ino != 0)?;
        let path = words.next()?.trim_start().to_owned();
        let key = Some(FileKey { dev, ino });
        path.starts_with('/').then_some((Held { key, path, mapped: 0 }, bytes))
    })
}

/// `include/linux/sched.h`; flags are the ninth field of `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Descriptors that are looked at; more are no help in naming a file.
const DESCRIPTORS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4711 (a) (b c) R 1 2 3 4 5 6 700 8 912 10 11 12 13 14 15 16 17 18 5550 20";
    const IO: &str = "rchar: 6976\nwchar: 0\nsyscr: 10\nsyscw: 0\nread_bytes: 8192\n\
                      write_bytes: 4096\ncancelled_write_bytes: 1\n";

    #[test]
    fn a_name_may_hold_brackets_and_blanks() {
        let found = parse_stat(Text::new("stat", STAT));
        assert_eq!(found, Ok(("a) (b c".to_owned(), 912, 5550)));
        let said = parse_stat(Text::new("stat", "1 (x) R 1 2")).unwrap_err().to_string();
        assert_eq!(said, "stat, line 1: majflt (field 12) is '', not a whole number");
        for end in 0..STAT.len() {
            let _ = parse_stat(Text::new("stat", &STAT[..end]));
        }
    }

    #[test]
    fn the_worker_of_a_loop_device_is_a_thread_of_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, flags) in [(7, 0x0420_8060_u64), (8, 0x40_0000)] {
            let of = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&of).unwrap();
            let stat = format!("{pid} (kworker/u8:1-loop0) I 2 0 0 0 -1 {flags} 0 0 0 0 0\n");
            std::fs::write(of.join("stat"), stat).unwrap();
        }
        let tree = Tree::recorded(folder.path()).unwrap();
        let found = [7, 8, 9].map(|pid| is_kernel_thread(&tree, pid));
        assert_eq!(found, [true, false, false], "9 is not there");
    }

    #[test]
    fn traffic_is_read_by_name() {
        let wanted =
            Io { rchar: 6976, read_bytes: 8192, write_bytes: 4096, cancelled_write_bytes: 1 };
        assert_eq!(parse_io(Text::new("io", IO)), Ok(wanted));
        let said = parse_io(Text::new("io", "rchar: 1\n")).unwrap_err().to_string();
        assert_eq!(said, "io has no read_bytes");
    }

    #[test]
    fn amplification_is_what_came_by_what_was_wanted() {
        let io = |rchar, read_bytes| Some(Io { rchar, read_bytes, ..Io::default() });
        let at = |major_faults, io| Process { pid: 1, major_faults, io, ..Process::default() };
        let (then, now) = (at(10, io(500, 1 << 20)), at(110, io(600, 101 << 20)));
        let reads = now.reads_since(Some(&then), 4096).unwrap();
        assert_eq!(reads, Reads { brought: 100 << 20, used: 100 * 4096, faults: 100 });
        assert_eq!(reads.amplification_tenths(), Some(2560));
        let another = Process { started: 7, ..then };
        assert_eq!(now.reads_since(Some(&another), 4096), None);
        assert_eq!(Reads::default().amplification_tenths(), None);
    }

    #[test]
    fn an_open_file_of_this_process_has_its_path_and_size() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file");
        std::fs::write(&path, "12345").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let of = file.metadata().unwrap();
        let key = FileKey { dev: DevNumber::from_stat(of.dev()), ino: of.ino() };
        let (tree, pid) = (Tree::machine(), std::process::id());
        let found = find_file(&tree, pid, key).unwrap();
        assert_eq!((found.path.as_str(), found.size), (path.to_str().unwrap(), 5));
        drop(file);
        assert_eq!(find_file(&tree, pid, key), None);
        assert_eq!(owner(&tree, pid), Some(pid));
        assert_eq!(owner(&tree, 1 << 30), None);
    }

    #[test]
    fn mappings_of_a_file_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc/7");
        std::fs::create_dir_all(proc.join("fd")).unwrap();
        let maps = "55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/x\n\
            7f0000000000-7f0000100000 r--s 00000000 fe:00 99                   /data/a b\n\
            7f0000200000-7f0000300000 r--s 00100000 fe:00 99                   /data/a b\n\
            7f00-7f01 rw-p 00000000 00:00 0 \n7f01-7f02 rw-p 0 00:00 0 [heap]\nnonsense\n";
        std::fs::write(proc.join("maps"), maps).unwrap();
        for (name, target) in [("3", "/data/log"), ("4", "socket:[1]"), ("5", "/dev/null")] {
            std::os::unix::fs::symlink(target, proc.join("fd").join(name)).unwrap();
        }
        let files = Process::files(&Tree::recorded(folder.path()).unwrap(), 7);
        let paths: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.mapped)).collect();
        assert_eq!(paths, [("/data/a b", 2 << 20), ("/usr/bin/x", 1), ("/data/log", 0)]);
        let dev = DevNumber { major: 0xfe, minor: 0 };
        assert_eq!(files[0].key, Some(FileKey { dev, ino: 99 }));
    }
}
