//! What the loop looks at and waits for: this machine, or a script.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;

use forebay_core::time::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_gettime};

use super::debugfs::Debugfs;
use crate::knob::OpenFile;
use crate::machine::Machine;
use crate::number::{DevNumber, FileKey};
use crate::signal::{BdiCounts, Sample, Sampler};
use crate::steer::User;
use crate::steer::file::{self, Held, Unreachable};
use crate::steer::files::Progress;
use crate::steer::temporary::{FileNow, WrittenFile};
use crate::steer::writers::Written;
use crate::trace::{DirtiedInode, Drained, Event, TraceError, Tracer, Wakeup};
use crate::tree::Tree;

/// What the loop looks at and waits for.
pub trait World {
    /// The time.
    fn now(&mut self) -> Instant;

    /// The levels of the machine as they are; the rest of a sample stays as it is.
    fn levels(&mut self, into: &mut Sample) -> Result<(), String>;

    /// Memory and disks as they are, without backing devices.
    fn rest(&mut self, into: &mut Sample) -> Result<(), String>;

    /// What there is. Costs milliseconds.
    fn machine(&mut self) -> Machine;

    /// What happened since the last call.
    fn drain(&mut self, each: &mut dyn FnMut(Event)) -> Result<Drained, TraceError>;

    /// The process of a thread.
    fn process(&mut self, thread: u32) -> Option<u32>;

    /// What a process got so far; none if it has ended or may not be seen.
    fn progress(&mut self, process: u32) -> Option<Progress>;

    /// Whether a process is there.
    fn is_there(&mut self, process: u32) -> bool;

    /// Whether a descriptor is of its file.
    fn is_open(&self, file: &OpenFile) -> bool;

    /// How a process has a file open.
    fn held(&mut self, user: &User) -> Result<Held, Unreachable>;

    /// Whether two processes hold one open file description of a file; none if it cannot be told.
    fn shares(&mut self, one: &User, other: &User) -> Option<bool>;

    /// How a process has the files of a file system open, but some.
    fn held_on(&mut self, pool: &User, but: &BTreeSet<FileKey>) -> Result<Held, Unreachable>;

    /// What a process has written, and the files that it can write to on some devices.
    fn written(&mut self, process: u32, is_on: &dyn Fn(DevNumber) -> bool) -> Option<Written>;

    /// Hands out the files that became dirty on the devices that are watched, since the last call.
    fn dirtied(&mut self, each: &mut dyn FnMut(DirtiedInode));

    /// A file that a process has open; none if it has it no more.
    fn written_file(&mut self, user: &User) -> Option<WrittenFile>;

    /// What a file that was found before is by now; none if it is there no more.
    fn file_now(&mut self, user: &User, found: &WrittenFile) -> Option<FileNow>;

    /// Free bytes of the file system that is mounted at a place.
    fn free(&mut self, place: &Path) -> Option<u64>;

    /// Waits for this long, or until something else is to be done; files that become dirty, and
    /// events, are something else if that is asked for.
    fn wait(&mut self, length: Duration, wakes: Wakes) -> Woken;

    /// Lets this pass, whatever happens.
    fn pause(&mut self, length: Duration);

    /// Whether files that become dirty end a wait.
    fn wakes(&self) -> bool;

    /// The devices whose files do.
    fn watched(&self) -> BTreeSet<DevNumber>;

    /// Writeback of one backing device as it is, if it can be had.
    fn bdi(&mut self, number: DevNumber) -> Option<BdiCounts>;
}

/// What ends a wait besides its time, mounts and the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Files that become dirty.
    pub dirty: bool,
    /// The first event that can be drained.
    pub events: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time is over.
    Time,
    /// Something was mounted or unmounted.
    Mounts,
    /// A file of a device that is watched for this became dirty; [`World::dirtied`] says which, and
    /// makes the next one end a wait again.
    Dirty,
    /// There is something to drain.
    Events,
    /// It is to end.
    Stop,
}

