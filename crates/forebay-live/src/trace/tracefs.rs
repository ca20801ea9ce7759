//! The folder of the kernel's tracing, and an instance in it.
//!
//! Source:     `Documentation/trace/ftrace.rst` of Linux, "Instances".
//! Behaviour:  a tracefs that is mounted is used where it lies; if there is none, one is mounted
//!             that has no place in the tree of files, so that no other process sees it and it is
//!             gone with its descriptor. The instance's name says whose it is: instances of
//!             processes that have died are removed by the next one.
//! Differs:    nothing.
//! Not for:    the instance at the top, which all processes share.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::TraceError;
use crate::tree::Tree;

/// A folder of tracefs.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// The folder at the top: of a tracefs that is mounted somewhere, or of one of our own.
    pub(super) fn top() -> Result<Self, TraceError> {
        let mounts = Tree::machine().text("/proc/self/mountinfo").unwrap_or_default();
        for point in mount_points(&mounts) {
            let folder = openat(CWD, &point, OFlags::DIRECTORY | FLAGS, Mode::empty()).map(Self);
            // Something may be mounted over it.
            if let Ok(folder) = folder
                && folder.has("instances")
            {
                return Ok(folder);
            }
        }
        detached().map(Self).map_err(TraceError::NoTracefs)
    }

    /// A folder or file below it, opened.
    pub(super) fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, TraceError> {
        openat(&self.0, path, flags | FLAGS, Mode::empty()).map_err(problem("open", path))
    }

    /// Whether there is a folder of this name.
    pub(super) fn has(&self, path: &str) -> bool {
        openat(&self.0, path, OFlags::DIRECTORY | FLAGS, Mode::empty()).is_ok()
    }

    /// The text of a file, which is a page long at most, or little more.
    pub(super) fn text(&self, path: &str) -> Result<String, TraceError> {
        let file = self.open(path, OFlags::RDONLY)?;
        let mut text = vec![0; TEXT_MAX];
        let mut length = 0;
        while length < TEXT_MAX {
            match rustix::io::read(&file, &mut text[length..]).map_err(problem("read", path))? {
                0 => break,
                more => length += more,
            }
        }
        text.truncate(length);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes a control file.
    pub(super) fn write(&self, path: &str, value: &str) -> Result<(), TraceError> {
        let file = self.open(path, OFlags::WRONLY | OFlags::TRUNC)?;
        let done = rustix::io::write(&file, value.as_bytes()).map_err(problem("write", path))?;
        // A control file takes all or refuses.
        debug_assert_eq!(done, value.len());
        Ok(())
    }

    /// Removes the instances that dead processes have left.
    pub(super) fn sweep(&self) -> Result<(), TraceError> {
        self.remove_stale(&Owner::of_this_process()?)
    }

    fn remove_stale(&self, here: &Owner) -> Result<(), TraceError> {
        for name in self.names(INSTANCES)? {
            if Owner::parse(&name).is_some_and(|other| other.is_dead(here)) {
                // It may be gone by now, or in use after all.
                let _ = unlinkat(&self.0, format!("{INSTANCES}/{name}"), AtFlags::REMOVEDIR);
            }
        }
        Ok(())
    }

    fn names(&self, path: &str) -> Result<Vec<String>, TraceError> {
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = Dir::read_from(folder).map_err(problem("read", path))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(problem("read", path))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }
}

/// An instance of our own; dropping it removes it with all that was switched on in it.
#[derive(Debug)]
pub(super) struct Instance {
    top: Folder,
    path: String,
    folder: Folder,
}

impl Instance {
    /// Removes what dead processes have left, and makes a new one.
    pub(super) fn new(top: Folder) -> Result<Self, TraceError> {
        let owner = Owner::of_this_process()?;
        top.remove_stale(&owner)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("{INSTANCES}/{owner}-{number}");
        mkdirat(&top.0, &path, Mode::RWXU).map_err(problem("make", &path))?;
        match top.open(&path, OFlags::DIRECTORY) {
            Ok(folder) => Ok(Self { top, path, folder: Folder(folder) }),
            Err(error) => {
                let _ = unlinkat(&top.0, &path, AtFlags::REMOVEDIR);
                Err(error)
            }
        }
    }

    /// Its folder.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The processors that it has buffers for.
    pub(super) fn buffers(&self) -> Result<Vec<String>, TraceError> {
        let mut names = self.folder.names("per_cpu")?;
        names.retain(|name| name.starts_with("cpu"));
        Ok(names)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Refused while a file of it is open; the next start tries again.
        let _ = unlinkat(&self.top.0, &self.path, AtFlags::REMOVEDIR);
    }
}

/// The maker of an instance: `forebay-PID-START-NAMESPACE`, and a number for each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    /// When it began, as `/proc/PID/stat` has it: numbers of processes are used again.
    start: u64,
    /// Where its number is meant: containers number their processes afresh.
    namespace: u64,
}

