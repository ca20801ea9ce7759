//! The record of a run, besides its calls.

use std::ops::AddAssign;

use forebay_core::stats::{Stats, Windows};
use forebay_core::time::{Duration, Instant};
use forebay_core::writeback::{Knobs, Levels};

use super::task::Layers;
use crate::cpu::Usage;
use crate::stats::Latencies;

/// The record of a run, besides its calls.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Sectors that devices read and wrote in each second in which they did, the first second being
    /// number 0.
    pub seconds: Vec<(u64, Moved)>,
    /// Windows of readahead in each second that had any.
    pub windows: Vec<(u64, Windows)>,
    /// The pauses of each task, up to the last one that paused.
    pub pauses: Vec<Pauses>,
    /// The lengths of all pauses.
    pub pause_lengths: Latencies,
    /// How long devices were busy in each second in which one was, summed over them.
    pub busy: Vec<(u64, Duration)>,
    /// How long pages were dirty while no device had a request.
    pub idle_while_dirty: Duration,
    /// Pages that were dirty or under writeback, times the nanoseconds for which they were, until
    /// the last task exited; divided by the time this is the mean level.
    pub unsafe_page_nanos: u128,
    /// The same in each second in which there were such pages, of the first [`LEVELS_MAX`] ones.
    pub levels: Vec<(u64, u128)>,
    /// The knobs of writeback, from each moment on.
    pub knobs: Vec<(Instant, Knobs)>,
    /// How things stood when the last task exited, before the finale.
    pub at_exit: Option<AtExit>,
    /// What each task had of the processor, those of the finale last.
    pub tasks: Vec<Usage>,
    /// What the kernel threads had of it, summed over them.
    pub kernel: Usage,
    /// How long cores were busy, summed over them: the tasks' and the kernel threads' time.
    pub cpu_busy: Duration,
    /// How often a core was given to a runner at a price.
    pub dispatches: u64,
    /// What these cost together.
    pub dispatch_time: Duration,
    /// Where the time of major faults went.
    pub faults: FaultTime,
    /// Time of idle cores that went into decoding ahead.
    pub idle_decoding: Duration,
}

/// Where the time of major faults went, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTime {
    /// How many there were.
    pub count: u64,
    /// From the touch until the program continues.
    pub total: Duration,
    /// Of it, entering and leaving the kernel, and adding the file's pages to the cache.
    pub memory: Duration,
    /// Of it, decoding, and the work on raw pages before.
    pub file_system: Duration,
}

impl FaultTime {
    /// The rest: requests, the device, and waiting for either.
    pub fn driver(&self) -> Duration {
        self.total - self.memory - self.file_system
    }
}

/// The pauses of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl AddAssign for Pauses {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// How things stood when the last task exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtExit {
    /// When that was.
    pub at: Instant,
    /// What the engine had counted.
    pub stats: Stats,
    /// Pages that were dirty or under writeback.
    pub levels: Levels,
}

/// Sectors moved in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// From the devices.
    pub read: u64,
    /// To the devices.
    pub written: u64,
    /// How many requests these came in.
    pub requests: u64,
}

/// The seconds of a run in which levels are kept: a day and a bit.
pub const LEVELS_MAX: u64 = 100_000;

impl Record {
    /// A major fault has ended.
    pub(super) fn count_fault(&mut self, length: Duration, layers: &Layers) {
        let faults = &mut self.faults;
        faults.count += 1;
        faults.total += length;
        faults.memory += layers.memory;
        faults.file_system += layers.file_system;
    }

    /// A request has moved its sectors.
    pub(super) fn count_moved(&mut self, now: Instant, sectors: u64, written: bool) {
        let second = now.0 / NANOS_PER_S;
        let seconds = &mut self.seconds;
        if seconds.last().is_none_or(|(last, _)| *last != second) {
            seconds.push((second, Moved::default()));
        }
        if let Some((_, moved)) = seconds.last_mut() {
            *(if written { &mut moved.written } else { &mut moved.read }) += sectors;
            moved.requests += 1;
        }
    }

    /// A readahead policy has asked for these windows.
    pub(super) fn count_windows(&mut self, now: Instant, windows: Windows) {
        let second = now.0 / NANOS_PER_S;
        match self.windows.last_mut() {
            Some((last, sum)) if *last == second => *sum += windows,
            Some(_) | None => self.windows.push((second, windows)),
        }
    }

    /// The knobs of writeback were set, possibly to the same values.
    pub(super) fn note_knobs(&mut self, now: Instant, knobs: &Knobs) {
        if self.knobs.last().is_some_and(|(_, last)| last != knobs) {
            self.knobs.push((now, *knobs));
        }
    }

    /// A device is busy from one moment to another: each second gets its part.
    pub(super) fn count_busy(&mut self, mut from: Instant, to: Instant) {
        let seconds = &mut self.busy;
        while from < to {
            let second = from.0 / NANOS_PER_S;
            let end = to.min(Instant(second.saturating_add(1).saturating_mul(NANOS_PER_S)));
            let place = seconds.partition_point(|(known, _)| *known < second);
            if seconds.get(place).is_none_or(|(known, _)| *known != second) {
                seconds.insert(place, (second, Duration::ZERO));
            }
            seconds[place].1 += end.since(from);
            if end == from {
                return;
            }
            from = end;
        }
    }

    /// So many pages are unsafe from one moment to another, which is not before the last one.
    pub(super) fn count_level(&mut self, mut from: Instant, to: Instant, pages: u64) {
        self.unsafe_page_nanos += u128::from(pages) * u128::from(to.since(from).as_nanos());
        while from < to && from.0 / NANOS_PER_S < LEVELS_MAX {
            let second = from.0 / NANOS_PER_S;
            let end = to.min(Instant((second + 1) * NANOS_PER_S));
            let part = u128::from(pages) * u128::from(end.since(from).as_nanos());
            match self.levels.last_mut() {
                Some((last, sum)) if *last == second => *sum += part,
                _ => self.levels.push((second, part)),
            }
            from = end;
        }
    }

    /// A task pauses.
    pub(super) fn count_pause(&mut self, task: usize, length: Duration) {
        let pauses = &mut self.pauses;
        if pauses.len() <= task {
            pauses.resize(task + 1, Pauses::default());
        }
        pauses[task] += Pauses { count: 1, total: length, longest: length };
        self.pause_lengths.record(length);
    }
}

/// Nanoseconds of a second.
const NANOS_PER_S: u64 = 1_000_000_000;
