//! Who asks what of which file: events of threads, summed up until their pattern is clear.
//!
//! Source:     Forebay.
//! Behaviour:  counts of a process and a file are summed up from look to look until they are enough
//!             for a judgement, and then begin anew. Sixteen events are enough for any pattern;
//!             eight are enough for faults in no order if nothing else happened, because there are
//!             no more in half a second where windows are largest and help is wanted most.
//! Differs:    nothing.
//! Not for:    threads whose process cannot be told: their counts are nobody's.

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};

use super::User;
use crate::pattern::{Counts, FileSeen, Pattern};

/// What each process asks of each file.
#[derive(Debug, Default)]
pub struct Users {
    sums: BTreeMap<User, Sum>,
}

/// What a process asked of a file since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who and what.
    pub user: User,
    /// The pattern, if it became clear at this look.
    pub pattern: Pattern,
    /// Windows and ranges that went out.
    pub windows: u64,
    /// The window in KiB, as the file's last event had it; 0 if none did.
    pub window: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    counts: Counts,
    at: Instant,
}

impl Users {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what the threads of one file did; `process` says whose a thread is.
    pub fn record(
        &mut self,
        now: Instant,
        seen: &FileSeen,
        mut process: impl FnMut(u32) -> Option<u32>,
    ) -> Vec<Asked> {
        let mut asked: BTreeMap<User, Counts> = BTreeMap::new();
        for thread in seen.threads.iter() {
            let Some(process) = process(thread.thread) else { continue };
            *asked.entry(User { file: seen.file, process }).or_default() += thread.counts;
        }
        if self.sums.len() + asked.len() > USERS_MAX {
            self.sums.retain(|_, sum| now.since(sum.at) < IDLE);
        }
        let page_kib = rustix::param::page_size() as u64 / 1_024;
        let request = match seen.pattern {
            Pattern::RandomReads { request } => request,
            Pattern::RandomFaults | Pattern::Stream | Pattern::Unclear => 0,
        };
        let mut all = Vec::new();
        for (user, counts) in asked {
            if self.sums.len() >= USERS_MAX && !self.sums.contains_key(&user) {
                continue;
            }
            let sum = self.sums.entry(user).or_default();
            if now.since(sum.at) >= IDLE {
                sum.counts = Counts::default();
            }
            sum.counts += counts;
            sum.at = now;
            let pattern = judged(&sum.counts, request);
            if pattern != Pattern::Unclear || sum.counts.events() >= SUM_MAX {
                sum.counts = Counts::default();
            }
            let windows = counts.order.max(counts.unbounded);
            all.push(Asked { user, pattern, windows, window: seen.window * page_kib });
        }
        all
    }

    /// A process has ended.
    pub fn exited(&mut self, process: u32) {
        self.sums.retain(|user, _| user.process != process);
    }
}

fn judged(counts: &Counts, request: u64) -> Pattern {
    let Counts { sync, marker, order, .. } = *counts;
    if order >= FAULTS_MIN && sync == 0 && marker == 0 {
        return Pattern::RandomFaults;
    }
    let request = if request > 0 { request } else { counts.brought / counts.sync.max(1) };
    counts.pattern(request)
}

/// The most pairs of process and file whose counts are kept.
pub const USERS_MAX: usize = 1_024;

/// The fewest windows that tell faults in no order from anything else, if nothing else happened: a
/// stream reaches its marker in each.
const FAULTS_MIN: u64 = 8;

/// Events after which a mixture begins anew, so that what was does not outweigh what is.
const SUM_MAX: u64 = 256;

/// Counts as old as this say nothing.
const IDLE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{DevNumber, FileKey};
    use crate::pattern::Patterns;
    use crate::trace::{Event, Readahead, What, Why};

    const FILE: FileKey = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };

    fn record(patterns: &mut Patterns, pid: u32, why: Why, count: u64) {
        for step in 0..count {
            let (index, pages, window) = (step * 7_919, 32, 32);
            let readahead = Readahead { why, file: FILE, index, pages, window };
            patterns.record(&Event { at: 1, pid, what: What::Readahead(readahead) });
        }
    }

    fn looked(users: &mut Users, patterns: &mut Patterns, second: u64) -> Vec<Asked> {
        let now = Instant::ZERO + Duration::from_secs(second);
        let seen = patterns.settle(now).first().copied();
        // Threads 1x are of process 10, and nobody knows whose the others are.
        let process = |thread: u32| (thread < 20).then_some(10);
        seen.map_or(Vec::new(), |seen| users.record(now, &seen, process))
    }

    #[test]
    fn eight_windows_without_anything_else_are_faults_in_no_order() {
        let (mut users, mut patterns) = (Users::new(), Patterns::new());
        record(&mut patterns, 11, Why::Order, 5);
        let asked = looked(&mut users, &mut patterns, 1);
        assert_eq!((asked[0].pattern, asked[0].windows), (Pattern::Unclear, 5));
        record(&mut patterns, 12, Why::Order, 3);
        let asked = looked(&mut users, &mut patterns, 2);
        assert_eq!((asked[0].pattern, asked[0].windows), (Pattern::RandomFaults, 3));
        assert_eq!((asked[0].user.process, asked[0].window), (10, 128));
        record(&mut patterns, 11, Why::Order, 7);
        let asked = looked(&mut users, &mut patterns, 3);
        assert_eq!(asked[0].pattern, Pattern::Unclear, "a judgement begins anew");
    }

    #[test]
    fn windows_whose_markers_are_reached_are_a_stream() {
        let (mut users, mut patterns) = (Users::new(), Patterns::new());
        for (second, expected) in [(1, Pattern::Unclear), (2, Pattern::Stream)] {
            record(&mut patterns, 11, Why::Order, 5);
            record(&mut patterns, 11, Why::Async, 5);
            assert_eq!(looked(&mut users, &mut patterns, second)[0].pattern, expected);
        }
    }

    #[test]
    fn old_counts_and_threads_of_nobody_do_not_count() {
        let (mut users, mut patterns) = (Users::new(), Patterns::new());
        record(&mut patterns, 11, Why::Order, 7);
        looked(&mut users, &mut patterns, 1);
        record(&mut patterns, 11, Why::Order, 7);
        assert_eq!(looked(&mut users, &mut patterns, 20)[0].pattern, Pattern::Unclear);
        record(&mut patterns, 77, Why::Order, 50);
        assert_eq!(looked(&mut users, &mut patterns, 21), []);
        users.exited(10);
        assert!(users.sums.is_empty());
    }
}