/// This machine.
#[derive(Debug)]
pub struct Live {
    tree: Tree,
    sampler: Sampler,
    tracer: Option<Tracer>,
    wakeup: Option<Wakeup>,
    /// Becomes readable when it is to end.
    stop: OwnedFd,
    mounts: Option<std::fs::File>,
    debugfs: Option<Debugfs>,
    /// The processes of threads that were seen of late.
    processes: BTreeMap<u32, u32>,
}

impl Live {
    /// A machine with a trace, or without one where there is none; the same for a wakeup.
    pub fn new(
        tree: Tree,
        sampler: Sampler,
        tracer: Option<Tracer>,
        wakeup: Option<Wakeup>,
        stop: OwnedFd,
    ) -> Self {
        let mounts = tree.opened("/proc/self/mountinfo").ok();
        let debugfs = if tree.is_machine() { Debugfs::opened().ok() } else { None };
        // Without a look at the device it is unknown whether a wake-up is worthwhile.
        let wakeup = wakeup.filter(|_| debugfs.is_some());
        Self { tree, sampler, tracer, wakeup, stop, mounts, debugfs, processes: BTreeMap::new() }
    }
}

impl World for Live {
    fn now(&mut self) -> Instant {
        monotonic()
    }

    fn levels(&mut self, into: &mut Sample) -> Result<(), String> {
        self.sampler.take_levels(monotonic(), into).map_err(|error| error.to_string())
    }

    fn rest(&mut self, into: &mut Sample) -> Result<(), String> {
        self.sampler.take_rest(into).map_err(|error| error.to_string())
    }

    fn machine(&mut self) -> Machine {
        self.sampler.forget_names();
        Machine::read(&self.tree)
    }

    fn drain(&mut self, mut each: &mut dyn FnMut(Event)) -> Result<Drained, TraceError> {
        // Numbers of threads are used again, so that none is believed for long.
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        self.tracer.as_mut().map_or(Ok(Drained::default()), |tracer| tracer.drain(&mut each))
    }

    fn process(&mut self, thread: u32) -> Option<u32> {
        if let Some(process) = self.processes.get(&thread) {
            return Some(*process);
        }
        let text = self.tree.text(&format!("/proc/{thread}/status")).ok()?;
        let process = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        let process = process.trim().parse().ok()?;
        self.processes.insert(thread, process);
        Some(process)
    }

    fn progress(&mut self, process: u32) -> Option<Progress> {
        let stat = self.tree.text(&format!("/proc/{process}/stat")).ok()?;
        let io = self.tree.text(&format!("/proc/{process}/io")).ok();
        progress(&stat, io.as_deref())
    }

    fn is_open(&self, file: &OpenFile) -> bool {
        file::is_open(file, &self.tree)
    }

    fn is_there(&mut self, process: u32) -> bool {
        let there = crate::knob::started(process).is_some();
        if !there {
            self.processes.retain(|_, of| *of != process);
        }
        there
    }

    fn held(&mut self, user: &User) -> Result<Held, Unreachable> {
        file::held(user, &self.tree)
    }

    fn shares(&mut self, one: &User, other: &User) -> Option<bool> {
        file::shares(one, other, &self.tree)
    }

    fn held_on(&mut self, pool: &User, but: &BTreeSet<FileKey>) -> Result<Held, Unreachable> {
        file::held_on(pool.file.dev, pool.process, but, &self.tree)
    }

    fn written(&mut self, process: u32, is_on: &dyn Fn(DevNumber) -> bool) -> Option<Written> {
        file::written(process, is_on, &self.tree)
    }

    fn dirtied(&mut self, each: &mut dyn FnMut(DirtiedInode)) {
        if let Some(wakeup) = &mut self.wakeup {
            wakeup.take(each);
        }
    }

    fn written_file(&mut self, user: &User) -> Option<WrittenFile> {
        file::written_file(user, &self.tree)
    }

