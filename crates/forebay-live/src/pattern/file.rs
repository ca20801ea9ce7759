//! One file: what happened to it since the last period, and what it was judged to be.
//!
//! Source:     Forebay.
//! Behaviour:  events of a thread belong together: a window that follows its thread's miss or
//!             marker is a stream's, any other is one around a fault. Judgements take what came
//!             since the last judgement, be it in one period or several.
//! Differs:    nothing.
//! Not for:    files that are told apart by description; events name the file alone.

use forebay_core::time::Instant;

use super::{
    Counts, EVENTS_MIN, EVENTS_SURE, Ends, FileSeen, JUDGE_WITHIN, Pattern, THREADS_MAX,
    ThreadSeen, Threads,
};
use crate::number::FileKey;
use crate::trace::{Readahead, Why};

/// What is kept of a file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) key: FileKey,
    pattern: Pattern,
    since: Instant,
    /// Another pattern that the last judgement found.
    doubt: Option<Pattern>,
    /// Of the period.
    counts: Counts,
    ends: Ends,
    /// Since the last judgement, and when the first of them was.
    unjudged: Counts,
    unjudged_since: Instant,
    sizes: Sizes,
    runs: Sizes,
    /// The median of the runs that were last known.
    run: u64,
    window: u64,
    threads: Vec<Thread>,
    /// Number of the last event.
    turn: u64,
}

/// What is kept of a thread that asks for a file.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    thread: u32,
    /// Number of its last event; 0 before the first.
    turn: u64,
    counts: Counts,
    ends: Ends,
    last: Last,
}

/// A thread's last steps.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Why a window may follow, and the pages that were asked for.
    asked: Option<u64>,
    /// Of the last window or range, pages that are not known to have been used.
    open: u64,
    /// The last window: its first page and the page behind it.
    window: (u64, u64),
    /// What is read in order: the first page, and the one behind the last that was asked for.
    run: (u64, u64),
}

impl File {
    pub(super) fn new(key: FileKey, at: Instant) -> Self {
        Self {
            key,
            pattern: Pattern::Unclear,
            since: at,
            doubt: None,
            counts: Counts::default(),
            ends: Ends::default(),
            unjudged: Counts::default(),
            unjudged_since: at,
            sizes: Sizes::default(),
            runs: Sizes::default(),
            run: 0,
            window: 0,
            threads: Vec::new(),
            turn: 0,
        }
    }

    pub(super) fn pattern(&self) -> Pattern {
        self.pattern
    }

    pub(super) fn record(&mut self, at: Instant, thread: u32, readahead: &Readahead) {
        self.turn += 1;
        if readahead.window > 0 {
            self.window = readahead.window;
        }
        if readahead.why == Why::Sync {
            self.sizes.add(readahead.pages, 1);
        }
        if self.unjudged.events() == 0 {
            self.unjudged_since = at;
        }
        let turn = self.turn;
        let thread = self.thread(thread);
        thread.turn = turn;
        let ended = thread.last.follow(readahead);
        let change = thread.last.step(readahead);
        thread.counts += change;
        if readahead.why == Why::Order {
            thread.ends.add(readahead.index, readahead.pages);
            self.ends.add(readahead.index, readahead.pages);
        }
        self.counts += change;
        self.unjudged += change;
        if let Some(pages) = ended {
            // By pages: four lookups of one page beside a range of a hundred do not hide it.
            self.runs.add(pages, pages);
        }
    }

    /// Judges, and ends the period.
    pub(super) fn settle(&mut self, now: Instant) -> Option<FileSeen> {
        let counts = std::mem::take(&mut self.counts);
        let ends = std::mem::take(&mut self.ends);
        if counts.events() == 0 {
            return None;
        }
        if now.since(self.unjudged_since) >= JUDGE_WITHIN && self.unjudged.events() < EVENTS_MIN {
            // What is left is at most this period's.
            self.unjudged = counts;
            self.unjudged_since = now;
            self.sizes = Sizes::default();
        }
        self.judge(now);
        let mut threads = Threads::default();
        for place in self.threads.iter_mut().filter(|place| place.counts.events() > 0) {
            let counts = std::mem::take(&mut place.counts);
            let ends = std::mem::take(&mut place.ends);
            threads.push(ThreadSeen { thread: place.thread, counts, ends });
        }
        let Self { key, pattern, since, window, run, .. } = *self;
        Some(FileSeen { file: key, pattern, since, counts, window, run, threads, ends })
    }

    fn judge(&mut self, now: Instant) {
        let events = self.unjudged.events();
        if events < EVENTS_MIN {
            return;
        }
        if self.runs.median() > 0 {
            self.run = std::mem::take(&mut self.runs).median();
        }
        let found = self.unjudged.pattern(self.sizes.median(), self.run);
        self.unjudged = Counts::default();
        self.sizes = Sizes::default();
        if found.is_like(self.pattern) {
            self.pattern = found;
            self.doubt = None;
            return;
        }
        let agrees = self.doubt.is_some_and(|doubt| doubt.is_like(found));
        if agrees || events >= EVENTS_SURE || self.pattern == Pattern::Unclear {
            self.pattern = found;
            self.since = now;
            self.doubt = None;
        } else {
            self.doubt = Some(found);
        }
    }

    /// The thread's place, which may have been another's.
    fn thread(&mut self, thread: u32) -> &mut Thread {
        let known = self.threads.iter().position(|known| known.thread == thread);
        let new = Thread { thread, ..Thread::default() };
        let place = if let Some(place) = known {
            place
        } else if self.threads.len() < THREADS_MAX {
            self.threads.push(new);
            self.threads.len() - 1
        } else {
            let oldest = self.threads.iter().enumerate().min_by_key(|(_, known)| known.turn);
            let place = oldest.map_or(0, |(place, _)| place);
            self.threads[place] = new;
            place
        };
        &mut self.threads[place]
    }
}

