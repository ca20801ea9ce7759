//! A small machine without an engine: writers, a flusher and a device, in exact virtual time.
//!
//! ```text
//!   writer: 64 KiB of 16 pages, 30 us -+                    +--> device: B pages a second,
//!   writer ...                         +--> dirty --flusher-+    chunks of 64 pages
//!   light writer: a page every 20 ms  -+    (from background on)
//! ```

use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::{DirtyView, Spec, Throttle};
use crate::time::{Duration, Instant};
use crate::units::{CallId, DeviceId};
use crate::writeback::{Drain, Levels};

/// The limit of all tests, 128 MiB.
pub(super) const LIMIT: u64 = 32_768;

/// The background level of all tests, 64 MiB.
pub(super) const BACKGROUND: u64 = 16_384;

/// Pages of one write.
const WRITE: u64 = 16;

/// Processor time of a page, so that a write takes 30 us.
const PAGE_TIME: Duration = Duration(1_875);

/// The light writer's pause between two pages.
const LIGHT_PERIOD: Duration = Duration::from_millis(20);

/// Pages that the device takes at a time.
const CHUNK: u64 = 64;

/// Latencies from this moment on are those of a machine that has settled.
const SETTLED: Instant = Instant(400_000_000);

/// One device's only pages, `dirty` of them unsafe, `millis` after the origin.
pub(super) fn view(millis: u64, dirty: u64) -> DirtyView {
    let levels = Levels { dirty, dirtied: dirty, ..Levels::default() };
    DirtyView {
        now: Instant::ZERO + Duration::from_millis(millis),
        newly: true,
        again: false,
        all: levels,
        background: BACKGROUND,
        limit: LIMIT,
        device: DeviceId(0),
        own: levels,
        drain: None,
    }
}

/// Where the flusher stops while writers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Background,
    Clean,
}

/// What runs on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) writers: u32,
    /// Pages that the writers write in all.
    pub(super) pages: u64,
    /// Pages a second of the device.
    pub(super) drain: u64,
    /// From when on the device has another speed.
    pub(super) change: Option<(Instant, u64)>,
    /// Whether the drain has been measured before.
    pub(super) warm: bool,
    pub(super) stop: Stop,
    /// In pages; the background level is half of it.
    pub(super) limit: u64,
}

impl Case {
    /// 512 MiB to a device of 10000 pages a second that has not been measured.
    pub(super) fn cold(writers: u32, stop: Stop) -> Self {
        Self {
            writers,
            pages: 131_072,
            drain: 10_000,
            change: None,
            warm: false,
            stop,
            limit: LIMIT,
        }
    }
}

/// Results of a run; times in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) done: u64,
    pub(super) drained: u64,
    pub(super) peak_pages: u64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    /// The longest pause of a write that began after 400 ms.
    pub(super) max_settled: u64,
    pub(super) light_p99: u64,
    pub(super) light_max: u64,
    /// Time without a write at the device while more than the background level was dirty.
    pub(super) idle: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The device has written its chunk.
    Written,
    /// A task has filled a page.
    Page(u32),
    /// A task comes back from its pause.
    Again(u32),
}

#[derive(Clone, Debug)]
struct Task {
    /// Pages that are left to write; the light writer has no end.
    left: u64,
    /// Of the present write.
    paused: Duration,
    began: Instant,
    pauses: Vec<(Instant, Duration)>,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Bench {
    policy: Box<dyn Throttle>,
    case: Case,
    now: Instant,
    sequence: u64,
    events: BTreeMap<(Instant, u64), Event>,
    levels: Levels,
    drain: Drain,
    flushing: bool,
    tasks: Vec<Task>,
    running: u32,
    done: Instant,
    peak: u64,
    idle_since: Option<Instant>,
    idle: Duration,
}

impl Bench {
    /// Runs a policy given by its specification.
    pub(super) fn run(spec: &str, case: Case) -> Seen {
        Self::run_policy(Spec::parse(spec).unwrap().build(), case)
    }

