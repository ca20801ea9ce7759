//! What may be steered: devices, processes and control groups that were named, or everything.
//!
//! Names of one kind add up; kinds narrow each other. With a device and a process named, the
//! process's files on that device are steered, and nothing else. A process stands for itself and
//! for all that it starts, as long as the line of parents is not broken by an exit. A dirty limit
//! acts on every writer of its device, so that it is steered only where no process is named, or the
//! device is named too.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::machine::{Device, Machine};
use crate::number::DevNumber;
use crate::process::started;
use crate::tree::Tree;

/// Something that was named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A process and what it starts.
    Process {
        /// Its number.
        pid: u32,
        /// When it started, in ticks since boot: tells it from a later one of the same number.
        started: u64,
    },
    /// A control group and those below it, as a path from the root of the hierarchy.
    Cgroup(String),
    /// A backing device.
    Device(DevNumber),
}

/// A name that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no process, no control group and no device of this machine", .0.escape_debug())]
pub struct Unknown(pub String);

/// What may be steered.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    within: BTreeSet<Named>,
    protected: BTreeSet<Named>,
    only: Option<Slot>,
}

/// The two things that are steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Windows.
    Readahead,
    /// Dirty limits.
    Writeback,
}

impl Slot {
    /// By the name that a user types.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "readahead" => Some(Self::Readahead),
            "writeback" => Some(Self::Writeback),
            _ => None,
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, .. } => write!(out, "process {pid}"),
            Self::Cgroup(path) => write!(out, "control group {path}"),
            Self::Device(number) => write!(out, "device {number}"),
        }
    }
}

impl Named {
    /// What a word stands for: a number is a process, `MAJ:MIN`, a name as the kernel has it and a
    /// path of a device node are a device, and any other path is a control group.
    pub fn parse(word: &str, machine: &Machine, tree: &Tree) -> Result<Self, Unknown> {
        let unknown = || Unknown(word.to_owned());
        if let Ok(pid) = word.parse::<u32>() {
            let pid = process(pid, tree);
            let started = started(tree, pid).ok_or_else(unknown)?;
            return Ok(Self::Process { pid, started });
        }
        let device = |number| machine.device_of(number).map(|found| Self::Device(found.number));
        if let Ok(number) = word.parse::<DevNumber>() {
            return device(number).ok_or_else(unknown);
        }
        if let Some(found) = machine.devices.iter().find(|found| found.name == word) {
            return Ok(Self::Device(found.number));
        }
        if word.starts_with("/dev/")
            && let Ok(node) = std::fs::metadata(tree.place(word))
            && node.file_type().is_block_device()
        {
            return device(DevNumber::from_stat(node.rdev())).ok_or_else(unknown);
        }
        cgroup(word, tree).map(Self::Cgroup).ok_or_else(unknown)
    }
}

impl Scope {
    /// What was named; nothing named is everything.
    pub fn new(
        within: impl IntoIterator<Item = Named>,
        protected: impl IntoIterator<Item = Named>,
        only: Option<Slot>,
    ) -> Self {
        let [within, protected] = [within.into_iter().collect(), protected.into_iter().collect()];
        Self { within, protected, only }
    }

    /// Whether a slot is steered at all.
    pub fn has(&self, slot: Slot) -> bool {
        self.only.is_none_or(|only| only == slot)
    }

    /// Whether files on a device may be steered.
    pub fn has_device(&self, number: DevNumber) -> bool {
        let named = self.devices().next().is_some();
        let device = Named::Device(number);
        (!named || self.within.contains(&device)) && !self.protected.contains(&device)
    }

    /// Whether a device was named.
    pub fn names_device(&self, number: DevNumber) -> bool {
        self.within.contains(&Named::Device(number))
    }

    /// Whether a device may have a dirty limit, which all its writers feel.
    pub fn has_limit_of(&self, device: &Device) -> bool {
        let named = self.names_device(device.number);
        self.has_device(device.number) && (named || !self.narrows_processes())
    }

    /// Something that is to be steered and to be left alone.
    pub fn contradiction(&self) -> Option<&Named> {
        self.within.intersection(&self.protected).next()
    }

    /// Whether a process may be steered. Its ancestors and its group are read only if some process
    /// or group was named.
    pub fn has_process(&self, pid: u32, tree: &Tree) -> bool {
        let is_in = |named: &Named| match named {
            Named::Process { pid: root, started } => descends(pid, *root, *started, tree),
            Named::Cgroup(path) => is_in_group(pid, path, tree),
            Named::Device(_) => false,
        };
        let inside = !self.narrows_processes() || self.within.iter().any(is_in);
        inside && !self.protected.iter().any(is_in)
    }

    /// A process or group that is left alone, if one is.
    pub fn protected_process(&self) -> Option<&Named> {
        self.protected.iter().find(|named| !matches!(named, Named::Device(_)))
    }

    fn narrows_processes(&self) -> bool {
        self.within.iter().any(|named| !matches!(named, Named::Device(_)))
    }

