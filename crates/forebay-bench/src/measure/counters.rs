//! What a round costs: processor time and switches of all threads but those that only run.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) cpu: Duration,
    pub(super) switches: u64,
    /// Of each thread.
    each: Vec<(u64, u64)>,
}

/// Threads that do nothing but run, one for each processor.
#[derive(Debug)]
pub(super) struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Arc<Hog>)>,
}

#[derive(Debug, Default)]
struct Hog {
    thread: AtomicU64,
    /// In nanoseconds; written all the time, so that it is right also when the thread is not
    /// running.
    cpu: AtomicU64,
}

impl Counters {
    /// Of this process without its hogs.
    pub(super) fn now(hogs: Option<&Hogs>) -> Self {
        let cpu = clock(ClockId::ProcessCPUTime);
        let hogs = || hogs.iter().flat_map(|hogs| &hogs.threads).map(|(_, hog)| hog);
        let theirs: u64 = hogs().map(|hog| hog.cpu.load(Ordering::Acquire)).sum();
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let each = tasks
            .filter_map(|task| {
                let thread = task.file_name().to_str()?.parse().ok()?;
                let is_hog = hogs().any(|hog| hog.thread.load(Ordering::Relaxed) == thread);
                let status = fs::read_to_string(task.path().join("status")).ok()?;
                (!is_hog).then_some((thread, voluntary(&status)?))
            })
            .collect();
        Self { cpu: cpu.saturating_sub(Duration::from_nanos(theirs)), switches: 0, each }
    }

    /// The difference to an earlier moment. A thread that has ended in between counts no switches.
    pub(super) fn since(mut self, before: &Self) -> Self {
        self.cpu = self.cpu.saturating_sub(before.cpu);
        for (thread, switches) in &self.each {
            let earlier = before.each.iter().find(|(other, _)| other == thread);
            self.switches += switches - earlier.map_or(0, |(_, switches)| *switches);
        }
        self
    }
}

impl Hogs {
    pub(super) fn start() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut hogs = Self { stop, threads: Vec::new() };
        let count = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..count {
            let (stop, hog) = (Arc::clone(&hogs.stop), Arc::new(Hog::default()));
            let mine = Arc::clone(&hog);
            let thread =
                thread::Builder::new().name("forebay-hog".to_owned()).spawn(move || {
                    mine.thread
                        .store(gettid().as_raw_pid().unsigned_abs().into(), Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        let cpu = clock(ClockId::ThreadCPUTime).as_nanos() as u64;
                        mine.cpu.store(cpu, Ordering::Release);
                    }
                })?;
            hogs.threads.push((thread, hog));
        }
        for (_, hog) in &hogs.threads {
            while hog.cpu.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (thread, _) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn voluntary(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switches_stand_in_a_line_of_their_own() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(voluntary(status), Some(15));
        assert_eq!(voluntary("nonvoluntary_ctxt_switches:\t2\n"), None);
    }

    #[test]
    fn a_new_thread_counts_from_its_begin() {
        let before = Counters { each: vec![(1, 10), (2, 5)], ..Counters::default() };
        let after = Counters { each: vec![(1, 12), (3, 4)], ..Counters::default() };
        assert_eq!(after.since(&before).switches, 2 + 4);
    }
}
