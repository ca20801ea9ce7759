//! The kernel's description of a file's device, of memory and of itself.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Limits of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) read_ahead_kib: u64,
    pub(super) max_sectors_kib: u64,
    pub(super) write_requests: u32,
    /// Whether it has no queue of this kernel.
    pub(super) remote: bool,
    /// Where they come from.
    pub(super) source: String,
}

/// The limits of the device that a file lies on, or of a device.
pub(super) fn limits(path: &Path) -> Limits {
    let device = fs::metadata(path).map(|found| match found.file_type().is_block_device() {
        true => found.rdev(),
        false => found.dev(),
    });
    let Ok(device) = device else { return assumed() };
    let (major, minor) = (major(device), minor(device));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has no queue directory, but lies in the directory of its disk.
    let queue = [folder.join("queue"), folder.join("../queue")];
    if let Some(queue) = queue.iter().find(|queue| queue.is_dir()) {
        let number = |name: &str, otherwise| number(&queue.join(name)).unwrap_or(otherwise);
        return Limits {
            read_ahead_kib: number("read_ahead_kb", 128),
            max_sectors_kib: number("max_sectors_kb", 512).max(4),
            write_requests: u32::try_from(number("nr_requests", 64)).unwrap_or(64).clamp(1, 65_536),
            remote: false,
            source: format!("/sys/dev/block/{major}:{minor}/queue"),
        };
    }
    let bdi = format!("/sys/class/bdi/{major}:{minor}");
    let Some(read_ahead_kib) = number(&Path::new(&bdi).join("read_ahead_kb")) else {
        return assumed();
    };
    // Such file systems read as much at once as they read ahead.
    let max_sectors_kib = read_ahead_kib.clamp(4, 1_024);
    Limits { read_ahead_kib, max_sectors_kib, remote: true, source: bdi, ..assumed() }
}

fn assumed() -> Limits {
    Limits {
        read_ahead_kib: 128,
        max_sectors_kib: 512,
        write_requests: 64,
        remote: false,
        source: "the kernel's defaults, as the device has no queue".to_owned(),
    }
}

/// Memory that files can be cached in.
pub(super) fn page_cache() -> Option<u64> {
    memory_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn memory_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

/// The readahead policy that is nearest to the running kernel's.
pub(super) fn readahead() -> &'static str {
    readahead_of(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn readahead_of(release: &str) -> &'static str {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (parts.next().and_then(Result::ok), parts.next().and_then(Result::ok));
    match version {
        (Some(major), Some(minor)) if (major, minor) >= (6, 17) => "linux-6.18",
        _ => "linux-6.12",
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_that_of_the_version() {
        for (release, policy) in [
            ("6.18.44-fc", "linux-6.18"),
            ("7.0.0", "linux-6.18"),
            ("6.12.1+deb13-amd64", "linux-6.12"),
            ("5.10", "linux-6.12"),
            ("odd", "linux-6.12"),
        ] {
            assert_eq!(readahead_of(release), policy, "{release}");
        }
    }

    #[test]
    fn available_memory_is_read_from_its_line() {
        let text = "MemTotal:       100 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(memory_available(text), Some(2_097_152));
        assert_eq!(memory_available("MemTotal: 1 kB\n"), None);
    }
}
