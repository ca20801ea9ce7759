//! What threads ask of which file: events, summed up until their pattern is clear.
//!
//! Source:     Forebay.
//! Behaviour:  counts of a process and a file are summed up from look to look until they are enough
//!             for a judgement, and then begin anew. Sixteen events are enough for any pattern;
//!             eight are enough for faults in no order if nothing else happened, because there are
//!             no more in half a second where windows are largest and help is wanted most.
//!             The same counts are summed up over the files of a process that are not read in some
//!             other way: two hundred files that are faulted in once a second each are clear
//!             together long before one of them is. They are also summed up over the processes that
//!             fault in one file: sixteen that opened it themselves share what the device gives,
//!             and are clear together in a sixteenth of the time.
//! Differs:    nothing.
//! Not for:    threads whose process cannot be told: their counts belong to none.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::time::{Duration, Instant};

use super::User;
use crate::number::FileKey;
use crate::pattern::{Counts, FileSeen, Pattern};

/// What each process asks of each file.
#[derive(Debug, Default)]
pub struct Users {
    sums: BTreeMap<User, Sum>,
    pools: BTreeMap<User, Pool>,
    /// Faults of several processes in one file.
    crowds: BTreeMap<FileKey, Sum>,
}

/// Counts of the files of a process that are not clear one by one.
#[derive(Clone, Debug, Default)]
struct Pool {
    sum: Sum,
    /// Inode numbers since the counts began, as many as matter.
    files: BTreeSet<u64>,
    /// Windows since the last look.
    windows: u64,
    window: u64,
}

/// What a process asked of a file since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The process and the file.
    pub user: User,
    /// The pattern, if it became clear at this look.
    pub pattern: Pattern,
    /// Windows and ranges that went out.
    pub windows: u64,
    /// The window in KiB, as the file's last event had it; 0 if none did.
    pub window: u64,
    /// Bytes that were brought in.
    pub brought: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    counts: Counts,
    at: Instant,
}

