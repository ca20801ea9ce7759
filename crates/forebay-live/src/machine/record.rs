//! Writes down what is read of a machine, as a folder that can be read in its place.
//!
//! It holds knobs, counters, mounts and settings of other tuners; no contents of files, no
//! processes, no environment. Sources of mounts name servers: look at it before sending it on.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::tree::{Tree, Unread};

/// Records a machine into a folder that does not exist yet; returns how many files it has.
pub fn record(tree: &Tree, into: &Path) -> Result<u64, Unread> {
    let failed = |source| Unread { path: into.to_owned(), source };
    fs::create_dir(into).map_err(failed)?;
    let mut copy = Copy { tree, into, files: 0 };
    copy.all().map_err(failed)?;
    Ok(copy.files)
}

struct Copy<'a> {
    tree: &'a Tree,
    into: &'a Path,
    files: u64,
}

impl Copy<'_> {
    fn all(&mut self) -> io::Result<()> {
        for path in FILES {
            self.file(path)?;
        }
        for name in self.names("/proc/sys/vm").iter().filter(|name| name.starts_with("dirty_")) {
            self.file(&format!("/proc/sys/vm/{name}"))?;
        }
        for name in self.names("/sys/block") {
            self.disk(&name)?;
        }
        for (folder, names) in [("/sys/class/bdi", BDI), ("/sys/kernel/debug/bdi", &["stats"])] {
            for bdi in self.names(folder) {
                for name in names {
                    self.file(&format!("{folder}/{bdi}/{name}"))?;
                }
            }
        }
        for folder in FOLDERS {
            for name in self.names(folder) {
                self.file(&format!("{folder}/{name}"))?;
            }
        }
        Ok(())
    }

    /// A disk with its place among the devices, which tells its kind.
    fn disk(&mut self, name: &str) -> io::Result<()> {
        let path = format!("/sys/block/{name}");
        if let Ok(target) = self.tree.link(&path)
            && let Some(place) = resolved(Path::new("/sys/block"), &target)
        {
            fs::create_dir_all(self.into.join("sys/block"))?;
            fs::create_dir_all(self.place(&place.to_string_lossy()))?;
            symlink(&target, self.place(&path))?;
            for above in place.ancestors().skip(1) {
                self.file(&above.join("speed").to_string_lossy())?;
            }
        }
        for attribute in DISK {
            self.file(&format!("{path}/{attribute}"))?;
        }
        for below in self.names(&format!("{path}/slaves")) {
            fs::create_dir_all(self.place(&format!("{path}/slaves/{below}")))?;
        }
        for part in self.names(&path).iter().filter(|part| part.starts_with(name)) {
            self.file(&format!("{path}/{part}/dev"))?;
        }
        Ok(())
    }

    /// A file, if it is there and may be read.
    fn file(&mut self, path: &str) -> io::Result<()> {
        let Ok(text) = self.tree.text(path) else { return Ok(()) };
        let place = self.place(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(place, text)?;
        self.files += 1;
        Ok(())
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.tree.names(path).unwrap_or_default()
    }

    fn place(&self, path: &str) -> PathBuf {
        self.into.join(path.trim_start_matches('/'))
    }
}

/// Where a link of a folder leads, by its words; none if it leads out of `/sys`.
fn resolved(folder: &Path, target: &Path) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    for part in target.components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    place.starts_with("/sys/").then_some(place)
}

const FILES: &[&str] = &[
    "/proc/sys/kernel/osrelease",
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/diskstats",
    "/proc/pressure/io",
    "/proc/self/mountinfo",
    "/etc/sysctl.conf",
    "/etc/tuned/active_profile",
    "/etc/tlp.conf",
    "/etc/laptop-mode/laptop-mode.conf",
];

const FOLDERS: &[&str] = &["/etc/udev/rules.d", "/etc/sysctl.d"];

const DISK: &[&str] = &[
    "dev",
    "size",
    "removable",
    "diskseq",
    "device/vendor",
    "device/model",
    "device/name",
    "device/type",
    "queue/read_ahead_kb",
    "queue/rotational",
    "queue/scheduler",
    "queue/nr_requests",
    "queue/max_sectors_kb",
    "queue/max_hw_sectors_kb",
    "queue/optimal_io_size",
    "queue/wbt_lat_usec",
    "queue/iostats",
    "queue/write_cache",
];

const BDI: &[&str] = &["read_ahead_kb", "max_ratio", "max_ratio_fine", "min_ratio", "strict_limit"];
