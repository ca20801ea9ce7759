//! Rates by limits of control groups.
//!
//! The limits are set for one device in the root group of the `blkio` controller: there run the
//! kernel's threads that write pages back, and our programs join it. They go away with the device.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::measure::live::Model;

/// The controller of the first version of control groups.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    root: PathBuf,
}

/// What a device may do in a second; 0 sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Requests that read.
    pub(crate) read_iops: u64,
    /// Bytes that are read.
    pub(crate) read_bps: u64,
    /// Bytes that are written.
    pub(crate) write_bps: u64,
}

impl Throttle {
    /// The controller, if this machine has it.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let root = mounts.lines().find_map(blkio)?;
        let file = root.join("blkio.throttle.read_iops_device");
        file.exists().then_some(Self { root })
    }

    /// Where programs whose accesses shall be limited go.
    pub(crate) fn group(&self) -> &Path {
        &self.root
    }

    /// Limits a device, by its numbers as `7:200`.
    pub(crate) fn set(&self, device: &str, limits: Limits) -> Result<()> {
        let Limits { read_iops, read_bps, write_bps } = limits;
        for (file, limit) in
            [("read_iops", read_iops), ("read_bps", read_bps), ("write_bps", write_bps)]
        {
            let path = self.root.join(format!("blkio.throttle.{file}_device"));
            let line = format!("{device} {limit}");
            let problem = || format!("cannot write '{line}' to {}", path.display());
            fs::write(&path, &line).with_context(problem)?;
        }
        Ok(())
    }
}

impl Limits {
    /// A disk of our own with the same rates. It serves one request at a time, so that a request
    /// that is small takes its share of the number, and one that is large its share of the bytes.
    pub(crate) fn model(self) -> Model {
        let rate = [self.read_bps, self.write_bps].into_iter().filter(|rate| *rate > 0).min();
        let each = 1_000_000_000_u64.checked_div(self.read_iops).unwrap_or(0);
        Model {
            rate: rate.unwrap_or(u64::MAX),
            least: Duration::from_nanos(each),
            seek: Duration::ZERO,
            latency: Duration::ZERO,
        }
    }
}

/// The place of the controller, if this line of mounts is about it.
fn blkio(line: &str) -> Option<PathBuf> {
    let words: Vec<&str> = line.split(' ').collect();
    let [_, place, "cgroup", options, ..] = words[..] else { return None };
    options.split(',').any(|option| option == "blkio").then(|| PathBuf::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_among_mounts() {
        let line = "cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0";
        assert_eq!(blkio(line), Some(PathBuf::from("/sys/fs/cgroup/blkio")));
        for other in [
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0",
            "",
        ] {
            assert_eq!(blkio(other), None, "{other}");
        }
    }

    #[test]
    fn a_served_disk_has_the_same_rates() {
        let reads = Limits { read_iops: 250, read_bps: 1 << 20, write_bps: 0 }.model();
        assert_eq!((reads.rate, reads.least), (1 << 20, Duration::from_millis(4)));
        let writes = Limits { write_bps: 5, ..Limits::default() }.model();
        assert_eq!((writes.rate, writes.least), (5, Duration::ZERO));
    }
}