impl Users {
    /// No user yet.
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
            Pattern::RandomFaults
            | Pattern::Stream
            | Pattern::ShortRuns { .. }
            | Pattern::Unclear => 0,
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
            // What is clear by itself is not clouded by what was before it.
            let mut pattern = judged(&counts, request, seen.run);
            if pattern == Pattern::Unclear {
                pattern = judged(&sum.counts, request, seen.run);
            }
            if pattern != Pattern::Unclear || sum.counts.events() >= SUM_MAX {
                sum.counts = Counts::default();
            }
            let windows = counts.order.max(counts.unbounded);
            let (window, brought) = (seen.window * page_kib, counts.brought * page_kib * 1_024);
            let asked = Asked { user, pattern, windows, window, brought };
            all.push((asked, counts));
        }
        self.judge_crowd(now, seen.file, &mut all);
        for (asked, counts) in &all {
            if matches!(asked.pattern, Pattern::RandomFaults | Pattern::Unclear) {
                self.pool(now, asked, *counts);
            }
        }
        all.into_iter().map(|(asked, _)| asked).collect()
    }

    /// Judges the processes together that fault in a file, each too seldom to be judged alone. The
    /// first window of a process says nothing: a stream begins with one, too.
    fn judge_crowd(&mut self, now: Instant, file: FileKey, all: &mut [(Asked, Counts)]) {
        let mut sum = self.crowds.get(&file).copied().unwrap_or_default();
        if now.since(sum.at) >= IDLE {
            sum.counts = Counts::default();
        }
        let mut crowd: Vec<&mut Asked> = Vec::new();
        for (asked, counts) in all.iter_mut().filter(|(it, _)| it.pattern == Pattern::Unclear) {
            let Some(own) = self.sums.get(&asked.user).map(|sum| sum.counts) else { continue };
            if own.order == 0 || own.sync > 0 || own.marker > 0 {
                continue;
            }
            let windows = counts.order.min(own.order - 1);
            sum.counts.order += windows;
            sum.counts.brought += counts.brought.saturating_mul(windows) / counts.order.max(1);
            crowd.push(asked);
        }
        let is_known = self.crowds.contains_key(&file);
        if crowd.is_empty() || (crowd.len() < 2 && !is_known) {
            return;
        }
        let pattern = judged(&sum.counts, 0, 0);
        if pattern != Pattern::Unclear {
            sum.counts = Counts::default();
            crowd.into_iter().for_each(|asked| asked.pattern = pattern);
        }
        if self.crowds.len() >= POOLS_MAX && !is_known {
            self.crowds.retain(|_, sum| now.since(sum.at) < IDLE);
        }
        if self.crowds.len() < POOLS_MAX || is_known {
            self.crowds.insert(file, Sum { at: now, ..sum });
        }
    }

    fn pool(&mut self, now: Instant, asked: &Asked, counts: Counts) {
        if counts.sync > 0 {
            // Reads by calls do not tell of mappings.
            return;
        }
        let user = User::pool(asked.user.file.dev, asked.user.process);
        if self.pools.len() >= POOLS_MAX && !self.pools.contains_key(&user) {
            self.pools.retain(|_, pool| now.since(pool.sum.at) < IDLE);
            if self.pools.len() >= POOLS_MAX {
                return;
            }
        }
        let pool = self.pools.entry(user).or_default();
        if now.since(pool.sum.at) >= IDLE {
            *pool = Pool::default();
        }
        pool.sum.counts += counts;
        pool.sum.at = now;
        pool.windows += asked.windows;
        if asked.window > 0 {
            pool.window = asked.window;
        }
        if pool.files.len() < POOL_FILES {
            pool.files.insert(asked.user.file.ino);
        }
    }

    /// What processes asked of many files each since the last call.
    pub fn pooled(&mut self) -> Vec<Asked> {
        let mut all = Vec::new();
        for (user, pool) in self.pools.iter_mut().filter(|(_, pool)| pool.windows > 0) {
            let is_pool = pool.files.len() >= POOL_FILES;
            let pattern = if is_pool { judged(&pool.sum.counts, 0, 0) } else { Pattern::Unclear };
            if pattern != Pattern::Unclear || pool.sum.counts.events() >= SUM_MAX {
                pool.sum.counts = Counts::default();
                pool.files.clear();
            }
            let windows = std::mem::take(&mut pool.windows);
            let (user, window) = (*user, pool.window);
            // They are counted with the files themselves.
            all.push(Asked { user, pattern, windows, window, brought: 0 });
        }
        all
    }

    /// A process has ended.
    pub fn exited(&mut self, process: u32) {
        self.sums.retain(|user, _| user.process != process);
        self.pools.retain(|user, _| user.process != process);
    }
}

fn judged(counts: &Counts, request: u64, run: u64) -> Pattern {
    let Counts { sync, marker, order, .. } = *counts;
    let is_large = counts.brought >= order.saturating_mul(LARGE);
    let enough = if is_large { FAULTS_LARGE_MIN } else { FAULTS_MIN };
    if order >= enough && sync == 0 && marker == 0 {
        return Pattern::RandomFaults;
    }
    let request = if request > 0 { request } else { counts.brought / counts.sync.max(1) };
    counts.pattern(request, run)
}

/// The most pairs of process and file whose counts are kept.
pub const USERS_MAX: usize = 1_024;

/// Pools whose counts are kept.
const POOLS_MAX: usize = 256;

/// The fewest files that are judged together: fewer become clear one by one.
const POOL_FILES: usize = 4;

/// The fewest windows that tell faults in no order from anything else, if nothing else happened: a
/// stream reaches its marker in each.
const FAULTS_MIN: u64 = 8;

