//! What each file is being asked, by its readahead events.
//!
//! Source:     Forebay; what the events of Linux 6.18 look like was counted for seven patterns.
//! Behaviour:  per file and period: many windows and hardly a marker reached are faults in no
//!             order; as many markers as windows are a stream; misses answered by plain ranges are
//!             reads in no order; misses that are followed by windows are reads in short runs.
//!             Whatever lies between is left alone. A pattern that is known
//!             gives way to another one after two judgements that agree, or after one of many
//!             events.
//! Differs:    nothing.
//! Not for:    files wholly cached, which cause no events.

use forebay_core::time::{Duration, Instant};

use self::file::File;
use self::table::Table;
use crate::number::FileKey;
use crate::trace::{Event, What};

pub use self::counts::Counts;
pub use self::ends::Ends;

mod counts;
mod ends;
mod file;
mod table;

/// What a file is being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Page faults in no order: each brings in a whole window.
    RandomFaults,
    /// A stream of reads or faults.
    Stream,
    /// Reads in no order, of this many pages each (the median).
    RandomReads {
        /// Pages.
        request: u64,
    },
    /// Reads in order that begin anew elsewhere: ranges of a database, blocks of a log.
    ShortRuns {
        /// Pages of a run, as far as events show it: the median by pages, a power of two.
        pages: u64,
    },
    /// Something between, or too few events to say.
    #[default]
    Unclear,
}

/// The files that readahead events were about of late.
#[derive(Debug, Default)]
pub struct Patterns {
    files: Table,
    seen: Vec<FileSeen>,
    forgotten: u64,
}

/// A file in a period.
#[derive(Clone, Copy, Debug)]
pub struct FileSeen {
    /// Which one.
    pub file: FileKey,
    /// What it is being asked, as far as it is known.
    pub pattern: Pattern,
    /// Since when it is.
    pub since: Instant,
    /// What happened in the period.
    pub counts: Counts,
    /// The largest window of its description, in pages, as the last event that says so had it;
    /// 0 if none did.
    pub window: u64,
    /// Pages that are read in order before the next jump: the median by pages, a power of two; 0 if
    /// there was no jump.
    pub run: u64,
    /// The threads that asked in the period.
    pub threads: Threads,
    /// The windows that may reach beyond the file's end.
    pub ends: Ends,
}

/// Some threads of a file, those that asked last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads {
    list: [ThreadSeen; THREADS_MAX],
    length: usize,
}

/// What a thread caused in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSeen {
    /// Its own number, which is its process's number too for the first thread.
    pub thread: u32,
    /// What happened.
    pub counts: Counts,
    /// The windows that may reach beyond the file's end.
    pub ends: Ends,
}

impl Patterns {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in an event; those that are not about readahead are passed over.
    pub fn record(&mut self, event: &Event) {
        let What::Readahead(readahead) = &event.what else { return };
        let at = Instant(event.at);
        let (file, forgot) = self.files.file(readahead.file, at);
        self.forgotten += u64::from(forgot);
        file.record(at, event.pid, readahead);
    }

    /// Ends a period: the files that had events in it, in the order of their numbers.
    pub fn settle(&mut self, now: Instant) -> &[FileSeen] {
        self.files.forget_until(Instant(now.0.saturating_sub(IDLE_MAX.0)));
        self.seen.clear();
        self.seen.extend(self.files.iter_mut().filter_map(|file| file.settle(now)));
        self.seen.sort_unstable_by_key(|seen| seen.file);
        &self.seen
    }

    /// What a file is being asked, as the last period had it.
    pub fn pattern(&self, file: FileKey) -> Pattern {
        self.files.known(file).map_or(Pattern::Unclear, File::pattern)
    }

    /// Files that had to go because too many others were busy, so far.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl Pattern {
    /// What it is called in sentences.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RandomFaults => "random faults",
            Self::Stream => "a stream",
            Self::RandomReads { .. } => "random reads",
            Self::ShortRuns { .. } => "short runs",
            Self::Unclear => "unclear",
        }
    }

    /// Whether both are of one kind, whatever the size of their requests.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl std::ops::Deref for Threads {
    type Target = [ThreadSeen];

    fn deref(&self) -> &[ThreadSeen] {
        &self.list[..self.length]
    }
}

impl Threads {
    fn push(&mut self, thread: ThreadSeen) {
        if let Some(free) = self.list.get_mut(self.length) {
            *free = thread;
            self.length += 1;
        }
    }
}

/// Files that are followed at once; beyond, the one that was idle for longest goes. With a few
/// threads each they are a MiB.
pub const FILES_MAX: usize = 512;

/// Threads of a file that are told apart; beyond, the one that was idle for longest goes, and what
/// it did stays in the file's counts. Servers read one file with as many workers.
pub const THREADS_MAX: usize = 16;

/// Events that a judgement needs at least. Rates of fewer are chance; at 16 faults a second, which
/// is what windows of 8 MiB leave of a cloud volume, a second gives so many.
pub const EVENTS_MIN: u64 = 16;