    fn file_now(&mut self, user: &User, found: &WrittenFile) -> Option<FileNow> {
        file::file_now(user, found, &self.tree)
    }

    fn free(&mut self, place: &Path) -> Option<u64> {
        let found = statvfs(self.tree.place(&place.to_string_lossy())).ok()?;
        found.f_bfree.checked_mul(found.f_frsize)
    }

    fn wait(&mut self, length: Duration, wakes: Wakes) -> Woken {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        if let Some(mounts) = &self.mounts {
            fds.push(PollFd::new(mounts, PollFlags::PRI));
        }
        let events_from = fds.len();
        let buffers = self.tracer.iter().filter(|_| wakes.events).flat_map(Tracer::fds);
        fds.extend(buffers.map(|buffer| PollFd::from_borrowed_fd(buffer, PollFlags::IN)));
        let dirty_from = fds.len();
        let buffers = self.wakeup.iter().filter(|_| wakes.dirty).flat_map(Wakeup::fds);
        fds.extend(buffers.map(|buffer| PollFd::from_borrowed_fd(buffer, PollFlags::IN)));
        let nanos = length.as_nanos();
        let timeout = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        // A wait that a signal cut short is a short wait.
        let ready = poll(&mut fds, Some(&timeout)).unwrap_or(0);
        if ready == 0 {
            return Woken::Time;
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if is_ready(&fds[0]) {
            return Woken::Stop;
        }
        // Mounts are told once, while the rest stays in its buffer for the next wait.
        if fds[1..events_from].iter().any(is_ready) {
            return Woken::Mounts;
        }
        let is_dirty = fds[dirty_from..].iter().any(is_ready);
        if is_dirty { Woken::Dirty } else { Woken::Events }
    }

    fn pause(&mut self, length: Duration) {
        std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
    }

    fn wakes(&self) -> bool {
        self.wakeup.is_some()
    }

    fn watched(&self) -> BTreeSet<DevNumber> {
        self.wakeup.iter().flat_map(Wakeup::devices).copied().collect()
    }

    fn bdi(&mut self, number: DevNumber) -> Option<BdiCounts> {
        self.debugfs.as_mut()?.counts(number)
    }
}

/// What `/proc/PID/stat` and `/proc/PID/io` say; the latter may be closed to us.
fn progress(stat: &str, io: Option<&str>) -> Option<Progress> {
    let (_, behind) = stat.rsplit_once(')')?;
    // The third field comes first here: minor faults are the tenth, major ones the twelfth,
    // threads the twentieth, and the time of the start is the twenty-second.
    let mut fields = behind.split_ascii_whitespace().skip(7);
    let minor_faults = fields.next()?.parse().ok()?;
    let major_faults = fields.nth(1)?.parse().ok()?;
    let threads = fields.nth(7)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let of = |name: &str| -> u64 {
        let mut lines = io.unwrap_or_default().lines();
        let number = lines.find_map(|line| line.strip_prefix(name));
        number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    let asked = of("rchar:");
    let bytes = asked.max(of("read_bytes:"));
    Some(Progress { started, major_faults, minor_faults, bytes, asked, threads })
}

fn monotonic() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

/// Threads whose process is remembered.
const PROCESSES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_behind_a_name_that_may_hold_anything() {
        let stat = "77 (a) b) R 1 77 77 0 -1 4194304 1234 0 56 0 7 8 0 0 20 0 3 0 4711 99";
        let io = "rchar: 10\nwchar: 0\nread_bytes: 4096\n";
        let found = progress(stat, Some(io)).unwrap();
        let expected = Progress {
            started: 4_711,
            major_faults: 56,
            minor_faults: 1_234,
            bytes: 4_096,
            asked: 10,
            threads: 3,
        };
        assert_eq!(found, expected);
        assert_eq!(progress(stat, None).unwrap().bytes, 0);
        assert_eq!(progress("77 (a", None), None);
        assert_eq!(progress("77 (a) R 1 2", None), None);
    }
}
