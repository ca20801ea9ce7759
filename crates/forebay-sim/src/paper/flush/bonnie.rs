//! A run of bonnie: the rates of its phases, the dirty data that a phase leaves in memory, and
//! values over time.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::{KIB, MIB, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use super::series;
use super::settings::Setting;
use crate::machine::{Machine, MachineError};
use crate::paper::Measured;
use crate::rng::Rng;
use crate::scenario::{NewFile, Scenario};
use crate::workload::bonnie::{Bonnie, Handles, Mark, Phase};
use crate::workload::marks::Log;

/// How much of bonnie is run, on a file of this many MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// The five phases that the tables have, without the seeks.
    Tables(u64),
    /// All of it, with values for each second.
    OverTime(u64),
    /// Up to the end of a phase, whose data then becomes safe.
    Until(u64, Phase),
}

/// The phases whose rates the paper prints, with their names here.
pub(super) const PHASES: [(Phase, &str); 4] = [
    (Phase::PutChars, "char write"),
    (Phase::BlockWrite, "block write"),
    (Phase::GetChars, "char read"),
    (Phase::BlockRead, "block read"),
];

/// MiB that are not on the disks when the phase ends.
pub(super) const RESIDUE: &str = "left in memory";
/// From the beginning of the phase until all that it wrote is safe, in seconds.
pub(super) const DURABLE: &str = "time to durable";

impl Run {
    /// The name of the workload in an experiment.
    pub(super) fn name(self) -> String {
        match self {
            Self::Tables(mib) => Self::of_size(mib).to_owned(),
            Self::OverTime(mib) => format!("{}, over time", Self::of_size(mib)),
            Self::Until(mib, phase) => format!("{}, until {phase:?}", Self::of_size(mib)),
        }
    }

    /// The name of the workload in a row.
    pub(super) fn of_size(mib: u64) -> &'static str {
        if mib == 100 { "bonnie -s 100" } else { "bonnie -s 1000" }
    }

    /// Runs it once on a machine.
    pub(super) fn measure(
        self,
        machine: &Machine,
        setting: Setting,
        seed: u64,
    ) -> Result<Measured, MachineError> {
        let (mib, pids, last) = match self {
            Self::Tables(mib) => (mib, None, Phase::BlockRead),
            Self::OverTime(mib) => (mib, Some([1001, 1002, 1003]), Phase::Seeks),
            Self::Until(mib, phase) => (mib, None, phase),
        };
        let (put, get) = machine.stdio_char();
        let bonnie = Bonnie { pids, ..Bonnie::new(mib, put, get) };
        let file = NewFile { room: bonnie.file_bytes(), inode: true, ..NewFile::default() };
        let policies = setting.policies(machine);
        let mut scenario = Scenario::new(machine, &policies, seed, bonnie.task_count(), &[file])?;
        let handles = Handles {
            phases: [(); 5].map(|()| scenario.open(0)),
            seekers: [(); 3].map(|()| scenario.open(0)),
        };
        let (tasks, log) = bonnie.tasks(handles);
        let begin = begin(seed);
        let until = |inner| -> Box<dyn Workload> {
            Box::new(Until { inner, begin, last, log: log.clone() })
        };
        let (outcome, record) = scenario.run(tasks.into_iter().map(until).collect(), &mut |_| ());
        let marks = log.notes();
        let mut measured = Measured::new(marks.iter().map(|mark| mark.bytes).sum(), outcome);
        measured.figures = marks.iter().filter_map(rate).collect();
        match self {
            Self::Tables(_) => {}
            Self::OverTime(mib) => {
                let frames = machine.page_cache_bytes() / PAGE_SIZE;
                measured.series = series::of(Self::of_size(mib), setting.name, &record, frames);
            }
            Self::Until(..) => {
                let start = marks.last().map_or(Instant::ZERO, |mark| mark.start);
                let durable = Instant::ZERO + outcome.durable;
                let residue = (outcome.residue * PAGE_SIZE) as f64 / MIB as f64;
                measured.figures.push((RESIDUE, residue));
                measured.figures.push((DURABLE, durable.since(start).as_nanos() as f64 / 1e9));
            }
        }
        Ok(measured)
    }
}

/// When bonnie starts. How much of its sleep of 5 s kupdate has left then is not known.
fn begin(seed: u64) -> Instant {
    let interval = Duration::from_secs(5).as_nanos();
    Instant::ZERO + Duration(Rng::new(seed).fork("start", 0).below(interval))
}

/// The rate of a phase in units of 1024 bytes a second, as bonnie prints it.
fn rate(mark: &Mark) -> Option<(&'static str, f64)> {
    let (_, name) = PHASES.iter().find(|(phase, _)| *phase == mark.phase)?;
    let seconds = mark.end.since(mark.start).as_nanos() as f64 / 1e9;
    Some((name, mark.bytes as f64 / KIB as f64 / seconds))
}

/// A task that begins at a moment and goes no further than the end of a phase.
struct Until {
    inner: Box<dyn Workload>,
    begin: Instant,
    last: Phase,
    log: Log<Mark>,
}

impl Workload for Until {
    fn next(&mut self, now: Instant) -> Step {
        if now < self.begin {
            return Step::Sleep(self.begin);
        }
        let step = self.inner.next(now);
        let over = self.log.last().is_some_and(|mark| mark.phase == self.last);
        if over && self.last != Phase::Seeks { Step::Exit } else { step }
    }
}