impl Last {
    /// Follows what is read in order; the pages of the run that ended with this event.
    fn follow(&mut self, readahead: &Readahead) -> Option<u64> {
        let behind = readahead.index.saturating_add(readahead.pages);
        let (first, known) = self.run;
        if matches!(readahead.why, Why::Order | Why::Unbounded) {
            return None;
        }
        // Onwards only: what was brought in and not missed may have been read. Lookups that hit
        // markers of earlier windows would otherwise be one run without end.
        if (known..=known.max(self.window.1)).contains(&readahead.index) {
            self.run.1 = behind;
            return None;
        }
        // Also a marker that another run has left. It may bring in nothing, and the window is of
        // the run before.
        (self.run, self.window) = ((readahead.index, behind), (0, 0));
        Some(known - first).filter(|pages| *pages > 0)
    }

    /// What an event adds to the counts.
    fn step(&mut self, readahead: &Readahead) -> Counts {
        let mut change = Counts::default();
        let pages = readahead.pages;
        match readahead.why {
            Why::Sync => {
                change.sync = 1;
                self.asked = Some(pages);
                self.window = (0, 0);
            }
            Why::Async => {
                change.marker = 1;
                // A reader that reaches the marker has used what lies before, and will use the
                // rest.
                change.used = std::mem::take(&mut self.open);
                // Of another reader's window only the page of the marker is known to be used.
                self.asked = Some(u64::from(change.used == 0));
            }
            Why::Order => {
                change.order = 1;
                change.brought = pages;
                change.used = self.asked.take().unwrap_or(1).min(pages);
                self.open = pages - change.used;
                self.window = (readahead.index, readahead.index.saturating_add(pages));
            }
            Why::Unbounded => {
                change.unbounded = 1;
                let (first, behind) = self.window;
                // Where pages are not put into larger folios, a window goes out as a range.
                if !(first..behind).contains(&readahead.index) {
                    change.brought = pages;
                    change.used = self.asked.take().unwrap_or(pages).min(pages);
                    self.open = pages - change.used;
                }
            }
        }
        change
    }
}

/// How many reads or runs had how many pages, by powers of two.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes([u32; SIZES]);

impl Sizes {
    fn add(&mut self, pages: u64, weight: u64) {
        let power = pages.max(1).next_power_of_two().trailing_zeros() as usize;
        let place = &mut self.0[power.min(SIZES - 1)];
        *place = place.saturating_add(u32::try_from(weight).unwrap_or(u32::MAX));
    }

    /// The median, rounded up to a power of two; 0 of none.
    fn median(&self) -> u64 {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let mut before = 0;
        for (power, count) in self.0.iter().enumerate() {
            before += u64::from(*count);
            if before > 0 && before >= all.div_ceil(2) {
                return 1 << power;
            }
        }
        0
    }
}

/// Powers of two up to 2^20 pages, which are 4 GiB: a read has 2 GiB at most.
const SIZES: usize = 21;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::DevNumber;

    /// Eight reads of 16 pages at places in no order, at windows of 8 MiB, as Linux 6.18 answers
    /// them.
    #[test]
    fn eight_reads_in_order_are_a_run() {
        let key = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };
        let mut file = File::new(key, Instant::ZERO);
        for run in 0..20_u64 {
            let first = run * 7_919 % 1_000 * 4_096;
            for (why, at, pages) in [
                (Why::Sync, 0, 16),
                (Why::Unbounded, 0, 16),
                (Why::Sync, 16, 16),
                (Why::Order, 16, 64),
                (Why::Async, 32, 16),
                (Why::Order, 80, 256),
                (Why::Async, 80, 16),
                (Why::Order, 336, 512),
            ] {
                let event = Readahead { why, file: key, index: first + at, pages, window: 2_048 };
                file.record(Instant(1), 7, &event);
            }
        }
        let seen = file.settle(Instant(2)).unwrap();
        assert_eq!((seen.run, seen.pattern), (128, Pattern::ShortRuns { pages: 128 }));
    }

    /// A lookup that reaches the marker of a run of before brings in nothing; a run of a gigabyte
    /// was made of it and the window that had come before.
    #[test]
    fn a_marker_without_a_window_begins_no_run_up_to_the_last_window() {
        let key = FileKey { dev: DevNumber { major: 8, minor: 0 }, ino: 12 };
        let mut file = File::new(key, Instant::ZERO);
        for (why, index, pages) in [
            (Why::Sync, 90_000, 1),
            (Why::Order, 90_000, 16),
            (Why::Async, 400, 1),
            (Why::Sync, 80_000, 1),
            (Why::Order, 80_000, 16),
            (Why::Sync, 10, 1),
        ] {
            file.record(Instant(1), 7, &Readahead { why, file: key, index, pages, window: 16 });
        }
        assert_eq!(file.runs.median(), 1);
    }

    #[test]
    fn the_median_is_that_of_most_reads() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.median(), 0);
        for pages in [1, 16, 16, 13, 1 << 40] {
            sizes.add(pages, 1);
        }
        assert_eq!(sizes.median(), 16);
        sizes = Sizes::default();
        sizes.add(u64::MAX / 2, 1);
        assert_eq!(sizes.median(), 1 << 20);
        sizes = Sizes::default();
        sizes.add(0, 1);
        assert_eq!(sizes.median(), 1);
    }
}