    /// Runs a policy.
    pub(super) fn run_policy(policy: Box<dyn Throttle>, case: Case) -> Seen {
        let share = case.pages / u64::from(case.writers);
        let task =
            |left| Task { left, paused: Duration::ZERO, began: Instant::ZERO, pauses: Vec::new() };
        let mut tasks = std::vec![task(share); case.writers as usize];
        tasks.push(task(u64::MAX));
        let mut bench = Self {
            policy,
            case,
            now: Instant::ZERO,
            sequence: 0,
            events: BTreeMap::new(),
            levels: Levels::default(),
            drain: Drain::default(),
            flushing: false,
            tasks,
            running: case.writers,
            done: Instant::ZERO,
            peak: 0,
            idle_since: None,
            idle: Duration::ZERO,
        };
        if case.warm {
            bench.drain.begin(Instant::ZERO);
            bench.drain.end(Instant(1_000_000_000), case.drain, true);
        }
        for writer in 0..case.writers {
            bench.at(PAGE_TIME, Event::Page(writer));
        }
        bench.at(LIGHT_PERIOD, Event::Page(case.writers));
        while let Some(((now, _), event)) = bench.events.pop_first() {
            bench.now = now;
            match event {
                Event::Written => bench.written(),
                Event::Page(task) => bench.page(task),
                Event::Again(task) => bench.ask(task, true),
            }
        }
        bench.seen()
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + after, self.sequence), event);
    }

    fn page(&mut self, task: u32) {
        self.levels.dirty += 1;
        self.levels.dirtied += 1;
        self.peak = self.peak.max(self.levels.unsafe_pages());
        self.tasks[task as usize].left -= 1;
        self.flush();
        self.ask(task, false);
    }

    fn ask(&mut self, task: u32, again: bool) {
        let view = DirtyView {
            now: self.now,
            newly: !again,
            again,
            all: self.levels,
            background: self.case.limit / 2,
            limit: self.case.limit,
            device: DeviceId(0),
            own: self.levels,
            drain: self.drain.pages_per_second(),
        };
        let pause = self.policy.on_dirtied(CallId(task), &view);
        if let Some(pause) = pause {
            assert!(pause > Duration::ZERO && pause <= Duration::from_millis(200), "{pause}");
            self.tasks[task as usize].paused += pause;
            self.at(pause, Event::Again(task));
            return;
        }
        self.next_page(task);
    }

    fn next_page(&mut self, index: u32) {
        let light = index == self.case.writers;
        let now = self.now;
        let task = &mut self.tasks[index as usize];
        let ended = light || task.left.is_multiple_of(WRITE);
        if ended {
            task.pauses.push((task.began, task.paused));
            task.paused = Duration::ZERO;
            task.began = now + if light { LIGHT_PERIOD } else { Duration::ZERO };
        }
        if !light && task.left == 0 {
            self.running -= 1;
            self.done = now;
            self.flush();
        } else if !light {
            self.at(PAGE_TIME, Event::Page(index));
        } else if self.running > 0 {
            self.at(LIGHT_PERIOD, Event::Page(index));
        }
    }

    /// Gives the device its next chunk, if there is a reason to.
    fn flush(&mut self) {
        if self.levels.writeback > 0 {
            return;
        }
        let dirty = self.levels.dirty;
        let above = dirty > self.case.limit / 2;
        let clean = self.case.stop == Stop::Clean || self.running == 0;
        self.flushing = dirty > 0 && (above || self.running == 0 || (clean && self.flushing));
        if !self.flushing {
            if above {
                self.idle_since.get_or_insert(self.now);
            }
            return;
        }
        if let Some(since) = self.idle_since.take() {
            self.idle += self.now.since(since);
        }
        let chunk = dirty.min(CHUNK);
        self.levels.dirty -= chunk;
        self.levels.writeback = chunk;
        let drain = match self.case.change {
            Some((at, drain)) if self.now >= at => drain,
            Some(_) | None => self.case.drain,
        };
        self.drain.begin(self.now);
        self.at(Duration(chunk * 1_000_000_000 / drain), Event::Written);
    }

    fn written(&mut self) {
        let chunk = core::mem::take(&mut self.levels.writeback);
        self.levels.written += chunk;
        self.flush();
        self.drain.end(self.now, chunk, self.levels.writeback == 0);
    }

    fn seen(mut self) -> Seen {
        assert_eq!(self.levels.written, self.levels.dirtied, "everything is written at the end");
        let light = self.tasks.pop().expect("the light writer is the last");
        let all = || self.tasks.iter().flat_map(|task| &task.pauses);
        let settled = all().filter(|(began, _)| *began >= SETTLED);
        let writes = sorted(all());
        let light = sorted(light.pauses.iter());
        Seen {
            done: self.done.0 / 1_000,
            drained: self.now.0 / 1_000,
            peak_pages: self.peak,
            p50: percentile(&writes, 50),
            p99: percentile(&writes, 99),
            max: percentile(&writes, 100),
            max_settled: percentile(&sorted(settled), 100),
            light_p99: percentile(&light, 99),
            light_max: percentile(&light, 100),
            idle: self.idle.0 / 1_000,
        }
    }
}

fn sorted<'a>(pauses: impl Iterator<Item = &'a (Instant, Duration)>) -> Vec<u64> {
    let mut micros: Vec<_> = pauses.map(|(_, pause)| pause.0 / 1_000).collect();
    micros.sort_unstable();
    micros
}

/// The least value that this percentage does not exceed; nothing is zero.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
