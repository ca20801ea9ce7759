//! What a process costs, and mounts that end with it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::fs::{Advice, fadvise};

/// What a process and its threads used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Processor time, in the process and in the kernel for it.
    pub(crate) cpu: Duration,
    /// Faults that waited for a page to be filled.
    pub(crate) faults: u64,
}

impl Spent {
    /// Of this process.
    pub(crate) fn own() -> io::Result<Self> {
        Ok(Self::of(&getrusage(UsageWho::RUSAGE_SELF)?))
    }

    /// Of the children that this process has waited for.
    pub(super) fn of_children() -> io::Result<Self> {
        Ok(Self::of(&getrusage(UsageWho::RUSAGE_CHILDREN)?))
    }

    /// The difference to an earlier moment.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            faults: self.faults.saturating_sub(before.faults),
        }
    }

    fn of(usage: &Usage) -> Self {
        let cpu = duration(usage.user_time()) + duration(usage.system_time());
        Self { cpu, faults: usage.major_page_faults().unsigned_abs() }
    }
}

/// Processor time of a process, its ended threads included.
///
/// # Errors
/// There is no such process.
pub(crate) fn cpu_of(process: u32) -> io::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.cast_signed()))?;
    Ok(Duration::from(clock_gettime(clock)?))
}

/// Memory of a process in bytes: its current size, and its maximum.
///
/// # Errors
/// There is no such process.
pub(crate) fn rss_of(process: u32) -> io::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok((bytes(&status, "VmRSS:"), bytes(&status, "VmHWM:")))
}

/// Makes the kernel drop the cached pages of a file.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn forget(file: &Path) -> io::Result<()> {
    fadvise(&File::open(file)?, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Gives this thread, and processes that it starts, mounts that no other process sees. They are
/// gone when the last of these processes is, however it ends.
///
/// # Errors
/// It is for root only.
pub(crate) fn own_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    Ok(())
}

fn duration(time: TimeVal) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec().unsigned_abs());
    seconds + Duration::from_micros(time.tv_usec().unsigned_abs())
}

/// A line such as `VmRSS:      1234 kB`; zero if there is none.
fn bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_stands_in_its_status() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t 7 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), 1 << 20);
        assert_eq!(bytes(status, "VmHWM:"), 2 << 20);
        assert_eq!(bytes("Name:\tkthreadd\n", "VmRSS:"), 0);
    }

    #[test]
    fn a_process_knows_its_own_cost() {
        let (own, of) = (Spent::own().unwrap(), cpu_of(std::process::id()).unwrap());
        assert!(of > Duration::ZERO);
        assert!(Spent::own().unwrap().since(own).cpu <= own.cpu + of + Duration::from_secs(60));
        assert!(rss_of(std::process::id()).unwrap().0 > 0);
    }
}