impl Owner {
    fn of_this_process() -> Result<Self, TraceError> {
        let pid = std::process::id();
        let start = start_of(pid).ok_or_else(|| unread(&format!("/proc/{pid}/stat")))?;
        let link = Tree::machine().link("/proc/self/ns/pid").unwrap_or_default();
        let namespace = namespace(&link.to_string_lossy()).unwrap_or_default();
        Ok(Self { pid, start, namespace })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(NAME)?.strip_prefix('-')?.split('-');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (pid, start, namespace) = (number()?, number()?, number()?);
        Some(Self { pid: pid.try_into().ok()?, start, namespace })
    }

    /// Whether its process, which can be seen from here, is gone.
    fn is_dead(&self, here: &Self) -> bool {
        self.namespace == here.namespace && start_of(self.pid) != Some(self.start)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{NAME}-{}-{}-{}", self.pid, self.start, self.namespace)
    }
}

/// When a process began, in ticks since boot; none if there is no such process.
fn start_of(pid: u32) -> Option<u64> {
    let stat = Tree::machine().text(&format!("/proc/{pid}/stat")).ok()?;
    // The name of the command may hold anything, so fields count from its end.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// The number in `pid:[4026531836]`.
fn namespace(link: &str) -> Option<u64> {
    link.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// Where file systems of type tracefs are mounted, the last mount first: it lies above others.
fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    let point = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let kind = behind.split(' ').next()?;
        let point = before.split(' ').nth(4)?;
        (kind == "tracefs").then(|| PathBuf::from(unescaped(point)))
    };
    mountinfo.lines().rev().filter_map(point).collect()
}

/// Blanks and the like stand as three octal digits in mountinfo.
fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (escaped, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(escaped, plain);
    }
    out
}

/// A mount without a place.
fn detached() -> Result<OwnedFd, io::Error> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn problem(verb: &'static str, path: &str) -> impl FnOnce(rustix::io::Errno) -> TraceError {
    move |errno| TraceError::File { verb, path: path.to_owned(), source: errno.into() }
}

fn unread(path: &str) -> TraceError {
    let source = ErrorKind::InvalidData.into();
    TraceError::File { verb: "read", path: path.to_owned(), source }
}

/// How everything is opened.
const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);

/// Where instances lie.
const INSTANCES: &str = "instances";

/// How the names of ours begin.
const NAME: &str = "forebay";

/// The next number of an instance of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Formats have 2 KiB.
const TEXT_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_found_wherever_it_is_mounted() {
        let mountinfo = "\
22 28 0:20 / /sys rw,nosuid shared:2 - sysfs sysfs rw
31 22 0:11 / /sys/kernel/tracing rw shared:9 - tracefs tracefs rw
40 28 0:11 / /mnt/my\\040trace rw - tracefs none rw
41 28 0:45 / /tracefs rw - tmpfs tracefs rw
broken line
";
        let expected = ["/mnt/my trace", "/sys/kernel/tracing"].map(PathBuf::from);
        assert_eq!(mount_points(mountinfo), expected);
    }

    #[test]
    fn only_instances_of_dead_processes_that_can_be_seen_are_stale() {
        let here = Owner::of_this_process().unwrap();
        assert_eq!(Owner::parse(&format!("{here}-3")), Some(here.clone()));
        assert!(!here.is_dead(&here));
        let earlier = Owner { start: here.start + 1, ..here.clone() };
        assert!(earlier.is_dead(&here));
        let elsewhere = Owner { namespace: here.namespace + 1, ..earlier };
        assert!(!elsewhere.is_dead(&here));
        for name in ["forebay", "forebay-1", "forebay-a-b-c", "perf-1-2-3", "forebay-1-2"] {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_namespace_has_a_number() {
        assert_eq!(namespace("pid:[4026531836]"), Some(4_026_531_836));
        assert_eq!(namespace("pid:["), None);
    }

    #[test]
    fn what_a_killed_process_left_is_swept() {
        let Ok(top) = Folder::top() else {
            eprintln!("skip: instances of tracefs: needs root and tracefs");
            return;
        };
        let here = Owner::of_this_process().unwrap();
        let stale = format!("{INSTANCES}/{}-1", Owner { pid: 1 << 30, ..here.clone() });
        let alive = format!("{INSTANCES}/{here}-swept");
        mkdirat(&top.0, &stale, Mode::RWXU).unwrap();
        mkdirat(&top.0, &alive, Mode::RWXU).unwrap();
        top.sweep().unwrap();
        let left = (top.has(&stale), top.has(&alive));
        unlinkat(&top.0, &alive, AtFlags::REMOVEDIR).unwrap();
        assert_eq!(left, (false, true));
    }

    #[test]
    fn an_instance_goes_with_its_owner_or_with_the_next_start() {
        let top = || match Folder::top() {
            Ok(top) => Some(top),
            Err(error) => {
                eprintln!("skip: instances of tracefs: needs root and tracefs: {error}");
                None
            }
        };
        let Some(left) = top() else { return };
        // No process has so large a number.
        let here = Owner::of_this_process().unwrap();
        let stale = format!("{INSTANCES}/{}-0", Owner { pid: 1 << 30, ..here });
        mkdirat(&left.0, &stale, Mode::RWXU).unwrap();
        let instance = Instance::new(top().unwrap()).unwrap();
        assert!(!left.has(&stale));
        let path = instance.path.clone();
        assert!(left.has(&path));
        drop(instance);
        assert!(!left.has(&path));
    }
}