    fn devices(&self) -> impl Iterator<Item = DevNumber> {
        self.within.iter().filter_map(|named| match named {
            Named::Device(number) => Some(*number),
            Named::Process { .. } | Named::Cgroup(_) => None,
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<Named>| {
            names.iter().map(Named::to_string).collect::<Vec<_>>().join(", ")
        };
        match self.within.is_empty() {
            true => write!(out, "all devices and processes")?,
            false => write!(out, "{}", list(&self.within))?,
        }
        if !self.protected.is_empty() {
            write!(out, ", but not {}", list(&self.protected))?;
        }
        Ok(())
    }
}

/// The process of a thread, which may be named by any of its threads.
fn process(thread: u32, tree: &Tree) -> u32 {
    let text = tree.text(&format!("/proc/{thread}/status")).unwrap_or_default();
    let group = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|group| group.trim().parse().ok()).unwrap_or(thread)
}

/// A control group by its path from the root of the hierarchy; none if there is no such group. The
/// root of a hierarchy is none either: it would stand for all processes, or for none.
fn cgroup(word: &str, tree: &Tree) -> Option<String> {
    let group = word.strip_prefix(CGROUPS).unwrap_or(word).trim_matches('/');
    let is_dir = |place: String| Path::is_dir(&tree.place(&place));
    // Each group of version 2 has this file, the root too.
    let is_v2 = tree.place(&format!("{CGROUPS}/cgroup.controllers")).exists();
    let (group, is_there) = if is_v2 {
        (group, is_dir(format!("{CGROUPS}/{group}")))
    } else {
        // Version 1 has a folder for each controller.
        let below = |controller| group.strip_prefix(controller)?.strip_prefix('/');
        let group = CONTROLLERS.into_iter().find_map(below).unwrap_or(group);
        let place = |controller| format!("{CGROUPS}/{controller}/{group}");
        (group, CONTROLLERS.into_iter().map(place).any(is_dir))
    };
    let is_path = group.split('/').all(|name| !matches!(name, "" | "." | ".."));
    (is_path && is_there).then(|| format!("/{group}"))
}

/// Whether a process is the one of this number and start, or was started below it.
fn descends(pid: u32, root: u32, since: u64, tree: &Tree) -> bool {
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        if at == root {
            return started(tree, at) == Some(since);
        }
        match parent(at, tree) {
            Some(parent) if parent != 0 && parent != at => at = parent,
            Some(_) | None => return false,
        }
    }
    false
}