/// Events after which one judgement is enough to give up a known pattern: four times the least,
/// which two judgements in a row need not have.
pub const EVENTS_SURE: u64 = 64;

/// Events older than this do not count for a judgement: what a file was asked by few and long ago
/// says little.
pub const JUDGE_WITHIN: Duration = Duration::from_secs(10);

/// A file without events for so long is forgotten, and its pattern with it.
pub const IDLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::DevNumber;
    use crate::trace::{Readahead, Why};

    /// Events of 2000 accesses (200 of 1 MiB) at a window of 128 KiB, counted on Linux 6.18.
    const COUNTED: [(&str, [u64; 4], u64, Pattern); 7] = [
        ("random 4 KiB faults", [0, 1, 1975, 33], 0, Pattern::RandomFaults),
        ("sequential faults", [0, 63, 64, 0], 0, Pattern::Stream),
        ("random 4 KiB reads", [1997, 0, 0, 1997], 1, Pattern::RandomReads { request: 1 }),
        ("random 64 KiB reads", [1976, 0, 0, 1976], 16, Pattern::RandomReads { request: 16 }),
        ("random 1 MiB reads", [198, 0, 0, 198], 256, Pattern::RandomReads { request: 256 }),
        ("sequential 4 KiB reads", [1, 68, 69, 0], 1, Pattern::Stream),
        ("sequential 128 KiB reads", [1, 2000, 2001, 0], 32, Pattern::Stream),
    ];

    #[test]
    fn counted_patterns_are_told_apart() {
        for (name, counted, request, expected) in COUNTED {
            let mut patterns = Patterns::new();
            let whys = [Why::Sync, Why::Async, Why::Order, Why::Unbounded];
            for (why, count) in whys.into_iter().zip(counted) {
                for step in 0..count {
                    let pages = if why == Why::Order { 32 } else { request };
                    patterns.record(&event(1, 77, why, step * 1_000, pages));
                }
            }
            let seen = patterns.settle(Instant(1));
            assert_eq!(seen.len(), 1, "{name}");
            assert_eq!(seen[0].pattern, expected, "{name}");
            assert_eq!(seen[0].counts.events(), counted.iter().sum::<u64>(), "{name}");
        }
    }

    #[test]
    fn what_lies_between_is_unclear() {
        // Half of the windows reach their marker.
        let mut patterns = Patterns::new();
        for step in 0..100 {
            patterns.record(&event(1, 77, Why::Order, step * 1_000, 32));
            if step % 2 == 0 {
                patterns.record(&event(1, 77, Why::Async, step * 1_000 + 8, 1));
            }
        }
        assert_eq!(patterns.settle(Instant(1))[0].pattern, Pattern::Unclear);
    }

    #[test]
    fn few_events_wait_for_more() {
        let mut patterns = Patterns::new();
        for period in 1..=4 {
            faults(&mut patterns, 5, period);
            let expected = if period < 4 { Pattern::Unclear } else { Pattern::RandomFaults };
            assert_eq!(patterns.settle(Instant(period))[0].pattern, expected, "{period}");
        }
        // The next ones come so late that those before say nothing.
        let mut patterns = Patterns::new();
        for period in 1..=20 {
            let at = period * JUDGE_WITHIN.0;
            faults(&mut patterns, 5, at);
            assert_eq!(patterns.settle(Instant(at))[0].pattern, Pattern::Unclear, "{period}");
        }
    }

    #[test]
    fn a_known_pattern_gives_way_to_two_judgements_or_many_events() {
        let mut patterns = Patterns::new();
        faults(&mut patterns, 20, 0);
        patterns.settle(Instant(1));
        stream(&mut patterns, 10, 1);
        assert_eq!(patterns.settle(Instant(2))[0].pattern, Pattern::RandomFaults);
        stream(&mut patterns, 10, 2);
        let seen = patterns.settle(Instant(3))[0];
        assert_eq!((seen.pattern, seen.since), (Pattern::Stream, Instant(3)));
        // A single doubt in between starts the count afresh.
        faults(&mut patterns, 20, 3);
        patterns.settle(Instant(4));
        stream(&mut patterns, 10, 4);
        patterns.settle(Instant(5));
        faults(&mut patterns, 20, 5);
        assert_eq!(patterns.settle(Instant(6))[0].pattern, Pattern::Stream);
        faults(&mut patterns, 64, 6);
        assert_eq!(patterns.settle(Instant(7))[0].pattern, Pattern::RandomFaults);
    }

    #[test]
    fn pages_are_brought_in_once_and_used_as_far_as_it_shows() {
        let mut patterns = Patterns::new();
        faults(&mut patterns, 100, 0);
        let seen = patterns.settle(Instant(1))[0];
        assert_eq!((seen.counts.brought, seen.counts.used), (3_200, 100));
        assert_eq!(seen.window, 32);
        // Of a stream all is used but its last window.
        let mut patterns = Patterns::new();
        stream(&mut patterns, 100, 0);
        let counts = patterns.settle(Instant(1))[0].counts;
        assert_eq!((counts.brought, counts.used), (101 * 32, 100 * 32));
        // A file system without large folios sends each window as a plain range.
        let mut patterns = Patterns::new();
        for step in 0..100 {
            patterns.record(&event(1, 77, Why::Order, step * 1_000, 32));
            patterns.record(&event(1, 77, Why::Unbounded, step * 1_000, 32));
        }
        let seen = patterns.settle(Instant(1))[0];
        assert_eq!((seen.counts.brought, seen.counts.used), (3_200, 100));
        assert_eq!(seen.pattern, Pattern::RandomFaults);
        // Reads in no order use what they ask for.
        let mut patterns = Patterns::new();
        for step in 0..50 {
            patterns.record(&event(1, 77, Why::Sync, step * 1_000, 16));
            patterns.record(&event(1, 77, Why::Unbounded, step * 1_000, 16));
        }
        let counts = patterns.settle(Instant(1))[0].counts;
        assert_eq!((counts.brought, counts.used), (800, 800));
    }

    #[test]
    fn threads_of_a_file_are_told_apart() {
        let mut patterns = Patterns::new();
        for step in 0..40 {
            patterns.record(&event(1, 5, Why::Order, step * 1_000, 32));
            patterns.record(&event(1, 6, Why::Async, step, 1));
            patterns.record(&event(1, 6, Why::Order, step, 64));
        }
        let seen = patterns.settle(Instant(1))[0];
        let of = |thread| seen.threads.iter().find(|seen| seen.thread == thread).unwrap().counts;
        assert_eq!(of(5).pattern(0, 0), Pattern::RandomFaults);
        assert_eq!(of(6).pattern(0, 0), Pattern::Stream);
        assert_eq!(of(5).brought, 40 * 32);
        // The next period begins with none.
        patterns.record(&event(1, 5, Why::Order, 0, 32));
        let seen = patterns.settle(Instant(2))[0];
        assert_eq!(seen.threads.iter().map(|seen| seen.thread).collect::<Vec<_>>(), [5]);
        assert_eq!(seen.counts.events(), 1);
    }

    #[test]
    fn more_threads_than_places_leave_the_last_ones() {
        let mut patterns = Patterns::new();
        for thread in 0..100 {
            patterns.record(&event(1, thread, Why::Order, u64::from(thread) * 1_000, 32));
        }
        let seen = patterns.settle(Instant(1))[0];
        let mut threads: Vec<u32> = seen.threads.iter().map(|seen| seen.thread).collect();
        threads.sort_unstable();
        assert!(threads.into_iter().eq(100 - THREADS_MAX as u32..100));
        assert_eq!(seen.counts.order, 100);
    }

    #[test]
    fn the_file_that_was_idle_for_longest_goes() {
        let mut patterns = Patterns::new();
        let most = FILES_MAX as u64;
        for ino in 0..most {
            patterns.record(&event(ino, 1, Why::Order, 0, 32));
        }
        patterns.record(&event(0, 1, Why::Order, 0, 32));
        patterns.record(&event(most, 1, Why::Order, 0, 32));
        assert_eq!(patterns.forgotten(), 1);
        let seen = patterns.settle(Instant(1));
        assert_eq!(seen.len(), FILES_MAX);
        let inodes: Vec<u64> = seen.iter().map(|seen| seen.file.ino).collect();
        assert!(inodes.is_sorted() && inodes.contains(&0) && inodes.contains(&most));
        assert!(!inodes.contains(&1));
    }

    #[test]
    fn an_idle_file_is_forgotten_with_its_pattern() {
        let mut patterns = Patterns::new();
        faults(&mut patterns, 20, 0);
        let file = patterns.settle(Instant(1))[0].file;
        assert_eq!(patterns.pattern(file), Pattern::RandomFaults);
        assert!(patterns.settle(Instant(2)).is_empty());
        assert_eq!(patterns.pattern(file), Pattern::RandomFaults);
        assert!(patterns.settle(Instant(IDLE_MAX.0 + 1)).is_empty());
        assert_eq!(patterns.pattern(file), Pattern::Unclear);
    }

    fn faults(patterns: &mut Patterns, count: u64, at: u64) {
        for step in 0..count {
            let mut event = event(1, 77, Why::Order, (step * 7_919) % 1_000_000, 32);
            event.at = at;
            patterns.record(&event);
        }
    }

    /// A miss, then so many markers.
    fn stream(patterns: &mut Patterns, count: u64, at: u64) {
        let mut record = |why, index, pages| {
            let mut event = event(1, 77, why, index, pages);
            event.at = at;
            patterns.record(&event);
        };
        record(Why::Sync, 0, 1);
        record(Why::Order, 0, 32);
        for step in 0..count {
            record(Why::Async, step * 32 + 24, 1);
            record(Why::Order, (step + 1) * 32, 32);
        }
    }

    fn event(ino: u64, pid: u32, why: Why, index: u64, pages: u64) -> Event {
        let file = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino };
        let window = if why == Why::Unbounded { 0 } else { 32 };
        let what = What::Readahead(Readahead { why, file, index, pages, window });
        Event { at: 0, pid, what }
    }
}
