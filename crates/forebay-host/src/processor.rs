//! The cost of a context switch on this machine, and whether another task needs the processor.
//!
//! ```text
//!   contended   caller|==| switch | another task         | switch |==|     two switches
//!   idle        caller|==| halt ........................ | wake   |==|     waking a halted
//!                                                                          processor
//! ```
//!
//! Both are measured once in a process by a byte that two threads pass to and fro through pipes: on
//! one processor, and on two that halt in between. Of many round trips a low quantile counts, as
//! everything else that runs only adds.
//!
//! Whether the processor is wanted is the number of runnable tasks in `/proc/loadavg`, compared
//! with the processors that this thread may use. The count is there at any moment, also while this
//! thread sleeps most of the time; involuntary switches and the delay on the run queue show others
//! only to a thread that uses its processor up, so a rule that stops spinning would lose sight of
//! them. On a large machine of which this thread may use a part, the count is too large; then the
//! thread sleeps where it could have spun.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::dispatch::Processor;
use forebay_core::time;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The cost of switching to another task and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// When another task takes it.
    pub(crate) contended: Duration,
    /// When it halts.
    pub(crate) idle: Duration,
}

/// The costs on this machine; the first call measures them, for some milliseconds.
pub(crate) fn costs() -> Costs {
    static COSTS: OnceLock<Costs> = OnceLock::new();
    *COSTS.get_or_init(|| {
        let here = sched_getcpu();
        let contended = round_trip(here, here).unwrap_or(ASSUMED);
        let other = sched_getaffinity(None).ok().and_then(|allowed| {
            (0..CpuSet::MAX_CPU).find(|cpu| *cpu != here && allowed.is_set(*cpu))
        });
        // There and back wakes two processors.
        let idle = other.and_then(|other| round_trip(here, other)).map(|trip| trip / 2);
        let contended = contended.min(COST_MAX);
        Costs { contended, idle: idle.unwrap_or(contended).clamp(contended, COST_MAX) }
    })
}

/// Sees every few milliseconds whether the processors are wanted by more tasks than there are.
#[derive(Debug)]
pub(crate) struct Watch {
    processors: u64,
    seen: Option<Instant>,
    /// How many samples ago they were wanted.
    since_contended: u32,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
        Self { processors, seen: None, since_contended: CALM }
    }

    /// The current state of the processor.
    pub(crate) fn processor(&mut self, now: Instant) -> Processor {
        if self.seen.is_none_or(|seen| now.saturating_duration_since(seen) >= PERIOD) {
            self.seen = Some(now);
            self.sample();
        }
        let contended = self.since_contended < CALM;
        let costs = costs();
        let switch = if contended { costs.contended } else { costs.idle };
        Processor { switch: time::Duration(nanos(switch)), contended }
    }

    fn sample(&mut self) {
        let mut text = [0; 64];
        let read = loadavg().and_then(|file| file.read_at(&mut text, 0).ok());
        let runnable = read.and_then(|len| runnable(str::from_utf8(&text[..len]).ok()?));
        if runnable.is_some_and(|runnable| runnable > self.processors) {
            self.since_contended = 0;
        } else {
            self.since_contended = self.since_contended.saturating_add(1);
        }
    }
}

/// The file with the count, which all watches of the process read.
fn loadavg() -> Option<&'static File> {
    static LOADAVG: OnceLock<Option<File>> = OnceLock::new();
    LOADAVG.get_or_init(|| File::open("/proc/loadavg").ok()).as_ref()
}

/// Nanoseconds, as many as there can be.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The runnable tasks in `0.44 0.30 0.74 2/91 9505`.
fn runnable(loadavg: &str) -> Option<u64> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How long it takes to hand a byte to a thread on `there` and to get it back on `here`.
fn round_trip(here: usize, there: usize) -> Option<Duration> {
    let (theirs, ours) = (pipe()?, pipe()?);
    let partner = thread::Builder::new().name("forebay-switch".to_owned()).spawn(move || {
        let (mut receive, mut answer) = (theirs.0, ours.1);
        let mut byte = [0];
        let pinned = pin(there).is_some();
        while pinned && receive.read_exact(&mut byte).is_ok() && answer.write_all(&byte).is_ok() {}
    });
    let asker = thread::Builder::new().name("forebay-switch".to_owned()).spawn(move || {
        pin(here)?;
        fastest(theirs.1, ours.0)
    });
    // The caller's pipe closes when it ends, and with it the partner.
    let trip = asker.ok()?.join().ok()?;
    partner.ok()?.join().ok()?;
    trip
}

/// A low quantile of round trips.
fn fastest(mut send: File, mut receive: File) -> Option<Duration> {
    let begin = Instant::now();
    let mut trips = Vec::new();
    while trips.len() < TRIPS && begin.elapsed() < MEASURE {
        let trip = Instant::now();
        send.write_all(&[1]).ok()?;
        receive.read_exact(&mut [0]).ok()?;
        trips.push(trip.elapsed());
    }
    trips.sort_unstable();
    trips.get(trips.len() / 20).copied()
}

fn pin(cpu: usize) -> Option<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()
}

fn pipe() -> Option<(File, File)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    Some((read.into(), write.into()))
}

/// Where nothing can be measured: two switches of a server's processor.
const ASSUMED: Duration = Duration::from_micros(4);

/// A thousandth of it is what a sample costs.
const PERIOD: Duration = Duration::from_millis(4);

/// After this many samples without a waiting task the processor counts as idle: one sample may fall
/// between two turns of the others.
const CALM: u32 = 4;

const TRIPS: usize = 256;

/// No switch costs more: such a measurement shows time slices of other tasks.
const COST_MAX: Duration = Duration::from_micros(100);

/// The longest that one of two measurements takes, unless others hold it up.
const MEASURE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runnable_tasks_stand_before_the_slash() {
        assert_eq!(runnable("0.44 0.30 0.74 2/91 9505\n"), Some(2));
        for odd in ["", "0.4 0.3", "0.4 0.3 0.7 91 9505", "0 0 0 x/9 1"] {
            assert_eq!(runnable(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_switch_costs_something_and_a_halt_no_less() {
        let costs = costs();
        assert!(costs.contended > Duration::from_nanos(100), "{costs:?}");
        assert!(costs.idle >= costs.contended, "{costs:?}");
    }

    #[test]
    fn processors_are_wanted_until_several_samples_have_not_seen_it() {
        let mut watch = Watch { processors: 0, ..Watch::new() };
        watch.sample();
        assert_eq!(watch.since_contended, 0);
        watch.processors = u64::MAX;
        for past in 1..=CALM {
            assert!(watch.since_contended < CALM);
            watch.sample();
            assert_eq!(watch.since_contended, past);
        }
    }
}