/// Half of them, where a window has so many pages (4 MiB): the larger it is, the longer eight of
/// them take, and the more is lost meanwhile.
const FAULTS_LARGE_MIN: u64 = 4;
const LARGE: u64 = 1_024;

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
        // Threads 1x are of process 10, and the process of the others is unknown.
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
    fn files_that_are_faulted_in_seldom_are_clear_together() {
        let (mut users, mut patterns) = (Users::new(), Patterns::new());
        for ino in 0..8 {
            let file = FileKey { ino: 100 + ino, ..FILE };
            let readahead = Readahead { why: Why::Order, file, index: 7, pages: 32, window: 32 };
            patterns.record(&Event { at: 1, pid: 11, what: What::Readahead(readahead) });
        }
        let now = Instant::ZERO + Duration::from_secs(1);
        for seen in patterns.settle(now) {
            let asked = users.record(now, seen, |_| Some(10));
            assert_eq!(asked[0].pattern, Pattern::Unclear);
        }
        let pool = User::pool(FILE.dev, 10);
        let expected = Asked {
            user: pool,
            pattern: Pattern::RandomFaults,
            windows: 8,
            window: 128,
            brought: 0,
        };
        assert_eq!(users.pooled(), [expected]);
        assert_eq!(users.pooled(), [], "nothing happened since");
        record(&mut patterns, 11, Why::Order, 8);
        looked(&mut users, &mut patterns, 2);
        assert_eq!(users.pooled()[0].pattern, Pattern::Unclear, "one file is no pool");
    }

    /// Each of sixteen processes had a window a second, so that none was clear for eight seconds.
    #[test]
    fn processes_that_opened_one_file_are_clear_together_and_a_stream_is_not_one_of_them() {
        // Windows and markers of each process in each look, and the patterns at its end.
        let (faults, stream) = ((1, 0), (1, 1));
        let unclear = [Pattern::Unclear; 8];
        let random = [Pattern::RandomFaults; 8];
        let mut but_one = random;
        but_one[7] = Pattern::Unclear;
        let table = [
            (vec![[faults; 8]], unclear, "a stream begins with a window, too"),
            (vec![[faults; 8]; 2], random, "eight windows that are no first ones"),
            (
                vec![[faults; 8], [[faults; 7].as_slice(), &[stream]].concat().try_into().unwrap()],
                unclear,
                "seven",
            ),
            (
                vec![[[faults; 7].as_slice(), &[stream]].concat().try_into().unwrap(); 3],
                but_one,
                "the stream is left out",
            ),
            (vec![[stream; 8]; 2], unclear, "streams"),
        ];
        for (looks, expected, why) in table {
            let (mut users, mut patterns) = (Users::new(), Patterns::new());
            let mut found = Vec::new();
            for (second, look) in (1..).zip(looks) {
                for (pid, (windows, markers)) in (11..).zip(look) {
                    record(&mut patterns, pid, Why::Async, markers);
                    record(&mut patterns, pid, Why::Order, windows);
                }
                let now = Instant::ZERO + Duration::from_secs(second);
                let seen = patterns.settle(now)[0];
                found = users.record(now, &seen, Some);
            }
            let found: Vec<Pattern> = found.iter().map(|asked| asked.pattern).collect();
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn four_large_windows_are_enough() {
        for (pages, expected) in [(1_023, Pattern::Unclear), (1_024, Pattern::RandomFaults)] {
            let (mut users, mut patterns) = (Users::new(), Patterns::new());
            for step in 0..4 {
                let index = step * 7_919;
                let readahead =
                    Readahead { why: Why::Order, file: FILE, index, pages, window: pages };
                patterns.record(&Event { at: 1, pid: 11, what: What::Readahead(readahead) });
            }
            assert_eq!(looked(&mut users, &mut patterns, 1)[0].pattern, expected);
        }
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

    /// A look in which a scan turned into faults was neither, and what followed was summed up with
    /// it for seconds.
    #[test]
    fn a_mixture_does_not_cloud_what_follows_it() {
        let (mut users, mut patterns) = (Users::new(), Patterns::new());
        record(&mut patterns, 11, Why::Order, 25);
        record(&mut patterns, 11, Why::Async, 15);
        assert_eq!(looked(&mut users, &mut patterns, 1)[0].pattern, Pattern::Unclear);
        record(&mut patterns, 11, Why::Order, 20);
        assert_eq!(looked(&mut users, &mut patterns, 2)[0].pattern, Pattern::RandomFaults);
    }

    #[test]
    fn old_counts_and_threads_of_no_process_do_not_count() {
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
