//! The backup that froze the paper's server: the longest time in which nobody gets an answer.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, MIB};
use forebay_core::workload::Finished;

use super::settings::Setting;
use crate::machine::{Machine, MachineError};
use crate::paper::Measured;
use crate::scenario::{NewFile, Scenario};
use crate::workload::burst::Burst;

/// What was run.
pub(super) const ROW: &str = "8 writers of 256 MB";

/// A fourth of the paper's 1 GB for each, which still is more than four times memory: the writers
/// wait for the disks from the first seconds on.
pub(super) const BURST: Burst = Burst { bytes: 256 * MIB, ..Burst::DEFAULT };

/// The longest time without any answer, in seconds.
pub(super) const ALL: &str = "longest time without any answer";
/// The longest time without an answer to the light writer, in seconds.
pub(super) const LIGHT: &str = "longest time without an answer to the light writer";
/// The longest time without an answer to the reader, in seconds.
pub(super) const READER: &str = "longest time without an answer to the reader";
/// From the start until all is safe, in seconds.
pub(super) const DURABLE: &str = "time to durable";

/// The longest time between two answers, the start and the end of the burst taken for answers.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    last: Instant,
    longest: Duration,
}

impl Gap {
    fn answer(&mut self, at: Instant) {
        self.longest = self.longest.max(at.since(self.last));
        self.last = self.last.max(at);
    }

    fn figure(self, name: &'static str) -> (&'static str, f64) {
        (name, self.longest.as_nanos() as f64 / 1e9)
    }
}

/// Runs the burst once on a machine.
pub(super) fn measure(
    burst: Burst,
    machine: &Machine,
    setting: Setting,
    seed: u64,
) -> Result<Measured, MachineError> {
    let grows = |file: &crate::workload::burst::File| NewFile {
        bytes: file.bytes,
        room: file.room,
        inode: true,
    };
    let files: Vec<NewFile> = burst.files().iter().map(grows).collect();
    let tasks = files.len() as u32;
    let policies = setting.policies(machine);
    let mut scenario = Scenario::new(machine, &policies, seed, tasks, &files)?;
    let (tasks, _) = burst.tasks(seed, |file| scenario.open(file));
    let (light, reader) = (CallId(burst.writers), CallId(burst.writers + 1));
    let (mut bytes, mut gaps) = (0, [Gap::default(); 3]);
    let mut observe = |finished: &Finished| {
        // The sync at the end is no client's.
        if finished.task.0 > reader.0 {
            return;
        }
        bytes += finished.result.unwrap_or(0);
        let concerned = [true, finished.task == light, finished.task == reader];
        let concerned = gaps.iter_mut().zip(concerned).filter(|(_, concerned)| *concerned);
        concerned.for_each(|(gap, _)| gap.answer(finished.done));
    };
    let (outcome, _) = scenario.run(tasks, &mut observe);
    // Who waited for an answer when the last one came waited until then.
    let end = gaps[0].last;
    gaps.iter_mut().for_each(|gap| gap.answer(end));
    let mut measured = Measured::new(bytes, outcome);
    measured.figures =
        gaps.iter().zip([ALL, LIGHT, READER]).map(|(gap, name)| gap.figure(name)).collect();
    measured.figures.push((DURABLE, outcome.durable.as_nanos() as f64 / 1e9));
    Ok(measured)
}