/// The parent by `/proc/PID/stat`, where it is the second word behind the name in parentheses.
fn parent(pid: u32, tree: &Tree) -> Option<u32> {
    let text = tree.text(&format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a process is in a control group or below it, in any hierarchy.
fn is_in_group(pid: u32, group: &str, tree: &Tree) -> bool {
    let Ok(text) = tree.text(&format!("/proc/{pid}/cgroup")) else { return false };
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| {
        path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The longest line of parents that is followed.
const ANCESTORS_MAX: usize = 64;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Folders of hierarchies of version 1 that may hold a group's processes, and of version 2 beside
/// them.
const CONTROLLERS: [&str; 6] = ["unified", "systemd", "blkio", "memory", "cpu", "pids"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Process 7 started 8, which started 9; 9 is in `/batch/night`. Two disks.
    fn machine() -> (tempfile::TempDir, Tree, Machine) {
        let folder = tempfile::tempdir().unwrap();
        for (pid, parent) in [(1, 0), (7, 1), (8, 7), (9, 8)] {
            let place = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("stat"), stat(pid, parent, STARTED)).unwrap();
            let group = if pid == 9 { "/batch/night" } else { "/" };
            fs::write(place.join("cgroup"), format!("4:blkio:{group}\n0::/\n")).unwrap();
        }
        fs::create_dir_all(folder.path().join("sys/fs/cgroup/blkio/batch/night")).unwrap();
        // Process 8 has a second thread.
        fs::create_dir_all(folder.path().join("proc/10")).unwrap();
        fs::write(folder.path().join("proc/10/status"), "Name:\ta\nTgid:\t8\nPid:\t10\n").unwrap();
        let tree = Tree::recorded(folder.path()).unwrap();
        let device = |name: &str, minor, partitions| Device {
            number: DevNumber { major: 8, minor },
            name: name.to_owned(),
            partitions,
            ..Device::default()
        };
        let partition = DevNumber { major: 8, minor: 1 };
        let devices = vec![device("sda", 0, vec![partition]), device("sdb", 16, Vec::new())];
        (folder, tree, Machine { devices, ..Machine::default() })
    }

    fn stat(pid: u32, parent: u32, started: u64) -> String {
        format!("{pid} (a) name) S {parent}{} {started} 0\n", " 0".repeat(17))
    }

    fn process(pid: u32) -> Named {
        Named::Process { pid, started: STARTED }
    }

    fn scope(within: &[Named], protected: &[Named]) -> Scope {
        Scope::new(within.iter().cloned(), protected.iter().cloned(), None)
    }

    const STARTED: u64 = 4_711;
    const SDA: DevNumber = DevNumber { major: 8, minor: 0 };
    const SDB: DevNumber = DevNumber { major: 8, minor: 16 };

    #[test]
    fn a_word_is_a_process_a_device_or_a_group() {
        let (_folder, tree, machine) = machine();
        let parse = |word| Named::parse(word, &machine, &tree);
        assert_eq!(parse("7"), Ok(process(7)));
        assert_eq!(parse("10"), Ok(process(8)), "a thread is its process");
        for word in ["sda", "8:0", "8:1"] {
            assert_eq!(parse(word), Ok(Named::Device(SDA)), "{word}");
        }
        for word in ["batch/night", "/batch/night", "/sys/fs/cgroup/blkio/batch/night/"] {
            assert_eq!(parse(word), Ok(Named::Cgroup("/batch/night".to_owned())), "{word}");
        }
        for word in ["", "/", "6", "sdc", "8:32", "/dev/sdc", "no/such"] {
            assert_eq!(parse(word), Err(Unknown(word.to_owned())), "{word}");
        }
    }

    /// They were accepted as control groups in which no process is, so that nothing was tuned.
    #[test]
    fn the_root_of_a_hierarchy_is_no_group_in_whatever_words() {
        let (folder, tree, machine) = machine();
        let roots = [".", "..", "blkio", "/blkio/", "blkio/.", "/sys/fs/cgroup/blkio"];
        let dotted = ["batch/..", "batch/../batch/night", "batch//night", "/sys/fs/cgroup/."];
        for word in roots.into_iter().chain(dotted) {
            let found = Named::parse(word, &machine, &tree);
            assert_eq!(found, Err(Unknown(word.to_owned())), "{word}");
        }
        let root = folder.path().join("sys/fs/cgroup");
        fs::write(root.join("cgroup.controllers"), "io memory\n").unwrap();
        for word in ["blkio", "/sys/fs/cgroup/blkio"] {
            let found = Named::parse(word, &machine, &tree);
            let group = Named::Cgroup("/blkio".to_owned());
            assert_eq!(found, Ok(group), "a group of version 2 may be called {word}");
        }
        assert!(Named::parse("..", &machine, &tree).is_err());
    }

    #[test]
    fn a_later_process_of_the_same_number_is_another_one() {
        let (folder, tree, _) = machine();
        let all_but = scope(&[], &[process(8)]);
        let only = scope(&[process(8)], &[]);
        assert!(only.has_process(8, &tree) && !all_but.has_process(8, &tree));
        fs::write(folder.path().join("proc/8/stat"), stat(8, 7, STARTED + 1)).unwrap();
        for pid in [8, 9] {
            assert!(!only.has_process(pid, &tree) && all_but.has_process(pid, &tree), "{pid}");
        }
    }

    #[test]
    fn nothing_named_is_everything() {
        let (_folder, tree, machine) = machine();
        let all = scope(&[], &[]);
        assert!(all.has_device(SDA) && all.has_process(9, &tree));
        assert!(all.has_limit_of(&machine.devices[0]) && !all.names_device(SDA));
    }

    #[test]
    fn a_process_stands_for_what_it_starts() {
        let (_folder, tree, machine) = machine();
        let scope = scope(&[process(8)], &[]);
        assert!(scope.has_process(8, &tree) && scope.has_process(9, &tree));
        assert!(!scope.has_process(7, &tree), "its parent is not meant");
        assert!(!scope.has_process(77, &tree), "no such process");
        assert!(!scope.has_limit_of(&machine.devices[0]), "others write there too");
    }

    #[test]
    fn kinds_narrow_each_other_and_names_of_a_kind_add_up() {
        let (_folder, tree, machine) = machine();
        let named = [Named::Device(SDA), Named::Cgroup("/batch".to_owned()), process(7)];
        let scope = scope(&named, &[]);
        assert!(scope.has_device(SDA) && !scope.has_device(SDB));
        assert!(scope.has_process(9, &tree), "by its group");
        assert!(scope.has_process(8, &tree), "by its parent");
        assert!(!scope.has_process(1, &tree));
        assert!(scope.has_limit_of(&machine.devices[0]), "the device is named");
    }

    #[test]
    fn what_is_protected_is_left_alone_whatever_else_is_named() {
        let (_folder, tree, _) = machine();
        let scope = scope(&[Named::Device(SDA)], &[Named::Device(SDA), process(8)]);
        assert!(!scope.has_device(SDA));
        assert!(!scope.has_process(9, &tree) && scope.has_process(7, &tree));
        assert_eq!(scope.to_string(), "device 8:0, but not process 8, device 8:0");
    }

    #[test]
    fn a_group_is_not_one_whose_name_begins_alike() {
        let (_folder, tree, _) = machine();
        assert!(!scope(&[Named::Cgroup("/bat".to_owned())], &[]).has_process(9, &tree));
    }

    #[test]
    fn one_slot_alone_excludes_the_other() {
        let only = Scope::new([], [], Slot::parse("readahead"));
        assert!(only.has(Slot::Readahead) && !only.has(Slot::Writeback));
        assert_eq!(Slot::parse("elevator"), None);
    }
}
